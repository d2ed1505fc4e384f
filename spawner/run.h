/* A run of a native cell: pipes, leaf and main process. The spawner is the parent of every main process. */
#pragma once

#include <sys/queue.h>

#include "spawner/cell-kind.h"
#include "spawner/facts.h"
#include "spawner/limits/leaf.h"

struct Run {
        LIST_ENTRY(Run) entry;  /* in the world's list while pid is not 0 */
        struct Leaf leaf;
        bool has_leaf;
        int pidfd;              /* of the main process, until it is reaped */
        pid_t pid;              /* of the main process, until it is reaped or left */
        sd_event_source *source;
};

struct RunSetup {
        struct CellWorld *world;
        const struct Runtime *runtime;
        int cell_dir;           /* the cell's cgroup folder */
        int init;               /* pidfd of the cell's init */
        int slot;
        struct FactSpec *told;  /* what the cell was told of its machine last */
};

void run_init(struct Run *r);
/* On an error *ret_step is what failed; run_done cleans up. */
int run_start(struct Run *r, const struct RunSetup *setup, const struct RunSpec *spec, struct RunFds *ret, const char **ret_step);
/* Reaps the main process if it has ended: 1 and *ret, else 0. */
int run_reap(struct Run *r, struct MainExit *ret);
void run_done(struct Run *r);
/* Ended children of ours out of cells that are no main process: a program made them so (CLONE_PARENT, where seccomp is waived), nobody waits for
 * them, and their cell cannot end before they are reaped. */
void run_reap_strangers(struct CellWorld *world);
/* The main process does not die: it is forgotten, and reaped whenever it does. */
void run_leave(struct Run *r, sd_event *event);
