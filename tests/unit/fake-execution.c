/* Canned executions for tests of the wire. */
#include "tests/unit/fake-execution.h"

#include <stdio.h>

struct Cursor {
        struct Execution *execution;
        void (*wake)(void *userdata);
        void *userdata;
        sd_event_source *soon;
        unsigned step;
        uint64_t seq, sent[STREAM_MAX_];
        bool told;
};

struct Execution {
        struct Execution *next;
        struct Executions *executions;
        char id[32], caller[CALLER_NAME_MAX], code[256], request_id[64];
        struct Label label;
        struct Cursor *cursor;
        uint64_t bytes[STREAM_MAX_];
        size_t chunk;
        bool waits, finished, cancelled;
        struct Refusal late;
        struct Result result;
};

struct Executions {
        sd_event *event;
        const struct Config *config;
        struct Execution *first;
        unsigned made;
        size_t cancelled;
        bool ready;
        void (*on_change)(void *userdata);
        void *userdata;
};

static uint8_t pattern[64 * 1024];

struct Executions *fake_executions(sd_event *event, const struct Config *config) {
        struct Executions *x = calloc(1, sizeof(*x));

        if (!x)
                abort();
        *x = (struct Executions) {.event = event, .config = config};
        for (size_t i = 0; i < sizeof(pattern); i++)
                pattern[i] = (uint8_t) ('a' + i % 26);
        return x;
}

struct Executions *executions_free(struct Executions *x) {
        while (x && x->first) {
                struct Execution *e = x->first;

                x->first = e->next;
                free(e);
        }
        free(x);
        return NULL;
}

void fake_set_ready(struct Executions *x, bool ready) {
        x->ready = ready;
        if (x->on_change)
                x->on_change(x->userdata);
}

size_t fake_running(const struct Executions *x) {
        size_t n = 0;

        for (const struct Execution *e = x->first; e; e = e->next)
                n += !e->finished;
        return n;
}

size_t fake_cancelled(const struct Executions *x) {
        return x->cancelled;
}

bool executions_ready(const struct Executions *x) {
        return x->ready;
}

void executions_on_ready_change(struct Executions *x, void (*on_change)(void *userdata), void *userdata) {
        x->on_change = on_change;
        x->userdata = userdata;
}

static void story_begin(struct Execution *e, const char *code) {
        unsigned long long n, chunk;
        int late;

        e->chunk = sizeof(pattern);
        e->result = (struct Result) {.outcome = OUTCOME_COMPLETED, .exit = EXIT_CODE, .message = "done", .accepted_at = now_realtime()};
        if (sscanf(code, "bytes %llu %llu", &n, &chunk) == 2) {
                e->bytes[STREAM_STDOUT] = n;
                e->chunk = MIN(chunk, (unsigned long long) sizeof(pattern));
        } else if (sscanf(code, "both %llu", &n) == 1)
                e->bytes[STREAM_STDOUT] = e->bytes[STREAM_STDERR] = n;
        else if (sscanf(code, "late %d", &late) == 1)
                refuse(&e->late, (enum RefusalCode) late, NULL, "it waited for room in vain");
        else if (streq(code, "wait"))
                e->waits = true;
        else {
                e->bytes[STREAM_STDOUT] = MIN(strlen(e->code), strlen(code));
                e->bytes[STREAM_STDERR] = strlen("oops");
                e->result.outcome = OUTCOME_FAILED;
                e->result.status = 3;
        }
}

int execution_new(struct Executions *x, const struct Caller *caller, struct Request *request, struct Execution **ret, struct Refusal *refusal) {
        const char *code = (const char *) request->code.data;
        struct Execution *e;
        int refused;

        if (sscanf(code, "refuse %d", &refused) == 1) {
                refuse(refusal, (enum RefusalCode) refused, refused == REFUSE_INVALID_ARGUMENT ? "limits.timeout" : NULL,
                       "is 2 h; at most 1 h is allowed: ask for less");
                refusal->retry_after = refused == REFUSE_RESOURCE_EXHAUSTED ? 1500 * USEC_PER_MSEC : 0;
                if (refused == REFUSE_ALREADY_EXISTS)
                        (void) snprintf(refusal->resource, sizeof(refusal->resource), "node-17");
                request_done(request);
                return refused;
        }
        e = calloc(1, sizeof(*e));
        if (!e)
                abort();
        e->executions = x;
        (void) snprintf(e->id, sizeof(e->id), "node-%u", ++x->made);
        (void) snprintf(e->caller, sizeof(e->caller), "%s", caller->name);
        (void) snprintf(e->code, sizeof(e->code), "%s", code);
        (void) snprintf(e->request_id, sizeof(e->request_id), "%s", request->request_id);
        story_begin(e, code);
        e->next = x->first;
        x->first = e;
        request_done(request);
        *ret = e;
        return 0;
}

static void fake_cancel(struct Execution *e, enum CancelReason reason) {
        if (e->finished || e->cancelled)
                return;
        e->cancelled = true;
        e->executions->cancelled++;
        e->result.outcome = OUTCOME_CANCELLED;
        e->result.exit = EXIT_UNSET;
        e->result.cancel_reason = reason;
        if (e->cursor)
                (void) sd_event_source_set_enabled(e->cursor->soon, SD_EVENT_ONESHOT);
        else
                e->finished = true;
}

void execution_client_gone(struct Execution *e) {
        fake_cancel(e, CANCEL_CLIENT_GONE);
}

