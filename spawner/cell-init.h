/* The part of a cell's making that its own PID 1 does, before it becomes glovebox-init. */
#pragma once

#include "spawner/construct.h"

struct FactTexts;

/* Written by it, read by the builder: in memory that both have. */
struct InitResult {
        int error; /* 0 = it is about to become glovebox-init */
        const char *step;
};

struct InitPlan {
        const struct ConstructRequest *request;
        int program; /* sealed memfd of glovebox-init */
        uint32_t without; /* bits of enum Layer: steps of theirs are left out */
        const struct FactTexts *facts;
        int collect, files; /* ends for init of these pipes (common/collect.h) */
        int builder; /* its pidfd: init is not to outlive it */
        bool has_spare; /* namespaces that were made ahead, and set up (spare.h) */
        struct InitResult *result;
};

/* Becomes glovebox-init, or ends. */
void cell_init_run(void *plan);
