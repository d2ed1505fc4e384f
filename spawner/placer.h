/* A process of its own that moves forked main processes into their cgroups: the kernel lets such a move wait for all processors to pass a quiet
 * point (an RCU grace period), 9 to 32 ms where none was made in the last moments, and who kills cells must never wait. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "common/util.h"

struct Placer;

/* One move; embedded in who wants it. */
struct Placing {
        TAILQ_ENTRY(Placing) entry;
        uint64_t id; /* 0 = none is under way */
        void (*on_placed)(struct Placing *p, int error);
};

int placer_new(sd_event *event, struct Placer **ret);
struct Placer *placer_free(struct Placer *p);
/* pid is a child of ours that nobody reaps before on_placed, which is called once, later, and in every case. */
int placer_place(struct Placer *p, int cgroup_dir, pid_t pid, struct Placing *placing);
/* on_placed is not called any more; the move may still be made. */
void placer_forget(struct Placer *p, struct Placing *placing);
