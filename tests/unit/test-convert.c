/* Bytes of strangers become requests, or are refused with the field's name. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>

#include "glovebox/v1/execution.pb-c.h"
#include "server/accept/convert.h"

typedef Glovebox__V1__ExecuteRequest Message;

#define MESSAGE_INIT GLOVEBOX__V1__EXECUTE_REQUEST__INIT
#define TYPE (&glovebox__v1__execute_request__descriptor)

struct Outcome_ {
        int r;
        struct Refusal refusal;
        struct Request request;
        struct Budget *budget;
};

static struct Outcome_ convert_bytes(const uint8_t *bytes, size_t size) {
        struct Outcome_ o = {.budget = budget_new(64 * MIB)};
        struct Parcel *p = NULL;

        o.r = parcel_new(o.budget, TYPE, bytes, size, &p, &o.refusal);
        if (o.r == 0)
                o.r = convert_request(p, &o.request, &o.refusal);
        return o;
}

static struct Outcome_ convert(const Message *m) {
        size_t size = protobuf_c_message_get_packed_size(&m->base);
        uint8_t *bytes _cleanup_free_ = malloc(size + 1);

        assert_non_null(bytes);
        (void) protobuf_c_message_pack(&m->base, bytes);
        return convert_bytes(bytes, size);
}

/* Everything is given back, whatever became of the request. */
static void finish(struct Outcome_ *o) {
        request_done(&o->request);
        assert_int_equal(budget_used(o->budget), 0);
        budget_leave(o->budget);
}

static void assert_refused(struct Outcome_ o, enum RefusalCode code, const char *field) {
        assert_int_equal(o.r, code);
        assert_int_equal(o.refusal.code, code);
        assert_string_equal(o.refusal.field, field);
        assert_true(strlen(o.refusal.message) > 10);
        finish(&o);
}

static void a_full_request_arrives_whole(void **state) {
        Glovebox__V1__ExecuteRequest__EnvEntry first = GLOVEBOX__V1__EXECUTE_REQUEST__ENV_ENTRY__INIT, second = first, *env[] = {&first, &second};
        Glovebox__V1__ExecuteRequest__LabelsEntry label = GLOVEBOX__V1__EXECUTE_REQUEST__LABELS_ENTRY__INIT, *labels[] = {&label};
        Glovebox__V1__InputFile file = GLOVEBOX__V1__INPUT_FILE__INIT, *files[] = {&file};
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        Google__Protobuf__Duration time = GOOGLE__PROTOBUF__DURATION__INIT;
        char *args[] = {(char *) "a", (char *) "b"};
        Message m = MESSAGE_INIT;
        struct Outcome_ o;

        first.key = (char *) "A", first.value = (char *) "1";
        second.key = (char *) "A", second.value = (char *) "2";
        label.key = (char *) "team", label.value = (char *) "blue";
        file.path = (char *) "data/x", file.content = (ProtobufCBinaryData) {3, (uint8_t *) "a\0b"}, file.executable = true;
        time.seconds = 2, time.nanos = 500000001;
        limits.timeout = &time, limits.cpus = 1.5, limits.memory_bytes = 64 * MIB, limits.max_processes = 7;
        m.runtime = (char *) "python", m.code = (char *) "print(1)", m.args = args, m.n_args = 2, m.env = env, m.n_env = 2, m.labels = labels;
        m.n_labels = 1, m.files = files, m.n_files = 1, m.limits = &limits, m.stdin = (ProtobufCBinaryData) {2, (uint8_t *) "\0\xff"};
        o = convert(&m);
        assert_int_equal(o.r, 0);
        assert_string_equal(o.request.runtime, "python");
        assert_int_equal(o.request.code.size, 8);
        assert_memory_equal(o.request.code.data, "print(1)", 8);
        assert_int_equal(o.request.n_args, 2);
        assert_string_equal(o.request.args[1], "b");
        assert_int_equal(o.request.n_env, 2);
        assert_string_equal(o.request.env[1].value, "2");
        assert_string_equal(o.request.labels[0].key, "team");
        assert_int_equal(o.request.files[0].content.size, 3);
        assert_int_equal(o.request.files[0].path_size, 6);
        assert_true(o.request.files[0].executable);
        assert_int_equal(o.request.stdin_bytes.size, 2);
        assert_int_equal(o.request.limits.timeout, 2500001);
        assert_true(fabs(o.request.limits.cpus - 1.5) < 1e-9);
        assert_int_equal(o.request.limits.max_processes, 7);
        assert_false(o.request.idle_set);
        assert_true(budget_used(o.budget) >= o.request.charged && o.request.charged > 0);
        finish(&o);
}

