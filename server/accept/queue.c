/* The bridge from other threads to the event loop: a stack that is pushed without locks, and an eventfd that is written only when
 * the stack was empty. */
#include "server/accept/queue.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <grpc/support/time.h>

void queue_post(struct Queue *q, struct Tag *t) {
        struct Tag *head = atomic_load_explicit(&q->head, memory_order_relaxed);

        do
                t->next = head;
        while (!atomic_compare_exchange_weak_explicit(&q->head, &head, t, memory_order_acq_rel, memory_order_relaxed));
        if (!head) {
                ssize_t n;

                do
                        n = write(q->wake, &(uint64_t) {1}, sizeof(uint64_t));
                while (n < 0 && errno == EINTR);
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
                        queue_post(q, t);
                }
        }
}

/* Takes the whole stack at once, so that tags that come meanwhile wait for the loop's next turn. */
static void queue_drain(struct Queue *q) {
        struct Tag *stack, *first = NULL;
        uint64_t count;

        (void) !read(q->wake, &count, sizeof(count));
        stack = atomic_exchange_explicit(&q->head, NULL, memory_order_acq_rel);
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

static int queue_on_wake(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        queue_drain(userdata);
        return 0;
}

void queue_run(struct Queue *q, int timeout_ms) {
        struct pollfd p = {.fd = q->wake, .events = POLLIN};

        if (poll(&p, 1, timeout_ms) > 0)
                queue_drain(q);
}

int queue_init(struct Queue *q, sd_event *event) {
        int r;

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
