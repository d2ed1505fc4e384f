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

struct Result {
        enum Outcome outcome;
        enum ExitKind exit;
        int status; /* exit code or signal */
        enum CancelReason cancel_reason;
        char message[512]; /* valid UTF-8 */
        uint32_t limits_hit; /* bits */
        struct Usage usage;
        bool stdout_truncated, stderr_truncated;
        char code_sha256[65];
        usec_t accepted_at, started_at, finished_at; /* CLOCK_REALTIME; 0 = never */
};

struct Heartbeat {
        usec_t idle_for, cpu_time;
        uint64_t memory, processes;
};

enum EventKind {
        EVENT_ACCEPTED,  /* everything it says is in execution_view() */
        EVENT_STARTED,
        EVENT_OUTPUT,
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
                struct Heartbeat heartbeat;
                struct {
                        enum Stream stream;
                        uint64_t from, to;
                } gap;
                const struct Result *result;
        };
};
