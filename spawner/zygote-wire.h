/* What the spawner and a zygote say to each other over a SOCK_SEQPACKET pair (the zygote's end is its descriptor 3): plain structures, since both are
 * of one build. The zygote runs code of third parties: the spawner believes no number in its answers before it has looked for itself.
 *
 *   spawner                        zygote
 *   ZygoteSetup (1 fd)        ->   preloads
 *                             <-   ZygoteReady
 *   ZygoteRequest (11 fds)    ->   clones a child into the cell (CLONE_PARENT: the spawner's child)
 *                             <-   ZygoteReply
 *   (puts the child into its leaf, then writes ZYGOTE_PLACED and the job's head down the job pipe)
 *                                  the child reads ZYGOTE_PLACED, goes through the steps, warms up, says REPORT_READY, takes the job
 *
 * In the cell's pid namespace the child does not see the zygote. What fails in a child's steps is told on its report pipe, as with every main
 * process. */
#pragma once

#include "common/util.h"

#define ZYGOTE_SOCKET 3 /* the zygote's descriptor */
#define ZYGOTE_PLACED 'p'
#define ZYGOTE_STEP_MAX 32
#define ZYGOTE_DETAIL_MAX 200

/* Descriptor beside it: a memfd with the seccomp program, `instructions` times struct sock_filter. */
struct ZygoteSetup {
        uint32_t without;      /* bits of enum Layer */
        int32_t landlock_abi;
        uint32_t instructions; /* 0 = seccomp is waived, and there is no descriptor */
        bool seccomp_log;
        bool core_scheduling;
};

struct ZygoteReady {
        int32_t error;         /* negative errno: what is preloaded cannot be, and detail says why */
        char detail[ZYGOTE_DETAIL_MAX];
};

/* Descriptors beside it. The namespaces of the cell's init one by one: to join them by its pidfd is asked of a debugger's rights, and init's memory
 * is the host's. */
enum ZygoteFd {
        ZYGOTE_PID_NAMESPACE,
        ZYGOTE_NAMESPACES,     /* from here: mount, network, ipc, uts (enum StepNamespace); of a layer that is waived the mount namespace again */
        ZYGOTE_PIPES = ZYGOTE_NAMESPACES + 4, /* from here: what becomes 0, 1, 2, job, report, value (STEP_FD_COUNT) */
        ZYGOTE_FDS_ = ZYGOTE_PIPES + 6,
};

struct ZygoteRequest {
        uint64_t number;
        uint32_t user;         /* as called inside the cell */
        bool warm;             /* warm up and say REPORT_READY; else the job is already on its way */
        uint64_t max_processes;
};

struct ZygoteReply {
        uint64_t number;
        int32_t error;
        int32_t pid;           /* in the spawner's pid namespace */
        char step[ZYGOTE_STEP_MAX];
};
