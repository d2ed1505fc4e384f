/* The connection with the server: packets in, packets out in order, a bounded queue when the server is slow to read. */
#pragma once

#include <systemd/sd-event.h>

#include "common/wire.h"
#include "spawner/cell-kind.h"

struct Connection;

struct ConnectionHandler {
        /* A negative return ends the connection. */
        int (*on_packet)(void *userdata, const struct WirePacket *packet);
        /* It has ended, by either side; frees it. Never called from inside connection_send. */
        void (*on_end)(void *userdata, const char *why);
        void *userdata;
};

/* Takes fd, also on failure. One that stays silent ends: it must not keep the next server out. */
int connection_new(sd_event *event, int fd, const struct ConnectionHandler *handler, struct Connection **ret);
struct Connection *connection_free(struct Connection *c);
/* Sends or queues; descriptors stay the caller's. A server that lets the queue fill up loses its connection. */
void connection_send(struct Connection *c, Glovebox__Internal__FromSpawner *message, const struct RunFds *fds);
/* Has the other end closed? */
bool connection_is_hung_up(const struct Connection *c);
