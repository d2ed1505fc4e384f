/* All executions together: finding, listing, cancelling, what the server tells of itself, and its orderly end. */
#include <ctype.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/sysinfo.h>

#include "common/log.h"
#include "server/execution-internal.h"

#define EXECUTIONS_PER_CPU 32
#define LAST_DEADLINE (15 * USEC_PER_SEC) /* after the cancels of a drain */

static uint64_t max_executions(const struct Executions *x) {
        uint64_t n = x->config->max_executions;
        struct sysinfo info;

        if (n == 0 && sysinfo(&info) == 0) {
                uint64_t memory = (uint64_t) info.totalram * info.mem_unit / 4 * 3;
                uint64_t cpus = (uint64_t) MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
                n = MIN(memory / MAX(x->config->defaults.memory_bytes, MIB), cpus * EXECUTIONS_PER_CPU);
        }
        /* One of the spawner's cells is for asking runtimes for their versions, which a reload does while executions run. */
        if (x->link.ready && x->link.info.max_cells > 0)
                n = MIN(n, MAX(x->link.info.max_cells, UINT64_C(2)) - 1);
        return MAX(n, (uint64_t) 1);
}

static void set_bounds(struct Executions *x) {
        gate_set_bounds(&x->gate, x->config, max_executions(x));
        x->values.most = x->config->request_budget;
}

/* ---- runtimes ---- */

struct RuntimeStatus *executions_runtime(struct Executions *x, const char *name) {
        for (size_t i = 0; i < x->n_runtimes; i++)
                if (streq(x->runtimes[i].name, name))
                        return &x->runtimes[i];
        return NULL;
}

static void runtimes_free(struct RuntimeStatus *runtimes, size_t n) {
        for (size_t i = 0; i < n; i++)
                free(runtimes[i].name);
        free(runtimes);
}

static void runtimes_done(struct Executions *x) {
        runtimes_free(x->runtimes, x->n_runtimes);
        x->runtimes = NULL;
        x->n_runtimes = 0;
}

/* Counts go on for those that were there. */
static int runtimes_init(struct Executions *x) {
        struct RuntimeStatus *runtimes = calloc(MAX(x->config->n_runtimes, (size_t) 1), sizeof *runtimes);
        if (!runtimes)
                return -ENOMEM;
        for (size_t i = 0; i < x->config->n_runtimes; i++) {
                const struct RuntimeStatus *was = executions_runtime(x, x->config->runtimes[i].key);
                struct RuntimeStatus *s = &runtimes[i];
                s->name = strdup(x->config->runtimes[i].key);
                if (!s->name) {
                        runtimes_free(runtimes, i);
                        return -ENOMEM;
                }
                (void) snprintf(s->detail, sizeof s->detail, "not asked for its version yet");
                if (was)
                        memcpy(s->started, was->started, sizeof s->started);
        }
        runtimes_done(x);
        x->runtimes = runtimes;
        x->n_runtimes = x->config->n_runtimes;
        return 0;
}

static const struct SpawnerRuntime *spawner_runtime(const struct Executions *x, const char *name) {
        for (size_t i = 0; i < x->link.info.n_runtimes; i++)
                if (streq(x->link.info.runtimes[i].name, name))
                        return &x->link.info.runtimes[i];
        return NULL;
}

/* Asks all of them (again), but for those that the spawner does not have or says cannot work. */
static void runtimes_probe(struct Executions *x) {
        probe_stop(x);
        for (size_t i = 0; i < x->n_runtimes; i++) {
                struct RuntimeStatus *s = &x->runtimes[i];
                const struct SpawnerRuntime *r = spawner_runtime(x, s->name);
                if (r && r->available) {
                        s->probe = PROBE_WANTED;
                        continue;
                }
                s->probe = PROBE_DONE;
                s->available = false;
                (void) snprintf(s->detail, sizeof s->detail, "%s", r ? r->detail : "it is new in the config: restart the spawner, which reads runtimes only then");
        }
        probe_begin(x);
}

