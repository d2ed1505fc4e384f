/* common/log.c */
#include "tests/unit/unit.h"

#include "common/log.h"

/* What f writes to standard error. */
static void capture(void (*f)(void), char *buffer, size_t size) {
        int fds[2], saved = dup(STDERR_FILENO);
        ssize_t n;

        assert_ok(pipe(fds));
        assert_ok(set_nonblock(fds[0], true));
        assert_ok(dup2(fds[1], STDERR_FILENO));
        f();
        assert_ok(dup2(saved, STDERR_FILENO));
        n = read(fds[0], buffer, size - 1);
        buffer[n > 0 ? n : 0] = '\0';
        (void) close(saved);
        (void) close(fds[0]);
        (void) close(fds[1]);
}

static void write_plain(void) {
        errno = EPIPE;
        assert_int_equal(log_error_errno(-ENOENT, "Cannot open %s: %m", "x"), -ENOENT);
        assert_int_equal(errno, EPIPE);
}

static void write_positive(void) {
        assert_int_equal(log_error_errno(EACCES, "No: %m"), -EACCES);
}

static void write_execution(void) {
        assert_int_equal(log_full(LOG_INFO, 0, "gb-1", "started"), 0);
}

/* Bytes of a caller must not begin a line of their own or reach the terminal as control characters. */
static void write_injected(void) {
        log_info("name '%s'", "a\nglovebox: fake\x1b[2J\x7f");
}

static void write_long(void) {
        char text[5000];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        log_info("%s", text);
}

static void write_debug(void) {
        log_debug("not shown");
}

static void write_event(void) {
        assert_int_equal(log_event(LOG_WARNING, MESSAGE_CELL_FAILED, ENOENT, "gb-1", "failed: %m"), -ENOENT);
}

/* One for every execution would fill a terminal. */
static void write_step(void) {
        log_step(MESSAGE_EXECUTION_RUNNING, "gb-1", "runs");
}

static void lines(void **state) {
        static const struct {
                void (*f)(void);
                const char *text;
        } cases[] = {
                { write_plain, "test: Cannot open x: No such file or directory\n" },
                { write_positive, "test: No: Permission denied\n" },
                { write_execution, "test[gb-1]: started\n" },
                { write_injected, "test: name 'a?glovebox: fake?[2J?'\n" },
                { write_debug, "" },
                { write_event, "test[gb-1]: failed: No such file or directory\n" },
                { write_step, "" },
        };
        char buffer[4096];

        log_open("test");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                capture(cases[i].f, buffer, sizeof(buffer));
                assert_string_equal(buffer, cases[i].text);
        }
}

static void long_lines_are_cut(void **state) {
        char buffer[8192];

        log_open("test");
        capture(write_long, buffer, sizeof(buffer));
        assert_in_range(strlen(buffer), 1000, 2500);
        assert_int_equal(buffer[strlen(buffer) - 1], '\n');
}

static void level(void **state) {
        char buffer[256];

        log_open("test");
        log_set_max_level(LOG_DEBUG);
        capture(write_debug, buffer, sizeof(buffer));
        assert_string_equal(buffer, "test: not shown\n");
        log_set_max_level(LOG_INFO);
}

RUN(T(lines), T(long_lines_are_cut), T(level))
