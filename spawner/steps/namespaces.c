/* Joins the cell: all of init's namespaces at once. The pid namespace was joined by being born there. */
#include <sched.h>

#include "spawner/steps/steps.h"

int step_namespaces(struct StepContext *c) {
        /* A layer that is waived was not given to init either: joining the one it shares with the host would be refused. */
        static const struct {
                enum Layer layer;
                int flag;
        } optional[] = {
                {LAYER_NETWORK_NAMESPACE, CLONE_NEWNET}, {LAYER_IPC_NAMESPACE, CLONE_NEWIPC}, {LAYER_UTS_NAMESPACE, CLONE_NEWUTS},
        };
        int flags = CLONE_NEWNS | (c->forked ? 0 : CLONE_NEWUSER);
        for (size_t i = 0; i < ELEMENTSOF(optional); i++)
                if (!(c->without & LAYER_BIT(optional[i].layer)))
                        flags |= optional[i].flag;
        if (setns(c->init, flags) < 0)
                return -errno;
        if (c->without & LAYER_BIT(LAYER_CGROUP_NAMESPACE))
                return 0;
        /* init's cgroup namespace begins at its own leaf; from there ours would be seen as "/../run-1". */
        return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}
