/* Records of the job pipe (outside → cell) and of the report pipe (cell → outside).
 *
 * A record is an 8-byte header (type and length, both 32-bit little-endian) and `length` bytes. Simple enough that a runner in
 * any language reads it with its standard library. The spawner writes the head (from its runtime config), then the server the
 * body; glovebox-start reads up to JOB_END, and a runner the rest, up to JOB_RUNNER_END. Where the head says JOB_WAIT, all this is
 * started before there is a body. Then a runner, which is started (or forked) at JOB_HEAD_END, does glovebox-start's part of the body,
 * too. A record longer than JOB_RECORD_MAX, one of an unknown type, or end of file before JOB_END ends the start with an error. */
#pragma once

#include "common/util.h"

#define JOB_HEADER_SIZE 8
#define JOB_RECORD_MAX (1 * MIB)
#define JOB_BODY_MAX (12 * KIB)      /* of one that the spawner writes: fits into the pipe behind the head */
#define JOB_HEAD_MAX (33 * KIB)      /* all of the head: fits into a pipe before anyone reads */
#define JOB_HEAD_CONFIG_MAX (32 * KIB) /* of it, what a runtime's file decides */
#define REPORT_RECORD_MAX (4 * KIB)

enum JobType {
        /* head, by the spawner */
        JOB_EXEC = 1,         /* absolute path of the interpreter */
        JOB_RUNTIME_ARG,      /* one argument; "{code}" is replaced by the code's path */
        JOB_ENV,              /* NAME=VALUE; a later one replaces an earlier one. Also in the body */
        JOB_CODE_NAME,        /* name of the code's file in the workspace; absent: there is no code */
        JOB_RUNNER,           /* empty: the program is a runner. It reads the rest of the job itself, and writes the value pipe */
        JOB_HEAD_END,
        /* body, by the server */
        JOB_ARG,              /* one argument, after the runtime's */
        JOB_CODE,             /* the code; in pieces of at most JOB_RECORD_MAX, joined */
        JOB_FILE,             /* one byte of flags (1 = executable), then a path relative to /workspace: opens the file */
        JOB_FILE_DATA,        /* bytes appended to the last JOB_FILE */
        JOB_WORKING_DIR,      /* absolute path */
        JOB_TIMEZONE,         /* IANA name */
        JOB_END,              /* of what glovebox-start reads */
        /* for the runner, on descriptor 3 */
        JOB_CONTRACT,         /* one byte: glovebox.v1.Contract, never 0 */
        JOB_INPUTS,           /* inputs_json, in pieces; absent: none were given */
        JOB_VARIABLES,        /* variables_json, in pieces */
        JOB_IMPORT_RESTRICT,  /* empty: only the modules of JOB_IMPORT_ALLOWED may be imported */
        JOB_IMPORT_ALLOWED,   /* name of a module */
        JOB_VALUE_MAX,        /* 64-bit little-endian: bytes of the value's JSON */
        JOB_CONTENT_MAX,      /* 64-bit: bytes of all displays */
        JOB_RUNNER_END,
        /* head: */
        JOB_READ_ONLY,        /* empty: the program may not write to the workspace */
        JOB_WAIT,             /* empty: a runner is started now, called with --wait={code's path} instead of {code}, says REPORT_READY once it is
                                 warm, and takes the body when it comes. Without one glovebox-start waits so, and then starts the program */
        /* by the spawner after the head of a job that waited, before the body; beside JOB_ENV for what has changed since: */
        JOB_MERGE_STREAMS,    /* empty: what goes to stderr goes to stdout */
        JOB_TYPE_MAX_,
};

enum ReportType {
        REPORT_FAILED = 1,    /* errno (32-bit little-endian), then the step's name: what went wrong before the program started */
        REPORT_FILE,          /* a stamp (common/collect.h) of the code's file, then of each JOB_FILE, in their order: as they were written */
        REPORT_READY,         /* empty: it waits for a job (JOB_WAIT). For the spawner, before the server has the pipe */
        REPORT_TYPE_MAX_,
};

static inline void job_put_header(uint8_t out[JOB_HEADER_SIZE], uint32_t type, uint32_t length) {
        for (int i = 0; i < 4; i++) {
                out[i] = (uint8_t) (type >> (8 * i));
                out[4 + i] = (uint8_t) (length >> (8 * i));
        }
}

/* Numbers of 64 bits, in any record. Returns what is behind it. */
static inline uint8_t *job_put_u64(uint8_t *out, uint64_t n) {
        for (int i = 0; i < 8; i++)
                out[i] = (uint8_t) (n >> (8 * i));
        return out + 8;
}

static inline uint32_t job_get_u32(const uint8_t *in) {
        return (uint32_t) in[0] | (uint32_t) in[1] << 8 | (uint32_t) in[2] << 16 | (uint32_t) in[3] << 24;
}

static inline uint64_t job_get_u64(const uint8_t *in) {
        return (uint64_t) job_get_u32(in) | (uint64_t) job_get_u32(in + 4) << 32;
}
