/* Which runtime a file is meant for: its ending, then its #! line. */
#pragma once

#include <glovebox/v1/system.pb-c.h>

#include "common/util.h"

/* name: of the file, NULL when there is none. The runtime's name belongs to info. NULL: cannot tell. */
const char *guess_runtime(const Glovebox__V1__GetInfoResponse *info, const char *name, const char *code);
/* "python (.py), bash (.sh)" of those that can run; to be freed. */
char *guess_list(const Glovebox__V1__GetInfoResponse *info);
