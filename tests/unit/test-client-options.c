/* The client's command line, where its server is, and how it tells the runtime of a file. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/guess.h"
#include "client/options.h"
#include "client/verb.h"

/* words: up to a NULL. Complaints go to nowhere. */
static int parse(struct Options *o, const char *verb, const char *const *words) {
        char *argv[32] = { (char *) verb };
        int saved = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        int argc = 1, r;

        while (words[argc - 1]) {
                argv[argc] = (char *) words[argc - 1];
                argc++;
        }
        assert_true(dup2(nowhere, STDERR_FILENO) >= 0);
        r = options_parse(o, verb_find(verb), argc, argv);
        assert_true(dup2(saved, STDERR_FILENO) >= 0);
        (void) close(saved);
        (void) close(nowhere);
        return r;
}

#define PARSE(o, verb, ...) parse(o, verb, (const char *const[]) { __VA_ARGS__, NULL })

static void test_values(void **state) {
        struct Options o _cleanup_(options_done) = {};

        assert_int_equal(PARSE(&o, "run", "a.py", "--timeout", "1.5m", "-m", "64M", "--cpus=0.5", "--max-processes", "7", "--env", "A=b=c",
                               "-e", "B=", "--idle-evidence", "output", "--idle-grace", "0", "--merge-streams", "--", "-x", "--json"), 0);
        assert_int_equal(o.timeout, 90 * USEC_PER_SEC);
        assert_int_equal(o.memory, 64 * MIB);
        assert_true(o.cpus == 0.5);
        assert_int_equal(o.max_processes, 7);
        assert_int_equal(strv_length(o.env), 2);
        assert_string_equal(o.env[0], "A=b=c");
        assert_int_equal(o.idle_evidence, EVIDENCE_OUTPUT);
        assert_true(o.merge_streams);
        assert_false(o.json); /* behind --: the program's */
        assert_int_equal(strv_length(o.operands), 1);
        assert_int_equal(strv_length(o.args), 2);
        assert_string_equal(o.args[0], "-x");
}

static void test_options_behind_operands_and_the_order_of_args(void **state) {
        struct Options o _cleanup_(options_done) = {};

        assert_int_equal(PARSE(&o, "run", "--arg", "--", "-", "--arg=1", "--json", "--", "2"), 0);
        assert_true(o.json);
        assert_string_equal(o.operands[0], "-");
        assert_int_equal(strv_length(o.args), 3);
        assert_string_equal(o.args[0], "--");
        assert_string_equal(o.args[2], "2");
}

static void test_top(void **state) {
        struct Options o _cleanup_(options_done) = {}, standard _cleanup_(options_done) = {}, wrong _cleanup_(options_done) = {};

        assert_int_equal(PARSE(&o, "top", "-i", "250ms", "--count", "3", "--sort=idle", "--caller", "*", "--json"), 0);
        assert_int_equal(o.interval, 250 * USEC_PER_MSEC);
        assert_int_equal(o.count, 3);
        assert_int_equal(o.sort, SORT_IDLE);
        assert_string_equal(o.caller, "*");
        assert_true(o.json);
        assert_int_equal(PARSE(&standard, "top", "-n", "1"), 0);
        assert_int_equal(standard.sort, SORT_CPU);
        assert_int_equal(PARSE(&wrong, "top", "--sort", "name"), STATUS_FAULT);
        assert_int_equal(PARSE(&wrong, "top", "--sort", ""), STATUS_FAULT);
        assert_int_equal(PARSE(&wrong, "top", "--interval", "0"), STATUS_FAULT);
        assert_int_equal(PARSE(&wrong, "ps", "--interval", "1s"), STATUS_FAULT);
}

