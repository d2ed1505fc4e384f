/* Watches whether an execution does anything: output, and cpu time of 1 % of a core or more between two looks. */
#pragma once

#include <systemd/sd-event.h>

#include "common/limits.h"

struct Idle {
        struct IdlePolicy policy;
        usec_t started, looked, progress; /* CLOCK_MONOTONIC; progress = last sign of life */
        usec_t cpu;                        /* at the last look */
        sd_event_source *timer;
        /* cpu time used so far; 0 or a negative errno */
        int (*get_cpu)(void *userdata, usec_t *ret);
        /* last time it printed (0 = never), and whether its output is held back by a slow reader */
        usec_t (*get_output)(void *userdata, bool *ret_held);
        void (*on_idle)(void *userdata);
        void *userdata;
};

/* Starts the clock; on_idle comes at most once. With policy.timeout = 0 it only answers idle_for. */
int idle_start(struct Idle *i, sd_event *event, const struct IdlePolicy *policy);
void idle_stop(struct Idle *i);
/* Takes a look now. */
usec_t idle_for(struct Idle *i);
