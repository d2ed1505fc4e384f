/* The files runtimes.d/NAME.conf. */
#pragma once

#include "common/config.h"

/* Reads every *.conf of the folder into c->runtimes; one of the same file name replaces what was there; one
 * of nothing but comments removes it. A folder that is not there is fine when optional. */
int runtimes_load(struct Config *c, const char *folder, bool optional, char **ret_error);
/* What cannot be seen in one file: profiles that do not exist, the same name and version twice, an ending twice. */
int runtimes_check(const struct Config *c, char **ret_error);
void runtime_done(struct Runtime *r);
