/* Events, results, views and the server's own description as messages. */
#include "server/accept/render.h"

#include "server/accept/arena.h"

#include "glovebox/v1/execution.pb-c.h"
#include "glovebox/v1/system.pb-c.h"

typedef Google__Protobuf__Duration Duration;
typedef Google__Protobuf__Timestamp Timestamp;

#define DISPLAY_CUT "cut" /* as the proto says of ExecuteResponse.displays */

static void duration_set(Duration *d, usec_t t) {
        *d = (Duration) GOOGLE__PROTOBUF__DURATION__INIT;
        d->seconds = (int64_t) (t / USEC_PER_SEC);
        d->nanos = (int32_t) (t % USEC_PER_SEC * NSEC_PER_USEC);
}

static Duration *render_duration(struct Arena *arena, usec_t t) {
        Duration *d = arena_get(arena, sizeof(*d));

        duration_set(d, t);
        return d;
}

/* 0 = off or never: the field stays unset. */
static Duration *render_duration_if(struct Arena *arena, usec_t t) {
        return t > 0 ? render_duration(arena, t) : NULL;
}

static Timestamp *render_time(struct Arena *arena, usec_t t) {
        Timestamp *s;

        if (t == 0)
                return NULL;
        s = ARENA_MESSAGE(arena, Timestamp, GOOGLE__PROTOBUF__TIMESTAMP__INIT);
        s->seconds = (int64_t) (t / USEC_PER_SEC);
        s->nanos = (int32_t) (t % USEC_PER_SEC * NSEC_PER_USEC);
        return s;
}

static uint32_t narrow(uint64_t n) {
        return (uint32_t) MIN(n, (uint64_t) UINT32_MAX);
}

static Glovebox__V1__Limits *render_limits(struct Arena *arena, const struct Limits *l) {
        Glovebox__V1__Limits *m = ARENA_MESSAGE(arena, Glovebox__V1__Limits, GLOVEBOX__V1__LIMITS__INIT);

        m->timeout = render_duration_if(arena, l->timeout);
        m->cpu_time = render_duration_if(arena, l->cpu_time);
        m->memory_bytes = l->memory_bytes;
        m->cpus = l->cpus;
        m->max_processes = narrow(l->max_processes);
        m->output_bytes = l->output_bytes;
        m->workspace_bytes = l->workspace_bytes;
        m->workspace_inodes = narrow(l->workspace_inodes);
        m->value_bytes = l->value_bytes;
        m->content_bytes = l->content_bytes;
        return m;
}

static Glovebox__V1__IdlePolicy *render_idle(struct Arena *arena, const struct IdlePolicy *idle) {
        Glovebox__V1__IdlePolicy *m;

        if (idle->timeout == 0)
                return NULL;
        m = ARENA_MESSAGE(arena, Glovebox__V1__IdlePolicy, GLOVEBOX__V1__IDLE_POLICY__INIT);
        m->timeout = render_duration(arena, idle->timeout);
        m->grace = render_duration_if(arena, idle->grace);
        m->evidence = (Glovebox__V1__Evidence) idle->evidence;
        return m;
}

static Glovebox__V1__IsolationLayer **render_layers(struct Arena *arena, const struct ServerInfo *info) {
        Glovebox__V1__IsolationLayer **layers = arena_get_array(arena, info->n_layers, sizeof(*layers));

        for (size_t i = 0; i < info->n_layers; i++) {
                layers[i] = ARENA_MESSAGE(arena, Glovebox__V1__IsolationLayer, GLOVEBOX__V1__ISOLATION_LAYER__INIT);
                layers[i]->name = (char *) info->layers[i].name;
                layers[i]->in_force = info->layers[i].in_force;
                layers[i]->detail = (char *) info->layers[i].detail;
        }
        return layers;
}

static Glovebox__V1__Usage *render_usage(struct Arena *arena, const struct Usage *u) {
        Glovebox__V1__Usage *m = ARENA_MESSAGE(arena, Glovebox__V1__Usage, GLOVEBOX__V1__USAGE__INIT);

        m->wall = render_duration(arena, u->wall);
        m->cpu_user = render_duration(arena, u->cpu_user);
        m->cpu_system = render_duration(arena, u->cpu_system);
        m->memory_peak_bytes = u->memory_peak;
        m->processes_peak = narrow(u->processes_peak);
        m->read_bytes = u->read_bytes;
        m->written_bytes = u->written_bytes;
        m->stdout_bytes = u->stdout_bytes;
        m->stderr_bytes = u->stderr_bytes;
        m->cpu_stalled = render_duration(arena, u->cpu_stalled);
        m->memory_stalled = render_duration(arena, u->memory_stalled);
        m->io_stalled = render_duration(arena, u->io_stalled);
        return m;
}

