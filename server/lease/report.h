/* What comes up the report pipe before the program runs: nothing, or one record that says why it could not be started. */
#pragma once

#include "common/util.h"

#define REPORT_STEP_MAX 64

struct Report {
        char step[REPORT_STEP_MAX]; /* lower case letters, digits, - and _; anything else is shown as ? */
        int error;                  /* errno */
};

/* The bytes come from a cell. 0 = nothing was reported, 1 = *ret is, -EBADMSG = neither. */
int report_parse(const uint8_t *bytes, size_t size, struct Report *ret);
