/* Why a request is not done: becomes a gRPC status with details in accept/status.c. Values are gRPC's numbers. */
#pragma once

#include "common/util.h"

enum RefusalCode {
        REFUSE_NOTHING = 0,
        REFUSE_CANCELLED = 1,
        REFUSE_INVALID_ARGUMENT = 3,      /* field is set */
        REFUSE_DEADLINE_EXCEEDED = 4,
        REFUSE_NOT_FOUND = 5,
        REFUSE_ALREADY_EXISTS = 6,        /* resource is set */
        REFUSE_PERMISSION_DENIED = 7,
        REFUSE_RESOURCE_EXHAUSTED = 8,    /* retry_after is set */
        REFUSE_FAILED_PRECONDITION = 9,
        REFUSE_ABORTED = 10,
        REFUSE_OUT_OF_RANGE = 11,
        REFUSE_UNIMPLEMENTED = 12,        /* field is set */
        REFUSE_INTERNAL = 13,
        REFUSE_UNAVAILABLE = 14,          /* retry_after may be set */
        REFUSE_UNAUTHENTICATED = 16,
};

struct Refusal {
        enum RefusalCode code;
        char field[320];    /* path in the proto: "limits.timeout", "files[2].path" */
        char message[480];  /* one sentence with the value's bound and the cure; does not repeat the field's name */
        char resource[96];  /* an execution's id */
        usec_t retry_after; /* 0 = no hint */
};

/* Fills it and returns its code, so that checks can say `return refuse(r, ...)`. field may be NULL. Always valid UTF-8. */
int refuse(struct Refusal *r, enum RefusalCode code, const char *field, const char *format, ...) PRINTF_LIKE(4, 5);
