/* ExecuteStream: one cursor, one message under way. */
#include "common/log.h"
#include "server/accept/convert.h"
#include "server/accept/method.h"
#include "server/accept/render.h"

struct Watched {
        struct Call *call;
        struct Execution *execution;
        struct Cursor *cursor;
};

/* The next event, unless one is still on its way to the client. */
static void watched_go_on(struct Watched *w) {
        struct Call *c = w->call;
        grpc_byte_buffer *message;
        struct Event event;

        if (c->gone || c->writing || c->finishing)
                return;
        int r = cursor_next(w->cursor, &event);
        if (r == -EREMOTEIO)
                call_refuse(c, execution_refusal(w->execution));
        if (r <= 0)
                return;
        message = render_event(c->accept->executions, w->execution, &event);
        if (event.kind == EVENT_RESULT)
                call_finish(c, message, NULL);
        else
                call_send(c, message);
}

static void watched_on_wake(void *userdata) {
        watched_go_on(userdata);
}

static int watched_start(struct Call *c, struct Parcel *p, struct Refusal *refusal) {
        struct Watched *w;
        struct Request request;
        int r;

        r = convert_request(p, &request, refusal);
        if (r != 0)
                return r;
        w = calloc(1, sizeof(*w));
        if (!w) {
                request_done(&request);
                return refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "the server has no memory left; try again later");
        }
        w->call = c;
        r = execution_new(c->accept->executions, &c->caller, &request, &w->execution, refusal);
        if (r != 0) {
                free(w);
                return r;
        }
        c->state = w;
        r = cursor_new(w->execution, true, watched_on_wake, w, &w->cursor);
        if (r < 0)
                return refuse(refusal, REFUSE_INTERNAL, NULL, "the server could not follow the execution: %s", strerror(-r));
        return 0;
}

void method_execute_stream(struct Call *c, struct Parcel *p) {
        struct Refusal refusal = {};

        if (watched_start(c, p, &refusal) != 0)
                call_refuse(c, &refusal);
        else
                watched_go_on(c->state);
}

void method_execute_stream_written(struct Call *c) {
        watched_go_on(c->state);
}

void method_execute_stream_gone(struct Call *c) {
        struct Watched *w = c->state;

        execution_client_gone(w->execution);
}

/* A program may be held back by its reader for as long as its own limits let it. Once it has ended nothing else would bound the wait, and an
 * execution whose output nobody takes would keep its place for ever. */
bool method_execute_stream_stalled(struct Call *c) {
        struct Watched *w = c->state;
        struct ExecutionView v = {};

        execution_view(w->execution, &v);
        return v.state < EXECUTION_DRAINING;
}

void method_execute_stream_done(struct Call *c) {
        struct Watched *w = c->state;

        execution_client_gone(w->execution);
        cursor_free(w->cursor);
        free(w);
}