static void an_empty_request_has_only_defaults(void **state) {
        struct Outcome_ o = convert_bytes(NULL, 0);

        assert_int_equal(o.r, 0);
        assert_string_equal(o.request.runtime, "");
        assert_int_equal(o.request.code.size, 0);
        assert_int_equal(o.request.limits.timeout, 0);
        finish(&o);
}

static void text_is_text(void **state) {
        static const struct {
                const char *bytes;
                size_t size;
                const char *field;
        } cases[] = {
                {"\x1a\x03" "a\0b", 5, "code"},
                {"\x1a\x02\xff\xfe", 4, "code"},
                {"\x22\x01x\x22\x01\0", 6, "args[1]"},
                {"\x2a\x06\x0a\x01k\x12\x01\0", 8, "env[0].value"},
                {"\x2a\x00\x2a\x03\x0a\x01\xff", 7, "env[1].key"},
                {"\x52\x04\x0a\x02\xc0\x80", 6, "files[0].path"},
                {"\xca\x01\x01\0", 4, "working_dir"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_refused(convert_bytes((const uint8_t *) cases[i].bytes, cases[i].size), REFUSE_INVALID_ARGUMENT, cases[i].field);
}

static void malformed_bytes_are_refused(void **state) {
        static const struct {
                const char *bytes;
                size_t size;
        } cases[] = {
                {"\x1a", 1}, {"\x1a\x05" "ab", 4}, {"\x0b", 1}, {"\x00", 1}, {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11},
                {"\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12}, {"\x6a\x02\x21\x00", 4}, {"\x1d\x01\x02", 3}, {"\x18\x01", 2},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct Outcome_ o = convert_bytes((const uint8_t *) cases[i].bytes, cases[i].size);

                assert_int_equal(o.r, REFUSE_INVALID_ARGUMENT);
                finish(&o);
        }
}

/* Two bytes each, up to 64 of memory: the classic of protobuf. */
static void many_empty_entries_are_refused(void **state) {
        size_t n = (size_t) 1 << 20;
        uint8_t *bytes _cleanup_free_ = malloc(2 * n);
        struct Outcome_ o;

        assert_non_null(bytes);
        for (size_t i = 0; i < n; i++)
                memcpy(bytes + 2 * i, "\x2a\x00", 2);
        o = convert_bytes(bytes, 2 * n);
        assert_int_equal(o.r, REFUSE_INVALID_ARGUMENT);
        assert_true(strncmp(o.refusal.field, "env[", 4) == 0);
        finish(&o);
}

static void unknown_enum_values_are_named(void **state) {
        Glovebox__V1__IdlePolicy idle = GLOVEBOX__V1__IDLE_POLICY__INIT;
        Message m = MESSAGE_INIT;
        struct Outcome_ o;

        m.contract = (Glovebox__V1__Contract) 77;
        o = convert(&m);
        assert_non_null(strstr(o.refusal.message, "77"));
        assert_non_null(strstr(o.refusal.message, "CONTRACT_SCRIPT (4)"));
        assert_refused(o, REFUSE_INVALID_ARGUMENT, "contract");
        m.contract = (Glovebox__V1__Contract) -1;
        assert_refused(convert(&m), REFUSE_INVALID_ARGUMENT, "contract");
        m.contract = 0;
        idle.evidence = (Glovebox__V1__Evidence) 9;
        m.idle = &idle;
        assert_refused(convert(&m), REFUSE_INVALID_ARGUMENT, "idle.evidence");
}

static void durations_are_checked(void **state) {
        static const struct {
                int64_t seconds;
                int32_t nanos;
        } wrong[] = {{-1, 0}, {0, -1}, {1, -1}, {-1, 1}, {0, 1000000000}, {INT64_C(10000000001), 0}, {INT64_MAX, 0}, {INT64_MIN, 0}, {0, INT32_MIN}};
        Google__Protobuf__Duration time = GOOGLE__PROTOBUF__DURATION__INIT;
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        Message m = MESSAGE_INIT;
        struct Outcome_ o;

        limits.cpu_time = &time;
        m.limits = &limits;
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                time.seconds = wrong[i].seconds;
                time.nanos = wrong[i].nanos;
                assert_refused(convert(&m), REFUSE_INVALID_ARGUMENT, "limits.cpu_time");
        }
        time.seconds = 0;
        time.nanos = 1;
        o = convert(&m);
        assert_int_equal(o.request.limits.cpu_time, 1);
        finish(&o);
        m.limits = NULL;
        time.seconds = -1;
        m.heartbeat_interval = &time;
        assert_refused(convert(&m), REFUSE_INVALID_ARGUMENT, "heartbeat_interval");
}

static void cpus_are_a_number(void **state) {
        const double wrong[] = {NAN, INFINITY, -INFINITY, -0.5};
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        Message m = MESSAGE_INIT;

        m.limits = &limits;
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                limits.cpus = wrong[i];
                assert_refused(convert(&m), REFUSE_INVALID_ARGUMENT, "limits.cpus");
        }
}

static void what_is_not_built_is_refused(void **state) {
        Glovebox__V1__NetworkPolicy network = GLOVEBOX__V1__NETWORK_POLICY__INIT;
        Glovebox__V1__Mount mount = GLOVEBOX__V1__MOUNT__INIT, *mounts[] = {&mount};
        char *texts[] = {(char *) "x"};
        Message m = MESSAGE_INIT;

#define CHECK(set, unset, field)                                        \
        set;                                                            \
        assert_refused(convert(&m), REFUSE_UNIMPLEMENTED, field);       \
        unset
        CHECK(m.session_id = texts[0], m.session_id = NULL, "session_id");
        CHECK(m.isolation = texts[0], m.isolation = NULL, "isolation");
        CHECK((m.packages = texts, m.n_packages = 1), m.n_packages = 0, "packages");
        CHECK((m.mounts = mounts, m.n_mounts = 1), m.n_mounts = 0, "mounts");
        CHECK(m.network = &network, m.network = NULL, "network");
#undef CHECK
}

static void native_isolation_is_built(void **state) {
        Message m = MESSAGE_INIT;
        struct Outcome_ o;

        m.isolation = (char *) "native";
        m.contract = GLOVEBOX__V1__CONTRACT__CONTRACT_SCRIPT;
        o = convert(&m);
        assert_int_equal(o.r, 0);
        finish(&o);
}

static void the_budget_holds(void **state) {
        struct Budget *b = budget_new(1000);
        uint8_t bytes[602] = {0x1a, 0xd7, 0x04}; /* code of 599 bytes */
        struct Parcel *first = NULL, *second = NULL;
        struct Refusal refusal;

        memset(bytes + 3, 'x', sizeof(bytes) - 3);
        assert_int_equal(parcel_new(b, TYPE, bytes, sizeof(bytes), &first, &refusal), 0);
        assert_int_equal(parcel_new(b, TYPE, bytes, sizeof(bytes), &second, &refusal), REFUSE_RESOURCE_EXHAUSTED);
        assert_true(refusal.retry_after > 0);
        assert_null(second);
        budget_leave(b); /* lives on until the last parcel goes */
        parcel_free(first);
}

RUN(T(a_full_request_arrives_whole), T(an_empty_request_has_only_defaults), T(text_is_text), T(malformed_bytes_are_refused),
    T(many_empty_entries_are_refused), T(unknown_enum_values_are_named), T(durations_are_checked), T(cpus_are_a_number),
    T(what_is_not_built_is_refused), T(native_isolation_is_built), T(the_budget_holds))
