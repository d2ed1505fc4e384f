/* A process of its own that makes the leaders of scopes, and moves them into their leaf. */
#include "spawner/limits/leaders.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/log.h"
#include "spawner/helper.h"
#include "spawner/limits/driver.h"
#include "spawner/limits/tree.h"

#define IN_FLIGHT_MAX 32
#define ANSWER_TIME (8 * USEC_PER_SEC)

struct Request {
        uint64_t id;
        int32_t pid;
        uint32_t controllers;
};

struct Reply {
        uint64_t id;
        int32_t error;
        int32_t pid;
        uint32_t controllers;
};

struct Leaders {
        sd_event *event;
        struct Helper helper;
        sd_event_source *deadline; /* of its next answer */
        uint64_t last_id;
        size_t in_flight;
        TAILQ_HEAD(Wishes, LeaderWish) wishes;
};

/* The process itself. */

static void leader_run(pid_t parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        prctl(PR_SET_NAME, "gb-leader");
        syscall(SYS_close_range, 0, ~0U, 0);
        for (;;)
                pause();
}

static int leader_make(struct Reply *reply) {
        pid_t parent = getpid(), pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                leader_run(parent);
        int fd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (fd < 0) {
                int error = errno;
                kill(pid, SIGKILL); /* our own child, which ends in no other way */
                return -error;
        }
        reply->pid = pid;
        return fd;
}

