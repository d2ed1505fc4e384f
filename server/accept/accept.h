/* The wire: listeners, TLS, gRPC calls, and the methods of the public contract. */
#pragma once

#include <systemd/sd-event.h>

#include "common/config.h"
#include "server/execution.h"

struct Accept;

/* Opens the listeners of the config, or takes those that systemd (or standalone) passed (LISTEN_FDS), and serves on `event`. Needs
 * signals to be blocked already, since it starts threads. On an error ret_error may hold one line for the operator. */
int accept_new(sd_event *event, const struct Config *config, struct Executions *executions, struct Accept **ret, char **ret_error);
/* What accept_new would refuse in listen and [tls], without opening a socket or asking for the addresses of names. certificates: whether they
 * load, too; names of systemd's credentials are left out where it passed none. On an error ret_error may hold one line for the operator. */
int accept_check(const struct Config *config, bool certificates, char **ret_error);
/* Reads certificates and operators again; listeners stay. On an error the old ones stay in use. */
int accept_reload(struct Accept *a, const struct Config *config, char **ret_error);
/* Stops accepting, tells clients to go elsewhere (GOAWAY, health NOT_SERVING, new calls UNAVAILABLE) and lets calls end;
 * on_stopped comes when none is left (do not free inside it). accept_abort cancels those that are still there. */
void accept_stop(struct Accept *a, void (*on_stopped)(void *userdata), void *userdata);
void accept_abort(struct Accept *a);
/* Runs the event loop that accept_new was given until it ends. Its exit code, or a negative errno. */
int accept_run_loop(struct Accept *a);
struct Accept *accept_free(struct Accept *a);
