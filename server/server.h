/* The server as a whole: config, executions, the wire; reload and orderly stop. */
#pragma once

#include <systemd/sd-event.h>

#include "common/config.h"

struct Server;

struct ServerOptions {
        const char *config_file; /* NULL = the default place */
        const char *spawner;     /* path of the spawner's socket */
        char **listen;           /* replaces the config's; NULL = as the config says */
        bool passed_only;        /* no listening sockets but those of LISTEN_FDS */
};

/* Could a server with this config and these options start, or reload? Listeners that would be refused, certificates that do not load, an
 * audit file that cannot be written. Opens no socket. opens: certificates and audit file, too, which only
 * the server's user can tell. On an error ret_error is one line for the operator. */
int server_check(const struct ServerOptions *options, struct Config *config, bool opens, char **ret_error);
/* config is taken over, also on failure; it was read with these options. */
int server_new(const struct ServerOptions *options, struct Config *config, struct Server **ret, char **ret_error);
/* Runs until SIGTERM or SIGINT have been obeyed. */
int server_run(struct Server *s);
struct Server *server_free(struct Server *s);
DEFINE_CLEANUP(struct Server *, server_free)
