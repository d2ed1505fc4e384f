/* What stands between the clone of a main process and its program: one ordered table, one file per step.
 * Everything runs in the child, so only async-signal-safe calls; a step returns 0 or a negative errno. */
#pragma once

#include "common/probe.h"
#include "common/util.h"

/* The descriptors of a started program, by number. */
enum {
        STEP_FD_JOB = 3,
        STEP_FD_REPORT = 4,
        STEP_FD_VALUE = 5,
        STEP_FD_COUNT = 6,
};

/* Those that a main process joins. */
enum StepNamespace {
        STEP_NAMESPACE_MOUNT,
        STEP_NAMESPACE_NETWORK,
        STEP_NAMESPACE_IPC,
        STEP_NAMESPACE_UTS,
        STEP_NAMESPACE_COUNT,
};

struct SeccompProgram;

struct StepContext {
        int init;                /* pidfd of the cell's init; unless forked */
        const int *namespaces;   /* of init; if forked */
        uid_t user;              /* as called inside the cell; the gid too */
        uint64_t max_processes;
        int fds[STEP_FD_COUNT];  /* what becomes 0, 1, 2, job, report, value */
        int program;             /* sealed memfd of glovebox-start */
        const struct SeccompProgram *seccomp; /* NULL = waived */
        int landlock_abi;        /* as landlock_abi() says; below 1 the step fails */
        bool core_scheduling;    /* as the config says, where the machine can */
        const struct FactTexts *facts; /* what the cell is told, where it changes; NULL = it stays */
        uint32_t without;        /* bits of enum Layer: their steps are left out */
        bool forked;             /* from a zygote: it is in the user namespace already, its priority is the zygote's, it has no program of its own,
                                    and it waits until it has been put into its cgroup */
        bool waits;              /* if forked, RLIMIT_NICE stays: it warms up at a low priority, and gets the usual one before its job */
};

/* What this kernel's Landlock can: its ABI (1 = Linux 5.13), or why there is none as a negative errno. */
int landlock_abi(void);
/* From now on signals reach only what comes of this process, whatever uid it takes. Below ABI 6 (Linux 6.12) that cannot be had: 0 as well. */
int landlock_scope(int abi);

/* 0 = there is something to separate and the kernel can; -ENODEV = cores run one thread each; -EINVAL = the kernel cannot. */
int core_scheduling_probe(void);

struct Step {
        const char *name;
        int (*run)(struct StepContext *c);
        enum Layer layer;
};

extern const struct Step steps_table[]; /* the last has name = NULL */

/* Runs the steps; reports what fails and exits. */
void steps_apply(struct StepContext *c);
/* The same, then the program. */
_Noreturn void steps_run(struct StepContext *c);

int step_priority(struct StepContext *c);
int step_signals(struct StepContext *c);
int step_namespaces(struct StepContext *c);
int step_facts(struct StepContext *c);
int step_session(struct StepContext *c);
int step_core_scheduling(struct StepContext *c);
int step_folder(struct StepContext *c);
int step_bounding_set(struct StepContext *c);
int step_ids(struct StepContext *c);
int step_rlimits(struct StepContext *c);
int step_descriptors(struct StepContext *c);
int step_no_new_privs(struct StepContext *c);
int step_keyring(struct StepContext *c);
int step_landlock(struct StepContext *c);
int step_verify(struct StepContext *c);
int step_seccomp(struct StepContext *c);