static void link_on_change(void *userdata) {
        struct Executions *x = userdata;

        set_bounds(x);
        if (x->link.ready) {
                runtimes_probe(x);
                return;
        }
        probe_stop(x);
        x->ready = false;
        executions_tell_ready(x);
}

bool executions_ready(const struct Executions *x) {
        return x->ready && !x->draining;
}

void executions_on_ready_change(struct Executions *x, void (*on_change)(void *userdata), void *userdata) {
        for (size_t i = 0; i < ELEMENTSOF(x->followers); i++) {
                bool same = x->followers[i].userdata == userdata;
                if (!same && (!on_change || x->followers[i].on_change))
                        continue;
                x->followers[i].on_change = on_change;
                x->followers[i].userdata = on_change ? userdata : NULL;
                return;
        }
}

void executions_tell_ready(struct Executions *x) {
        for (size_t i = 0; i < ELEMENTSOF(x->followers); i++)
                if (x->followers[i].on_change)
                        x->followers[i].on_change(x->followers[i].userdata);
}

/* ---- life ---- */

static int executions_on_expiry(sd_event_source *source, uint64_t usec, void *userdata) {
        table_expire(userdata);
        return 0;
}

static int executions_on_drain_check(sd_event_source *source, void *userdata) {
        struct Executions *x = userdata;

        x->drained = true;
        x->on_drained(x->drain_userdata);
        return 0;
}

static int add_sources(struct Executions *x) {
        int r = sd_event_add_time(x->event, &x->expiry, CLOCK_MONOTONIC, 0, USEC_PER_SEC, executions_on_expiry, x);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(x->expiry, SD_EVENT_OFF);
        if (r < 0)
                return r;
        r = sd_event_add_defer(x->event, &x->drain_check, executions_on_drain_check, x);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(x->drain_check, SD_EVENT_OFF);
}

DEFINE_CLEANUP(struct Executions *, executions_free)

int executions_new(sd_event *event, const struct Config *config, const char *spawner, struct Executions **ret) {
        struct Executions *x _cleanup_(executions_freep) = calloc(1, sizeof *x);

        if (!x)
                return -ENOMEM;
        x->event = event;
        x->config = config;
        x->audit = (struct Audit) AUDIT_NULL;
        x->link.fd = -EBADF;
        TAILQ_INIT(&x->finished);
        (void) snprintf(x->node, sizeof x->node, "%s", config->node);
        if (getrandom(&x->hash_seed, sizeof x->hash_seed, 0) != sizeof x->hash_seed)
                return -EIO;
        int r = add_sources(x);
        if (r >= 0)
                r = gate_init(&x->gate, event);
        if (r >= 0)
                r = runtimes_init(x);
        if (r >= 0)
                r = audit_open(&x->audit, config);
        if (r < 0)
                return r;
        set_bounds(x);
        r = link_init(&x->link, event, spawner, link_on_change, x);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(x);
        return 0;
}

struct Executions *executions_free(struct Executions *x) {
        if (!x)
                return NULL;
        probe_stop(x);
        link_done(&x->link);
        while (x->newest) {
                struct Execution *e = x->newest;
                table_remove(e);
                execution_free(e);
        }
        gate_done(&x->gate);
        audit_close(&x->audit);
        runtimes_done(x);
        sd_event_source_disable_unref(x->expiry);
        sd_event_source_disable_unref(x->drain_timer);
        sd_event_source_disable_unref(x->drain_check);
        free(x->runtime_infos);
        free(x->layer_infos);
        free(x->limit_fields);
        free(x);
        return NULL;
}

void executions_reload(struct Executions *x, const struct Config *config) {
        x->config = config;
        probe_stop(x);
        int r = runtimes_init(x);
        if (r < 0)
                log_error_errno(r, "Failed to take over the runtimes: %m");
        r = audit_open(&x->audit, config);
        if (r < 0)
                log_error_errno(r, "Failed to open the audit file %s: %m", config->audit_file);
        set_bounds(x);
        table_expire(x);
        if (x->link.ready)
                runtimes_probe(x);
}

