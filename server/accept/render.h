/* Plain C becomes messages of the wire. */
#pragma once

#include <sys/uio.h>

#include "server/accept/parts.h"
#include "server/accept/room.h"

#define VALUE_IN_REPLY (2 * MIB) /* beside an error and a list of files of the most there may be */
#define REPLY_MAX (3 * MIB + 512 * KIB) /* below the 4 MiB that gRPC clients take unless told otherwise */

/* An event of an execution as ExecutionEvent. */
grpc_byte_buffer *render_event(struct Executions *x, struct Execution *e, const struct Event *event);
/* Bytes of an ExecuteResponse besides what it printed and its parts. */
size_t render_response_size(struct Execution *e, const struct Result *result);
/* Its result, what it printed, and its parts as ExecuteResponse. */
grpc_byte_buffer *render_response(struct Execution *e, const struct Result *result, const struct iovec *out, const struct iovec *err,
                                  const struct Parts *parts);
grpc_byte_buffer *render_execution(struct Execution *e);
/* NULL when the page would be larger than REPLY_MAX. */
grpc_byte_buffer *render_page(struct Execution *const *executions, size_t n, const char *next_page_token);
grpc_byte_buffer *render_info(struct Executions *x, const struct Caller *caller);
