/* io-max of the config: "DEVICE rbps=10M wbps=10M riops=100 wiops=100", what one execution may do to a disk. */
#pragma once

#include "common/util.h"

/* The form of one line alone, whatever disks this machine has. On an error ret_error says what is wrong with it, and the cure. */
int io_max_check(const char *line, char **ret_error);
/* All lines as the kernel wants them: "8:0 rbps=10485760 ...". On an error ret_error names the device or the word, and the cure. */
int io_max_resolve(char *const *lines, char ***ret, char **ret_error);
