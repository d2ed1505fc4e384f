/* The start of an execution: a cell from the spawner, the job into it, and what glovebox-start and the spawner report back. */
#include "server/execution-internal.h"

#include <stdio.h>
#include <sys/epoll.h>

#include "common/log.h"
#include "server/lease/report.h"

#define START_DEADLINE (20 * USEC_PER_SEC)
#define REPORT_DEADLINE (2 * USEC_PER_SEC) /* from the end of the main process */
#define REPORT_PIPE (64 * KIB)

static void take_stamps(struct Execution *e) {
        size_t taken = report_take_stamps(e->report_bytes, e->report_size, e->stamps, &e->n_stamps, strv_length(e->written));

        e->report_size -= taken;
        memmove(e->report_bytes, e->report_bytes + taken, e->report_size);
}

/* Reads what is there. At its end: without a failure the program runs, else it could not be started. */
void execution_read_report(struct Execution *e) {
        /* No more in one go than the pipe holds: whoever writes on and on may keep nobody else waiting. */
        for (size_t total = 0;;) {
                if (total > REPORT_PIPE)
                        return;
                ssize_t n = read(e->report, e->report_bytes + e->report_size, sizeof e->report_bytes - e->report_size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;
                if (n <= 0)
                        break;
                total += (size_t) n;
                e->report_size += (size_t) n;
                take_stamps(e);
                if (e->report_size == sizeof e->report_bytes)
                        break;
        }
        struct Report report;
        int r = report_parse(e->report_bytes, e->report_size, &report);
        if (r < 0)
                execution_fail(e, "report", r, "%s", "");
        else if (r > 0)
                execution_fail(e, report.step, report.error, "%s", "");
        else
                execution_run(e);
}

static int report_on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct Execution *e = userdata;

        execution_read_report(e);
        if (e->main_exited && e->state == EXECUTION_RUNNING)
                execution_trigger(e, TRIGGER_EXIT);
        return 0;
}

static void request_on_sent(struct Execution *e) {
        if (e->job_sent && e->stdin_sent)
                request_done(&e->request);
}

static void job_sent(struct Execution *e) {
        job_done(&e->job);
        e->job_sent = true;
        request_on_sent(e);
}

static void stdin_sent(struct Execution *e) {
        e->stdin_sent = true;
        request_on_sent(e);
}

static void job_on_sent(struct PipeWriter *w, int error, void *userdata) {
        struct Execution *e = userdata;

        /* A reader that went away has said why on the report pipe, or has ended. */
        if (error < 0 && error != -EPIPE)
                execution_fail(e, "job", error, "%s", "");
        job_sent(e);
}

static void stdin_on_sent(struct PipeWriter *w, int error, void *userdata) {
        stdin_sent(userdata);
}

/* Unless the spawner has it already. */
static int send_job(struct Execution *e) {
        int fd = lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_JOB);
        if (e->job_sent) {
                close_fd(fd);
                return 0;
        }
        int r = job_send(&e->job, e->owner->event, fd, job_on_sent, e);
        if (r > 0)
                job_sent(e);
        return r;
}

static int send_stdin(struct Execution *e) {
        int fd = lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDIN);
        int r = pipe_writer_add(&e->stdin_writer, e->request.stdin_bytes.data, e->request.stdin_bytes.size);
        if (r < 0) {
                close_fd(fd);
                return r;
        }
        r = pipe_writer_start(&e->stdin_writer, e->owner->event, fd, stdin_on_sent, e);
        if (r > 0)
                stdin_sent(e);
        return r;
}

