/* What the files of this folder share: the one struct Accept. */
#pragma once

#include <grpc/grpc.h>

#include "server/accept/accept.h"
#include "server/accept/message.h"
#include "server/accept/queue.h"

#define CALLS_MAX 10000            /* calls in progress, in all */
#define CALLS_PER_CONNECTION 1000  /* also told to clients as HTTP/2's max_concurrent_streams */
#define CALLS_POSTED 64            /* that gRPC may fill while the loop is busy */
#define WATCHES_PER_CALLER 64      /* health streams */
#define PEER_PATIENCE (300 * USEC_PER_SEC) /* for a peer that neither sends its request nor takes the answer */

struct Call;
struct Connections;
struct Listeners;
struct Reflection;
struct Tls;

struct Accept {
        sd_event *event;
        const struct Config *config;
        struct Executions *executions;
        struct Queue queue;
        grpc_server *server;
        grpc_resource_quota *quota;
        struct Budget *budget;
        struct Reflection *reflection;
        struct Connections *connections;
        struct Listeners *listeners;
        struct Tls *tls; /* NULL = no TLS listener */

        struct Call *calls; /* in progress */
        size_t n_calls;
        size_t n_posted;    /* waiting in gRPC for a call to come */
        uint64_t gathered;  /* bytes of answers being gathered */
        uint64_t answers;   /* bytes of last messages on their way to their clients */
        sd_event_source *patience; /* looks after calls that wait for their peer, while there are any */

        struct Tag on_shutdown;
        bool stopping, server_down, stopped_told;
        void (*on_stopped)(void *userdata);
        void *userdata;
};

/* Something ended: tells on_stopped once the server is down and the last call gone. */
void accept_check_stopped(struct Accept *a);
