/* The server as a whole: config, executions, the wire; reload and orderly stop.
 *
 * Stop: the wire takes no new calls; executions get drain-deadline to end and are cancelled then; their calls get CALLS_DEADLINE to hear of it. */
#include "server/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "common/config-check.h"
#include "common/log.h"
#include "server/accept/accept.h"
#include "server/execution.h"

#define CALLS_DEADLINE (3 * USEC_PER_SEC)
/* On top of drain-deadline: cancelled executions end, then their calls hear of it. */
#define STOP_MARGIN (20 * USEC_PER_SEC)
/* So long a start waits for the spawner. Then it is over all the same, and callers hear that no cell can be made. */
#define SPAWNER_DEADLINE (15 * USEC_PER_SEC)

struct Server {
        sd_event *event;
        struct ServerOptions options;
        struct Config *config;
        struct Config *started; /* what listeners and ids were made of; the same as config until a reload */
        struct Executions *executions;
        struct Accept *accept;
        sd_event_source *calls_deadline, *spawner_deadline;
        bool told_ready, stopping, drained, stopped;
};

static void server_check_stopped(struct Server *s) {
        if (s->drained && s->stopped)
                (void) sd_event_exit(s->event, 0);
}

static void server_on_stopped(void *userdata) {
        struct Server *s = userdata;
        s->stopped = true;
        server_check_stopped(s);
}

static int server_on_calls_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Server *s = userdata;
        accept_abort(s->accept);
        return 0;
}

static void server_on_drained(void *userdata) {
        struct Server *s = userdata;

        s->drained = true;
        int r = sd_event_add_time_relative(s->event, &s->calls_deadline, CLOCK_MONOTONIC, CALLS_DEADLINE, 0, server_on_calls_deadline, s);
        if (r < 0)
                accept_abort(s->accept);
        server_check_stopped(s);
}

static int server_on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        struct Server *s = userdata;

        if (s->stopping)
                return 0;
        s->stopping = true;
        (void) log_event(LOG_INFO, MESSAGE_SERVER_STOPPING, 0, NULL, "Stopping; running executions have %llu s to end",
                         (unsigned long long) (s->config->drain_deadline / USEC_PER_SEC));
        /* Whatever the unit's TimeoutStopSec= is: the operator has said how long a stop may take. */
        (void) sd_notifyf(false, "STOPPING=1\nSTATUS=Stopping, running executions may end\nEXTEND_TIMEOUT_USEC=%llu",
                          (unsigned long long) (s->config->drain_deadline + STOP_MARGIN));
        accept_stop(s->accept, server_on_stopped, s);
        executions_drain(s->executions, server_on_drained, s);
        return 0;
}

static void apply_listen(struct Config *c, const struct ServerOptions *o) {
        char **copy = o->listen ? strv_copy(o->listen) : NULL;
        if (!copy && !o->passed_only)
                return;
        strv_free(c->listen);
        c->listen = copy;
        c->listen_is_default = false;
}

/* What was made when the server started. *ret is NULL when nothing of it has changed. */
static int needs_restart(const struct Config *was, const struct Config *is, char **ret) {
        const struct ConfigChange keys[] = {
                {"listen", strv_equal(was->listen, is->listen)},
                {"max-message", was->max_message == is->max_message},
                {"node", streq(was->node, is->node)},
                {"plain-tcp", was->plain_tcp == is->plain_tcp},
                {"priority", was->server_priority == is->server_priority},
        };
        return config_changes(keys, ELEMENTSOF(keys), NULL, ret);
}

/* A file that could not be opened anew would be found out when half of the rest has been taken over. */
static int check_audit_file(const struct Config *c, char **ret_error) {
        const char *slash = c->audit_file ? strrchr(c->audit_file, '/') : NULL;
        char *folder _cleanup_free_ = slash ? strndup(c->audit_file, MAX((size_t) (slash - c->audit_file), (size_t) 1)) : NULL;

        if (!slash || faccessat(AT_FDCWD, c->audit_file, W_OK, AT_EACCESS) == 0)
                return 0;
        if (errno == ENOENT && folder && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0)
                return 0;
        int r = -errno;
        if (asprintf(ret_error, "cannot open the audit file %s: %s; it must be writable by the server's user", c->audit_file, strerrordesc_np(-r)) < 0)
                *ret_error = NULL;
        return r;
}

int server_check(const struct ServerOptions *options, struct Config *config, bool opens, char **ret_error) {
        apply_listen(config, options);
        int r = config_check_files(config, ret_error);
        if (r >= 0 && opens)
                r = check_audit_file(config, ret_error);
        return r < 0 ? r : accept_check(config, opens, ret_error);
}

