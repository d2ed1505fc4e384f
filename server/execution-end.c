/* The end of an execution: freeze, evidence, the rest of the output, verdict, audit. */
#include "server/execution-internal.h"

#include <signal.h>

#include "common/log.h"

#define STOP_DEADLINE (10 * USEC_PER_SEC)
#define FREEZE_LOOK 400 /* us; a freeze takes 31 to 45 us, on a busy processor more; a notification up to 10 ms */
#define STILL_PAUSE (USEC_PER_MSEC / 2) /* between looks whether a program that is over is frozen; */
#define STILL_PATIENCE (20 * USEC_PER_MSEC)
#define TOLD_DEADLINE (10 * USEC_PER_SEC) /* of what the spawner says to lease_main_over */

static void fill_outputs(struct Execution *e, struct AuditOutput outputs[2]) {
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++) {
                struct AuditOutput *o = &outputs[s - STREAM_STDOUT];
                uint8_t head[OUTPUT_EDGE], tail[OUTPUT_EDGE];
                size_t n = output_summary(&e->output, s, o->sha256, head, tail);

                o->name = s == STREAM_STDOUT ? "stdout" : "stderr";
                o->size = output_size(&e->output, s);
                (void) audit_escape(head, n, o->head, sizeof o->head);
                (void) audit_escape(tail, n, o->tail, sizeof o->tail);
        }
}

void execution_audit(struct Execution *e, bool end) {
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
                r.start = e->start_kind;
                r.cancelled_by = e->cancelled_by;
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
                .claimed = e->main_over && e->main_signaled && e->main_status == SIGKILL,
                .ran = e->started > 0,
                .init_killed = e->init_killed,
                .out_over = output_is_over(&e->output, STREAM_STDOUT),
                .err_over = output_is_over(&e->output, STREAM_STDERR),
                .limits_hit = e->result.limits_hit,
                .machine_oom = e->evidence.machine_oom,
                .timeout = e->limits.timeout,
                .idle_timeout = e->idle_policy.timeout,
                .idle_is_silence = e->idle_policy.evidence == EVIDENCE_OUTPUT,
                .cpu_time = e->limits.cpu_time,
                .output_bytes = e->limits.output_bytes,
                .since_output = e->output.last_at ? e->ended - MIN(e->ended, e->output.last_at) : USEC_INFINITY,
                .waiting_for = e->waiting_for,
                .invalid = e->values.invalid,
                .error = &e->values.error,
                .note = e->values.note,
                .failed_step = e->failure.step,
                .failed_detail = e->failure.detail,
                .failed_error = e->failure.error,
        };
}

void execution_release_place(struct Execution *e) {
        if (e->lease)
                return;
        gate_leave(&e->owner->gate, &e->ticket);
        executions_check_drained(e->owner);
}

void execution_free_request(struct Execution *e) {
        job_done(&e->job);
        pipe_writer_done(&e->stdin_writer);
        request_done(&e->request);
}

/* A value that is too large for one message goes before the result, in pieces. They point into the result, which outlives the log: a copy
 * would be as large as the value once more, and in a log without a lead the first pieces would go before anyone has read them. */
static void send_value(struct Execution *e) {
        const struct Value *v = &e->result.value;

        if (!result_value_in_pieces(&e->result))
                return;
        for (size_t at = 0; at < v->size;) {
                size_t n = MIN(v->size - at, (size_t) CONTENT_PIECE);
                struct Event event = {
                        .kind = EVENT_CONTENT,
                        .content = { .id = VALUE_CONTENT_ID, .offset = at, .data = (const uint8_t *) v->json + at, .size = n,
                                     .last = at + n == v->size },
                };
                int r = eventlog_add(&e->log, &event, false);
                if (r < 0) {
                        log_full(LOG_ERR, r, e->id, "Failed to send the value: %m");
                        return;
                }
                at += n;
        }
}

/* What the cell's programs told becomes part of the result. */
static void take_result(struct Execution *e) {
        e->result.value = e->values.value;
        e->values.value = (struct Value) {};
        e->result.error = e->values.error;
        e->values.error = (struct CodeError) {};
        e->result.limits_hit |= e->values.limits_hit;
        e->result.files = TAKE_PTR(e->files.list);
        e->result.n_files = e->files.n;
        e->files.n = 0;
        e->result.files_truncated = e->files.truncated;
        send_value(e);
}

