/* The load behind `./dev bench`: a client on the gRPC core that costs less than the server it measures.
 *
 *   load calls ADDRESS CALLERS SECONDS RUNTIME CODE   Execute again and again; latencies and rate
 *   load stream ADDRESS BYTES                         one ExecuteStream of BYTES to a reader that keeps up
 *   load stop ADDRESS BYTES                           the same, but reads nothing after `started` until its stdin closes
 *   load delay ADDRESS COUNT                          time from write() in the cell to the message here
 *   load ends ADDRESS CALLERS COUNT                   COUNT calls, a third each ended, timed out, out of memory
 *
 * Each prints one JSON object. Every answer is checked: a call that did not end as it should (COMPLETED, but in `ends`), or a byte that is
 * missing, is an error. */
#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "common/util.h"
#include "glovebox/v1/execution.pb-c.h"

#define CALLERS_MAX 256
#define SAMPLES_MAX (1u << 20)
#define CALL_DEADLINE_S 600

struct Load {
        grpc_completion_queue *queue;
        const char *address;
        uint64_t *samples; /* nanoseconds */
        size_t n_samples, n_errors;
        uint64_t end; /* of the measurement, CLOCK_MONOTONIC in nanoseconds */
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
};

static uint64_t now_ns(void) {
        struct timespec t;
        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
        va_list ap;
        va_start(ap, format);
        (void) vfprintf(stderr, format, ap);
        va_end(ap);
        (void) fputc('\n', stderr);
        exit(1);
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
        return x < y ? -1 : x > y;
}

static double percentile_us(const struct Load *l, double p) {
        return l->n_samples ? (double) l->samples[(size_t) (p * (double) (l->n_samples - 1))] / 1000 : 0;
}

static void print_samples(struct Load *l, double seconds) {
        qsort(l->samples, l->n_samples, sizeof *l->samples, compare);
        printf("{\"count\": %zu, \"errors\": %zu, \"seconds\": %.3f, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
               l->n_samples, l->n_errors, seconds, percentile_us(l, .5), percentile_us(l, .9), percentile_us(l, .99), percentile_us(l, 1));
}

static void add_sample(struct Load *l, uint64_t value) {
        if (l->n_samples < SAMPLES_MAX)
                l->samples[l->n_samples++] = value;
}

static grpc_slice pack_limited(const char *runtime, const char *code, Glovebox__V1__Limits *limits) {
        Glovebox__V1__ExecuteRequest r = GLOVEBOX__V1__EXECUTE_REQUEST__INIT;

        r.runtime = (char *) runtime;
        r.code = (char *) code;
        r.limits = limits;
        grpc_slice s = grpc_slice_malloc(glovebox__v1__execute_request__get_packed_size(&r));
        (void) glovebox__v1__execute_request__pack(&r, GRPC_SLICE_START_PTR(s));
        return s;
}

static grpc_slice pack_request(const char *runtime, const char *code, uint64_t output_bytes) {
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        Google__Protobuf__Duration timeout = GOOGLE__PROTOBUF__DURATION__INIT;

        timeout.seconds = CALL_DEADLINE_S;
        limits.output_bytes = output_bytes;
        limits.timeout = &timeout;
        return pack_limited(runtime, code, &limits);
}

static void caller_open(struct Caller *c, struct Load *l) {
        grpc_channel_credentials *plain = grpc_insecure_credentials_create();
        grpc_arg own = { .type = GRPC_ARG_INTEGER, .key = (char *) GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, .value.integer = 1 };
        grpc_channel_args args = { .num_args = 1, .args = &own };

        *c = (struct Caller) { .load = l };
        c->channel = grpc_channel_create(l->address, plain, &args);
        grpc_channel_credentials_release(plain);
}

static void caller_close(struct Caller *c) {
        grpc_slice_unref(c->request);
        grpc_channel_destroy(c->channel);
}

static void call_begin(struct Caller *c, const char *method) {
        gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(CALL_DEADLINE_S, GPR_TIMESPAN));

        grpc_metadata_array_init(&c->initial);
        grpc_metadata_array_init(&c->trailing);
        /* Sending uses a buffer up: each call needs one of its own around the same bytes. */
        c->sent = grpc_raw_byte_buffer_create(&c->request, 1);
        c->reply = NULL;
        c->details = grpc_empty_slice();
        c->call = grpc_channel_create_call(c->channel, NULL, 0, c->load->queue, grpc_slice_from_static_string(method), NULL, deadline, NULL);
        c->began = now_ns();
}

static void call_end(struct Caller *c) {
        grpc_metadata_array_destroy(&c->initial);
        grpc_metadata_array_destroy(&c->trailing);
        grpc_byte_buffer_destroy(c->sent);
        grpc_slice_unref(c->details);
        grpc_call_unref(c->call);
}

