/* Why a TLS handshake failed. gRPC tells it to its log only, so that is listened to. */
#pragma once

#include "client/options.h"

/* Takes gRPC's log over, which is silent from then on. Call before grpc_init; does nothing when GRPC_VERBOSITY is set: the user reads it then. */
void tls_fault_init(void);
/* From now on the reason is heard; call before connecting with TLS. */
void tls_fault_listen(void);
/* One line on standard error: what is wrong with whose certificate, and the cure; where no reason was heard, all that may be wrong, with
 * what was not given. host: as the server's certificate must name it. Returns STATUS_FAULT. */
int tls_fault_say(const struct Options *o, const char *server, const char *host);
