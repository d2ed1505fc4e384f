/* grpc.health.v1: ready or not, asked once or watched. */
#include "server/accept/method.h"

#include "grpc/health/v1/health.pb-c.h"

typedef Grpc__Health__V1__HealthCheckRequest Request;
typedef Grpc__Health__V1__HealthCheckResponse Response;

enum {
        SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
        NOT_SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
        SERVICE_UNKNOWN = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN,
};

struct Watch {
        bool known;
        int told; /* the status sent last; -1 = none */
};

/* "" is the server as a whole. */
static const char *const services[] = {"", "glovebox.v1.ExecutionService", "glovebox.v1.SystemService"};

static bool health_knows(const char *service) {
        for (size_t i = 0; i < ELEMENTSOF(services); i++)
                if (streq(service, services[i]))
                        return true;
        return false;
}

static int health_status(const struct Accept *a, bool known) {
        if (!known)
                return SERVICE_UNKNOWN;
        return !a->stopping && executions_ready(a->executions) ? SERVING : NOT_SERVING;
}

static grpc_byte_buffer *health_render(int status) {
        Response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

        response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus) status;
        return message_pack(&response.base);
}

void method_health_check(struct Call *c, struct Parcel *p) {
        struct Parcel *parcel _cleanup_(parcel_freep) = p;
        struct Refusal refusal;

        if (health_knows(((const Request *) p->message)->service)) {
                call_finish(c, health_render(health_status(c->accept, true)), NULL);
                return;
        }
        refuse(&refusal, REFUSE_NOT_FOUND, "service", "is not one of this server's; leave it empty to ask for the server as a whole");
        call_refuse(c, &refusal);
}

/* Says what is new. While a message is on its way the next one waits: only the last state counts. */
static void watch_tell(struct Call *c) {
        struct Watch *w = c->state;
        int status = health_status(c->accept, w->known);

        if (status == w->told || c->writing || c->finishing)
                return;
        w->told = status;
        call_send(c, health_render(status));
}

static size_t watches_of(const struct Call *new) {
        size_t n = 0;

        for (const struct Call *c = new->accept->calls; c; c = c->next)
                n += c->method == new->method && c->state && streq(c->caller.name, new->caller.name);
        return n;
}

void method_health_watch(struct Call *c, struct Parcel *p) {
        struct Parcel *parcel _cleanup_(parcel_freep) = p;
        struct Watch *w = watches_of(c) < WATCHES_PER_CALLER ? calloc(1, sizeof(*w)) : NULL;
        struct Refusal refusal;

        if (!w) {
                refuse(&refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "you hold %d Watch streams already; end some, or use Check", WATCHES_PER_CALLER);
                refusal.retry_after = USEC_PER_SEC;
                call_refuse(c, &refusal);
                return;
        }
        *w = (struct Watch) {.known = health_knows(((const Request *) p->message)->service), .told = -1};
        c->state = w;
        watch_tell(c);
}

void method_health_watch_written(struct Call *c) {
        watch_tell(c);
}

void method_health_watch_done(struct Call *c) {
        free(c->state);
}

void health_changed(struct Accept *a) {
        for (struct Call *c = a->calls; c; c = c->next)
                if (c->method && c->method->message == method_health_watch && c->state)
                        watch_tell(c);
}
