/* The spine: the life of one execution. Read this first.
 *
 *   NEW ── execution_new: validate, charge the caller
 *    ├─▶ QUEUED      no room yet (admit/gate.c); goes to DRAINING when it is cancelled, is refused when it waits too long
 *    └─▶ LEASING     the spawner makes a cell and starts glovebox-start in it; the job goes down the job pipe. The report pipe closing
 *    │               without a word means that the program runs now
 *    └─▶ RUNNING     the clock runs; pipes are read into the log (stream/output.c); every reader is a cursor on the log
 *    └─▶ DRAINING    something ended it (enum Trigger, the first one counts): freeze, read the cgroup files, kill, read the pipes empty
 *    └─▶ FINISHED    the verdict is the log's last event. The cell is taken down in the background; its place is given back after that
 *
 * Whatever goes wrong on our side is trigger SANDBOX with the failing step's name. All waits have deadlines: START_DEADLINE until the program
 * runs, limits.timeout from there, STOP_DEADLINE for the kill, the lease's own for taking the cell down. */
#include "server/execution-internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/log.h"

#define WAITING_DEADLINE (500 * USEC_PER_MSEC)
#define CPU_LOOK_MIN (5 * USEC_PER_MSEC)

static const char *const states[EXECUTION_STATE_MAX_] = {
        [EXECUTION_NEW] = "NEW",         [EXECUTION_QUEUED] = "QUEUED",     [EXECUTION_LEASING] = "LEASING",
        [EXECUTION_RUNNING] = "RUNNING", [EXECUTION_DRAINING] = "DRAINING", [EXECUTION_FINISHED] = "FINISHED",
};

#define TO(s) (1u << EXECUTION_##s)
static const unsigned transitions[EXECUTION_STATE_MAX_] = {
        [EXECUTION_NEW] = TO(QUEUED) | TO(LEASING),
        [EXECUTION_QUEUED] = TO(LEASING) | TO(DRAINING) | TO(FINISHED),
        [EXECUTION_LEASING] = TO(RUNNING) | TO(DRAINING),
        [EXECUTION_RUNNING] = TO(DRAINING),
        [EXECUTION_DRAINING] = TO(FINISHED),
};

void execution_set_state(struct Execution *e, enum ExecutionState state) {
        if (!(transitions[e->state] & 1u << state)) {
                log_full(LOG_CRIT, 0, e->id, "An execution cannot go from %s to %s", states[e->state], states[state]);
                abort();
        }
        log_full(LOG_DEBUG, 0, e->id, "%s", states[state]);
        e->state = state;
}

int execution_timer(struct Execution *e, sd_event_source **s, usec_t at, sd_event_time_handler_t handler) {
        *s = sd_event_source_disable_unref(*s);
        return sd_event_add_time(e->owner->event, s, CLOCK_MONOTONIC, at, 1, handler, e);
}

void execution_fail(struct Execution *e, const char *step, int error, const char *format, ...) {
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

static int execution_on_no_answer(sd_event_source *source, uint64_t usec, void *userdata) {
        execution_stop(userdata);
        return 0;
}

/* The first cause of the end counts. */
void execution_trigger(struct Execution *e, enum Trigger trigger) {
        if (e->trigger == TRIGGER_NONE && e->state == EXECUTION_LEASING && e->report >= 0 && trigger != TRIGGER_SANDBOX)
                execution_read_report(e);
        if (e->trigger != TRIGGER_NONE || e->state >= EXECUTION_DRAINING)
                return;
        e->trigger = trigger;
        e->ended = now_monotonic();
        execution_stop_timers(e);
        execution_set_state(e, EXECUTION_DRAINING);
        if (trigger == TRIGGER_IDLE && lease_ask_waiting(e->lease) >= 0 &&
            execution_timer(e, &e->deadline, e->ended + WAITING_DEADLINE, execution_on_no_answer) >= 0)
                return; /* lease_on_waiting_for goes on */
        execution_stop(e);
}

void execution_refuse(struct Execution *e, const struct Refusal *refusal) {
        e->refused = true;
        e->refusal = *refusal;
        execution_set_state(e, EXECUTION_FINISHED);
        execution_audit(e, true);
        execution_free_request(e);
        table_remove(e);
        e->owner->n_active--;
        gate_leave(&e->owner->gate, &e->ticket);
        eventlog_wake(&e->log);
        executions_check_drained(e->owner);
        execution_unref(e);
}

void execution_end(struct Execution *e, enum CancelReason reason) {
        struct Refusal refusal;

        if (e->state == EXECUTION_QUEUED && reason == CANCEL_SHUTDOWN) {
                (void) refuse(&refusal, REFUSE_UNAVAILABLE, NULL, "the server is stopping; try another one, or later");
                execution_refuse(e, &refusal);
                return;
        }
        if (e->trigger != TRIGGER_NONE)
                return;
        /* Its turn must not come any more; the result follows as for any other. */
        if (e->state == EXECUTION_QUEUED)
                gate_leave(&e->owner->gate, &e->ticket);
        e->cancel_reason = reason;
        execution_trigger(e, TRIGGER_CANCEL);
}

static int execution_on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        execution_trigger(userdata, TRIGGER_TIMEOUT);
        return 0;
}

