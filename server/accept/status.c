/* A refusal becomes trailers: at most 1 KiB in all, since proxies and clients bound them. */
#include "server/accept/status.h"

#include <stdio.h>

#include <grpc/slice.h>

#include "google/protobuf/any.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

#define TRAILERS_MAX 940       /* values of message and details together, as they are encoded */
#define MESSAGE_WEIGHT_MAX 280 /* of that, the message */
#define FIELD_MAX 128
#define AROUND_MAX 100         /* tags, lengths and the detail's type */
#define TYPE_URL "type.googleapis.com/"

struct Details { /* one detail with all it points to */
        Google__Rpc__BadRequest bad_request;
        Google__Rpc__BadRequest__FieldViolation violation, *violations[1];
        Google__Rpc__RetryInfo retry;
        Google__Protobuf__Duration delay;
        Google__Rpc__ResourceInfo resource;
        char field[FIELD_MAX + 1];
        char description[sizeof(((struct Refusal *) NULL)->message)];
};

/* gRPC sends each byte outside printable ASCII, and '%', as three. */
static size_t weight_of(unsigned char c) {
        return c < 0x20 || c > 0x7e || c == '%' ? 3 : 1;
}

/* Cuts text where its weight passes `max`, at the border of a character. */
static void cut_to_weight(char *s, size_t max) {
        size_t weight = 0, whole = 0, i;

        for (i = 0; s[i]; i++) {
                if (((unsigned char) s[i] & 0xc0) != 0x80)
                        whole = i;
                weight += weight_of((unsigned char) s[i]);
                if (weight > max) {
                        s[whole] = 0;
                        return;
                }
        }
}

static size_t weigh(const char *s) {
        size_t weight = 0;

        for (; *s; s++)
                weight += weight_of((unsigned char) *s);
        return weight;
}

static const ProtobufCMessage *details_bad_request(struct Details *d, const struct Refusal *r) {
        d->violation = (Google__Rpc__BadRequest__FieldViolation) GOOGLE__RPC__BAD_REQUEST__FIELD_VIOLATION__INIT;
        d->violation.field = d->field;
        d->violation.description = d->description;
        d->violations[0] = &d->violation;
        d->bad_request = (Google__Rpc__BadRequest) GOOGLE__RPC__BAD_REQUEST__INIT;
        d->bad_request.n_field_violations = 1;
        d->bad_request.field_violations = d->violations;
        return &d->bad_request.base;
}

static const ProtobufCMessage *details_retry(struct Details *d, const struct Refusal *r) {
        d->delay = (Google__Protobuf__Duration) GOOGLE__PROTOBUF__DURATION__INIT;
        d->delay.seconds = (int64_t) (r->retry_after / USEC_PER_SEC);
        d->delay.nanos = (int32_t) (r->retry_after % USEC_PER_SEC * NSEC_PER_USEC);
        d->retry = (Google__Rpc__RetryInfo) GOOGLE__RPC__RETRY_INFO__INIT;
        d->retry.retry_delay = &d->delay;
        return &d->retry.base;
}

static const ProtobufCMessage *details_resource(struct Details *d, const struct Refusal *r) {
        d->resource = (Google__Rpc__ResourceInfo) GOOGLE__RPC__RESOURCE_INFO__INIT;
        d->resource.resource_type = (char *) "glovebox.v1.Execution";
        d->resource.resource_name = (char *) r->resource;
        return &d->resource.base;
}

static const ProtobufCMessage *details_init(struct Details *d, const struct Refusal *r) {
        /* What a program acts on comes before what a person reads: the message names the field in any case. */
        if (r->resource[0])
                return details_resource(d, r);
        if (r->retry_after > 0)
                return details_retry(d, r);
        if (r->field[0])
                return details_bad_request(d, r);
        return NULL;
}

static void status_add(struct Status *s, const char *key, grpc_slice value) {
        s->trailers[s->n_trailers++] = (grpc_metadata) {.key = grpc_slice_from_static_string(key), .value = value};
}

/* google.rpc.Status around the detail. The description is what gives way when all is too long: the message says it too. */
static void status_add_details(struct Status *s, const struct Refusal *r, const char *message) {
        Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
        Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT, *anys[1] = {&any};
        uint8_t packed[TRAILERS_MAX], out[TRAILERS_MAX];
        size_t room, taken;
        const ProtobufCMessage *detail;
        struct Details d;
        char url[96];

        (void) snprintf(d.field, sizeof(d.field), "%.*s", FIELD_MAX, r->field);
        (void) snprintf(d.description, sizeof(d.description), "%s", r->message);
        room = (TRAILERS_MAX - weigh(message)) * 3 / 4; /* base64 */
        taken = strlen(message) + strlen(d.field) + AROUND_MAX;
        cut_to_weight(d.description, room > taken ? room - taken : 0);
        detail = details_init(&d, r);
        if (!detail || protobuf_c_message_get_packed_size(detail) > sizeof(packed))
                return;
        (void) snprintf(url, sizeof(url), TYPE_URL "%s", detail->descriptor->name);
        any.type_url = url;
        any.value.data = packed;
        any.value.len = protobuf_c_message_pack(detail, packed);
        status.code = (int32_t) r->code;
        status.message = (char *) message;
        status.n_details = 1;
        status.details = anys;
        if (protobuf_c_message_get_packed_size(&status.base) <= sizeof(out))
                status_add(s, "grpc-status-details-bin",
                           grpc_slice_from_copied_buffer((const char *) out, protobuf_c_message_pack(&status.base, out)));
}

void status_init(struct Status *s, const struct Refusal *refusal) {
        char message[sizeof(refusal->field) + sizeof(refusal->message) + 4], pushback[24];

        *s = (struct Status) {.code = GRPC_STATUS_OK, .message = grpc_empty_slice()};
        if (!refusal || refusal->code == REFUSE_NOTHING)
                return;
        s->code = (grpc_status_code) refusal->code;
        (void) snprintf(message, sizeof(message), "%s%s%s", refusal->field, refusal->field[0] ? ": " : "", refusal->message);
        cut_to_weight(message, MESSAGE_WEIGHT_MAX);
        s->message = grpc_slice_from_copied_string(message);
        status_add_details(s, refusal, message);
        if (refusal->retry_after > 0) {
                (void) snprintf(pushback, sizeof(pushback), "%llu", (unsigned long long) (refusal->retry_after / USEC_PER_MSEC));
                status_add(s, "grpc-retry-pushback-ms", grpc_slice_from_copied_string(pushback));
        }
}

void status_done(struct Status *s) {
        grpc_slice_unref(s->message);
        for (size_t i = 0; i < s->n_trailers; i++)
                grpc_slice_unref(s->trailers[i].value);
        s->n_trailers = 0;
        s->message = grpc_empty_slice();
}
