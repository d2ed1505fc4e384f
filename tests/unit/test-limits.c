/* common/limits.c */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "common/limits.h"

static const struct LimitInfo *find(const char *field) {
        for (const struct LimitInfo *info = limit_table; info->field; info++)
                if (streq(info->field, field))
                        return info;
        fail_msg("no limit %s", field);
        return NULL;
}

/* A bound that is not in the table would be enforced by nobody. */
static void table_covers_the_struct(void **state) {
        size_t n = 0;

        for (const struct LimitInfo *info = limit_table; info->field; info++, n++) {
                assert_int_equal(info->offset, n * 8);
                assert_true(info->cap >= info->minimum && info->minimum > 0);
                assert_true(info->standard == 0 || (info->standard >= info->minimum && info->standard <= info->cap));
        }
        assert_int_equal(n * 8, sizeof(struct Limits));
}

static void standard_and_caps(void **state) {
        struct Limits l = limits_standard(), caps = limits_caps();

        assert_int_equal(l.timeout, 30 * USEC_PER_SEC);
        assert_int_equal(l.cpu_time, 0);
        assert_int_equal(l.memory_bytes, 512 * MIB);
        assert_true(l.cpus == 1);
        assert_int_equal(l.max_processes, 128);
        assert_int_equal(l.output_bytes, 8 * MIB);
        assert_int_equal(caps.timeout, 3600 * USEC_PER_SEC);
        assert_int_equal(caps.output_bytes, GIB);
        assert_true(caps.cpus == 2);
}

static void overlay_takes_only_what_is_set(void **state) {
        struct Limits l = limits_standard();
        const struct Limits over = { .cpus = 0.5, .cpu_time = 7 };

        limits_overlay(&l, &over);
        assert_true(l.cpus == 0.5);
        assert_int_equal(l.cpu_time, 7);
        assert_int_equal(l.timeout, 30 * USEC_PER_SEC);
}

static void get_and_set(void **state) {
        struct Limits l = {};

        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                limit_set(&l, info, info->cap);
                assert_true(limit_get(&l, info) == info->cap);
        }
        assert_int_equal(l.content_bytes, 256 * MIB);
}

static void formats(void **state) {
        static const struct {
                const char *field;
                double value;
                const char *text;
        } cases[] = {
                { "timeout", 30e6, "30 s" },         { "timeout", 1500e3, "1.5 s" },       { "timeout", 50e3, "50 ms" },
                { "timeout", 7, "7 us" },            { "timeout", 0, "0 us" },             { "memory_bytes", 512.0 * MIB, "512 MiB" },
                { "memory_bytes", 4.0 * GIB, "4 GiB" }, { "memory_bytes", 1000, "1000 bytes" }, { "cpus", 1.5, "1.5 cores" },
                { "cpus", 1, "1 core" },             { "max_processes", 128, "128" },
        };
        char buffer[40];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_string_equal(limit_format(find(cases[i].field), cases[i].value, buffer, sizeof(buffer)), cases[i].text);
}

static void times(void **state) {
        static const struct {
                const char *text;
                int r;
                usec_t value;
        } cases[] = {
                { "10s", 0, 10000000 },  { "500ms", 0, 500000 }, { "1.5m", 0, 90000000 },    { "2h", 0, 7200000000 }, { "30", 0, 30000000 },
                { "0.001", 0, 1000 },    { "0", 0, 0 },          { "7us", 0, 7 },            { "", -EINVAL },         { "s", -EINVAL },
                { "-1s", -EINVAL },      { "+1s", -EINVAL },     { " 1s", -EINVAL },         { "1 s", -EINVAL },      { "1.s", -EINVAL },
                { ".5s", -EINVAL },      { "1e3", -EINVAL },     { "0x10", -EINVAL },        { "inf", -EINVAL },      { "nan", -EINVAL },
                { "1d", -EINVAL },       { "1s1", -EINVAL },     { "99999999999h", -ERANGE }, { "9999999999999999999999999999999999999", -ERANGE },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                usec_t value = 42;
                assert_int_equal(parse_time(cases[i].text, &value), cases[i].r);
                assert_int_equal(value, cases[i].r < 0 ? 42 : cases[i].value);
        }
}

static void sizes(void **state) {
        static const struct {
                const char *text;
                int r;
                uint64_t value;
        } cases[] = {
                { "65536", 0, 65536 }, { "64K", 0, 65536 },   { "1.5G", 0, 1610612736 }, { "2M", 0, 2097152 }, { "2MiB", 0, 2097152 },
                { "0", 0, 0 },         { "1T", -EINVAL },     { "K", -EINVAL },          { "-1", -EINVAL },    { "1KB", -EINVAL },
                { "1K ", -EINVAL },    { "99999999999G", -ERANGE },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint64_t value = 42;
                assert_int_equal(parse_bytes(cases[i].text, &value), cases[i].r);
                assert_int_equal(value, cases[i].r < 0 ? 42 : cases[i].value);
        }
}

static void limits_by_kind(void **state) {
        double value = 42;

        assert_ok(parse_limit(find("cpus"), "0.5", &value));
        assert_true(value == 0.5);
        assert_ok(parse_limit(find("memory_bytes"), "1G", &value));
        assert_true(value == 1.0 * GIB);
        assert_ok(parse_limit(find("timeout"), "2", &value));
        assert_true(value == 2e6);
        assert_error(parse_limit(find("max_processes"), "1.5", &value), EINVAL);
        assert_error(parse_limit(find("max_processes"), "10K", &value), EINVAL);
        assert_error(parse_limit(find("max_processes"), "99999999999999999999", &value), ERANGE);
        assert_error(parse_limit(find("cpus"), "1s", &value), EINVAL);
        assert_true(value == 2e6);
}

static void evidence(void **state) {
        enum Evidence e = EVIDENCE_UNSET;

        assert_error(parse_evidence("cpu", &e), EINVAL);
        assert_int_equal(e, EVIDENCE_UNSET);
        assert_ok(parse_evidence("output", &e));
        assert_int_equal(e, EVIDENCE_OUTPUT);
        assert_ok(parse_evidence("output-and-cpu", &e));
        assert_int_equal(e, EVIDENCE_OUTPUT_AND_CPU);
}

RUN(T(table_covers_the_struct), T(standard_and_caps), T(overlay_takes_only_what_is_set), T(get_and_set), T(formats), T(times), T(sizes),
    T(limits_by_kind), T(evidence))
