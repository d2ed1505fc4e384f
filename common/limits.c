/* The table of limits, and numbers with units as people write them. */
#include "common/limits.h"

#include <stdio.h>

#define SECONDS(n) ((double) (n) * 1e6)
#define OFFSET(field) offsetof(struct Limits, field)
#define PROCESSORS_MAX 8192     /* NR_CPUS of the largest kernels */
#define PROCESSES_MAX (4 << 20) /* PID_MAX_LIMIT: the pids controller refuses more */

const struct LimitInfo limit_table[] = {
        { "timeout", "timeout", NULL, LIMIT_TIME, OFFSET(timeout), SECONDS(30), SECONDS(3600), SECONDS(0.001) },
        { "cpu_time", "cpu-time", NULL, LIMIT_TIME, OFFSET(cpu_time), 0, SECONDS(3600), SECONDS(0.001) },
        { "memory_bytes", "memory", "memory", LIMIT_BYTES, OFFSET(memory_bytes), 512 * MIB, 4 * GIB, 16 * MIB },
        { "cpus", "cpus", "cpu", LIMIT_CORES, OFFSET(cpus), 1, 2, 0.01, PROCESSORS_MAX },
        { "max_processes", "max-processes", "pids", LIMIT_COUNT, OFFSET(max_processes), 128, 1024, 1, PROCESSES_MAX },
        { "output_bytes", "output-bytes", NULL, LIMIT_BYTES, OFFSET(output_bytes), 8 * MIB, 1 * GIB, 1 },
        { "workspace_bytes", "workspace-bytes", NULL, LIMIT_BYTES, OFFSET(workspace_bytes), 256 * MIB, 4 * GIB, 64 * KIB },
        { "workspace_inodes", "workspace-inodes", NULL, LIMIT_COUNT, OFFSET(workspace_inodes), 65536, 65536, 64 },
        { "value_bytes", "value-bytes", NULL, LIMIT_BYTES, OFFSET(value_bytes), 1 * MIB, 16 * MIB, 1 },
        { "content_bytes", "content-bytes", NULL, LIMIT_BYTES, OFFSET(content_bytes), 16 * MIB, 256 * MIB, 1 },
        {},
};

double limit_get(const struct Limits *l, const struct LimitInfo *info) {
        const char *field = (const char *) l + info->offset;

        return info->kind == LIMIT_CORES ? *(const double *) field : (double) *(const uint64_t *) field;
}

void limit_set(struct Limits *l, const struct LimitInfo *info, double value) {
        char *field = (char *) l + info->offset;

        if (info->kind == LIMIT_CORES)
                *(double *) field = value;
        else
                *(uint64_t *) field = (uint64_t) value;
}

struct Unit {
        const char *name;
        double size;
};

static const char *format_units(const struct Unit *units, size_t n, double value, char *buffer, size_t size) {
        size_t i = 0;

        while (i + 1 < n && value < units[i].size)
                i++;
        (void) snprintf(buffer, size, "%.10g %s", value / units[i].size, units[i].name);
        return buffer;
}

const char *limit_format(const struct LimitInfo *info, double value, char *buffer, size_t size) {
        /* No minutes and hours: bounds are told in the unit in which most people type them. */
        static const struct Unit times[] = { { "s", 1e6 }, { "ms", 1e3 }, { "us", 1 } };
        static const struct Unit sizes[] = { { "GiB", (double) GIB }, { "MiB", (double) MIB }, { "KiB", (double) KIB }, { "bytes", 1 } };

        switch (info->kind) {
        case LIMIT_TIME:
                return format_units(times, ELEMENTSOF(times), value, buffer, size);
        case LIMIT_BYTES:
                return format_units(sizes, ELEMENTSOF(sizes), value, buffer, size);
        case LIMIT_CORES:
                (void) snprintf(buffer, size, "%.10g %s", value, value == 1 ? "core" : "cores");
                return buffer;
        case LIMIT_COUNT:
        default:
                (void) snprintf(buffer, size, "%.0f", value);
                return buffer;
        }
}

