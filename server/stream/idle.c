/* Watches whether an execution does anything. */
#include "server/stream/idle.h"

#define LOOK_MIN (10 * USEC_PER_MSEC)
#define LOOK_MAX (500 * USEC_PER_MSEC)
#define CPU_NOISE 500 /* us: waking up to find nothing to do */

static bool used_cpu(struct Idle *i, usec_t now) {
        usec_t cpu;

        if (i->policy.evidence == EVIDENCE_OUTPUT || i->get_cpu(i->userdata, &cpu) < 0)
                return false;
        usec_t used = cpu - MIN(cpu, i->cpu);
        i->cpu = cpu;
        return used >= MAX((usec_t) CPU_NOISE, (now - i->looked) / 100);
}

static void look(struct Idle *i) {
        usec_t now = now_monotonic();
        bool held;
        usec_t output = i->get_output(i->userdata, &held);

        /* While a slow reader holds the output back the program may be waiting for us: the clock stands still. */
        if (held)
                i->progress += now - i->looked;
        i->progress = MAX(i->progress, output);
        if (used_cpu(i, now))
                i->progress = now;
        i->looked = now;
}

/* Not too often: a program's cpu time in a very short while is as small as the noise, so whoever asks again and again would make it idle. */
usec_t idle_for(struct Idle *i) {
        if (now_monotonic() - i->looked >= LOOK_MIN)
                look(i);
        return i->looked - MIN(i->looked, i->progress);
}

static usec_t expires_at(const struct Idle *i) {
        return MAX(i->progress + i->policy.timeout, i->started + i->policy.grace);
}

static int arm(struct Idle *i) {
        usec_t interval = CLAMP(i->policy.timeout / 20, LOOK_MIN, LOOK_MAX);
        int r = sd_event_source_set_time(i->timer, MIN(i->looked + interval, expires_at(i)));
        return r < 0 ? r : sd_event_source_set_enabled(i->timer, SD_EVENT_ONESHOT);
}

static int idle_on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Idle *i = userdata;

        look(i);
        if (i->looked < expires_at(i))
                return arm(i);
        i->on_idle(i->userdata);
        return 0;
}

int idle_start(struct Idle *i, sd_event *event, const struct IdlePolicy *policy) {
        i->policy = *policy;
        i->started = i->looked = i->progress = now_monotonic();
        if (policy->timeout == 0)
                return 0;
        (void) i->get_cpu(i->userdata, &i->cpu);
        int r = sd_event_add_time(event, &i->timer, CLOCK_MONOTONIC, i->started + policy->timeout, 1, idle_on_timer, i);
        return r < 0 ? r : arm(i);
}

void idle_stop(struct Idle *i) {
        i->timer = sd_event_source_disable_unref(i->timer);
}