static void render_exit(Glovebox__V1__Result *m, const struct Result *r) {
        switch (r->exit) {
        case EXIT_UNSET:
                break;
        case EXIT_CODE:
                m->exit_case = GLOVEBOX__V1__RESULT__EXIT_EXIT_CODE;
                m->exit_code = r->status;
                break;
        case EXIT_SIGNAL:
                m->exit_case = GLOVEBOX__V1__RESULT__EXIT_SIGNAL;
                m->signal = r->status;
                break;
        }
}

static void render_value(struct Arena *arena, Glovebox__V1__Result *m, const struct Value *v, bool in_pieces) {
        m->value_lossy = v->lossy;
        if (in_pieces) {
                m->value_case = GLOVEBOX__V1__RESULT__VALUE_VALUE_CONTENT_ID;
                m->value_content_id = (char *) VALUE_CONTENT_ID;
        } else if (v->kind == VALUE_KIND_JSON) {
                m->value_case = GLOVEBOX__V1__RESULT__VALUE_VALUE_JSON;
                m->value_json = v->json;
        } else if (v->kind == VALUE_KIND_ERROR) {
                m->value_case = GLOVEBOX__V1__RESULT__VALUE_VALUE_ERROR;
                m->value_error = ARENA_MESSAGE(arena, Glovebox__V1__ValueError, GLOVEBOX__V1__VALUE_ERROR__INIT);
                m->value_error->path = (char *) strempty(v->path);
                m->value_error->type = (Glovebox__V1__ValueErrorType) v->error;
                m->value_error->message = (char *) strempty(v->message);
        }
}

/* A reply has room for one message's worth, and no pieces come with it. */
static void render_value_whole(struct Arena *arena, Glovebox__V1__Result *m, const struct Value *v, size_t room) {
        static const char too_large[] = "The value is above the 2 MiB that this reply has room for; ExecuteStream gives larger ones in pieces.";
        const struct Value fault = {.kind = VALUE_KIND_ERROR, .error = GLOVEBOX__V1__VALUE_ERROR_TYPE__VALUE_ERROR_TYPE_TOO_LARGE,
                                    .path = (char *) "$", .message = (char *) too_large};
        render_value(arena, m, v->kind == VALUE_KIND_JSON && v->size > room ? &fault : v, false);
}

static Glovebox__V1__ExecutionError *render_error(struct Arena *arena, const struct CodeError *e) {
        Glovebox__V1__ExecutionError *m;

        if (!e->set)
                return NULL;
        m = ARENA_MESSAGE(arena, Glovebox__V1__ExecutionError, GLOVEBOX__V1__EXECUTION_ERROR__INIT);
        m->type = (char *) strempty(e->texts[ERROR_TEXT_TYPE]);
        m->message = (char *) strempty(e->texts[ERROR_TEXT_MESSAGE]);
        m->traceback = (char *) strempty(e->texts[ERROR_TEXT_TRACEBACK]);
        m->source_line = (char *) strempty(e->texts[ERROR_TEXT_SOURCE_LINE]);
        m->hint = (char *) strempty(e->texts[ERROR_TEXT_HINT]);
        m->line = e->line;
        m->column = e->column;
        m->incomplete = e->incomplete;
        m->truncated = e->truncated;
        return m;
}

static void render_files(struct Arena *arena, Glovebox__V1__Result *m, const struct Result *r) {
        m->n_files = r->n_files;
        m->files = arena_get_array(arena, r->n_files, sizeof(*m->files));
        for (size_t i = 0; i < r->n_files; i++) {
                const struct ResultFile *f = &r->files[i];
                Glovebox__V1__ResultFile *t = ARENA_MESSAGE(arena, Glovebox__V1__ResultFile, GLOVEBOX__V1__RESULT_FILE__INIT);

                m->files[i] = t;
                t->path = f->path;
                t->path_escaped = f->escaped;
                t->size_bytes = f->size;
                t->mime_type = (char *) f->mime_type;
                t->change = (Glovebox__V1__Change) f->change;
                t->skipped = (Glovebox__V1__Skipped) f->skipped;
                t->content_id = (char *) f->content_id;
        }
        m->files_truncated = r->files_truncated;
}

