/* Nice values and real-time scheduling. */
#include "common/priority.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/util.h"

#define NICE_OF_HIGH (-10)
#define REALTIME_LEVEL 1

static const char *const names[] = {
        [PRIORITY_NORMAL] = "normal",
        [PRIORITY_HIGH] = "high",
        [PRIORITY_REALTIME] = "realtime",
};

int priority_from_string(const char *s, enum Priority *ret) {
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq(strempty(s), names[i]) || (isempty(s) && i == PRIORITY_NORMAL)) {
                        *ret = (enum Priority) i;
                        return 0;
                }
        return -EINVAL;
}

const char *priority_to_string(enum Priority p) {
        return names[p];
}

static bool is_realtime(int policy) {
        policy &= ~SCHED_RESET_ON_FORK;
        return policy == SCHED_RR || policy == SCHED_FIFO;
}

static int schedule(int policy, int level, bool alone) {
        struct sched_param parameter = { .sched_priority = level };

        return sched_setscheduler(0, policy | (alone ? SCHED_RESET_ON_FORK : 0), &parameter) < 0 ? -errno : 0;
}

static int take_realtime(bool alone) {
        struct sched_param now;
        int policy = sched_getscheduler(0);

        if (policy < 0 || sched_getparam(0, &now) < 0)
                return -errno;
        if (!is_realtime(policy))
                return schedule(SCHED_RR, REALTIME_LEVEL, alone);
        return alone ? schedule(policy & ~SCHED_RESET_ON_FORK, now.sched_priority, true) : 0;
}

static int take_high(bool alone) {
        if (is_realtime(sched_getscheduler(0)))
                return take_realtime(alone);
        int r = alone ? schedule(SCHED_OTHER, 0, true) : 0;
        if (r < 0 || getpriority(PRIO_PROCESS, 0) <= NICE_OF_HIGH)
                return r;
        return setpriority(PRIO_PROCESS, 0, NICE_OF_HIGH) < 0 ? -errno : 0;
}

int priority_take(enum Priority p, bool alone) {
        int r = 0;

        if (p == PRIORITY_HIGH)
                r = take_high(alone);
        if (p == PRIORITY_REALTIME)
                r = take_realtime(alone);
        return r == -EACCES ? -EPERM : r; /* what setpriority says */
}

char *priority_cure(enum Priority p, const char *section, const char *unit) {
        static const char *const settings[] = {
                [PRIORITY_NORMAL] = "",
                [PRIORITY_HIGH] = "Nice=-10",
                [PRIORITY_REALTIME] = "CPUSchedulingPolicy=rr and CPUSchedulingPriority=1",
        };
        char *s = NULL;

        if (asprintf(&s, "[%s] priority = %s is not allowed to this process. With systemd give it there (systemctl edit %s: [Service] %s); in a container it "
                     "needs the capability SYS_NICE; or set priority = normal", section, priority_to_string(p), unit, settings[p]) < 0)
                return NULL;
        return s;
}
