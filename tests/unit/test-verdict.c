/* server/verdict/verdict.c and evidence.c: the contract's table of outcomes. */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/mman.h>

#include "server/verdict/evidence.h"
#include "server/verdict/verdict.h"

static struct Result judge(struct Case c) {
        struct Result r = {};
        c.timeout = 2 * USEC_PER_SEC;
        c.output_bytes = 1000;
        if (c.since_output == 0)
                c.since_output = USEC_INFINITY;
        verdict(&c, &r);
        assert_true(strlen(r.message) > 10 && r.message[strlen(r.message) - 1] == '.');
        return r;
}

#define JUDGE(...) judge((struct Case) { __VA_ARGS__ })

static void the_wait_status(void **state) {
        struct Result r = JUDGE(.trigger = TRIGGER_EXIT);
        assert_int_equal(r.outcome, OUTCOME_COMPLETED);
        assert_int_equal(r.exit, EXIT_CODE);
        r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 137);
        assert_int_equal(r.outcome, OUTCOME_FAILED);
        assert_int_equal(r.status, 137);
        assert_int_equal(r.limits_hit, 0);
        r = JUDGE(.trigger = TRIGGER_EXIT, .main_signaled = true, .main_status = SIGKILL);
        assert_int_equal(r.outcome, OUTCOME_SIGNALED);
        assert_int_equal(r.exit, EXIT_SIGNAL);
        assert_int_equal(r.status, SIGKILL);
        assert_non_null(strstr(r.message, "SIGKILL"));
}

/* init killed, then memory, then output, then the wait status. */
static void what_overrides_the_wait_status(void **state) {
        uint32_t memory = 1u << LIMIT_HIT_MEMORY;

        struct Result r = JUDGE(.trigger = TRIGGER_EXIT, .init_killed = true, .limits_hit = memory, .out_over = true);
        assert_int_equal(r.outcome, OUTCOME_SANDBOX_FAILED);
        r = JUDGE(.trigger = TRIGGER_EXIT, .limits_hit = memory, .out_over = true);
        assert_int_equal(r.outcome, OUTCOME_OUT_OF_MEMORY);
        assert_int_equal(r.exit, EXIT_UNSET);
        assert_true(r.stdout_truncated);
        r = JUDGE(.trigger = TRIGGER_EXIT, .err_over = true);
        assert_int_equal(r.outcome, OUTCOME_OUTPUT_LIMIT_EXCEEDED);
        assert_true(r.stderr_truncated && !r.stdout_truncated);
        assert_int_equal(r.limits_hit, 1u << LIMIT_HIT_OUTPUT);
        assert_non_null(strstr(r.message, "standard error"));
}

/* Full is the leaf (oom and oom_kill rose), or something above it (only oom_kill did). */
static void who_ran_out_of_memory(void **state) {
        static const struct {
                const char *events;
                bool own, machine;
        } cases[] = {
                {"low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n", true, false},
                {"low 0\nhigh 0\nmax 0\noom 0\noom_kill 3\noom_group_kill 1\n", false, true},
                {"low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n", false, false},
                {"low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n", false, false},
        };
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct EvidenceFiles e;
                struct Usage usage = {};
                uint32_t hit = 0;
                evidence_init(&e);
                e.fds[EVIDENCE_MEMORY_EVENTS] = memfd_create("memory.events", MFD_CLOEXEC);
                assert_int_equal(write(e.fds[EVIDENCE_MEMORY_EVENTS], cases[i].events, strlen(cases[i].events)), strlen(cases[i].events));
                evidence_final(&e, &usage, &hit);
                evidence_done(&e);
                assert_int_equal(hit, cases[i].own ? 1u << LIMIT_HIT_MEMORY : 0);
                assert_int_equal(e.machine_oom, cases[i].machine);
                struct Result r = JUDGE(.trigger = TRIGGER_EXIT, .main_signaled = true, .main_status = SIGKILL, .limits_hit = hit,
                                        .machine_oom = e.machine_oom);
                assert_int_equal(r.outcome, cases[i].own || cases[i].machine ? OUTCOME_OUT_OF_MEMORY : OUTCOME_SIGNALED);
                assert_int_equal(r.limits_hit, hit);
                assert_true(!strstr(r.message, "the machine was full") == !cases[i].machine);
        }
}

