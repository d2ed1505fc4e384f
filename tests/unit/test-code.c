/* server/admit/code.c: contract, inputs, variables, imports, files to collect. */
#include "tests/unit/unit.h"

#include "common/collect.h"
#include "server/admit/code.h"

static struct Refusal refusal;

static int check_with(bool runner, struct Request request) {
        struct Runtime runtime = {.key = (char *) "python", .runner = runner};

        refusal = (struct Refusal) {};
        int r = code_check(&request, &runtime, &refusal);
        assert_int_equal(r, refusal.code);
        if (r != 0)
                assert_true(utf8_is_valid(refusal.message, strlen(refusal.message)) && strlen(refusal.message) > 10);
        return r;
}

#define CHECK(...) check_with(true, (struct Request) {__VA_ARGS__})
#define JSON(text) {(const uint8_t *) (text), sizeof(text) - 1}

static void expect_refused(int r, const char *field, const char *words) {
        assert_int_equal(r, REFUSE_INVALID_ARGUMENT);
        assert_string_equal(refusal.field, field);
        if (!strstr(refusal.message, words))
                fail_msg("'%s' does not say '%s'", refusal.message, words);
}

static void nothing_is_good(void **state) {
        assert_int_equal(CHECK(), 0);
        assert_int_equal(check_with(false, (struct Request) {}), 0);
}

static void contracts(void **state) {
        for (unsigned c = 0; c <= 4; c++)
                assert_int_equal(CHECK(.contract = c), 0);
        expect_refused(CHECK(.contract = 5), "contract", "5 is no contract");
        expect_refused(CHECK(.contract = UINT32_MAX), "contract", "AUTO, MAIN, RESULT and SCRIPT");
        expect_refused(CHECK(.contract = 4, .inputs = JSON("1")), "inputs_json", "SCRIPT");
        assert_int_equal(CHECK(.contract = 4, .variables = JSON("{}")), 0);
}

/* A runtime that is just a program: whoever asks it for a value is told so before anything runs. */
static void without_a_runner(void **state) {
        assert_int_equal(check_with(false, (struct Request) {.contract = 1}), 0);
        assert_int_equal(check_with(false, (struct Request) {.contract = 4}), 0);
        expect_refused(check_with(false, (struct Request) {.contract = 2}), "contract", "'python' has no runner");
        expect_refused(check_with(false, (struct Request) {.contract = 3}), "contract", "no runner");
        expect_refused(check_with(false, (struct Request) {.inputs = JSON("1")}), "inputs_json", "no runner");
        expect_refused(check_with(false, (struct Request) {.variables = JSON("{}")}), "variables_json", "no runner");
        expect_refused(check_with(false, (struct Request) {.import_restrict = true}), "import_policy", "no runner");
        const char *patterns[] = {"*.png"};
        assert_int_equal(check_with(false, (struct Request) {.collect = patterns, .n_collect = 1}), 0);
}

static void inputs_are_json(void **state) {
        assert_int_equal(CHECK(.inputs = JSON("[1, {\"a\": null}]")), 0);
        assert_int_equal(CHECK(.inputs = JSON("\"text\"")), 0);
        expect_refused(CHECK(.inputs = JSON("[1,]")), "inputs_json", "at byte 3");
        expect_refused(CHECK(.inputs = JSON("{'a': 1}")), "inputs_json", "double quotes");
        expect_refused(CHECK(.inputs = JSON("[1")), "inputs_json", "ends before it is whole");
        expect_refused(CHECK(.inputs = JSON("\"\xff\"")), "inputs_json", "UTF-8");
        expect_refused(CHECK(.inputs = JSON("1\0")), "inputs_json", "behind its end");
        assert_int_equal(CHECK(.variables = JSON(" {\"a\": 1}")), 0);
        expect_refused(CHECK(.variables = JSON("[1]")), "variables_json", "object");
        expect_refused(CHECK(.variables = JSON("{")), "variables_json", "whole");
}

