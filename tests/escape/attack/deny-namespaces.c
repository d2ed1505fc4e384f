/* New namespaces and those of others, by every call that makes or enters one: most kernel exploits begin in a user namespace.
 * CASES: ESC-11
 * ATTEMPTS: 45 */
#include <sys/prctl.h>

#include "attack.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const struct {
        const char *name, *file;
        uint64_t flag;
} kinds[] = {
        {"user", "user", CLONE_NEWUSER}, {"mount", "mnt", CLONE_NEWNS}, {"pid", "pid", CLONE_NEWPID},          {"network", "net", CLONE_NEWNET},
        {"ipc", "ipc", CLONE_NEWIPC},    {"uts", "uts", CLONE_NEWUTS},  {"cgroup", "cgroup", CLONE_NEWCGROUP}, {"time", "time", CLONE_NEWTIME},
        {"user and mount", NULL, CLONE_NEWUSER | CLONE_NEWNS},
};

/* struct clone_args, the first version of it */
struct Clone3 {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static void reap(long pid) {
        if (pid == 0)
                _exit(0);
        if (pid > 0)
                waitpid((pid_t) pid, NULL, 0);
}

static int unshare_it(void *argument) {
        return outcome(syscall(SYS_unshare, *(uint64_t *) argument));
}

static int setns_it(void *argument) {
        const char *path = argument;
        int fd = open(path, O_RDONLY);
        return fd < 0 ? errno : outcome(syscall(SYS_setns, fd, 0));
}

int main(void) {
        char name[128], path[64];
        for (size_t i = 0; i < COUNT(kinds); i++) {
                uint64_t flag = kinds[i].flag, high = flag | 0xdead00000000;
                snprintf(name, sizeof name, "unshare %s", kinds[i].name);
                attempt_apart(name, unshare_it, &flag);
                snprintf(name, sizeof name, "unshare %s with high bits", kinds[i].name);
                attempt_apart(name, unshare_it, &high);

                struct Clone3 three = {.flags = flag, .exit_signal = SIGCHLD};
                long pid = syscall(SYS_clone3, &three, sizeof three);
                reap(pid);
                snprintf(name, sizeof name, "clone3 %s", kinds[i].name);
                attempt(name, pid);

                /* To clone, the flag of time namespaces is part of the exit signal's number. */
                if (flag != CLONE_NEWTIME) {
                        pid = syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0);
                        reap(pid);
                        snprintf(name, sizeof name, "clone %s", kinds[i].name);
                        attempt(name, pid);
                        pid = syscall(SYS_clone, high | SIGCHLD, 0, 0, 0, 0);
                        reap(pid);
                        snprintf(name, sizeof name, "clone %s with high bits", kinds[i].name);
                        attempt(name, pid);
                }
                if (kinds[i].file) {
                        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i].file);
                        snprintf(name, sizeof name, "setns %s", path);
                        attempt_apart(name, setns_it, path);
                        snprintf(path, sizeof path, "/proc/1/ns/%s", kinds[i].file);
                        snprintf(name, sizeof name, "setns %s", path);
                        attempt_apart(name, setns_it, path);
                }
        }
        struct Clone3 plain = {.exit_signal = SIGCHLD};
        long pid = syscall(SYS_clone3, &plain, sizeof plain);
        reap(pid);
        attempt("clone3 without flags", pid);
        int one = (int) syscall(SYS_pidfd_open, 1, 0);
        attempt("setns by a pidfd of init", syscall(SYS_setns, one, CLONE_NEWNS | CLONE_NEWUSER));
        return finish();
}
