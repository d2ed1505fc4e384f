/* The spine: the life of one execution. Read this first.
 *
 *   NEW ── execution_new: validate, charge the caller
 *    ├─▶ QUEUED      no room yet (admit/gate.c)
 *    └─▶ LEASING     the spawner makes a cell and starts glovebox-start in it; the job goes down the job pipe. The report pipe closing
 *    │               without a word means that the program runs now
 *    └─▶ RUNNING     the clock runs; pipes are read into the log (stream/output.c); every reader is a cursor on the log
 *    └─▶ DRAINING    something ended it (enum Trigger, the first one counts): freeze, read the cgroup files, kill, read the pipes empty
 *    └─▶ FINISHED    the verdict is the log's last event. The cell is taken down in the background; its place is given back after that
 *
 * Whatever goes wrong on our side is trigger SANDBOX with the failing step's name. All waits have deadlines: START_DEADLINE until the program
 * runs, limits.timeout from there, STOP_DEADLINE for the kill, the lease's own for taking the cell down. */
#include "server/execution-internal.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "common/job.h"
#include "common/log.h"

#define START_DEADLINE (20 * USEC_PER_SEC)
#define STOP_DEADLINE (10 * USEC_PER_SEC)
#define WAITING_DEADLINE (500 * USEC_PER_MSEC)
#define CPU_LOOK_MIN (5 * USEC_PER_MSEC)
#define RETRY_AFTER (1 * USEC_PER_SEC)

static const char *const states[EXECUTION_STATE_MAX_] = {
        [EXECUTION_NEW] = "NEW",         [EXECUTION_QUEUED] = "QUEUED",     [EXECUTION_LEASING] = "LEASING",
        [EXECUTION_RUNNING] = "RUNNING", [EXECUTION_DRAINING] = "DRAINING", [EXECUTION_FINISHED] = "FINISHED",
};

#define TO(s) (1u << EXECUTION_##s)
static const unsigned transitions[EXECUTION_STATE_MAX_] = {
        [EXECUTION_NEW] = TO(QUEUED) | TO(LEASING),
        [EXECUTION_QUEUED] = TO(LEASING) | TO(FINISHED),
        [EXECUTION_LEASING] = TO(RUNNING) | TO(DRAINING),
        [EXECUTION_RUNNING] = TO(DRAINING),
        [EXECUTION_DRAINING] = TO(FINISHED),
};

static void set_state(struct Execution *e, enum ExecutionState state) {
        if (!(transitions[e->state] & 1u << state)) {
                log_full(LOG_CRIT, 0, e->id, "An execution cannot go from %s to %s", states[e->state], states[state]);
                abort();
        }
        log_full(LOG_DEBUG, 0, e->id, "%s", states[state]);
        e->state = state;
}

static void execution_trigger(struct Execution *e, enum Trigger trigger);
static void execution_collect(struct Execution *e);

static sd_event_source *timer_off(sd_event_source *s) {
        return sd_event_source_disable_unref(s);
}

static int timer_on(struct Execution *e, sd_event_source **s, usec_t at, sd_event_time_handler_t handler) {
        timer_off(*s);
        *s = NULL;
        return sd_event_add_time(e->owner->event, s, CLOCK_MONOTONIC, at, 1, handler, e);
}

static void PRINTF_LIKE(4, 5) fail_at(struct Execution *e, const char *step, int error, const char *format, ...) {
        va_list ap;

        if (e->trigger != TRIGGER_NONE)
                return;
        e->failure = (struct LeaseFailure) { .error = abs(error) };
        (void) snprintf(e->failure.step, sizeof e->failure.step, "%s", step);
        va_start(ap, format);
        (void) vsnprintf(e->failure.detail, sizeof e->failure.detail, format, ap);
        va_end(ap);
        execution_trigger(e, TRIGGER_SANDBOX);
}

/* ---- the end ---- */

