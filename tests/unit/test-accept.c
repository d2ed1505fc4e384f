/* The wire as a client sees it: a real server on a Unix socket with canned executions, and gRPC's own client, in one process. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include "glovebox/v1/execution.pb-c.h"
#include "glovebox/v1/system.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "server/accept/accept.h"
#include "server/accept/message.h"
#include "tests/unit/fake-execution.h"

typedef Glovebox__V1__ExecutionEvent Event_;

struct World {
        char folder[64], address[128];
        struct Config config;
        sd_event *event;
        struct Executions *executions;
        struct Accept *accept;
        int stop; /* tells the server's loop to end */
        pthread_t thread;
        grpc_channel *channel;
        grpc_completion_queue *cq;
};

static void world_on_stopped(void *userdata) {
        (void) sd_event_exit(userdata, 0);
}

static int world_on_stop(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct World *w = userdata;

        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        accept_stop(w->accept, world_on_stopped, w->event);
        return 0;
}

static void *world_serve(void *userdata) {
        struct World *w = userdata;

        (void) accept_run_loop(w->accept);
        return NULL;
}

/* Server on a thread of its own, client on the test's. */
static int world_new(void **state) {
        grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
        struct World *w = calloc(1, sizeof(*w));
        int ends[2];

        assert_non_null(w);
        (void) snprintf(w->folder, sizeof(w->folder), "/tmp/test-accept-XXXXXX");
        assert_non_null(mkdtemp(w->folder));
        (void) snprintf(w->address, sizeof(w->address), "unix:%s/s", w->folder);
        w->config = (struct Config) {.max_connections = 20, .max_connections_per_caller = 10, .request_budget = 64 * MIB, .max_message = 8 * MIB};
        assert_ok(strv_extend(&w->config.listen, w->address));
        assert_ok(sd_event_new(&w->event));
        w->executions = fake_executions(w->event, &w->config);
        assert_ok(accept_new(w->event, &w->config, w->executions, &w->accept, NULL));
        fake_set_ready(w->executions, true);
        assert_ok(pipe(ends));
        w->stop = ends[1];
        assert_ok(sd_event_add_io(w->event, NULL, ends[0], EPOLLHUP | EPOLLIN, world_on_stop, w));
        assert_int_equal(pthread_create(&w->thread, NULL, world_serve, w), 0);
        grpc_init();
        w->cq = grpc_completion_queue_create_for_next(NULL);
        w->channel = grpc_channel_create(w->address, credentials, NULL);
        grpc_channel_credentials_release(credentials);
        *state = w;
        return 0;
}

static int world_free(void **state) {
        struct World *w = *state;

        (void) close_fd(w->stop);
        (void) pthread_join(w->thread, NULL);
        grpc_channel_destroy(w->channel);
        grpc_completion_queue_shutdown(w->cq);
        while (grpc_completion_queue_next(w->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN)
                ;
        grpc_completion_queue_destroy(w->cq);
        accept_free(w->accept);
        executions_free(w->executions);
        sd_event_unref(w->event);
        grpc_shutdown_blocking();
        strv_free(w->config.listen);
        assert_int_equal(rmdir(w->folder), 0); /* the socket is gone */
        free(w);
        return 0;
}

static gpr_timespec in_seconds(int64_t n) {
        return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(n, GPR_TIMESPAN));
}

struct Client { /* one call */
        struct World *world;
        grpc_call *call;
        grpc_metadata_array initial, trailing;
        grpc_status_code status;
        grpc_slice details;
        grpc_byte_buffer *received;
        bool begun; /* metadata has been asked for */
};

static bool client_batch(struct Client *c, grpc_op *ops, size_t n) {
        grpc_event e;

        assert_int_equal(grpc_call_start_batch(c->call, ops, n, c, NULL), GRPC_CALL_OK);
        e = grpc_completion_queue_next(c->world->cq, in_seconds(10), NULL);
        assert_int_equal(e.type, GRPC_OP_COMPLETE);
        return e.success;
}

static void client_start(struct Client *c, struct World *w, const char *path, const ProtobufCMessage *request) {
        grpc_byte_buffer *message = request ? message_pack(request) : NULL;
        grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, {.op = GRPC_OP_SEND_MESSAGE}};

        *c = (struct Client) {.world = w, .details = grpc_empty_slice()};
        grpc_metadata_array_init(&c->initial);
        grpc_metadata_array_init(&c->trailing);
        c->call = grpc_channel_create_call(w->channel, NULL, 0, w->cq, grpc_slice_from_static_string(path), NULL,
                                           in_seconds(20), NULL);
        ops[2].data.send_message.send_message = message;
        (void) client_batch(c, ops, message ? 3 : 2);
        if (message)
                grpc_byte_buffer_destroy(message);
}

