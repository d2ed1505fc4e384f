/* On a processor whose cores run two threads at once, code of one run is never on a core together with anything else: what one thread leaks of
 * the other through the core they share is then its own. Each run has a mark of its own, which its children inherit. */
#include <sys/prctl.h>

#include "spawner/steps/steps.h"

/* linux/prctl.h, Linux 5.14 */
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE 62
#define PR_SCHED_CORE_GET 0
#define PR_SCHED_CORE_CREATE 1
#endif
#define SCOPE_THREAD 0UL
#define SCOPE_PROCESS 1UL

int core_scheduling_probe(void) {
        unsigned long mark;
        return prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0UL, SCOPE_THREAD, &mark) < 0 ? -errno : 0;
}

int step_core_scheduling(struct StepContext *c) {
        return c->core_scheduling && prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0UL, SCOPE_PROCESS, 0UL) < 0 ? -errno : 0;
}