static int cursor_on_soon(sd_event_source *source, void *userdata) {
        struct Cursor *c = userdata;

        c->wake(c->userdata);
        return 0;
}

int cursor_new(struct Execution *e, bool lead, void (*wake)(void *userdata), void *userdata, struct Cursor **ret) {
        struct Cursor *c = calloc(1, sizeof(*c));

        if (!c || sd_event_add_defer(e->executions->event, &c->soon, cursor_on_soon, c) < 0)
                abort();
        (void) sd_event_source_set_enabled(c->soon, SD_EVENT_OFF);
        c->execution = e;
        c->wake = wake;
        c->userdata = userdata;
        e->cursor = c;
        *ret = c;
        return 0;
}

void cursor_be_patient(struct Cursor *c) {
}

struct Cursor *cursor_free(struct Cursor *c) {
        if (!c)
                return NULL;
        c->execution->cursor = NULL;
        c->execution->finished = true;
        sd_event_source_disable_unref(c->soon);
        free(c);
        return NULL;
}

static bool next_output(struct Cursor *c, enum Stream stream, struct Event *ret) {
        struct Execution *e = c->execution;
        size_t n = MIN(e->bytes[stream], (uint64_t) e->chunk);

        if (n == 0)
                return false;
        ret->kind = EVENT_OUTPUT;
        ret->output.stream = stream;
        ret->output.offset = c->sent[stream];
        ret->output.data = e->result.outcome == OUTCOME_FAILED ? (const uint8_t *) (stream == STREAM_STDOUT ? e->code : "oops") : pattern;
        ret->output.size = n;
        c->sent[stream] += n;
        e->bytes[stream] -= n;
        return true;
}

/* The canned ones are never refused once accepted. */
int cursor_next(struct Cursor *c, struct Event *ret) {
        struct Execution *e = c->execution;

        if (c->told)
                return -ENODATA;
        if (e->late.code != REFUSE_NOTHING && c->step > 0)
                return -EREMOTEIO;
        *ret = (struct Event) {.seq = ++c->seq, .elapsed = 1000};
        if (c->step < 2) {
                ret->kind = c->step++ == 0 ? EVENT_ACCEPTED : EVENT_STARTED;
                return 1;
        }
        if (!e->cancelled && (next_output(c, STREAM_STDOUT, ret) || next_output(c, STREAM_STDERR, ret)))
                return 1;
        if (e->waits && !e->cancelled) {
                c->seq--;
                return 0;
        }
        ret->kind = EVENT_RESULT;
        e->result.finished_at = now_realtime();
        ret->result = &e->result;
        c->told = e->finished = true;
        return 1;
}

const struct Refusal *execution_refusal(const struct Execution *e) {
        return e->late.code != REFUSE_NOTHING ? &e->late : NULL;
}

void execution_view(struct Execution *e, struct ExecutionView *ret) {
        e->label = (struct Label) {(char *) "team", (char *) "blue"};
        *ret = (struct ExecutionView) {
                .id = e->id, .request_id = e->request_id, .caller = e->caller,
                .runtime = "python", .runtime_version = "Python 3.11", .profile = "quick",
                .labels = &e->label, .n_labels = 1, .state = e->finished ? EXECUTION_FINISHED : EXECUTION_RUNNING,
                .limits = {.timeout = 30 * USEC_PER_SEC, .memory_bytes = 512 * MIB, .cpus = 1},
                .heartbeat_interval = 5 * USEC_PER_SEC, .accepted_at = now_realtime(), .result = e->finished ? &e->result : NULL,
        };
}

int execution_find(struct Executions *x, const struct Caller *caller, const char *id, struct Execution **ret, struct Refusal *refusal) {
        for (struct Execution *e = x->first; e; e = e->next)
                if (streq(e->id, id) && (caller->is_operator || streq(caller->name, e->caller))) {
                        *ret = e;
                        return 0;
                }
        return refuse(refusal, REFUSE_NOT_FOUND, NULL, "there is no such execution");
}

int execution_cancel(struct Executions *x, const struct Caller *caller, const char *id, enum ExecutionState *ret_state, struct Refusal *refusal) {
        struct Execution *e;
        int r = execution_find(x, caller, id, &e, refusal);

        if (r != 0)
                return r;
        *ret_state = e->finished ? EXECUTION_FINISHED : EXECUTION_RUNNING;
        fake_cancel(e, CANCEL_CALLER);
        return 0;
}

int executions_list(struct Executions *x, const struct Caller *caller, const struct ExecutionFilter *filter, struct Execution **out, size_t n,
                    size_t *ret_n, char ret_token[64], struct Refusal *refusal) {
        size_t found = 0;

        for (struct Execution *e = x->first; e && found < MIN(n, filter->page_size); e = e->next)
                if (!filter->active_only || !e->finished)
                        out[found++] = e;
        *ret_n = found;
        ret_token[0] = 0;
        return 0;
}

void executions_info(struct Executions *x, struct ServerInfo *ret) {
        static const struct LayerInfo layers[] = {{"mount_namespace", "", true}, {"landlock", "not in this kernel", false}};
        static const struct RuntimeInfo runtimes[] = {{.name = "python", .version = "Python 3.11", .available = true}};

        *ret = (struct ServerInfo) {.node = "node", .cgroup_driver = "cgroupfs", .runtimes = runtimes, .n_runtimes = 1, .layers = layers,
                                    .n_layers = 2, .config = x->config, .max_executions = 8, .spawner_connected = x->ready};
}
