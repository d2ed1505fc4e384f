/* One gRPC call, from its headers to its last batch. */
#pragma once

#include "server/accept/connection.h"
#include "server/accept/room.h"
#include "server/accept/status.h"

struct Method;

struct Call {
        struct Accept *accept;
        struct Call *next, **at; /* in accept->calls while it is in progress */
        const struct Method *method;
        struct Connection *connection;
        struct Caller caller;

        grpc_call *handle;
        grpc_call_details details;
        grpc_metadata_array metadata;
        struct Tag on_new, on_message, on_written, on_finished, on_closed; /* one for each batch that can be under way */
        unsigned n_batches;
        grpc_byte_buffer *received, *sending;
        struct Status status;
        int cancelled;        /* as gRPC says it */

        bool begun;           /* metadata was sent */
        bool receiving, writing, finishing;
        bool gone;            /* the peer wants no answer any more */
        uint64_t gathered;    /* bytes of its answer so far in accept->gathered */
        uint64_t answer;      /* bytes of its last message in accept->answers */
        usec_t waiting_since; /* for the peer to send its request or to take the answer; 0 = for nothing */
        void *state;          /* the method's */
};

/* Keeps CALLS_POSTED requests for new calls with gRPC. */
void calls_post(struct Accept *a);
/* The server goes down: asks every method to end what need not go on. */
void calls_stop(struct Accept *a);

/* Asks for the next message; comes as method->message or method->half_closed. */
void call_receive(struct Call *c);
/* Sends one message, takes it. Only when !c->writing; method->written follows. */
void call_send(struct Call *c, grpc_byte_buffer *message);
/* Counts n more bytes that are gathered for this call's answer, until it is sent; whether all calls have used up what may be gathered. */
void call_charge(struct Call *c, uint64_t n);
bool call_memory_is_short(const struct Call *c);
/* Whether answers that wait for their clients, all or this caller's, have filled the budget; and the refusal of one more. */
bool call_answers_pile_up(const struct Call *c);
int call_refuse_to_pile_up(const struct Call *c, struct Refusal *refusal);
/* Ends the call: a last message (or NULL) and OK, or a refusal. Nothing may be sent afterwards. */
void call_finish(struct Call *c, grpc_byte_buffer *message, const struct Refusal *refusal);
static inline void call_refuse(struct Call *c, const struct Refusal *refusal) {
        call_finish(c, NULL, refusal);
}
/* Ends it without waiting for the peer to take anything. */
void call_abort(struct Call *c);
