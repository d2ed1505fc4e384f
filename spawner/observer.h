/* A process of its own that looks at what a run waits for: a program can make whoever reads of it in /proc wait for long, and who kills cells
 * must never wait. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "spawner/waiting.h"

struct Observer;

/* One look; embedded in who wants to know. */
struct Look {
        TAILQ_ENTRY(Look) entry;
        uint64_t id; /* 0 = none is under way */
        void (*on_seen)(struct Look *l, enum Waiting waiting);
};

int observer_new(sd_event *event, struct Observer **ret);
struct Observer *observer_free(struct Observer *o);
/* on_seen is called once, later: at the latest after LOOK_TIME, with WAITING_UNKNOWN. 0 also where the same look is under way already. */
int observer_look(struct Observer *o, int cgroup_dir, struct Look *l);
/* on_seen is not called any more. */
void observer_forget(struct Observer *o, struct Look *l);
