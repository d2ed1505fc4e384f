/* No program can ever get a capability back: bounding and ambient sets empty, securebits locked. Before ids: it needs one itself. */
#include "spawner/privileges.h"
#include "spawner/steps/steps.h"

int step_bounding_set(struct StepContext *c) {
        return privileges_drop_bounding();
}
