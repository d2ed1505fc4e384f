/* Ctrl-C: the first one cancels the execution and lets its end come, the second one leaves. A thread waits for the signals, so that
 * they work while the main thread is stuck in a write to a paused terminal. */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "client/rpc.h"
#include "client/status-line.h"

struct Interrupt {
        sigset_t signals;
        pthread_t thread;
        bool runs;
        pthread_mutex_t lock; /* guards the fields below */
        struct Channel *channel;
        struct Rpc *rpc; /* the execution's stream; NULL: nothing to cancel, leave at once */
        char *execution; /* its id, once known */
        struct Rpc *cancel; /* our Cancel call */
        bool cancelled;
        bool stopping;
        struct StatusLine *line;
};

/* Before any other thread starts. 0 or negative errno. */
int interrupt_start(struct Interrupt *i, struct StatusLine *line);
/* rpc NULL: it is over. */
void interrupt_watch(struct Interrupt *i, struct Channel *channel, struct Rpc *rpc);
void interrupt_set_execution(struct Interrupt *i, const char *id);
bool interrupt_was_cancelled(struct Interrupt *i);
void interrupt_stop(struct Interrupt *i);
