/* One thread that speaks TLS on one side and plain bytes, over a socket pair, to gRPC on the other. */
#pragma once

#include <openssl/ssl.h>

#include "server/caller.h"

struct Relay;

/* How a handshake ended; called on the relay's thread, exactly once for each relay_add: fd is gRPC's end of the pair, which the
 * receiver closes or hands on, or a negative errno. */
typedef void (*relay_on_handshake_t)(void *userdata, int fd, const struct Caller *caller);

int relay_new(relay_on_handshake_t on_handshake, void *userdata, struct Relay **ret);
/* Ends the thread and every connection, after what gRPC has written is sent or a short while has passed; calls on_handshake for
 * those that were not done. */
struct Relay *relay_free(struct Relay *r);
/* Takes both, in any case. An error means that on_handshake does not come. */
int relay_add(struct Relay *r, SSL *ssl, int tcp);
/* Gives up the handshake that has lasted longest: whoever floods us must not keep others out. */
void relay_give_up_oldest(struct Relay *r);
