/* What the server can make the spawner log, kept to a bearable number of lines: a server that was taken over must not fill the disk. */
#pragma once

#include "common/util.h"

#define LOG_LIMIT_LINES 20
#define LOG_LIMIT_TIME (10 * USEC_PER_SEC)

struct LogLimit {
        usec_t began;
        uint64_t lines, left_out;
};

/* May one more line be written at this time? Once it may again, *ret_left_out is how many were not; else 0. */
bool log_limit_may(struct LogLimit *l, usec_t now, uint64_t *ret_left_out);
/* The same with the clock, and says how many were left out. */
bool log_limit_pass(struct LogLimit *l);
