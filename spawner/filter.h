/* The filter of system calls that all cells get: the policy of the installation, changed by the operator, compiled once at start. */
#pragma once

#include "common/config.h"
#include "spawner/steps/seccomp-programs.h"

/* *ret is NULL where the layer is waived. On an error of the operator's ret_error says file, line and cure. */
int filter_new(const struct Config *config, char *const *waive, struct SeccompPrograms **ret, char **ret_error);
struct SeccompPrograms *filter_free(struct SeccompPrograms *p);
DEFINE_CLEANUP(struct SeccompPrograms *, filter_free)
