/* common/journal.c against a socket of our own in the place of the journal's */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/journal.h"
#include "common/message-ids.h"

#define LARGE (3u << 20)

struct Fixture {
        char folder[32], path[64];
        int fd;
};

static int open_socket(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        strcpy(address.sun_path, path);
        assert_ok(fd);
        assert_ok(bind(fd, (struct sockaddr *) &address, sizeof(address)));
        return fd;
}

static int setup(void **state) {
        struct Fixture *f = calloc(1, sizeof(*f));

        strcpy(f->folder, "/tmp/glovebox-journal.XXXXXX");
        assert_non_null(mkdtemp(f->folder));
        (void) snprintf(f->path, sizeof(f->path), "%s/socket", f->folder);
        f->fd = open_socket(f->path);
        journal_set_socket(f->path);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct Fixture *f = *state;

        (void) close(f->fd);
        (void) unlink(f->path);
        (void) rmdir(f->folder);
        free(f);
        return 0;
}

static int say(const char *text) {
        const struct JournalField fields[] = { { "MESSAGE", text }, { "SYSLOG_IDENTIFIER", "test" }, { "ERRNO", "" }, { "OTHER", NULL } };

        return journal_send(fields, ELEMENTSOF(fields));
}

static void values_are_lines_or_have_a_length(void **state) {
        static const char expected[] = "MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\nSYSLOG_IDENTIFIER=test\n";
        struct Fixture *f = *state;
        char text[256];

        assert_true(journal_is_there());
        assert_int_equal(say("hello = x"), 0);
        ssize_t n = recv(f->fd, text, sizeof(text), 0);
        assert_ok(n);
        text[n] = '\0';
        assert_string_equal(text, "MESSAGE=hello = x\nSYSLOG_IDENTIFIER=test\n");
        assert_int_equal(say("a\nb"), 0);
        assert_int_equal(recv(f->fd, text, sizeof(text), 0), sizeof(expected) - 1);
        assert_memory_equal(text, expected, sizeof(expected) - 1);
}

/* Too large for a datagram: a file that nobody can change any more. */
static void large_records_are_files(void **state) {
        struct Fixture *f = *state;
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = { .msg_control = &control, .msg_controllen = sizeof(control) };
        char *text = malloc(LARGE + 1), start[16];
        int fd;

        memset(text, 'x', LARGE);
        text[LARGE] = '\0';
        assert_int_equal(say(text), 0);
        assert_ok(recvmsg(f->fd, &message, MSG_CMSG_CLOEXEC));
        assert_int_equal(control.header.cmsg_type, SCM_RIGHTS);
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
        assert_int_equal(lseek(fd, 0, SEEK_END), strlen("MESSAGE=\nSYSLOG_IDENTIFIER=test\n") + LARGE);
        assert_int_equal(pread(fd, start, 10, 0), 10);
        assert_memory_equal(start, "MESSAGE=xx", 10);
        assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
        (void) close(fd);
        free(text);
}

/* A journal that does not read: patience once, then none, and the loss is told once it reads again. */
static void a_journal_that_hangs_holds_nobody_up(void **state) {
        struct Fixture *f = *state;
        usec_t began = now_monotonic();
        char text[512];
        int r = 0, n = 0;
        ssize_t size;

        while ((r = say("full")) == 0 && n < 100000)
                n++;
        assert_int_equal(r, -EAGAIN);
        assert_true(n > 0 && now_monotonic() - began >= JOURNAL_PATIENCE);
        began = now_monotonic();
        for (int i = 0; i < 999; i++)
                assert_int_equal(say("lost"), -EAGAIN);
        assert_true(now_monotonic() - began < 5 * JOURNAL_PATIENCE);
        while (recv(f->fd, text, sizeof(text), 0) > 0)
                ;
        assert_int_equal(say("again"), 0);
        size = recv(f->fd, text, sizeof(text) - 1, 0);
        assert_ok(size);
        text[size] = '\0';
        assert_non_null(strstr(text, "MESSAGE=again\n"));
        size = recv(f->fd, text, sizeof(text) - 1, 0);
        assert_ok(size);
        text[size] = '\0';
        assert_non_null(strstr(text, ": 1000 messages are missing here\n"));
        assert_non_null(strstr(text, "MESSAGE_ID=" MESSAGE_JOURNAL_LATE "\n"));
        assert_non_null(strstr(text, "SYSLOG_IDENTIFIER=test\n"));
        assert_int_equal(say("and on"), 0);
        assert_ok(recv(f->fd, text, sizeof(text), 0));
        assert_int_equal(recv(f->fd, text, sizeof(text), 0), -1);
}

static void a_new_journal_is_found(void **state) {
        struct Fixture *f = *state;
        char text[64];

        assert_int_equal(say("one"), 0);
        (void) close(f->fd);
        (void) unlink(f->path);
        assert_false(journal_is_there());
        assert_true(say("nobody") < 0);
        f->fd = open_socket(f->path);
        assert_int_equal(say("two"), 0);
        assert_ok(recv(f->fd, text, sizeof(text), 0));
        assert_memory_equal(text, "MESSAGE=two\n", 12);
}

struct Reader {
        int fd;
        usec_t read; /* when */
};

static void *read_late(void *userdata) {
        struct Reader *r = userdata;
        char text[64];

        (void) usleep(200 * 1000);
        r->read = now_monotonic();
        (void) recv(r->fd, text, sizeof(text), 0);
        return NULL;
}

/* Who ends waits until what it said is read, and not for ever. */
static void an_end_waits_for_the_journal(void **state) {
        struct Fixture *f = *state;
        struct Reader reader = { .fd = f->fd };
        pthread_t thread;

        assert_int_equal(say("last words"), 0);
        assert_int_equal(pthread_create(&thread, NULL, read_late, &reader), 0);
        journal_settle();
        usec_t settled = now_monotonic();
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(reader.read > 0 && settled > reader.read);
        assert_int_equal(say("to nobody"), 0);
        usec_t began = now_monotonic();
        journal_settle();
        assert_true(now_monotonic() - began >= JOURNAL_SETTLE);
}

#define F(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
RUN(F(values_are_lines_or_have_a_length), F(large_records_are_files), F(a_journal_that_hangs_holds_nobody_up), F(a_new_journal_is_found),
    F(an_end_waits_for_the_journal))