/* All but the value, the error and the files: what a list tells of each. */
static Glovebox__V1__Result *render_brief(struct Arena *arena, const struct ExecutionView *v, const struct Result *r) {
        Glovebox__V1__Result *m = ARENA_MESSAGE(arena, Glovebox__V1__Result, GLOVEBOX__V1__RESULT__INIT);

        m->execution_id = (char *) v->id;
        m->request_id = (char *) v->request_id;
        m->outcome = (Glovebox__V1__Outcome) r->outcome;
        render_exit(m, r);
        m->cancel_reason = (Glovebox__V1__CancelReason) r->cancel_reason;
        m->message = (char *) r->message;
        m->limits_hit = arena_get_array(arena, LIMIT_HIT_MAX_, sizeof(*m->limits_hit));
        for (unsigned i = LIMIT_HIT_MEMORY; i < LIMIT_HIT_MAX_; i++)
                if (r->limits_hit & UINT32_C(1) << i)
                        m->limits_hit[m->n_limits_hit++] = (Glovebox__V1__Limit) i;
        m->usage = render_usage(arena, &r->usage);
        m->stdout_truncated = r->stdout_truncated;
        m->stderr_truncated = r->stderr_truncated;
        m->code_sha256 = (char *) r->code_sha256;
        m->accepted_at = render_time(arena, r->accepted_at);
        m->started_at = render_time(arena, r->started_at);
        m->finished_at = render_time(arena, r->finished_at);
        return m;
}

static Glovebox__V1__Result *render_result(struct Arena *arena, const struct ExecutionView *v, const struct Result *r) {
        Glovebox__V1__Result *m = render_brief(arena, v, r);

        m->error = render_error(arena, &r->error);
        render_files(arena, m, r);
        return m;
}

static Glovebox__V1__Accepted *render_accepted(struct Arena *arena, struct Executions *x, const struct ExecutionView *v, bool queued) {
        Glovebox__V1__Accepted *m = ARENA_MESSAGE(arena, Glovebox__V1__Accepted, GLOVEBOX__V1__ACCEPTED__INIT);
        struct ServerInfo info = {};

        executions_info(x, &info);
        m->execution_id = (char *) v->id;
        m->profile = (char *) v->profile;
        m->limits = render_limits(arena, &v->limits);
        m->idle = render_idle(arena, &v->idle);
        m->n_isolation = info.n_layers;
        m->isolation = render_layers(arena, &info);
        m->n_limits_not_enforced = strv_length(info.limits_not_enforced);
        m->limits_not_enforced = (char **) info.limits_not_enforced;
        m->queued = queued;
        m->heartbeat_interval = render_duration(arena, v->heartbeat_interval);
        return m;
}

static Glovebox__V1__Started *render_started(struct Arena *arena, const struct ExecutionView *v, const struct Event *event) {
        Glovebox__V1__Started *m = ARENA_MESSAGE(arena, Glovebox__V1__Started, GLOVEBOX__V1__STARTED__INIT);

        m->queue_time = render_duration(arena, event->started.queue_time);
        m->start = (Glovebox__V1__Start) event->started.start;
        m->runtime_version = (char *) v->runtime_version;
        return m;
}

static Glovebox__V1__Heartbeat *render_heartbeat(struct Arena *arena, const struct Heartbeat *h) {
        Glovebox__V1__Heartbeat *m = ARENA_MESSAGE(arena, Glovebox__V1__Heartbeat, GLOVEBOX__V1__HEARTBEAT__INIT);

        m->idle_for = render_duration(arena, h->idle_for);
        m->cpu_time = render_duration(arena, h->cpu_time);
        m->memory_bytes = h->memory;
        m->processes = narrow(h->processes);
        return m;
}

static Glovebox__V1__Gap *render_gap(struct Arena *arena, const struct Event *event) {
        Glovebox__V1__Gap *m = ARENA_MESSAGE(arena, Glovebox__V1__Gap, GLOVEBOX__V1__GAP__INIT);

        m->stream = (Glovebox__V1__Stream) event->gap.stream;
        m->from = event->gap.from;
        m->to = event->gap.to;
        return m;
}

static Glovebox__V1__Display *render_display(struct Arena *arena, const struct Event *event) {
        Glovebox__V1__Display *m = arena_get(arena, sizeof(*m));

        glovebox__v1__display__init(m);
        m->id = (char *) event->display.id;
        m->mime_type = (char *) event->display.mime_type;
        m->metadata_json = (char *) event->display.metadata;
        if (*event->display.content_id) {
                m->body_case = GLOVEBOX__V1__DISPLAY__BODY_CONTENT_ID;
                m->content_id = (char *) event->display.content_id;
        } else {
                m->body_case = GLOVEBOX__V1__DISPLAY__BODY_DATA;
                m->data = (ProtobufCBinaryData) {.data = (uint8_t *) event->display.data, .len = event->display.size};
        }
        return m;
}

