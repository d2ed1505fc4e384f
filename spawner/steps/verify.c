/* Believes none of the steps before: what must be gone is looked for. */
#include <sys/prctl.h>

#include "spawner/privileges.h"
#include "spawner/steps/steps.h"

int step_verify(struct StepContext *c) {
        uid_t real, effective, saved;
        if (getresuid(&real, &effective, &saved) < 0)
                return -errno;
        if (real != c->user || effective != c->user || saved != c->user || getgroups(0, NULL) != 0)
                return -EPERM;
        if (!(c->without & LAYER_BIT(LAYER_NO_NEW_PRIVS)) && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
                return -EPERM;
        return c->without & LAYER_BIT(LAYER_NO_CAPABILITIES) ? 0 : privileges_verify_none();
}
