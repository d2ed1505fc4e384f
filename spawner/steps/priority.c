/* No better priority and OOM score than the defaults, whatever the spawner's are. Worse ones stay: whoever gave them to the spawner has their
 * way, and taking them back needs capabilities that it does not keep. First, while the host's /proc can still be seen. */
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include "spawner/steps/steps.h"

int step_priority(struct StepContext *c) {
        struct sched_param parameter = {};
        if (sched_setscheduler(0, SCHED_OTHER, &parameter) < 0)
                return -errno;
        if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
                return -errno;
        int r = c->reset_oom_score ? write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "0") : 0;
        return r == -EACCES ? 0 : r; /* only lowering it is refused */
}
