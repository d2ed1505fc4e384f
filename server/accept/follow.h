/* What Execute and ExecuteStream share: a call that started an execution and follows it with a cursor. */
#pragma once

#include "server/accept/call.h"
#include "server/accept/message.h"

/* The first field of the method's own state. */
struct Follow {
        struct Call *call;
        struct Execution *execution;
        struct Cursor *cursor;
};

/* Makes the execution that the parcel (taken) asks for, and the call's state of this size, zeroed; then go_on(state), and again whenever the
 * cursor may have something. Refuses the call when that fails. */
void follow(struct Call *c, struct Parcel *p, size_t size, void (*go_on)(void *state));
/* The client has gone. */
void follow_gone(struct Call *c);
/* Frees the state. */
void follow_done(struct Call *c);
