/* A run of a native cell: pipes, leaf and main process. The spawner is the parent of every main process. */
#pragma once

#include <sys/queue.h>

#include "spawner/cell-kind.h"
#include "spawner/facts.h"
#include "spawner/limits/leaf.h"
#include "spawner/steps/steps.h"
#include "spawner/zygote-wire.h"

#define RUN_PIPES STEP_FD_COUNT

struct Run {
        LIST_ENTRY(Run) entry;  /* in the world's list while pid is not 0 */
        struct Leaf leaf;
        bool has_leaf;
        int pidfd;              /* of the main process, until it is reaped */
        pid_t pid;              /* of the main process, until it is reaped or left */
        sd_event_source *source;
        struct RunFds fds;      /* for the server, until it has them: files of the leaf, outer ends of pipes */
        int inside[RUN_PIPES];  /* inner ends, until main has them; by the number they get there */
        struct Limits limits;   /* in force in the leaf */
        uint64_t max_processes; /* RLIMIT_NPROC of main */
};

struct RunSetup {
        struct CellWorld *world;
        const struct Runtime *runtime;
        int cell_dir;           /* the cell's cgroup folder */
        int init;               /* pidfd of the cell's init */
        pid_t init_pid;
        uint64_t number;        /* of the cell's runs, from 1 */
        int slot;
        struct FactSpec *told;  /* what the cell was told of its machine last */
};

void run_init(struct Run *r);
/* On an error of these *ret_step is what failed; run_done cleans up. First of all the leaf; that holds two descriptors, and may be done ahead: */
int run_prepare(struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step);
/* what was prepared with other limits gets those of this run; */
int run_reuse(struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step);
/* what the server gets: the leaf's files and pipes. Not ahead: main processes that are cloned meanwhile would hold the pipes as well; */
int run_open(struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step);
/* then either a main process of our own, whose program is glovebox-start; wait: the interpreter is to wait for its job; */
int run_start(struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec, bool wait, const char **ret_step);
/* or one that a zygote clones for these descriptors, of which those before ZYGOTE_PIPES are the caller's to close, */
int run_fill_fork(const struct Run *r, const struct RunSetup *setup, struct ZygoteRequest *request, int fds[ZYGOTE_FDS_]);
/* closed, once they are sent (or what is cloned before the answer holds them, too, until it closes them); */
void run_close_inside(struct Run *r);
/* and that is taken once it is found to be a child of ours, in this cell, that is nobody's yet: else -EPERM. */
int run_take_fork(struct Run *r, const struct RunSetup *setup, pid_t pid, const char **ret_step);
/* In its leaf (placer.h) it may go on. */
int run_begin_fork(struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step);
/* Main waits, lives, and can be what this run needs. */
bool run_may_change(const struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec);
/* Main waits: what this run has otherwise than main was started for is changed. 0 = some of it cannot be, 1 = it is as it should be. */
int run_change(struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step);
#define RUN_STEP_MAX 64
/* Of the record of a main process that could not be started: 1, a negative errno and the step, as the log may have it; 0 = it is another record. */
int run_parse_failure(const uint8_t *record, ssize_t size, int *ret_error, char ret_step[RUN_STEP_MAX + 1]);
/* What main has used so far; what cannot be read is 0. */
void run_usage(const struct Run *r, struct LeafUsage *ret);
/* The descriptors for the server become the caller's. */
void run_give(struct Run *r, struct RunFds *ret);
/* One of them, which stays the run's; or -EBADF. */
int run_fd(const struct Run *r, Glovebox__Internal__Role role);
/* Reaps the main process if it has ended: 1 and *ret, else 0. */
int run_reap(struct Run *r, struct MainExit *ret);
/* Of a cell whose main process was killed: whether its init has gone first. */
bool run_init_is_dying(pid_t pid, int pidfd);
/* Whether a main process that is not reaped yet says of itself that it is over (VALUE_OVER): 1 and its largest resident size, else 0.
 * -ECHILD: it is, and has waited for children, whose sizes only its end tells. */
int run_over(const struct Run *r, uint64_t *ret_peak_bytes);
void run_done(struct Run *r);
/* Ended children of ours out of cells that are no main process: a program made them so (CLONE_PARENT, where seccomp is waived), nobody waits for
 * them, and their cell cannot end before they are reaped. */
void run_reap_strangers(struct CellWorld *world);
/* The main process does not die: it is forgotten, and reaped whenever it does. */
void run_leave(struct Run *r, sd_event *event);
