/* Calls on the channel. A call has up to three batches under way: the request, one answer, the status. */
#include "client/rpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>

#include "client/console.h"
#include "client/options.h"

#define UNARY_DEADLINE (20 * USEC_PER_SEC)
#define ASK_USER (100 * USEC_PER_MSEC)

struct Rpc {
        struct Channel *channel;
        grpc_call *call;
        grpc_byte_buffer *request;
        grpc_byte_buffer *answer;
        struct Batch sending;
        struct Batch receiving;
        struct Batch ending;
        bool asked; /* `receiving` was started and its answer not taken */
        grpc_metadata_array initial;
        grpc_metadata_array trailing;
        grpc_status_code code;
        grpc_slice details;
        char *message; /* `details` as text, once `ending` is over */
};

static const struct {
        const char *name;
        const char *cure; /* what helps whatever the server said; NULL where its own words are enough */
} codes[] = {
        [GRPC_STATUS_OK] = { "OK", NULL },
        [GRPC_STATUS_CANCELLED] = { "CANCELLED", NULL },
        [GRPC_STATUS_UNKNOWN] = { "UNKNOWN", NULL },
        [GRPC_STATUS_INVALID_ARGUMENT] = { "INVALID_ARGUMENT", NULL },
        [GRPC_STATUS_DEADLINE_EXCEEDED] = { "DEADLINE_EXCEEDED", "the server is busy or hangs; try again" },
        [GRPC_STATUS_NOT_FOUND] = { "NOT_FOUND", "`glovebox ps --all` lists your executions" },
        [GRPC_STATUS_ALREADY_EXISTS] = { "ALREADY_EXISTS", NULL },
        [GRPC_STATUS_PERMISSION_DENIED] = { "PERMISSION_DENIED", NULL },
        [GRPC_STATUS_RESOURCE_EXHAUSTED] = { "RESOURCE_EXHAUSTED", NULL },
        [GRPC_STATUS_FAILED_PRECONDITION] = { "FAILED_PRECONDITION", NULL },
        [GRPC_STATUS_ABORTED] = { "ABORTED", NULL },
        [GRPC_STATUS_OUT_OF_RANGE] = { "OUT_OF_RANGE", NULL },
        [GRPC_STATUS_UNIMPLEMENTED] = { "UNIMPLEMENTED", NULL },
        [GRPC_STATUS_INTERNAL] = { "INTERNAL", NULL },
        [GRPC_STATUS_UNAVAILABLE] = { "UNAVAILABLE", "it may be starting, stopping or restarting; try again" },
        [GRPC_STATUS_DATA_LOSS] = { "DATA_LOSS", NULL },
        [GRPC_STATUS_UNAUTHENTICATED] = { "UNAUTHENTICATED", NULL },
};

const char *rpc_code_name(int code) {
        return code >= 0 && (size_t) code < ELEMENTSOF(codes) ? codes[code].name : "UNKNOWN";
}

static gpr_timespec deadline_in(usec_t t) {
        if (t == USEC_INFINITY)
                return gpr_inf_future(GPR_CLOCK_MONOTONIC);
        return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros((int64_t) t, GPR_TIMESPAN));
}

static grpc_byte_buffer *pack(const ProtobufCMessage *message) {
        grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
        grpc_byte_buffer *buffer;

        (void) protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
        buffer = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        return buffer;
}

static int send_request(struct Rpc *rpc) {
        grpc_op ops[] = {
                { .op = GRPC_OP_SEND_INITIAL_METADATA },
                { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = rpc->request },
                { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
                { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &rpc->initial },
        };

        return channel_start(rpc->channel, rpc->call, ops, ELEMENTSOF(ops), &rpc->sending);
}

static int await_status(struct Rpc *rpc) {
        grpc_op op = {
                .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                .data.recv_status_on_client = {
                        .trailing_metadata = &rpc->trailing, .status = &rpc->code, .status_details = &rpc->details },
        };

        return channel_start(rpc->channel, rpc->call, &op, 1, &rpc->ending);
}

static int ask(struct Rpc *rpc) {
        grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &rpc->answer };
        int r;

        if (rpc->asked)
                return 0;
        r = channel_start(rpc->channel, rpc->call, &op, 1, &rpc->receiving);
        if (r == 0)
                rpc->asked = true;
        return r;
}

int rpc_start(struct Channel *c, const char *method, const ProtobufCMessage *request, usec_t deadline, struct Rpc **ret) {
        struct Rpc *rpc _cleanup_(rpc_freep) = calloc(1, sizeof(*rpc));
        int r;

        if (!rpc)
                return -ENOMEM;
        rpc->channel = c;
        rpc->details = grpc_empty_slice();
        rpc->code = GRPC_STATUS_UNKNOWN;
        grpc_metadata_array_init(&rpc->initial);
        grpc_metadata_array_init(&rpc->trailing);
        rpc->request = pack(request);
        rpc->call = grpc_channel_create_call(c->channel, NULL, 0, c->queue, grpc_slice_from_static_string(method), NULL,
                                             deadline_in(deadline), NULL);
        r = send_request(rpc);
        if (r >= 0)
                r = await_status(rpc);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(rpc);
        return 0;
}

