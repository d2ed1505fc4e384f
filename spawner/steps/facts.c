/* What the cell is told of its machine follows the run's limits. While the rights over the cell's mounts are still there. */
#include "spawner/facts.h"
#include "spawner/steps/steps.h"

int step_facts(struct StepContext *c) {
        return c->facts ? facts_rewrite(c->facts) : 0;
}
