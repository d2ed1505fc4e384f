/* A process of its own that moves forked main processes into their cgroups. */
#include "spawner/placer.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "common/log.h"
#include "spawner/helper.h"
#include "spawner/limits/tree.h"
#include "spawner/privileges.h"

#define PLACE_TIME (5 * USEC_PER_SEC)
#define PLACINGS_MAX 1024
/* After a move others are likely to follow. As long as the last one is younger than a grace period the next one does not wait for another: so the
 * process moves itself, to where it is, a few times more. Each is some 50 us of a processor. */
#define KEEP_OPEN (500 * USEC_PER_MSEC)
#define KEEP_PAUSE_MS 4

struct Request {
        uint64_t id;
        int32_t pid;
};

struct Reply {
        uint64_t id;
        int32_t error;
};

struct Placer {
        sd_event *event;
        struct Helper helper;
        sd_event_source *deadline; /* of the oldest move */
        uint64_t last_id;
        size_t n;
        TAILQ_HEAD(, Placing) placings; /* the oldest first */
};

static int own_procs(void) {
        _cleanup_free_ char *root = NULL, *own = NULL, *path = NULL;
        char text[4096];
        int fd _cleanup_close_ = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read_small(fd, text, sizeof text) < 0 || tree_root(&root) < 0 || tree_own_path(text, &own) < 0 ||
            asprintf(&path, "%s%s/cgroup.procs", root, own) < 0)
                return -EBADF; /* then each move waits as long as it has to */
        return open(path, O_WRONLY | O_CLOEXEC);
}

static int move(int dir, pid_t pid) {
        char text[16];
        snprintf(text, sizeof text, "%d", pid);
        return write_file_at(dir, "cgroup.procs", text);
}

/* Until a request has come, or it is not worth while any more. */
static void keep_open(int socket, int own, usec_t last) {
        struct pollfd p = {.fd = socket, .events = POLLIN};
        while (last && own >= 0 && now_monotonic() - last < KEEP_OPEN && poll(&p, 1, KEEP_PAUSE_MS) == 0)
                if (write(own, "0", 1) < 0)
                        return;
}

static int placer_main(int socket, void *userdata) {
        int own = own_procs();
        for (usec_t last = 0;;) {
                struct Request request;
                int dir;
                keep_open(socket, own, last);
                ssize_t n = packet_receive(socket, &request, sizeof request, &dir, 1, 0);
                if (n != (ssize_t) sizeof request)
                        return n == 0 ? 0 : 1;
                const struct Reply reply = {.id = request.id, .error = dir < 0 ? -EBADF : move(dir, request.pid)};
                close_fd(dir);
                last = now_monotonic();
                if (packet_send(socket, &reply, sizeof reply, NULL, 0, 0) < 0)
                        return 1;
        }
}

static void placer_await(struct Placer *p) {
        int r = sd_event_source_set_time_relative(p->deadline, PLACE_TIME);
        if (r >= 0)
                r = sd_event_source_set_enabled(p->deadline, TAILQ_EMPTY(&p->placings) ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        if (r < 0)
                log_error_errno(r, "Failed to set the deadline of the process that moves others into cgroups: %m");
}

static void placing_end(struct Placer *p, struct Placing *placing, int error) {
        placer_forget(p, placing);
        placing->on_placed(placing, error);
}

static void placer_on_packet(const void *bytes, size_t size, int fd, void *userdata) {
        struct Placer *p = userdata;
        struct Reply reply;
        struct Placing *placing;
        close_fd(fd);
        if (size != sizeof reply)
                return;
        memcpy(&reply, bytes, sizeof reply);
        TAILQ_FOREACH(placing, &p->placings, entry)
                if (placing->id == reply.id)
                        break;
        if (placing)
                placing_end(p, placing, MIN(reply.error, 0));
        placer_await(p);
}

/* A new one is started for the next move. */
static void placer_on_death(void *userdata) {
        struct Placer *p = userdata;
        struct Placing *placing;
        while ((placing = TAILQ_FIRST(&p->placings)))
                placing_end(p, placing, -ECHILD);
        placer_await(p);
}

static int placer_on_deadline(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Placer *p = userdata;
        log_warning("The process that moves others into cgroups does not answer and is ended; another one makes the next move.");
        helper_stop(&p->helper);
        placer_on_death(p);
        return 0;
}

static int placer_start(struct Placer *p) {
        const struct HelperPlan plan = {
                .name = "gb-placer",
                .main = placer_main,
                .on_packet = placer_on_packet,
                .on_death = placer_on_death,
                .userdata = p,
                /* Where the spawner has it, it is for a cgroup tree that is not its own. */
                .capabilities = PRIVILEGE(DAC_OVERRIDE),
        };
        return helper_start(&p->helper, p->event, &plan);
}

int placer_new(sd_event *event, struct Placer **ret) {
        struct Placer *p = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        p->event = event;
        p->helper.socket = -EBADF;
        TAILQ_INIT(&p->placings);
        int r = sd_event_add_time(event, &p->deadline, CLOCK_MONOTONIC, USEC_INFINITY, 0, placer_on_deadline, p);
        if (r >= 0)
                r = placer_start(p);
        if (r < 0) {
                placer_free(p);
                return r;
        }
        *ret = p;
        return 0;
}

struct Placer *placer_free(struct Placer *p) {
        if (!p)
                return NULL;
        helper_stop(&p->helper);
        sd_event_source_disable_unref(p->deadline);
        free(p);
        return NULL;
}

int placer_place(struct Placer *p, int cgroup_dir, pid_t pid, struct Placing *placing) {
        if (p->n >= PLACINGS_MAX)
                return -EBUSY;
        const struct Request request = {.id = ++p->last_id, .pid = pid};
        int r = p->helper.pid > 0 ? 0 : placer_start(p);
        if (r >= 0)
                r = helper_send(&p->helper, &request, sizeof request, &cgroup_dir, 1);
        if (r < 0)
                return r;
        placing->id = request.id;
        bool first = TAILQ_EMPTY(&p->placings);
        TAILQ_INSERT_TAIL(&p->placings, placing, entry);
        p->n++;
        if (first)
                placer_await(p);
        return 0;
}

void placer_forget(struct Placer *p, struct Placing *placing) {
        if (!placing->id)
                return;
        TAILQ_REMOVE(&p->placings, placing, entry);
        p->n--;
        placing->id = 0;
}