static void fill_outputs(struct Execution *e, struct AuditOutput outputs[2]) {
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++) {
                struct OutputSummary *summary = &e->output.pipes[s].summary;
                struct AuditOutput *o = &outputs[s - STREAM_STDOUT];
                uint8_t digest[EVP_MAX_MD_SIZE], tail[OUTPUT_EDGE];
                unsigned n = 0;
                size_t edge = (size_t) MIN(summary->size, (uint64_t) OUTPUT_EDGE);

                *o = (struct AuditOutput) { .name = s == STREAM_STDOUT ? "stdout" : "stderr", .size = summary->size };
                if (!summary->hash || EVP_DigestFinal_ex(summary->hash, digest, &n) != 1)
                        continue;
                hex_encode(digest, n, o->sha256);
                for (size_t i = 0; i < edge; i++)
                        tail[i] = summary->tail[(summary->size - edge + i) % OUTPUT_EDGE];
                (void) audit_escape(summary->head, edge, o->head, sizeof o->head);
                (void) audit_escape(tail, edge, o->tail, sizeof o->tail);
        }
}

static void audit(struct Execution *e, bool end) {
        struct AuditOutput outputs[2];
        const char *keys[64], *values[64];
        struct AuditRecord r = {
                .id = e->id, .request_id = e->request_id, .caller = e->caller, .caller_pid = e->caller_pid, .runtime = e->runtime,
                .profile = e->profile, .code_sha256 = e->result.code_sha256, .limits = &e->limits, .idle = &e->idle_policy,
                .label_keys = keys, .label_values = values,
        };

        for (; r.n_labels < MIN(e->n_labels, ELEMENTSOF(keys)); r.n_labels++) {
                keys[r.n_labels] = e->labels[r.n_labels].key;
                values[r.n_labels] = e->labels[r.n_labels].value;
        }
        if (!end) {
                r.request = &e->request;
                audit_start(&e->owner->audit, &r);
                return;
        }
        if (e->refused)
                r.refused = e->refusal.message;
        else {
                fill_outputs(e, outputs);
                r.result = &e->result;
                r.outputs = outputs;
                r.n_outputs = ELEMENTSOF(outputs);
        }
        audit_end(&e->owner->audit, &r);
}

static void fill_case(const struct Execution *e, struct Case *c) {
        *c = (struct Case) {
                .trigger = e->trigger,
                .cancel_reason = e->cancel_reason,
                .main_exited = e->main_exited,
                .main_signaled = e->main_signaled,
                .main_status = e->main_status,
                .ran = e->started > 0,
                .init_killed = e->init_killed,
                .out_over = output_is_over(&e->output, STREAM_STDOUT),
                .err_over = output_is_over(&e->output, STREAM_STDERR),
                .limits_hit = e->result.limits_hit,
                .timeout = e->limits.timeout,
                .idle_timeout = e->idle_policy.timeout,
                .cpu_time = e->limits.cpu_time,
                .output_bytes = e->limits.output_bytes,
                .since_output = e->output.last_at ? e->ended - MIN(e->ended, e->output.last_at) : USEC_INFINITY,
                .waiting_for = e->waiting_for,
                .failed_step = e->failure.step,
                .failed_detail = e->failure.detail,
                .failed_error = e->failure.error,
        };
}

static void release_place(struct Execution *e) {
        if (e->lease)
                return;
        gate_leave(&e->owner->gate, &e->ticket);
        executions_check_drained(e->owner);
}

static void free_request(struct Execution *e) {
        job_done(&e->job);
        pipe_writer_done(&e->stdin_writer);
        request_done(&e->request);
}

static void execution_finish(struct Execution *e) {
        struct Case c;
        struct Event event = { .kind = EVENT_RESULT, .result = &e->result };

        fill_case(e, &c);
        e->result.usage.stdout_bytes = output_size(&e->output, STREAM_STDOUT);
        e->result.usage.stderr_bytes = output_size(&e->output, STREAM_STDERR);
        e->result.finished_at = now_realtime();
        verdict(&c, &e->result);
        set_state(e, EXECUTION_FINISHED);
        int r = eventlog_add(&e->log, &event, true);
        if (r < 0)
                log_full(LOG_ERR, r, e->id, "Failed to add the result: %m");
        if (e->result.outcome == OUTCOME_SANDBOX_FAILED)
                log_full(LOG_ERR, 0, e->id, "%s", e->result.message);
        audit(e, true);
        output_done(&e->output);
        free_request(e);
        if (e->n_cursors == 0)
                eventlog_shrink(&e->log);
        table_on_finished(e);
        release_place(e);
        execution_unref(e);
}

