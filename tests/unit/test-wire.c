/* common/wire.c */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/wire.h"
#include "spawner.pb-c.h"

struct Pair {
        int fds[2];
};

static void open_pair(struct Pair *p) {
        assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->fds));
}

static void close_pair(struct Pair *p) {
        p->fds[0] = close_fd(p->fds[0]);
        p->fds[1] = close_fd(p->fds[1]);
}

static size_t count_fds(void) {
        size_t n = 0;

        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* A FromSpawner with a text of this length. */
static int send_text(int socket, size_t length, const int *fds, size_t n_fds) {
        char *text _cleanup_free_ = malloc(length + 1);
        Glovebox__Internal__CellClosed closed = GLOVEBOX__INTERNAL__CELL_CLOSED__INIT;
        Glovebox__Internal__FromSpawner message = GLOVEBOX__INTERNAL__FROM_SPAWNER__INIT;

        memset(text, 'x', length);
        text[length] = '\0';
        closed.cell = 7;
        closed.left = text;
        message.message_case = GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_CLOSED;
        message.cell_closed = &closed;
        return wire_send(socket, &message.base, fds, n_fds);
}

static void round_trip(void **state) {
        static struct WirePacket packet;
        Glovebox__Internal__FromSpawner *m;
        struct Pair p;
        int sent[2];

        open_pair(&p);
        assert_ok(pipe(sent));
        assert_error(wire_receive(p.fds[1], &packet), EAGAIN);
        assert_ok(send_text(p.fds[0], 10, sent, 2));
        assert_int_equal(wire_receive(p.fds[1], &packet), 1);
        assert_int_equal(packet.n_fds, 2);
        assert_true(fcntl(packet.fds[0], F_GETFD) & FD_CLOEXEC);
        m = (Glovebox__Internal__FromSpawner *) wire_unpack(&glovebox__internal__from_spawner__descriptor, packet.bytes, packet.size);
        assert_non_null(m);
        assert_int_equal(m->message_case, GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_CLOSED);
        assert_int_equal(m->cell_closed->cell, 7);
        assert_string_equal(m->cell_closed->left, "xxxxxxxxxx");
        protobuf_c_message_free_unpacked(&m->base, NULL);
        wire_packet_done(&packet);
        (void) close(sent[0]);
        (void) close(sent[1]);
        p.fds[0] = close_fd(p.fds[0]);
        assert_int_equal(wire_receive(p.fds[1], &packet), 0);
        close_pair(&p);
}

static void too_much_is_not_sent(void **state) {
        Glovebox__Internal__FromSpawner empty = GLOVEBOX__INTERNAL__FROM_SPAWNER__INIT;
        int fds[WIRE_FDS_MAX + 1] = {};
        struct Pair p;

        open_pair(&p);
        assert_error(send_text(p.fds[0], WIRE_PACKET_MAX, NULL, 0), E2BIG);
        assert_error(send_text(p.fds[0], 1, fds, ELEMENTSOF(fds)), E2BIG);
        assert_error(wire_send(p.fds[0], &empty.base, NULL, 0), EINVAL);
        close_pair(&p);
}

static void a_peer_that_does_not_read(void **state) {
        struct Pair p;
        int r = 0;

        open_pair(&p);
        for (int i = 0; i < 100000 && r >= 0; i++)
                r = send_text(p.fds[0], 60000, NULL, 0);
        assert_int_equal(r, -EAGAIN);
        close_pair(&p);
        open_pair(&p);
        p.fds[1] = close_fd(p.fds[1]);
        assert_error(send_text(p.fds[0], 1, NULL, 0), EPIPE);
        close_pair(&p);
}

static void send_raw(int socket, size_t size, size_t n_fds) {
        static uint8_t bytes[WIRE_PACKET_MAX + 1];
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * 64)];
        } control = {};
        struct iovec part = { bytes, size };
        struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

        if (n_fds > 0) {
                m.msg_control = &control;
                m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                control.header = (struct cmsghdr) { CMSG_LEN(sizeof(int) * n_fds), SOL_SOCKET, SCM_RIGHTS };
                for (size_t i = 0; i < n_fds; i++)
                        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &socket, sizeof(int));
        }
        assert_int_equal(sendmsg(socket, &m, 0), size);
}