struct Rpc *rpc_free(struct Rpc *rpc) {
        if (!rpc)
                return NULL;
        if (rpc->call) {
                (void) grpc_call_cancel(rpc->call, NULL);
                (void) channel_wait(rpc->channel, &rpc->sending, USEC_INFINITY);
                (void) channel_wait(rpc->channel, &rpc->receiving, USEC_INFINITY);
                (void) channel_wait(rpc->channel, &rpc->ending, USEC_INFINITY);
                grpc_call_unref(rpc->call);
        }
        if (rpc->request)
                grpc_byte_buffer_destroy(rpc->request);
        if (rpc->answer)
                grpc_byte_buffer_destroy(rpc->answer);
        grpc_metadata_array_destroy(&rpc->initial);
        grpc_metadata_array_destroy(&rpc->trailing);
        grpc_slice_unref(rpc->details);
        free(rpc->message);
        free(rpc);
        return NULL;
}

static int unpack(grpc_byte_buffer *buffer, const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret) {
        grpc_byte_buffer_reader reader;
        grpc_slice whole;

        if (!grpc_byte_buffer_reader_init(&reader, buffer))
                return -EBADMSG;
        whole = grpc_byte_buffer_reader_readall(&reader);
        grpc_byte_buffer_reader_destroy(&reader);
        *ret = protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(whole), GRPC_SLICE_START_PTR(whole));
        grpc_slice_unref(whole);
        return *ret ? 0 : -EBADMSG;
}

static void set_message(struct Rpc *rpc) {
        if (rpc->message)
                return;
        rpc->message = strndup((const char *) GRPC_SLICE_START_PTR(rpc->details), GRPC_SLICE_LENGTH(rpc->details));
}

int rpc_next(struct Rpc *rpc, const ProtobufCMessageDescriptor *type, usec_t until, ProtobufCMessage **ret) {
        int r;

        r = ask(rpc);
        if (r >= 0)
                r = channel_wait(rpc->channel, &rpc->receiving, until);
        if (r < 0)
                return r;
        rpc->asked = false;
        if (rpc->answer) {
                r = unpack(rpc->answer, type, ret);
                grpc_byte_buffer_destroy(rpc->answer);
                rpc->answer = NULL;
                return r < 0 ? r : 1;
        }
        r = channel_wait(rpc->channel, &rpc->ending, until);
        if (r < 0)
                return r;
        set_message(rpc);
        return 0;
}

void rpc_cancel(struct Rpc *rpc) {
        (void) grpc_call_cancel(rpc->call, NULL);
}

bool rpc_is_over(struct Rpc *rpc) {
        return !channel_is_pending(rpc->channel, &rpc->ending);
}

bool rpc_is_ok(const struct Rpc *rpc) {
        return rpc->code == GRPC_STATUS_OK;
}

bool rpc_is_cancelled(const struct Rpc *rpc) {
        return rpc->code == GRPC_STATUS_CANCELLED;
}

bool rpc_is_lost(const struct Rpc *rpc) {
        /* gRPC makes it look like a status of the server's. The server's own refusals of this kind all say when or where to try. */
        return rpc->code == GRPC_STATUS_UNAVAILABLE && !strstr(strempty(rpc->message), "try a");
}

const char *rpc_reason(const struct Rpc *rpc) {
        return isempty(rpc->message) ? "no reason is known" : rpc->message;
}

/* The server names the field of the request; the user typed a flag. */
static const char *flag_of_field(const char *message, char *buffer, size_t size) {
        const struct Option *option = options_find_field(message);

        if (!option)
                return "";
        (void) snprintf(buffer, size, " (--%s)", option->name);
        return buffer;
}

int rpc_fault(const struct Rpc *rpc, const char *subject) {
        const char *cure = rpc->code >= 0 && (size_t) rpc->code < ELEMENTSOF(codes) ? codes[rpc->code].cure : NULL;
        const char *message = isempty(rpc->message) ? "the server gave no reason" : rpc->message;
        char flag[64];

        if (cure && strstr(message, "try again"))
                cure = NULL; /* the server has said it */
        return console_fault("%s%s%s: %s%s%s%s", strempty(subject), subject ? ": " : "", rpc_code_name(rpc->code), message,
                             flag_of_field(message, flag, sizeof(flag)), cure ? "; " : "", strempty(cure));
}

/* rpc_next, or -EINTR when the user wants to leave. */
static int next_or_leave(struct Rpc *rpc, const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret) {
        struct Channel *c = rpc->channel;
        int r;

        do
                r = rpc_next(rpc, type, c->wants_to_leave ? now_monotonic() + ASK_USER : USEC_INFINITY, ret);
        while (r == -ETIME && !c->wants_to_leave(c->userdata));
        return r == -ETIME ? -EINTR : r;
}

int rpc_unary(struct Channel *c, const char *method, const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
              const char *subject, ProtobufCMessage **ret) {
        struct Rpc *rpc _cleanup_(rpc_freep) = NULL;
        ProtobufCMessage *answer = NULL;
        ProtobufCMessage *extra = NULL;
        int r;

        r = rpc_start(c, method, request, UNARY_DEADLINE, &rpc);
        if (r < 0)
                return console_fault("cannot call %s: %s", c->server, strerror(-r));
        r = next_or_leave(rpc, type, &answer);
        if (r > 0)
                r = next_or_leave(rpc, type, &extra);
        if (r == 0 && rpc_is_ok(rpc) && answer) {
                *ret = answer;
                return 0;
        }
        if (answer)
                protobuf_c_message_free_unpacked(answer, NULL);
        if (extra)
                protobuf_c_message_free_unpacked(extra, NULL);
        if (r == -EINTR)
                return STATUS_GAVE_UP;
        if (r == 0 && !rpc_is_ok(rpc))
                return rpc_fault(rpc, subject);
        return console_fault("%s answers %s in a way that this client does not understand; are both of one version?", c->server, method);
}
