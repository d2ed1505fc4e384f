/* Joins the cell: init's namespaces. The pid namespace was joined by being born there. */
#include <sched.h>

#include "spawner/steps/steps.h"

static const struct {
        enum Layer layer;
        int flag;
} table[STEP_NAMESPACE_COUNT] = {
        [STEP_NAMESPACE_MOUNT] = {LAYER_NONE, CLONE_NEWNS},
        [STEP_NAMESPACE_NETWORK] = {LAYER_NETWORK_NAMESPACE, CLONE_NEWNET},
        [STEP_NAMESPACE_IPC] = {LAYER_IPC_NAMESPACE, CLONE_NEWIPC},
        [STEP_NAMESPACE_UTS] = {LAYER_UTS_NAMESPACE, CLONE_NEWUTS},
};

/* A layer that is waived was not given to init either: joining the one it shares with the host would be refused. */
static bool is_there(const struct StepContext *c, size_t i) {
        return !table[i].layer || !(c->without & LAYER_BIT(table[i].layer));
}

static int join_at_once(const struct StepContext *c) {
        int flags = CLONE_NEWUSER;
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (is_there(c, i))
                        flags |= table[i].flag;
        return setns(c->init, flags) < 0 ? -errno : 0;
}

/* It is in the user namespace, and has no right to look into init, which the other way asks for. */
static int join_each(const struct StepContext *c) {
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (is_there(c, i) && setns(c->namespaces[i], table[i].flag) < 0)
                        return -errno;
        return 0;
}

int step_namespaces(struct StepContext *c) {
        int r = c->forked ? join_each(c) : join_at_once(c);
        if (r < 0 || (c->without & LAYER_BIT(LAYER_CGROUP_NAMESPACE)))
                return r;
        /* init's cgroup namespace begins at its own leaf; from there ours would be seen as "/../run-1". */
        return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}
