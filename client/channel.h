/* The connection to a server, and the thread that keeps it alive while the rest of the client waits for a terminal. */
#pragma once

#include <grpc/grpc.h>
#include <pthread.h>

#include "common/util.h"

struct Options;

#define SERVER_DEFAULT "unix:/run/glovebox/glovebox.sock"
#define CONNECT_DEADLINE (5 * USEC_PER_SEC)

/* Where a server listens. */
struct Target {
        char *path; /* a Unix socket, or NULL for TCP */
        char *host; /* without brackets */
        char *port;
};

/* "unix:PATH", a path with a slash at its start, "HOST:PORT", "[V6]:PORT". -EINVAL. */
int target_parse(const char *s, struct Target *ret);
void target_done(struct Target *t);

/* A batch under way; its address is the tag in the completion queue. */
struct Batch {
        bool pending;
        bool ok;
};

struct Channel {
        char *server; /* as the user named it, for messages */
        bool tls;
        grpc_channel *channel;
        grpc_completion_queue *queue;
        pthread_t pump;
        bool pump_runs;
        pthread_mutex_t lock; /* guards every struct Batch */
        pthread_cond_t changed;
        bool (*wants_to_leave)(void *userdata); /* asked several times a second while rpc_unary waits; NULL: nobody is */
        void *userdata;                         /* for it */
};

/* Connects within CONNECT_DEADLINE. Returns 0, or STATUS_FAULT after saying why and what to do. */
int channel_open(const struct Options *o, struct Channel **ret);
struct Channel *channel_close(struct Channel *c);
DEFINE_CLEANUP(struct Channel *, channel_close)

int channel_start(struct Channel *c, grpc_call *call, const grpc_op *ops, size_t n, struct Batch *batch);
/* Waits until the batch is over, at the longest until a time of CLOCK_MONOTONIC: -ETIME then. */
int channel_wait(struct Channel *c, struct Batch *batch, usec_t until);
bool channel_is_pending(struct Channel *c, struct Batch *batch);
