/* The guard counts what is read from the sockets it watches, and leaves all others alone. */
#include "tests/unit/unit.h"

#include <sys/socket.h>

#include "server/accept/guard.h"

struct Line { /* a client's end, and ours */
        int client, ours;
        struct Guard *guard;
};

static const uint8_t headers[] = {0, 0, 1, 1, 5, 0, 0, 0, 1, 0x80}; /* a HEADERS frame of one byte */

static void line_init(struct Line *l, struct Account *account) {
        int pair[2];

        assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair));
        *l = (struct Line) {.client = pair[0], .ours = pair[1]};
        assert_ok(guard_new(l->ours, account, &l->guard));
        assert_int_equal(send(l->client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 0), 24);
}

static void line_done(struct Line *l) {
        (void) close_fd(l->client);
        (void) close_fd(l->ours);
        guard_free(l->guard);
}

/* Reads in pieces of this size until nothing is left; false = cut. */
static bool line_read(struct Line *l, size_t piece) {
        uint8_t a[4096], b[4096];

        for (;;) {
                struct iovec iov[2] = {{a, MIN(piece, sizeof(a))}, {b, sizeof(b)}};
                struct msghdr m = {.msg_iov = iov, .msg_iovlen = piece > sizeof(a) ? 2 : 1};
                ssize_t n = recvmsg(l->ours, &m, 0);

                if (n < 0 && errno == EAGAIN)
                        return true;
                if (n < 0) {
                        assert_int_equal(errno, ECONNRESET);
                        return false;
                }
                assert_true(n > 0);
        }
}

/* This many calls, read in pieces that fall across frames; the number that got through. */
static unsigned line_flood(struct Line *l, unsigned n, size_t piece) {
        for (unsigned i = 0; i < n; i++) {
                assert_int_equal(send(l->client, headers, sizeof(headers), 0), (ssize_t) sizeof(headers));
                if (!line_read(l, piece))
                        return i;
        }
        return n;
}

static void some_calls_pass(void **state) {
        struct Account *account = account_new();
        struct Line l;

        line_init(&l, account);
        assert_false(guard_has_seen(l.guard));
        assert_int_equal(line_flood(&l, 500, 7), 500);
        assert_true(guard_has_seen(l.guard));
        assert_false(guard_has_cut(l.guard));
        line_done(&l);
        account_unref(account);
}

static void a_flood_is_cut_and_stays_cut(void **state) {
        struct Account *account = account_new();
        unsigned passed;
        struct Line l;

        line_init(&l, account);
        passed = line_flood(&l, 10000000, 8192);
        assert_true(passed >= 999);
        assert_true(guard_has_cut(l.guard));
        assert_false(line_read(&l, 100));
        line_done(&l);
        account_unref(account);
}

/* The caller's own other connection goes on with a few calls. */
static void an_innocent_connection_goes_on(void **state) {
        struct Account *account = account_new();
        struct Line calm, wild[3];

        line_init(&calm, account);
        for (size_t i = 0; i < ELEMENTSOF(wild); i++) {
                line_init(&wild[i], account);
                assert_true(line_flood(&wild[i], 10000000, 8192) > 0);
                assert_int_equal(line_flood(&calm, 3, 8192), 3);
        }
        for (size_t i = 0; i < ELEMENTSOF(wild); i++)
                line_done(&wild[i]);
        line_done(&calm);
        account_unref(account);
}

/* Headers that never end are cut at the bound, wherever the pieces fall; those of other calls begin anew. */
static void headers_without_end_are_cut(void **state) {
        static const uint8_t begin[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 0x80};
        static const uint8_t go_on[9 + 1024] = {0, 4, 0, 9, 0, 0, 0, 0, 1}, end[9 + 1024] = {0, 4, 0, 9, 4, 0, 0, 0, 1};
        struct Account *account = account_new();
        struct Line l;

        line_init(&l, account);
        for (unsigned call = 0; call < 3; call++) {
                assert_int_equal(send(l.client, begin, sizeof(begin), 0), (ssize_t) sizeof(begin));
                for (unsigned i = 0; i < 62; i++)
                        assert_int_equal(send(l.client, go_on, sizeof(go_on), 0), (ssize_t) sizeof(go_on));
                assert_int_equal(send(l.client, end, sizeof(end), 0), (ssize_t) sizeof(end));
                assert_true(line_read(&l, 333));
        }
        assert_int_equal(send(l.client, begin, sizeof(begin), 0), (ssize_t) sizeof(begin));
        for (unsigned i = 0; i < 63; i++)
                assert_int_equal(send(l.client, go_on, sizeof(go_on), 0), (ssize_t) sizeof(go_on));
        assert_true(line_read(&l, 333));
        assert_int_equal(send(l.client, go_on, sizeof(go_on), 0), (ssize_t) sizeof(go_on));
        assert_false(line_read(&l, 333));
        assert_true(guard_has_cut(l.guard));
        line_done(&l);
        account_unref(account);
}

/* Large data frames are what uploads are made of: only their number on the wire is their price. */
static void data_passes(void **state) {
        static uint8_t frame[9 + 16384] = {0, 0x40, 0, 0};
        struct Account *account = account_new();
        struct Line l;

        line_init(&l, account);
        for (unsigned i = 0; i < 20000; i++) {
                size_t sent = 0;

                while (sent < sizeof(frame)) {
                        ssize_t n = send(l.client, frame + sent, sizeof(frame) - sent, 0);

                        assert_true(n > 0 || errno == EAGAIN);
                        sent += n > 0 ? (size_t) n : 0;
                        assert_true(line_read(&l, 8192));
                }
        }
        line_done(&l);
        account_unref(account);
}

static void other_sockets_are_left_alone(void **state) {
        uint8_t bytes[4096];
        int pair[2];

        assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
        for (unsigned i = 0; i < 50000; i++) {
                struct iovec iov = {bytes, sizeof(bytes)};
                struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

                assert_int_equal(send(pair[0], headers, sizeof(headers), 0), (ssize_t) sizeof(headers));
                assert_int_equal(recvmsg(pair[1], &m, 0), (ssize_t) sizeof(headers));
        }
        (void) close_fd(pair[0]);
        (void) close_fd(pair[1]);
}

RUN(T(some_calls_pass), T(a_flood_is_cut_and_stays_cut), T(an_innocent_connection_goes_on), T(headers_without_end_are_cut), T(data_passes),
    T(other_sockets_are_left_alone))
