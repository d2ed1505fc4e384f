/* No better priority than the default, whatever the spawner's is; a worse one stays: whoever gave it to the spawner has their way, and taking it
 * back needs a capability that it does not keep. And the first place when the machine is out of memory: some memory of the kernel is counted to
 * nobody (file locks, connections that nobody accepted), so a small program can be what has used it all up. First, while the host's /proc can still
 * be seen. A program may go back to the spawner's own score, unless that is below 0: then the right to set this bound is there. */
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#include "spawner/steps/steps.h"

int step_priority(struct StepContext *c) {
        struct sched_param parameter = {};
        if (c->forked)
                return 0; /* the zygote's own is this already, and the host's /proc is not to be seen from there */
        if (sched_setscheduler(0, SCHED_OTHER, &parameter) < 0)
                return -errno;
        if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
                return -errno;
        return write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
}
