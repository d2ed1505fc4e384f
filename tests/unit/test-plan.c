/* server/admit/plan.c and workspace.c: what is refused, with which field, and what the defaults come to. */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "server/admit/plan.h"

static struct Runtime runtimes[] = { { .name = (char *) "python", .exec = (char *) "/usr/bin/python3", .code_name = (char *) "main.py" } };
static struct Profile profiles[] = {
        { .name = (char *) "quick", .limits = { .timeout = 5 * USEC_PER_SEC }, .idle = { 10 * USEC_PER_SEC, 15 * USEC_PER_SEC, EVIDENCE_UNSET } },
};
static struct Config config;

static int setup(void **state) {
        runtimes[0].caps = limits_caps(); /* as reading its file does */
        config = (struct Config) {
                .defaults = limits_standard(),
                .caps = limits_caps(),
                .runtimes = runtimes,
                .n_runtimes = 1,
                .profiles = profiles,
                .n_profiles = 1,
        };
        return 0;
}

static struct Request sound(void) {
        return (struct Request) { .runtime = "python", .request_id = "", .profile = "", .working_dir = "", .timezone = "" };
}

static void expect_refused(const struct Request *r, char *const *waived, int code, const char *field) {
        struct Refusal refusal = {};
        struct Plan plan;
        assert_int_equal(plan_make(&config, waived, r, &plan, &refusal), code);
        assert_string_equal(refusal.field, field);
        assert_true(strlen(refusal.message) > 10);
}

static void defaults_are_filled_in(void **state) {
        struct Request r = sound();
        struct Refusal refusal;
        struct Plan plan;

        assert_int_equal(plan_make(&config, NULL, &r, &plan, &refusal), 0);
        assert_int_equal(plan.limits.timeout, 30 * USEC_PER_SEC);
        assert_int_equal(plan.limits.cpu_time, 0);
        assert_int_equal(plan.heartbeat_interval, 5 * USEC_PER_SEC);
        assert_string_equal(plan.working_dir, "/workspace");
        assert_int_equal(plan.idle.timeout, 0);
        plan_done(&plan);
}

static void profile_then_request(void **state) {
        struct Request r = sound();
        struct Refusal refusal;
        struct Plan plan;

        r.profile = "quick";
        r.limits.output_bytes = 77;
        assert_int_equal(plan_make(&config, NULL, &r, &plan, &refusal), 0);
        assert_int_equal(plan.limits.timeout, 5 * USEC_PER_SEC);
        assert_int_equal(plan.limits.output_bytes, 77);
        assert_int_equal(plan.idle.timeout, 10 * USEC_PER_SEC);
        assert_int_equal(plan.idle.grace, 15 * USEC_PER_SEC);
        assert_int_equal(plan.idle.evidence, EVIDENCE_OUTPUT_AND_CPU);
        plan_done(&plan);
        r.limits.timeout = 7 * USEC_PER_SEC;
        assert_int_equal(plan_make(&config, NULL, &r, &plan, &refusal), 0);
        assert_int_equal(plan.limits.timeout, 7 * USEC_PER_SEC);
        plan_done(&plan);
}

/* Every limit, just past both of its bounds. */
static void limits_have_bounds(void **state) {
        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                struct Request r = sound();
                char field[64];
                (void) snprintf(field, sizeof field, "limits.%s", info->field);
                limit_set(&r.limits, info, limit_get(&config.caps, info) * 1.5);
                expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, field);
                if (info->minimum < 2 && info->kind != LIMIT_CORES)
                        continue;
                r = sound();
                limit_set(&r.limits, info, info->minimum / 2);
                expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, field);
        }
}

static void a_waived_limit_cannot_be_asked_for(void **state) {
        char *waived[] = { (char *) "memory", NULL };
        struct Request r = sound();

        r.limits.memory_bytes = 64 * MIB;
        expect_refused(&r, waived, REFUSE_FAILED_PRECONDITION, "limits.memory_bytes");
}

static void names_and_sizes(void **state) {
        const char *args[] = { "x" };
        struct RequestPair env[] = { { "1X", "v" } };
        static char big[200 * 1024];
        struct Request r = sound();

        r.runtime = "perl";
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "runtime");
        r = sound();
        r.request_id = "a\nb";
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "request_id");
        r = sound();
        r.profile = "none-such";
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "profile");
        r = sound();
        r.code.size = MIB + 1;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "code");
        r = sound();
        r.env = env;
        r.n_env = 1;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "env");
        memset(big, 'x', sizeof big - 1);
        args[0] = big;
        r = sound();
        r.args = args;
        r.n_args = 1;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "args");
        r = sound();
        r.heartbeat_interval = 99 * USEC_PER_MSEC;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "heartbeat_interval");
        r = sound();
        r.timezone = "../../etc/passwd";
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "timezone");
        r = sound();
        r.timezone = "Mars/Olympus";
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "timezone");
}

