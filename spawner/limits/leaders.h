/* A process of its own that makes the leaders of scopes, and moves them into their leaf.
 *
 * systemd starts a scope around a process that is there already, and ends it when it is empty. A cell's init cannot be that process: it is
 * born in its leaf, which is in the scope. So a leader holds the place: a process that does nothing, has no right and no descriptor. It is
 * forked by a helper because a fork of the spawner itself costs more, and moved by it because a migration can block for long. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "common/util.h"

#define LEADER_LEAF "keeper"

struct Leaders;

/* One thing that is wanted of the process; embedded in who wants it. */
struct LeaderWish {
        TAILQ_ENTRY(LeaderWish) entry;
        bool is_queued, is_sent;
        uint64_t id;
        pid_t pid;            /* 0: make a leader; else settle this one */
        int dir;              /* then: the scope's folder; stays the owner's */
        unsigned controllers; /* then: bits to enable in it */
        /* Once, from the event loop. Made: pid, and a pidfd that is taken. Settled: the controllers that are enabled. */
        void (*on_done)(struct LeaderWish *w, int error, pid_t pid, int pidfd, unsigned controllers);
};

int leaders_new(sd_event *event, struct Leaders **ret);
/* All leaders go with it. */
struct Leaders *leaders_free(struct Leaders *l);
DEFINE_CLEANUP(struct Leaders *, leaders_free)
/* A wish that is queued already is an error of ours. When the process dies, and its leaders with it, wishes are answered -ECHILD. */
void leaders_ask(struct Leaders *l, struct LeaderWish *w);
/* Forgets it, without on_done. A leader that is made all the same is ended. */
void leaders_withdraw(struct Leaders *l, struct LeaderWish *w);

/* What the process does to settle: makes the leaf, moves the leader, enables the controllers that are there. */
int leader_settle(int dir, pid_t pid, unsigned controllers, unsigned *ret_enabled);
