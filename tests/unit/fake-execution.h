/* Stands in for server/execution.c where only the wire is tested: executions that tell a canned story. */
#pragma once

#include "server/execution.h"

/* How the story goes is told by the request's code:
 *   "bytes N CHUNK"  N bytes on stdout in pieces of CHUNK, then COMPLETED
 *   "both N"         N bytes on each stream
 *   "wait"           nothing until it is cancelled
 *   "refuse CODE"    execution_new refuses with this code
 *   "late CODE"      accepted, then refused after all
 *   anything else    the code itself on stdout, "oops" on stderr, then FAILED with status 3 */
struct Executions *fake_executions(sd_event *event, const struct Config *config);
void fake_set_ready(struct Executions *x, bool ready);
size_t fake_running(const struct Executions *x);
size_t fake_cancelled(const struct Executions *x);
