/* How an execution ended: as an exit status, and as a sentence. */
#pragma once

#include <glovebox/v1/execution.pb-c.h>

#include "common/util.h"

/* Of `glovebox run`. */
int ending_status(const Glovebox__V1__Result *result);
/* "TIMED_OUT: the program ..."; NULL when there is nothing to say: it completed as programs do. */
char *ending_line(const Glovebox__V1__Result *result);