static void execution_finish(struct Execution *e) {
        struct Case c;
        struct Event event = { .kind = EVENT_RESULT, .result = &e->result };

        take_result(e);
        fill_case(e, &c);
        c.error = &e->result.error;
        /* Only without a memory controller: it is of the main process alone, and comes after a kill of ours, too. */
        if (e->result.usage.memory_peak == 0)
                e->result.usage.memory_peak = e->max_rss;
        e->result.usage.stdout_bytes = output_size(&e->output, STREAM_STDOUT);
        e->result.usage.stderr_bytes = output_size(&e->output, STREAM_STDERR);
        e->result.finished_at = now_realtime();
        e->finished = now_monotonic();
        verdict(&c, &e->result);
        execution_set_state(e, EXECUTION_FINISHED);
        int r = eventlog_add(&e->log, &event, true);
        if (r < 0)
                log_full(LOG_ERR, r, e->id, "Failed to add the result: %m");
        /* The answer goes out; all that follows can wait for that. */
        eventlog_wake_now(&e->log);
        if (e->result.outcome == OUTCOME_SANDBOX_FAILED)
                log_event(LOG_ERR, MESSAGE_SANDBOX_FAILED, 0, e->id, "%s", e->result.message);
        execution_audit(e, true);
        output_done(&e->output);
        value_pipe_done(&e->values);
        files_done(&e->files);
        e->collect_pipe = close_fd(e->collect_pipe);
        e->files_pipe = close_fd(e->files_pipe);
        execution_free_request(e);
        if (e->n_cursors == 0)
                eventlog_shrink(&e->log);
        table_hold(e);
        table_on_finished(e);
        execution_release_place(e);
        execution_unref(e);
}

/* A second time it takes nothing back. */
static void take_evidence(struct Execution *e) {
        evidence_final(&e->evidence, &e->result.usage, &e->result.limits_hit);
        evidence_done(&e->evidence);
}

/* The cell is not needed any more. */
static void give_back(struct Execution *e) {
        struct Lease *lease = e->lease; /* without one the execution may be gone once it has finished */

        take_evidence(e);
        execution_finish(e);
        if (lease)
                lease_close(lease);
}

void execution_on_main_told(struct Execution *e) {
        e->finishing = false;
        e->main_exited = true;
        e->deadline = sd_event_source_disable_unref(e->deadline);
        give_back(e);
}

/* Nobody has looked whose word it was that the program was over. */
void execution_on_main_untold(struct Execution *e) {
        e->init_killed = true;
        e->failure = (struct LeaseFailure) { .step = "spawner", .detail = "it did not tell how the program ended" };
        execution_on_main_told(e);
}

static int execution_on_told_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Execution *e = userdata;

        log_event(LOG_ERR, MESSAGE_SPAWNER_LATE, 0, e->id, "The spawner did not tell the end of the main process in time");
        execution_on_main_untold(e);
        return 0;
}

/* All is there. What the spawner tells of a program that is over has mostly come by now. */
static void finish_or_wait(struct Execution *e) {
        if (e->main_over && !e->main_exited && e->lease &&
            execution_timer(e, &e->deadline, now_monotonic() + TOLD_DEADLINE, execution_on_told_deadline) >= 0)
                e->finishing = true;
        else
                give_back(e);
}

/* Whether anybody wants to know of its files, and they can be seen. */
static bool wants_files(const struct Execution *e) {
        bool nobody = e->trigger == TRIGGER_CANCEL && (e->cancel_reason == CANCEL_CLIENT_GONE || e->cancel_reason == CANCEL_SHUTDOWN);
        return e->started && e->lease && e->trigger != TRIGGER_SANDBOX && !e->init_killed && !nobody && !e->values.invalid && e->collect_pipe >= 0;
}

static int ask_for_files(struct Execution *e) {
        struct FileBase *base _cleanup_free_ = calloc(MAX(e->n_stamps, (size_t) 1), sizeof *base);
        if (!base)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_stamps; i++)
                base[i] = (struct FileBase) { e->written[i], e->stamps[i] };
        const struct FilesQuestion question = {
                .base = base,
                .n_base = e->n_stamps,
                .code_name = e->written[0],
                .patterns = (const char *const *) e->patterns,
                .n_patterns = strv_length(e->patterns),
                .content_max = e->limits.content_bytes - MIN(e->values.content_used, e->limits.content_bytes),
        };
        return files_ask(&e->files, e->owner->event, TAKE_FD(e->collect_pipe), TAKE_FD(e->files_pipe), &question);
}