static void server_reload(struct Server *s) {
        struct Config *config _cleanup_(config_freep) = NULL;
        char *error _cleanup_free_ = NULL, *changes _cleanup_free_ = NULL;

        int r = config_load(s->options.config_file, &config, &error);
        if (r >= 0)
                r = server_check(&s->options, config, true, &error);
        if (r >= 0)
                r = needs_restart(s->started, config, &changes);
        if (r >= 0)
                r = accept_reload(s->accept, config, &error);
        if (r < 0) {
                (void) log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "Failed to reload, all that the server has stays as it was: %s",
                                 error ? error : strerrordesc_np(-r));
                return;
        }
        if (changes)
                (void) log_event(LOG_NOTICE, MESSAGE_CONFIG_RESTART, 0, NULL, "Changed, and taken over when the server is started again: %s", changes);
        executions_reload(s->executions, config);
        if (s->config != s->started)
                config_free(s->config);
        s->config = TAKE_PTR(config);
        (void) log_event(LOG_INFO, MESSAGE_CONFIG_READ, 0, NULL, "Reloaded the configuration");
}

static int server_on_reload(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        struct Server *s = userdata;

        if (s->stopping)
                return 0;
        /* READY=1 says that a reload is over; before the first one it would say that the server can be used. */
        if (s->told_ready)
                (void) sd_notify(false, "RELOADING=1");
        server_reload(s);
        if (s->told_ready)
                (void) sd_notify(false, "READY=1");
        return 0;
}

static void server_tell_ready(struct Server *s) {
        s->spawner_deadline = sd_event_source_disable_unref(s->spawner_deadline);
        s->told_ready = true;
        (void) sd_notify(false, "READY=1");
}

static void server_on_ready_change(void *userdata) {
        struct Server *s = userdata;
        bool ready = executions_ready(s->executions);

        if (s->stopping)
                return;
        /* glovebox-standalone waits for this word. */
        (void) sd_notify(false, ready ? "STATUS=Serving" : "STATUS=Waiting for the spawner");
        if (ready)
                (void) log_event(LOG_INFO, MESSAGE_SERVER_READY, 0, NULL, "Ready");
        if (ready && !s->told_ready)
                server_tell_ready(s);
}

/* A start that hangs would tell nobody why; health and UNAVAILABLE do. */
static int server_on_spawner_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Server *s = userdata;

        (void) log_event(LOG_WARNING, MESSAGE_SERVER_WAITING, 0, NULL,
                         "The spawner is not there: calls are refused until it is; see `systemctl status glovebox-spawner`");
        (void) sd_notify(false, "STATUS=Waiting for the spawner");
        server_tell_ready(s);
        return 0;
}

static int add_signals(struct Server *s) {
        int r = sd_event_add_signal(s->event, NULL, SIGTERM, server_on_stop, s);
        if (r < 0)
                return r;
        r = sd_event_add_signal(s->event, NULL, SIGINT, server_on_stop, s);
        if (r < 0)
                return r;
        return sd_event_add_signal(s->event, NULL, SIGHUP, server_on_reload, s);
}

int server_new(const struct ServerOptions *options, struct Config *config, struct Server **ret, char **ret_error) {
        struct Server *s _cleanup_(server_freep) = calloc(1, sizeof *s);

        if (!s) {
                config_free(config);
                return -ENOMEM;
        }
        s->options = *options;
        s->config = s->started = config;
        apply_listen(config, options);
        int r = sd_event_new(&s->event);
        if (r >= 0)
                r = add_signals(s);
        if (r >= 0)
                r = executions_new(s->event, config, options->spawner, &s->executions);
        if (r == -EACCES || r == -EPERM || r == -ENOENT) {
                if (config->audit_file && asprintf(ret_error, "cannot open the audit file %s: %s; it must be writable by the server's user",
                                                   config->audit_file, strerrordesc_np(-r)) < 0)
                        *ret_error = NULL;
        }
        if (r < 0)
                return r;
        executions_on_ready_change(s->executions, server_on_ready_change, s);
        r = sd_event_add_time_relative(s->event, &s->spawner_deadline, CLOCK_MONOTONIC, SPAWNER_DEADLINE, 0, server_on_spawner_deadline, s);
        if (r < 0)
                return r;
        r = accept_new(s->event, config, s->executions, &s->accept, ret_error);
        if (r < 0)
                return r;
        (void) sd_event_set_watchdog(s->event, true);
        *ret = TAKE_PTR(s);
        return 0;
}

int server_run(struct Server *s) {
        return accept_run_loop(s->accept);
}

struct Server *server_free(struct Server *s) {
        if (!s)
                return NULL;
        s->calls_deadline = sd_event_source_disable_unref(s->calls_deadline);
        s->spawner_deadline = sd_event_source_disable_unref(s->spawner_deadline);
        accept_free(s->accept);
        executions_free(s->executions);
        if (s->config != s->started)
                config_free(s->config);
        config_free(s->started);
        sd_event_unref(s->event);
        free(s);
        return NULL;
}
