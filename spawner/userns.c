/* The user namespaces that own cells: one per runtime, so that what is root among its cells is nobody on the host. */
#include "spawner/userns.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "spawner/privileges.h"
#include "spawner/slots.h"

static int write_map(pid_t pid, const char *file, const char *map) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
        return write_file_at(AT_FDCWD, path, map);
}

/* What each uid of the namespace may have. The kernel counts it once more for the namespace's owner, where the host's own bounds hold for
 * all cells together: so one cell must not get near those. Nested user namespaces would give a cell capabilities to play with. */
static int bound_users(void) {
        static const struct {
                const char *file, *value;
        } bounds[] = {
                {"/proc/sys/user/max_user_namespaces", "0"},    {"/proc/sys/user/max_inotify_instances", "8"},
                {"/proc/sys/user/max_inotify_watches", "8192"}, {"/proc/sys/user/max_fanotify_groups", "0"},
        };
        for (size_t i = 0; i < ELEMENTSOF(bounds); i++) {
                int r = write_file_at(AT_FDCWD, bounds[i].file, bounds[i].value);
                if (r < 0 && r != -ENOENT) /* an older kernel, which has not the thing to be bounded either */
                        return r;
        }
        return 0;
}

/* The namespace takes its bounds for all cells together from its maker; each cell's own are in step_rlimits. */
static const int shared_limits[] = {RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_MEMLOCK};

static void lift_shared_limits(void) {
        const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
        for (size_t i = 0; i < ELEMENTSOF(shared_limits); i++)
                (void) setrlimit((__rlimit_resource_t) shared_limits[i], &none); /* without the right to, the inherited ones stay: userns_remark */
}

const char *userns_remark(void) {
        struct rlimit now;
        if (privileges_have(PRIVILEGE(SYS_RESOURCE)))
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(shared_limits); i++)
                if (getrlimit((__rlimit_resource_t) shared_limits[i], &now) == 0 && now.rlim_max != RLIM_INFINITY)
                        return "all cells of a runtime share the limits of pending signals, locked memory and message queues that this process was started "
                               "with; start it with LimitSIGPENDING=, LimitMEMLOCK= and LimitMSGQUEUE=infinity";
        return NULL;
}

/* Owned by the uid that is its root, and not by the host's: else what cells use up would be root's. The capabilities stay, since systems
 * may refuse the namespace to others; the real uid stays root's, whose number of processes is not bounded. */
static int enter_namespace(uid_t owner) {
        if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || syscall(SYS_setresuid, -1, owner, -1) < 0)
                return -errno;
        if (unshare(CLONE_NEWUSER) < 0)
                return -errno;
        return bound_users();
}

/* A child enters the new namespace and stays until we hold it: the maps can only be written from outside. */
static pid_t start_holder(uid_t owner, int *ret_ready) {
        int ready[2];
        if (pipe2(ready, O_CLOEXEC) < 0)
                return -errno;
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
                lift_shared_limits();
                int32_t error = -enter_namespace(owner);
                prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of ids resets it */
                error = getppid() != parent ? ESRCH : error;
                /* It holds the reading end, too, so writing tells nothing about a parent that has gone. */
                if (write(ready[1], &error, sizeof error) < 0 || error)
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
        /* Anyone may write this one, once: what a cell put there every later cell of the runtime could read. */
        if (r >= 0)
                r = write_map(pid, "projid_map", "0 0 1\n");
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
        pid_t pid = start_holder(config->uid_start + index, &ready);
        if (pid < 0)
                return pid;
        int r = set_up(pid, ready, map, ret);
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}
