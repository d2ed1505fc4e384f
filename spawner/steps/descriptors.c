/* The descriptors of a program at their numbers, the next program, if there is one, at the number after them, and nothing else. */
#include <fcntl.h>
#include <sys/syscall.h>

#include "spawner/steps/steps.h"

#define ASIDE 64 /* above every number we hand out */

/* First all aside, so that no move overwrites one that is still to be moved. */
static int move_aside(int *fd) {
        int moved = fcntl(*fd, F_DUPFD_CLOEXEC, ASIDE);
        if (moved < 0)
                return -errno;
        *fd = moved;
        return 0;
}

int step_descriptors(struct StepContext *c) {
        for (int i = 0; i < STEP_FD_COUNT; i++) {
                int r = move_aside(&c->fds[i]);
                if (r < 0)
                        return r;
        }
        int r = c->forked ? 0 : move_aside(&c->program);
        if (r < 0)
                return r;
        for (int i = 0; i < STEP_FD_COUNT; i++) {
                if (dup2(c->fds[i], i) < 0)
                        return -errno;
                c->fds[i] = i;
        }
        if (!c->forked) {
                if (dup3(c->program, STEP_FD_COUNT, O_CLOEXEC) < 0)
                        return -errno;
                c->program = STEP_FD_COUNT;
        }
        return syscall(SYS_close_range, STEP_FD_COUNT + !c->forked, ~0U, 0) < 0 ? -errno : 0;
}
