/* Waiting until something is so, without blocking the loop: looked at closely for 200 µs, then every few milliseconds. */
#include "spawner/wait.h"

#define CLOSELY (200 * (usec_t) 1)
#define OFTEN (2 * USEC_PER_MSEC)
#define OFTEN_FOR (100 * USEC_PER_MSEC)
#define SELDOM (20 * USEC_PER_MSEC)

static void wait_over(struct Wait *w, int error) {
        wait_stop(w);
        w->on_over(error, w->userdata);
}

static int wait_on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Wait *w = userdata;
        usec_t now = now_monotonic();
        if (w->is_over(w->userdata)) {
                wait_over(w, 0);
                return 0;
        }
        if (now >= w->deadline) {
                wait_over(w, -ETIMEDOUT);
                return 0;
        }
        int r = sd_event_source_set_time_relative(s, now - w->began < OFTEN_FOR ? OFTEN : SELDOM);
        if (r >= 0)
                r = sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
        if (r < 0)
                wait_over(w, r);
        return 0;
}

int wait_start(struct Wait *w, sd_event *event, usec_t time) {
        w->began = now_monotonic();
        w->deadline = w->began + time;
        do
                if (w->is_over(w->userdata)) {
                        wait_over(w, 0);
                        return 0;
                }
        while (now_monotonic() - w->began < CLOSELY);
        wait_stop(w);
        return sd_event_add_time_relative(event, &w->timer, CLOCK_MONOTONIC, OFTEN, 100, wait_on_timer, w);
}

void wait_stop(struct Wait *w) {
        w->timer = sd_event_source_disable_unref(w->timer);
}
