/* What comes up the report pipe before the program runs: the stamps of the files that were written, and, when it could not be started, why. */
#pragma once

#include "common/collect.h"

#define REPORT_STEP_MAX 64

struct Report {
        char step[REPORT_STEP_MAX]; /* lower case letters, digits, - and _; anything else is shown as ? */
        int error;                  /* errno */
};

/* Takes stamps off the front: how many bytes were taken, of stamps put behind those that stamps[*n] has, of which there may be at most most. */
size_t report_take_stamps(const uint8_t *bytes, size_t size, struct FileStamp *stamps, size_t *n, size_t most);
/* What is left at the end. The bytes come from a cell. 0 = nothing was reported, 1 = *ret is, -EBADMSG = neither. */
int report_parse(const uint8_t *bytes, size_t size, struct Report *ret);
