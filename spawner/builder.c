/* The spawner's side of the builder: a queue of cells to make, and the process that makes them. */
#include "spawner/builder.h"

#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>

#include "common/log.h"
#include "spawner/helper.h"
#include "spawner/limits/leaf.h"
#include "spawner/privileges.h"

#define IN_FLIGHT_MAX 8
#define NICE 5
/* Making and joining the template, killing an init. */
#define CAPABILITIES (PRIVILEGE(SYS_ADMIN) | PRIVILEGE(SYS_CHROOT) | PRIVILEGE(KILL))
#define RESTART_DELAY (100 * USEC_PER_MSEC)
/* For one cell. The builder stands still while init sets itself up, so the first bound is kept here: whatever is in the cell's leaf is killed, and
 * the builder lives. What that does not help is the builder's own. Together below the time that a server waits for its cell. */
#define ANSWER_TIME (10 * USEC_PER_SEC)
#define LAST_TIME (5 * USEC_PER_SEC)
#define TEMPLATE_TIME (30 * USEC_PER_SEC)

struct Builder {
        sd_event *event;
        struct Helper helper;
        struct ConstructPlan plan;
        struct ConstructReady ready;
        bool is_ready; /* templates are on their way */
        int templates[RUNTIMES_MAX];
        unsigned n_templates; /* of the process of now; beyond these they are the last one's */
        int state; /* as builder_state says */
        sd_event_source *restart;
        sd_event_source *deadline; /* of what it is to say next */
        bool hurried; /* the first bound of the oldest cell is over */
        bool restarted;
        size_t in_flight;
        TAILQ_HEAD(Builds, Build) builds;
};