/* Everything it said has been read. Then come its files. */
static void on_drained(struct Execution *e) {
        if (e->state != EXECUTION_DRAINING || e->finishing || !e->output_drained || !e->values_drained)
                return;
        if (wants_files(e)) {
                int r = ask_for_files(e);
                if (r >= 0)
                        return; /* execution_on_files goes on */
                log_full(LOG_ERR, r, e->id, "Failed to ask for the files of the cell: %m");
                e->files.truncated = true;
        }
        finish_or_wait(e);
}

void execution_on_output_drained(void *userdata) {
        struct Execution *e = userdata;
        e->output_drained = true;
        on_drained(e);
}

void execution_on_values_drained(void *userdata) {
        struct Execution *e = userdata;
        e->values_drained = true;
        on_drained(e);
}

void execution_on_files(void *userdata) {
        struct Execution *e = userdata;
        if (e->state == EXECUTION_DRAINING && !e->finishing)
                finish_or_wait(e);
}

/* Nothing of the run can act any more. */
void execution_collect(struct Execution *e) {
        if (e->collected)
                return;
        e->collected = true;
        e->deadline = sd_event_source_disable_unref(e->deadline);
        if (e->started)
                e->result.usage.wall = e->ended - e->begun;
        e->values_drained = !e->values.drain; /* there never was such a pipe */
        /* When a program has ended, all it said is in the pipes. Everything else can end in the middle of handling its own pipes, or of a walk
         * through the table, where no execution may finish. A program that is over is told from its value pipe, which touches nothing after that. */
        bool at_once = e->trigger == TRIGGER_EXIT && e->lease;
        if (!e->values_drained)
                value_pipe_drain(&e->values, at_once);
        output_drain(&e->output, at_once);
        /* By now init may be looking at the files. */
        if (e->state == EXECUTION_DRAINING)
                take_evidence(e);
}

static int execution_on_stop_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Execution *e = userdata;

        log_event(LOG_ERR, MESSAGE_SPAWNER_LATE, 0, e->id, "The spawner did not end the run in time; giving the cell back");
        execution_collect(e);
        return 0;
}

void execution_stop_timers(struct Execution *e) {
        e->deadline = sd_event_source_disable_unref(e->deadline);
        e->timeout = sd_event_source_disable_unref(e->timeout);
        e->cpu_timer = sd_event_source_disable_unref(e->cpu_timer);
        e->heartbeat = sd_event_source_disable_unref(e->heartbeat);
        e->report_source = sd_event_source_disable_unref(e->report_source);
        e->report = close_fd(e->report);
        idle_stop(&e->idle);
}

void execution_on_main_over(uint8_t status, void *userdata) {
        struct Execution *e = userdata;

        /* Its report may not have been looked at. */
        if (e->state == EXECUTION_LEASING && e->report >= 0)
                execution_read_report(e);
        /* If the spawner cannot be asked, it will tell: the process does not wait for long. */
        if (e->state != EXECUTION_RUNNING || e->main_exited || lease_main_over(e->lease, status) < 0)
                return;
        e->main_over = true;
        e->main_status = status;
        execution_trigger(e, TRIGGER_EXIT);
}

static int execution_on_still(sd_event_source *source, uint64_t usec, void *userdata) {
        execution_stop(userdata);
        return 0;
}

/* Freeze, or, when that does not come at once, kill: in both cases nothing writes any more. */
void execution_stop(struct Execution *e) {
        bool has_cgroup = e->evidence.fds[EVIDENCE_EVENTS] >= 0;
        bool first = now_monotonic() - e->ended < STILL_PAUSE; /* later others have waited for their turn, and one look has to do */
        bool is_still = !e->lease || !has_cgroup || evidence_freeze(&e->evidence, first ? FREEZE_LOOK : 0) > 0;

        /* The program itself does nothing any more, and on a busy machine waits to be frozen: what it has used is in the files only then. */
        if (!is_still && e->main_over && now_monotonic() - e->ended < STILL_PATIENCE &&
            execution_timer(e, &e->deadline, now_monotonic() + STILL_PAUSE, execution_on_still) >= 0)
                return;
        if (is_still || lease_end(e->lease) < 0) {
                execution_collect(e);
                return;
        }
        /* The files vanish with the leaf: take what they say now; what is used until the kill is not worth a wait. */
        evidence_final(&e->evidence, &e->result.usage, &e->result.limits_hit);
        if (execution_timer(e, &e->deadline, now_monotonic() + STOP_DEADLINE, execution_on_stop_deadline) < 0)
                execution_collect(e);
}
