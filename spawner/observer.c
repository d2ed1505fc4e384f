/* A process of its own that looks at what a run waits for. */
#include "spawner/observer.h"

#include <linux/capability.h>
#include <signal.h>

#include "common/log.h"
#include "spawner/helper.h"
#include "spawner/privileges.h"

/* Below the time for which a server waits for the answer. */
#define LOOK_TIME (400 * USEC_PER_MSEC)
#define LOOKS_MAX 1024

struct Request {
        uint64_t id;
};

struct Reply {
        uint64_t id;
        uint32_t waiting;
};

struct Observer {
        sd_event *event;
        struct Helper helper;
        sd_event_source *deadline; /* of the oldest look */
        uint64_t last_id;
        size_t n_looks;
        TAILQ_HEAD(, Look) looks; /* the oldest first */
};

static int observer_main(int socket, void *userdata) {
        for (;;) {
                struct Request request;
                int dir;
                ssize_t n = packet_receive(socket, &request, sizeof request, &dir, 1, 0);
                if (n != (ssize_t) sizeof request)
                        return n == 0 ? 0 : 1;
                const struct Reply reply = {.id = request.id, .waiting = (uint32_t) waiting_look(dir)};
                close_fd(dir);
                if (packet_send(socket, &reply, sizeof reply, NULL, 0, 0) < 0)
                        return 1;
        }
}

static void observer_await(struct Observer *o) {
        int r = sd_event_source_set_time_relative(o->deadline, LOOK_TIME);
        if (r >= 0)
                r = sd_event_source_set_enabled(o->deadline, TAILQ_EMPTY(&o->looks) ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        if (r < 0)
                log_error_errno(r, "Failed to set the deadline of the process that looks at runs: %m");
}

static void look_end(struct Observer *o, struct Look *l, enum Waiting waiting) {
        TAILQ_REMOVE(&o->looks, l, entry);
        o->n_looks--;
        l->id = 0;
        l->on_seen(l, waiting);
}

static void observer_on_packet(const void *bytes, size_t size, int fd, void *userdata) {
        struct Observer *o = userdata;
        struct Reply reply;
        close_fd(fd);
        if (size != sizeof reply)
                return;
        memcpy(&reply, bytes, sizeof reply);
        struct Look *l;
        TAILQ_FOREACH(l, &o->looks, entry)
                if (l->id == reply.id)
                        break;
        if (l)
                look_end(o, l, reply.waiting < WAITING_MAX_ ? (enum Waiting) reply.waiting : WAITING_UNKNOWN);
        observer_await(o);
}

/* A new one is started for the next look. */
static void observer_on_death(void *userdata) {
        struct Observer *o = userdata;
        struct Look *l;
        while ((l = TAILQ_FIRST(&o->looks)))
                look_end(o, l, WAITING_UNKNOWN);
        observer_await(o);
}

static int observer_on_deadline(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Observer *o = userdata;
        log_warning("The process that looks at runs is held up by one of them and is ended; another one takes the next look.");
        helper_stop(&o->helper);
        observer_on_death(o);
        return 0;
}

static int observer_start(struct Observer *o) {
        const struct HelperPlan plan = {
                .name = "gb-observer",
                .main = observer_main,
                .on_packet = observer_on_packet,
                .on_death = observer_on_death,
                .userdata = o,
                .capabilities = PRIVILEGE(SYS_PTRACE),
        };
        return helper_start(&o->helper, o->event, &plan);
}

int observer_new(sd_event *event, struct Observer **ret) {
        struct Observer *o = calloc(1, sizeof *o);
        if (!o)
                return -ENOMEM;
        o->event = event;
        o->helper.socket = -EBADF;
        TAILQ_INIT(&o->looks);
        int r = sd_event_add_time(event, &o->deadline, CLOCK_MONOTONIC, USEC_INFINITY, 0, observer_on_deadline, o);
        if (r >= 0)
                r = observer_start(o);
        if (r < 0) {
                observer_free(o);
                return r;
        }
        *ret = o;
        return 0;
}

struct Observer *observer_free(struct Observer *o) {
        if (!o)
                return NULL;
        helper_stop(&o->helper);
        sd_event_source_disable_unref(o->deadline);
        free(o);
        return NULL;
}

int observer_look(struct Observer *o, int cgroup_dir, struct Look *l) {
        if (l->id)
                return 0;
        if (o->n_looks >= LOOKS_MAX)
                return -EBUSY;
        const struct Request request = {.id = ++o->last_id};
        int r = o->helper.pid > 0 ? 0 : observer_start(o);
        if (r >= 0)
                r = helper_send(&o->helper, &request, sizeof request, &cgroup_dir, 1);
        if (r < 0)
                return r;
        l->id = request.id;
        bool first = TAILQ_EMPTY(&o->looks);
        TAILQ_INSERT_TAIL(&o->looks, l, entry);
        o->n_looks++;
        if (first)
                observer_await(o);
        return 0;
}

void observer_forget(struct Observer *o, struct Look *l) {
        if (!l->id)
                return;
        TAILQ_REMOVE(&o->looks, l, entry);
        o->n_looks--;
        l->id = 0;
}