static void output_on_drained(void *userdata) {
        struct Execution *e = userdata;
        if (e->state == EXECUTION_DRAINING)
                execution_finish(e);
}

/* Nothing of the run can act any more. */
static void execution_collect(struct Execution *e) {
        if (e->collected)
                return;
        e->collected = true;
        e->deadline = timer_off(e->deadline);
        if (e->started)
                e->result.usage.wall = e->ended - e->started;
        evidence_final(&e->evidence, &e->result.usage, &e->result.limits_hit);
        evidence_done(&e->evidence);
        if (e->lease)
                lease_close(e->lease);
        output_drain(&e->output);
}

static int execution_on_stop_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Execution *e = userdata;

        log_full(LOG_ERR, 0, e->id, "The spawner did not end the run in time; giving the cell back");
        execution_collect(e);
        return 0;
}

static void stop_timers(struct Execution *e) {
        e->deadline = timer_off(e->deadline);
        e->timeout = timer_off(e->timeout);
        e->cpu_timer = timer_off(e->cpu_timer);
        e->heartbeat = timer_off(e->heartbeat);
        e->report_source = sd_event_source_disable_unref(e->report_source);
        e->report = close_fd(e->report);
        idle_stop(&e->idle);
}

/* Freeze, or, when that does not come at once, kill: in both cases nothing writes any more. */
static void execution_stop(struct Execution *e) {
        bool has_cgroup = e->evidence.fds[EVIDENCE_EVENTS] >= 0;

        if (!e->lease || !has_cgroup || evidence_freeze(&e->evidence) > 0 || lease_end(e->lease) < 0) {
                execution_collect(e);
                return;
        }
        /* The files vanish with the leaf: take what they say now; what is used until the kill is not worth a wait. */
        evidence_final(&e->evidence, &e->result.usage, &e->result.limits_hit);
        if (timer_on(e, &e->deadline, now_monotonic() + STOP_DEADLINE, execution_on_stop_deadline) < 0)
                execution_collect(e);
}

static int execution_on_no_answer(sd_event_source *source, uint64_t usec, void *userdata) {
        execution_stop(userdata);
        return 0;
}

/* The first cause of the end counts. */
static void execution_trigger(struct Execution *e, enum Trigger trigger) {
        if (e->trigger != TRIGGER_NONE || e->state >= EXECUTION_DRAINING)
                return;
        e->trigger = trigger;
        e->ended = now_monotonic();
        stop_timers(e);
        set_state(e, EXECUTION_DRAINING);
        if (trigger == TRIGGER_IDLE && lease_ask_waiting(e->lease) >= 0 &&
            timer_on(e, &e->deadline, e->ended + WAITING_DEADLINE, execution_on_no_answer) >= 0)
                return; /* lease_on_waiting_for goes on */
        execution_stop(e);
}

static void execution_refuse(struct Execution *e, const struct Refusal *refusal) {
        e->refused = true;
        e->refusal = *refusal;
        set_state(e, EXECUTION_FINISHED);
        audit(e, true);
        free_request(e);
        table_remove(e);
        e->owner->n_active--;
        gate_leave(&e->owner->gate, &e->ticket);
        eventlog_wake(&e->log);
        executions_check_drained(e->owner);
        execution_unref(e);
}

void execution_end(struct Execution *e, enum CancelReason reason) {
        struct Refusal refusal;

        if (e->state == EXECUTION_QUEUED) {
                if (reason == CANCEL_SHUTDOWN)
                        (void) refuse(&refusal, REFUSE_UNAVAILABLE, NULL, "the server is stopping; try another one, or later");
                else
                        (void) refuse(&refusal, REFUSE_CANCELLED, NULL, "the execution was cancelled while it waited for room");
                execution_refuse(e, &refusal);
                return;
        }
        if (e->trigger != TRIGGER_NONE)
                return;
        e->cancel_reason = reason;
        execution_trigger(e, TRIGGER_CANCEL);
}

