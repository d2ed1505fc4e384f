/* What the client shows: harmless text, times and sizes, exit statuses, input with a bound. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "client/console.h"
#include "client/ending.h"
#include "client/input.h"
#include "client/run-request.h"
#include "client/text.h"

static void test_escaping(void **state) {
        static const struct {
                const char *raw, *safe;
        } cases[] = {
                { "plain ü 漢 🙂", "plain ü 漢 🙂" },
                { "a\x1b[31mb\x07", "a\\x1b[31mb\\x07" },
                { "line\nnext\ttab\r", "line\\nnext\\ttab\\x0d" },
                { "\xc2\x9b" "31m", "\\x9b31m" },                  /* CSI as one character */
                { "abc\xe2\x80\xae" "def", "abc\\u{202e}def" },      /* right-to-left override */
                { "\xe2\x81\xa6", "\\u{2066}" },
                { "\xff\xc3", "\\xff\\xc3" },
                { "\xe2\x80", "\\xe2\\x80" },
                { "\xed\xa0\x80", "\\xed\\xa0\\x80" },              /* a surrogate */
                { "\xc0\x80", "\\xc0\\x80" },
                { "\x7f", "\\x7f" },
                { "", "" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char *safe _cleanup_free_ = console_escape(cases[i].raw);
                assert_string_equal(safe, cases[i].safe);
        }
}

static void test_times_and_sizes(void **state) {
        static const struct {
                usec_t time;
                const char *text;
        } times[] = {
                { 0, "0 ms" }, { 999999, "999 ms" }, { 1000000, "1.0 s" }, { 59990000, "59.9 s" }, { 60000000, "1 min 00 s" },
                { 3599999999, "59 min 59 s" }, { 3660000000, "1 h 01 min" },
        };
        static const struct {
                uint64_t bytes;
                const char *text;
        } sizes[] = {
                { 0, "0 B" }, { 1023, "1023 B" }, { 1024, "1 KiB" }, { 1536, "1.5 KiB" }, { 34 * MIB, "34 MiB" },
                { UINT64_MAX, "16777216 TiB" },
        };
        static const struct {
                usec_t time;
                const char *text;
        } periods[] = {
                { 0, "0 ms" }, { 1500, "1.5 ms" }, { 500000, "500 ms" }, { 1000000, "1 s" }, { 1250000, "1.25 s" }, { 30000000, "30 s" },
                { 60000000, "1 min" }, { 90000001, "1 min 30.000001 s" }, { 3600000000, "1 h" }, { 3605000000, "1 h 5 s" },
                { 5400000000, "1 h 30 min" },
        };
        char buffer[32];

        for (size_t i = 0; i < ELEMENTSOF(periods); i++)
                assert_string_equal(console_period(periods[i].time, buffer, sizeof(buffer)), periods[i].text);
        for (size_t i = 0; i < ELEMENTSOF(times); i++)
                assert_string_equal(console_time(times[i].time, buffer, sizeof(buffer)), times[i].text);
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                assert_string_equal(console_bytes(sizes[i].bytes, buffer, sizeof(buffer)), sizes[i].text);
}

#define OUTCOME(name) GLOVEBOX__V1__OUTCOME__OUTCOME_##name
#define CODE GLOVEBOX__V1__RESULT__EXIT_EXIT_CODE
#define SIGNAL GLOVEBOX__V1__RESULT__EXIT_SIGNAL

