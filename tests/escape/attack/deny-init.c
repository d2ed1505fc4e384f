/* PID 1 of the cell, which user code must neither see nor touch, and processes that are not there.
 * CASES: ESC-04 ESC-22 ESC-19
 * ATTEMPTS: 120 */
#include <sys/resource.h>
#include <sys/uio.h>

#include "attack.h"

static void files_of_init(void) {
        static const char *const names[] = {"mem",   "environ", "maps",    "smaps", "auxv",        "cmdline", "status", "stat",   "fd",     "fdinfo",
                                            "stack", "syscall", "io",      "root/", "cwd/",        "exe",     "ns/mnt", "ns/net", "task",
                                            "personality",
                                            "wchan", "attr",    "pagemap", "limits", "mountinfo",  "map_files", "cgroup", "comm", "sched", "net/tcp"};
        char path[64];
        for (size_t i = 0; i < COUNT(names); i++) {
                snprintf(path, sizeof path, "/proc/1/%s", names[i]);
                attempt_open(path, O_RDONLY);
        }
        static const char *const writable[] = {"mem", "exe", "oom_score_adj", "clear_refs", "comm", "uid_map", "timens_offsets", "coredump_filter"};
        for (size_t i = 0; i < COUNT(writable); i++) {
                snprintf(path, sizeof path, "/proc/1/%s", writable[i]);
                attempt_open(path, O_WRONLY);
        }
        attempt("listing /proc/1", access("/proc/1", F_OK));
}

static void signals_to_init(void) {
        char name[64];
        siginfo_t info = {.si_code = SI_QUEUE};
        for (int s = 0; s <= 64; s++) {
                snprintf(name, sizeof name, "signal %d to init", s);
                attempt(name, kill(1, s));
        }
        attempt("tgkill init", syscall(SYS_tgkill, 1, 1, SIGKILL));
        attempt("tkill init", syscall(SYS_tkill, 1, SIGKILL));
        attempt("queue to init", syscall(SYS_rt_sigqueueinfo, 1, SIGUSR1, &info));
        int fd = (int) syscall(SYS_pidfd_open, 1, 0);
        attempt("signal by a pidfd", syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0));
        for (int i = 0; i < 8; i++) {
                snprintf(name, sizeof name, "descriptor %d of init", i);
                attempt(name, syscall(SYS_pidfd_getfd, fd, i, 0));
        }
}

static void settings_of_init(void) {
        struct rlimit limit;
        char buffer[8];
        struct iovec local = {buffer, 8}, remote = {(void *) 0x400000, 8};
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(0, &one);
        attempt("limits of init", prlimit(1, RLIMIT_NOFILE, NULL, &limit));
        attempt("limits of init, writing", prlimit(1, RLIMIT_NOFILE, &(struct rlimit){0, 0}, NULL));
        attempt("memory of init", process_vm_readv(1, &local, 1, &remote, 1, 0));
        attempt("writing memory of init", process_vm_writev(1, &local, 1, &remote, 1, 0));
        attempt("priority of init", setpriority(PRIO_PROCESS, 1, 19));
        attempt("processors of init", sched_setaffinity(1, sizeof one, &one));
        attempt("scheduler of init", sched_setscheduler(1, SCHED_IDLE, &(struct sched_param){0}));
        attempt("robust list of init", syscall(SYS_get_robust_list, 1, &(void *){NULL}, &(size_t){0}));
        attempt("io priority of init", syscall(SYS_ioprio_set, 1, 1, 3 << 13));
        attempt("process group of init", setpgid(1, 0));
}

/* What the host's own numbers would name. */
static void processes_of_the_host(void) {
        int seen = 0;
        for (int pid = 2; pid < 70000; pid++)
                if (kill(pid, 0) == 0 && getsid(pid) != getsid(0))
                        seen++;
                else if (kill(pid, 0) < 0 && errno != ESRCH)
                        seen++;
        errno = ESRCH;
        attempt("processes of others by their numbers", seen ? seen : -1);
}

int main(void) {
        files_of_init();
        signals_to_init();
        settings_of_init();
        processes_of_the_host();
        return finish();
}
