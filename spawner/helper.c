/* A helper process: a fork of the spawner with a SEQPACKET socket to it, that dies with it. Helpers never log: the parent does. */
#include "spawner/helper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "spawner/privileges.h"

int packet_send(int socket, const void *bytes, size_t size, const int *fds, size_t n_fds, int flags) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * HELPER_FDS_MAX)];
        } control = {};
        struct iovec iov = {.iov_base = (void *) bytes, .iov_len = size};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        if (n_fds > HELPER_FDS_MAX)
                return -E2BIG;
        if (n_fds > 0) {
                message.msg_control = control.bytes;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                *c = (struct cmsghdr) {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * n_fds)};
                memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
        }
        ssize_t n;
        do
                n = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

static size_t packet_take_fds(struct msghdr *message, int *fds, size_t n_fds) {
        size_t n = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < count; i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                        if (n < n_fds)
                                fds[n++] = fd;
                        else
                                close_fd(fd);
                }
        }
        return n;
}

ssize_t packet_receive(int socket, void *bytes, size_t size, int *fds, size_t n_fds, int flags) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * HELPER_FDS_MAX)];
        } control;
        struct iovec iov = {.iov_base = bytes, .iov_len = size};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        for (size_t i = 0; i < n_fds; i++)
                fds[i] = -EBADF;
        ssize_t n;
        do
                n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        packet_take_fds(&message, fds, n_fds);
        return n;
}

static int compare_int(const void *a, const void *b) {
        int x = *(const int *) a, y = *(const int *) b;
        return (x > y) - (x < y);
}

/* Everything the spawner holds is not the helper's business, above all the pipes of running cells. */
static void close_all_but(const int *keep, size_t n_keep, int socket) {
        int sorted[n_keep + 1];
        if (n_keep > 0)
                memcpy(sorted, keep, sizeof(int) * n_keep);
        sorted[n_keep] = socket;
        qsort(sorted, n_keep + 1, sizeof(int), compare_int);
        unsigned next = 3;
        for (size_t i = 0; i <= n_keep; i++) {
                if (sorted[i] < 0 || (unsigned) sorted[i] < next)
                        continue;
                if ((unsigned) sorted[i] > next)
                        syscall(SYS_close_range, next, sorted[i] - 1, 0);
                next = (unsigned) sorted[i] + 1;
        }
        syscall(SYS_close_range, next, ~0U, 0);
}

int follow_parent(pid_t parent) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        return getppid() == parent ? 0 : -ESRCH;
}

static void helper_run(const struct HelperPlan *plan, int socket, pid_t parent) {
        if (follow_parent(parent) < 0)
                _exit(1);
        prctl(PR_SET_NAME, plan->name);
        for (int s = 1; s < NSIG; s++)
                signal(s, SIG_DFL);
        /* Ctrl-C in a terminal reaches the whole process group; only the spawner decides when helpers end. */
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        close_all_but(plan->keep, plan->n_keep, socket);
        /* Only ever nicer: whoever started us nicer still has their way. */
        if (getpriority(PRIO_PROCESS, 0) < plan->nice && setpriority(PRIO_PROCESS, 0, plan->nice) < 0)
                _exit(1);
        if (privileges_confine(plan->capabilities) < 0)
                _exit(1);
        _exit(plan->main(socket, plan->main_userdata ? plan->main_userdata : plan->userdata));
}

static void reap(pid_t pid) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* The last thing of a process that was killed, at the latest when the event loop goes. */
static void ending_done(void *userdata) {
        pid_t *pid = userdata;
        reap(*pid);
        free(pid);
}

static int ending_on_exit(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        return sd_event_source_set_floating(s, false); /* the loop's reference was the last one */
}

static int reap_later(sd_event *event, pid_t pid) {
        sd_event_source *s;
        _cleanup_close_ int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        _cleanup_free_ pid_t *ending = malloc(sizeof *ending);
        if (pidfd < 0 || !ending)
                return -errno;
        *ending = pid;
        int r = sd_event_add_io(event, &s, pidfd, EPOLLIN, ending_on_exit, ending);
        if (r < 0)
                return r;
        sd_event_source_set_io_fd_own(s, true);
        pidfd = -EBADF;
        sd_event_source_set_destroy_callback(s, ending_done);
        ending = NULL;
        sd_event_source_set_floating(s, true);
        sd_event_source_unref(s);
        return 0;
}

static void helper_forget(struct Helper *h) {
        h->pid = 0;
        /* In this order: a closed descriptor cannot be taken out of epoll any more. */
        h->source = sd_event_source_disable_unref(h->source);
        h->socket = close_fd(h->socket);
}

static int helper_on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct Helper *h = userdata;
        uint8_t bytes[HELPER_PACKET_MAX];
        int received;
        ssize_t n = packet_receive(fd, bytes, sizeof bytes, &received, 1, MSG_DONTWAIT);
        if (n == -EAGAIN)
                return 0;
        if (n > 0) {
                h->plan.on_packet(bytes, (size_t) n, received, h->plan.userdata);
                return 0;
        }
        close_fd(received);
        helper_end(h);
        h->plan.on_death(h->plan.userdata);
        return 0;
}

int helper_start(struct Helper *h, sd_event *event, const struct HelperPlan *plan) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        _cleanup_close_ int ours = pair[0], theirs = pair[1];
        pid_t parent = getpid(), pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                helper_run(plan, theirs, parent);
        *h = (struct Helper) {.socket = TAKE_FD(ours), .pid = pid, .plan = *plan};
        h->plan.keep = NULL; /* needed only in the child */
        int r = sd_event_add_io(event, &h->source, h->socket, EPOLLIN, helper_on_io, h);
        if (r < 0)
                helper_stop(h);
        return r;
}

static void helper_kill(const struct Helper *h) {
        if (h->plan.with_group)
                kill(-h->pid, SIGKILL);
        kill(h->pid, SIGKILL);
}

void helper_stop(struct Helper *h) {
        if (h->pid > 0) {
                helper_kill(h);
                reap(h->pid);
        }
        helper_forget(h);
}

void helper_end(struct Helper *h) {
        if (h->pid > 0) {
                helper_kill(h);
                if (!h->source || reap_later(sd_event_source_get_event(h->source), h->pid) < 0)
                        reap(h->pid);
        }
        helper_forget(h);
}

int helper_send(struct Helper *h, const void *bytes, size_t size, const int *fds, size_t n_fds) {
        return packet_send(h->socket, bytes, size, fds, n_fds, MSG_DONTWAIT);
}
