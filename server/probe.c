/* Asks each runtime for its version by running it in a real cell, one after the other. Shows at the same time that cells work. */
#include <ctype.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "common/job.h"
#include "common/log.h"
#include "server/execution-internal.h"
#include "server/lease/report.h"

#define PROBE_DEADLINE (30 * USEC_PER_SEC)
/* Server and spawner read a changed config one after the other: so long the spawner may hold a cell to caps of before. */
#define CAPS_PATIENCE (3 * USEC_PER_SEC)
#define CAPS_PAUSE (200 * USEC_PER_MSEC)
/* What all probes together may take while cells are short. */
#define PROBES_PATIENCE (2 * 60 * USEC_PER_SEC)

struct Probe {
        struct Executions *owner;
        struct RuntimeStatus *status; /* NULL: stopped; only the cell is still being taken down */
        struct Lease *lease;
        struct Job job;
        struct Request request; /* empty */
        int out, report;
        char text[1024];
        size_t size;
        sd_event_source *deadline;
};

static struct Probe *probe_free(struct Probe *p) {
        if (!p)
                return NULL;
        job_done(&p->job);
        close_fd(p->out);
        close_fd(p->report);
        sd_event_source_disable_unref(p->deadline);
        free(p);
        return NULL;
}
DEFINE_CLEANUP(struct Probe *, probe_free)

/* The cell goes in the background. Until it is gone none is probed: one of the spawner's cells is kept for probes, not two. */
static void probe_end(struct Probe *p) {
        struct Executions *x = p->owner;

        p->status = NULL;
        p->deadline = sd_event_source_disable_unref(p->deadline);
        x->probe = NULL;
        if (!p->lease) {
                probe_free(p);
                return;
        }
        x->probes_going++;
        lease_close(p->lease);
}

static void probe_failed(struct Probe *p, const char *why) {
        struct Executions *x = p->owner;

        if (!p->status)
                return;
        p->status->available = false;
        p->status->probe = PROBE_DONE;
        (void) snprintf(p->status->detail, sizeof p->status->detail, "%s", why);
        (void) log_event(LOG_WARNING, MESSAGE_RUNTIME_UNUSABLE, 0, NULL, "Runtime %s cannot be used: %s", p->status->name, why);
        probe_end(p);
        probe_next(x);
}

static void probe_succeeded(struct Probe *p) {
        struct Executions *x = p->owner;
        struct RuntimeStatus *s = p->status;
        size_t n = 0, from = 0;

        /* The first line that is not empty: perl begins with an empty one. */
        while (from < p->size && isspace((unsigned char) p->text[from]))
                from++;
        for (; from + n < p->size && n < sizeof s->version - 1 && isprint((unsigned char) p->text[from + n]); n++)
                s->version[n] = p->text[from + n];
        s->version[n] = 0;
        s->available = true;
        s->probe = PROBE_DONE;
        s->detail[0] = 0;
        log_info("Runtime %s: %s", s->name, s->version);
        probe_end(p);
        probe_next(x);
}

static void probe_on_job_sent(struct PipeWriter *w, int error, void *userdata) {
        struct Probe *p = userdata;
        job_done(&p->job);
}

static void probe_on_started(const struct LeaseStart *start, void *userdata) {
        struct Probe *p = userdata;

        p->out = lease_take_fd(p->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDOUT);
        p->report = lease_take_fd(p->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT);
        (void) set_nonblock(p->out, true);
        (void) set_nonblock(p->report, true);
        (void) close_fd(lease_take_fd(p->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDIN));
        int fd = lease_take_fd(p->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_JOB);
        int r = job_make(&p->job, &p->request, "/workspace", &(const struct JobRunner) {});
        if (r >= 0)
                r = job_send(&p->job, p->owner->event, fd, probe_on_job_sent, p);
        else
                close_fd(fd);
        if (r > 0)
                job_done(&p->job);
        if (r < 0)
                probe_failed(p, "its job could not be sent");
}

static int probe_on_again(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Executions *x = userdata;

        x->probe_again = sd_event_source_disable_unref(x->probe_again);
        probe_next(x);
        return 0;
}

/* -ETIMEDOUT: it had time enough. */
static int probe_put_off(struct Probe *p, usec_t patience) {
        struct Executions *x = p->owner;

        if (now_monotonic() - x->probes_began > patience)
                return -ETIMEDOUT;
        int r = sd_event_add_time_relative(x->event, &x->probe_again, CLOCK_MONOTONIC, CAPS_PAUSE, 0, probe_on_again, x);
        if (r < 0)
                return r;
        p->status->probe = PROBE_WANTED;
        probe_end(p);
        return 0;
}

