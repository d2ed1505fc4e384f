/* The client's JSON is the proto3 mapping. */
#include "tests/unit/unit.h"

#include <glovebox/v1/execution.pb-c.h>
#include <glovebox/v1/system.pb-c.h>
#include <math.h>

#include "client/proto-json.h"
#include "common/util.h"

static void assert_json(const ProtobufCMessage *message, const char *expected) {
        char *text _cleanup_free_ = proto_json(message);

        assert_string_equal(text, expected);
}

static void test_defaults_are_left_out(void **state) {
        Glovebox__V1__Result result = GLOVEBOX__V1__RESULT__INIT;
        Glovebox__V1__Usage usage = GLOVEBOX__V1__USAGE__INIT;

        assert_json(&result.base, "{}");
        result.usage = &usage;
        assert_json(&result.base, "{\"usage\":{}}");
}

static void test_numbers_and_names(void **state) {
        Glovebox__V1__Result result = GLOVEBOX__V1__RESULT__INIT;
        Glovebox__V1__Usage usage = GLOVEBOX__V1__USAGE__INIT;
        Glovebox__V1__Limit hit[] = { GLOVEBOX__V1__LIMIT__LIMIT_MEMORY, 77 };

        result.outcome = GLOVEBOX__V1__OUTCOME__OUTCOME_FAILED;
        result.exit_case = GLOVEBOX__V1__RESULT__EXIT_EXIT_CODE;
        result.code_sha256 = (char *) "ab";
        result.stdout_truncated = true;
        result.n_limits_hit = ELEMENTSOF(hit);
        result.limits_hit = hit;
        usage.stdout_bytes = UINT64_MAX;
        usage.processes_peak = UINT32_MAX;
        result.usage = &usage;
        /* A member of a oneof is told even when it is zero; enums that we do not know are numbers. */
        assert_json(&result.base, "{\"outcome\":\"OUTCOME_FAILED\",\"exitCode\":0,\"limitsHit\":[\"LIMIT_MEMORY\",77],"
                                  "\"usage\":{\"processesPeak\":4294967295,\"stdoutBytes\":\"18446744073709551615\"},"
                                  "\"stdoutTruncated\":true,\"codeSha256\":\"ab\"}");
}

static void test_durations(void **state) {
        static const struct {
                int64_t seconds;
                int32_t nanos;
                const char *text;
        } cases[] = {
                { 0, 0, "{\"elapsed\":\"0s\"}" },
                { 1, 500000000, "{\"elapsed\":\"1.500s\"}" },
                { 0, 1000, "{\"elapsed\":\"0.000001s\"}" },
                { 3600, 1, "{\"elapsed\":\"3600.000000001s\"}" },
                { 0, -500000000, "{\"elapsed\":\"-0.500s\"}" },
                { INT64_MIN, INT32_MIN, "{\"elapsed\":\"-9223372036854775808.147483648s\"}" },
        };
        Glovebox__V1__ExecutionEvent event = GLOVEBOX__V1__EXECUTION_EVENT__INIT;
        Google__Protobuf__Duration d = GOOGLE__PROTOBUF__DURATION__INIT;

        event.elapsed = &d;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                d.seconds = cases[i].seconds;
                d.nanos = cases[i].nanos;
                assert_json(&event.base, cases[i].text);
        }
}

static void test_timestamps(void **state) {
        static const struct {
                int64_t seconds;
                int32_t nanos;
                const char *text;
        } cases[] = {
                { 0, 0, "{\"acceptedAt\":\"1970-01-01T00:00:00Z\"}" },
                { 1709210096, 250000000, "{\"acceptedAt\":\"2024-02-29T12:34:56.250Z\"}" },
                { 253402300799, 999999999, "{\"acceptedAt\":\"9999-12-31T23:59:59.999999999Z\"}" },
                { INT64_MAX, 0, "{\"acceptedAt\":\"9223372036854775807\"}" },
        };
        Glovebox__V1__Result result = GLOVEBOX__V1__RESULT__INIT;
        Google__Protobuf__Timestamp t = GOOGLE__PROTOBUF__TIMESTAMP__INIT;

        result.accepted_at = &t;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                t.seconds = cases[i].seconds;
                t.nanos = cases[i].nanos;
                assert_json(&result.base, cases[i].text);
        }
}

