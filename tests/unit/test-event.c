/* server/event.c: what results own, and when a value must go in pieces. */
#include "tests/unit/unit.h"

#include "server/event.h"

#define MESSAGE_MAX (1 * MIB) /* what the contract promises */

static char *text(size_t n) {
        char *s = malloc(n + 1);
        assert_non_null(s);
        memset(s, 'x', n);
        s[n] = 0;
        return s;
}

static struct Result result_with(size_t value, size_t traceback, size_t n_files, size_t path) {
        struct Result r = {};
        if (value)
                r.value = (struct Value) {.kind = VALUE_KIND_JSON, .json = text(value), .size = value};
        r.error.texts[ERROR_TEXT_TRACEBACK] = text(traceback);
        r.files = calloc(MAX(n_files, (size_t) 1), sizeof *r.files);
        assert_non_null(r.files);
        for (; r.n_files < n_files; r.n_files++)
                r.files[r.n_files].path = text(path);
        return r;
}

static void all_of_it_is_counted_and_freed(void **state) {
        struct Result r = result_with(100, 30, 3, 7);
        assert_int_equal(result_size(&r), 100 + 30 + 3 * (7 + sizeof *r.files));
        result_done(&r);
        assert_int_equal(result_size(&r), 0);
        result_done(&r);
        r.value = (struct Value) {.kind = VALUE_KIND_ERROR, .path = text(3), .message = text(10)};
        assert_int_equal(result_size(&r), 13);
        assert_false(result_value_in_pieces(&r));
        result_done(&r);
}

static void a_message_has_a_bound(void **state) {
        static const struct {
                size_t value, traceback, n_files, path;
                bool in_pieces;
        } cases[] = {
                {0, 0, 0, 0, false},
                {1, 128 * KIB, 2000, 256, false}, /* all but the value */
                {CONTENT_WHOLE_MAX, 0, 0, 0, false},
                {CONTENT_WHOLE_MAX + 1, 0, 0, 0, true},
                {CONTENT_WHOLE_MAX, 128 * KIB, 0, 0, false},
                {CONTENT_WHOLE_MAX, 128 * KIB, 2000, 256, true},
                {CONTENT_WHOLE_MAX, 0, 2000, 256, true},
                {200 * KIB, 128 * KIB, 2000, 256, true},
                {0, 128 * KIB, 2000, 262, false}, /* there is none */
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct Result r = result_with(cases[i].value, cases[i].traceback, cases[i].n_files, cases[i].path);
                if (result_value_in_pieces(&r) != cases[i].in_pieces)
                        fail_msg("case %zu", i);
                /* 110: the longest type and all numbers of a file on the wire. */
                size_t sent = (cases[i].in_pieces ? 0 : cases[i].value) + cases[i].traceback + cases[i].n_files * (cases[i].path + 110);
                assert_true(sent < MESSAGE_MAX);
                result_done(&r);
        }
}

RUN(T(all_of_it_is_counted_and_freed), T(a_message_has_a_bound))
