/* No set-uid file, file capability or security module gives anything back at exec. */
#include <sys/prctl.h>

#include "spawner/steps/steps.h"

int step_no_new_privs(struct StepContext *c) {
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}
