/* Calls: every batch is started on the event loop; a call lives until its last batch has come back. */
#include "server/accept/call.h"

#include <grpc/support/time.h>

#include "common/log.h"
#include "server/accept/method.h"

#define PATIENCE_INTERVAL (10 * USEC_PER_SEC)
#define PATIENCE_IN_NEED (30 * USEC_PER_SEC) /* with answers that nobody reads, when they fill half of their budget */

static void call_free(struct Call *c) {
        if (c->handle)
                grpc_call_unref(c->handle);
        grpc_metadata_array_destroy(&c->metadata);
        grpc_call_details_destroy(&c->details);
        status_done(&c->status);
        free(c);
}

static void call_link(struct Call *c) {
        struct Accept *a = c->accept;

        c->next = a->calls;
        c->at = &a->calls;
        if (a->calls)
                a->calls->at = &c->next;
        a->calls = c;
        a->n_calls++;
}

void call_charge(struct Call *c, uint64_t n) {
        c->gathered += n;
        c->accept->gathered += n;
}

static void call_discharge(struct Call *c) {
        c->accept->gathered -= c->gathered;
        c->gathered = 0;
}

bool call_memory_is_short(const struct Call *c) {
        return c->accept->gathered + c->accept->answers > c->accept->config->request_budget;
}

static void call_end(struct Call *c) {
        struct Accept *a = c->accept;

        *c->at = c->next;
        if (c->next)
                c->next->at = c->at;
        a->n_calls--;
        a->answers -= c->answer;
        call_discharge(c);
        if (c->state && c->method->done)
                c->method->done(c);
        if (c->connection)
                connection_leave(c->connection);
        call_free(c);
        accept_check_stopped(a);
}

static void call_batch_ended(struct Call *c) {
        if (--c->n_batches == 0)
                call_end(c);
}

/* On failure the batch does not come back, and the call is beyond help. */
static bool call_start(struct Call *c, const grpc_op *ops, size_t n, struct Tag *t) {
        grpc_call_error e = grpc_call_start_batch(c->handle, ops, n, t, NULL);

        if (e == GRPC_CALL_OK) {
                c->n_batches++;
                return true;
        }
        log_error("gRPC refused a batch: %s", grpc_call_error_to_string(e));
        (void) grpc_call_cancel(c->handle, NULL);
        return false;
}

void call_receive(struct Call *c) {
        grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->received};

        if (c->receiving || c->finishing)
                return;
        c->receiving = call_start(c, &op, 1, &c->on_message);
        c->waiting_since = now_monotonic();
}

static size_t call_add_metadata(struct Call *c, grpc_op *op) {
        if (c->begun)
                return 0;
        c->begun = true;
        *op = (grpc_op) {.op = GRPC_OP_SEND_INITIAL_METADATA};
        return 1;
}

static size_t call_add_message(struct Call *c, grpc_op *op, grpc_byte_buffer *message) {
        if (!message)
                return 0;
        c->sending = message;
        *op = (grpc_op) {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
        return 1;
}

void call_send(struct Call *c, grpc_byte_buffer *message) {
        grpc_op ops[2];
        size_t n;

        if (c->finishing || c->writing) {
                grpc_byte_buffer_destroy(message);
                return;
        }
        n = call_add_metadata(c, ops);
        n += call_add_message(c, ops + n, message);
        c->waiting_since = now_monotonic();
        c->writing = call_start(c, ops, n, &c->on_written);
}

static uint64_t answers_of(const struct Call *one) {
        uint64_t n = 0;

        for (const struct Call *c = one->accept->calls; c; c = c->next)
                n += streq(c->caller.name, one->caller.name) ? c->answer : 0;
        return n;
}

/* Each answer is bounded, but a client that asks again and again and reads nothing would have us keep them all. Of one caller half of the
 * budget for requests is kept. */
bool call_answers_pile_up(const struct Call *c) {
        uint64_t all = c->accept->answers, max = c->accept->config->request_budget;

        return all > max || (all > max / 2 && answers_of(c) > max / 2);
}

int call_refuse_to_pile_up(const struct Call *c, struct Refusal *refusal) {
        if (!call_answers_pile_up(c))
                return 0;
        refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "answers of earlier calls wait to be read; read them, or try again later");
        refusal->retry_after = USEC_PER_SEC;
        return refusal->code;
}

