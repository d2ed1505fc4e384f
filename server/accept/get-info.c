/* GetInfo: what this server is. */
#include "server/accept/method.h"
#include "server/accept/render.h"

void method_get_info(struct Call *c, struct Parcel *p) {
        parcel_free(p);
        call_finish(c, render_info(c->accept->executions, &c->caller), NULL);
}