static void test_callers(void **state) {
        static const char *const good[] = { "uid:0", "uid:1000", "uid:4294967295", "cert:a", "cert:spiffe://x/y z", "loopback:", "*" };
        static const char *const bad[] = { "", "bob", "uid:", "uid:bob", "uid:-1", "uid:01", "uid:4294967296",
                                           "uid:99999999999", "uid:1 ", "UID:1", "cert:", "1000", "**" };

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                struct Options o _cleanup_(options_done) = {};
                assert_int_equal(PARSE(&o, "ps", "--caller", good[i]), 0);
                assert_string_equal(o.caller, good[i]);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct Options o _cleanup_(options_done) = {};
                if (PARSE(&o, i % 2 ? "ps" : "top", "--caller", bad[i]) != STATUS_FAULT)
                        fail_msg("\"%s\" was taken for a caller", bad[i]);
        }
}

/* The keys of `top` are the first letters. */
static void test_orders_differ_in_their_first_letter(void **state) {
        for (enum Sort a = 0; a < SORT_END_; a++)
                for (enum Sort b = a + 1; b < SORT_END_; b++)
                        assert_true(*sort_name(a) != *sort_name(b));
        assert_null(sort_name(SORT_END_));
}

static void test_refused(void **state) {
        static const char *const lines[][4] = {
                { "--timeout", "0" },      { "--timeout", "1 s" },  { "--timeout", "-1s" },      { "--timeout", "1e3" },
                { "--timeout", "" },       { "--memory", "1T" },    { "--memory", "0" },         { "--memory", "99999999999999999999" },
                { "--cpus", "nan" },       { "--cpus", "0x1" },     { "--cpus", "0" },           { "--max-processes", "1.5" },
                { "--max-processes", "4294967296" },                { "--env", "A" },            { "--env", "=b" },
                { "--label", "" },         { "--idle-evidence", "cpu" },                         { "--json=yes" },
                { "--timezne", "x" },       { "--=x" },              { "--time", "1s" },
                { "--nonsense" },          { "-x" },                { "--timeout" },             { "--all" },
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                struct Options o _cleanup_(options_done) = {};
                if (parse(&o, "run", lines[i]) != STATUS_FAULT)
                        fail_msg("%s %s was not refused", lines[i][0], strempty(lines[i][1]));
        }
}

static void test_every_field_has_its_flag(void **state) {
        assert_string_equal(options_find_field("limits.timeout: above the cap")->name, "timeout");
        assert_string_equal(options_find_field("files[2].path: not relative")->name, "file");
        assert_string_equal(options_find_field("env[A B]: not a name")->name, "env");
        assert_null(options_find_field("limits.timeout"));
        assert_null(options_find_field("environment: x"));
        assert_null(options_find_field("no such execution"));
        assert_null(options_find_field(""));
}

static void test_the_table_is_sound(void **state) {
        for (const struct Option *a = option_table; a->help; a++) {
                assert_true(a->name || a->letter);
                assert_non_null(a->group);
                assert_true((a->kind == OPTION_FLAG) == (a->value == NULL));
                for (const struct Option *b = a + 1; b->help; b++) {
                        assert_false(a->name && streq(a->name, b->name));
                        assert_false(a->letter && a->letter == b->letter);
                }
        }
        for (const struct Verb *verb = verb_table; verb->name; verb++)
                assert_true(verb->run && verb->usage && verb->summary && verb->text && verb->after && verb_find(verb->name) == verb);
}

static void test_environment(void **state) {
        struct Options o = { .tls_ca = "flag" }, none = {};

        assert_int_equal(setenv("GLOVEBOX_SERVER", "unix:/x", 1), 0);
        assert_int_equal(setenv("GLOVEBOX_TLS_CA", "variable", 1), 0);
        assert_int_equal(setenv("GLOVEBOX_TLS_KEY", "", 1), 0);
        options_from_environment(&o);
        assert_string_equal(o.server, "unix:/x");
        assert_string_equal(o.tls_ca, "flag");
        assert_null(o.tls_key);
        assert_string_equal(o.tls_flag, "--tls-ca"); /* of the command line: not to be passed over in silence */
        options_from_environment(&none);
        assert_string_equal(none.tls_ca, "variable");
        assert_null(none.tls_flag);
}

