/* The load behind `./dev bench`: a client on the gRPC core that costs less than the server it measures.
 *
 *   load calls ADDRESS RUNTIME CODE [OPTION...]   the same request many times; calls.c has the options
 *   load stream ADDRESS BYTES                     one ExecuteStream of BYTES to a reader that keeps up
 *   load stop ADDRESS BYTES                       the same, but reads nothing after `started` until its stdin closes
 *   load delay ADDRESS COUNT                      time from write() in the cell to the message here
 *   load ends ADDRESS CALLERS COUNT               COUNT calls, a third each ended, timed out, out of memory
 *
 * Each prints one JSON object. Every answer is checked: a call that did not end as it should (COMPLETED, but in `ends`), or a byte that is
 * missing, is an error. */
#include <stdio.h>

#include "tests/bench/client.h"

static grpc_slice pack_limited(const char *runtime, const char *code, Glovebox__V1__Limits *limits) {
        Glovebox__V1__ExecuteRequest r = GLOVEBOX__V1__EXECUTE_REQUEST__INIT;

        r.runtime = (char *) runtime;
        r.code = (char *) code;
        r.limits = limits;
        return pack_request(&r);
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
                struct Caller *c = next_event(l, &ok);
                executed(c);
                grpc_slice_unref(c->request);
                c->request = grpc_empty_slice();
                if (begun < count)
                        begin_end(c, begun++ % ELEMENTSOF(ends));
        }
        load_print(l, (double) (now_ns() - began) / 1e9);
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
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        Google__Protobuf__Duration timeout = GOOGLE__PROTOBUF__DURATION__INIT;
        bool ok;

        timeout.seconds = CALL_DEADLINE_S;
        limits.output_bytes = GIB;
        limits.timeout = &timeout;
        c->request = pack_limited(runtime, code, &limits);
        call_begin(c, "/glovebox.v1.ExecutionService/ExecuteStream");
        grpc_op ops[] = {
                { .op = GRPC_OP_SEND_INITIAL_METADATA },
                { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = c->sent },
                { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
                { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->initial },
        };
        batch(c, ops, ELEMENTSOF(ops));
        (void) next_event(c->load, &ok);
}

/* The next event's bytes, or false at the end of the stream. */
static bool stream_next(struct Caller *c, grpc_slice *ret) {
        grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->reply };
        bool ok;

        c->reply = NULL;
        batch(c, &op, 1);
        (void) next_event(c->load, &ok);
        if (!c->reply)
                return false;
        *ret = take_reply(c);
        return true;
}

static void stream_end(struct Caller *c) {
        grpc_op op = op_status(c);
        bool ok;

        batch(c, &op, 1);
        (void) next_event(c->load, &ok);
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
                        samples_add(&l->times, delay);
                        total += (double) delay;
                }
                grpc_slice_unref(s);
        }
        stream_end(&c);
        if (l->times.n != count)
                fail("%zu messages came of %u", l->times.n, count);
        load_print(l, total / 1e9);
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
        l.address = argc > 2 ? argv[2] : NULL;
        samples_new(&l.times);
        if (strcmp(mode, "calls") == 0)
                run_calls(&l, argc - 1, argv + 1);
        else if (strcmp(mode, "stream") == 0 && argc == 4)
                run_stream(&l, number(argv[3], GIB));
        else if (strcmp(mode, "stop") == 0 && argc == 4)
                run_stop(&l, number(argv[3], GIB));
        else if (strcmp(mode, "delay") == 0 && argc == 4)
                run_delay(&l, (unsigned) number(argv[3], 100000));
        else if (strcmp(mode, "ends") == 0 && argc == 5)
                run_ends(&l, number(argv[3], CALLERS_MAX), number(argv[4], 100000));
        else
                fail("usage: load calls ADDRESS RUNTIME CODE [OPTION...] | stream ADDRESS BYTES | stop ADDRESS BYTES | delay ADDRESS COUNT | "
                     "ends ADDRESS CALLERS COUNT");
        grpc_completion_queue_shutdown(l.queue);
        while (grpc_completion_queue_next(l.queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN)
                ;
        grpc_completion_queue_destroy(l.queue);
        grpc_shutdown();
        free(l.times.values);
        return l.n_errors > 0;
}
