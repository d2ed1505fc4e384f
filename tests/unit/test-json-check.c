/* common/json-check.c, against the grammar of RFC 8259 and, byte by byte, against jansson. */
#include "tests/unit/unit.h"

#include <jansson.h>

#include "common/json-check.h"

static const char *const good[] = {
        "0", "-0", "12", "-1.5", "1e9", "1E+9", "1.25e-7", "true", "false", "null", "\"\"", "\"a\\n\\u00e9\\ud83d\\ude00\"", "\"\xc3\xa9\"", "[]",
        "{}", " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[{}]},\"c\":null}", "[[[[]]]]", "\"\xf0\x9f\x98\x80\"", "\"\xed\x9f\xbf\"", "[0,0.0,0e0]", "\t\r\n1\n",
};

static const char *const bad[] = {
        "", " ", "01", "-", "1.", ".5", "1e", "1e+", "+1", "NaN", "Infinity", "tru", "nulL", "\"", "\"a", "'a'", "[1,]", "[,1]", "[1 2]", "{\"a\"}",
        "{\"a\":}", "{a:1}", "{\"a\":1,}",
        "[", "]", "{", "}", "[}", "1 2", "[]]", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\ude00\"", "\"\\ud800a\"",
        "\"\\ud800\\n\"", "\"\\ud800\\ud800\"",
        "\"\n\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xc3", "\"\xc3\"", "\"\xe2\x82\"", "/**/1", "1//",
        "\357\273\2771", "-a", "1.e1", "0x1", "truefalse",
};

/* In pieces of this size. */
static int check(const char *text, size_t size, size_t piece, struct JsonCheck *c) {
        json_check_start(c);
        for (size_t at = 0; at < size; at += piece)
                if (json_check_add(c, text + at, MIN(piece, size - at)) < 0)
                        return -EBADMSG;
        return json_check_end(c);
}

static void grammar(void **state) {
        struct JsonCheck c;
        for (size_t piece = 1; piece < 8; piece++) {
                for (size_t i = 0; i < ELEMENTSOF(good); i++)
                        if (check(good[i], strlen(good[i]), piece, &c) != 0)
                                fail_msg("'%s' was refused: it %s, at %zu", good[i], c.fault, c.offset);
                for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                        if (check(bad[i], strlen(bad[i]), piece, &c) == 0)
                                fail_msg("'%s' was taken", bad[i]);
                        assert_non_null(c.fault);
                        assert_true(c.offset <= strlen(bad[i]));
                }
        }
        assert_error(check("1\0", 2, 2, &c), EBADMSG);
        assert_error(check("\"\\\0\"", 4, 4, &c), EBADMSG);
}

static void depth_is_bounded(void **state) {
        static char text[2 * JSON_DEPTH_MAX + 4];
        struct JsonCheck c;
        memset(text, '[', JSON_DEPTH_MAX + 1);
        memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
        assert_error(check(text, 2 * JSON_DEPTH_MAX + 2, 4096, &c), EBADMSG);
        assert_int_equal(c.offset, JSON_DEPTH_MAX);
        assert_ok(check(text + 1, 2 * JSON_DEPTH_MAX, 4096, &c));
        assert_int_equal(c.first, '[');
}

/* Texts that are one change away from good ones. jansson refuses \u0000 and numbers beyond its range, which are JSON. */
static void agrees_with_jansson(void **state) {
        static const char alphabet[] = "{}[]\",:01-+.eE\\utrfnal \n\xc3\xa9";
        unsigned seed = 1, taken = 0;
        for (int i = 0; i < 200000; i++) {
                char text[64];
                const char *from = good[(seed = seed * 1103515245 + 12345) / 65536 % ELEMENTSOF(good)];
                size_t n = strlen(from);
                memcpy(text, from, n + 1);
                for (int change = 0; change < 2; change++) {
                        unsigned at = (seed = seed * 1103515245 + 12345) / 65536 % (unsigned) (n + 1);
                        text[at] = alphabet[(seed = seed * 1103515245 + 12345) / 65536 % (sizeof alphabet - 1)];
                        if (at == n)
                                text[++n] = 0;
                }
                struct JsonCheck c;
                json_error_t error;
                json_t *value = json_loadb(text, n, JSON_DECODE_ANY, &error);
                bool ours = check(text, n, 3, &c) == 0;
                if (ours != (value != NULL) && json_error_code(&error) != json_error_numeric_overflow
                    && json_error_code(&error) != json_error_null_character)
                        fail_msg("'%s': we say %d, jansson '%s'", text, ours, error.text);
                taken += ours;
                json_decref(value);
        }
        assert_true(taken > 1000);
}

RUN(T(grammar), T(depth_is_bounded), T(agrees_with_jansson))
