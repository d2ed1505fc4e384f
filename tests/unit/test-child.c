/* standalone/child.c */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "standalone/child.h"

#define EXITED(code) ((code) << 8)

static struct Child child_of(char **argv, const int *fds, size_t n_fds) {
        return (struct Child) {
                .name = "test", .path = argv[0], .argv = argv, .fds = fds, .n_fds = n_fds, .fd_name = "client", .notify = "/run/notify",
                .uid = geteuid(), .gid = getegid(), .death_signal = SIGKILL, .first = true,
                .program = -EBADF, .library = open("/usr/lib", O_PATH | O_CLOEXEC),
        };
}

/* Runs a shell script as the child; its standard output goes where standard error goes. */
static int run(const char *script, const int *fds, size_t n_fds, char *buffer, size_t size) {
        char *argv[] = { (char *) "/bin/sh", (char *) "-c", (char *) script, NULL };
        struct Child c = child_of(argv, fds, n_fds);
        int out[2], saved = dup(STDERR_FILENO), status;
        size_t length = 0;
        ssize_t n;

        assert_ok(pipe(out));
        assert_ok(dup2(out[1], STDERR_FILENO));
        assert_ok(child_start(&c));
        assert_ok(dup2(saved, STDERR_FILENO));
        (void) close(out[1]);
        (void) close(saved);
        while ((n = read(out[0], buffer + length, size - 1 - length)) > 0)
                length += (size_t) n;
        buffer[length] = '\0';
        (void) close(out[0]);
        assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
        (void) close(c.library);
        return status;
}

static void it_gets_its_descriptors_and_no_others(void **state) {
        char text[512], expected[128];
        int a[2], b[2], fds[2];

        assert_ok(pipe(a));
        assert_ok(pipe(b));
        /* In an order that a careless copy would overwrite. */
        fds[0] = b[1];
        fds[1] = a[1];
        assert_int_equal(run("echo \"$LISTEN_FDS $LISTEN_FDNAMES $NOTIFY_SOCKET\"; [ \"$LISTEN_PID\" = $$ ] && echo mine; "
                             "echo ${GLOVEBOX_LIBRARY-none}; echo b >&3; echo a >&4; for fd in /proc/self/fd/*; do echo ${fd##*/}; done; exit 3",
                             fds, 2, text, sizeof(text)),
                         EXITED(3));
        (void) snprintf(expected, sizeof(expected), "2 client:client /run/notify\nmine\nnone\n0\n1\n2\n3\n4\n");
        /* The shell itself may hold the folder open while it lists. */
        assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
        assert_true(strlen(text) <= strlen(expected) + 4);
        assert_int_equal(read(b[0], text, 2), 2);
        assert_int_equal(text[0], 'b');
        assert_int_equal(read(a[0], text, 2), 2);
        assert_int_equal(text[0], 'a');
        for (int i = 0; i < 2; i++) {
                (void) close(a[i]);
                (void) close(b[i]);
        }
}

static void it_is_in_a_group_of_its_own(void **state) {
        char text[64];

        assert_int_equal(run("set -- $(cat /proc/$$/stat); [ $5 = $$ ] && echo own", NULL, 0, text, sizeof(text)), 0);
        assert_string_equal(text, "own\n");
}

static void a_program_that_is_not_there(void **state) {
        char *argv[] = { (char *) "/nonexistent/program", NULL };
        struct Child c = child_of(argv, NULL, 0);
        int status;

        assert_ok(child_start(&c));
        assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
        assert_int_equal(child_on_exit(&c, status), 127);
}

static void back_off_doubles_to_five_seconds(void **state) {
        static const unsigned ms[] = { 100, 200, 400, 800, 1600, 3200, 5000, 5000 };
        char *argv[] = { (char *) "/bin/true", NULL };
        struct Child c = child_of(argv, NULL, 0);

        for (size_t i = 0; i < ELEMENTSOF(ms); i++) {
                c.pid = 1;
                c.started_at = now_monotonic();
                assert_int_equal(child_on_exit(&c, i % 2 ? EXITED(1) : SIGSEGV), 0);
                assert_int_equal(c.pid, 0);
                assert_int_equal(c.back_off, ms[i] * USEC_PER_MSEC);
                assert_in_range(c.restart_at, now_monotonic() + c.back_off / 2, now_monotonic() + c.back_off);
        }
        c.started_at = now_monotonic() - 11 * USEC_PER_SEC;
        assert_int_equal(child_on_exit(&c, SIGKILL), 0);
        assert_int_equal(c.back_off, 100 * USEC_PER_MSEC);
}

/* A wrong configuration does not get right by trying again; one that was right once is not taken for wrong later. */
static void configuration_errors_count_once(void **state) {
        char *argv[] = { (char *) "/bin/true", NULL };
        struct Child c = child_of(argv, NULL, 0);

        assert_int_equal(child_on_exit(&c, EXITED(EX_CONFIG)), EX_CONFIG);
        assert_int_equal(child_on_exit(&c, EXITED(EX_CONFIG)), 0);
        c = child_of(argv, NULL, 0);
        assert_int_equal(child_on_exit(&c, EXITED(EX_USAGE)), EX_CONFIG);
        c = child_of(argv, NULL, 0);
        assert_int_equal(child_on_exit(&c, EXITED(1)), 0);
}

RUN(T(it_gets_its_descriptors_and_no_others), T(it_is_in_a_group_of_its_own), T(a_program_that_is_not_there),
    T(back_off_doubles_to_five_seconds), T(configuration_errors_count_once))
