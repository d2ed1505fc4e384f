/* Refusals on the wire. */
#include "tests/unit/unit.h"

#include <stdio.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "server/accept/status.h"

static const grpc_metadata *find_trailer(const struct Status *s, const char *key) {
        for (size_t i = 0; i < s->n_trailers; i++)
                if (grpc_slice_str_cmp(s->trailers[i].key, key) == 0)
                        return &s->trailers[i];
        return NULL;
}

static Google__Rpc__Status *unpack_details(const struct Status *s) {
        const grpc_metadata *m = find_trailer(s, "grpc-status-details-bin");

        return m ? google__rpc__status__unpack(NULL, GRPC_SLICE_LENGTH(m->value), GRPC_SLICE_START_PTR(m->value)) : NULL;
}

static void assert_message(const struct Status *s, const char *text) {
        assert_int_equal(GRPC_SLICE_LENGTH(s->message), strlen(text));
        assert_memory_equal(GRPC_SLICE_START_PTR(s->message), text, strlen(text));
}

static void ok_has_no_trailers(void **state) {
        struct Status s;

        status_init(&s, NULL);
        assert_int_equal(s.code, GRPC_STATUS_OK);
        assert_int_equal(s.n_trailers, 0);
        assert_message(&s, "");
        status_done(&s);
}

static void a_wrong_field_is_named(void **state) {
        Google__Rpc__BadRequest *bad;
        Google__Rpc__Status *details;
        struct Refusal r;
        struct Status s;

        refuse(&r, REFUSE_INVALID_ARGUMENT, "limits.timeout", "is %d h; at most 1 h is allowed", 2);
        status_init(&s, &r);
        assert_int_equal(s.code, GRPC_STATUS_INVALID_ARGUMENT);
        assert_message(&s, "limits.timeout: is 2 h; at most 1 h is allowed");
        details = unpack_details(&s);
        assert_non_null(details);
        assert_int_equal(details->code, GRPC_STATUS_INVALID_ARGUMENT);
        assert_string_equal(details->message, "limits.timeout: is 2 h; at most 1 h is allowed");
        assert_int_equal(details->n_details, 1);
        assert_string_equal(details->details[0]->type_url, "type.googleapis.com/google.rpc.BadRequest");
        bad = google__rpc__bad_request__unpack(NULL, details->details[0]->value.len, details->details[0]->value.data);
        assert_int_equal(bad->n_field_violations, 1);
        assert_string_equal(bad->field_violations[0]->field, "limits.timeout");
        assert_string_equal(bad->field_violations[0]->description, "is 2 h; at most 1 h is allowed");
        google__rpc__bad_request__free_unpacked(bad, NULL);
        google__rpc__status__free_unpacked(details, NULL);
        status_done(&s);
}

static void when_full_says_when_to_retry(void **state) {
        const grpc_metadata *pushback;
        Google__Rpc__RetryInfo *retry;
        Google__Rpc__Status *details;
        struct Refusal r;
        struct Status s;

        refuse(&r, REFUSE_RESOURCE_EXHAUSTED, NULL, "full");
        r.retry_after = 1500 * USEC_PER_MSEC;
        status_init(&s, &r);
        pushback = find_trailer(&s, "grpc-retry-pushback-ms");
        assert_non_null(pushback);
        assert_int_equal(grpc_slice_str_cmp(pushback->value, "1500"), 0);
        details = unpack_details(&s);
        assert_string_equal(details->details[0]->type_url, "type.googleapis.com/google.rpc.RetryInfo");
        retry = google__rpc__retry_info__unpack(NULL, details->details[0]->value.len, details->details[0]->value.data);
        assert_int_equal(retry->retry_delay->seconds, 1);
        assert_int_equal(retry->retry_delay->nanos, 500000000);
        google__rpc__retry_info__free_unpacked(retry, NULL);
        google__rpc__status__free_unpacked(details, NULL);
        status_done(&s);
}

static void a_repeat_names_the_execution(void **state) {
        Google__Rpc__ResourceInfo *resource;
        Google__Rpc__Status *details;
        struct Refusal r;
        struct Status s;

        refuse(&r, REFUSE_ALREADY_EXISTS, NULL, "there is one");
        (void) snprintf(r.resource, sizeof(r.resource), "node-17");
        status_init(&s, &r);
        details = unpack_details(&s);
        resource = google__rpc__resource_info__unpack(NULL, details->details[0]->value.len, details->details[0]->value.data);
        assert_string_equal(resource->resource_name, "node-17");
        google__rpc__resource_info__free_unpacked(resource, NULL);
        google__rpc__status__free_unpacked(details, NULL);
        status_done(&s);
}

/* As gRPC sends it: each byte that is not printable takes three, binary values are base64. */
static size_t size_on_wire(const struct Status *s) {
        size_t size = strlen("grpc-message") + strlen("grpc-status") + 2;

        for (size_t i = 0; i < GRPC_SLICE_LENGTH(s->message); i++) {
                uint8_t c = GRPC_SLICE_START_PTR(s->message)[i];

                size += c < 0x20 || c > 0x7e || c == '%' ? 3 : 1;
        }
        for (size_t i = 0; i < s->n_trailers; i++)
                size += GRPC_SLICE_LENGTH(s->trailers[i].key) + (GRPC_SLICE_LENGTH(s->trailers[i].value) + 2) / 3 * 4;
        return size;
}

static void check_long(const char *piece, size_t field_length) {
        char field[sizeof(((struct Refusal *) NULL)->field)] = "", text[2048] = "";
        Google__Rpc__Status *details;
        struct Refusal r;
        struct Status s;

        memset(field, 'f', MIN(field_length, sizeof(field) - 1));
        while (strlen(text) + strlen(piece) < sizeof(text))
                strcat(text, piece);
        refuse(&r, REFUSE_INVALID_ARGUMENT, field, "%s", text);
        status_init(&s, &r);
        assert_true(size_on_wire(&s) < 1024);
        assert_true(utf8_is_valid((const char *) GRPC_SLICE_START_PTR(s.message), GRPC_SLICE_LENGTH(s.message)));
        details = unpack_details(&s);
        assert_non_null(details);
        assert_message(&s, details->message);
        google__rpc__status__free_unpacked(details, NULL);
        status_done(&s);
}

static void trailers_stay_below_a_kilobyte(void **state) {
        static const char *const pieces[] = {"x", "\xe2\x98\x95", "%\n", "\xf0\x9f\x90\x8d!", "\xc3\xa4"};
        static const size_t fields[] = {1, 14, 127, 128, 319};

        for (size_t i = 0; i < ELEMENTSOF(pieces); i++)
                for (size_t k = 0; k < ELEMENTSOF(fields); k++)
                        check_long(pieces[i], fields[k]);
}

RUN(T(ok_has_no_trailers), T(a_wrong_field_is_named), T(when_full_says_when_to_retry), T(a_repeat_names_the_execution),
    T(trailers_stay_below_a_kilobyte))
