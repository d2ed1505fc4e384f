/* JSON that the user hands over on the command line, as text or as @FILE. */
#pragma once

#include "client/input.h"

/* Checked here, so that what is wrong is told with its line and column. flag: as it is spelt, for what is said. is_object: nothing else will do.
 * 0, or STATUS_FAULT after saying what is wrong. */
int json_text_read(const char *flag, const char *argument, bool is_object, struct Bytes *ret);
