/* What a configuration needs of this machine before a start, or a reload, can succeed with it. */
#pragma once

#include "common/config.h"

/* Files of [tls] and the folder of audit-file that are certainly not there, to any user. Names of credentials, and what this user may not
 * look at, are left to the server. On an error ret_error is one line that names the key and the cure; so below. */
int config_check_files(const struct Config *c, char **ret_error);
/* Disks of io-max, roots of runtimes, the policy file. Not for a process that sees another /dev than the spawner. */
int config_check_machine(const struct Config *c, char **ret_error);

struct ConfigChange {
        const char *key;
        bool same;
};

/* "listen, node": keys that are not the same and then `more` (a list, or NULL), for the journal. *ret is NULL when there are none. */
int config_changes(const struct ConfigChange *keys, size_t n, char *const *more, char **ret);