/* ---- stopping ---- */

static void cancel_all(struct Executions *x) {
        for (struct Execution *e = x->newest, *older; e; e = older) {
                older = e->older;
                if (e->state != EXECUTION_FINISHED)
                        execution_end(e, CANCEL_SHUTDOWN);
        }
}

static int executions_on_last_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Executions *x = userdata;

        log_warning("Some executions did not end in time; leaving them to the spawner");
        return sd_event_source_set_enabled(x->drain_check, SD_EVENT_ONESHOT);
}

static int executions_on_drain_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Executions *x = userdata;

        cancel_all(x);
        x->drain_timer = sd_event_source_disable_unref(x->drain_timer);
        executions_check_drained(x);
        return sd_event_add_time_relative(x->event, &x->drain_timer, CLOCK_MONOTONIC, LAST_DEADLINE, 0, executions_on_last_deadline, x);
}

void executions_check_drained(struct Executions *x) {
        if (x->draining && !x->drained && x->n_active == 0 && x->gate.running == 0)
                (void) sd_event_source_set_enabled(x->drain_check, SD_EVENT_ONESHOT);
}

void executions_drain(struct Executions *x, void (*on_drained)(void *userdata), void *userdata) {
        x->draining = true;
        x->on_drained = on_drained;
        x->drain_userdata = userdata;
        for (struct Execution *e = x->newest, *older; e; e = older) {
                older = e->older;
                if (e->state == EXECUTION_QUEUED)
                        execution_end(e, CANCEL_SHUTDOWN);
        }
        int r = sd_event_add_time_relative(x->event, &x->drain_timer, CLOCK_MONOTONIC, x->config->drain_deadline, 0, executions_on_drain_deadline, x);
        if (r < 0)
                cancel_all(x);
        executions_check_drained(x);
}

/* ---- finding ---- */

int execution_find(struct Executions *x, const struct Caller *caller, const char *id, struct Execution **ret, struct Refusal *refusal) {
        struct Execution *e = table_find(x, strempty(id));

        if (!e || (!streq(e->caller, caller->name) && !caller->is_operator))
                return refuse(refusal, REFUSE_NOT_FOUND, "execution_id", "'%.96s' is not an execution of yours, or is no longer kept", strempty(id));
        *ret = e;
        return 0;
}

int execution_cancel(struct Executions *x, const struct Caller *caller, const char *id, enum ExecutionState *ret_state, struct Refusal *refusal) {
        struct Execution *e = NULL;

        int r = execution_find(x, caller, id, &e, refusal);
        if (r != 0)
                return r;
        *ret_state = e->state;
        if (e->state < EXECUTION_DRAINING)
                (void) snprintf(e->cancelled_by, sizeof e->cancelled_by, "%s", caller->name);
        if (e->state != EXECUTION_FINISHED)
                execution_end(e, streq(e->caller, caller->name) ? CANCEL_CALLER : CANCEL_OPERATOR);
        return 0;
}

/* The token is the number of the last execution of the page before. */
static int parse_token(const char *token, uint64_t *ret, struct Refusal *refusal) {
        char *end;

        if (isempty(token)) {
                *ret = UINT64_MAX;
                return 0;
        }
        errno = 0;
        *ret = strtoull(token, &end, 16);
        if (errno || *end || !isxdigit((unsigned char) *token))
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "page_token", "is not one that this server gave");
        return 0;
}

static struct Execution *list_start(struct Executions *x, const char *caller, bool everyone) {
        if (everyone)
                return x->newest;
        for (struct Account *a = x->accounts; a; a = a->next)
                if (streq(a->name, caller))
                        return a->newest;
        return NULL;
}