static grpc_op op_status(struct Caller *c) {
        return (grpc_op) { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                           .data.recv_status_on_client = { .trailing_metadata = &c->trailing, .status = &c->status, .status_details = &c->details } };
}

static void batch(struct Caller *c, const grpc_op *ops, size_t n) {
        if (grpc_call_start_batch(c->call, ops, n, c, NULL) != GRPC_CALL_OK)
                fail("grpc_call_start_batch failed");
}

static struct Caller *next(struct Load *l, bool *ret_ok) {
        grpc_event e = grpc_completion_queue_next(l->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        *ret_ok = e.success;
        return e.tag;
}

/* calls */

static void execute(struct Caller *c) {
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

static bool ended_as(grpc_byte_buffer *reply, Glovebox__V1__Outcome wanted) {
        grpc_byte_buffer_reader reader;

        if (!reply || !grpc_byte_buffer_reader_init(&reader, reply))
                return false;
        grpc_slice s = grpc_byte_buffer_reader_readall(&reader);
        Glovebox__V1__ExecuteResponse *r = glovebox__v1__execute_response__unpack(NULL, GRPC_SLICE_LENGTH(s), GRPC_SLICE_START_PTR(s));
        bool ok = r && r->result && r->result->outcome == wanted;
        if (r && r->result && !ok)
                (void) fprintf(stderr, "outcome %d instead of %d: %s\n", (int) r->result->outcome, (int) wanted, r->result->message);
        if (r)
                glovebox__v1__execute_response__free_unpacked(r, NULL);
        grpc_slice_unref(s);
        grpc_byte_buffer_reader_destroy(&reader);
        return ok;
}

static void executed(struct Caller *c) {
        struct Load *l = c->load;

        if (c->status == GRPC_STATUS_OK && ended_as(c->reply, c->wanted ? c->wanted : GLOVEBOX__V1__OUTCOME__OUTCOME_COMPLETED))
                add_sample(l, now_ns() - c->began);
        else if (l->n_errors++ == 0)
                (void) fprintf(stderr, "first error: status %d: %.*s\n", (int) c->status, (int) GRPC_SLICE_LENGTH(c->details),
                               (const char *) GRPC_SLICE_START_PTR(c->details));
        grpc_byte_buffer_destroy(c->reply);
        call_end(c);
}

static void run_calls(struct Load *l, size_t n_callers, double seconds, const char *runtime, const char *code) {
        static struct Caller callers[CALLERS_MAX];
        size_t live = n_callers;
        bool ok;

        for (size_t i = 0; i < n_callers; i++) {
                caller_open(&callers[i], l);
                callers[i].request = pack_request(runtime, code, 0);
        }
        uint64_t began = now_ns();
        l->end = began + (uint64_t) (seconds * 1e9);
        for (size_t i = 0; i < n_callers; i++)
                execute(&callers[i]);
        while (live > 0) {
                struct Caller *c = next(l, &ok);
                executed(c);
                if (now_ns() < l->end)
                        execute(c);
                else
                        live--;
        }
        print_samples(l, (double) (now_ns() - began) / 1e9);
        for (size_t i = 0; i < n_callers; i++)
                caller_close(&callers[i]);
}

/* ends */

/* Ways to end, none of which is killed while it forks. */
static const struct {
        const char *code;
        int32_t timeout_ms;
        uint64_t memory_bytes;
        Glovebox__V1__Outcome outcome;
} ends[] = {
        { "true", 60000, 0, GLOVEBOX__V1__OUTCOME__OUTCOME_COMPLETED },
        { "while :; do :; done", 50, 0, GLOVEBOX__V1__OUTCOME__OUTCOME_TIMED_OUT },
        { "x=x; while :; do x=$x$x; done", 60000, 16 * MIB, GLOVEBOX__V1__OUTCOME__OUTCOME_OUT_OF_MEMORY },
};

static void begin_end(struct Caller *c, size_t kind) {
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        Google__Protobuf__Duration timeout = GOOGLE__PROTOBUF__DURATION__INIT;

        timeout.seconds = ends[kind].timeout_ms / 1000;
        timeout.nanos = ends[kind].timeout_ms % 1000 * 1000000;
        limits.timeout = &timeout;
        limits.memory_bytes = ends[kind].memory_bytes;
        c->wanted = ends[kind].outcome;
        c->request = pack_limited("bash", ends[kind].code, &limits);
        execute(c);
}

static void run_ends(struct Load *l, size_t n_callers, size_t count) {
        static struct Caller callers[CALLERS_MAX];
        size_t begun = 0;
        bool ok;

        n_callers = MIN(n_callers, count);
        for (size_t i = 0; i < n_callers; i++)
                caller_open(&callers[i], l);
        uint64_t began = now_ns();
        for (; begun < n_callers; begun++)
                begin_end(&callers[begun], begun % ELEMENTSOF(ends));
        for (size_t done = 0; done < count; done++) {
                struct Caller *c = next(l, &ok);
                executed(c);
                grpc_slice_unref(c->request);
                c->request = grpc_empty_slice();
                if (begun < count)
                        begin_end(c, begun++ % ELEMENTSOF(ends));
        }
        print_samples(l, (double) (now_ns() - began) / 1e9);
        for (size_t i = 0; i < n_callers; i++)
                caller_close(&callers[i]);
}

/* streams */

/* A varint, or false at the end of the bytes. */
static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *ret) {
        uint64_t v = 0;
        for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
                uint8_t b = *(*p)++;
                v |= (uint64_t) (b & 0x7f) << shift;
                if (!(b & 0x80)) {
                        *ret = v;
                        return true;
                }
        }
        return false;
}

