/* Errors that are one line for the operator. */
#include "spawner/complain.h"

#include <stdarg.h>
#include <stdio.h>

int complain(char **ret_error, int error, const char *format, ...) {
        va_list args;
        va_start(args, format);
        if (vasprintf(ret_error, format, args) < 0)
                *ret_error = NULL;
        va_end(args);
        return error;
}
