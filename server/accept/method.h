/* The methods that are served: one line each in one table. */
#pragma once

#include "server/accept/call.h"

struct Method {
        const char *path; /* "/glovebox.v1.ExecutionService/Execute" */
        const ProtobufCMessageDescriptor *request;
        /* A message came; takes the parcel. Exactly one comes, unless half_closed is there: then call_receive asks for more. */
        void (*message)(struct Call *c, struct Parcel *p);
        void (*half_closed)(struct Call *c); /* the client sends no more */
        void (*written)(struct Call *c);     /* what call_send sent was taken */
        void (*gone)(struct Call *c);        /* the client has gone; the call is ended after this */
        bool ends_with_server;               /* does not hold up a server that stops */
        bool (*stalled)(struct Call *c);     /* the client has taken nothing for PEER_PATIENCE: may it go on? No function: it may not */
        void (*done)(struct Call *c);        /* frees c->state; always called once the message has come */
};

const struct Method *method_find(grpc_slice path);

/* message, one file each */
void method_execute(struct Call *c, struct Parcel *p);
void method_execute_done(struct Call *c);
void method_execute_stream(struct Call *c, struct Parcel *p);
void method_execute_stream_written(struct Call *c);
bool method_execute_stream_stalled(struct Call *c);
void method_cancel(struct Call *c, struct Parcel *p);
void method_get_execution(struct Call *c, struct Parcel *p);
void method_list_executions(struct Call *c, struct Parcel *p);
void method_get_info(struct Call *c, struct Parcel *p);
void method_health_check(struct Call *c, struct Parcel *p);
void method_health_watch(struct Call *c, struct Parcel *p);
void method_health_watch_written(struct Call *c);
void method_health_watch_done(struct Call *c);
void method_reflection(struct Call *c, struct Parcel *p);
void method_reflection_written(struct Call *c);
void method_reflection_half_closed(struct Call *c);

/* The server has become ready or not ready: tells those who watch. */
void health_changed(struct Accept *a);