void call_finish(struct Call *c, grpc_byte_buffer *message, const struct Refusal *refusal) {
        grpc_op ops[3];
        size_t n;

        if (c->finishing || (message && c->writing)) {
                if (message)
                        grpc_byte_buffer_destroy(message);
                return;
        }
        c->finishing = true;
        status_init(&c->status, refusal);
        n = call_add_metadata(c, ops);
        n += call_add_message(c, ops + n, message);
        call_discharge(c);
        c->answer = message ? grpc_byte_buffer_length(message) : 0;
        c->accept->answers += c->answer;
        ops[n++] = (grpc_op) {
                .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                .data.send_status_from_server = {
                        .trailing_metadata_count = c->status.n_trailers,
                        .trailing_metadata = c->status.trailers,
                        .status = c->status.code,
                        .status_details = &c->status.message,
                },
        };
        c->waiting_since = now_monotonic();
        (void) call_start(c, ops, n, &c->on_finished);
}

void call_abort(struct Call *c) {
        (void) grpc_call_cancel(c->handle, NULL);
}

static void call_sent(struct Call *c) {
        if (c->sending)
                grpc_byte_buffer_destroy(c->sending);
        c->sending = NULL;
}

static void call_on_written(struct Tag *t) {
        struct Call *c = CONTAINER_OF(t, struct Call, on_written);

        c->writing = false;
        if (!c->finishing) {
                call_sent(c);
                c->waiting_since = 0;
                if (t->ok && !c->gone && c->method->written)
                        c->method->written(c);
        }
        call_batch_ended(c);
}

static void call_on_finished(struct Tag *t) {
        struct Call *c = CONTAINER_OF(t, struct Call, on_finished);

        c->waiting_since = 0;
        call_sent(c);
        call_batch_ended(c);
}

/* The client is gone, its deadline has passed, or all is over in good order. */
static void call_on_closed(struct Tag *t) {
        struct Call *c = CONTAINER_OF(t, struct Call, on_closed);

        if (c->cancelled && !c->gone) {
                c->gone = true;
                if (c->state && c->method->gone)
                        c->method->gone(c);
                call_refuse(c, &(struct Refusal) {.code = REFUSE_CANCELLED, .message = "the client has gone"});
        }
        call_batch_ended(c);
}

static void call_take_message(struct Call *c) {
        struct Refusal refusal = {};
        struct Parcel *p;

        if (parcel_receive(c->accept->budget, c->method->request, c->received, &p, &refusal) != 0)
                call_refuse(c, &refusal);
        else
                c->method->message(c, p);
}

static void call_on_message(struct Tag *t) {
        struct Call *c = CONTAINER_OF(t, struct Call, on_message);
        struct Refusal refusal;

        c->receiving = false;
        if (!c->finishing)
                c->waiting_since = 0;
        if (c->finishing || c->gone)
                ;
        else if (t->ok && c->received)
                call_take_message(c);
        else if (c->method->half_closed)
                c->method->half_closed(c);
        else {
                refuse(&refusal, REFUSE_INVALID_ARGUMENT, NULL, "the call ended without its request message; send exactly one");
                call_refuse(c, &refusal);
        }
        if (c->received)
                grpc_byte_buffer_destroy(c->received);
        c->received = NULL;
        call_batch_ended(c);
}

/* Who is this, what do they want, and is there room: 0 or a RefusalCode. */
static int call_admit(struct Call *c, struct Refusal *refusal) {
        struct Accept *a = c->accept;

        c->method = method_find(c->details.method);
        c->connection = connections_enter(a->connections, c->handle);
        if (!c->connection) /* closed while the call waited in gRPC: it has no name any more */
                return refuse(refusal, REFUSE_UNAUTHENTICATED, NULL, "the server does not know this connection; connect again");
        c->caller = c->connection->caller;
        c->caller.is_operator = strv_contains(a->config->operators, c->caller.name);
        if (a->stopping)
                return refuse(refusal, REFUSE_UNAVAILABLE, NULL, "the server is stopping; try another one, or again later");
        if (c->connection->n_calls > 2 * CALLS_PER_CONNECTION)
                connection_shut(c->connection); /* no client that keeps to HTTP/2's bound gets here */
        if (a->n_calls > CALLS_MAX || c->connection->n_calls > CALLS_PER_CONNECTION) {
                refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "too many calls at once (at most %d of a connection, %d in all); try again later",
                       CALLS_PER_CONNECTION, CALLS_MAX);
                refusal->retry_after = USEC_PER_SEC;
                return refusal->code;
        }
        if (!c->method)
                return refuse(refusal, REFUSE_UNIMPLEMENTED, NULL, "there is no such method; ask for the services by server reflection");
        return 0;
}

