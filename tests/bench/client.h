/* What the load generator's modes share: a client on the gRPC core, its callers, and the times they measured. */
#pragma once

#include <grpc/grpc.h>

#include "common/util.h"
#include "glovebox/v1/execution.pb-c.h"

#define CALLERS_MAX 256
#define CALL_DEADLINE_S 600

/* Nanoseconds. Those beyond the most that are kept are not. */
struct Samples {
        uint64_t *values;
        size_t n;
};

struct Load {
        grpc_completion_queue *queue;
        const char *address;
        struct Samples times;
        size_t n_errors; /* only the first one is printed */
};

enum Phase {
        PHASE_SENT,    /* the request is on its way */
        PHASE_READING, /* a message of the stream is awaited */
        PHASE_ENDING,  /* the status is */
};

/* One call after another on a connection of its own. */
struct Caller {
        struct Load *load;
        grpc_channel *channel;
        grpc_call *call;
        grpc_slice request;
        grpc_byte_buffer *sent, *reply;
        grpc_metadata_array initial, trailing;
        grpc_status_code status;
        grpc_slice details;
        uint64_t began;
        Glovebox__V1__Outcome wanted; /* 0: COMPLETED */
        /* of a stream */
        enum Phase phase;
        uint64_t first_byte; /* of standard output, nanoseconds from `began`; 0: none came */
        bool ended_well;
};

uint64_t now_ns(void);
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

void samples_new(struct Samples *s);
void samples_add(struct Samples *s, uint64_t value);
/* Sorts them, and prints their percentiles as the members of a JSON object. */
void samples_print(struct Samples *s);

/* {"count": ..., "errors": ..., "seconds": ..., "p50_us": ...} */
void load_print(struct Load *l, double seconds);

/* The bytes of an ExecuteRequest. limits may be NULL. */
grpc_slice pack_request(const Glovebox__V1__ExecuteRequest *request);

/* Opens a channel, and waits until it is connected: a connection's start is no part of a call's time. */
void caller_open(struct Caller *c, struct Load *l);
void caller_close(struct Caller *c);
void call_begin(struct Caller *c, const char *method);
void call_end(struct Caller *c);
grpc_op op_status(struct Caller *c);
void batch(struct Caller *c, const grpc_op *ops, size_t n);
struct Caller *next_event(struct Load *l, bool *ret_ok);

/* Execute of c->request, and what is to be done when its one event has come. */
void execute(struct Caller *c);
void executed(struct Caller *c);
/* Whether the result says that it ended as this caller wants it. */
bool ended_as_wanted(const struct Caller *c, const Glovebox__V1__Result *result);
/* The message that came, to be freed with grpc_slice_unref(); c->reply is NULL then. */
grpc_slice take_reply(struct Caller *c);
void count_error(struct Caller *c);

/* The mode `calls` (calls.c); the arguments behind the mode's name. */
void run_calls(struct Load *l, int argc, char **argv);
