/* One call: its request, its answers one at a time, its status. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "client/channel.h"

struct Rpc;

/* deadline: from now; USEC_INFINITY for none. Packs the request, which need not live on. */
int rpc_start(struct Channel *c, const char *method, const ProtobufCMessage *request, usec_t deadline, struct Rpc **ret);
struct Rpc *rpc_free(struct Rpc *rpc);
DEFINE_CLEANUP(struct Rpc *, rpc_free)

/* The next answer: 1 with *ret, 0 at the end (then look at rpc_is_ok), -ETIME when `until` (monotonic) came first. Nothing is fetched
 * ahead: whoever does not ask slows the server down. */
int rpc_next(struct Rpc *rpc, const ProtobufCMessageDescriptor *type, usec_t until, ProtobufCMessage **ret);
/* From any thread, while the call lives. */
void rpc_cancel(struct Rpc *rpc);
/* The status has come. */
bool rpc_is_over(struct Rpc *rpc);

bool rpc_is_ok(const struct Rpc *rpc);
bool rpc_is_cancelled(const struct Rpc *rpc);
/* The connection broke in the middle of the call, and what became of the request is not known. */
bool rpc_is_lost(const struct Rpc *rpc);
/* What was said of a call that failed; lives as long as the call. */
const char *rpc_reason(const struct Rpc *rpc);
/* "INVALID_ARGUMENT" */
const char *rpc_code_name(int code);
/* Says on standard error why the call failed and what to do; subject: an execution's id or NULL. Returns STATUS_FAULT. */
int rpc_fault(const struct Rpc *rpc, const char *subject);

/* Request and single answer, within 20 s. 0 with *ret; STATUS_FAULT after rpc_fault; STATUS_GAVE_UP when the channel's user wanted to
 * leave. */
int rpc_unary(struct Channel *c, const char *method, const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
              const char *subject, ProtobufCMessage **ret);
