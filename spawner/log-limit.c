/* What the server can make the spawner log, kept to a bearable number of lines. */
#include "spawner/log-limit.h"

#include <inttypes.h>

#include "common/log.h"

bool log_limit_may(struct LogLimit *l, usec_t now, uint64_t *ret_left_out) {
        *ret_left_out = 0;
        if (!l->began || now - l->began >= LOG_LIMIT_TIME) {
                *ret_left_out = l->left_out;
                *l = (struct LogLimit) {.began = now};
        }
        if (l->lines < LOG_LIMIT_LINES) {
                l->lines++;
                return true;
        }
        l->left_out++;
        return false;
}

bool log_limit_pass(struct LogLimit *l) {
        uint64_t left_out;
        bool may = log_limit_may(l, now_monotonic(), &left_out);
        if (left_out)
                log_warning("%" PRIu64 " messages about the server or its cells were left out.", left_out);
        return may;
}
