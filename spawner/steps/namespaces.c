/* Joins the cell: all of init's namespaces at once. The pid namespace was joined by being born there. */
#include <sched.h>

#include "spawner/steps/steps.h"

int step_namespaces(struct StepContext *c) {
        if (setns(c->init, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
                return -errno;
        /* init's cgroup namespace begins at its own leaf; from there ours would be seen as "/../run-1". */
        return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}
