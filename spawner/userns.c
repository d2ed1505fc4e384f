/* The user namespaces that own cells: one per runtime, so that what is root among its cells is nobody on the host. */
#include "spawner/userns.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "spawner/slots.h"

static int write_map(pid_t pid, const char *file, const char *map) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
        return write_file_at(AT_FDCWD, path, map);
}

/* A child enters the new namespace and stays until we hold it: the maps can only be written from outside. */
static pid_t start_holder(int *ret_ready) {
        int ready[2];
        if (pipe2(ready, O_CLOEXEC) < 0)
                return -errno;
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                int32_t error = getppid() != parent ? ESRCH : unshare(CLONE_NEWUSER) < 0 ? errno : 0;
                if (write(ready[1], &error, sizeof error) < 0)
                        _exit(1);
                for (;;)
                        pause();
        }
        int error = errno;
        close_fd(ready[1]);
        if (pid < 0) {
                close_fd(ready[0]);
                return -error;
        }
        *ret_ready = ready[0];
        return pid;
}

static int set_up(pid_t pid, int ready, const char *map, int *ret) {
        int32_t error = ESRCH;
        if (read(ready, &error, sizeof error) != sizeof error || error)
                return -error;
        int r = write_map(pid, "uid_map", map);
        if (r >= 0)
                r = write_map(pid, "gid_map", map);
        if (r < 0)
                return r;
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret = fd;
        return 0;
}

int userns_make(const struct Config *config, unsigned index, int *ret) {
        if (index >= SLOT_UIDS_FIRST)
                return -E2BIG;
        char map[128];
        snprintf(map, sizeof map, "0 %u 1\n%u %u %u\n", config->uid_start + index, SLOT_INSIDE_FIRST,
                 config->uid_start + SLOT_UIDS_FIRST, config->uid_count - SLOT_UIDS_FIRST);
        _cleanup_close_ int ready = -EBADF;
        pid_t pid = start_holder(&ready);
        if (pid < 0)
                return pid;
        int r = set_up(pid, ready, map, ret);
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}
