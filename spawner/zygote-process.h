/* What becomes of a fork of the spawner that is to be a zygote, until the interpreter is executed. */
#pragma once

#include "spawner/zygote.h"

struct ZygoteProcess {
        const struct Runtime *runtime;
        int userns, template; /* namespaces that it joins */
        uint32_t without;     /* bits of enum Layer */
        int landlock_abi;
        char **args;          /* of the interpreter, its own name first */
};

/* The runtime's args with "--zygote MODULE..." in place of "{code}". */
int zygote_process_args(const struct Runtime *runtime, char ***ret);
/* Comes back only with an errno. */
int zygote_process_run(int socket, void *process);
