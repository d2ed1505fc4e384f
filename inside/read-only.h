/* A workspace that the program may only read: one Landlock domain more, taken on by glovebox-start once the files are written. It says what may be
 * written (home, /tmp, /dev/shm, devices, /proc), so /workspace may not; modes and times of its files, which Landlock does not know, still can. */
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>

#include "common/util.h"

/* linux/landlock.h, whose header is often older than the kernel: rights by their first ABI */
#define READ_ONLY_WRITES_1 0x1ff2u   /* WRITE_FILE, REMOVE_*, MAKE_* */
#define READ_ONLY_REFER 0x2000u      /* ABI 2, Linux 5.19 */
#define READ_ONLY_TRUNCATE 0x4000u   /* ABI 3, Linux 6.2 */

static inline int read_only_add(int ruleset, const char *path, uint64_t rights) {
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
        const struct {
                uint64_t allowed;
                int32_t parent;
        } __attribute__((packed)) rule = {rights, fd};
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        return syscall(SYS_landlock_add_rule, ruleset, 1 /* PATH_BENEATH */, &rule, 0) < 0 ? -errno : 0;
}

/* -ENOSYS, -EOPNOTSUPP: there is no Landlock; then nothing may start. */
static inline int read_only_enter(void) {
        static const char *const writable[] = {"/home/sandbox", "/tmp", "/dev", "/proc"};
        int abi = (int) syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* VERSION */);
        if (abi < 0)
                return -errno;
        uint64_t rights = READ_ONLY_WRITES_1 | (abi >= 2 ? READ_ONLY_REFER : 0) | (abi >= 3 ? READ_ONLY_TRUNCATE : 0);
        _cleanup_close_ int ruleset = (int) syscall(SYS_landlock_create_ruleset, &rights, sizeof rights, 0);
        if (ruleset < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(writable); i++) {
                int r = read_only_add(ruleset, writable[i], rights);
                if (r < 0)
                        return r;
        }
        return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}
