/* One packet between server and spawner: sent, received and unpacked with bounds, never blocking. */
#include "common/wire.h"

#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

#define WIRE_FIELDS_MAX 4096
#define WIRE_MEMORY_MAX MIB

union Control {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
};

int wire_send(int socket, const ProtobufCMessage *message, const int *fds, size_t n_fds) {
        size_t size = protobuf_c_message_get_packed_size(message);
        uint8_t bytes[WIRE_PACKET_MAX];
        union Control control = {};
        struct iovec part = { bytes, size };
        struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
        ssize_t n;

        if (size > sizeof(bytes) || n_fds > WIRE_FDS_MAX)
                return -E2BIG;
        /* An empty packet could not be told from the end of the connection. */
        if (size == 0)
                return -EINVAL;
        (void) protobuf_c_message_pack(message, bytes);
        if (n_fds > 0) {
                packet.msg_control = &control;
                packet.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n_fds);
        }
        do
                n = sendmsg(socket, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

static void take_descriptors(struct msghdr *header, struct WirePacket *packet) {
        for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
                size_t n;

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                        if (packet->n_fds < WIRE_FDS_MAX)
                                packet->fds[packet->n_fds++] = fd;
                        else
                                (void) close(fd);
                }
        }
}

int wire_receive(int socket, struct WirePacket *packet) {
        union Control control = {};
        struct iovec part = { packet->bytes, sizeof(packet->bytes) };
        struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        ssize_t n;

        packet->size = packet->n_fds = 0;
        do
                n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == ECONNRESET ? 0 : -errno;
        take_descriptors(&header, packet);
        /* Descriptors that are missing although there was space for them: this process may have no more. That is no fault of the peer, and
         * the packet has to be understood, or everything that hangs on the connection would be lost for it. */
        bool too_many = (header.msg_flags & MSG_CTRUNC) && packet->n_fds == WIRE_FDS_MAX;
        if (n == 0 || (header.msg_flags & MSG_TRUNC) || too_many) {
                wire_packet_done(packet);
                return n == 0 ? 0 : -EBADMSG;
        }
        packet->size = (size_t) n;
        return 1;
}

void wire_packet_done(struct WirePacket *packet) {
        for (size_t i = 0; i < packet->n_fds; i++)
                packet->fds[i] = close_fd(packet->fds[i]);
        packet->n_fds = 0;
}

static bool skip_varint(const uint8_t *bytes, size_t size, size_t *at, uint64_t *ret) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 64 && *at < size; shift += 7) {
                uint8_t b = bytes[(*at)++];
                value |= (uint64_t) (b & 0x7f) << shift;
                if (!(b & 0x80)) {
                        *ret = value;
                        return true;
                }
        }
        return false;
}

/* Steps over one field; false when it is malformed or reaches beyond the end. */
static bool skip_field(const uint8_t *bytes, size_t size, size_t *at) {
        uint64_t tag, length;

        if (!skip_varint(bytes, size, at, &tag))
                return false;
        switch (tag & 7) {
        case 0:
                return skip_varint(bytes, size, at, &length);
        case 1:
                length = 8;
                break;
        case 2:
                if (!skip_varint(bytes, size, at, &length))
                        return false;
                break;
        case 5:
                length = 4;
                break;
        default:
                return false;
        }
        if (length > size - *at)
                return false;
        *at += length;
        return true;
}

/* What unpacking may still allocate. free() needs no count: a message is dropped as a whole when the budget is not enough. */
struct Budget {
        size_t left;
};

static void *budget_alloc(void *data, size_t size) {
        struct Budget *budget = data;

        if (size > budget->left)
                return NULL;
        budget->left -= size;
        return malloc(size);
}

static void budget_free(void *data, void *pointer) {
        free(pointer);
}

ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size) {
        struct Budget budget = { WIRE_MEMORY_MAX };
        ProtobufCAllocator allocator = { budget_alloc, budget_free, &budget };
        size_t fields = 0;

        if (size > WIRE_PACKET_MAX)
                return NULL;
        for (size_t at = 0; at < size; fields++)
                if (fields == WIRE_FIELDS_MAX || !skip_field(bytes, size, &at))
                        return NULL;
        /* Memory is malloc's, so the message may be freed with protobuf-c's own allocator. */
        return protobuf_c_message_unpack(type, &allocator, size, bytes);
}

void wire_refuse_descriptors(int fd) {
        const int off = 0;

        (void) setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}