static void files_stay_in_the_workspace(void **state) {
        static const char *const bad[] = { "../x", "/etc/x", "a/../../x", "a/./../..//x", "", ".", "a/", "main.py", "main.py/x" };
        struct RequestFile file = {};
        struct Request r = sound();

        r.files = &file;
        r.n_files = 1;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                file.path = bad[i];
                file.path_size = strlen(bad[i]);
                expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "files[0].path");
        }
        file.path = "x";
        file.path_size = 3; /* a NUL inside */
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "files[0].path");
}

static void files_do_not_collide(void **state) {
        struct RequestFile files[] = { { .path = "a" }, { .path = "a!" }, { .path = "a/b" }, { .path = "z" } };
        struct Request r = sound();

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                files[i].path_size = strlen(files[i].path);
        r.files = files;
        r.n_files = 3;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "files[2].path");
        files[0].path = "z";
        r.n_files = 4;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "files[3].path");
}

static void working_dir_must_exist(void **state) {
        static const char *const bad[] = { "/proc/self/fd/7", "/proc/1/cwd", "../../..",
                                           "/workspace/lnk", "nope", "sub/file.txt", "/workspacex", "/" };
        struct RequestFile file = { .path = "sub/file.txt", .path_size = 12 };
        struct Request r = sound();
        struct Refusal refusal;
        struct Plan plan;

        r.files = &file;
        r.n_files = 1;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                r.working_dir = bad[i];
                expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "working_dir");
        }
        r.working_dir = "sub";
        assert_int_equal(plan_make(&config, NULL, &r, &plan, &refusal), 0);
        assert_string_equal(plan.working_dir, "/workspace/sub");
        plan_done(&plan);
}

static void what_does_not_fit_is_said_at_once(void **state) {
        static uint8_t content[128 * 1024];
        struct RequestFile file = { .path = "a/b/c", .path_size = 5, .content = { content, sizeof content } };
        struct Request r = sound();

        r.files = &file;
        r.n_files = 1;
        r.limits.workspace_bytes = 64 * KIB;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "files");
}

static void an_idle_policy_needs_a_timeout(void **state) {
        struct Request r = sound();

        r.idle_set = true;
        r.idle.grace = USEC_PER_SEC;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "idle.timeout");
        r.idle.timeout = 1000;
        expect_refused(&r, NULL, REFUSE_INVALID_ARGUMENT, "idle.timeout");
}

/* A request is known by the names of its variables; a word is exact, or begins the name when it ends in *. */
static void what_is_read_at_the_start_asks_for_a_fresh_interpreter(void **state) {
        static const struct {
                const char *name;
                bool fresh;
        } cases[] = {
                { "LD_PRELOAD", true },  { "LD_", true },         { "LD", false },         { "XLD_PRELOAD", false }, { "ld_preload", false },
                { "PYTHONPATH", true },  { "PYTHONPATHS", false }, { "PYTHON", false },     { "_PYTHONPATH", false },  { "HOME", false },
        };
        char *words[] = { (char *) "PYTHONPATH", (char *) "LD_*", NULL };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct RequestPair env[] = { { .key = "A", .value = "PYTHONPATH" }, { .key = cases[i].name, .value = "" } };
                struct Request r = sound();
                struct Refusal refusal;
                struct Plan plan;

                r.env = env;
                r.n_env = ELEMENTSOF(env);
                runtimes[0].env_at_start = words;
                assert_int_equal(plan_make(&config, NULL, &r, &plan, &refusal), 0);
                assert_int_equal(plan.fresh, cases[i].fresh);
                plan_done(&plan);
                runtimes[0].env_at_start = NULL;
                assert_int_equal(plan_make(&config, NULL, &r, &plan, &refusal), 0);
                assert_false(plan.fresh);
                plan_done(&plan);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(defaults_are_filled_in),   cmocka_unit_test(profile_then_request),
                cmocka_unit_test(limits_have_bounds),       cmocka_unit_test(a_waived_limit_cannot_be_asked_for),
                cmocka_unit_test(names_and_sizes),          cmocka_unit_test(files_stay_in_the_workspace),
                cmocka_unit_test(files_do_not_collide),     cmocka_unit_test(working_dir_must_exist),
                cmocka_unit_test(what_does_not_fit_is_said_at_once), cmocka_unit_test(an_idle_policy_needs_a_timeout),
                cmocka_unit_test(what_is_read_at_the_start_asks_for_a_fresh_interpreter),
        };
        return cmocka_run_group_tests(tests, setup, NULL);
}
