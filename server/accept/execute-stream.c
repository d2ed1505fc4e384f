/* ExecuteStream: one cursor, one message under way. */
#include "server/accept/follow.h"
#include "server/accept/method.h"
#include "server/accept/render.h"

/* The next event, unless one is still on its way to the client. */
static void watched_go_on(void *state) {
        struct Follow *f = state;
        struct Call *c = f->call;
        grpc_byte_buffer *message;
        struct Event event;

        if (c->gone || c->writing || c->finishing)
                return;
        int r = cursor_next(f->cursor, &event);
        if (r == -EREMOTEIO)
                call_refuse(c, execution_refusal(f->execution));
        if (r <= 0)
                return;
        message = render_event(c->accept->executions, f->execution, &event);
        if (event.kind == EVENT_RESULT)
                call_finish(c, message, NULL);
        else
                call_send(c, message);
}

void method_execute_stream(struct Call *c, struct Parcel *p) {
        follow(c, p, sizeof(struct Follow), watched_go_on);
}

void method_execute_stream_written(struct Call *c) {
        watched_go_on(c->state);
}

/* A program may be held back by its reader for as long as its own limits let it. Once it has ended nothing else would bound the wait, and an
 * execution whose output nobody takes would keep its place for ever. */
bool method_execute_stream_stalled(struct Call *c) {
        struct Follow *f = c->state;
        struct ExecutionView v = {};

        execution_view(f->execution, &v);
        return v.state < EXECUTION_DRAINING;
}