static void test_exit_statuses(void **state) {
        static const struct {
                int outcome, exit_case, number, status;
        } cases[] = {
                { OUTCOME(COMPLETED), CODE, 0, 0 },
                { OUTCOME(FAILED), CODE, 3, 3 },
                { OUTCOME(FAILED), CODE, 255, 255 },
                { OUTCOME(FAILED), CODE, 256, 1 }, /* never success */
                { OUTCOME(FAILED), 0, 0, 1 },
                { OUTCOME(SIGNALED), SIGNAL, 9, 137 },
                { OUTCOME(SIGNALED), SIGNAL, 15, 143 },
                { OUTCOME(TIMED_OUT), 0, 0, 124 },
                { OUTCOME(IDLE_TIMED_OUT), 0, 0, 124 },
                { OUTCOME(CPU_TIME_EXCEEDED), 0, 0, 124 },
                { OUTCOME(OUT_OF_MEMORY), 0, 0, 137 },
                { OUTCOME(OUT_OF_MEMORY), SIGNAL, 9, 137 },
                { OUTCOME(OUTPUT_LIMIT_EXCEEDED), 0, 0, 153 },
                { OUTCOME(INVALID_CODE), 0, 0, 126 },
                { OUTCOME(CANCELLED), 0, 0, 130 },
                { OUTCOME(SANDBOX_FAILED), 0, 0, 125 },
                { OUTCOME(UNSPECIFIED), 0, 0, 125 },
                { 99, 0, 0, 125 },
                { -1, 0, 0, 125 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Glovebox__V1__Result result = GLOVEBOX__V1__RESULT__INIT;

                result.outcome = (Glovebox__V1__Outcome) cases[i].outcome;
                result.exit_case = (Glovebox__V1__Result__ExitCase) cases[i].exit_case;
                if (cases[i].exit_case == SIGNAL)
                        result.signal = cases[i].number;
                else
                        result.exit_code = cases[i].number;
                assert_int_equal(ending_status(&result), cases[i].status);
        }
}

static void test_last_line(void **state) {
        Glovebox__V1__Result result = GLOVEBOX__V1__RESULT__INIT;
        char *line;

        result.outcome = OUTCOME(COMPLETED);
        result.message = (char *) "done";
        line = ending_line(&result); /* more than that it ended well */
        assert_string_equal(line, "done");
        free(line);
        result.message = (char *) "The program ended with exit status 0.";
        assert_null(ending_line(&result));
        result.message = (char *) "Send inputs_json.";
        line = ending_line(&result);
        assert_string_equal(line, "Send inputs_json. (--inputs '{}', --contract main)");
        free(line);
        result.message = (char *) "done";
        result.outcome = OUTCOME(TIMED_OUT);
        line = ending_line(&result);
        assert_string_equal(line, "TIMED_OUT: done");
        free(line);
}

static void test_reading_is_bounded(void **state) {
        struct Bytes bytes = {};
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        assert_int_equal(write(fds[1], "12345", 5), 5);
        assert_int_equal(input_read_fd(fds[0], 4, &bytes), -EFBIG);
        assert_null(bytes.data);
        assert_int_equal(write(fds[1], "12\0" "45", 5), 5);
        (void) close(fds[1]);
        assert_int_equal(input_read_fd(fds[0], 5, &bytes), 0);
        assert_int_equal(bytes.size, 5);
        assert_int_equal(bytes.data[5], 0);
        bytes_done(&bytes);
        (void) close(fds[0]);
        assert_int_equal(input_read_file("/dev/zero", 100000, &bytes), -EFBIG);
        assert_int_equal(input_read_file("/dev/null", 0, &bytes), 0);
        assert_int_equal(bytes.size, 0);
        bytes_done(&bytes);
        assert_int_equal(input_read_file("/nonexistent", 1, &bytes), -ENOENT);
}

static void test_which_stdin_is_passed_on(void **state) {
        int fds[2];
        int file = open(SOURCE_DIR "/README.md", O_RDONLY | O_CLOEXEC);
        int device = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int terminal = posix_openpt(O_RDWR | O_NOCTTY);

        assert_true(file >= 0 && device >= 0 && terminal >= 0);
        assert_true(input_is_passed(file));
        assert_false(input_is_passed(device));
        assert_false(input_is_passed(terminal));
        assert_int_equal(pipe(fds), 0);
        assert_true(input_is_passed(fds[0]));
        (void) close(fds[0]);
        (void) close(fds[1]);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        assert_true(input_is_passed(fds[0]));
        (void) close(fds[0]);
        (void) close(fds[1]);
        (void) close(file);
        (void) close(device);
        (void) close(terminal);
}

static void test_request_of_options(void **state) {
        char *operands[] = { (char *) "x", NULL };
        char *env[] = { (char *) "A=b=c", NULL };
        char *files[] = { (char *) "/dev/null:data/", (char *) SOURCE_DIR "/README.md", (char *) SOURCE_DIR "/dev:bin/run", NULL };
        struct Options o = { .code = "print(1)", .runtime = "python", .env = env, .files = files,
                             .no_stdin = true, .timeout = 1500000, .memory = MIB };
        struct RunRequest r = {};

        assert_int_equal(run_request_init(&r, &o), 0);
        assert_string_equal(r.message.code, "print(1)");
        assert_string_equal(r.message.env[0]->key, "A");
        assert_string_equal(r.message.env[0]->value, "b=c");
        assert_int_equal(r.message.n_files, 3);
        assert_string_equal(r.message.files[0]->path, "data/null");
        assert_string_equal(r.message.files[1]->path, "README.md");
        assert_true(r.message.files[1]->content.len > 0);
        assert_string_equal(r.message.files[2]->path, "bin/run");
        assert_true(r.message.files[2]->executable && !r.message.files[1]->executable);
        assert_int_equal(r.message.limits->timeout->seconds, 1);
        assert_int_equal(r.message.limits->timeout->nanos, 500000000);
        assert_int_equal(r.message.limits->memory_bytes, MIB);
        assert_null(r.message.limits->cpu_time);
        assert_null(r.message.idle);
        assert_int_equal(protobuf_c_message_check(&r.message.base), 1);
        run_request_done(&r);
        o.operands = operands;
        assert_int_equal(run_request_init(&r, &o), STATUS_FAULT); /* code twice */
        run_request_done(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_escaping),
                cmocka_unit_test(test_times_and_sizes),
                cmocka_unit_test(test_exit_statuses),
                cmocka_unit_test(test_last_line),
                cmocka_unit_test(test_reading_is_bounded),
                cmocka_unit_test(test_which_stdin_is_passed_on),
                cmocka_unit_test(test_request_of_options),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