static const struct {
        enum EvidenceFile file;
        Glovebox__Internal__Role role;
} evidence_roles[] = {
        { EVIDENCE_FREEZE, GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_FREEZE },
        { EVIDENCE_EVENTS, GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_EVENTS },
        { EVIDENCE_PROCS, GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_PROCS },
        { EVIDENCE_CPU_STAT, GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_STAT },
        { EVIDENCE_MEMORY_CURRENT, GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_CURRENT },
        { EVIDENCE_MEMORY_PEAK, GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_PEAK },
        { EVIDENCE_MEMORY_EVENTS, GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_EVENTS },
        { EVIDENCE_PIDS_CURRENT, GLOVEBOX__INTERNAL__ROLE__ROLE_PIDS_CURRENT },
        { EVIDENCE_PIDS_PEAK, GLOVEBOX__INTERNAL__ROLE__ROLE_PIDS_PEAK },
        { EVIDENCE_PIDS_EVENTS, GLOVEBOX__INTERNAL__ROLE__ROLE_PIDS_EVENTS },
        { EVIDENCE_IO_STAT, GLOVEBOX__INTERNAL__ROLE__ROLE_IO_STAT },
        { EVIDENCE_CPU_PRESSURE, GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_PRESSURE },
        { EVIDENCE_MEMORY_PRESSURE, GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_PRESSURE },
        { EVIDENCE_IO_PRESSURE, GLOVEBOX__INTERNAL__ROLE__ROLE_IO_PRESSURE },
};

static int start_pipes(struct Execution *e) {
        sd_event *event = e->owner->event;

        int r = output_start(&e->output, event, lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDOUT),
                             lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDERR));
        if (r < 0)
                return r;
        r = value_pipe_start(&e->values, event, lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_VALUE));
        if (r < 0)
                return r;
        e->collect_pipe = lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_COLLECT);
        e->files_pipe = lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_FILES);
        e->report = lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT);
        r = set_nonblock(e->report, true);
        if (r < 0)
                return r;
        r = sd_event_add_io(event, &e->report_source, e->report, EPOLLIN, report_on_readable, e);
        if (r < 0)
                return r;
        /* It ends before the program can print: looked at first, `started` comes before any output, and the cap on output acts. */
        r = sd_event_source_set_priority(e->report_source, SD_EVENT_PRIORITY_IMPORTANT);
        if (r < 0)
                return r;
        return 0;
}

static void lease_on_started(const struct LeaseStart *start, void *userdata) {
        struct Execution *e = userdata;

        if (e->state != EXECUTION_LEASING)
                return;
        e->start_kind = start->kind;
        e->begun = start->begun;
        struct RuntimeStatus *status = executions_runtime(e->owner, e->runtime);
        if (status && start->kind < START_KINDS)
                status->started[start->kind]++;
        e->evidence.before = start->before;
        for (size_t i = 0; i < ELEMENTSOF(evidence_roles); i++)
                e->evidence.fds[evidence_roles[i].file] = lease_take_fd(e->lease, evidence_roles[i].role);
        /* The job first: the cell reads it while we get ready to read from the cell. */
        int r = send_job(e);
        if (r >= 0)
                r = send_stdin(e);
        if (r >= 0)
                r = start_pipes(e);
        if (r < 0)
                execution_fail(e, "pipes", r, "%s", "");
}

static void lease_on_failed(const struct LeaseFailure *failure, void *userdata) {
        struct Execution *e = userdata;

        /* While draining after an unprompted end this is the better explanation of it. */
        if (e->trigger == TRIGGER_EXIT && !e->collected)
                e->init_killed = true;
        if (e->trigger == TRIGGER_NONE || e->init_killed)
                e->failure = *failure;
        execution_trigger(e, TRIGGER_SANDBOX);
}

static void lease_on_full(void *userdata) {
        struct Execution *e = userdata;
        if (e->state == EXECUTION_LEASING || e->state == EXECUTION_RUNNING || (e->main_over && !e->main_exited))
                e->result.limits_hit |= 1u << LIMIT_HIT_WORKSPACE;
}

static int execution_on_report_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Execution *e = userdata;

        execution_fail(e, "start", 0, "glovebox-start ended with %s %d before the program ran", e->main_signaled ? "signal" : "status", e->main_status);
        execution_trigger(e, TRIGGER_EXIT);
        return 0;
}