/* The next message, unpacked; NULL at the end. */
static ProtobufCMessage *client_receive(struct Client *c, const ProtobufCMessageDescriptor *type) {
        grpc_op ops[2] = {{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->received},
                          {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->initial}};
        grpc_byte_buffer_reader reader;
        ProtobufCMessage *m;
        grpc_slice all;

        (void) client_batch(c, ops, c->begun ? 1 : 2);
        c->begun = true;
        if (!c->received)
                return NULL;
        assert_true(grpc_byte_buffer_reader_init(&reader, c->received));
        all = grpc_byte_buffer_reader_readall(&reader);
        m = protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(all), GRPC_SLICE_START_PTR(all));
        assert_non_null(m);
        grpc_slice_unref(all);
        grpc_byte_buffer_reader_destroy(&reader);
        grpc_byte_buffer_destroy(c->received);
        c->received = NULL;
        return m;
}

static grpc_status_code client_finish(struct Client *c) {
        grpc_op ops[2] = {{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                           .data.recv_status_on_client = {.trailing_metadata = &c->trailing, .status = &c->status, .status_details = &c->details}},
                          {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->initial}};

        (void) client_batch(c, ops, c->begun ? 1 : 2);
        grpc_slice_unref(c->details);
        grpc_metadata_array_destroy(&c->initial);
        grpc_metadata_array_destroy(&c->trailing);
        grpc_call_unref(c->call);
        return c->status;
}

#define EXECUTE "/glovebox.v1.ExecutionService/Execute"
#define EXECUTE_STREAM "/glovebox.v1.ExecutionService/ExecuteStream"

static void client_execute(struct Client *c, struct World *w, const char *path, const char *code) {
        Glovebox__V1__ExecuteRequest m = GLOVEBOX__V1__EXECUTE_REQUEST__INIT;

        m.runtime = (char *) "python";
        m.code = (char *) code;
        client_start(c, w, path, &m.base);
}

static void execute_answers_once(void **state) {
        Glovebox__V1__ExecuteResponse *m;
        struct Client c;

        client_execute(&c, *state, EXECUTE, "hello");
        m = (Glovebox__V1__ExecuteResponse *) client_receive(&c, &glovebox__v1__execute_response__descriptor);
        assert_non_null(m);
        assert_int_equal(m->stdout.len, 5);
        assert_memory_equal(m->stdout.data, "hello", 5);
        assert_memory_equal(m->stderr.data, "oops", 4);
        assert_int_equal(m->result->outcome, GLOVEBOX__V1__OUTCOME__OUTCOME_FAILED);
        assert_int_equal(m->result->exit_code, 3);
        glovebox__v1__execute_response__free_unpacked(m, NULL);
        assert_int_equal(client_finish(&c), GRPC_STATUS_OK);
}

static void execute_cuts_what_is_too_long(void **state) {
        Glovebox__V1__ExecuteResponse *m;
        struct Client c;

        client_execute(&c, *state, EXECUTE, "both 5000000");
        m = (Glovebox__V1__ExecuteResponse *) client_receive(&c, &glovebox__v1__execute_response__descriptor);
        assert_non_null(m);
        assert_true(m->stdout.len >= 512 * KIB && m->stderr.len >= 512 * KIB);
        assert_true(protobuf_c_message_get_packed_size(&m->base) <= 3 * MIB + 512 * KIB);
        assert_true(m->result->stdout_truncated && m->result->stderr_truncated);
        glovebox__v1__execute_response__free_unpacked(m, NULL);
        assert_int_equal(client_finish(&c), GRPC_STATUS_OK);
}

static void a_stream_has_every_byte_in_order(void **state) {
        uint64_t seq = 0, bytes = 0;
        unsigned results = 0;
        struct Client c;
        Event_ *e;

        client_execute(&c, *state, EXECUTE_STREAM, "bytes 3000000 65536");
        while ((e = (Event_ *) client_receive(&c, &glovebox__v1__execution_event__descriptor))) {
                assert_int_equal(e->seq, ++seq);
                assert_true((seq == 1) == (e->event_case == GLOVEBOX__V1__EXECUTION_EVENT__EVENT_ACCEPTED));
                assert_int_equal(results, 0);
                if (e->event_case == GLOVEBOX__V1__EXECUTION_EVENT__EVENT_OUTPUT) {
                        assert_int_equal(e->output->offset, bytes);
                        bytes += e->output->data.len;
                }
                results += e->event_case == GLOVEBOX__V1__EXECUTION_EVENT__EVENT_RESULT;
                glovebox__v1__execution_event__free_unpacked(e, NULL);
        }
        assert_int_equal(bytes, 3000000);
        assert_int_equal(results, 1);
        assert_int_equal(client_finish(&c), GRPC_STATUS_OK);
}