struct Limits limits_standard(void) {
        struct Limits l = {};

        for (const struct LimitInfo *info = limit_table; info->field; info++)
                limit_set(&l, info, info->standard);
        return l;
}

struct Limits limits_caps(void) {
        struct Limits l = {};

        for (const struct LimitInfo *info = limit_table; info->field; info++)
                limit_set(&l, info, info->cap);
        return l;
}

void limits_clamp(struct Limits *l, const struct Limits *caps) {
        for (const struct LimitInfo *info = limit_table; info->field; info++)
                if (limit_get(caps, info) > 0)
                        limit_set(l, info, MIN(limit_get(l, info), limit_get(caps, info)));
}

void limits_overlay(struct Limits *l, const struct Limits *over) {
        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                double value = limit_get(over, info);
                if (value > 0)
                        limit_set(l, info, value);
        }
}

/* A plain decimal number ("1.5"; no sign, exponent, hexadecimal or infinity) that may be followed by something: *ret_rest. */
static int parse_decimal(const char *s, double *ret, const char **ret_rest) {
        size_t digits = strspn(s, "0123456789");
        size_t length = digits;
        char copy[32];

        if (digits == 0)
                return -EINVAL;
        if (s[length] == '.') {
                size_t fraction = strspn(s + length + 1, "0123456789");
                if (fraction == 0)
                        return -EINVAL;
                length += 1 + fraction;
        }
        if (length >= sizeof(copy))
                return -ERANGE;
        memcpy(copy, s, length);
        copy[length] = '\0';
        *ret = strtod(copy, NULL);
        *ret_rest = s + length;
        return 0;
}

/* Above 2^53 a double no longer holds every integer; nothing here needs more. */
#define NUMBER_MAX 9007199254740992.0

static int parse_units(const char *s, const struct Unit *units, size_t n, uint64_t *ret) {
        const char *rest;
        double number;
        int r;

        r = parse_decimal(s, &number, &rest);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                if (!streq(rest, units[i].name))
                        continue;
                number = number * units[i].size + 0.5;
                if (number > NUMBER_MAX)
                        return -ERANGE;
                *ret = (uint64_t) number;
                return 0;
        }
        return -EINVAL;
}

int parse_time(const char *s, usec_t *ret) {
        static const struct Unit units[] = {
                { "", 1e6 }, { "us", 1 }, { "ms", 1e3 }, { "s", 1e6 }, { "m", 60e6 }, { "min", 60e6 }, { "h", 3600e6 },
        };

        return parse_units(s, units, ELEMENTSOF(units), ret);
}

int parse_bytes(const char *s, uint64_t *ret) {
        static const struct Unit units[] = {
                { "", 1 },           { "B", 1 },           { "K", (double) KIB },   { "KiB", (double) KIB }, { "k", (double) KIB },
                { "M", (double) MIB }, { "MiB", (double) MIB }, { "G", (double) GIB }, { "GiB", (double) GIB },
        };

        return parse_units(s, units, ELEMENTSOF(units), ret);
}

int parse_limit(const struct LimitInfo *info, const char *s, double *ret) {
        const char *rest;
        uint64_t number;
        double value;
        int r;

        if (info->kind == LIMIT_TIME || info->kind == LIMIT_BYTES) {
                r = info->kind == LIMIT_TIME ? parse_time(s, &number) : parse_bytes(s, &number);
                if (r < 0)
                        return r;
                *ret = (double) number;
                return 0;
        }
        r = parse_decimal(s, &value, &rest);
        if (r < 0)
                return r;
        if (*rest || (info->kind == LIMIT_COUNT && strchr(s, '.')))
                return -EINVAL;
        if (value > NUMBER_MAX)
                return -ERANGE;
        *ret = value;
        return 0;
}

int parse_evidence(const char *s, enum Evidence *ret) {
        if (streq(s, "output-and-cpu"))
                *ret = EVIDENCE_OUTPUT_AND_CPU;
        else if (streq(s, "output"))
                *ret = EVIDENCE_OUTPUT;
        else
                return -EINVAL;
        return 0;
}
