/* In the workspace; the folder from before the cell was joined is left for good. It is the user's own and nobody else's, and whoever comes from a
 * zygote has no right to pass by that. */
#include <sys/fsuid.h>

#include "spawner/steps/steps.h"

int step_folder(struct StepContext *c) {
        if (c->forked)
                setfsuid(c->user);
        int r = chdir("/workspace") < 0 ? -errno : 0;
        if (c->forked)
                setfsuid(0);
        return r;
}