static void call_begin(struct Call *c) {
        grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled};
        struct Refusal refusal = {};

        call_link(c);
        c->n_batches++; /* ours, so that the call outlives this function */
        (void) call_start(c, &op, 1, &c->on_closed);
        if (call_admit(c, &refusal) != 0)
                call_refuse(c, &refusal);
        else
                call_receive(c);
        call_batch_ended(c);
}

static void call_on_new(struct Tag *t) {
        struct Call *c = CONTAINER_OF(t, struct Call, on_new);
        struct Accept *a = c->accept;

        a->n_posted--;
        if (!t->ok) {
                call_free(c);
                accept_check_stopped(a);
                return;
        }
        calls_post(a);
        call_begin(c);
}

static struct Call *call_new(struct Accept *a) {
        struct Call *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->accept = a;
        c->on_new.run = call_on_new;
        c->on_message.run = call_on_message;
        c->on_written.run = call_on_written;
        c->on_finished.run = call_on_finished;
        c->on_closed.run = call_on_closed;
        grpc_call_details_init(&c->details);
        grpc_metadata_array_init(&c->metadata);
        status_init(&c->status, NULL);
        return c;
}

/* A call that waited too long for its peer: a request that does not come, an answer that nobody takes. */
static void call_lose_patience(struct Call *c) {
        struct Refusal refusal;

        if (c->receiving && !c->finishing) {
                refuse(&refusal, REFUSE_DEADLINE_EXCEEDED, NULL, "the request did not arrive within %llu s",
                       (unsigned long long) (PEER_PATIENCE / USEC_PER_SEC));
                call_refuse(c, &refusal);
        } else if (!c->finishing && c->method->stalled && c->method->stalled(c))
                c->waiting_since = now_monotonic();
        else
                call_abort(c);
}

static int calls_on_patience(sd_event_source *source, uint64_t at, void *userdata) {
        struct Accept *a = userdata;
        usec_t now = now_monotonic();

        for (struct Call *c = a->calls; c; c = c->next) {
                bool in_need = c->finishing && c->answer > 0 && a->answers > a->config->request_budget / 2;
                if (c->waiting_since > 0 && now - c->waiting_since > (in_need ? PATIENCE_IN_NEED : PEER_PATIENCE))
                        call_lose_patience(c);
        }
        if (!a->calls)
                return 0;
        (void) sd_event_source_set_time_relative(source, PATIENCE_INTERVAL);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void calls_watch_patience(struct Accept *a) {
        if (!a->patience) {
                if (sd_event_add_time_relative(a->event, &a->patience, CLOCK_MONOTONIC, PATIENCE_INTERVAL, USEC_PER_SEC, calls_on_patience, a) < 0)
                        a->patience = NULL; /* tried again with the next call */
        } else if (sd_event_source_get_enabled(a->patience, NULL) <= 0) {
                (void) sd_event_source_set_time_relative(a->patience, PATIENCE_INTERVAL);
                (void) sd_event_source_set_enabled(a->patience, SD_EVENT_ONESHOT);
        }
}

void calls_post(struct Accept *a) {
        calls_watch_patience(a);
        while (!a->stopping && a->n_posted < CALLS_POSTED) {
                struct Call *c = call_new(a);

                if (!c) /* the next call that comes tries again */
                        return;
                if (grpc_server_request_call(a->server, &c->handle, &c->details, &c->metadata, a->queue.completions, a->queue.completions,
                                             &c->on_new) != GRPC_CALL_OK) {
                        call_free(c);
                        return;
                }
                a->n_posted++;
        }
}

void calls_stop(struct Accept *a) {
        struct Refusal refusal;

        refuse(&refusal, REFUSE_UNAVAILABLE, NULL, "the server is stopping; try another one, or again later");
        for (struct Call *c = a->calls; c; c = c->next) {
                if (c->finishing)
                        continue;
                if (!c->state || c->method->ends_with_server)
                        call_refuse(c, &refusal);
        }
}
