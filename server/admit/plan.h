/* What a request comes to once it has been validated against the operator's config: every default filled in. */
#pragma once

#include "common/config.h"
#include "server/refusal.h"
#include "server/request.h"

#define PATH_BYTES_MAX 4096

struct Plan {
        const struct Runtime *runtime; /* of the config; do not keep */
        char profile[65];
        struct Limits limits;
        struct IdlePolicy idle;
        usec_t heartbeat_interval;
        char *working_dir; /* absolute */
        bool fresh;        /* its env has something that an interpreter which already runs would not see */
};

void plan_done(struct Plan *p);

/* Checks every field. not_enforced: names of limits (keys) whose controller is waived; a caller may not set those.
 * 0, a negative errno, or a positive RefusalCode with *refusal naming the field. */
int plan_make(const struct Config *config, char *const *not_enforced, const struct Request *request, struct Plan *ret, struct Refusal *refusal);
