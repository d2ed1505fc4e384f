/* Limits of the process, hard and soft: a second line behind the cgroup. Never RLIMIT_AS: Node and others reserve address space freely. */
#include <sys/resource.h>

#include "spawner/steps/steps.h"

#define OPEN_FILES_SOFT 1024
#define OPEN_FILES_HARD 16384

int step_rlimits(struct StepContext *c) {
        const struct {
                int resource;
                rlim_t soft, hard;
        } limits[] = {
                /* Exactly 1: at 0 a piped core_pattern starts the host's helper as root, and above it cores are written. */
                {RLIMIT_CORE, 1, 1},
                {RLIMIT_NOFILE, OPEN_FILES_SOFT, OPEN_FILES_HARD},
                /* The uid is the cell's own, so this counts its processes and nobody else's. */
                {RLIMIT_NPROC, c->max_processes, c->max_processes},
                {RLIMIT_MEMLOCK, 64 * KIB, 64 * KIB},
                {RLIMIT_SIGPENDING, 1024, 1024},
                {RLIMIT_MSGQUEUE, 256 * KIB, 256 * KIB},
                {RLIMIT_RTPRIO, 0, 0},
                {RLIMIT_NICE, 0, 0},
        };
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                struct rlimit now, new = {.rlim_cur = limits[i].soft, .rlim_max = limits[i].hard};
                /* A fork of the zygote gives it up itself, in C, when it is warm; a program that was started could not be made to. */
                if (c->forked && c->waits && limits[i].resource == RLIMIT_NICE)
                        continue;
                if (getrlimit((__rlimit_resource_t) limits[i].resource, &now) < 0)
                        return -errno;
                /* Nothing may be raised here; what is tighter on this machine stays. */
                new.rlim_max = MIN(new.rlim_max, now.rlim_max);
                new.rlim_cur = MIN(new.rlim_cur, new.rlim_max);
                if (setrlimit((__rlimit_resource_t) limits[i].resource, &new) < 0)
                        return -errno;
        }
        return 0;
}
