/* One list of executions over as many calls as it has pages. */
#include "client/pages.h"

#include "client/console.h"
#include "client/rpc.h"

#define PAGE 100

int pages_list(struct Channel *channel, const char *caller, bool active_only, PageTaker take, void *userdata) {
        Glovebox__V1__ListExecutionsRequest request = GLOVEBOX__V1__LIST_EXECUTIONS_REQUEST__INIT;
        char *token _cleanup_free_ = NULL;
        int r;

        request.page_size = PAGE;
        request.active_only = active_only;
        if (caller)
                request.caller = (char *) caller;
        do {
                Glovebox__V1__ListExecutionsResponse *page = NULL;
                char *next _cleanup_free_ = NULL;

                r = rpc_unary(channel, "/glovebox.v1.ExecutionService/ListExecutions", &request.base,
                              &glovebox__v1__list_executions_response__descriptor, NULL, (ProtobufCMessage **) &page);
                if (r != 0)
                        return r;
                next = strdup(page->next_page_token);
                r = take(userdata, page);
                if (r == 0 && !next)
                        r = console_fault("out of memory");
                /* A server that gives the same page again and again would never let us end. */
                if (r == 0 && token && streq(token, next))
                        r = console_fault("the server does not get on with its list");
                free(token);
                token = TAKE_PTR(next);
                request.page_token = token;
        } while (r == 0 && !isempty(token));
        return r;
}
