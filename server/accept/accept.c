/* The gRPC server and its start and end. */
#include "server/accept/accept.h"

#include <stdio.h>

#include <grpc/grpc_security.h>
#include <grpc/support/log.h>

#include "common/log.h"
#include "server/accept/call.h"
#include "server/accept/listener.h"
#include "server/accept/method.h"
#include "server/accept/reflection.h"
#include "server/accept/tls.h"

#define METADATA_MAX (16 * 1024)
#define IDLE_CONNECTION_MS (10 * 60 * 1000)
#define KEEPALIVE_MS 60000
#define KEEPALIVE_TIMEOUT_MS 20000
#define PING_INTERVAL_MIN_MS 5000 /* clients that ping more often are told to calm down */

/* What gRPC complains about is what strangers send: not for the log, unless someone looks for it. */
static void accept_on_grpc_log(gpr_log_func_args *args) {
        log_debug("gRPC: %s", args->message);
}

static grpc_server *accept_new_server(struct Accept *a) {
        const struct {
                const char *key;
                int value;
        } numbers[] = {
                {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int) MIN(a->config->max_message, (uint64_t) INT32_MAX)},
                {GRPC_ARG_MAX_CONCURRENT_STREAMS, CALLS_PER_CONNECTION},
                {GRPC_ARG_MAX_METADATA_SIZE, METADATA_MAX},
                {GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_CONNECTION_MS},
                {GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS},
                {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS},
                {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
                {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_INTERVAL_MIN_MS},
                {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
                {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE},
                {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0},
        };
        grpc_arg args[ELEMENTSOF(numbers) + 1];
        grpc_channel_args all = {.num_args = ELEMENTSOF(args), .args = args};

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                args[i] = (grpc_arg) {.type = GRPC_ARG_INTEGER, .key = (char *) numbers[i].key, .value.integer = numbers[i].value};
        args[ELEMENTSOF(numbers)] = (grpc_arg) {
                .type = GRPC_ARG_POINTER,
                .key = (char *) GRPC_ARG_RESOURCE_QUOTA,
                .value.pointer = {.p = a->quota, .vtable = grpc_resource_quota_arg_vtable()},
        };
        return grpc_server_create(&all, NULL);
}

static void accept_on_shutdown(struct Tag *t) {
        struct Accept *a = CONTAINER_OF(t, struct Accept, on_shutdown);

        a->server_down = true;
        accept_check_stopped(a);
}

void accept_check_stopped(struct Accept *a) {
        if (!a->stopping || a->stopped_told || a->n_calls > 0)
                return;
        if (!a->server_down) {
                /* No call is left; only silent peers can hold the server up now. */
                grpc_server_cancel_all_calls(a->server);
                return;
        }
        if (a->n_posted > 0)
                return;
        a->stopped_told = true;
        if (a->on_stopped)
                a->on_stopped(a->userdata);
}

static void accept_on_ready_change(void *userdata) {
        health_changed(userdata);
}

static int accept_start_grpc(struct Accept *a, sd_event *event) {
        int r;

        gpr_set_log_function(accept_on_grpc_log);
        grpc_init();
        r = queue_init(&a->queue, event);
        if (r < 0)
                return r;
        a->quota = grpc_resource_quota_create("requests");
        grpc_resource_quota_resize(a->quota, a->config->request_budget * 2);
        a->server = accept_new_server(a);
        grpc_server_register_completion_queue(a->server, a->queue.completions, NULL);
        grpc_server_start(a->server);
        return 0;
}

int accept_new(sd_event *event, const struct Config *config, struct Executions *executions, struct Accept **ret, char **ret_error) {
        struct Accept *a = calloc(1, sizeof(*a));
        char *error = NULL;
        int r;

        if (!a)
                return -ENOMEM;
        *a = (struct Accept) {.event = sd_event_ref(event), .config = config, .executions = executions,
                              .on_shutdown.run = accept_on_shutdown, .queue.wake = -EBADF};
        a->budget = budget_new(config->request_budget);
        r = a->budget ? reflection_new(&a->reflection) : -ENOMEM;
        if (r >= 0)
                r = accept_start_grpc(a, event);
        if (r >= 0)
                r = connections_new(a, &a->connections);
        if (r >= 0)
                r = listeners_new(a, &a->listeners, &error);
        if (r < 0) {
                if (error && ret_error)
                        *ret_error = TAKE_PTR(error);
                free(error);
                accept_free(a);
                return r;
        }
        executions_on_ready_change(executions, accept_on_ready_change, a);
        calls_post(a);
        *ret = a;
        return 0;
}

int accept_check(const struct Config *config, bool certificates, char **ret_error) {
        int r = listeners_check(config, ret_error);

        return r < 0 || !certificates ? r : tls_check(config, ret_error);
}

int accept_reload(struct Accept *a, const struct Config *config, char **ret_error) {
        int r = a->tls ? tls_reload(a->tls, config, ret_error) : 0;

        if (r < 0)
                return r;
        a->config = config;
        budget_set_limit(a->budget, config->request_budget);
        grpc_resource_quota_resize(a->quota, config->request_budget * 2);
        return 0;
}

void accept_stop(struct Accept *a, void (*on_stopped)(void *userdata), void *userdata) {
        if (a->stopping)
                return;
        a->on_stopped = on_stopped;
        a->userdata = userdata;
        a->stopping = true;
        a->listeners = listeners_free(a->listeners);
        health_changed(a);
        calls_stop(a);
        grpc_server_shutdown_and_notify(a->server, a->queue.completions, &a->on_shutdown);
        accept_check_stopped(a);
}

void accept_abort(struct Accept *a) {
        grpc_server_cancel_all_calls(a->server);
}

int accept_run_loop(struct Accept *a) {
        return queue_loop(&a->queue);
}

struct Accept *accept_free(struct Accept *a) {
        if (!a)
                return NULL;
        if (a->server) {
                executions_on_ready_change(a->executions, NULL, a);
                accept_stop(a, NULL, NULL);
                a->on_stopped = NULL;
                if (!a->stopped_told)
                        accept_abort(a);
                while (!a->stopped_told)
                        queue_run(&a->queue, 100);
                grpc_server_destroy(a->server);
        }
        a->listeners = listeners_free(a->listeners);
        a->tls = tls_free(a->tls);
        if (a->queue.completions) {
                queue_done(&a->queue);
                a->connections = connections_free(a->connections);
                grpc_resource_quota_unref(a->quota);
                grpc_shutdown_blocking();
        }
        reflection_free(a->reflection);
        budget_leave(a->budget);
        sd_event_source_disable_unref(a->patience);
        sd_event_unref(a->event);
        free(a);
        return NULL;
}
