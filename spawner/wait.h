/* Waiting until something is so, without blocking the loop: looked at closely for 200 µs, then every few milliseconds. Notifications of
 * cgroup.events come at most once per 10 ms, so looking is faster than being told. */
#pragma once

#include <systemd/sd-event.h>

#include "common/util.h"

struct Wait {
        sd_event_source *timer;
        usec_t began, deadline;
        bool (*is_over)(void *userdata);
        void (*on_over)(int error, void *userdata); /* 0, or -ETIMEDOUT at the deadline */
        void *userdata;
};

/* The functions and userdata are set. on_over may be called from inside, and may free what holds w. */
int wait_start(struct Wait *w, sd_event *event, usec_t time);
void wait_stop(struct Wait *w);