int executions_list(struct Executions *x, const struct Caller *caller, const struct ExecutionFilter *filter, struct Execution **out, size_t n,
                    size_t *ret_n, char ret_token[64], struct Refusal *refusal) {
        const char *of = isempty(filter->caller) ? caller->name : filter->caller;
        bool everyone = streq(of, "*");
        size_t size = filter->page_size ? filter->page_size : 100, found = 0;
        uint64_t before;

        if (size > 1000)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "page_size", "%zu is above the 1000 allowed", size);
        if (!streq(of, caller->name) && !caller->is_operator)
                return refuse(refusal, REFUSE_PERMISSION_DENIED, "caller", "only operators see executions of others");
        int r = parse_token(filter->page_token, &before, refusal);
        if (r != 0)
                return r;
        table_expire(x);
        size = MIN(size, n);
        ret_token[0] = 0;
        for (struct Execution *e = list_start(x, of, everyone); e; e = everyone ? e->older : e->account_older) {
                if (e->number >= before || (filter->active_only && e->state == EXECUTION_FINISHED))
                        continue;
                if (found == size) {
                        (void) snprintf(ret_token, 64, "%llx", (unsigned long long) out[found - 1]->number);
                        break;
                }
                out[found++] = e;
        }
        *ret_n = found;
        return 0;
}

/* ---- what the server tells of itself ---- */

static void fill_runtimes(struct Executions *x, struct ServerInfo *ret) {
        struct RuntimeInfo *infos = reallocarray(x->runtime_infos, MAX(x->n_runtimes, (size_t) 1), sizeof *infos);

        if (!infos)
                return;
        x->runtime_infos = infos;
        for (size_t i = 0; i < x->n_runtimes; i++) {
                const struct RuntimeStatus *s = &x->runtimes[i];
                const struct Runtime *c = config_runtime(x->config, s->name);
                bool up = s->available && x->link.ready;
                infos[i] = (struct RuntimeInfo) {
                        .name = s->name,
                        .version = s->version,
                        .detail = s->available && !x->link.ready ? "the spawner is not there" : s->detail,
                        .profile = c ? strempty(c->profile) : "",
                        .endings = c ? c->endings : NULL,
                        .defaults = c ? &c->defaults : NULL,
                        .caps = c ? &c->caps : NULL,
                        .available = up,
                };
                memcpy(infos[i].started, s->started, sizeof infos[i].started);
        }
        ret->runtimes = infos;
        ret->n_runtimes = x->n_runtimes;
}

static void fill_layers(struct Executions *x, struct ServerInfo *ret) {
        const struct SpawnerInfo *s = &x->link.info;
        struct LayerInfo *infos = reallocarray(x->layer_infos, MAX(s->n_layers, (size_t) 1), sizeof *infos);
        char **fields = reallocarray(x->limit_fields, strv_length(s->limits_not_enforced) + 1, sizeof *fields);
        size_t n = 0;

        if (infos)
                x->layer_infos = infos;
        if (fields)
                x->limit_fields = fields;
        if (!infos || !fields)
                return;
        for (size_t i = 0; i < s->n_layers; i++)
                infos[i] = (struct LayerInfo) { s->layers[i].name, s->layers[i].detail, s->layers[i].in_force };
        for (const struct LimitInfo *info = limit_table; info->field; info++)
                if (strv_contains(s->limits_not_enforced, info->key))
                        fields[n++] = (char *) info->field;
        fields[n] = NULL;
        ret->layers = infos;
        ret->n_layers = s->n_layers;
        ret->limits_not_enforced = fields;
}

void executions_info(struct Executions *x, struct ServerInfo *ret) {
        *ret = (struct ServerInfo) {
                .node = x->node,
                .cgroup_driver = strempty(x->link.info.driver),
                .config = x->config,
                .max_executions = x->gate.max_running,
                .running = x->gate.running,
                .waiting = x->gate.waiting,
                .spawner_connected = x->link.ready,
        };
        fill_runtimes(x, ret);
        fill_layers(x, ret);
}