/* The bytes of one length-delimited field of a message: quicker than unpacking 64 KiB just to count it. */
static bool field(const uint8_t *p, size_t size, uint64_t number, const uint8_t **ret, size_t *ret_size) {
        const uint8_t *end = p + size;
        uint64_t key, n;

        while (p < end && varint(&p, end, &key) && varint(&p, end, &n)) {
                if ((key & 7) == 0)
                        continue;
                if ((key & 7) != 2 || n > (uint64_t) (end - p))
                        return false;
                if (key >> 3 == number) {
                        *ret = p;
                        *ret_size = (size_t) n;
                        return true;
                }
                p += n;
        }
        return false;
}

enum {
        EVENT_STARTED_FIELD = 4,
        EVENT_OUTPUT_FIELD = 5,
        OUTPUT_DATA_FIELD = 3,
};

static void stream_begin(struct Caller *c, const char *runtime, const char *code) {
        bool ok;

        c->request = pack_request(runtime, code, GIB);
        call_begin(c, "/glovebox.v1.ExecutionService/ExecuteStream");
        grpc_op ops[] = {
                { .op = GRPC_OP_SEND_INITIAL_METADATA },
                { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = c->sent },
                { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
                { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->initial },
        };
        batch(c, ops, ELEMENTSOF(ops));
        (void) next(c->load, &ok);
}

/* The next event's bytes, or false at the end of the stream. */
static bool stream_next(struct Caller *c, grpc_slice *ret) {
        grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->reply };
        grpc_byte_buffer_reader reader;
        bool ok;

        c->reply = NULL;
        batch(c, &op, 1);
        (void) next(c->load, &ok);
        if (!c->reply)
                return false;
        if (!grpc_byte_buffer_reader_init(&reader, c->reply))
                fail("unreadable message");
        *ret = grpc_byte_buffer_reader_readall(&reader);
        grpc_byte_buffer_reader_destroy(&reader);
        grpc_byte_buffer_destroy(c->reply);
        return true;
}

static void stream_end(struct Caller *c) {
        grpc_op op = op_status(c);
        bool ok;

        batch(c, &op, 1);
        (void) next(c->load, &ok);
        if (c->status != GRPC_STATUS_OK && c->status != GRPC_STATUS_CANCELLED)
                fail("status %d: %.*s", (int) c->status, (int) GRPC_SLICE_LENGTH(c->details), (const char *) GRPC_SLICE_START_PTR(c->details));
        call_end(c);
        caller_close(c);
}

/* Writes BYTES in pieces of 64 KiB: as fast as a program can without costing the machine much itself. */
static char *writer_code(uint64_t bytes) {
        char *code;
        if (asprintf(&code, "import os\nb = bytes(65536)\nfor _ in range(%llu):\n    n = 0\n    while n < 65536: n += os.write(1, b[n:] if n else b)\n",
                     (unsigned long long) (bytes / 65536)) < 0)
                fail("out of memory");
        return code;
}

static void run_stream(struct Load *l, uint64_t bytes) {
        char *code _cleanup_free_ = writer_code(bytes);
        uint64_t got = 0, first = 0, last = 0, messages = 0;
        struct Caller c;
        grpc_slice s;

        caller_open(&c, l);
        stream_begin(&c, "python", code);
        while (stream_next(&c, &s)) {
                const uint8_t *output, *data;
                size_t n, size;
                if (field(GRPC_SLICE_START_PTR(s), GRPC_SLICE_LENGTH(s), EVENT_OUTPUT_FIELD, &output, &n) &&
                    field(output, n, OUTPUT_DATA_FIELD, &data, &size)) {
                        last = now_ns();
                        first = first ? first : last;
                        got += size;
                        messages++;
                }
                grpc_slice_unref(s);
        }
        stream_end(&c);
        if (got != bytes / 65536 * 65536)
                fail("%llu bytes came of %llu", (unsigned long long) got, (unsigned long long) bytes);
        double seconds = (double) (last - first) / 1e9;
        printf("{\"bytes\": %llu, \"messages\": %llu, \"seconds\": %.3f, \"mb_per_s\": %.1f}\n", (unsigned long long) got,
               (unsigned long long) messages, seconds, (double) got / 1e6 / seconds);
}

