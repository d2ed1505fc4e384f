/* The filter of system calls, last of all. Compiled once when the spawner starts, loaded raw in each main process. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "spawner/steps/seccomp-program.h"
#include "spawner/steps/steps.h"

int step_seccomp(struct StepContext *c) {
        if (!c->seccomp)
                return 0; /* waived */
        struct sock_fprog program = { .len = c->seccomp->n, .filter = c->seccomp->instructions };
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, c->seccomp->log ? SECCOMP_FILTER_FLAG_LOG : 0, &program) < 0 ? -errno : 0;
}
