/* Brings events of other threads to the event loop: gRPC's completion queue, which one thread pumps, and the TLS relay. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <grpc/grpc.h>
#include <systemd/sd-event.h>

#include "common/util.h"

/* Embedded in whatever waits for an event; run is called on the event loop and may free it. */
struct Tag {
        struct Tag *next;
        void (*run)(struct Tag *t);
        bool ok;
};

struct Queue {
        grpc_completion_queue *completions;
        _Atomic(struct Tag *) head;
        int wake;
        sd_event *event;
        sd_event_source *source;
        pthread_t pump;
        bool pumping;
        pthread_mutex_t turn; /* of whoever runs what came */
        atomic_bool shared;   /* the pump may */
        int error;            /* of the pump's turn, for queue_loop to return */
};

int queue_init(struct Queue *q, sd_event *event);
/* Runs the event loop until it ends, in turns with the thread that waits for gRPC. Returns the loop's exit code, or a negative errno. */
int queue_loop(struct Queue *q);
/* From any thread. A tag may be posted again only after it has run. */
void queue_post(struct Queue *q, struct Tag *t);
/* Runs what is there; waits for at most this long for something to come. Only for the end, when no event loop runs any more. */
void queue_run(struct Queue *q, int timeout_ms);
/* Once nothing uses the completion queue any more. Runs the tags that are left. */
void queue_done(struct Queue *q);
