/* The spawner's side of the builder: a queue of cells to make, and the process that makes them. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "spawner/construct.h"

struct Builder;

/* One cell to be made; embedded in who wants it. */
struct Build {
        TAILQ_ENTRY(Build) entry;
        bool queued, sent;
        struct ConstructRequest request;
        int fds[CONSTRUCT_FDS_]; /* stay the owner's */
        /* Once, from the event loop: error 0, init's pid and pidfd (taken), or a negative errno and the step. */
        void (*on_built)(struct Build *b, int error, const char *step, pid_t pid, int pidfd);
};

/* When the process dies, the init of every cell goes with it: their pidfds tell. A new one is started. plan is copied. */
int builder_new(sd_event *event, const struct ConstructPlan *plan, struct Builder **ret);
struct Builder *builder_free(struct Builder *b);
DEFINE_CLEANUP(struct Builder *, builder_free)
/* 1 = the templates stand, 0 = not yet, or what the builder failed with; *ret_step (may be NULL) is then the failing step. */
int builder_state(const struct Builder *b, const char **ret_step);
/* Why a runtime's interpreter cannot be executed in its cells; 0 = it can. Known once the state is 1. */
int builder_exec_error(const struct Builder *b, unsigned runtime);
/* The mount namespace that a runtime's cells begin with, -EBADF before the state is 1 for the first time. Stays the builder's: another takes its
 * place when a new builder takes over. */
int builder_template(const struct Builder *b, unsigned runtime);
/* number, runtime, slot and workspace of request are set. on_built comes later, in every case. */
void builder_build(struct Builder *b, struct Build *build);
/* Nobody wants it any more: true = it was not begun and is forgotten, without on_built; false = on_built comes as before. */
bool builder_withdraw(struct Builder *b, struct Build *build);