/* ---- while it runs ---- */

static int execution_on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        execution_trigger(userdata, TRIGGER_TIMEOUT);
        return 0;
}

static void idle_on_idle(void *userdata) {
        execution_trigger(userdata, TRIGGER_IDLE);
}

static int idle_get_cpu(void *userdata, usec_t *ret) {
        struct Execution *e = userdata;
        usec_t user, system;
        int r = evidence_cpu(&e->evidence, &user, &system);
        if (r >= 0)
                *ret = user + system;
        return r;
}

static usec_t idle_get_output(void *userdata, bool *ret_held) {
        struct Execution *e = userdata;
        *ret_held = output_is_held(&e->output);
        return e->output.last_at;
}

static void output_on_over(void *userdata) {
        struct Execution *e = userdata;
        if (e->state == EXECUTION_RUNNING)
                execution_trigger(e, TRIGGER_OUTPUT);
}

static void log_on_room(void *userdata) {
        struct Execution *e = userdata;
        output_resume(&e->output);
}

static int execution_on_heartbeat(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Execution *e = userdata;
        struct Event event = { .kind = EVENT_HEARTBEAT };

        if (eventlog_wants_heartbeat(&e->log)) {
                evidence_now(&e->evidence, &event.heartbeat);
                event.heartbeat.idle_for = idle_for(&e->idle);
                int r = eventlog_add(&e->log, &event, false);
                if (r < 0)
                        return r;
        }
        int r = sd_event_source_set_time(source, usec + e->heartbeat_interval);
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Looks again when the rest could be used up at the earliest. */
static int execution_on_cpu_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Execution *e = userdata;
        usec_t used = 0;
        long online = sysconf(_SC_NPROCESSORS_ONLN);

        (void) idle_get_cpu(e, &used);
        if (used >= e->limits.cpu_time) {
                execution_trigger(e, TRIGGER_CPU_TIME);
                return 0;
        }
        usec_t earliest = (e->limits.cpu_time - used) / (usec_t) MAX(online, 1L);
        int r = sd_event_source_set_time(source, now_monotonic() + MAX(earliest, (usec_t) CPU_LOOK_MIN));
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int start_timers(struct Execution *e) {
        int r = timer_on(e, &e->timeout, e->started + e->limits.timeout, execution_on_timeout);
        if (r < 0)
                return r;
        r = timer_on(e, &e->heartbeat, e->started + e->heartbeat_interval, execution_on_heartbeat);
        if (r < 0)
                return r;
        if (e->limits.cpu_time) {
                r = timer_on(e, &e->cpu_timer, e->started, execution_on_cpu_timer);
                if (r < 0)
                        return r;
        }
        return idle_start(&e->idle, e->owner->event, &e->idle_policy);
}

/* The program has been started: its clock runs. */
static void execution_run(struct Execution *e) {
        struct Event event = { .kind = EVENT_STARTED };

        e->deadline = timer_off(e->deadline);
        e->report_source = sd_event_source_disable_unref(e->report_source);
        e->report = close_fd(e->report);
        e->started = now_monotonic();
        e->result.started_at = now_realtime();
        set_state(e, EXECUTION_RUNNING);
        event.started.queue_time = e->leased - e->accepted;
        event.started.start = e->start_kind;
        int r = eventlog_add(&e->log, &event, false);
        if (r >= 0)
                r = start_timers(e);
        if (r < 0)
                fail_at(e, "timers", r, "%s", "");
}

/* ---- the start ---- */

/* What glovebox-start reports: a record REPORT_FAILED, or nothing. The bytes come from a cell. */
static void report_failure(struct Execution *e) {
        char step[64] = "";
        uint32_t length = job_get_u32(e->report_bytes + 4);

        if (job_get_u32(e->report_bytes) != REPORT_FAILED || length < 4 || length > REPORT_RECORD_MAX) {
                fail_at(e, "report", EBADMSG, "%s", "");
                return;
        }
        size_t n = MIN(MIN((size_t) length, e->report_size - JOB_HEADER_SIZE) - 4, sizeof step - 1);
        for (size_t i = 0; i < n; i++) {
                char c = (char) e->report_bytes[JOB_HEADER_SIZE + 4 + i];
                step[i] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ? c : '?';
        }
        fail_at(e, step, (int) (job_get_u32(e->report_bytes + JOB_HEADER_SIZE) & 0xfff), "%s", "");
}

/* Reads what is there. At its end: without a word the program runs, else it could not be started. */
static void report_read(struct Execution *e) {
        for (;;) {
                ssize_t n = read(e->report, e->report_bytes + e->report_size, sizeof e->report_bytes - e->report_size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;
                if (n > 0 && (e->report_size += (size_t) n) < sizeof e->report_bytes)
                        continue;
                break;
        }
        if (e->report_size >= JOB_HEADER_SIZE + 4)
                report_failure(e);
        else if (e->report_size > 0)
                fail_at(e, "report", EBADMSG, "%s", "");
        else
                execution_run(e);
}

static int report_on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        report_read(userdata);
        return 0;
}

static void request_on_sent(struct Execution *e) {
        if (e->job_sent && e->stdin_sent)
                request_done(&e->request);
}

static void job_on_sent(struct PipeWriter *w, int error, void *userdata) {
        struct Execution *e = userdata;

        /* A reader that went away has said why on the report pipe, or has ended. */
        if (error < 0 && error != -EPIPE)
                fail_at(e, "job", error, "%s", "");
        job_done(&e->job);
        e->job_sent = true;
        request_on_sent(e);
}

static void stdin_on_sent(struct PipeWriter *w, int error, void *userdata) {
        struct Execution *e = userdata;
        e->stdin_sent = true;
        request_on_sent(e);
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
};

static int start_pipes(struct Execution *e) {
        sd_event *event = e->owner->event;

        int r = output_start(&e->output, event, lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDOUT),
                             lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDERR));
        if (r < 0)
                return r;
        e->report = lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT);
        r = set_nonblock(e->report, true);
        if (r < 0)
                return r;
        r = sd_event_add_io(event, &e->report_source, e->report, EPOLLIN, report_on_readable, e);
        if (r < 0)
                return r;
        r = pipe_writer_add(&e->stdin_writer, e->request.stdin_bytes.data, e->request.stdin_bytes.size);
        if (r < 0)
                return r;
        r = pipe_writer_start(&e->stdin_writer, event, lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_STDIN), stdin_on_sent, e);
        if (r < 0)
                return r;
        return job_start(&e->job, event, lease_take_fd(e->lease, GLOVEBOX__INTERNAL__ROLE__ROLE_JOB), &e->request, e->working_dir, job_on_sent, e);
}

