/* PID 1 over the system bus: starts and stops units, and tells what happens to them. Nothing here waits, but manager_stop_now.
 *
 * The connection comes back by itself: after a restart of the bus, of PID 1 (daemon-reexec), and when either says nothing for too long.
 * Calls that were under way are then answered MANAGER_LOST, and on_ready asks its owner to look at the list of units again. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "common/util.h"

struct Manager;

/* Answers that are no error of ours. */
enum ManagerAnswer {
        MANAGER_LOST = 1,  /* it may have been done or not */
        MANAGER_EXISTS,    /* a unit of this name is there */
        MANAGER_NOT_THERE, /* no unit of this name is there */
};

struct ManagerHandler {
        /* Connected and subscribed, or PID 1 was reloaded: units may have come and gone unseen. */
        void (*on_ready)(void *userdata);
        /* A job of this unit has ended: "done", "failed", "timeout", "canceled", "dependency", ... */
        void (*on_job)(const char *unit, const char *result, void *userdata);
        /* PID 1 has forgotten this unit. Never one of those that a reload says of every unit. */
        void (*on_removed)(const char *unit, void *userdata);
        /* An item of manager_list; is_settled: no job is under way. */
        void (*on_unit)(const char *unit, bool is_active, bool is_settled, void *userdata);
        /* The list's end: 0, or a negative errno and the list is worth nothing. */
        void (*on_listed)(int error, void *userdata);
        void *userdata;
};

/* One call; embedded in who makes it. on_answer comes once, later, unless it is forgotten: 0, an answer, or a negative errno with PID 1's words. */
struct ManagerCall {
        TAILQ_ENTRY(ManagerCall) entry;
        struct Manager *manager;
        void *slot; /* NULL: not under way */
        void (*on_answer)(struct ManagerCall *c, int answer, const char *words);
};

/* 0: none. */
struct Ceilings {
        uint64_t memory_bytes, processes;
        double cpus;
};

/* A transient slice (pid 0) or scope. */
struct UnitPlan {
        const char *name;
        const char *description;
        const char *slice;   /* of a scope; NULL: the default */
        const char *bound;   /* the unit that it ends with; NULL: none */
        pid_t pid;           /* what a scope begins with */
        bool is_delegated;
        bool is_mild;        /* a stop sends SIGTERM first, not SIGKILL at once */
        bool is_for_others;  /* ends once no other unit needs it */
        bool is_at_once;     /* starts whatever else PID 1 is about to do; what it needs must be there */
        struct Ceilings ceilings;
};

/* Is there a system bus that takes connections? */
int manager_probe(void);
/* It connects while the loop runs: on_ready. */
int manager_new(sd_event *event, const struct ManagerHandler *handler, struct Manager **ret);
struct Manager *manager_free(struct Manager *m);
DEFINE_CLEANUP(struct Manager *, manager_free)
/* on_ready has been called and the connection stands. */
bool manager_is_ready(const struct Manager *m);
/* Why it does not stand: the last error of connecting, a negative errno; 0: none yet. */
int manager_error(const struct Manager *m);
/* Between Reloading(true) and Reloading(false): PID 1 answers late. */
bool manager_is_reloading(const struct Manager *m);

/* -ENOTCONN: there is no connection now. */
int manager_start_unit(struct Manager *m, struct ManagerCall *c, const struct UnitPlan *plan);
int manager_stop_unit(struct Manager *m, struct ManagerCall *c, const char *unit);
/* Of a unit that is there, until it goes. */
int manager_set_ceilings(struct Manager *m, struct ManagerCall *c, const char *unit, const struct Ceilings *ceilings);
void manager_forget(struct ManagerCall *c);
/* Of units whose name has this form: on_unit for each, then on_listed. -EBUSY: one is under way. */
int manager_list(struct Manager *m, const char *pattern);

/* Once the loop has ended: blocks for at most this time. */
int manager_stop_now(struct Manager *m, const char *unit, usec_t time);
