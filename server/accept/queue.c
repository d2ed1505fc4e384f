/* The bridge from other threads to the event loop: a stack that is pushed without locks.
 *
 * Two threads sleep, each where the kernel wakes it: one in gRPC's completion queue (the pump), one in poll() on the event loop. Whoever wakes up
 * takes the turn and runs everything that is there, tags and event sources; all else in this program runs in somebody's turn, never in two at
 * once. So what comes from gRPC is handled by the thread that heard of it: to wake the other costs more than most of the work. A pump that does not
 * get the turn goes back to gRPC; its tags are run by whoever has it. Other threads, and the pump before and after queue_loop, wake the loop
 * by an eventfd that is written only when the stack was empty. */
#include "server/accept/queue.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <grpc/support/time.h>

#define ROUNDS_PER_TURN 64 /* then gRPC, too, has to be heard */

/* True: it was empty. */
static bool queue_push(struct Queue *q, struct Tag *t) {
        struct Tag *head = atomic_load_explicit(&q->head, memory_order_relaxed);

        do
                t->next = head;
        while (!atomic_compare_exchange_weak(&q->head, &head, t));
        return !head;
}

static void queue_wake(struct Queue *q) {
        ssize_t n;

        do
                n = write(q->wake, &(uint64_t) {1}, sizeof(uint64_t));
        while (n < 0 && errno == EINTR);
}

void queue_post(struct Queue *q, struct Tag *t) {
        if (queue_push(q, t))
                queue_wake(q);
}

/* Takes the whole stack at once, so that tags that come meanwhile wait for the next time. */
static void queue_drain(struct Queue *q) {
        struct Tag *stack, *first = NULL;

        stack = atomic_exchange(&q->head, NULL);
        while (stack) {
                struct Tag *t = stack;

                stack = t->next;
                t->next = first;
                first = t;
        }
        while (first) {
                struct Tag *t = first;

                first = t->next;
                t->run(t);
        }
}

/* Leaves the loop armed, so that it can be waited for; or at its end. 1 = there is more to do, at once. */
static int queue_turn(struct Queue *q) {
        for (int i = 0; i < ROUNDS_PER_TURN; i++) {
                int r = 0;

                if (sd_event_get_state(q->event) == SD_EVENT_ARMED)
                        r = sd_event_wait(q->event, 0);
                /* Here, because the loop has just looked at the clock, and timers count from there. */
                queue_drain(q);
                if (r >= 0 && sd_event_get_state(q->event) == SD_EVENT_PENDING)
                        r = sd_event_dispatch(q->event);
                if (r < 0 || sd_event_get_state(q->event) == SD_EVENT_FINISHED)
                        return MIN(r, 0);
                r = sd_event_get_state(q->event) == SD_EVENT_INITIAL ? sd_event_prepare(q->event) : 1;
                if (r <= 0)
                        return r;
        }
        return 1;
}

/* Of the pump. Whoever has the turn looks at the stack after giving it up, so nothing that was pushed before the try is left lying. */
static void queue_take_turn(struct Queue *q) {
        while (atomic_load(&q->head) && pthread_mutex_trylock(&q->turn) == 0) {
                bool shared = atomic_load(&q->shared);
                int r = shared ? queue_turn(q) : 1;
                /* What is left, an end and an error are for the loop's own thread. */
                bool wake = r != 0 || sd_event_get_state(q->event) == SD_EVENT_FINISHED;

                if (r < 0) {
                        q->error = r;
                        atomic_store(&q->shared, shared = false);
                }
                (void) pthread_mutex_unlock(&q->turn);
                if (wake)
                        queue_wake(q);
                if (!shared)
                        return;
        }
}

static void *queue_pump(void *userdata) {
        struct Queue *q = userdata;

        for (;;) {
                grpc_event event = grpc_completion_queue_next(q->completions, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

                if (event.type == GRPC_QUEUE_SHUTDOWN)
                        return NULL;
                if (event.type == GRPC_OP_COMPLETE) {
                        struct Tag *t = event.tag;

                        t->ok = event.success;
                        if (!atomic_load(&q->shared))
                                queue_post(q, t);
                        else {
                                (void) queue_push(q, t);
                                queue_take_turn(q);
                        }
                }
        }
}

static void queue_empty_wake(struct Queue *q) {
        uint64_t count;

        (void) !read(q->wake, &count, sizeof(count));
}

int queue_loop(struct Queue *q) {
        struct pollfd p = {.fd = sd_event_get_fd(q->event), .events = POLLIN};
        bool over = false;
        int r = 0;

        atomic_store(&q->shared, true);
        while (!over) {
                (void) pthread_mutex_lock(&q->turn);
                r = q->error < 0 ? q->error : queue_turn(q);
                over = r < 0 || sd_event_get_state(q->event) == SD_EVENT_FINISHED;
                if (over)
                        atomic_store(&q->shared, false);
                (void) pthread_mutex_unlock(&q->turn);
                if (!over && r == 0 && !atomic_load(&q->head))
                        (void) poll(&p, 1, -1);
        }
        /* For those that the pump has pushed in the belief that we look at them. */
        queue_wake(q);
        if (r >= 0)
                (void) sd_event_get_exit_code(q->event, &r);
        return r;
}

static int queue_on_wake(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        queue_empty_wake(userdata);
        queue_drain(userdata);
        return 0;
}

void queue_run(struct Queue *q, int timeout_ms) {
        struct pollfd p = {.fd = q->wake, .events = POLLIN};

        if (poll(&p, 1, timeout_ms) > 0) {
                queue_empty_wake(q);
                queue_drain(q);
        }
}

int queue_init(struct Queue *q, sd_event *event) {
        int r;

        q->event = event;
        (void) pthread_mutex_init(&q->turn, NULL);
        q->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (q->wake < 0)
                return -errno;
        r = sd_event_add_io(event, &q->source, q->wake, EPOLLIN, queue_on_wake, q);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(q->source, "accept-queue");
        q->completions = grpc_completion_queue_create_for_next(NULL);
        r = pthread_create(&q->pump, NULL, queue_pump, q);
        if (r != 0)
                return -r;
        q->pumping = true;
        return 0;
}

void queue_done(struct Queue *q) {
        if (q->completions) {
                grpc_completion_queue_shutdown(q->completions);
                if (q->pumping)
                        (void) pthread_join(q->pump, NULL);
                q->pumping = false;
                queue_run(q, 0);
                grpc_completion_queue_destroy(q->completions);
                q->completions = NULL;
        }
        q->source = sd_event_source_disable_unref(q->source);
        if (q->wake > 0)
                q->wake = close_fd(q->wake);
}
