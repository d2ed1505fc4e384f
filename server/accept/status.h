/* How a call ends on the wire: status code, message, and details for programs in the trailers. */
#pragma once

#include <grpc/grpc.h>

#include "server/refusal.h"

struct Status {
        grpc_status_code code;
        grpc_slice message;
        grpc_metadata trailers[2];
        size_t n_trailers;
};

/* refusal NULL or of code 0: OK. */
void status_init(struct Status *s, const struct Refusal *refusal);
void status_done(struct Status *s);