static Glovebox__V1__Content *render_content(struct Arena *arena, const struct Event *event) {
        Glovebox__V1__Content *m = ARENA_MESSAGE(arena, Glovebox__V1__Content, GLOVEBOX__V1__CONTENT__INIT);

        m->content_id = (char *) event->content.id;
        m->offset = event->content.offset;
        m->data = (ProtobufCBinaryData) {.data = (uint8_t *) event->content.data, .len = event->content.size};
        m->last = event->content.last;
        return m;
}

/* The one that comes often: nothing is allocated but the bytes that gRPC sends. */
static grpc_byte_buffer *render_output(Glovebox__V1__ExecutionEvent *m, const struct Event *event) {
        Glovebox__V1__Output output = GLOVEBOX__V1__OUTPUT__INIT;

        output.stream = (Glovebox__V1__Stream) event->output.stream;
        output.offset = event->output.offset;
        output.data = (ProtobufCBinaryData) {.data = (uint8_t *) event->output.data, .len = event->output.size};
        m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_OUTPUT;
        m->output = &output;
        return message_pack(&m->base);
}

static void render_rare(struct Arena *arena, struct Executions *x, struct Execution *e, const struct Event *event,
                        Glovebox__V1__ExecutionEvent *m) {
        struct ExecutionView v = {};

        execution_view(e, &v);
        switch (event->kind) {
        case EVENT_ACCEPTED:
                m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_ACCEPTED;
                m->accepted = render_accepted(arena, x, &v, event->accepted.queued);
                break;
        case EVENT_STARTED:
                m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_STARTED;
                m->started = render_started(arena, &v, event);
                break;
        case EVENT_HEARTBEAT:
                m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_HEARTBEAT;
                m->heartbeat = render_heartbeat(arena, &event->heartbeat);
                break;
        case EVENT_GAP:
                m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_GAP;
                m->gap = render_gap(arena, event);
                break;
        case EVENT_RESULT:
                m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_RESULT;
                m->result = render_result(arena, &v, event->result);
                render_value(arena, m->result, &event->result->value, result_value_in_pieces(event->result));
                break;
        case EVENT_DISPLAY:
                m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_DISPLAY;
                m->display = render_display(arena, event);
                break;
        case EVENT_CONTENT:
                m->event_case = GLOVEBOX__V1__EXECUTION_EVENT__EVENT_CONTENT;
                m->content = render_content(arena, event);
                break;
        case EVENT_OUTPUT:
                break;
        }
}

grpc_byte_buffer *render_event(struct Executions *x, struct Execution *e, const struct Event *event) {
        struct Arena arena _cleanup_(arena_done) = {};
        Glovebox__V1__ExecutionEvent m = GLOVEBOX__V1__EXECUTION_EVENT__INIT;
        Duration elapsed;

        duration_set(&elapsed, event->elapsed);
        m.seq = event->seq;
        m.elapsed = &elapsed;
        if (event->kind == EVENT_OUTPUT)
                return render_output(&m, event);
        render_rare(&arena, x, e, event, &m);
        return message_pack(&m.base);
}

static Glovebox__V1__Result *render_whole(struct Arena *arena, struct Execution *e, const struct Result *result) {
        struct ExecutionView v = {};
        Glovebox__V1__Result *m;

        execution_view(e, &v);
        m = render_result(arena, &v, result);
        render_value_whole(arena, m, &result->value, VALUE_IN_REPLY);
        return m;
}

size_t render_response_size(struct Execution *e, const struct Result *result) {
        struct Arena arena _cleanup_(arena_done) = {};

        return protobuf_c_message_get_packed_size(&render_whole(&arena, e, result)->base);
}

