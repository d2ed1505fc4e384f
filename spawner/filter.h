/* The filter of system calls that all cells get: the policy of the installation, changed by the operator, compiled once at start. */
#pragma once

#include "common/config.h"
#include "spawner/steps/seccomp-program.h"

/* *ret is NULL where the layer is waived. On an error of the operator's ret_error says file, line and cure. */
int filter_new(const struct Config *config, char *const *waive, struct SeccompProgram **ret, char **ret_error);
/* Could it be compiled? */
int filter_check(const struct Config *config, char *const *waive, char **ret_error);
struct SeccompProgram *filter_free(struct SeccompProgram *p);
DEFINE_CLEANUP(struct SeccompProgram *, filter_free)
