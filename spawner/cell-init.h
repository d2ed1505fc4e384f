/* The part of a cell's making that its own PID 1 does, before it becomes glovebox-init. */
#pragma once

#include "spawner/construct.h"

struct FactTexts;

struct InitPlan {
        const struct ConstructRequest *request;
        int program; /* sealed memfd of glovebox-init */
        uint32_t without; /* bits of enum Layer: steps of theirs are left out */
        int status;  /* pipe to the builder: one struct InitStatus when it is set up, another only if exec fails */
        const struct FactTexts *facts;
        int collect, files; /* ends for init of these pipes (common/collect.h) */
        int go;      /* pipe from the builder: a byte = become glovebox-init, end of file = die */
};

struct InitStatus {
        int32_t error;
        int32_t pid; /* from the helper that cloned it; 0 in init's own */
        char step[STEP_NAME_MAX];
};

_Noreturn void cell_init_run(const struct InitPlan *plan);
