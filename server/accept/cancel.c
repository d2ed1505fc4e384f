/* Cancel: notes the wish, answers the state found. */
#include "server/accept/method.h"

#include "glovebox/v1/execution.pb-c.h"

void method_cancel(struct Call *c, struct Parcel *p) {
        struct Parcel *parcel _cleanup_(parcel_freep) = p;
        const Glovebox__V1__CancelRequest *m = (const Glovebox__V1__CancelRequest *) p->message;
        Glovebox__V1__CancelResponse response = GLOVEBOX__V1__CANCEL_RESPONSE__INIT;
        struct Refusal refusal = {};
        enum ExecutionState state;

        if (isempty(m->execution_id))
                refuse(&refusal, REFUSE_INVALID_ARGUMENT, "execution_id", "is empty; it is in the `accepted` event and in the result");
        else
                (void) execution_cancel(c->accept->executions, &c->caller, m->execution_id, &state, &refusal);
        if (refusal.code != REFUSE_NOTHING) {
                call_refuse(c, &refusal);
                return;
        }
        response.state = (Glovebox__V1__State) state;
        call_finish(c, message_pack(&response.base), NULL);
}