static void run_stop(struct Load *l, uint64_t bytes) {
        char *code _cleanup_free_ = writer_code(bytes);
        const uint8_t *started;
        bool stopped = false;
        struct Caller c;
        grpc_slice s;
        size_t n;

        caller_open(&c, l);
        stream_begin(&c, "python", code);
        while (!stopped && stream_next(&c, &s)) {
                stopped = field(GRPC_SLICE_START_PTR(s), GRPC_SLICE_LENGTH(s), EVENT_STARTED_FIELD, &started, &n);
                grpc_slice_unref(s);
        }
        printf("{\"stopped\": %s}\n", stopped ? "true" : "false");
        (void) fflush(stdout);
        (void) getchar();
        (void) grpc_call_cancel(c.call, NULL);
        stream_end(&c);
}

/* The cell shares our clock: what it prints is the time of its write(). */
static void run_delay(struct Load *l, unsigned count) {
        char *code _cleanup_free_ = NULL;
        double total = 0;
        struct Caller c;
        grpc_slice s;

        if (asprintf(&code, "import os, time\nfor _ in range(%u):\n    time.sleep(0.025)\n    os.write(1, b'%%d\\n' %% time.monotonic_ns())\n", count) < 0)
                fail("out of memory");
        caller_open(&c, l);
        stream_begin(&c, "python", code);
        while (stream_next(&c, &s)) {
                const uint8_t *output, *data;
                size_t n, size;
                if (field(GRPC_SLICE_START_PTR(s), GRPC_SLICE_LENGTH(s), EVENT_OUTPUT_FIELD, &output, &n) &&
                    field(output, n, OUTPUT_DATA_FIELD, &data, &size) && size < 64) {
                        char text[64] = {};
                        memcpy(text, data, size);
                        uint64_t delay = now_ns() - strtoull(text, NULL, 10);
                        add_sample(l, delay);
                        total += (double) delay;
                }
                grpc_slice_unref(s);
        }
        stream_end(&c);
        if (l->n_samples != count)
                fail("%zu messages came of %u", l->n_samples, count);
        print_samples(l, total / 1e9);
}

static uint64_t number(const char *s, uint64_t max) {
        char *end;
        errno = 0;
        unsigned long long v = strtoull(s, &end, 10);
        if (errno || *end || v == 0 || v > max)
                fail("'%s' is not a number from 1 to %llu", s, (unsigned long long) max);
        return v;
}

int main(int argc, char **argv) {
        struct Load l = {};
        const char *mode = argc > 3 ? argv[1] : "";

        grpc_init();
        l.queue = grpc_completion_queue_create_for_next(NULL);
        l.samples = calloc(SAMPLES_MAX, sizeof *l.samples);
        l.address = argc > 2 ? argv[2] : NULL;
        if (!l.samples)
                fail("out of memory");
        if (strcmp(mode, "calls") == 0 && argc == 7)
                run_calls(&l, number(argv[3], CALLERS_MAX), (double) number(argv[4], 3600), argv[5], argv[6]);
        else if (strcmp(mode, "stream") == 0 && argc == 4)
                run_stream(&l, number(argv[3], GIB));
        else if (strcmp(mode, "stop") == 0 && argc == 4)
                run_stop(&l, number(argv[3], GIB));
        else if (strcmp(mode, "delay") == 0 && argc == 4)
                run_delay(&l, (unsigned) number(argv[3], 100000));
        else if (strcmp(mode, "ends") == 0 && argc == 5)
                run_ends(&l, number(argv[3], CALLERS_MAX), number(argv[4], 100000));
        else
                fail("usage: load calls ADDRESS CALLERS SECONDS RUNTIME CODE | stream ADDRESS BYTES | stop ADDRESS BYTES | delay ADDRESS COUNT | "
                     "ends ADDRESS CALLERS COUNT");
        grpc_completion_queue_shutdown(l.queue);
        while (grpc_completion_queue_next(l.queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN)
                ;
        grpc_completion_queue_destroy(l.queue);
        grpc_shutdown();
        free(l.samples);
        return l.n_errors > 0;
}
