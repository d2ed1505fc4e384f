/* Transient scopes and the slices they are in: what the spawner has of systemd. scope.c: one scope's life; scopes.c: all of them. */
#pragma once

#include <sys/queue.h>

#include "spawner/limits/janitor.h"
#include "spawner/limits/leaders.h"
#include "spawner/limits/names.h"
#include "spawner/limits/systemd.h"
#include "spawner/log-limit.h"

#define SCOPE_PATH_MAX (JANITOR_PATH_MAX - 96)

enum ScopeState {
        SCOPE_NEW,      /* its leader is being made */
        SCOPE_WAITING,  /* for its slice, or for its turn at PID 1 */
        SCOPE_ASKED,    /* PID 1 was asked for it; its job has not ended */
        SCOPE_SETTLING, /* stands; its leader is moved into a leaf */
        SCOPE_UP,       /* cells can be made in it */
        SCOPE_LEAVING,  /* nothing is in it any more: PID 1 sees that and removes it */
        SCOPE_STOPPING, /* PID 1 did not, and is told to */
        SCOPE_GONE,     /* PID 1 has forgotten it */
        SCOPE_STATE_MAX_,
};

struct Scopes;
struct Scope;

typedef void (*scope_handler_t)(struct Scope *scope, int error, void *userdata);

/* At most so many scopes in one slice: PID 1 looks at all siblings each time one starts. */
struct Pool {
        struct Scopes *owner;
        char slice[UNIT_NAME_LEN];
        const char *group;   /* the caller's who is kept apart; NULL: everybody's */
        enum { POOL_DOWN, POOL_ASKED, POOL_UP } state;
        unsigned n_live;     /* scopes that PID 1 has not forgotten */
        bool in_flight, seen;
        uint64_t asked_list; /* number of the last list before it was asked for */
        struct ManagerCall call;
        struct ManagerCall parent; /* for the slice of its group */
};

struct Scope {
        LIST_ENTRY(Scope) entry;
        TAILQ_ENTRY(Scope) turn; /* in which of the queues `queued` says */
        struct Scopes *owner;
        struct Pool *pool;       /* NULL: an earlier life's */
        enum ScopeState state;
        enum { QUEUED_NOWHERE, QUEUED_START, QUEUED_STOP } queued;
        uint64_t number;
        char name[UNIT_NAME_LEN];
        char description[64];
        char path[SCOPE_PATH_MAX]; /* its folder below the mount point; empty: not known */
        int dir;                   /* the folder, O_PATH, once it stands */
        unsigned controllers;      /* enabled for leaves */
        pid_t leader;
        int leader_fd;
        sd_event_source *leader_source; /* while its end is awaited */
        struct LeaderWish wish;
        struct ManagerCall call;
        bool in_flight;      /* counts among the calls that PID 1 has not done */
        bool answered;       /* PID 1 has taken the call; its job has not ended */
        bool retried;        /* asked for a second time, after the first was lost */
        bool given_up;       /* the user was told that it failed */
        bool seen;           /* in the list under way */
        bool is_removed;     /* PID 1 says that it has forgotten it, while it was up */
        bool removing;       /* by the janitor */
        unsigned stops;      /* how often PID 1 was told to stop it */
        unsigned removals;   /* how often its folder could not be removed with nobody waiting for that */
        uint64_t asked_list;
        sd_event_source *timer, *tell;
        int left;            /* what tell says */
        scope_handler_t on_up, on_left; /* NULL: nobody waits */
        void *userdata;      /* NULL: nobody has it any more */
};

struct ScopesSetup {
        sd_event *event;
        const struct UnitNames *names;
        int mount;           /* root of the cgroup2 hierarchy; stays the owner's */
        struct Janitor *janitor;
        unsigned controllers; /* bits to enable for leaves where they are there */
        unsigned per_slice;  /* scopes */
        struct Ceilings ceilings; /* of one scope; a slice has per_slice times as much */
};

struct Scopes {
        struct ScopesSetup setup;
        char bound[UNIT_NAME_LEN]; /* the unit that all ends with */
        char own[UNIT_NAME_LEN];   /* not to be swept */
        struct Manager *manager;
        struct Leaders *leaders;
        LIST_HEAD(, Scope) all;
        TAILQ_HEAD(Turns, Scope) starts, stops;
        struct Pool **pools;
        size_t n_pools;
        size_t in_flight;
        uint64_t last_number;
        uint64_t lists;            /* begun */
        bool is_listing, list_again, has_listed;
        bool wants_parent;         /* glovebox.slice has not been made yet */
        struct ManagerCall parent, self;
        int self_answer;           /* of the own scope: 1 = none yet */
        sd_event_source *relist;
        struct LogLimit complaints; /* of what many cells can be told at once */
        char refusal[256];         /* PID 1's last words on why it does not start something */
};

/* All of them. It begins with what an earlier life left: scopes_is_clean once PID 1 was asked and all that is gone. */
int scopes_new(const struct ScopesSetup *setup, struct Scopes **ret);
struct Scopes *scopes_free(struct Scopes *s);
DEFINE_CLEANUP(struct Scopes *, scopes_free)
bool scopes_is_clean(const struct Scopes *s);
/* A scope for this process, to which the others are bound. scopes_own: 1 = not yet, 0 = in it, or a negative errno. */
int scopes_make_own(struct Scopes *s);
int scopes_own(const struct Scopes *s);
/* For what is there and what comes. */
void scopes_set_ceilings(struct Scopes *s, const struct Ceilings *ceilings);
/* Stops all slices of this instance, and waits for PID 1's answer: only once the loop has ended. */
void scopes_stop_now(struct Scopes *s);

/* For scope.c. */
void scopes_pump(struct Scopes *s);
void scopes_queue(struct Scope *scope, int queue);
void scopes_landed(struct Scopes *s, bool *in_flight);
/* Asks for the list soon: what PID 1 knows is unclear. */
void scopes_look_again(struct Scopes *s);
/* A slice of this group with room for one more. */
int scopes_pool(struct Scopes *s, const char *group, struct Pool **ret);

/* One scope; group stays the caller's. on_up comes once, later. */
int scope_new(struct Scopes *s, const char *group, const char *description, scope_handler_t on_up, void *userdata, struct Scope **ret);
/* Its cell lives: the leader ends. */
void scope_settled(struct Scope *scope);
/* Nothing but the leader is in it any more. on_left comes once, later: 0 = the folder is gone and the scope is not the user's any more;
 * -EBUSY and others: ask again. */
int scope_leave(struct Scope *scope, scope_handler_t on_left);
/* Nobody asks for it any more: it goes in the background. */
void scope_forget(struct Scope *scope);
/* One that an earlier life, or this one, left behind. */
int scope_adopt(struct Scopes *s, const char *name);
struct Scope *scope_free(struct Scope *scope);

/* What happens to it. */
void scope_send(struct Scope *scope);
void scope_on_job(struct Scope *scope, const char *result);
void scope_on_removed(struct Scope *scope);
void scope_on_seen(struct Scope *scope, bool is_active, bool is_settled);
void scope_on_missing(struct Scope *scope);
void scope_fail(struct Scope *scope, int error, const char *why);

/* For tests. */
bool scope_state_may(enum ScopeState from, enum ScopeState to);
