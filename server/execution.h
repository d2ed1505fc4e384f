/* Executions as accept/ sees them: made, watched, cancelled, listed. */
#pragma once

#include <systemd/sd-event.h>

#include "common/config.h"
#include "server/caller.h"
#include "server/event.h"
#include "server/refusal.h"
#include "server/request.h"

struct Execution;
struct Executions;
struct Cursor;

/* spawner: path of the spawner's socket. config stays the caller's; executions_reload replaces it. */
int executions_new(sd_event *event, const struct Config *config, const char *spawner, struct Executions **ret);
struct Executions *executions_free(struct Executions *x);
void executions_reload(struct Executions *x, const struct Config *config);
/* No new ones; running ones get drain_deadline to end, then they are cancelled (SHUTDOWN). on_drained is called once all are
 * finished and their cells are gone (or a last deadline has passed). */
void executions_drain(struct Executions *x, void (*on_drained)(void *userdata), void *userdata);
/* Ready to take executions: the spawner is there and every runtime has been probed. on_change follows it. */
bool executions_ready(const struct Executions *x);
/* A few may follow it; on_change NULL: this userdata no longer. */
void executions_on_ready_change(struct Executions *x, void (*on_change)(void *userdata), void *userdata);

/* Accepts or refuses a request, and takes *request in either case. Returns 0 and the execution, or a positive RefusalCode. The execution
 * lives as long as it is kept; a Cursor keeps it too. */
int execution_new(struct Executions *x, const struct Caller *caller, struct Request *request, struct Execution **ret, struct Refusal *refusal);
/* The call that started it has ended. Unless it is detached or finished, it is cancelled (CLIENT_GONE). */
void execution_client_gone(struct Execution *e);

/* A reader of an execution's events. The starting call's cursor (lead) holds the program back when it is slow; any other is overtaken
 * and gets gaps. wake is called from the event loop, never from inside cursor_next, whenever cursor_next may have something again
 * after it said 0. */
int cursor_new(struct Execution *e, bool lead, void (*wake)(void *userdata), void *userdata, struct Cursor **ret);
/* From now on it is woken for the end, or when what it has not read takes too much memory. */
void cursor_be_patient(struct Cursor *c);
struct Cursor *cursor_free(struct Cursor *c);
DEFINE_CLEANUP(struct Cursor *, cursor_free)
/* 1 = *ret is the next event (its bytes stay valid until the next call); 0 = nothing now; -ENODATA = the result was the last;
 * -EREMOTEIO = it was refused after it had been accepted (it waited for room in vain): there is no result, execution_refusal() says why. */
int cursor_next(struct Cursor *c, struct Event *ret);
/* NULL unless it was refused after it had been accepted. */
const struct Refusal *execution_refusal(const struct Execution *e);

enum ExecutionState { /* numbers of glovebox.v1.State */
        EXECUTION_NEW,
        EXECUTION_QUEUED,
        EXECUTION_LEASING,
        EXECUTION_RUNNING,
        EXECUTION_DRAINING,
        EXECUTION_FINISHED,
        EXECUTION_STATE_MAX_,
};

struct Label {
        char *key, *value;
};

/* What can be told of one execution; points into it. */
struct ExecutionView {
        const char *id, *request_id, *caller, *runtime, *runtime_version, *profile;
        const struct Label *labels;
        size_t n_labels;
        enum ExecutionState state;
        struct Limits limits;
        struct IdlePolicy idle;
        usec_t heartbeat_interval;
        bool detached;
        usec_t accepted_at, started_at; /* CLOCK_REALTIME */
        struct Heartbeat now;           /* while RUNNING */
        uint64_t stdout_bytes, stderr_bytes;
        const struct Result *result;    /* once FINISHED */
};

void execution_view(struct Execution *e, struct ExecutionView *ret);

/* By id, seen by this caller: its own, or any for an operator. 0 or REFUSE_NOT_FOUND. */
int execution_find(struct Executions *x, const struct Caller *caller, const char *id, struct Execution **ret, struct Refusal *refusal);
/* Notes the wish to end it; *ret_state is the state found. */
int execution_cancel(struct Executions *x, const struct Caller *caller, const char *id, enum ExecutionState *ret_state, struct Refusal *refusal);

struct ExecutionFilter {
        const char *caller; /* NULL or "": the caller's own; "*": everyone's */
        bool active_only;
        const char *page_token; /* "" = first page */
        size_t page_size;       /* 0 = 100 */
};

/* Newest first. Fills at most page_size (or n) pointers, valid until control returns to the event loop; *ret_token is "" on the last page. */
int executions_list(struct Executions *x, const struct Caller *caller, const struct ExecutionFilter *filter, struct Execution **out, size_t n,
                    size_t *ret_n, char ret_token[64], struct Refusal *refusal);

/* For GetInfo and `accepted`. Points into x, valid until control returns to the event loop. */
struct LayerInfo {
        const char *name, *detail;
        bool in_force;
};

#define START_KINDS 4 /* numbers of glovebox.v1.Start */

struct RuntimeInfo {
        const char *name, *version, *detail, *profile;
        char *const *endings;
        const struct Limits *defaults, *caps; /* the runtime's own */
        uint64_t started[START_KINDS];        /* executions, by how they began */
        bool available;
};

struct ServerInfo {
        const char *node, *cgroup_driver;
        const struct RuntimeInfo *runtimes;
        size_t n_runtimes;
        const struct LayerInfo *layers;
        size_t n_layers;
        char *const *limits_not_enforced; /* proto field names of Limits */
        const struct Config *config;      /* profiles, defaults, caps, sizes */
        uint64_t max_executions;          /* resolved */
        uint64_t running, waiting;
        bool spawner_connected;
};

void executions_info(struct Executions *x, struct ServerInfo *ret);
