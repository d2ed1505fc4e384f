/* Default priority and OOM score, whatever the spawner's are. First, while the host's /proc can still be seen. */
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include "spawner/steps/steps.h"

int step_priority(struct StepContext *c) {
        struct sched_param parameter = {};
        if (sched_setscheduler(0, SCHED_OTHER, &parameter) < 0 || setpriority(PRIO_PROCESS, 0, 0) < 0)
                return -errno;
        return c->reset_oom_score ? write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "0") : 0;
}
