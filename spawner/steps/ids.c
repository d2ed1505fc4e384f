/* The cell's own user: no groups, then gid and uid, then no capability. */
#include "spawner/privileges.h"
#include "spawner/steps/steps.h"

int step_ids(struct StepContext *c) {
        return privileges_become(c->user);
}
