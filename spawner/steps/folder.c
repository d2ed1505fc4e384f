/* In the workspace; the folder from before the cell was joined is left for good. */
#include "spawner/steps/steps.h"

int step_folder(struct StepContext *c) {
        return chdir("/workspace") < 0 ? -errno : 0;
}
