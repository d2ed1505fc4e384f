/* The audit: one structured record when an execution is accepted and one when it has ended. To the journal, and as JSON lines to a file
 * when the operator wants one. Never a value of a variable or a secret; code as a hash unless the operator asks for all of it. */
#pragma once

#include "common/config.h"
#include "server/event.h"
#include "server/request.h"

struct Audit {
        int fd; /* of the file; -EBADF = none */
        bool journal;
        bool torn; /* the last line of the file is not complete */
        enum AuditCode code;
};

#define AUDIT_NULL { .fd = -EBADF }

struct AuditOutput {
        const char *name; /* "stdout" */
        uint64_t size;
        char sha256[65];
        char head[260], tail[260]; /* escaped with audit_escape */
};

struct AuditRecord {
        const char *id, *request_id, *caller, *runtime, *profile, *code_sha256;
        pid_t caller_pid;
        const struct Limits *limits;
        const struct IdlePolicy *idle;
        const struct Request *request;  /* of the start record: what was sent */
        const struct Result *result;    /* of the end record */
        unsigned start;                 /* of the end record: a number of glovebox.v1.Start; 0 = it never started */
        const char *const *label_keys, *const *label_values;
        size_t n_labels;
        const struct AuditOutput *outputs; /* of the end record */
        size_t n_outputs;
        const char *cancelled_by; /* of the end record: the caller or operator who did */
        const char *refused; /* of the end record, when it ended without a result: why */
};

/* Opens (again) what the config names. */
int audit_open(struct Audit *a, const struct Config *config);
/* Somebody gets the records. */
bool audit_is_on(const struct Audit *a);
void audit_close(struct Audit *a);
void audit_start(struct Audit *a, const struct AuditRecord *record);
void audit_end(struct Audit *a, const struct AuditRecord *record);
/* Printable ASCII as it is, the rest as \xNN. Returns out, cut to fit. */
const char *audit_escape(const uint8_t *data, size_t size, char *out, size_t out_size);
