/* Namespaces made ahead of the cells that they are for. */
#include "spawner/spare.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "spawner/clone.h"
#include "spawner/helper.h"

#define KEEP_TIME (60 * USEC_PER_SEC) /* without a cell that is asked for */
#define ALL_MAX 32                    /* of all runtimes together: each costs descriptors and memory of the kernel */
#define QUIET_MS 1                    /* since the last one: cells mostly come in a row */

static unsigned all;

static const struct {
        enum Layer layer;
        int flag;
        const char *file;
        int (*set_up)(void);
} kinds[SPARE_KINDS] = {
        [SPARE_NETWORK] = {LAYER_NETWORK_NAMESPACE, CLONE_NEWNET, "/proc/self/ns/net", spare_set_loopback},
        [SPARE_IPC] = {LAYER_IPC_NAMESPACE, CLONE_NEWIPC, "/proc/self/ns/ipc", NULL},
        [SPARE_UTS] = {LAYER_UTS_NAMESPACE, CLONE_NEWUTS, "/proc/self/ns/uts", spare_set_hostname},
};

uint64_t spare_flags(uint32_t without) {
        uint64_t flags = 0;
        for (int k = 0; k < SPARE_KINDS; k++)
                flags |= without & LAYER_BIT(kinds[k].layer) ? 0 : (uint64_t) kinds[k].flag;
        return flags;
}

int spare_set_loopback(void) {
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
        return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

int spare_set_hostname(void) {
        return sethostname("glovebox", 8) < 0 ? -errno : 0;
}

struct Making {
        pid_t builder;
        int userns;
        uint32_t without;
        struct SpareSet made;
};

/* In a process that has the builder's descriptors, and ends with it. Exit status = errno. */
static void make(void *userdata) {
        struct Making *m = userdata;
        uint64_t flags = spare_flags(m->without);
        if (follow_parent(m->builder) < 0 || setns(m->userns, CLONE_NEWUSER) < 0 || follow_parent(m->builder) < 0)
                _exit(errno ? errno : ESRCH);
        if (unshare((int) flags) < 0)
                _exit(errno);
        for (int k = 0; k < SPARE_KINDS; k++) {
                if (!(flags & (uint64_t) kinds[k].flag))
                        continue;
                int r = kinds[k].set_up ? kinds[k].set_up() : 0;
                if (r < 0)
                        _exit(-r);
                m->made.fds[k] = open(kinds[k].file, O_RDONLY | O_CLOEXEC);
                if (m->made.fds[k] < 0)
                        _exit(errno);
        }
        _exit(0);
}

static bool make_set(int userns, uint32_t without, struct SpareSet *ret) {
        static struct CloneStack stack;
        static struct Making *m; /* in memory that it shares in any case */
        struct clone_args args = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
        int status = -1;
        if (!m && (m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED) {
                m = NULL;
                return false;
        }
        *m = (struct Making) {.builder = getpid(), .userns = userns, .without = without, .made.fds = {-EBADF, -EBADF, -EBADF}};
        pid_t pid = clone_and_wait(&args, &stack, make, m);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (pid < 0 || status != 0) {
                spare_done(&m->made);
                return false;
        }
        *ret = m->made;
        return true;
}

bool spare_take(struct SpareStock *s, struct SpareSet *ret) {
        s->asked = now_monotonic();
        if (s->n == 0) {
                s->wanted = MIN(MAX(2 * s->wanted, 1U), (unsigned) SPARE_MAX);
                return false;
        }
        *ret = s->sets[--s->n];
        all--;
        return true;
}

static bool is_wanted(const struct SpareStock *s) {
        return s->n < s->wanted && all < ALL_MAX;
}

int spare_pause(const struct SpareStock *s) {
        if (is_wanted(s))
                return QUIET_MS;
        return s->n > 0 ? (int) (KEEP_TIME / USEC_PER_MSEC) : -1;
}

bool spare_do(struct SpareStock *s, int userns, uint32_t without) {
        if (now_monotonic() >= s->asked + KEEP_TIME) {
                while (s->n > 0) {
                        spare_done(&s->sets[--s->n]);
                        all--;
                }
                s->wanted = 0;
                return false;
        }
        if (!is_wanted(s))
                return false;
        if (make_set(userns, without, &s->sets[s->n])) {
                s->n++;
                all++;
        } else {
                s->wanted = s->n; /* until another is asked for */
        }
        return true;
}

int spare_join(const struct SpareSet *set) {
        for (int k = 0; k < SPARE_KINDS; k++)
                if (set->fds[k] >= 0 && setns(set->fds[k], kinds[k].flag) < 0)
                        return -errno;
        return 0;
}

void spare_done(struct SpareSet *set) {
        for (int k = 0; k < SPARE_KINDS; k++)
                set->fds[k] = close_fd(set->fds[k]);
}