static void render_parts(struct Arena *arena, const struct Parts *parts, Glovebox__V1__ExecuteResponse *m) {
        m->displays = arena_get_array(arena, parts->n, sizeof(*m->displays));
        m->contents = arena_get_array(arena, parts->n, sizeof(*m->contents));
        for (size_t i = 0; i < parts->n; i++) {
                const struct Part *p = &parts->list[i];
                struct Event event = {.kind = EVENT_DISPLAY};

                if (p->is_display) {
                        event.display.id = p->id;
                        event.display.mime_type = p->mime_type;
                        event.display.metadata = p->metadata;
                        event.display.content_id = p->cut ? DISPLAY_CUT : "";
                        event.display.data = p->data;
                        event.display.size = p->size;
                        m->displays[m->n_displays++] = render_display(arena, &event);
                } else if (!p->cut) {
                        event.kind = EVENT_CONTENT;
                        event.content.id = p->content_id;
                        event.content.data = p->data;
                        event.content.size = p->size;
                        event.content.last = true;
                        m->contents[m->n_contents++] = render_content(arena, &event);
                }
        }
}

/* What did not fit is told like what is above limits.content_bytes. */
static void mark_cut_files(Glovebox__V1__Result *m, const struct Parts *parts) {
        for (size_t i = 0; i < m->n_files; i++)
                if (*m->files[i]->content_id && !parts_content(parts, m->files[i]->content_id)) {
                        m->files[i]->content_id = (char *) "";
                        m->files[i]->skipped = GLOVEBOX__V1__SKIPPED__SKIPPED_TOO_LARGE;
                }
}

grpc_byte_buffer *render_response(struct Execution *e, const struct Result *result, const struct iovec *out, const struct iovec *err,
                                  const struct Parts *parts) {
        struct Arena arena _cleanup_(arena_done) = {};
        Glovebox__V1__ExecuteResponse m = GLOVEBOX__V1__EXECUTE_RESPONSE__INIT;

        m.result = render_whole(&arena, e, result);
        m.stdout = (ProtobufCBinaryData) {.data = out->iov_base, .len = out->iov_len};
        m.stderr = (ProtobufCBinaryData) {.data = err->iov_base, .len = err->iov_len};
        render_parts(&arena, parts, &m);
        mark_cut_files(m.result, parts);
        return message_pack(&m.base);
}

static void render_labels(struct Arena *arena, const struct ExecutionView *v, Glovebox__V1__Execution *m) {
        m->n_labels = v->n_labels;
        m->labels = arena_get_array(arena, v->n_labels, sizeof(*m->labels));
        for (size_t i = 0; i < v->n_labels; i++) {
                m->labels[i] = ARENA_MESSAGE(arena, Glovebox__V1__Execution__LabelsEntry, GLOVEBOX__V1__EXECUTION__LABELS_ENTRY__INIT);
                m->labels[i]->key = v->labels[i].key;
                m->labels[i]->value = v->labels[i].value;
        }
}

static Glovebox__V1__Execution *render_view(struct Arena *arena, struct Execution *e, bool whole) {
        Glovebox__V1__Execution *m = ARENA_MESSAGE(arena, Glovebox__V1__Execution, GLOVEBOX__V1__EXECUTION__INIT);
        struct ExecutionView v = {};

        execution_view(e, &v);
        m->execution_id = (char *) v.id;
        m->request_id = (char *) v.request_id;
        m->caller = (char *) v.caller;
        m->runtime = (char *) v.runtime;
        render_labels(arena, &v, m);
        m->state = (Glovebox__V1__State) v.state;
        m->profile = (char *) v.profile;
        m->limits = render_limits(arena, &v.limits);
        m->idle = render_idle(arena, &v.idle);
        m->accepted_at = render_time(arena, v.accepted_at);
        m->started_at = render_time(arena, v.started_at);
        if (v.state == EXECUTION_RUNNING) {
                m->cpu_time = render_duration(arena, v.now.cpu_time);
                m->memory_bytes = v.now.memory;
                m->processes = narrow(v.now.processes);
                m->idle_for = render_duration(arena, v.now.idle_for);
        }
        m->stdout_bytes = v.stdout_bytes;
        m->stderr_bytes = v.stderr_bytes;
        m->detached = v.detached;
        if (v.state != EXECUTION_FINISHED || !v.result)
                return m;
        m->result = whole ? render_result(arena, &v, v.result) : render_brief(arena, &v, v.result);
        if (whole)
                render_value_whole(arena, m->result, &v.result->value, VALUE_IN_REPLY);
        return m;
}

grpc_byte_buffer *render_execution(struct Execution *e) {
        struct Arena arena _cleanup_(arena_done) = {};
        Glovebox__V1__GetExecutionResponse m = GLOVEBOX__V1__GET_EXECUTION_RESPONSE__INIT;

        m.execution = render_view(&arena, e, true);
        return message_pack(&m.base);
}

