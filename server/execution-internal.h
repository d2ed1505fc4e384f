/* What the files of the spine share: one execution, and the table of all. */
#pragma once

#include <sys/queue.h>

#include "common/pipe-writer.h"
#include "server/admit/plan.h"
#include "server/admit/gate.h"
#include "server/execution.h"
#include "server/lease/job.h"
#include "server/lease/lease.h"
#include "server/stream/eventlog.h"
#include "server/stream/files.h"
#include "server/stream/idle.h"
#include "server/stream/output.h"
#include "server/stream/value.h"
#include "server/verdict/audit.h"
#include "server/verdict/evidence.h"
#include "server/verdict/verdict.h"

#define EXECUTION_ID_MAX 96
#define TABLE_BUCKETS 4096
#define REPORT_BUFFER 512
#define VERSION_MAX 128

TAILQ_HEAD(Finished, Execution); /* in the order in which they finished */

/* One caller's executions. */
struct Account {
        struct Account *next;
        struct Execution *newest;
        struct Finished finished;
        uint64_t n_finished;
        size_t held; /* of its executions */
        char name[CALLER_NAME_MAX];
};

struct Execution {
        struct Executions *owner;
        struct Account *account; /* NULL: not in the table (any more) */
        struct Execution *newer, *older;                  /* of all */
        struct Execution *account_newer, *account_older;  /* of the caller */
        struct Execution *hash_next, *request_next;
        TAILQ_ENTRY(Execution) finished_entry, account_finished_entry;
        bool kept; /* finished and in those lists */
        uint64_t number; /* rises with each execution */

        char id[EXECUTION_ID_MAX];
        char *request_id, *runtime, *working_dir;
        char cancelled_by[CALLER_NAME_MAX]; /* who asked for it; empty = nobody */
        char caller[CALLER_NAME_MAX], runtime_version[VERSION_MAX], profile[65];
        pid_t caller_pid;
        struct Label *labels;
        size_t n_labels;
        struct Limits limits;
        struct IdlePolicy idle_policy;
        usec_t heartbeat_interval;
        bool merge_streams, detached;
        bool fresh; /* needs an interpreter that is started for it */
        struct Request request; /* until it has been sent into the cell */

        enum ExecutionState state;
        struct Ticket ticket;
        struct Lease *lease;
        struct EventLog log;
        struct Job job;
        struct PipeWriter stdin_writer;
        bool job_sent, stdin_sent;
        struct Output output;
        struct ValuePipe values;
        struct Files files;
        bool runner;             /* its program is one: it gives values */
        int collect_pipe, files_pipe; /* to and from the cell's init; -EBADF = none */
        char **written;          /* the code's file and the request's, in the order in which they are written */
        char **patterns;         /* of files to collect */
        char **import_default;   /* of the runtime; NULL = none */
        struct FileStamp *stamps; /* of `written`, as far as they were reported */
        size_t n_stamps;
        struct Idle idle;
        struct EvidenceFiles evidence;
        int report;
        uint8_t report_bytes[REPORT_BUFFER];
        size_t report_size;
        sd_event_source *report_source, *deadline, *timeout, *cpu_timer, *heartbeat;
        unsigned start_kind;

        enum Trigger trigger; /* what ended it; set once */
        enum CancelReason cancel_reason;
        struct LeaseFailure failure;
        char waiting_for[128];
        bool output_drained, values_drained;
        bool main_over; /* it said so: the spawner tells main_exited soon */
        bool finishing; /* all but that is there */
        bool collected, main_exited, main_signaled, init_killed;
        int main_status;
        uint64_t max_rss; /* of the main process */
        usec_t accepted, leased, started, ended, finished; /* CLOCK_MONOTONIC; 0 = not yet */
        usec_t begun; /* the same, as the spawner says; started is when we heard of it */
        struct Result result;
        bool refused; /* after it was accepted: it waited in vain */
        struct Refusal refusal;
        unsigned n_cursors;
        size_t held; /* bytes of its log and result that wait for their reader although it has finished and its place is free */
        size_t kept_size; /* of its result, while it is kept */
};

enum ProbeState {
        PROBE_WANTED,
        PROBE_RUNNING,
        PROBE_DONE,
};

/* What the server knows of one runtime of the config. */
struct RuntimeStatus {
        char *name; /* its key in the config */
        enum ProbeState probe;
        bool available;
        char version[VERSION_MAX];
        char detail[256];
        uint64_t started[START_KINDS]; /* executions, by how they began */
};