static void the_trigger_wins(void **state) {
        struct Result r = JUDGE(.trigger = TRIGGER_TIMEOUT, .main_exited = true, .limits_hit = 1u << LIMIT_HIT_MEMORY, .out_over = true);
        assert_int_equal(r.outcome, OUTCOME_TIMED_OUT);
        assert_int_equal(r.exit, EXIT_UNSET);
        assert_non_null(strstr(r.message, "printed nothing"));
        r = JUDGE(.trigger = TRIGGER_TIMEOUT, .since_output = 1300 * USEC_PER_MSEC);
        assert_non_null(strstr(r.message, "last printed 1.3 s before the end"));
        r = JUDGE(.trigger = TRIGGER_IDLE, .idle_timeout = 3 * USEC_PER_SEC, .waiting_for = "sleeping");
        assert_int_equal(r.outcome, OUTCOME_IDLE_TIMED_OUT);
        assert_non_null(strstr(r.message, "did nothing for 3 s (idle.timeout): it was sleeping;"));
        r = JUDGE(.trigger = TRIGGER_IDLE, .idle_timeout = 3 * USEC_PER_SEC, .idle_is_silence = true, .waiting_for = "computing");
        assert_non_null(strstr(r.message, "printed nothing for 3 s (idle.timeout): it was computing;"));
        r = JUDGE(.trigger = TRIGGER_CPU_TIME, .cpu_time = USEC_PER_SEC);
        assert_int_equal(r.outcome, OUTCOME_CPU_TIME_EXCEEDED);
        assert_int_equal(r.limits_hit, 1u << LIMIT_HIT_CPU_TIME);
        r = JUDGE(.trigger = TRIGGER_CANCEL, .cancel_reason = CANCEL_CLIENT_GONE);
        assert_int_equal(r.outcome, OUTCOME_CANCELLED);
        assert_int_equal(r.cancel_reason, CANCEL_CLIENT_GONE);
}

#define ERROR(type, message, ...) \
        (&(struct CodeError) {.set = true, .texts = {[ERROR_TEXT_TYPE] = (char *) (type), [ERROR_TEXT_MESSAGE] = (char *) (message)}, __VA_ARGS__})

static void an_error_is_named(void **state) {
        struct Result r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .error = ERROR("ZeroDivisionError", "division by zero", .line = 3));
        assert_string_equal(r.message, "The program ended with exit status 1: ZeroDivisionError: division by zero (line 3).");
        r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .error = ERROR("SystemExit", NULL));
        assert_string_equal(r.message, "The program ended with exit status 1: SystemExit.");
        r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .error = ERROR("E", "first line\nsecond", .line = 1));
        assert_string_equal(r.message, "The program ended with exit status 1: E: first line (line 1).");
        /* Told of, but not set, or without a type: nothing is made of it. */
        r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .error = ERROR(NULL, "x", .line = 1));
        assert_string_equal(r.message, "The program ended with exit status 1.");
        r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .error = &(struct CodeError) {.texts = {(char *) "E"}});
        assert_string_equal(r.message, "The program ended with exit status 1.");
        /* It caught its error and ended well. */
        r = JUDGE(.trigger = TRIGGER_EXIT, .error = ERROR("E", "x"));
        assert_string_equal(r.message, "The program ended with exit status 0.");
        assert_int_equal(r.outcome, OUTCOME_COMPLETED);
}

/* Texts of any length and script: cut between characters, and what stands behind them stays. */
static void a_long_error_leaves_the_sentence_whole(void **state) {
        char type[2 + 3 * 60 + 1] = "xy", message[3 * 200 + 1] = "";
        for (size_t i = 0; i < 60; i++)
                memcpy(type + 2 + 3 * i, "\xe9\x94\x99", 4);
        for (size_t i = 0; i < 200; i++)
                memcpy(message + 3 * i, "\xe8\xaf\xaf", 4);
        for (size_t shift = 0; shift < 3; shift++) {
                struct Result r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .error = ERROR(type + shift, message, .line = UINT32_MAX));
                assert_true(utf8_is_valid(r.message, strlen(r.message)));
                assert_non_null(strstr(r.message, "… (line 4294967295)."));
        }
}

/* They come from a cell, and go into one line of the journal. */
static void nothing_breaks_the_line(void **state) {
        struct Result r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .error = ERROR("E\n<0>fake", "a\x1b[2Jb\rc\x7f"),
                                .note = "main\nwas not called.");
        assert_string_equal(r.message, "The program ended with exit status 1: E <0>fake: a [2Jb c . main was not called.");
}

static void code_that_is_not_valid(void **state) {
        struct Result r = JUDGE(.trigger = TRIGGER_EXIT, .main_status = 1, .invalid = true,
                                .error = ERROR("SyntaxError", "invalid syntax", .line = 2));
        assert_int_equal(r.outcome, OUTCOME_INVALID_CODE);
        assert_int_equal(r.exit, EXIT_UNSET);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.message, "Nothing ran, because the code is not valid: SyntaxError: invalid syntax (line 2).");
        r = JUDGE(.trigger = TRIGGER_EXIT, .invalid = true, .error = ERROR("SyntaxError", "'(' was never closed", .incomplete = true));
        assert_string_equal(r.message, "Nothing ran, because the code looks cut off; generate it again, whole: SyntaxError: '(' was never closed.");
        r = JUDGE(.trigger = TRIGGER_EXIT, .invalid = true);
        assert_string_equal(r.message, "Nothing ran, because the code is not valid.");
        /* What comes before it in the contract's order, and what triggered the end. */
        r = JUDGE(.trigger = TRIGGER_EXIT, .invalid = true, .init_killed = true);
        assert_int_equal(r.outcome, OUTCOME_SANDBOX_FAILED);
        r = JUDGE(.trigger = TRIGGER_EXIT, .invalid = true, .limits_hit = 1u << LIMIT_HIT_MEMORY);
        assert_int_equal(r.outcome, OUTCOME_OUT_OF_MEMORY);
        r = JUDGE(.trigger = TRIGGER_EXIT, .invalid = true, .out_over = true);
        assert_int_equal(r.outcome, OUTCOME_OUTPUT_LIMIT_EXCEEDED);
        r = JUDGE(.trigger = TRIGGER_TIMEOUT, .invalid = true);
        assert_int_equal(r.outcome, OUTCOME_TIMED_OUT);
}

