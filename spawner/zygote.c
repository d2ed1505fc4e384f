/* The spawner's side of a runtime's zygote. There is one that serves, and sometimes a second that is getting ready to take over: when the first has
 * made so many children or is so old, since all its children have the same hash seed and memory layout; or when it has died. */
#include "spawner/zygote.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/log.h"
#include "spawner/builder.h"
#include "spawner/cell-kind.h"
#include "spawner/helper.h"
#include "spawner/privileges.h"
#include "spawner/steps/seccomp-program.h"
#include "spawner/zygote-process.h"

/* Joining the template and the user namespace; in that one it has others, and on the host none. Where our own OOM score is below 0 we have a third,
 * without which its forks could take that score back. */
#define CAPABILITIES (PRIVILEGE(SYS_ADMIN) | PRIVILEGE(SYS_CHROOT) | PRIVILEGE(SYS_RESOURCE))
#define FORKS_MAX 2000
#define AGE_MAX (10 * 60 * USEC_PER_SEC)
#define READY_TIME (60 * USEC_PER_SEC) /* to import what is preloaded, on a busy machine */
#define ANSWER_TIME (5 * USEC_PER_SEC)
#define PAUSE_MIN (1 * USEC_PER_SEC) /* before the next try; doubled each time */
#define PAUSE_MAX (300 * USEC_PER_SEC)

struct Process {
        struct Zygote *zygote;
        struct Helper helper;
        struct ZygoteProcess plan;
        bool ready;
        uint64_t forks;
        uint64_t number;
        sd_event_source *deadline; /* of what it is to say next */
        TAILQ_HEAD(ZygoteForks, ZygoteFork) waiting;
};

struct Zygote {
        sd_event *event;
        struct ZygotePlan plan;
        struct Process *serving, *coming;
        struct Process *leaving; /* has to answer still */
        sd_event_source *timer;  /* when the next one is to be started */
        uint64_t last_number;
        usec_t pause;
        bool sleeps;             /* nobody has wanted it yet */
};

static void start_later(struct Zygote *z, usec_t pause);

static struct Process *process_free(struct Process *p) {
        if (!p)
                return NULL;
        helper_end(&p->helper); /* what it has loaded takes a while to be given back */
        sd_event_source_disable_unref(p->deadline);
        strv_free(p->plan.args);
        free(p);
        return NULL;
}

static void fail_waiting(struct Process *p, int error) {
        struct ZygoteFork *f;
        while ((f = TAILQ_FIRST(&p->waiting))) {
                TAILQ_REMOVE(&p->waiting, f, entry);
                f->queued = false;
                f->on_forked(f, error, "zygote", 0);
        }
}

/* Out of its place before anyone hears of it: whoever waited may ask again at once. */
static void process_drop(struct Process *p, int error) {
        struct Zygote *z = p->zygote;
        struct Process **places[] = {&z->serving, &z->coming, &z->leaving};
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (*places[i] == p)
                        *places[i] = NULL;
        fail_waiting(p, error);
        process_free(p);
}

