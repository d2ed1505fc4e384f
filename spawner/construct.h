/* The builder process: makes cells up to the point where their init waits for orders that never come. */
#pragma once

#include "common/probe.h"
#include "common/util.h"
#include "spawner/slots.h"

#define STEP_NAME_MAX 32
#define RUNTIMES_MAX SLOT_UIDS_FIRST

/* What the builder knows from its start; index = the runtime's in the config. */
struct ConstructRuntime {
        const char *root; /* "/" by default */
        const char *exec;
        int userns;
};

struct ConstructPlan {
        struct ConstructRuntime runtimes[RUNTIMES_MAX];
        unsigned n_runtimes;
        uint32_t without; /* bits of enum Layer: cells are made without them */
        const char *runners;
        int init_program; /* sealed memfd */
};

/* First packet from the builder: templates stand, or what failed. */
struct ConstructReady {
        int32_t error;
        char step[STEP_NAME_MAX];
        int32_t exec_error[RUNTIMES_MAX]; /* why the interpreter cannot be executed; 0 = it can */
};

/* Then one for each runtime, in order; descriptor beside it: the mount namespace that holds its template. */
struct ConstructTemplate {
        uint32_t runtime;
};

/* Descriptors beside it: the init leaf's folder, and init's ends of the collect pipe and of the files pipe. */
enum ConstructFd {
        CONSTRUCT_LEAF,
        CONSTRUCT_COLLECT,
        CONSTRUCT_FILES,
        CONSTRUCT_FDS_,
};

struct ConstructRequest {
        uint64_t number;
        uint32_t runtime;
        int32_t slot;
        uint64_t workspace_bytes;
        uint64_t workspace_inodes;
        uint64_t memory_bytes; /* what the cell is told that it has */
        double cpus;
};

/* Descriptor beside it: a pidfd of the cell's init, when error is 0. */
struct ConstructReply {
        uint64_t number;
        int32_t error;
        char step[STEP_NAME_MAX];
        int32_t pid;
};

int construct_main(int socket, void *plan);
