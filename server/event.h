/* What happens to an execution, in the order it happens: the entries of its log, before they become messages. */
#pragma once

#include "common/limits.h"

enum Outcome { /* numbers of glovebox.v1.Outcome */
        OUTCOME_UNSPECIFIED,
        OUTCOME_COMPLETED,
        OUTCOME_FAILED,
        OUTCOME_SIGNALED,
        OUTCOME_TIMED_OUT,
        OUTCOME_IDLE_TIMED_OUT,
        OUTCOME_CPU_TIME_EXCEEDED,
        OUTCOME_OUTPUT_LIMIT_EXCEEDED,
        OUTCOME_OUT_OF_MEMORY,
        OUTCOME_CANCELLED,
        OUTCOME_INVALID_CODE,
        OUTCOME_SANDBOX_FAILED,
        OUTCOME_MAX_,
};

enum CancelReason { /* numbers of glovebox.v1.CancelReason */
        CANCEL_NOT,
        CANCEL_CALLER,
        CANCEL_CLIENT_GONE,
        CANCEL_OPERATOR,
        CANCEL_SHUTDOWN,
};

enum Stream { /* numbers of glovebox.v1.Stream */
        STREAM_NONE,
        STREAM_STDOUT,
        STREAM_STDERR,
        STREAM_MAX_,
};

enum LimitHit { /* numbers of glovebox.v1.Limit; used as bits: 1 << n */
        LIMIT_HIT_MEMORY = 1,
        LIMIT_HIT_PROCESSES,
        LIMIT_HIT_CPU_TIME,
        LIMIT_HIT_WORKSPACE,
        LIMIT_HIT_OUTPUT,
        LIMIT_HIT_VALUE,
        LIMIT_HIT_CONTENT,
        LIMIT_HIT_MAX_,
};

enum ExitKind {
        EXIT_UNSET,
        EXIT_CODE,
        EXIT_SIGNAL,
};

struct Usage {
        usec_t wall, cpu_user, cpu_system;
        usec_t cpu_stalled, memory_stalled, io_stalled; /* while one of its processes at least waited for it */
        uint64_t memory_peak, processes_peak, read_bytes, written_bytes;
        uint64_t stdout_bytes, stderr_bytes;
};

enum ValueKind {
        VALUE_KIND_NONE,
        VALUE_KIND_JSON,
        VALUE_KIND_ERROR,
};

#define CONTENT_ID_MAX 24
#define VALUE_CONTENT_ID "value"
#define CONTENT_WHOLE_MAX (512 * KIB) /* a value or display that is larger goes in pieces; a value also beside a large error or list of files */

/* What the code's value came to. */
struct Value {
        enum ValueKind kind;
        char *json; /* checked; NUL behind it */
        size_t size;
        bool lossy;
        unsigned error; /* numbers of glovebox.v1.ValueErrorType */
        char *path, *message;
};

enum ErrorText {
        ERROR_TEXT_TYPE,
        ERROR_TEXT_MESSAGE,
        ERROR_TEXT_TRACEBACK,
        ERROR_TEXT_SOURCE_LINE,
        ERROR_TEXT_HINT,
        ERROR_TEXT_MAX_,
};

/* The code's uncaught error, as its runner tells it. */
struct CodeError {
        bool set;
        char *texts[ERROR_TEXT_MAX_]; /* valid UTF-8, or NULL */
        uint32_t line, column;        /* from 1; 0 = not known */
        bool incomplete, truncated;
};

/* A file of the workspace that differs from what was there before. */
struct ResultFile {
        char *path; /* valid UTF-8 */
        bool escaped; /* it is not the name's bytes */
        uint64_t size;
        unsigned change, skipped; /* numbers of glovebox.v1.Change, Skipped */
        const char *mime_type;
        char content_id[CONTENT_ID_MAX]; /* "" = no content was sent */
};

struct Result {
        enum Outcome outcome;
        enum ExitKind exit;
        int status; /* exit code or signal */
        enum CancelReason cancel_reason;
        char message[512]; /* valid UTF-8 */
        uint32_t limits_hit; /* bits */
        struct Usage usage;
        bool stdout_truncated, stderr_truncated;
        struct Value value;
        struct CodeError error;
        struct ResultFile *files;
        size_t n_files;
        bool files_truncated;
        char code_sha256[65];
        usec_t accepted_at, started_at, finished_at; /* CLOCK_REALTIME; 0 = never */
};

void value_done(struct Value *v);
void code_error_done(struct CodeError *e);
void result_done(struct Result *r);
/* Bytes that a kept result takes. */
size_t result_size(const struct Result *r);
/* The value goes before the result, in pieces: together they would be more than one message may be. */
bool result_value_in_pieces(const struct Result *r);

struct Heartbeat {
        usec_t idle_for, cpu_time;
        uint64_t memory, processes;
};

enum EventKind {
        EVENT_ACCEPTED,  /* everything it says is in execution_view() */
        EVENT_STARTED,
        EVENT_OUTPUT,
        EVENT_DISPLAY,
        EVENT_CONTENT,   /* a piece of what is too large for one message, or of a file */
        EVENT_HEARTBEAT,
        EVENT_GAP,       /* made for one reader; its seq is that of the next event it gets, minus one */
        EVENT_RESULT,
};

struct Event {
        enum EventKind kind;
        uint64_t seq;
        usec_t elapsed;
        union {
                struct {
                        bool queued;
                } accepted;
                struct {
                        usec_t queue_time;
                        unsigned start; /* numbers of glovebox.v1.Start */
                } started;
                struct {
                        enum Stream stream;
                        uint64_t offset;
                        const uint8_t *data;
                        size_t size;
                } output;
                struct {
                        const char *id, *mime_type, *metadata;
                        const char *content_id; /* "" = data is all of it */
                        const uint8_t *data;
                        size_t size;
                } display;
                struct {
                        const char *id;
                        uint64_t offset;
                        const uint8_t *data;
                        size_t size;
                        bool last;
                } content;
                struct Heartbeat heartbeat;
                struct {
                        enum Stream stream;
                        uint64_t from, to;
                } gap;
                const struct Result *result;
        };
};
