/* Errors that are one line for the operator. */
#pragma once

#include "common/util.h"

/* Formats the line into *ret_error and returns error. %m in it is errno as it was. */
int complain(char **ret_error, int error, const char *format, ...) PRINTF_LIKE(3, 4);