/* 0: nothing is awaited. */
static void builder_await(struct Builder *b, usec_t time) {
        b->hurried = false;
        int r = sd_event_source_set_time(b->deadline, now_monotonic() + time);
        if (r >= 0)
                r = sd_event_source_set_enabled(b->deadline, time ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
        if (r < 0)
                log_error_errno(r, "Failed to set the builder's deadline: %m");
}

static void builder_pump(struct Builder *b) {
        struct Build *build;
        TAILQ_FOREACH(build, &b->builds, entry) {
                if (b->state <= 0 || b->in_flight >= IN_FLIGHT_MAX)
                        return;
                if (build->sent)
                        continue;
                if (helper_send(&b->helper, &build->request, sizeof build->request, build->fds, CONSTRUCT_FDS_) < 0)
                        return; /* its next reply or its death brings us back */
                build->sent = true;
                if (b->in_flight++ == 0)
                        builder_await(b, ANSWER_TIME);
        }
}

static void build_finish(struct Builder *b, struct Build *build, int error, const char *step, pid_t pid, int pidfd) {
        TAILQ_REMOVE(&b->builds, build, entry);
        build->queued = false;
        build->on_built(build, error, step, pid, pidfd);
}

static void builder_begin(struct Builder *b, int state) {
        b->state = state;
        builder_await(b, 0);
        builder_pump(b);
}

static void builder_on_ready(struct Builder *b, const struct ConstructReady *ready) {
        b->ready = *ready;
        b->ready.step[STEP_NAME_MAX - 1] = 0;
        b->is_ready = true;
        b->n_templates = 0;
        if (ready->error < 0 || b->plan.n_runtimes == 0)
                builder_begin(b, ready->error < 0 ? ready->error : 1);
}

static void builder_on_template(struct Builder *b, const struct ConstructTemplate *template, int fd) {
        if (template->runtime != b->n_templates || template->runtime >= b->plan.n_runtimes || fd < 0) {
                close_fd(fd);
                return; /* the deadline ends it */
        }
        close_fd(b->templates[b->n_templates]);
        b->templates[b->n_templates++] = fd;
        if (b->n_templates == b->plan.n_runtimes)
                builder_begin(b, 1);
}

static void builder_on_reply(struct Builder *b, struct ConstructReply *reply, int pidfd) {
        struct Build *build;
        reply->step[STEP_NAME_MAX - 1] = 0;
        TAILQ_FOREACH(build, &b->builds, entry)
                if (build->sent && build->request.number == reply->number)
                        break;
        if (!build) {
                close_fd(pidfd);
                return;
        }
        b->in_flight--;
        builder_await(b, b->in_flight ? ANSWER_TIME : 0);
        if (reply->error >= 0 && pidfd < 0)
                reply->error = -EBADMSG;
        build_finish(b, build, reply->error, reply->step, reply->pid, pidfd);
        builder_pump(b);
}

static void builder_on_packet(const void *bytes, size_t size, int fd, void *userdata) {
        struct Builder *b = userdata;
        union {
                struct ConstructReady ready;
                struct ConstructTemplate template;
                struct ConstructReply reply;
        } packet;
        if (b->state == 0 && !b->is_ready && size == sizeof packet.ready) {
                memcpy(&packet.ready, bytes, size);
                builder_on_ready(b, &packet.ready);
        } else if (b->state == 0 && b->is_ready && size == sizeof packet.template) {
                memcpy(&packet.template, bytes, size);
                builder_on_template(b, &packet.template, TAKE_FD(fd));
        } else if (b->state == 1 && size == sizeof packet.reply) {
                memcpy(&packet.reply, bytes, size);
                builder_on_reply(b, &packet.reply, TAKE_FD(fd));
        }
        close_fd(fd);
}

/* One cell at a time, in the order of the requests. */
static void kill_oldest(struct Builder *b) {
        struct Build *build;
        TAILQ_FOREACH(build, &b->builds, entry)
                if (build->sent)
                        break;
        builder_await(b, LAST_TIME);
        b->hurried = true;
        int r = build ? cgroup_kill(build->fds[CONSTRUCT_LEAF]) : 0;
        log_warning("A cell has not been made in time, and its init is killed%s.", r < 0 ? ", which failed" : "");
}

static int builder_start(struct Builder *b);

static int builder_on_restart(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Builder *b = userdata;
        b->restart = sd_event_source_disable_unref(b->restart);
        b->restarted = true;
        int r = builder_start(b);
        if (r < 0) {
                log_error_errno(r, "Failed to start the builder again, giving up: %m");
                return sd_event_exit(b->event, r);
        }
        return 0;
}

/* Cells in the making are lost; those that were not begun wait for the next builder. */
static void builder_on_death(void *userdata) {
        struct Builder *b = userdata;
        bool was_ready = b->state > 0;
        builder_await(b, 0);
        if (b->state == 0)
                b->state = -ECHILD;
        if (!was_ready) {
                /* The templates cannot be made. At the start whoever waits for them says so; later there is nothing left to serve. */
                if (b->restarted)
                        sd_event_exit(b->event, b->state);
                return;
        }
        log_event(LOG_ERR, MESSAGE_BUILDER_DIED, 0, NULL, "The builder died, and with it all cells; a new one takes over.");
        b->state = 0;
        b->in_flight = 0;
        struct Build *build, *next;
        for (build = TAILQ_FIRST(&b->builds); build; build = next) {
                next = TAILQ_NEXT(build, entry);
                if (build->sent)
                        build_finish(b, build, -ECHILD, "builder", 0, -EBADF);
        }
        int r = sd_event_add_time_relative(b->event, &b->restart, CLOCK_MONOTONIC, RESTART_DELAY, 0, builder_on_restart, b);
        if (r < 0)
                sd_event_exit(b->event, r);
}

/* With what is in the middle of a call that takes the kernel's promise away to end it with its parent. The builder is stopped, so that no number
 * becomes another's meanwhile; the cells that it has made end with it in any case. */
static void kill_children(pid_t builder) {
        char path[64];
        int pid;
        kill(builder, SIGSTOP);
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", builder, builder);
        FILE *children = fopen(path, "re");
        while (children && fscanf(children, "%d", &pid) == 1)
                kill(pid, SIGKILL);
        if (children)
                fclose(children);
}

/* Who makes a cell has the builder's descriptors, so its end of the socket need not be closed by its death: it is not waited for. */
static int builder_on_deadline(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Builder *b = userdata;
        if (b->helper.pid <= 0)
                return 0;
        if (b->state > 0 && !b->hurried) {
                kill_oldest(b);
                return 0;
        }
        log_error("The builder has not answered in time and is killed.");
        kill_children(b->helper.pid);
        helper_end(&b->helper);
        builder_on_death(b);
        return 0;
}

static int builder_main(int socket, void *userdata) {
        struct Builder *b = userdata;
        return construct_main(socket, &b->plan);
}

static int builder_start(struct Builder *b) {
        int keep[RUNTIMES_MAX + 1];
        size_t n = 0;
        for (unsigned i = 0; i < b->plan.n_runtimes; i++)
                keep[n++] = b->plan.runtimes[i].userns;
        keep[n++] = b->plan.init_program;
        const struct HelperPlan plan = {
                .name = "gb-builder",
                .main = builder_main,
                .on_packet = builder_on_packet,
                .on_death = builder_on_death,
                .userdata = b,
                .keep = keep,
                .n_keep = n,
                .nice = NICE,
                .capabilities = CAPABILITIES,
        };
        b->is_ready = false;
        int r = helper_start(&b->helper, b->event, &plan);
        if (r >= 0)
                builder_await(b, TEMPLATE_TIME);
        return r;
}

int builder_new(sd_event *event, const struct ConstructPlan *plan, struct Builder **ret) {
        struct Builder *b = calloc(1, sizeof *b);
        if (!b)
                return -ENOMEM;
        b->event = event;
        b->plan = *plan;
        b->helper.socket = -EBADF;
        for (unsigned i = 0; i < RUNTIMES_MAX; i++)
                b->templates[i] = -EBADF;
        TAILQ_INIT(&b->builds);
        int r = sd_event_add_time(event, &b->deadline, CLOCK_MONOTONIC, 0, 0, builder_on_deadline, b);
        if (r >= 0)
                r = sd_event_source_set_enabled(b->deadline, SD_EVENT_OFF);
        if (r >= 0)
                r = builder_start(b);
        if (r < 0) {
                builder_free(b);
                return r;
        }
        *ret = b;
        return 0;
}

struct Builder *builder_free(struct Builder *b) {
        if (!b)
                return NULL;
        helper_stop(&b->helper);
        sd_event_source_disable_unref(b->restart);
        sd_event_source_disable_unref(b->deadline);
        for (unsigned i = 0; i < RUNTIMES_MAX; i++)
                close_fd(b->templates[i]);
        free(b);
        return NULL;
}

int builder_state(const struct Builder *b, const char **ret_step) {
        if (ret_step && b->state < 0)
                *ret_step = b->ready.step;
        return b->state;
}

int builder_exec_error(const struct Builder *b, unsigned runtime) {
        return runtime < RUNTIMES_MAX ? b->ready.exec_error[runtime] : -EINVAL;
}

int builder_template(const struct Builder *b, unsigned runtime) {
        return runtime < RUNTIMES_MAX ? b->templates[runtime] : -EBADF;
}

void builder_build(struct Builder *b, struct Build *build) {
        build->queued = true;
        build->sent = false;
        TAILQ_INSERT_TAIL(&b->builds, build, entry);
        builder_pump(b);
}

bool builder_withdraw(struct Builder *b, struct Build *build) {
        if (!build->queued || build->sent)
                return false;
        TAILQ_REMOVE(&b->builds, build, entry);
        build->queued = false;
        return true;
}
