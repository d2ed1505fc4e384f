/* A process of its own that removes cgroup folders: rmdir can block for long, and who kills cells must never block. */
#include "spawner/limits/janitor.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/log.h"
#include "spawner/helper.h"

#define IN_FLIGHT_MAX 32
#define ANSWER_TIME (15 * USEC_PER_SEC)

struct Task {
        TAILQ_ENTRY(Task) entry;
        uint64_t id;
        bool sent;
        char path[JANITOR_PATH_MAX];
        void (*on_removed)(int error, void *userdata);
        void *userdata;
};

struct Request {
        uint64_t id;
        char path[JANITOR_PATH_MAX];
};

struct Reply {
        uint64_t id;
        int error;
};

struct Janitor {
        sd_event *event;
        struct Helper helper;
        int root;
        sd_event_source *deadline; /* of its next answer */
        uint64_t last_id;
        size_t in_flight;
        TAILQ_HEAD(, Task) tasks;
};

static int remove_children(int dir_fd) {
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        DIR *dir = fdopendir(fd);
        if (!dir) {
                close_fd(fd);
                return -ENOMEM;
        }
        int r = 0;
        struct dirent *e;
        while ((e = readdir(dir))) {
                if (e->d_type != DT_DIR || e->d_name[0] == '.')
                        continue;
                if (unlinkat(fd, e->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        r = -errno;
        }
        closedir(dir);
        return r;
}

int janitor_remove_now(int root, const char *path) {
        _cleanup_close_ int dir = openat(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = remove_children(dir);
        if (r < 0)
                return r;
        if (unlinkat(root, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
                return -errno;
        return 0;
}

/* The process itself. */
static int janitor_main(int socket, void *userdata) {
        const struct Janitor *j = userdata;
        for (;;) {
                struct Request request;
                ssize_t n = recv(socket, &request, sizeof request, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n != (ssize_t) sizeof request)
                        return 0;
                struct Reply reply = {.id = request.id, .error = janitor_remove_now(j->root, request.path)};
                if (send(socket, &reply, sizeof reply, MSG_NOSIGNAL) < 0)
                        return 1;
        }
}

static int janitor_on_deadline(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Janitor *j = userdata;
        if (j->helper.pid <= 0 || j->in_flight == 0)
                return 0;
        log_error("The process that removes cgroups has not answered in time and is killed.");
        kill(j->helper.pid, SIGKILL); /* our own child, not reaped yet; janitor_on_death goes on */
        return 0;
}

static void janitor_await(struct Janitor *j) {
        int r = sd_event_source_set_time(j->deadline, now_monotonic() + ANSWER_TIME);
        if (r >= 0)
                r = sd_event_source_set_enabled(j->deadline, j->in_flight ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
        if (r < 0)
                log_error_errno(r, "Failed to set the deadline of the process that removes cgroups: %m");
}

static void janitor_send(struct Janitor *j) {
        struct Task *t;
        TAILQ_FOREACH(t, &j->tasks, entry) {
                if (j->in_flight >= IN_FLIGHT_MAX)
                        return;
                if (t->sent)
                        continue;
                struct Request request = {.id = t->id};
                memcpy(request.path, t->path, sizeof request.path);
                if (helper_send(&j->helper, &request, sizeof request, NULL, 0) < 0)
                        return; /* its death or its next reply brings us back */
                t->sent = true;
                if (j->in_flight++ == 0)
                        janitor_await(j);
        }
}

static void janitor_on_packet(const void *bytes, size_t size, int fd, void *userdata) {
        struct Janitor *j = userdata;
        struct Reply reply;
        if (size != sizeof reply)
                return;
        memcpy(&reply, bytes, sizeof reply);
        struct Task *t;
        TAILQ_FOREACH(t, &j->tasks, entry)
                if (t->sent && t->id == reply.id)
                        break;
        if (!t)
                return;
        TAILQ_REMOVE(&j->tasks, t, entry);
        j->in_flight--;
        janitor_await(j);
        if (t->on_removed)
                t->on_removed(reply.error, t->userdata);
        free(t);
        janitor_send(j);
}

static int janitor_start(struct Janitor *j);

static void janitor_on_death(void *userdata) {
        struct Janitor *j = userdata;
        log_warning("The process that removes cgroups died; a new one takes over.");
        struct Task *t;
        TAILQ_FOREACH(t, &j->tasks, entry)
                t->sent = false;
        j->in_flight = 0;
        int r = janitor_start(j);
        if (r < 0) {
                log_error_errno(r, "Failed to start the process that removes cgroups, giving up: %m");
                sd_event_exit(j->event, r);
                return;
        }
        janitor_send(j);
}

static int janitor_start(struct Janitor *j) {
        const struct HelperPlan plan = {
                .name = "gb-janitor",
                .main = janitor_main,
                .on_packet = janitor_on_packet,
                .on_death = janitor_on_death,
                .userdata = j,
                .keep = (const int[]) {j->root},
                .n_keep = 1,
        };
        return helper_start(&j->helper, j->event, &plan);
}

int janitor_new(sd_event *event, int root, struct Janitor **ret) {
        struct Janitor *j = calloc(1, sizeof *j);
        if (!j)
                return -ENOMEM;
        j->event = event;
        j->root = root;
        TAILQ_INIT(&j->tasks);
        int r = sd_event_add_time(event, &j->deadline, CLOCK_MONOTONIC, 0, 0, janitor_on_deadline, j);
        if (r >= 0)
                r = sd_event_source_set_enabled(j->deadline, SD_EVENT_OFF);
        if (r >= 0)
                r = janitor_start(j);
        if (r < 0) {
                sd_event_source_disable_unref(j->deadline);
                free(j);
                return r;
        }
        *ret = j;
        return 0;
}

struct Janitor *janitor_free(struct Janitor *j) {
        if (!j)
                return NULL;
        helper_stop(&j->helper);
        sd_event_source_disable_unref(j->deadline);
        struct Task *t;
        while ((t = TAILQ_FIRST(&j->tasks))) {
                TAILQ_REMOVE(&j->tasks, t, entry);
                free(t);
        }
        free(j);
        return NULL;
}

int janitor_remove(struct Janitor *j, const char *path, void (*on_removed)(int error, void *userdata), void *userdata) {
        if (strlen(path) >= JANITOR_PATH_MAX)
                return -ENAMETOOLONG;
        struct Task *t = calloc(1, sizeof *t);
        if (!t)
                return -ENOMEM;
        t->id = ++j->last_id;
        strcpy(t->path, path);
        t->on_removed = on_removed;
        t->userdata = userdata;
        TAILQ_INSERT_TAIL(&j->tasks, t, entry);
        janitor_send(j);
        return 0;
}
