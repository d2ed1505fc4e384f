/* The spawner's side of a runtime's zygote: an interpreter that has loaded what all runs of the runtime need, and clones itself into cells. It runs
 * code of third parties: it has no capability on the host, and what it answers is looked at before it is believed. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "common/config.h"
#include "spawner/zygote-wire.h"

struct Zygote;
struct CellWorld;

struct ZygotePlan {
        struct CellWorld *world;
        const struct Runtime *runtime;
        unsigned index;       /* of the runtime in the config */
        int userns;
        void (*on_ready)(void *userdata, unsigned index); /* each time that another one serves */
        void *userdata;
        bool lazy;            /* it starts when it is wanted for the first time: what it preloads may be large */
};

/* One child to be cloned; embedded in who wants it. */
struct ZygoteFork {
        TAILQ_ENTRY(ZygoteFork) entry;
        bool queued;
        uint64_t number;
        uint64_t process; /* by whom; set by zygote_fork */
        /* Once, from the event loop: the pid of a child of ours that nobody has looked at yet, or a negative errno. */
        void (*on_forked)(struct ZygoteFork *f, int error, const char *step, pid_t pid);
};

/* Starts the first one when the event loop runs, or when zygote_want is called; plan is copied. One that dies, or has lived long enough, is
 * replaced by itself. */
int zygote_new(sd_event *event, const struct ZygotePlan *plan, struct Zygote **ret);
struct Zygote *zygote_free(struct Zygote *z);
DEFINE_CLEANUP(struct Zygote *, zygote_free)
/* It has loaded everything and can clone at once; if not, it begins to. */
bool zygote_want(struct Zygote *z);
/* fds: as enum ZygoteFd says; stay the caller's. -EAGAIN: not now; nothing is called then. */
int zygote_fork(struct Zygote *z, struct ZygoteFork *f, struct ZygoteRequest *request, const int fds[ZYGOTE_FDS_]);
/* on_forked is not called any more. */
void zygote_withdraw(struct Zygote *z, struct ZygoteFork *f);
/* Who made f told something that is not so: it is killed, and another one takes over if it served still. */
void zygote_distrust(struct Zygote *z, const struct ZygoteFork *f, const char *why);
/* Another one takes over as soon as it is ready. */
void zygote_renew(struct Zygote *z);