static void lease_on_started(unsigned start, void *userdata) {
        struct Execution *e = userdata;

        if (e->state != EXECUTION_LEASING)
                return;
        e->start_kind = start;
        for (size_t i = 0; i < ELEMENTSOF(evidence_roles); i++)
                e->evidence.fds[evidence_roles[i].file] = lease_take_fd(e->lease, evidence_roles[i].role);
        int r = start_pipes(e);
        if (r < 0)
                fail_at(e, "pipes", r, "%s", "");
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

static void lease_on_exited(bool signaled, int status, uint64_t max_rss, void *userdata) {
        struct Execution *e = userdata;

        /* It may have ended before its report was looked at. */
        if (e->state == EXECUTION_LEASING && e->report >= 0)
                report_read(e);
        e->main_exited = true;
        e->main_signaled = signaled;
        e->main_status = status;
        e->result.usage.memory_peak = max_rss;
        if (e->state == EXECUTION_LEASING)
                fail_at(e, "start", 0, "glovebox-start ended with %s %d before the program ran", signaled ? "signal" : "status", status);
        execution_trigger(e, TRIGGER_EXIT);
}

static void lease_on_waiting_for(const char *what, void *userdata) {
        struct Execution *e = userdata;

        if (e->trigger != TRIGGER_IDLE || e->collected || !e->deadline)
                return;
        (void) snprintf(e->waiting_for, sizeof e->waiting_for, "%s", what);
        e->deadline = timer_off(e->deadline);
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
                log_full(LOG_ERR, 0, e->id, "The cell is not completely gone: %s", left);
        if (e->state == EXECUTION_FINISHED) {
                release_place(e);
                execution_unref(e);
        } else if (e->state == EXECUTION_DRAINING)
                execution_collect(e);
}

static const struct LeaseCallbacks lease_callbacks = {
        .on_started = lease_on_started,         .on_failed = lease_on_failed, .on_exited = lease_on_exited,
        .on_waiting_for = lease_on_waiting_for, .on_ended = lease_on_ended,   .on_closed = lease_on_closed,
};

static int execution_on_start_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        fail_at(userdata, "start", ETIMEDOUT, "no cell was ready, or the program did not start, within 20 s");
        return 0;
}

