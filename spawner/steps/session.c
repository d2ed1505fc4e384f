/* A session of its own: no controlling terminal to push keys into, no process group shared with anyone. */
#include "spawner/steps/steps.h"

int step_session(struct StepContext *c) {
        return setsid() < 0 ? -errno : 0;
}