static void a_note_ends_the_message(void **state) {
        struct Result r = JUDGE(.trigger = TRIGGER_EXIT, .note = "main was not called: it takes two arguments.");
        assert_string_equal(r.message, "The program ended with exit status 0. main was not called: it takes two arguments.");
        r = JUDGE(.trigger = TRIGGER_EXIT, .note = "");
        assert_string_equal(r.message, "The program ended with exit status 0.");
        char note[513];
        for (size_t i = 0; i < 512; i += 2)
                memcpy(note + i, "\xc3\xa9", 3);
        for (int i = 0; i < 2; i++) {
                struct Case c = {.trigger = TRIGGER_EXIT, .note = note + 2 * i, .main_status = i ? 10 : 1};
                r = (struct Result) {};
                verdict(&c, &r);
                assert_true(strlen(r.message) >= sizeof r.message - 2 && utf8_is_valid(r.message, strlen(r.message)));
        }
}

static void a_failure_names_its_step(void **state) {
        struct Result r = JUDGE(.trigger = TRIGGER_SANDBOX, .failed_step = "exec", .failed_error = ENOENT);
        assert_int_equal(r.outcome, OUTCOME_SANDBOX_FAILED);
        assert_non_null(strstr(r.message, "'exec': No such file or directory"));
        r = JUDGE(.trigger = TRIGGER_SANDBOX, .failed_step = "cgroup", .failed_error = ETIMEDOUT, .failed_detail = "Connection timed out");
        assert_string_equal(r.message, "The sandbox failed at step 'cgroup': Connection timed out.");
        r = JUDGE(.trigger = TRIGGER_SANDBOX, .failed_step = "cgroup", .failed_error = ETIMEDOUT, .failed_detail = "its slice");
        assert_string_equal(r.message, "The sandbox failed at step 'cgroup': its slice: Connection timed out.");
}

static void io_of_all_devices(void **state) {
        struct LeafUsage u = {};
        leaf_usage_parse_io(&u, "8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n254:1 rbytes=5 wbytes=7 rios=0 wios=0 dbytes=9 dios=0\n");
        assert_int_equal(u.read_bytes, 15);
        assert_int_equal(u.written_bytes, 27);
        assert_int_equal(leaf_usage_parse_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\nfull avg10=0.00 total=9\n"), 12345);
        assert_int_equal(leaf_usage_parse_pressure("full avg10=0.00 total=9\n"), 0);
        assert_int_equal(leaf_usage_parse_pressure("some avg10=0.00\nfull total=9\n"), 0);
        assert_int_equal(leaf_usage_parse_pressure(""), 0);
        leaf_usage_parse_io(&u, "");
        assert_int_equal(u.read_bytes, 0);
        assert_int_equal(leaf_usage_parse_cpu(&u, "usage_usec 30\nuser_usec 10\nsystem_usec 20\n"), 0);
        assert_int_equal(u.cpu_user, 10);
        assert_int_equal(u.cpu_system, 20);
        assert_true(leaf_usage_parse_cpu(&u, "usage_usec 30\n") < 0);
}

static void times_for_sentences(void **state) {
        char b[32];
        assert_string_equal(format_time(150 * USEC_PER_MSEC, b, sizeof b), "150 ms");
        assert_string_equal(format_time(2 * USEC_PER_SEC, b, sizeof b), "2 s");
        assert_string_equal(format_time(2 * USEC_PER_SEC + 40 * USEC_PER_MSEC, b, sizeof b), "2 s");
        assert_string_equal(format_time(125 * USEC_PER_SEC, b, sizeof b), "2 min 5 s");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_ran_out_of_memory),    cmocka_unit_test(an_error_is_named),
                cmocka_unit_test(a_note_ends_the_message),
                cmocka_unit_test(nothing_breaks_the_line),  cmocka_unit_test(code_that_is_not_valid),
                cmocka_unit_test(a_long_error_leaves_the_sentence_whole),
                cmocka_unit_test(the_wait_status),          cmocka_unit_test(what_overrides_the_wait_status), cmocka_unit_test(the_trigger_wins),
                cmocka_unit_test(a_failure_names_its_step), cmocka_unit_test(io_of_all_devices),              cmocka_unit_test(times_for_sentences),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
