/* Mutual TLS in front of gRPC: who connects is told by a certificate. */
#pragma once

#include "server/accept/room.h"

int tls_new(struct Accept *a, struct Tls **ret, char **ret_error);
/* Do the config's certificates load? Names of credentials are not looked for where systemd passed none. */
int tls_check(const struct Config *config, char **ret_error);
struct Tls *tls_free(struct Tls *t);
/* Takes the config's certificates for connections that come from now on. On an error the old ones stay in use. */
int tls_reload(struct Tls *t, const struct Config *config, char **ret_error);
/* Takes fd in any case. Once its handshake is done the connection turns up in a->connections. */
int tls_add(struct Tls *t, int fd);
/* Connections that are not handed over yet. */
size_t tls_pending(const struct Tls *t);