static void execution_lease(struct Execution *e) {
        struct LeaseRequest request = { .runtime = e->runtime, .tag = e->id, .limits = e->limits, .merge_streams = e->merge_streams };
        usec_t now = now_monotonic();

        set_state(e, EXECUTION_LEASING);
        e->leased = now;
        int r = lease_new(&e->owner->link, &request, &lease_callbacks, e, &e->lease);
        if (r >= 0)
                r = timer_on(e, &e->deadline, now + START_DEADLINE, execution_on_start_deadline);
        if (r < 0)
                fail_at(e, "spawner", r, "%s", "no cell could be asked for");
}

static void ticket_on_turn(void *userdata) {
        struct Execution *e = userdata;
        struct Refusal refusal;

        if (e->owner->link.ready) {
                execution_lease(e);
                return;
        }
        (void) refuse(&refusal, REFUSE_UNAVAILABLE, NULL, "the spawner is down; try again later");
        refusal.retry_after = RETRY_AFTER;
        execution_refuse(e, &refusal);
}

static void ticket_on_refused(const struct Refusal *refusal, void *userdata) {
        execution_refuse(userdata, refusal);
}

/* ---- making one ---- */

static int copy_labels(struct Execution *e, const struct Request *r) {
        if (r->n_labels == 0)
                return 0;
        e->labels = calloc(r->n_labels, sizeof *e->labels);
        if (!e->labels)
                return -ENOMEM;
        for (; e->n_labels < r->n_labels; e->n_labels++) {
                struct Label *l = &e->labels[e->n_labels];
                l->key = strdup(r->labels[e->n_labels].key);
                l->value = strdup(r->labels[e->n_labels].value);
                if (!l->key || !l->value)
                        return -ENOMEM;
        }
        return 0;
}

static int make_id(struct Execution *e) {
        uint8_t random[8];
        char hex[2 * sizeof random + 1];

        if (getrandom(random, sizeof random, 0) != sizeof random)
                return -EIO;
        hex_encode(random, sizeof random, hex);
        (void) snprintf(e->id, sizeof e->id, "%s.%011llx%s", e->owner->node, (unsigned long long) (now_realtime() / USEC_PER_MSEC), hex);
        return 0;
}

static int hash_code(struct Execution *e, const struct Bytes *code) {
        uint8_t digest[EVP_MAX_MD_SIZE];
        unsigned n;

        if (EVP_Digest(code->data ? code->data : (const uint8_t *) "", code->size, digest, &n, EVP_sha256(), NULL) != 1)
                return -ENOMEM;
        hex_encode(digest, n, e->result.code_sha256);
        return 0;
}

static int fill(struct Execution *e, const struct Caller *caller, const struct Request *request, struct Plan *plan) {
        const struct RuntimeStatus *status = executions_runtime(e->owner, plan->runtime->name);

        e->accepted = now_monotonic();
        e->result.accepted_at = now_realtime();
        (void) snprintf(e->caller, sizeof e->caller, "%s", caller->name);
        e->caller_pid = caller->pid;
        (void) snprintf(e->profile, sizeof e->profile, "%s", plan->profile);
        (void) snprintf(e->runtime_version, sizeof e->runtime_version, "%s", status ? status->version : "");
        e->limits = plan->limits;
        e->idle_policy = plan->idle;
        e->heartbeat_interval = plan->heartbeat_interval;
        e->working_dir = TAKE_PTR(plan->working_dir);
        e->merge_streams = request->merge_streams;
        e->detached = request->detached;
        e->request_id = strdup(strempty(request->request_id));
        e->runtime = strdup(plan->runtime->name);
        if (!e->request_id || !e->runtime)
                return -ENOMEM;
        int r = copy_labels(e, request);
        if (r >= 0)
                r = hash_code(e, &request->code);
        if (r >= 0)
                r = make_id(e);
        return r;
}

