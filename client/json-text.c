/* The check is the server's own: what passes here passes there. */
#include "client/json-text.h"

#include <stdio.h>

#include "client/console.h"
#include "common/json-check.h"

#define JSON_MAX (16 * MIB)

/* Line and column from 1; columns are characters. */
static void find_place(const struct Bytes *b, size_t offset, size_t *ret_line, size_t *ret_column) {
        *ret_line = *ret_column = 1;
        for (size_t i = 0; i < MIN(offset, b->size); i++)
                if (b->data[i] == '\n') {
                        ++*ret_line;
                        *ret_column = 1;
                } else if (((uint8_t) b->data[i] & 0xc0) != 0x80)
                        ++*ret_column;
}

static int check(const char *flag, const char *what, bool is_object, const struct Bytes *b) {
        struct JsonCheck c;
        size_t line, column;

        json_check_start(&c);
        if (json_check_add(&c, b->data, b->size) < 0 || json_check_end(&c) < 0) {
                find_place(b, c.offset, &line, &column);
                return console_fault("%s: %sthe JSON %s (line %zu, column %zu)%s", flag, what, strempty(c.fault), line, column,
                                     c.depth > 0 ? "" : "; a text is written \"so\", with its quotes, and @FILE reads a file");
        }
        if (is_object && c.first != '{')
                return console_fault("%s: %sit must be a JSON object, a name for each value: {\"limit\": 3}", flag, what);
        return 0;
}

int json_text_read(const char *flag, const char *argument, bool is_object, struct Bytes *ret) {
        struct Bytes b _cleanup_(bytes_done) = {};
        char *what _cleanup_free_ = NULL;
        int r;

        if (argument[0] == '@') {
                r = input_read_file(argument + 1, JSON_MAX, &b);
                if (r == 0 && asprintf(&what, "%s: ", argument + 1) < 0)
                        r = -ENOMEM;
        } else {
                b.data = strdup(argument);
                b.size = strlen(argument);
                r = b.data ? 0 : -ENOMEM;
        }
        if (r == -EFBIG)
                return console_fault("%s: %s is larger than 16 MiB; put it into the workspace with --file", flag, argument + 1);
        if (r < 0)
                return console_fault("%s: cannot read %s: %s", flag, argument, strerror(-r));
        r = check(flag, strempty(what), is_object, &b);
        if (r != 0)
                return r;
        *ret = b;
        b = (struct Bytes) {};
        return 0;
}