grpc_byte_buffer *render_page(struct Execution *const *executions, size_t n, const char *next_page_token) {
        struct Arena arena _cleanup_(arena_done) = {};
        Glovebox__V1__ListExecutionsResponse m = GLOVEBOX__V1__LIST_EXECUTIONS_RESPONSE__INIT;

        m.n_executions = n;
        m.executions = arena_get_array(&arena, n, sizeof(*m.executions));
        for (size_t i = 0; i < n; i++)
                m.executions[i] = render_view(&arena, executions[i], false);
        m.next_page_token = (char *) next_page_token;
        if (n > 1 && protobuf_c_message_get_packed_size(&m.base) > REPLY_MAX)
                return NULL;
        return message_pack(&m.base);
}

_Static_assert(GLOVEBOX__V1__START__START_WARM < START_KINDS, "a way to begin that is not counted");

static void render_runtimes(struct Arena *arena, const struct ServerInfo *info, Glovebox__V1__GetInfoResponse *m) {
        m->n_runtimes = info->n_runtimes;
        m->runtimes = arena_get_array(arena, info->n_runtimes, sizeof(*m->runtimes));
        for (size_t i = 0; i < info->n_runtimes; i++) {
                const struct RuntimeInfo *r = &info->runtimes[i];
                Glovebox__V1__RuntimeInfo *t = ARENA_MESSAGE(arena, Glovebox__V1__RuntimeInfo, GLOVEBOX__V1__RUNTIME_INFO__INIT);

                m->runtimes[i] = t;
                t->name = (char *) r->name;
                t->version = (char *) r->version;
                t->n_endings = strv_length(r->endings);
                t->endings = (char **) r->endings;
                t->available = r->available;
                t->detail = (char *) r->detail;
                t->profile = (char *) r->profile;
                t->defaults = r->defaults ? render_limits(arena, r->defaults) : NULL;
                t->caps = r->caps ? render_limits(arena, r->caps) : NULL;
                t->started_cold = r->started[GLOVEBOX__V1__START__START_COLD];
                t->started_ready = r->started[GLOVEBOX__V1__START__START_READY];
                t->started_warm = r->started[GLOVEBOX__V1__START__START_WARM];
        }
}

static void render_profiles(struct Arena *arena, const struct Config *config, Glovebox__V1__GetInfoResponse *m) {
        m->n_profiles = config->n_profiles;
        m->profiles = arena_get_array(arena, config->n_profiles, sizeof(*m->profiles));
        for (size_t i = 0; i < config->n_profiles; i++) {
                m->profiles[i] = ARENA_MESSAGE(arena, Glovebox__V1__Profile, GLOVEBOX__V1__PROFILE__INIT);
                m->profiles[i]->name = config->profiles[i].name;
                m->profiles[i]->limits = render_limits(arena, &config->profiles[i].limits);
                m->profiles[i]->idle = render_idle(arena, &config->profiles[i].idle);
        }
}

static void render_config(struct Arena *arena, const struct Config *config, Glovebox__V1__GetInfoResponse *m) {
        render_profiles(arena, config, m);
        m->defaults = render_limits(arena, &config->defaults);
        m->caps = render_limits(arena, &config->caps);
        m->max_waiting = narrow(config->max_waiting);
        m->wait_deadline = render_duration(arena, config->wait_deadline);
        m->max_message_bytes = config->max_message;
}

grpc_byte_buffer *render_info(struct Executions *x, const struct Caller *caller) {
        struct Arena arena _cleanup_(arena_done) = {};
        Glovebox__V1__GetInfoResponse m = GLOVEBOX__V1__GET_INFO_RESPONSE__INIT;
        struct ServerInfo info = {};

        executions_info(x, &info);
        m.version = (char *) GLOVEBOX_VERSION;
        m.node = (char *) info.node;
        render_runtimes(&arena, &info, &m);
        render_config(&arena, info.config, &m);
        m.n_isolation = info.n_layers;
        m.isolation = render_layers(&arena, &info);
        m.n_limits_not_enforced = strv_length(info.limits_not_enforced);
        m.limits_not_enforced = (char **) info.limits_not_enforced;
        m.cgroup_driver = (char *) info.cgroup_driver;
        m.max_executions = narrow(info.max_executions);
        m.running = narrow(info.running);
        m.waiting = narrow(info.waiting);
        m.spawner_connected = info.spawner_connected;
        m.caller = (char *) caller->name;
        m.caller_is_operator = caller->is_operator;
        return message_pack(&m.base);
}
