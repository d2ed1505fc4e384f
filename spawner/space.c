/* The file systems that a cell may write to. Their paths are looked up in the cell's own mount namespace, whose root is read-only: no
 * program there can put something else in their place. */
#include "spawner/space.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "common/open-within.h"

/* home/sandbox is of the same file system as workspace. */
static const char *const places[SPACES_MAX] = {"workspace", "tmp", "dev/shm"};

void space_init(struct Space *s) {
        for (size_t i = 0; i < SPACES_MAX; i++)
                s->fds[i] = -EBADF;
}

void space_done(struct Space *s) {
        for (size_t i = 0; i < SPACES_MAX; i++)
                s->fds[i] = close_fd(s->fds[i]);
}

int space_open(struct Space *s, pid_t init, int init_pidfd) {
        struct pollfd p = {.fd = init_pidfd, .events = POLLIN};
        char path[32];
        snprintf(path, sizeof path, "/proc/%d/root", init);
        _cleanup_close_ int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return -errno;
        /* Until here its number could not have become another's: it has not been reaped. */
        if (poll(&p, 1, 0) != 0)
                return -ESRCH;
        for (size_t i = 0; i < SPACES_MAX; i++) {
                s->fds[i] = open_within(root, places[i], O_PATH | O_DIRECTORY, 0, WITHIN_BENEATH | WITHIN_NO_SYMLINKS);
                if (s->fds[i] < 0)
                        return s->fds[i];
        }
        return 0;
}

static int set_number(int fs, const char *key, uint64_t n) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64, n);
        return fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0) < 0 ? -errno : 0;
}

int space_resize(const struct Space *s, uint64_t bytes, uint64_t inodes) {
        for (size_t i = 0; i < SPACES_MAX; i++) {
                _cleanup_close_ int fs = fspick(s->fds[i], "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
                int r = fs < 0 ? -errno : set_number(fs, "size", space_bytes(i, bytes));
                if (r >= 0)
                        r = set_number(fs, "nr_inodes", space_inodes(i, inodes));
                if (r >= 0 && fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
                        r = -errno;
                if (r < 0)
                        return r;
        }
        return 0;
}

bool space_is_full(const struct Space *s) {
        for (size_t i = 0; i < SPACES_MAX; i++) {
                struct statfs fs;
                if (s->fds[i] >= 0 && fstatfs(s->fds[i], &fs) == 0 && (fs.f_bavail == 0 || fs.f_ffree == 0))
                        return true;
        }
        return false;
}