static int create(struct Executions *x, const struct Caller *caller, const struct Request *request, struct Plan *plan, struct Execution **ret) {
        struct Execution *e _cleanup_(execution_freep) = calloc(1, sizeof *e);

        if (!e)
                return -ENOMEM;
        e->owner = x;
        e->report = -EBADF;
        e->job.writer.fd = e->stdin_writer.fd = -EBADF;
        evidence_init(&e->evidence);
        e->ticket = (struct Ticket) { .on_turn = ticket_on_turn, .on_refused = ticket_on_refused, .userdata = e };
        e->idle = (struct Idle) { .get_cpu = idle_get_cpu, .get_output = idle_get_output, .on_idle = idle_on_idle, .userdata = e };
        e->output = (struct Output) { .on_over = output_on_over, .on_drained = output_on_drained, .userdata = e };
        int r = fill(e, caller, request, plan);
        if (r < 0)
                return r;
        r = eventlog_init(&e->log, x->event, e->accepted);
        if (r < 0)
                return r;
        e->log.on_room = log_on_room;
        e->log.userdata = e;
        r = output_init(&e->output, x->event, &e->log, e->limits.output_bytes);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(e);
        return 0;
}

static int check_service(struct Executions *x, const struct Plan *plan, struct Refusal *refusal) {
        const struct RuntimeStatus *status = executions_runtime(x, plan->runtime->name);

        if (!status || status->available || status->probe != PROBE_DONE)
                return 0;
        return refuse(refusal, REFUSE_FAILED_PRECONDITION, "runtime", "'%s' cannot be used on this server: %s", plan->runtime->name, status->detail);
}

static int check_up(struct Executions *x, struct Refusal *refusal) {
        if (x->draining)
                return refuse(refusal, REFUSE_UNAVAILABLE, NULL, "the server is stopping; try another one, or later");
        if (x->link.ready)
                return 0;
        (void) refuse(refusal, REFUSE_UNAVAILABLE, NULL, "the spawner, which makes the sandboxes, is not there; try again in a moment");
        refusal->retry_after = RETRY_AFTER;
        return REFUSE_UNAVAILABLE;
}

static int check_request_id(struct Executions *x, const struct Caller *caller, const struct Request *request, struct Refusal *refusal) {
        if (isempty(request->request_id))
                return 0;
        const struct Execution *e = table_find_request(x, caller->name, request->request_id);
        if (!e)
                return 0;
        (void) refuse(refusal, REFUSE_ALREADY_EXISTS, "request_id", "was used for execution %s; ask for that one with GetExecution", e->id);
        (void) snprintf(refusal->resource, sizeof refusal->resource, "%s", e->id);
        return REFUSE_ALREADY_EXISTS;
}

/* In the table, with a place or in the list; `accepted` is its first event. */
static int enter(struct Executions *x, struct Execution *e, struct Refusal *refusal) {
        struct Event event = { .kind = EVENT_ACCEPTED };
        int place = gate_enter(&x->gate, e->caller, &e->ticket, refusal);

        if (place < 0 || place == REFUSE_RESOURCE_EXHAUSTED)
                return place;
        event.accepted.queued = place == TICKET_WAITING;
        int r = eventlog_add(&e->log, &event, false);
        if (r >= 0)
                r = table_add(x, e);
        if (r < 0) {
                gate_leave(&x->gate, &e->ticket);
                return r;
        }
        x->n_active++;
        return 0;
}

