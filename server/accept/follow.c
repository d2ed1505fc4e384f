/* A call that started an execution and follows it with a cursor. */
#include "server/accept/follow.h"

#include "server/accept/convert.h"

/* 0 or a RefusalCode. The state is the call's as soon as there is an execution that has to hear of the call's end. */
static int follow_start(struct Call *c, struct Parcel *p, size_t size, void (*go_on)(void *state), struct Refusal *refusal) {
        struct Request request;
        struct Follow *f;
        int r;

        r = convert_request(p, &request, refusal);
        if (r != 0)
                return r;
        f = calloc(1, size);
        if (!f) {
                request_done(&request);
                return refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "the server has no memory left; try again later");
        }
        f->call = c;
        r = execution_new(c->accept->executions, &c->caller, &request, &f->execution, refusal);
        if (r != 0) {
                free(f);
                return r;
        }
        c->state = f;
        r = cursor_new(f->execution, true, go_on, f, &f->cursor);
        if (r < 0)
                return refuse(refusal, REFUSE_INTERNAL, NULL, "the server could not follow the execution: %s", strerror(-r));
        return 0;
}

void follow(struct Call *c, struct Parcel *p, size_t size, void (*go_on)(void *state)) {
        struct Refusal refusal = {};

        if (follow_start(c, p, size, go_on, &refusal) != 0)
                call_refuse(c, &refusal);
        else
                go_on(c->state);
}

void follow_gone(struct Call *c) {
        struct Follow *f = c->state;

        execution_client_gone(f->execution);
}

void follow_done(struct Call *c) {
        struct Follow *f = c->state;

        execution_client_gone(f->execution);
        cursor_free(f->cursor);
        free(f);
}