static void inputs_are_bounded(void **state) {
        uint8_t *text = malloc(JSON_MAX + 1);
        assert_non_null(text);
        memset(text, ' ', JSON_MAX + 1);
        text[0] = '1';
        assert_int_equal(CHECK(.inputs = {text, JSON_MAX}), 0);
        expect_refused(CHECK(.inputs = {text, JSON_MAX + 1}), "inputs_json", "16777217 bytes are more than the 16777216");
        memset(text, '[', JSON_MAX);
        expect_refused(CHECK(.variables = {text, JSON_MAX}), "variables_json", "1000 levels");
        free(text);
}

static void imports(void **state) {
        const char *good[] = {"os.path", "m\303\263dulo", "@scope/pkg", "node:fs"}, *one[1];
        char longest[IMPORT_NAME_MAX + 2];

        assert_int_equal(CHECK(.import_restrict = true), 0); /* nothing may be imported */
        assert_int_equal(CHECK(.import_restrict = true, .import_allowed = good, .n_import_allowed = ELEMENTSOF(good)), 0);
        expect_refused(CHECK(.import_allowed = good, .n_import_allowed = 1), "import_policy.restrict", "must be set");
        memset(longest, 'a', sizeof longest - 1);
        longest[IMPORT_NAME_MAX + 1] = 0;
        const char *const bad[] = {"", " os", "a b", "a\n", "a\x7f", longest};
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                one[0] = bad[i];
                expect_refused(CHECK(.import_restrict = true, .import_allowed = one, .n_import_allowed = 1), "import_policy.allowed",
                               "name of a module");
        }
        longest[IMPORT_NAME_MAX] = 0;
        one[0] = longest;
        assert_int_equal(CHECK(.import_restrict = true, .import_allowed = one, .n_import_allowed = 1), 0);
        const char *many[IMPORTS_MAX + 1];
        for (size_t i = 0; i < ELEMENTSOF(many); i++)
                many[i] = "os";
        assert_int_equal(CHECK(.import_restrict = true, .import_allowed = many, .n_import_allowed = IMPORTS_MAX), 0);
        expect_refused(CHECK(.import_restrict = true, .import_allowed = many, .n_import_allowed = IMPORTS_MAX + 1), "import_policy.allowed", "257");
}

/* A name that is shown cut still makes a message that clients can decode. */
static void long_names_are_cut_between_characters(void **state) {
        char name[204] = "x";
        for (size_t i = 1; i < 200; i += 2)
                memcpy(name + i, "\xc3\xa9", 3);
        strcat(name, " ");
        const char *one[] = {name};
        expect_refused(CHECK(.import_restrict = true, .import_allowed = one, .n_import_allowed = 1), "import_policy.allowed", "without blanks");
}

static void patterns(void **state) {
        const char *good[] = {"*.png", "out/**", "a..b", "..a", "a/", ".hidden"}, *one[1];
        static char longest[COLLECT_PATTERN_MAX + 2];

        assert_int_equal(CHECK(.collect = good, .n_collect = ELEMENTSOF(good)), 0);
        const struct {
                const char *pattern, *words;
        } bad[] = {
                {"", "empty"},      {"/etc/passwd", "relative"}, {"../x", "'..'"},    {"a/..", "'..'"},
                {"a/../b", "'..'"}, {"[a", "not closed"},        {"a\\", "'\\'"},
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                one[0] = bad[i].pattern;
                expect_refused(CHECK(.collect = one, .n_collect = 1), "collect[0]", bad[i].words);
        }
        memset(longest, 'a', sizeof longest - 1);
        const char *two[] = {"a", longest};
        expect_refused(CHECK(.collect = two, .n_collect = 2), "collect[1]", "1024");
        longest[COLLECT_PATTERN_MAX] = 0;
        assert_int_equal(CHECK(.collect = two, .n_collect = 2), 0);
        const char *many[COLLECT_PATTERNS_MAX + 1];
        for (size_t i = 0; i < ELEMENTSOF(many); i++)
                many[i] = "*";
        assert_int_equal(CHECK(.collect = many, .n_collect = COLLECT_PATTERNS_MAX), 0);
        expect_refused(CHECK(.collect = many, .n_collect = COLLECT_PATTERNS_MAX + 1), "collect", "65");
}

RUN(T(nothing_is_good), T(contracts), T(without_a_runner), T(inputs_are_json), T(inputs_are_bounded), T(imports),
    T(long_names_are_cut_between_characters), T(patterns))