/* The kernel leaves out what the receiver has no numbers for: the packet still arrives. */
static void a_full_table_is_no_bad_packet(void **state) {
        static struct WirePacket packet;
        struct rlimit before, few;
        struct Pair p;

        open_pair(&p);
        send_raw(p.fds[0], 1, 5);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        int next = dup(p.fds[0]);
        (void) close(next);
        few = (struct rlimit) { (rlim_t) next + 2, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int r = wire_receive(p.fds[1], &packet);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(r, 1);
        assert_int_equal(packet.size, 1);
        assert_true(packet.n_fds < 5);
        wire_packet_done(&packet);
        close_pair(&p);
}

/* Whatever is wrong with a packet, none of its descriptors stays open. */
static void bad_packets_leave_nothing_open(void **state) {
        static struct WirePacket packet;
        size_t before;
        struct Pair p;

        open_pair(&p);
        before = count_fds();
        send_raw(p.fds[0], WIRE_PACKET_MAX + 1, 3);
        assert_error(wire_receive(p.fds[1], &packet), EBADMSG);
        assert_int_equal(packet.n_fds, 0);
        send_raw(p.fds[0], 1, WIRE_FDS_MAX + 8);
        assert_error(wire_receive(p.fds[1], &packet), EBADMSG);
        assert_int_equal(count_fds(), before);
        send_raw(p.fds[0], WIRE_PACKET_MAX, WIRE_FDS_MAX);
        assert_int_equal(wire_receive(p.fds[1], &packet), 1);
        assert_int_equal(packet.size, WIRE_PACKET_MAX);
        assert_int_equal(packet.n_fds, WIRE_FDS_MAX);
        wire_packet_done(&packet);
        assert_int_equal(count_fds(), before);
        close_pair(&p);
}

static ProtobufCMessage *unpack(const void *bytes, size_t size) {
        return wire_unpack(&glovebox__internal__to_spawner__descriptor, bytes, size);
}

static void malformed_messages(void **state) {
        static const struct {
                const char *bytes;
                size_t size;
        } cases[] = {
                { "\x12", 1 },                         /* a length is missing */
                { "\x12\x05\x08", 3 },                 /* shorter than it says */
                { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11 }, /* a number without end */
                { "\x0b\x0c", 2 },                     /* a group */
                { "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, /* a length of 2^64 - 1 */
                { "\x09\x01", 2 },                     /* eight bytes that are not there */
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_null(unpack(cases[i].bytes, cases[i].size));
}

static void bounds_of_unpacking(void **state) {
        static uint8_t bytes[WIRE_PACKET_MAX + 1];
        ProtobufCMessage *m;

        /* Repeated `roles`, one by one: 4096 are the most. */
        for (size_t i = 0; i < 4097; i++)
                memcpy(bytes + 2 * i, "\x08\x01", 2);
        m = unpack(bytes, 4096 * 2);
        assert_non_null(m);
        protobuf_c_message_free_unpacked(m, NULL);
        assert_null(unpack(bytes, 4097 * 2));
        assert_null(unpack(bytes, sizeof(bytes)));
        /* A submessage of unknown fields, which cost far more memory than bytes. */
        memcpy(bytes, "\x12\xf8\xff\x03", 4);
        for (size_t i = 4; i + 1 < WIRE_PACKET_MAX; i += 2)
                memcpy(bytes + i, "\x78\x01", 2);
        assert_null(unpack(bytes, 4 + 65528));
}

RUN(T(round_trip), T(too_much_is_not_sent), T(a_peer_that_does_not_read), T(bad_packets_leave_nothing_open),
    T(a_full_table_is_no_bad_packet), T(malformed_messages),
    T(bounds_of_unpacking))