static void probe_on_failed(const struct LeaseFailure *f, void *userdata) {
        struct Probe *p = userdata;
        char why[400];

        if (p->status && f->error == ERANGE && probe_put_off(p, CAPS_PATIENCE) >= 0)
                return; /* above the spawner's caps */
        if (p->status && f->error == EBUSY && probe_put_off(p, PROBES_PATIENCE) >= 0)
                return; /* all of its cells are there */
        const char *text = f->error ? strerrordesc_np(f->error) : "";
        bool twice = streq(f->detail, text);

        (void) snprintf(why, sizeof why, "its cell failed at step '%s': %s%s%s", f->step, f->detail, *f->detail && f->error && !twice ? ": " : "",
                        twice ? "" : text);
        probe_failed(p, why);
}

/* The interpreter may never have run: then the report says which step failed. */
static void why_exited(struct Probe *p, bool signaled, int status, char why[256]) {
        uint8_t bytes[REPORT_RECORD_MAX];
        struct Report report;
        ssize_t n = p->report >= 0 ? read(p->report, bytes, sizeof bytes) : -1;

        if (n > 0 && report_parse(bytes, (size_t) n, &report) > 0)
                (void) snprintf(why, 256, "its cell failed at step '%s': %s", report.step, strerrordesc_np(report.error) ?: "unknown error");
        else
                (void) snprintf(why, 256, "asked for its version it ended with %s %d; set version-args to words after which its interpreter ends with status 0 "
                                "(default --version)", signaled ? "signal" : "status", status);
}

static void probe_on_exited(bool signaled, int status, uint64_t max_rss, void *userdata) {
        struct Probe *p = userdata;
        char why[256];

        if (!p->status)
                return;
        ssize_t n = p->out >= 0 ? read(p->out, p->text, sizeof p->text) : -1;
        p->size = n > 0 ? (size_t) n : 0;
        if (!signaled && status == 0) {
                probe_succeeded(p);
                return;
        }
        why_exited(p, signaled, status, why);
        probe_failed(p, why);
}

static void probe_on_nothing(void *userdata) {
}

static void probe_on_words(const char *what, void *userdata) {
}

static void probe_on_closed(const char *left, void *userdata) {
        struct Probe *p = userdata;
        struct Executions *x = p->owner;

        p->lease = NULL;
        if (!isempty(left))
                log_error("The cell of a probe is not completely gone: %s", left);
        if (p->status) {
                probe_failed(p, "its cell was lost");
                return;
        }
        probe_free(p);
        x->probes_going--;
        if (x->probe_waits)
                probe_next(x);
}

static const struct LeaseCallbacks callbacks = {
        .on_started = probe_on_started,   .on_failed = probe_on_failed, .on_exited = probe_on_exited, .on_full = probe_on_nothing,
        .on_waiting_for = probe_on_words, .on_ended = probe_on_nothing, .on_closed = probe_on_closed,
};

static int probe_on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        probe_failed(userdata, "it did not tell its version within 30 s");
        return 0;
}

static int probe_start(struct Executions *x, struct RuntimeStatus *status) {
        struct Probe *p _cleanup_(probe_freep) = calloc(1, sizeof *p);
        struct LeaseRequest request = { .runtime = status->name, .tag = "", .limits = x->config->defaults, .probe_version = true };

        const struct Runtime *runtime = config_runtime(x->config, status->name);

        if (!p)
                return -ENOMEM;
        if (runtime)
                limits_clamp(&request.limits, &runtime->caps);
        p->owner = x;
        p->status = status;
        p->out = p->report = -EBADF;
        p->job.writer.fd = -EBADF;
        int r = sd_event_add_time_relative(x->event, &p->deadline, CLOCK_MONOTONIC, PROBE_DEADLINE, 0, probe_on_deadline, p);
        if (r < 0)
                return r;
        r = lease_new(&x->link, &request, &callbacks, p, &p->lease);
        if (r < 0)
                return r;
        status->probe = PROBE_RUNNING;
        x->probe = TAKE_PTR(p);
        return 0;
}

void probe_next(struct Executions *x) {
        if (x->probe || x->probe_again || !x->link.ready)
                return;
        for (size_t i = 0; i < x->n_runtimes; i++) {
                if (x->runtimes[i].probe != PROBE_WANTED)
                        continue;
                x->probe_waits = x->probes_going > 0;
                if (x->probe_waits)
                        return; /* probe_on_closed goes on */
                int r = probe_start(x, &x->runtimes[i]);
                if (r >= 0)
                        return;
                x->runtimes[i].probe = PROBE_DONE;
                (void) snprintf(x->runtimes[i].detail, sizeof x->runtimes[i].detail, "could not be asked for its version: %s", strerrordesc_np(-r));
        }
        x->ready = true;
        executions_tell_ready(x);
}

void probe_begin(struct Executions *x) {
        x->probes_began = now_monotonic();
        probe_next(x);
}

void probe_stop(struct Executions *x) {
        x->probe_again = sd_event_source_disable_unref(x->probe_again);
        if (!x->probe)
                return;
        if (x->probe->status && x->probe->status->probe == PROBE_RUNNING)
                x->probe->status->probe = PROBE_WANTED;
        probe_end(x->probe);
}