int leader_settle(int dir, pid_t pid, unsigned controllers, unsigned *ret_enabled) {
        if (mkdirat(dir, LEADER_LEAF, 0755) < 0)
                return -errno;
        _cleanup_close_ int leaf = openat(dir, LEADER_LEAF, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (leaf < 0)
                return -errno;
        char text[32];
        unsigned have;
        snprintf(text, sizeof text, "%d", pid);
        int r = write_file_at(leaf, "cgroup.procs", text);
        if (r >= 0)
                r = tree_controllers(dir, "cgroup.controllers", &have);
        if (r < 0)
                return r;
        *ret_enabled = tree_enable(dir, have & controllers);
        return 0;
}

static int leaders_main(int socket, void *userdata) {
        signal(SIGCHLD, SIG_IGN); /* nobody asks how a leader ended */
        for (;;) {
                struct Request request;
                int dir;
                ssize_t n = packet_receive(socket, &request, sizeof request, &dir, 1, 0);
                if (n != (ssize_t) sizeof request)
                        return n == 0 ? 0 : 1;
                struct Reply reply = {.id = request.id};
                int fd = -EBADF;
                if (request.pid) {
                        reply.error = leader_settle(dir, request.pid, request.controllers, &reply.controllers);
                } else {
                        fd = leader_make(&reply);
                        reply.error = MIN(fd, 0);
                }
                int r = packet_send(socket, &reply, sizeof reply, &fd, fd >= 0, 0);
                close_fd(dir);
                close_fd(fd);
                if (r < 0)
                        return 1;
        }
}

/* The spawner's side. */

static int leaders_on_deadline(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Leaders *l = userdata;
        if (l->helper.pid <= 0 || l->in_flight == 0)
                return 0;
        log_error("The process that makes leaders of scopes has not answered in time and is killed.");
        kill(l->helper.pid, SIGKILL); /* our own child, not reaped yet; leaders_on_death goes on */
        return 0;
}

static void leaders_await(struct Leaders *l) {
        int r = sd_event_source_set_time(l->deadline, now_monotonic() + ANSWER_TIME);
        if (r >= 0)
                r = sd_event_source_set_enabled(l->deadline, l->in_flight ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
        if (r < 0)
                log_error_errno(r, "Failed to set the deadline of the process that makes leaders: %m");
}

static void leaders_pump(struct Leaders *l) {
        struct LeaderWish *w;
        TAILQ_FOREACH(w, &l->wishes, entry) {
                if (l->in_flight >= IN_FLIGHT_MAX)
                        return;
                if (w->is_sent)
                        continue;
                struct Request request = {.id = w->id, .pid = w->pid, .controllers = w->controllers};
                if (helper_send(&l->helper, &request, sizeof request, &w->dir, w->pid != 0) < 0)
                        return; /* its next reply or its death brings us back */
                w->is_sent = true;
                if (l->in_flight++ == 0)
                        leaders_await(l);
        }
}

static void wish_finish(struct Leaders *l, struct LeaderWish *w, int error, pid_t pid, int pidfd, unsigned controllers) {
        TAILQ_REMOVE(&l->wishes, w, entry);
        w->is_queued = false;
        w->on_done(w, error, pid, pidfd, controllers);
}

static void leaders_on_packet(const void *bytes, size_t size, int fd, void *userdata) {
        struct Leaders *l = userdata;
        _cleanup_close_ int pidfd = fd;
        struct Reply reply;
        if (size != sizeof reply)
                return;
        memcpy(&reply, bytes, sizeof reply);
        l->in_flight -= l->in_flight > 0;
        leaders_await(l);
        struct LeaderWish *w;
        TAILQ_FOREACH(w, &l->wishes, entry)
                if (w->is_sent && w->id == reply.id)
                        break;
        if (w) {
                if (reply.error >= 0 && !w->pid && pidfd < 0)
                        reply.error = -EMFILE;
                wish_finish(l, w, reply.error, reply.pid, TAKE_FD(pidfd), reply.controllers);
        } else if (pidfd >= 0) {
                (void) syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0); /* was withdrawn */
        }
        leaders_pump(l);
}

static int leaders_start(struct Leaders *l);

static void leaders_on_death(void *userdata) {
        struct Leaders *l = userdata;
        log_warning("The process that makes leaders of scopes died, and its leaders with it; a new one takes over.");
        l->in_flight = 0;
        int r = leaders_start(l);
        if (r < 0) {
                log_error_errno(r, "Failed to start the process that makes leaders of scopes, giving up: %m");
                sd_event_exit(l->event, r);
                return;
        }
        struct LeaderWish *w = TAILQ_FIRST(&l->wishes);
        while (w)
                if (w->is_sent || w->pid) {
                        wish_finish(l, w, -ECHILD, 0, -EBADF, 0);
                        w = TAILQ_FIRST(&l->wishes); /* who was told may have withdrawn others */
                } else {
                        w = TAILQ_NEXT(w, entry);
                }
        leaders_pump(l);
}

static int leaders_start(struct Leaders *l) {
        const struct HelperPlan plan = {
                .name = "gb-leaders",
                .main = leaders_main,
                .on_packet = leaders_on_packet,
                .on_death = leaders_on_death,
                .userdata = l,
        };
        return helper_start(&l->helper, l->event, &plan);
}

int leaders_new(sd_event *event, struct Leaders **ret) {
        struct Leaders *l _cleanup_(leaders_freep) = calloc(1, sizeof *l);
        if (!l)
                return -ENOMEM;
        l->event = event;
        l->helper.socket = -EBADF;
        TAILQ_INIT(&l->wishes);
        int r = sd_event_add_time(event, &l->deadline, CLOCK_MONOTONIC, 0, 0, leaders_on_deadline, l);
        if (r >= 0)
                r = sd_event_source_set_enabled(l->deadline, SD_EVENT_OFF);
        if (r >= 0)
                r = leaders_start(l);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

struct Leaders *leaders_free(struct Leaders *l) {
        if (!l)
                return NULL;
        helper_stop(&l->helper);
        sd_event_source_disable_unref(l->deadline);
        free(l);
        return NULL;
}

void leaders_ask(struct Leaders *l, struct LeaderWish *w) {
        w->id = ++l->last_id;
        w->is_queued = true;
        w->is_sent = false;
        TAILQ_INSERT_TAIL(&l->wishes, w, entry);
        leaders_pump(l);
}

void leaders_withdraw(struct Leaders *l, struct LeaderWish *w) {
        if (!w->is_queued)
                return;
        TAILQ_REMOVE(&l->wishes, w, entry);
        w->is_queued = false;
}