static void process_await(struct Process *p, usec_t time) {
        int r = sd_event_source_set_time_relative(p->deadline, time);
        if (r >= 0)
                r = sd_event_source_set_enabled(p->deadline, time ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
        if (r < 0)
                log_error_errno(r, "Failed to set the deadline of a zygote: %m");
}

static void process_failed(struct Process *p, const char *why) {
        struct Zygote *z = p->zygote;
        bool was_ready = p->ready, was_leaving = p == z->leaving, is_served = z->serving && p != z->serving;
        log_event(LOG_WARNING, MESSAGE_ZYGOTE_FAILED, 0, NULL, "The zygote of runtime %s %s; %s.", z->plan.runtime->key, why,
                  was_leaving ? "another one had taken over" :
                  is_served   ? "the one before it goes on" :
                                "until there is another one, its executions start an interpreter each");
        process_drop(p, -ECHILD);
        if (was_leaving)
                return; /* whoever serves keeps its time */
        z->pause = was_ready ? PAUSE_MIN : MIN(MAX(2 * z->pause, PAUSE_MIN), PAUSE_MAX);
        start_later(z, z->pause);
}

static void process_on_death(void *userdata) {
        struct Process *p = userdata;
        process_failed(p, p->ready ? "died" : "ended before it was ready");
}

static int process_on_deadline(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Process *p = userdata;
        process_failed(p, p->ready ? "does not answer and is killed" : "was not ready in time and is killed");
        return 0;
}

static void process_on_ready(struct Process *p, struct ZygoteReady *ready) {
        struct Zygote *z = p->zygote;
        char why[ZYGOTE_DETAIL_MAX + 320];
        ready->detail[ZYGOTE_DETAIL_MAX - 1] = 0;
        for (char *c = ready->detail; *c; c++)
                if ((unsigned char) *c < ' ' || *c == 0x7f)
                        *c = ' ';
        if (ready->error < 0) {
                snprintf(why, sizeof why, "cannot preload what %.200s names (%s): install it for this interpreter, or take it out of preload",
                         z->plan.runtime->file, ready->detail);
                process_failed(p, why);
                return;
        }
        process_await(p, 0);
        p->ready = true;
        p->helper.plan.with_group = false; /* its children are in it, too, until they have a session of their own */
        z->pause = 0;
        struct Process *before = z->serving;
        if (z->leaving)
                process_drop(z->leaving, -ECHILD);
        z->coming = NULL;
        z->serving = p;
        if (before && TAILQ_EMPTY(&before->waiting))
                process_free(before);
        else
                z->leaving = before;
        log_full(LOG_DEBUG, 0, NULL, "The zygote of runtime %s is ready.", z->plan.runtime->key);
        start_later(z, AGE_MAX);
        z->plan.on_ready(z->plan.userdata, z->plan.index);
}

static void process_on_reply(struct Process *p, struct ZygoteReply *reply) {
        struct ZygoteFork *f;
        reply->step[ZYGOTE_STEP_MAX - 1] = 0;
        TAILQ_FOREACH(f, &p->waiting, entry)
                if (f->number == reply->number)
                        break;
        if (f) {
                TAILQ_REMOVE(&p->waiting, f, entry);
                f->queued = false;
        }
        bool is_last = TAILQ_EMPTY(&p->waiting);
        process_await(p, is_last ? 0 : ANSWER_TIME);
        if (is_last && p == p->zygote->leaving) {
                p->zygote->leaving = NULL;
                process_free(p);
        }
        if (f)
                f->on_forked(f, MIN(reply->error, 0), reply->step, reply->pid);
}

static void process_on_packet(const void *bytes, size_t size, int fd, void *userdata) {
        struct Process *p = userdata;
        union {
                struct ZygoteReady ready;
                struct ZygoteReply reply;
        } packet;
        close_fd(fd);
        if (!p->ready && size == sizeof packet.ready) {
                memcpy(&packet.ready, bytes, size);
                process_on_ready(p, &packet.ready);
        } else if (p->ready && size == sizeof packet.reply) {
                memcpy(&packet.reply, bytes, size);
                process_on_reply(p, &packet.reply);
        }
}

/* A file and not a packet: it may be larger. */
static int seccomp_file(const struct SeccompProgram *program) {
        int fd _cleanup_close_ = memfd_create("seccomp", MFD_CLOEXEC);
        size_t size = program->n * sizeof(struct sock_filter);
        if (fd < 0)
                return -errno;
        ssize_t n = pwrite(fd, program->instructions, size, 0);
        return n < 0 ? -errno : n != (ssize_t) size ? -EIO : TAKE_FD(fd);
}

static int send_setup(struct Process *p) {
        const struct CellWorld *world = p->zygote->plan.world;
        struct ZygoteSetup setup = {
                .without = world->without,
                .landlock_abi = world->landlock_abi,
                .core_scheduling = world->core_scheduling,
        };
        int fd _cleanup_close_ = -EBADF;
        if (world->seccomp) {
                setup.instructions = (uint32_t) world->seccomp->n;
                setup.seccomp_log = world->seccomp->log;
                fd = seccomp_file(world->seccomp);
                if (fd < 0)
                        return fd;
        }
        return helper_send(&p->helper, &setup, sizeof setup, &fd, fd < 0 ? 0 : 1);
}

static int process_launch(struct Process *p) {
        int keep[] = {p->plan.userns, p->plan.template};
        const struct HelperPlan plan = {
                .name = "gb-zygote",
                .main = zygote_process_run,
                .main_userdata = &p->plan,
                .on_packet = process_on_packet,
                .on_death = process_on_death,
                .userdata = p,
                .keep = keep,
                .n_keep = ELEMENTSOF(keep),
                .capabilities = CAPABILITIES,
                .with_group = true, /* what it imports may start processes */
        };
        int r = helper_start(&p->helper, p->zygote->event, &plan);
        if (r >= 0)
                r = send_setup(p);
        if (r >= 0)
                process_await(p, READY_TIME);
        return r;
}

static int process_new(struct Zygote *z, struct Process **ret) {
        struct Process *p = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        p->zygote = z;
        p->number = ++z->last_number;
        p->helper.socket = -EBADF;
        p->plan = (struct ZygoteProcess) {
                .runtime = z->plan.runtime, .userns = z->plan.userns, .template = builder_template(z->plan.world->builder, z->plan.index),
                .without = z->plan.world->without, .landlock_abi = z->plan.world->landlock_abi,
        };
        TAILQ_INIT(&p->waiting);
        int r = p->plan.template < 0 ? -EAGAIN : zygote_process_args(z->plan.runtime, &p->plan.args);
        if (r >= 0)
                r = sd_event_add_time(z->event, &p->deadline, CLOCK_MONOTONIC, USEC_INFINITY, 0, process_on_deadline, p);
        if (r >= 0)
                r = process_launch(p);
        if (r < 0) {
                process_free(p);
                return r;
        }
        *ret = p;
        return 0;
}

static int zygote_on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Zygote *z = userdata;
        if (z->coming)
                return 0;
        int r = process_new(z, &z->coming);
        if (r < 0) {
                log_error_errno(r, "Failed to start the zygote of runtime %s: %m", z->plan.runtime->key);
                start_later(z, PAUSE_MIN);
        }
        return 0;
}

