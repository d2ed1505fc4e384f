/* server/accept/queue.c: an error that the thread of gRPC meets in its turn is the loop's. */
#include "tests/unit/unit.h"

#include <fcntl.h>

#include "server/accept/queue.h"

#define LOOP_WENT_ON 7

struct World {
        struct Queue queue;
        struct Tag breaks, mends, ends;
        int epoll, kept;
        grpc_server *server;
};

static struct World world;

static void on_end(struct Tag *t) {
        (void) sd_event_exit(world.queue.event, LOOP_WENT_ON);
}

/* Whoever ran this has an error in hand by now. A loop that does not hear of it ends here. */
static void on_mend(struct Tag *t) {
        (void) dup2(world.kept, world.epoll);
        queue_post(&world.queue, &world.ends);
}

/* The next look at the event loop fails, once. The tag that mends it is pushed without waking the loop's own thread, which would meet the error
 * itself. */
static void on_break(struct Tag *t) {
        int other = open("/dev/null", O_RDONLY | O_CLOEXEC);

        (void) dup2(other, world.epoll);
        (void) close(other);
        atomic_store(&world.queue.head, &world.mends);
}

/* Once the loop sleeps, a tag by way of gRPC, so that the pump has the turn. */
static void *complete(void *userdata) {
        bool sleeps = false;

        while (!sleeps) {
                (void) pthread_mutex_lock(&world.queue.turn);
                sleeps = atomic_load(&world.queue.shared) && sd_event_get_state(world.queue.event) == SD_EVENT_ARMED;
                (void) pthread_mutex_unlock(&world.queue.turn);
                (void) usleep(10000);
        }
        grpc_server_shutdown_and_notify(world.server, world.queue.completions, &world.breaks);
        return NULL;
}

static void an_error_of_the_pump_ends_the_loop(void **state) {
        sd_event *event;
        pthread_t thread;

        grpc_init();
        assert_ok(sd_event_new(&event));
        world = (struct World) {.breaks.run = on_break, .mends.run = on_mend, .ends.run = on_end, .epoll = sd_event_get_fd(event)};
        world.kept = dup(world.epoll);
        assert_ok(world.kept);
        assert_ok(queue_init(&world.queue, event));
        world.server = grpc_server_create(NULL, NULL);
        grpc_server_register_completion_queue(world.server, world.queue.completions, NULL);
        grpc_server_start(world.server);
        assert_int_equal(pthread_create(&thread, NULL, complete, NULL), 0);
        assert_error(queue_loop(&world.queue), EINVAL);
        (void) pthread_join(thread, NULL);
        grpc_server_destroy(world.server);
        queue_done(&world.queue);
        (void) close(world.kept);
        sd_event_unref(event);
        grpc_shutdown();
}

RUN(T(an_error_of_the_pump_ends_the_loop))
