/* The thread that takes SIGINT and SIGTERM. */
#include "client/interrupt.h"

#include <glovebox/v1/execution.pb-c.h>
#include <poll.h>
#include <time.h>

#include "client/console.h"

#define CANCEL_DEADLINE (5 * USEC_PER_SEC)
#define WATCH_CANCEL (100 * USEC_PER_MSEC)

/* A signal that our parent made us ignore (nohup, a job in the background of a script) stays ignored. */
static void add_unless_ignored(sigset_t *set, int signal) {
        struct sigaction action;

        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
                (void) sigaddset(set, signal);
}

static void leave(struct Interrupt *i) {
        static const char clear[] = "\r\033[K";
        struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

        /* Not through stdio, and not at all when the terminal is paused: leaving must work always. */
        if (i->line->visible && poll(&p, 1, 0) > 0)
                (void) !write(STDERR_FILENO, clear, sizeof(clear) - 1);
        console_give_back();
        _exit(STATUS_GAVE_UP);
}

static void cancel(struct Interrupt *i) {
        Glovebox__V1__CancelRequest request = GLOVEBOX__V1__CANCEL_REQUEST__INIT;

        i->cancelled = true;
        i->line->cancelling = true;
        request.execution_id = i->execution;
        /* Before `accepted` there is no id to cancel by: dropping the call does it. */
        if (!i->execution ||
            rpc_start(i->channel, "/glovebox.v1.ExecutionService/Cancel", &request.base, CANCEL_DEADLINE, &i->cancel) < 0)
                rpc_cancel(i->rpc);
}

static void on_signal(struct Interrupt *i) {
        (void) pthread_mutex_lock(&i->lock);
        if (!i->stopping && (!i->rpc || i->cancelled))
                leave(i);
        if (!i->stopping)
                cancel(i);
        (void) pthread_mutex_unlock(&i->lock);
}

/* Looks after a Cancel under way: one that the server refused or lost is replaced by leaving the stream, which cancels as well. */
static bool watch_cancel(struct Interrupt *i) {
        ProtobufCMessage *answer = NULL;
        bool again;
        int r;

        (void) pthread_mutex_lock(&i->lock);
        if (i->cancel) {
                r = rpc_next(i->cancel, &glovebox__v1__cancel_response__descriptor, 0, &answer);
                if (answer)
                        protobuf_c_message_free_unpacked(answer, NULL);
                if (r == 0 && !rpc_is_ok(i->cancel) && i->rpc)
                        rpc_cancel(i->rpc);
                if (r == 0 || (r < 0 && r != -ETIME))
                        i->cancel = rpc_free(i->cancel);
        }
        again = i->cancel != NULL;
        (void) pthread_mutex_unlock(&i->lock);
        return again;
}

static void *interrupt_run(void *userdata) {
        const struct timespec soon = { .tv_nsec = WATCH_CANCEL * NSEC_PER_USEC };
        struct Interrupt *i = userdata;
        bool stopping = false;

        while (!stopping) {
                bool waiting = watch_cancel(i);

                if (sigtimedwait(&i->signals, NULL, waiting ? &soon : NULL) > 0)
                        on_signal(i);
                (void) pthread_mutex_lock(&i->lock);
                stopping = i->stopping;
                (void) pthread_mutex_unlock(&i->lock);
        }
        return NULL;
}

int interrupt_start(struct Interrupt *i, struct StatusLine *line) {
        int r;

        *i = (struct Interrupt) { .line = line };
        (void) sigemptyset(&i->signals);
        (void) sigaddset(&i->signals, SIGUSR1); /* ends the thread */
        add_unless_ignored(&i->signals, SIGINT);
        add_unless_ignored(&i->signals, SIGTERM);
        r = pthread_sigmask(SIG_BLOCK, &i->signals, NULL);
        if (r != 0)
                return -r;
        (void) pthread_mutex_init(&i->lock, NULL);
        r = pthread_create(&i->thread, NULL, interrupt_run, i);
        if (r != 0)
                return -r;
        i->runs = true;
        return 0;
}

void interrupt_watch(struct Interrupt *i, struct Channel *channel, struct Rpc *rpc) {
        (void) pthread_mutex_lock(&i->lock);
        i->channel = channel;
        i->rpc = rpc;
        (void) pthread_mutex_unlock(&i->lock);
}

void interrupt_set_execution(struct Interrupt *i, const char *id) {
        (void) pthread_mutex_lock(&i->lock);
        free(i->execution);
        i->execution = strdup(id);
        (void) pthread_mutex_unlock(&i->lock);
}

bool interrupt_was_cancelled(struct Interrupt *i) {
        bool cancelled;

        (void) pthread_mutex_lock(&i->lock);
        cancelled = i->cancelled;
        (void) pthread_mutex_unlock(&i->lock);
        return cancelled;
}

void interrupt_stop(struct Interrupt *i) {
        if (!i->runs)
                return;
        (void) pthread_mutex_lock(&i->lock);
        i->stopping = true;
        (void) pthread_mutex_unlock(&i->lock);
        (void) pthread_kill(i->thread, SIGUSR1);
        (void) pthread_join(i->thread, NULL);
        i->cancel = rpc_free(i->cancel);
        free(i->execution);
        (void) pthread_mutex_destroy(&i->lock);
        i->runs = false;
}