static void start_later(struct Zygote *z, usec_t pause) {
        int r = sd_event_source_set_time_relative(z->timer, pause);
        if (r >= 0)
                r = sd_event_source_set_enabled(z->timer, SD_EVENT_ONESHOT);
        if (r < 0)
                log_error_errno(r, "Failed to set the timer of a zygote: %m");
}

int zygote_new(sd_event *event, const struct ZygotePlan *plan, struct Zygote **ret) {
        struct Zygote *z = calloc(1, sizeof *z);
        if (!z)
                return -ENOMEM;
        z->event = event;
        z->plan = *plan;
        z->sleeps = plan->lazy;
        int r = sd_event_add_time_relative(event, &z->timer, CLOCK_MONOTONIC, 0, 0, zygote_on_timer, z);
        if (r >= 0 && z->sleeps)
                r = sd_event_source_set_enabled(z->timer, SD_EVENT_OFF);
        if (r < 0) {
                sd_event_source_disable_unref(z->timer);
                free(z);
                return r;
        }
        *ret = z;
        return 0;
}

struct Zygote *zygote_free(struct Zygote *z) {
        if (!z)
                return NULL;
        struct Process *all[] = {z->serving, z->coming, z->leaving};
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                if (all[i])
                        helper_stop(&all[i]->helper); /* nobody will be there to see it end later */
                process_free(all[i]);
        }
        sd_event_source_disable_unref(z->timer);
        free(z);
        return NULL;
}

bool zygote_want(struct Zygote *z) {
        if (z && z->sleeps) {
                z->sleeps = false;
                start_later(z, 0);
        }
        return z && z->serving;
}

int zygote_fork(struct Zygote *z, struct ZygoteFork *f, struct ZygoteRequest *request, const int fds[ZYGOTE_FDS_]) {
        struct Process *p = z ? z->serving : NULL;
        if (!p)
                return -EAGAIN;
        request->number = f->number;
        int r = helper_send(&p->helper, request, sizeof *request, fds, ZYGOTE_FDS_);
        if (r < 0)
                return r == -EAGAIN || r == -EPIPE || r == -ECONNRESET ? -EAGAIN : r;
        if (TAILQ_EMPTY(&p->waiting))
                process_await(p, ANSWER_TIME);
        TAILQ_INSERT_TAIL(&p->waiting, f, entry);
        f->queued = true;
        f->process = p->number;
        if (++p->forks == FORKS_MAX)
                zygote_renew(z);
        return 0;
}

void zygote_withdraw(struct Zygote *z, struct ZygoteFork *f) {
        struct Process *places[] = {z->serving, z->leaving};
        for (size_t i = 0; i < ELEMENTSOF(places) && f->queued; i++) {
                struct ZygoteFork *other;
                if (!places[i])
                        continue;
                TAILQ_FOREACH(other, &places[i]->waiting, entry)
                        if (other == f) {
                                TAILQ_REMOVE(&places[i]->waiting, f, entry);
                                f->queued = false;
                                break;
                        }
        }
}

void zygote_distrust(struct Zygote *z, const struct ZygoteFork *f, const char *why) {
        struct Process *places[] = {z->serving, z->leaving};
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (places[i] && places[i]->number == f->process) {
                        process_failed(places[i], why);
                        return;
                }
        /* It has gone with this answer, which was its last. */
        log_event(LOG_WARNING, MESSAGE_ZYGOTE_FAILED, 0, NULL, "A zygote of runtime %s that another one had taken over from %s.", z->plan.runtime->key, why);
}

void zygote_renew(struct Zygote *z) {
        if (!z->coming && !z->sleeps)
                start_later(z, 0);
}
