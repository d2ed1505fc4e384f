/* Reading the config again: may the running spawner go on with it, and what of it counts only after a restart. */
#pragma once

#include "common/config.h"

/* Everything that a start with this config would refuse and that needs no cell to be seen: the policy of system calls compiles, disks and
 * roots are there and safe, files of [tls] exist. Changes nothing and needs no privilege. On an error ret_error is one line for the
 * operator. waive: layers of the flag; those of the config count anyway. */
int reload_check(const struct Config *config, char *const *waive, char **ret_error);
/* "io-max, waive, /etc/glovebox/runtimes.d/python.conf": all keys and files that differ and only count once the spawner is started again;
 * *ret is NULL when there is none. was: what the spawner was started with. */
int reload_needs_restart(const struct Config *was, const struct Config *is, char **ret);