static int make(struct Executions *x, const struct Caller *caller, struct Request *request, struct Execution **ret, struct Refusal *refusal) {
        struct Plan plan _cleanup_(plan_done) = {};
        struct Execution *e _cleanup_(execution_freep) = NULL;

        int r = check_up(x, refusal);
        if (r == 0)
                r = plan_make(x->config, x->link.info.limits_not_enforced, request, &plan, refusal);
        if (r == 0)
                r = check_service(x, &plan, refusal);
        if (r == 0)
                r = check_request_id(x, caller, request, refusal);
        if (r == 0)
                r = create(x, caller, request, &plan, &e);
        if (r == 0)
                r = enter(x, e, refusal);
        if (r != 0)
                return r;
        e->request = *request;
        *request = (struct Request) {};
        audit(e, false);
        if (e->ticket.state == TICKET_RUNNING)
                execution_lease(e);
        else
                set_state(e, EXECUTION_QUEUED);
        *ret = TAKE_PTR(e);
        return 0;
}

int execution_new(struct Executions *x, const struct Caller *caller, struct Request *request, struct Execution **ret, struct Refusal *refusal) {
        int r = make(x, caller, request, ret, refusal);

        if (r < 0) {
                log_error_errno(r, "Failed to make an execution: %m");
                r = refuse(refusal, REFUSE_INTERNAL, NULL, "the server failed: %s", strerrordesc_np(-r));
        }
        request_done(request);
        return r;
}

void execution_unref(struct Execution *e) {
        if (e->state != EXECUTION_FINISHED || e->lease)
                return;
        if (e->n_cursors == 0 && !e->account)
                execution_free(e);
}

struct Execution *execution_free(struct Execution *e) {
        if (!e)
                return NULL;
        stop_timers(e);
        free_request(e);
        output_done(&e->output);
        evidence_done(&e->evidence);
        eventlog_done(&e->log);
        for (size_t i = 0; i < e->n_labels; i++) {
                free(e->labels[i].key);
                free(e->labels[i].value);
        }
        free(e->labels);
        free(e->request_id);
        free(e->runtime);
        free(e->working_dir);
        free(e);
        return NULL;
}

void execution_client_gone(struct Execution *e) {
        if (!e->detached)
                execution_end(e, CANCEL_CLIENT_GONE);
}

void execution_view(struct Execution *e, struct ExecutionView *ret) {
        *ret = (struct ExecutionView) {
                .id = e->id, .request_id = e->request_id, .caller = e->caller, .runtime = e->runtime, .runtime_version = e->runtime_version,
                .profile = e->profile, .labels = e->labels, .n_labels = e->n_labels, .state = e->state, .limits = e->limits,
                .idle = e->idle_policy, .heartbeat_interval = e->heartbeat_interval, .detached = e->detached,
                .accepted_at = e->result.accepted_at, .started_at = e->result.started_at,
                .stdout_bytes = output_size(&e->output, STREAM_STDOUT), .stderr_bytes = output_size(&e->output, STREAM_STDERR),
        };
        if (e->state == EXECUTION_RUNNING) {
                evidence_now(&e->evidence, &ret->now);
                ret->now.idle_for = idle_for(&e->idle);
        }
        if (e->state == EXECUTION_FINISHED && !e->refused)
                ret->result = &e->result;
}

const struct Refusal *execution_refusal(const struct Execution *e) {
        return e->refused ? &e->refusal : NULL;
}

/* ---- cursors ---- */

struct Cursor {
        struct LogCursor log;
        struct Execution *execution;
};

int cursor_new(struct Execution *e, bool lead, void (*wake)(void *userdata), void *userdata, struct Cursor **ret) {
        struct Cursor *c = calloc(1, sizeof *c);

        if (!c)
                return -ENOMEM;
        c->execution = e;
        log_cursor_start(&c->log, &e->log, lead && !e->detached, wake, userdata);
        e->n_cursors++;
        *ret = c;
        return 0;
}

struct Cursor *cursor_free(struct Cursor *c) {
        if (!c)
                return NULL;
        struct Execution *e = c->execution;
        log_cursor_stop(&c->log);
        free(c);
        e->n_cursors--;
        if (e->n_cursors == 0 && e->state == EXECUTION_FINISHED)
                eventlog_shrink(&e->log);
        execution_unref(e);
        return NULL;
}

int cursor_next(struct Cursor *c, struct Event *ret) {
        int r = log_cursor_next(&c->log, ret);
        return r == 0 && c->execution->refused ? -EREMOTEIO : r;
}