static void test_bytes(void **state) {
        static const struct {
                const char *data;
                size_t size;
                const char *text;
        } cases[] = {
                { "f", 1, "{\"data\":\"Zg==\"}" },
                { "fo", 2, "{\"data\":\"Zm8=\"}" },
                { "foo", 3, "{\"data\":\"Zm9v\"}" },
                { "foob", 4, "{\"data\":\"Zm9vYg==\"}" },
                { "\xff\xfe\x00\xfb", 4, "{\"data\":\"//4A+w==\"}" },
        };
        Glovebox__V1__Output output = GLOVEBOX__V1__OUTPUT__INIT;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                output.data = (ProtobufCBinaryData) { .len = cases[i].size, .data = (uint8_t *) cases[i].data };
                assert_json(&output.base, cases[i].text);
        }
}

static void test_maps(void **state) {
        Glovebox__V1__Execution execution = GLOVEBOX__V1__EXECUTION__INIT;
        Glovebox__V1__Execution__LabelsEntry a = GLOVEBOX__V1__EXECUTION__LABELS_ENTRY__INIT;
        Glovebox__V1__Execution__LabelsEntry b = GLOVEBOX__V1__EXECUTION__LABELS_ENTRY__INIT;
        Glovebox__V1__Execution__LabelsEntry *labels[] = { &a, &b };

        a.key = (char *) "team";
        a.value = (char *) "a \"b\"\n";
        b.key = (char *) "empty";
        execution.n_labels = ELEMENTSOF(labels);
        execution.labels = labels;
        assert_json(&execution.base, "{\"labels\":{\"team\":\"a \\\"b\\\"\\n\",\"empty\":\"\"}}");
}

static void test_repeated_messages_and_doubles(void **state) {
        Glovebox__V1__GetInfoResponse info = GLOVEBOX__V1__GET_INFO_RESPONSE__INIT;
        Glovebox__V1__RuntimeInfo runtime = GLOVEBOX__V1__RUNTIME_INFO__INIT;
        Glovebox__V1__RuntimeInfo *runtimes[] = { &runtime };
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        char *endings[] = { (char *) ".js", (char *) ".mjs" };
        static const struct {
                double cpus;
                const char *text;
        } cases[] = {
                { 0.1, "{\"cpus\":0.1}" }, { 2, "{\"cpus\":2}" }, { INFINITY, "{\"cpus\":\"Infinity\"}" }, { NAN, "{\"cpus\":\"NaN\"}" },
        };

        runtime.n_endings = ELEMENTSOF(endings);
        runtime.endings = endings;
        info.n_runtimes = ELEMENTSOF(runtimes);
        info.runtimes = runtimes;
        assert_json(&info.base, "{\"runtimes\":[{\"endings\":[\".js\",\".mjs\"]}]}");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                limits.cpus = cases[i].cpus;
                assert_json(&limits.base, cases[i].text);
        }
}

static void test_text_that_is_not_utf8(void **state) {
        Glovebox__V1__Result result = GLOVEBOX__V1__RESULT__INIT;

        result.message = (char *) "a\xff" "b";
        assert_json(&result.base, "{\"message\":\"a\\\\xffb\"}");
}

static void test_enum_words(void **state) {
        const ProtobufCEnumDescriptor *reasons = &glovebox__v1__cancel_reason__descriptor;

        assert_string_equal(proto_enum_word(&glovebox__v1__outcome__descriptor, GLOVEBOX__V1__OUTCOME__OUTCOME_TIMED_OUT), "TIMED_OUT");
        assert_string_equal(proto_enum_word(reasons, GLOVEBOX__V1__CANCEL_REASON__CANCEL_REASON_CLIENT_GONE), "CLIENT_GONE");
        assert_string_equal(proto_enum_word(&glovebox__v1__state__descriptor, 99), "?");
        assert_null(proto_enum_name(&glovebox__v1__state__descriptor, -1));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults_are_left_out),
                cmocka_unit_test(test_numbers_and_names),
                cmocka_unit_test(test_durations),
                cmocka_unit_test(test_timestamps),
                cmocka_unit_test(test_bytes),
                cmocka_unit_test(test_maps),
                cmocka_unit_test(test_repeated_messages_and_doubles),
                cmocka_unit_test(test_text_that_is_not_utf8),
                cmocka_unit_test(test_enum_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
