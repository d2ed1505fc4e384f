/* Plain C becomes messages of the wire. */
#pragma once

#include <sys/uio.h>

#include "server/accept/room.h"

#define REPLY_MAX (3 * MIB + 512 * KIB) /* below the 4 MiB that gRPC clients take unless told otherwise */

/* An event of an execution as ExecutionEvent. */
grpc_byte_buffer *render_event(struct Executions *x, struct Execution *e, const struct Event *event);
/* Its result and what it printed as ExecuteResponse. */
grpc_byte_buffer *render_response(struct Execution *e, const struct Result *result, const struct iovec *out, const struct iovec *err);
grpc_byte_buffer *render_execution(struct Execution *e);
/* NULL when the page would be larger than REPLY_MAX. */
grpc_byte_buffer *render_page(struct Execution *const *executions, size_t n, const char *next_page_token);
grpc_byte_buffer *render_info(struct Executions *x, const struct Caller *caller);
