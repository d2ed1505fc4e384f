/* GetExecution: one execution as it stands. */
#include "server/accept/method.h"
#include "server/accept/render.h"

#include "glovebox/v1/execution.pb-c.h"

void method_get_execution(struct Call *c, struct Parcel *p) {
        struct Parcel *parcel _cleanup_(parcel_freep) = p;
        const Glovebox__V1__GetExecutionRequest *m = (const Glovebox__V1__GetExecutionRequest *) p->message;
        struct Refusal refusal = {};
        struct Execution *e;

        if (isempty(m->execution_id))
                refuse(&refusal, REFUSE_INVALID_ARGUMENT, "execution_id", "is empty; it is in the `accepted` event and in the result");
        else
                (void) execution_find(c->accept->executions, &c->caller, m->execution_id, &e, &refusal);
        if (refusal.code != REFUSE_NOTHING)
                call_refuse(c, &refusal);
        else
                call_finish(c, render_execution(e), NULL);
}
