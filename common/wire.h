/* One packet of the protocol between server and spawner: a protobuf-c message and descriptors, over SOCK_SEQPACKET. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "common/util.h"

#define WIRE_PROTOCOL 7
#define WIRE_PACKET_MAX (64 * KIB)
#define WIRE_FDS_MAX 24

/* Sends one message without blocking; descriptors stay the caller's. -EAGAIN: the peer does not read; -E2BIG. */
int wire_send(int socket, const ProtobufCMessage *message, const int *fds, size_t n_fds);

struct WirePacket {
        size_t size;
        uint8_t bytes[WIRE_PACKET_MAX];
        size_t n_fds;
        int fds[WIRE_FDS_MAX]; /* -EBADF once taken */
};

/* Receives one packet without blocking. 1 = there it is, 0 = the peer has closed, -EAGAIN = nothing now, -EBADMSG = too large
 * or too many descriptors (all closed again). Some are missing when this process may have no more. Close what you do not take with
 * wire_packet_done. */
int wire_receive(int socket, struct WirePacket *packet);
void wire_packet_done(struct WirePacket *packet);

/* Unpacks with bounds: the message's own size and count checks of protobuf-c plus a budget of memory. NULL when malformed. */
ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size);
/* On a listening or a datagram socket: whoever sends to it cannot send descriptors along, whose closing may block us (SO_LINGER). Linux 6.16;
 * on older kernels they are received and closed. */
void wire_refuse_descriptors(int fd);
