/* The client of the load generator: connections, one call on each, and percentiles of the times. */
#include "tests/bench/client.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define SAMPLES_MAX (1u << 20)
#define CONNECT_DEADLINE_S 20

uint64_t now_ns(void) {
        struct timespec t;
        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

void fail(const char *format, ...) {
        va_list ap;
        va_start(ap, format);
        (void) vfprintf(stderr, format, ap);
        va_end(ap);
        (void) fputc('\n', stderr);
        exit(1);
}

/* times */

void samples_new(struct Samples *s) {
        *s = (struct Samples) { .values = calloc(SAMPLES_MAX, sizeof *s->values) };
        if (!s->values)
                fail("out of memory");
}

void samples_add(struct Samples *s, uint64_t value) {
        if (s->n < SAMPLES_MAX)
                s->values[s->n++] = value;
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
        return x < y ? -1 : x > y;
}

static double percentile_us(const struct Samples *s, double p) {
        return s->n ? (double) s->values[(size_t) (p * (double) (s->n - 1))] / 1000 : 0;
}

void samples_print(struct Samples *s) {
        qsort(s->values, s->n, sizeof *s->values, compare);
        printf("\"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f", percentile_us(s, .5), percentile_us(s, .9),
               percentile_us(s, .99), percentile_us(s, 1));
}

void load_print(struct Load *l, double seconds) {
        printf("{\"count\": %zu, \"errors\": %zu, \"seconds\": %.3f, ", l->times.n, l->n_errors, seconds);
        samples_print(&l->times);
        printf("}\n");
}

/* calls */

grpc_slice pack_request(const Glovebox__V1__ExecuteRequest *request) {
        grpc_slice s = grpc_slice_malloc(glovebox__v1__execute_request__get_packed_size(request));
        (void) glovebox__v1__execute_request__pack(request, GRPC_SLICE_START_PTR(s));
        return s;
}

static void wait_connected(struct Caller *c) {
        gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(CONNECT_DEADLINE_S, GPR_TIMESPAN));
        grpc_connectivity_state state;
        bool ok = true;

        while ((state = grpc_channel_check_connectivity_state(c->channel, 1)) != GRPC_CHANNEL_READY) {
                if (!ok)
                        fail("no connection to %s within %d s", c->load->address, CONNECT_DEADLINE_S);
                grpc_channel_watch_connectivity_state(c->channel, state, deadline, c->load->queue, c);
                (void) next_event(c->load, &ok);
        }
}

void caller_open(struct Caller *c, struct Load *l) {
        grpc_channel_credentials *plain = grpc_insecure_credentials_create();
        grpc_arg own = { .type = GRPC_ARG_INTEGER, .key = (char *) GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, .value.integer = 1 };
        grpc_channel_args args = { .num_args = 1, .args = &own };

        *c = (struct Caller) { .load = l };
        c->channel = grpc_channel_create(l->address, plain, &args);
        grpc_channel_credentials_release(plain);
        wait_connected(c);
}

void caller_close(struct Caller *c) {
        grpc_slice_unref(c->request);
        grpc_channel_destroy(c->channel);
}

void call_begin(struct Caller *c, const char *method) {
        gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(CALL_DEADLINE_S, GPR_TIMESPAN));

        grpc_metadata_array_init(&c->initial);
        grpc_metadata_array_init(&c->trailing);
        /* Sending uses a buffer up: each call needs one of its own around the same bytes. */
        c->sent = grpc_raw_byte_buffer_create(&c->request, 1);
        c->reply = NULL;
        c->details = grpc_empty_slice();
        c->began = now_ns();
        c->call = grpc_channel_create_call(c->channel, NULL, 0, c->load->queue, grpc_slice_from_static_string(method), NULL, deadline, NULL);
}

void call_end(struct Caller *c) {
        grpc_metadata_array_destroy(&c->initial);
        grpc_metadata_array_destroy(&c->trailing);
        grpc_byte_buffer_destroy(c->sent);
        grpc_slice_unref(c->details);
        grpc_call_unref(c->call);
}

grpc_op op_status(struct Caller *c) {
        return (grpc_op) { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                           .data.recv_status_on_client = { .trailing_metadata = &c->trailing, .status = &c->status, .status_details = &c->details } };
}

void batch(struct Caller *c, const grpc_op *ops, size_t n) {
        if (grpc_call_start_batch(c->call, ops, n, c, NULL) != GRPC_CALL_OK)
                fail("grpc_call_start_batch failed");
}

struct Caller *next_event(struct Load *l, bool *ret_ok) {
        grpc_event e = grpc_completion_queue_next(l->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        *ret_ok = e.success;
        return e.tag;
}

/* Execute */

void execute(struct Caller *c) {
        call_begin(c, "/glovebox.v1.ExecutionService/Execute");
        grpc_op ops[] = {
                { .op = GRPC_OP_SEND_INITIAL_METADATA },
                { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = c->sent },
                { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
                { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->initial },
                { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->reply },
                op_status(c),
        };
        batch(c, ops, ELEMENTSOF(ops));
}

bool ended_as_wanted(const struct Caller *c, const Glovebox__V1__Result *result) {
        Glovebox__V1__Outcome wanted = c->wanted ? c->wanted : GLOVEBOX__V1__OUTCOME__OUTCOME_COMPLETED;

        if (!result)
                return false;
        if (result->outcome != wanted && c->load->n_errors == 0)
                (void) fprintf(stderr, "outcome %d instead of %d: %s\n", (int) result->outcome, (int) wanted, result->message);
        return result->outcome == wanted;
}

grpc_slice take_reply(struct Caller *c) {
        grpc_byte_buffer_reader reader;

        if (!grpc_byte_buffer_reader_init(&reader, c->reply))
                fail("unreadable message");
        grpc_slice s = grpc_byte_buffer_reader_readall(&reader);
        grpc_byte_buffer_reader_destroy(&reader);
        grpc_byte_buffer_destroy(c->reply);
        c->reply = NULL;
        return s;
}

static bool reply_is_wanted(struct Caller *c) {
        if (!c->reply)
                return false;
        grpc_slice s = take_reply(c);
        Glovebox__V1__ExecuteResponse *r = glovebox__v1__execute_response__unpack(NULL, GRPC_SLICE_LENGTH(s), GRPC_SLICE_START_PTR(s));
        bool ok = r && ended_as_wanted(c, r->result);
        if (r)
                glovebox__v1__execute_response__free_unpacked(r, NULL);
        grpc_slice_unref(s);
        return ok;
}

void count_error(struct Caller *c) {
        if (c->load->n_errors++ == 0)
                (void) fprintf(stderr, "first error: status %d: %.*s\n", (int) c->status, (int) GRPC_SLICE_LENGTH(c->details),
                               (const char *) GRPC_SLICE_START_PTR(c->details));
}

void executed(struct Caller *c) {
        uint64_t took = now_ns() - c->began;

        if (reply_is_wanted(c) && c->status == GRPC_STATUS_OK)
                samples_add(&c->load->times, took);
        else
                count_error(c);
        call_end(c);
}