struct Executions {
        sd_event *event;
        const struct Config *config;
        struct Link link;
        struct Gate gate;
        struct Audit audit;
        char node[33];
        uint32_t hash_seed; /* of requests */
        uint64_t last_number, n_active, n_finished;
        struct Execution *newest;
        struct Finished finished;
        size_t held;
        size_t kept_size;           /* of all results kept */
        struct ValueBudget values;
        struct Execution *buckets[TABLE_BUCKETS];  /* by id */
        struct Execution *requests[TABLE_BUCKETS]; /* by caller and request_id */
        struct Account *accounts;
        sd_event_source *expiry;

        struct RuntimeStatus *runtimes;
        size_t n_runtimes;
        struct Probe *probe;
        size_t probes_going; /* their cells are still being taken down, */
        bool probe_waits;    /* and the next one waits for that */
        sd_event_source *probe_again; /* a pause between two probes */
        usec_t probes_began;
        bool ready;
        struct {
                void (*on_change)(void *userdata);
                void *userdata;
        } followers[4]; /* of ready */

        bool draining, drained;
        sd_event_source *drain_timer, *drain_check;
        void (*on_drained)(void *userdata);
        void *drain_userdata;

        /* for executions_info */
        struct RuntimeInfo *runtime_infos;
        struct LayerInfo *layer_infos;
        char **limit_fields;
};

/* table.c */
int table_add(struct Executions *x, struct Execution *e);
void table_remove(struct Execution *e);
struct Execution *table_find(struct Executions *x, const char *id);
struct Execution *table_find_request(struct Executions *x, const char *caller, const char *request_id);
/* Counts what a finished one still holds for its readers, and no longer. */
void table_hold(struct Execution *e);
void table_let_go_of_held(struct Execution *e);
size_t table_held_of(struct Executions *x, const char *caller);
/* One more has finished: keep it, and let the oldest go where there are too many. */
void table_on_finished(struct Execution *e);
void table_expire(struct Executions *x);

/* execution.c */
void execution_set_state(struct Execution *e, enum ExecutionState state);
/* What ends it; the first cause counts. */
void execution_trigger(struct Execution *e, enum Trigger trigger);
/* Our fault, at this step. */
void execution_fail(struct Execution *e, const char *step, int error, const char *format, ...) PRINTF_LIKE(4, 5);
/* Ends it on request, or refuses it while it waits. */
void execution_end(struct Execution *e, enum CancelReason reason);
void execution_refuse(struct Execution *e, const struct Refusal *refusal);
/* The program has been started: its clock runs. */
void execution_run(struct Execution *e);
int execution_timer(struct Execution *e, sd_event_source **s, usec_t at, sd_event_time_handler_t handler);
void execution_unref(struct Execution *e); /* frees it when nothing needs it any more */
struct Execution *execution_free(struct Execution *e);
DEFINE_CLEANUP(struct Execution *, execution_free)
/* callbacks of its parts */
int execution_get_cpu(void *userdata, usec_t *ret);
usec_t execution_get_output(void *userdata, bool *ret_held);
void execution_on_idle(void *userdata);
void execution_on_output_over(void *userdata);
void execution_on_output_broken(int error, void *userdata);
void execution_on_log_room(void *userdata);

/* execution-start.c */
void execution_lease(struct Execution *e);
/* Before its end, of whatever kind, for it may have been started by now. */
void execution_read_report(struct Execution *e);

/* execution-end.c */
void execution_stop(struct Execution *e);
void execution_collect(struct Execution *e);
void execution_stop_timers(struct Execution *e);
void execution_free_request(struct Execution *e);
void execution_release_place(struct Execution *e);
void execution_audit(struct Execution *e, bool end);
void execution_on_output_drained(void *userdata);
void execution_on_values_drained(void *userdata);
void execution_on_files(void *userdata);
/* The program says that it is over; and: the spawner has told how the main process ended, for which alone all waited (finishing). */
void execution_on_main_over(uint8_t status, void *userdata);
void execution_on_main_told(struct Execution *e);
void execution_on_main_untold(struct Execution *e);

/* executions.c */
void executions_tell_ready(struct Executions *x);
void executions_check_drained(struct Executions *x);
struct RuntimeStatus *executions_runtime(struct Executions *x, const char *name);

/* probe.c: asks each runtime that is wanted for its version by running it in a cell, one after the other; then on_ready_change. begin: anew. */
void probe_begin(struct Executions *x);
void probe_next(struct Executions *x);
void probe_stop(struct Executions *x);
