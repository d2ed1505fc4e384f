/* What comes up the report pipe before the program runs: how the files were when they had been written, and if it could not be started, why. */
#pragma once

#include "common/util.h"

#define REPORT_STEP_MAX 64

struct Report {
        char step[REPORT_STEP_MAX]; /* lower case letters, digits, - and _; anything else is shown as ? */
        int error;                  /* errno */
};

/* Takes whole records of files from the front away; the size of what is left. */
size_t report_skip_files(uint8_t *bytes, size_t size);
/* Of what is left then. The bytes come from a cell. 0 = nothing was reported, 1 = *ret is, -EBADMSG = neither. */
int report_parse(const uint8_t *bytes, size_t size, struct Report *ret);