void execution_on_idle(void *userdata) {
        execution_trigger(userdata, TRIGGER_IDLE);
}

int execution_get_cpu(void *userdata, usec_t *ret) {
        struct Execution *e = userdata;
        usec_t user, system;
        int r = evidence_cpu(&e->evidence, &user, &system);
        if (r >= 0)
                *ret = user + system;
        return r;
}

usec_t execution_get_output(void *userdata, bool *ret_held) {
        struct Execution *e = userdata;
        *ret_held = output_is_held(&e->output) || e->values.waiting;
        return e->output.last_at;
}

void execution_on_output_over(void *userdata) {
        struct Execution *e = userdata;
        if (e->state == EXECUTION_RUNNING)
                execution_trigger(e, TRIGGER_OUTPUT);
}

/* Our fault, also when it is found while draining after an unprompted end: a result must not say that all is well. */
void execution_on_output_broken(int error, void *userdata) {
        struct Execution *e = userdata;

        if (e->trigger == TRIGGER_EXIT) {
                e->init_killed = true;
                e->failure = (struct LeaseFailure) { .error = -error, .step = "output" };
        }
        execution_fail(e, "output", error, "%s", "");
}

void execution_on_log_room(void *userdata) {
        struct Execution *e = userdata;
        output_resume(&e->output);
        value_pipe_resume(&e->values);
        files_resume(&e->files);
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

        (void) execution_get_cpu(e, &used);
        if (used >= e->limits.cpu_time) {
                execution_trigger(e, TRIGGER_CPU_TIME);
                return 0;
        }
        usec_t earliest = (e->limits.cpu_time - used) / (usec_t) MAX(online, 1L);
        int r = sd_event_source_set_time(source, now_monotonic() + MAX(earliest, (usec_t) CPU_LOOK_MIN));
        return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int start_timers(struct Execution *e) {
        int r = execution_timer(e, &e->timeout, e->started + e->limits.timeout, execution_on_timeout);
        if (r < 0)
                return r;
        r = execution_timer(e, &e->heartbeat, e->started + e->heartbeat_interval, execution_on_heartbeat);
        if (r < 0)
                return r;
        if (e->limits.cpu_time) {
                r = execution_timer(e, &e->cpu_timer, e->started, execution_on_cpu_timer);
                if (r < 0)
                        return r;
        }
        return idle_start(&e->idle, e->owner->event, &e->idle_policy);
}

/* With files besides the code it began when the last of them had been written, which may take long. By the other clock, so only if that can be. */
static void take_written(struct Execution *e) {
        usec_t now = now_realtime(), written = e->n_stamps > 1 ? e->stamps[e->n_stamps - 1].ctime / 1000 : 0;
        if (written > 0 && written <= now && now - written < e->started - e->begun)
                e->begun = e->started - (now - written);
}

/* The program has been started: its clock runs. */
void execution_run(struct Execution *e) {
        struct Event event = { .kind = EVENT_STARTED };

        e->deadline = sd_event_source_disable_unref(e->deadline);
        e->report_source = sd_event_source_disable_unref(e->report_source);
        e->report = close_fd(e->report);
        e->started = now_monotonic();
        take_written(e);
        /* Short programs may have ended by the time that we get to hear of their start. */
        e->result.started_at = now_realtime() - (e->started - e->begun);
        execution_set_state(e, EXECUTION_RUNNING);
        event.started.queue_time = e->leased - e->accepted;
        event.started.start = e->start_kind;
        log_step(MESSAGE_EXECUTION_RUNNING, e->id, "Execution %s runs", e->id);
        int r = eventlog_add(&e->log, &event, false);
        if (r >= 0)
                r = start_timers(e);
        if (r < 0)
                execution_fail(e, "timers", r, "%s", "");
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
        execution_stop_timers(e);
        execution_free_request(e);
        output_done(&e->output);
        value_pipe_done(&e->values);
        files_done(&e->files);
        close_fd(e->collect_pipe);
        close_fd(e->files_pipe);
        result_done(&e->result);
        strv_free(e->written);
        strv_free(e->patterns);
        strv_free(e->import_default);
        free(e->stamps);
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
