/* ListExecutions: a page that fits a reply. */
#include "server/accept/method.h"
#include "server/accept/render.h"

#include "glovebox/v1/execution.pb-c.h"

#define PAGE_STANDARD 100
#define PAGE_MAX 1000

/* Half as many until they fit. */
static int list_page(struct Call *c, struct ExecutionFilter *filter, grpc_byte_buffer **ret, struct Refusal *refusal) {
        struct Execution *found[PAGE_MAX];
        char token[64] = "";
        size_t n = 0;

        for (;;) {
                int r = executions_list(c->accept->executions, &c->caller, filter, found, filter->page_size, &n, token, refusal);

                if (r != 0)
                        return r;
                *ret = render_page(found, n, token);
                if (*ret)
                        return 0;
                filter->page_size = (n + 1) / 2;
        }
}

void method_list_executions(struct Call *c, struct Parcel *p) {
        struct Parcel *parcel _cleanup_(parcel_freep) = p;
        const Glovebox__V1__ListExecutionsRequest *m = (const Glovebox__V1__ListExecutionsRequest *) p->message;
        struct ExecutionFilter filter = {
                .caller = m->caller,
                .active_only = m->active_only,
                .page_token = m->page_token,
                .page_size = m->page_size == 0 ? PAGE_STANDARD : m->page_size,
        };
        grpc_byte_buffer *page = NULL;
        struct Refusal refusal = {};

        if (m->page_size > PAGE_MAX)
                refuse(&refusal, REFUSE_INVALID_ARGUMENT, "page_size", "is %u; a page has at most %u, ask for the next ones by page_token",
                       m->page_size, PAGE_MAX);
        else if (!isempty(m->caller) && !c->caller.is_operator && !streq(m->caller, c->caller.name))
                refuse(&refusal, REFUSE_PERMISSION_DENIED, NULL, "only operators may list the executions of others; leave `caller` out");
        else if (call_refuse_to_pile_up(c, &refusal) == 0)
                (void) list_page(c, &filter, &page, &refusal);
        if (refusal.code != REFUSE_NOTHING)
                call_refuse(c, &refusal);
        else
                call_finish(c, page, NULL);
}