static void lease_on_exited(bool signaled, int status, uint64_t max_rss, void *userdata) {
        struct Execution *e = userdata;

        /* It may have ended before its report was looked at. */
        if (e->state == EXECUTION_LEASING && e->report >= 0)
                execution_read_report(e);
        e->main_exited = true;
        e->main_signaled = signaled;
        e->main_status = status;
        e->max_rss = max_rss;
        if (e->finishing) {
                execution_on_main_told(e);
                return;
        }
        if (e->state != EXECUTION_LEASING) {
                execution_trigger(e, TRIGGER_EXIT);
                return;
        }
        /* Main processes that the spawner has cloned meanwhile hold all that it held, until they have closed it: so the
         * report's end may come later. */
        e->deadline = sd_event_source_disable_unref(e->deadline);
        if (e->report < 0 || execution_timer(e, &e->deadline, now_monotonic() + REPORT_DEADLINE, execution_on_report_deadline) < 0)
                execution_on_report_deadline(NULL, 0, e);
}

static void lease_on_waiting_for(const char *what, void *userdata) {
        struct Execution *e = userdata;

        if (e->trigger != TRIGGER_IDLE || e->collected || !e->deadline)
                return;
        (void) snprintf(e->waiting_for, sizeof e->waiting_for, "%s", what);
        e->deadline = sd_event_source_disable_unref(e->deadline);
        execution_stop(e);
}

static void lease_on_ended(void *userdata) {
        struct Execution *e = userdata;
        if (e->state == EXECUTION_DRAINING)
                execution_collect(e);
}

static void lease_on_closed(const char *left, void *userdata) {
        struct Execution *e = userdata;

        e->lease = NULL;
        if (!isempty(left))
                log_event(LOG_ERR, MESSAGE_CELL_LEFT, 0, e->id, "The cell is not completely gone: %s", left);
        if (e->state == EXECUTION_FINISHED) {
                execution_release_place(e);
                execution_unref(e);
        } else if (e->finishing)
                execution_on_main_untold(e);
        else if (e->state == EXECUTION_DRAINING)
                execution_collect(e);
}

static const struct LeaseCallbacks lease_callbacks = {
        .on_started = lease_on_started,         .on_failed = lease_on_failed, .on_exited = lease_on_exited, .on_full = lease_on_full,
        .on_waiting_for = lease_on_waiting_for, .on_ended = lease_on_ended,   .on_closed = lease_on_closed,
};

static int execution_on_start_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        execution_fail(userdata, "start", ETIMEDOUT, "no cell was ready, or the program did not start, within 20 s");
        return 0;
}

void execution_lease(struct Execution *e) {
        const struct CallerRule *rule = config_caller(e->owner->config, e->caller);
        struct LeaseRequest request = { .runtime = e->runtime, .tag = e->id, .slice = rule ? rule->slice : NULL,
                                        .limits = e->limits, .merge_streams = e->merge_streams, .fresh = e->fresh };
        const struct JobRunner runner = {e->runner, e->limits.value_bytes, e->limits.content_bytes, e->import_default};
        uint8_t body[JOB_BODY_MAX];
        usec_t now = now_monotonic();

        execution_set_state(e, EXECUTION_LEASING);
        e->leased = now;
        int r = job_make(&e->job, &e->request, e->working_dir, &runner);
        if (r < 0) {
                execution_fail(e, "job", r, "%s", "");
                return;
        }
        request.job = body;
        request.job_size = job_pack(&e->job, body);
        e->job_sent = request.job_size > 0;
        if (e->job_sent)
                job_done(&e->job);
        r = lease_new(&e->owner->link, &request, &lease_callbacks, e, &e->lease);
        if (r >= 0)
                r = execution_timer(e, &e->deadline, now + START_DEADLINE, execution_on_start_deadline);
        if (r < 0)
                execution_fail(e, "spawner", r, "%s", "no cell could be asked for");
}
