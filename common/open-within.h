/* Opening a path that must not lead out of a folder: openat2(2), Linux 5.6. */
#pragma once

#include <sched.h>
#include <sys/syscall.h>

#include "common/util.h"

/* linux/openat2.h */
#define WITHIN_SAME_MOUNT 0x01
#define WITHIN_NO_MAGICLINKS 0x02
#define WITHIN_NO_SYMLINKS 0x04
#define WITHIN_BENEATH 0x08 /* what leads out is refused */
#define WITHIN_ROOT 0x10    /* the folder is the root: absolute links and ".." stay in it */

/* The kernel says EAGAIN when anything on the machine was renamed or mounted while it went over a "..", since it cannot be sure then. A
 * machine where cells are made mounts all the time: one look in many needs a second. Each try is short, and so many do not fail by chance. */
#define WITHIN_TRIES 1000

static inline int open_within_once(int folder, const char *path, int flags, mode_t mode, uint64_t resolve) {
        struct {
                uint64_t flags, mode, resolve;
        } how = {.flags = (uint64_t) (unsigned) flags | O_CLOEXEC, .mode = mode, .resolve = resolve};
        int fd = (int) syscall(SYS_openat2, folder, path, &how, sizeof how);
        return fd < 0 ? -errno : fd;
}

static inline int open_within(int folder, const char *path, int flags, mode_t mode, uint64_t resolve) {
        for (int i = 0; i < WITHIN_TRIES; i++) {
                int fd = open_within_once(folder, path, flags, mode, resolve);
                /* With O_NONBLOCK a lease of somebody's gives it too, and stays. */
                if (fd != -EAGAIN)
                        return fd;
                sched_yield();
        }
        return -EAGAIN;
}
