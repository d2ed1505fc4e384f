/* A request becomes an execution: validated, entered in the table, given a place or put in the waiting list. */
#include "server/execution-internal.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <sys/random.h>

#include "common/log.h"

#define RETRY_AFTER (1 * USEC_PER_SEC)
#define CALLERS_SHARE 4 /* a caller's unread output may be this part of request-budget */

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

/* What outlives the request: the names that the files' stamps belong to, and what is to be collected. */
static int copy_paths(struct Execution *e, const struct Request *request, const struct Runtime *runtime) {
        int r = strv_extend(&e->written, runtime->code_name);

        for (size_t i = 0; r >= 0 && i < request->n_files; i++)
                r = strv_extend(&e->written, request->files[i].path);
        for (size_t i = 0; r >= 0 && i < request->n_collect; i++)
                r = strv_extend(&e->patterns, request->collect[i]);
        if (r >= 0 && runtime->import_allowed) {
                e->import_default = strv_copy(runtime->import_allowed);
                r = e->import_default ? 0 : -ENOMEM;
        }
        if (r < 0)
                return r;
        e->stamps = calloc(strv_length(e->written), sizeof *e->stamps);
        return e->stamps ? 0 : -ENOMEM;
}

static int fill(struct Execution *e, const struct Caller *caller, const struct Request *request, struct Plan *plan) {
        const struct RuntimeStatus *status = executions_runtime(e->owner, plan->runtime->key);

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
        e->fresh = plan->fresh;
        e->runner = plan->runtime->runner;
        e->detached = request->detached;
        e->request_id = strdup(strempty(request->request_id));
        e->runtime = strdup(plan->runtime->key);
        if (!e->request_id || !e->runtime)
                return -ENOMEM;
        int r = copy_labels(e, request);
        if (r >= 0)
                r = copy_paths(e, request, plan->runtime);
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
        e->report = e->collect_pipe = e->files_pipe = -EBADF;
        e->job.writer.fd = e->stdin_writer.fd = -EBADF;
        evidence_init(&e->evidence);
        e->ticket = (struct Ticket) { .charge = plan->limits, .on_turn = ticket_on_turn, .on_refused = ticket_on_refused, .userdata = e };
        e->idle = (struct Idle) { .get_cpu = execution_get_cpu, .get_output = execution_get_output, .on_idle = execution_on_idle, .userdata = e };
        e->output = (struct Output) { .on_over = execution_on_output_over, .on_broken = execution_on_output_broken,
                                       .on_drained = execution_on_output_drained, .userdata = e };
        int r = fill(e, caller, request, plan);
        if (r < 0)
                return r;
        r = eventlog_init(&e->log, x->event, e->accepted);
        if (r < 0)
                return r;
        e->log.on_room = execution_on_log_room;
        e->log.userdata = e;
        r = output_init(&e->output, x->event, &e->log, e->limits.output_bytes, audit_is_on(&x->audit));
        if (r < 0)
                return r;
        value_pipe_init(&e->values, &e->log, &x->values, e->limits.value_bytes, e->limits.content_bytes);
        e->values.on_drained = execution_on_values_drained;
        e->values.on_over = execution_on_main_over;
        files_init(&e->files, &e->log);
        e->files.on_done = execution_on_files;
        e->values.userdata = e->files.userdata = e;
        *ret = TAKE_PTR(e);
        return 0;
}

static int check_service(struct Executions *x, const struct Plan *plan, struct Refusal *refusal) {
        const struct RuntimeStatus *status = executions_runtime(x, plan->runtime->key);

        if (!status || status->available || status->probe != PROBE_DONE)
                return 0;
        return refuse(refusal, REFUSE_FAILED_PRECONDITION, "runtime", "'%s' cannot be used on this server: %s", plan->runtime->key, status->detail);
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

/* Each log is bounded, but a client that starts one execution after the other and reads nothing would have us keep them all: of finished
 * executions that are not read, as many bytes are kept as of requests. */
static int check_held(struct Executions *x, const struct Caller *caller, struct Refusal *refusal) {
        size_t own = table_held_of(x, caller->name);

        if (x->held < x->config->request_budget && own < x->config->request_budget / CALLERS_SHARE)
                return 0;
        (void) refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL,
                      "%zu KiB of output of finished executions (%zu KiB yours) wait to be read; read or leave those calls first", x->held / KIB, own / KIB);
        refusal->retry_after = RETRY_AFTER;
        return REFUSE_RESOURCE_EXHAUSTED;
}

static int check_request_id(struct Executions *x, const struct Caller *caller, const struct Request *request, struct Refusal *refusal) {
        if (isempty(request->request_id))
                return 0;
        const struct Execution *e = table_find_request(x, caller->name, request->request_id);
        if (!e)
                return 0;
        (void) refuse(refusal, REFUSE_ALREADY_EXISTS, "request_id", "was used for execution %s; ask for that one (GetExecution, or `glovebox ps %s`)", e->id, e->id);
        (void) snprintf(refusal->resource, sizeof refusal->resource, "%s", e->id);
        return REFUSE_ALREADY_EXISTS;
}

/* In the table, with a place or in the list; `accepted` is its first event. */
static int enter(struct Executions *x, struct Execution *e, struct Refusal *refusal) {
        struct Event event = { .kind = EVENT_ACCEPTED };
        int place = gate_enter(&x->gate, e->caller, &e->ticket, refusal);

        if (place != 0 && place != TICKET_WAITING)
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

        /* First: whoever asks a second time has to learn that the first was taken, whatever has changed since. */
        int r = check_request_id(x, caller, request, refusal);
        if (r == 0)
                r = check_up(x, refusal);
        if (r == 0)
                r = plan_make(x->config, x->link.info.limits_not_enforced, request, &plan, refusal);
        if (r == 0)
                r = check_service(x, &plan, refusal);
        if (r == 0)
                r = check_held(x, caller, refusal);
        if (r == 0)
                r = create(x, caller, request, &plan, &e);
        if (r == 0)
                r = enter(x, e, refusal);
        if (r != 0)
                return r;
        e->request = *request;
        *request = (struct Request) {};
        if (e->ticket.state == TICKET_RUNNING)
                execution_lease(e);
        else
                execution_set_state(e, EXECUTION_QUEUED);
        execution_audit(e, false);
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
