/* More of the machine than is one's share: priorities, locked memory, protection from the OOM killer, raised limits.
 * ATTEMPTS: 25 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/uio.h>

#include "attack.h"

/* struct sched_attr, under a name that no header uses */
struct Attributes {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
};

static long write_text(const char *path, const char *text) {
        int fd = open(path, O_WRONLY);
        if (fd < 0)
                return -1;
        long n = write(fd, text, strlen(text));
        int error = errno;
        close(fd);
        errno = error;
        return n;
}

static long raise_limit(int resource) {
        struct rlimit limit;
        getrlimit((__rlimit_resource_t) resource, &limit);
        limit.rlim_cur = limit.rlim_max = limit.rlim_max + 1;
        return setrlimit((__rlimit_resource_t) resource, &limit);
}

int main(void) {
        attempt("nice -1", setpriority(PRIO_PROCESS, 0, -1));
        attempt("nice of the whole uid", setpriority(PRIO_USER, 0, -20));
        attempt("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}));
        attempt("SCHED_RR", sched_setscheduler(0, SCHED_RR, &(struct sched_param){99}));
        struct Attributes deadline = {.size = sizeof deadline, .policy = 6, .runtime = 1000000, .deadline = 2000000, .period = 2000000};
        attempt("SCHED_DEADLINE", syscall(SYS_sched_setattr, 0, &deadline, 0));
        attempt("real-time io", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
        attempt("mlock of 64 MiB", mlock(mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 64 << 20));
        attempt("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE));
        attempt("protection from the OOM killer", write_text("/proc/self/oom_score_adj", "-1000"));
        attempt("a little protection", write_text("/proc/self/oom_score_adj", "-1"));
        attempt("old protection", write_text("/proc/self/oom_adj", "-17"));
        attempt("more processes", raise_limit(RLIMIT_NPROC));
        attempt("more descriptors", raise_limit(RLIMIT_NOFILE));
        attempt("more locked memory", raise_limit(RLIMIT_MEMLOCK));
        attempt("more messages", raise_limit(RLIMIT_MSGQUEUE));
        attempt("more signals", raise_limit(RLIMIT_SIGPENDING));
        /* Pages that the host has put aside: few machines have any, so the errno tells. */
        attempt_because("huge pages", (long) mmap(NULL, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) == -1 ? -1 : 0, EPERM);
        attempt_because("huge pages of 1 GiB",
                        (long) mmap(NULL, 1 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 30 << 26, -1, 0) == -1 ? -1 : 0, EPERM);
        attempt_because("a file of huge pages", memfd_create("x", MFD_HUGETLB), EPERM);
        attempt_because("shared huge pages", shmget(IPC_PRIVATE, 2 << 20, 04000 | IPC_CREAT | 0600), EPERM);
        /* The memory in which the host keeps its files. */
        int fd = open("/usr/bin/env", O_RDONLY);
        char byte;
        attempt("throwing files of the host out of memory", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 ? 0 : (errno = EPERM, -1));
        attempt_because("asking what is in memory", preadv2(fd, &(struct iovec){&byte, 1}, 1, 0, RWF_NOWAIT), EOPNOTSUPP);
        attempt("a count of what is in memory", syscall(451, fd, (uint64_t[2]){0, 4096}, (uint64_t[5]){}, 0));
        attempt("no random addresses", personality(ADDR_NO_RANDOMIZE));
        attempt("executable data", personality(READ_IMPLIES_EXEC));
        attempt("page zero", (long) mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == -1 ? -1 : 0);
        attempt("an autogroup of its own", write_text("/proc/self/autogroup", "-20"));
        return finish();
}
