/* glovebox cancel: end executions by their ids. */
#include <glovebox/v1/execution.pb-c.h>
#include <stdio.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/rpc.h"
#include "client/verb.h"

static int cancel_one(struct Channel *channel, char *id) {
        Glovebox__V1__CancelRequest request = GLOVEBOX__V1__CANCEL_REQUEST__INIT;
        Glovebox__V1__CancelResponse *answer = NULL;
        char *name _cleanup_free_ = console_escape(id);
        int r;

        request.execution_id = id;
        r = rpc_unary(channel, "/glovebox.v1.ExecutionService/Cancel", &request.base, &glovebox__v1__cancel_response__descriptor, id,
                      (ProtobufCMessage **) &answer);
        if (r != 0)
                return r;
        printf("%s: %s\n", strempty(name), answer->state == GLOVEBOX__V1__STATE__STATE_FINISHED ? "had ended before" : "cancelled");
        glovebox__v1__cancel_response__free_unpacked(answer, NULL);
        return 0;
}

int verb_cancel(const struct Options *o) {
        struct Channel *channel _cleanup_(channel_closep) = NULL;
        int worst = 0;
        int r;

        if (!o->operands)
                return console_fault("cancel which? `glovebox ps` lists ids");
        r = channel_open(o, &channel);
        for (size_t i = 0; r == 0 && o->operands[i]; i++)
                worst = MAX(worst, cancel_one(channel, o->operands[i]));
        return r != 0 ? r : worst;
}
