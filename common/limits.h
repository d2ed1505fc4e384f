/* The limits of an execution: one table with name, default, cap and bounds of each, used by config, admission and spawner. */
#pragma once

#include <stdint.h>

#include "common/util.h"

enum Evidence {
        EVIDENCE_UNSET,
        EVIDENCE_OUTPUT_AND_CPU,
        EVIDENCE_OUTPUT,
};

/* 0 = not set. */
struct Limits {
        usec_t timeout;
        usec_t cpu_time; /* stays 0 = off when nobody sets it */
        uint64_t memory_bytes;
        double cpus;
        uint64_t max_processes;
        uint64_t output_bytes;
        uint64_t workspace_bytes;
        uint64_t workspace_inodes;
        uint64_t value_bytes;
        uint64_t content_bytes;
};

struct IdlePolicy {
        usec_t timeout; /* 0 = off */
        usec_t grace;
        enum Evidence evidence;
};

enum LimitKind {
        LIMIT_TIME,   /* usec_t */
        LIMIT_BYTES,  /* uint64_t */
        LIMIT_COUNT,  /* uint64_t */
        LIMIT_CORES,  /* double */
};

struct LimitInfo {
        const char *field;      /* as in the proto: "memory_bytes" */
        const char *key;        /* as in config and flags: "memory" */
        const char *controller; /* cgroup controller that enforces it: "memory", "cpu", "pids"; NULL = always enforced. What has one is a share of
                                   the machine, and can be bounded for all executions of a caller together */
        enum LimitKind kind;
        size_t offset;          /* in struct Limits */
        double standard;        /* the shipped default; 0 = off */
        double cap;             /* the shipped cap */
        double minimum;
        double maximum;         /* what the kernel takes at most, so that no cap is above it; 0 = no such bound */
};

/* In the order of the fields of struct Limits; the last has field = NULL. */
extern const struct LimitInfo limit_table[];

double limit_get(const struct Limits *l, const struct LimitInfo *info);
void limit_set(struct Limits *l, const struct LimitInfo *info, double value);
/* "30 s", "512 MiB", "1.5 cores", "128": for error texts; returns buffer. */
const char *limit_format(const struct LimitInfo *info, double value, char *buffer, size_t size);

struct Limits limits_standard(void);
struct Limits limits_caps(void);
/* None above the caps; a cap that is not set bounds nothing. */
void limits_clamp(struct Limits *l, const struct Limits *caps);
/* Takes from `over` what is set there. */
void limits_overlay(struct Limits *l, const struct Limits *over);

/* "10s", "500ms", "1.5m", "2h" (a number alone: seconds); "64K", "1.5G" (1024), a number alone: bytes. -EINVAL, -ERANGE. */
int parse_time(const char *s, usec_t *ret);
int parse_bytes(const char *s, uint64_t *ret);
int parse_limit(const struct LimitInfo *info, const char *s, double *ret);
/* "output", "output-and-cpu". */
int parse_evidence(const char *s, enum Evidence *ret);