static void refusals_arrive(void **state) {
        static const enum RefusalCode codes[] = {REFUSE_INVALID_ARGUMENT, REFUSE_NOT_FOUND, REFUSE_ALREADY_EXISTS, REFUSE_RESOURCE_EXHAUSTED,
                                                 REFUSE_UNAVAILABLE};
        struct Client c;
        char code[32];

        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                (void) snprintf(code, sizeof(code), "refuse %d", codes[i]);
                client_execute(&c, *state, i % 2 == 0 ? EXECUTE : EXECUTE_STREAM, code);
                assert_null(client_receive(&c, &glovebox__v1__execution_event__descriptor));
                assert_int_equal((int) client_finish(&c), (int) codes[i]);
        }
}

static void late_refusals_arrive(void **state) {
        struct Client c;
        Event_ *e;

        client_execute(&c, *state, EXECUTE, "late 8");
        assert_null(client_receive(&c, &glovebox__v1__execute_response__descriptor));
        assert_int_equal(client_finish(&c), GRPC_STATUS_RESOURCE_EXHAUSTED);
        client_execute(&c, *state, EXECUTE_STREAM, "late 14");
        e = (Event_ *) client_receive(&c, &glovebox__v1__execution_event__descriptor);
        assert_non_null(e);
        assert_int_equal(e->event_case, GLOVEBOX__V1__EXECUTION_EVENT__EVENT_ACCEPTED);
        glovebox__v1__execution_event__free_unpacked(e, NULL);
        assert_null(client_receive(&c, &glovebox__v1__execution_event__descriptor));
        assert_int_equal(client_finish(&c), GRPC_STATUS_UNAVAILABLE);
}

static void what_is_no_call_is_refused(void **state) {
        struct Client c;

        client_start(&c, *state, "/no.such/Method", NULL);
        assert_int_equal(client_finish(&c), GRPC_STATUS_UNIMPLEMENTED);
        client_start(&c, *state, EXECUTE, NULL);
        assert_int_equal(client_finish(&c), GRPC_STATUS_INVALID_ARGUMENT);
}

static void the_caller_is_the_peer(void **state) {
        Glovebox__V1__GetInfoRequest request = GLOVEBOX__V1__GET_INFO_REQUEST__INIT;
        Glovebox__V1__GetInfoResponse *m;
        struct Client c;
        char name[32];

        (void) snprintf(name, sizeof(name), "uid:%u", getuid());
        client_start(&c, *state, "/glovebox.v1.SystemService/GetInfo", &request.base);
        m = (Glovebox__V1__GetInfoResponse *) client_receive(&c, &glovebox__v1__get_info_response__descriptor);
        assert_non_null(m);
        assert_string_equal(m->caller, name);
        assert_false(m->caller_is_operator);
        glovebox__v1__get_info_response__free_unpacked(m, NULL);
        assert_int_equal(client_finish(&c), GRPC_STATUS_OK);
}

static void health_is_told(void **state) {
        Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
        Grpc__Health__V1__HealthCheckResponse *m;
        struct Client c;

        client_start(&c, *state, "/grpc.health.v1.Health/Check", &request.base);
        m = (Grpc__Health__V1__HealthCheckResponse *) client_receive(&c, &grpc__health__v1__health_check_response__descriptor);
        assert_int_equal(m->status, GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING);
        grpc__health__v1__health_check_response__free_unpacked(m, NULL);
        assert_int_equal(client_finish(&c), GRPC_STATUS_OK);
        request.service = (char *) "no.such";
        client_start(&c, *state, "/grpc.health.v1.Health/Check", &request.base);
        assert_int_equal(client_finish(&c), GRPC_STATUS_NOT_FOUND);
}

/* A client that leaves takes its execution with it, and nothing stays behind to be freed twice or not at all. */
static void clients_may_leave_at_any_time(void **state) {
        struct World *w = *state;
        ProtobufCMessage *m;
        struct Client c;

        for (unsigned i = 0; i < 50; i++) {
                client_execute(&c, w, i % 2 == 0 ? EXECUTE_STREAM : EXECUTE, i % 3 == 0 ? "bytes 100000000 65536" : "wait");
                if (i % 4 == 0)
                        (void) usleep(1000);
                (void) grpc_call_cancel(c.call, NULL);
                assert_int_equal(client_finish(&c), GRPC_STATUS_CANCELLED);
        }
        client_execute(&c, w, EXECUTE, "still there");
        m = client_receive(&c, &glovebox__v1__execute_response__descriptor);
        assert_non_null(m);
        protobuf_c_message_free_unpacked(m, NULL);
        assert_int_equal(client_finish(&c), GRPC_STATUS_OK);
}

#define W(function) cmocka_unit_test_setup_teardown(function, world_new, world_free)

RUN(W(execute_answers_once), W(execute_cuts_what_is_too_long), W(a_stream_has_every_byte_in_order), W(refusals_arrive), W(late_refusals_arrive),
    W(what_is_no_call_is_refused), W(the_caller_is_the_peer), W(health_is_told), W(clients_may_leave_at_any_time))