static void test_targets(void **state) {
        static const struct {
                const char *text, *path, *host, *port;
        } good[] = {
                { "unix:/run/x.sock", "/run/x.sock" },  { "unix:///run/x.sock", "/run/x.sock" }, { "unix:x", "x" }, { "/run/x", "/run/x" },
                { "host:7443", NULL, "host", "7443" },  { "[::1]:7443", NULL, "::1", "7443" },   { "./s", "./s" },
                { "10.0.0.1:1", NULL, "10.0.0.1", "1" },
        };
        static const char *const bad[] = { "", "unix:", "host", ":1", "host:", "host:x", "::1", "::1:7443", "[]:1", "[:1", "]:1" };

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                struct Target t _cleanup_(target_done) = {};
                assert_int_equal(target_parse(good[i].text, &t), 0);
                assert_true(streq(t.path, good[i].path) && streq(t.host, good[i].host) && streq(t.port, good[i].port));
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct Target t _cleanup_(target_done) = {};
                if (target_parse(bad[i], &t) != -EINVAL)
                        fail_msg("\"%s\" was taken for an address", bad[i]);
        }
}

static void test_guessed_runtimes(void **state) {
        static const struct {
                const char *name, *code, *runtime;
        } cases[] = {
                { "a.py", "", "python" },
                { "dir.js/b", "#!/bin/sh\n", "bash" },
                { "x.mjs", "#!/usr/bin/python3", "javascript" }, /* the ending wins */
                { ".py", "", NULL },                             /* a hidden file without an ending */
                { NULL, "#!/usr/bin/env python3.11\n", "python" },
                { NULL, "#! /usr/bin/env -S python3 -u\n", "python" },
                { NULL, "#!/usr/bin/node", "javascript" },
                { NULL, "#!", NULL },
                { NULL, "#!/usr/bin/perl\n", NULL },
                { NULL, "#!/usr/bin/env\npython", NULL },
                { NULL, "print(1)", NULL },
                { "data", "", NULL },
        };
        char *py[] = { (char *) ".py" }, *js[] = { (char *) ".js", (char *) ".mjs" };
        Glovebox__V1__RuntimeInfo runtimes[3];
        Glovebox__V1__RuntimeInfo *list[] = { &runtimes[0], &runtimes[1], &runtimes[2] };
        Glovebox__V1__GetInfoResponse info = GLOVEBOX__V1__GET_INFO_RESPONSE__INIT;
        char *text _cleanup_free_ = NULL;

        for (size_t i = 0; i < ELEMENTSOF(runtimes); i++) {
                glovebox__v1__runtime_info__init(&runtimes[i]);
                runtimes[i].available = i != 2;
        }
        runtimes[0].name = (char *) "python";
        runtimes[0].n_endings = ELEMENTSOF(py);
        runtimes[0].endings = py;
        runtimes[1].name = (char *) "javascript";
        runtimes[1].n_endings = ELEMENTSOF(js);
        runtimes[1].endings = js;
        runtimes[2].name = (char *) "bash";
        info.n_runtimes = ELEMENTSOF(list);
        info.runtimes = list;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const char *found = guess_runtime(&info, cases[i].name, cases[i].code);
                if (!streq(found, cases[i].runtime))
                        fail_msg("%s %s: %s", strempty(cases[i].name), cases[i].code, strempty(found));
        }
        text = guess_list(&info);
        assert_string_equal(text, "python (.py), javascript (.js .mjs)");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_options_behind_operands_and_the_order_of_args),
                cmocka_unit_test(test_top),
                cmocka_unit_test(test_callers),
                cmocka_unit_test(test_orders_differ_in_their_first_letter),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_every_field_has_its_flag),
                cmocka_unit_test(test_the_table_is_sound),
                cmocka_unit_test(test_environment),
                cmocka_unit_test(test_targets),
                cmocka_unit_test(test_guessed_runtimes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
