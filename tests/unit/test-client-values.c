/* What the client makes of values, pictures and files: pieces, names below --out, JSON of the command line, what a terminal is sent. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/json-text.h"
#include "client/out-dir.h"
#include "client/picture.h"
#include "client/sixel.h"

/* What is said on standard error goes to nowhere, or is caught: */
static char said[4096];

static int catch_start(int *ret_saved) {
        int fd = memfd_create("said", MFD_CLOEXEC);

        *ret_saved = dup(STDERR_FILENO);
        assert_true(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
        return fd;
}

static void catch_end(int fd, int saved) {
        ssize_t n = pread(fd, said, sizeof(said) - 1, 0);

        said[n > 0 ? n : 0] = '\0';
        assert_true(dup2(saved, STDERR_FILENO) >= 0);
        (void) close(saved);
        (void) close(fd);
}

static int add(struct Spool *s, const char *id, uint64_t offset, const char *text, bool last) {
        Glovebox__V1__Content piece = GLOVEBOX__V1__CONTENT__INIT;

        piece.content_id = (char *) id;
        piece.offset = offset;
        piece.data = (ProtobufCBinaryData) { .len = strlen(text), .data = (uint8_t *) text };
        piece.last = last;
        return spool_add(s, -EBADF, &piece);
}

static void assert_item(struct Spool *s, const char *id, const char *text, bool whole) {
        const struct SpoolItem *item = spool_find(s, id);
        struct Bytes b _cleanup_(bytes_done) = {};

        assert_non_null(item);
        assert_int_equal(item->whole, whole);
        assert_int_equal(item->size, strlen(text));
        assert_int_equal(spool_read(s, item, 100, &b), 0);
        assert_string_equal(b.data, text);
}

static void test_pieces(void **state) {
        struct Spool s _cleanup_(spool_done) = SPOOL_NULL;
        struct Bytes b = {};

        assert_null(spool_find(&s, "a"));
        assert_int_equal(add(&s, "a", 0, "one", false), 0);
        assert_int_equal(add(&s, "a", 3, "two", false), 0);
        assert_int_equal(spool_find(&s, "a")->n_parts, 1); /* in a row: one part */
        assert_int_equal(add(&s, "b", 0, "other", true), 0);
        assert_int_equal(add(&s, "a", 6, "three", true), 0);
        assert_int_equal(add(&s, "empty", 0, "", true), 0);
        assert_item(&s, "a", "onetwothree", true);
        assert_item(&s, "b", "other", true);
        assert_item(&s, "empty", "", true);
        assert_error(add(&s, "a", 11, "behind the last", true), EBADMSG);
        assert_error(add(&s, "c", 1, "begins late", false), EBADMSG);
        assert_int_equal(add(&s, "d", 0, "12345", false), 0);
        assert_error(add(&s, "d", 4, "overlaps", true), EBADMSG);
        assert_error(add(&s, "d", 6, "leaves a hole", true), EBADMSG);
        assert_item(&s, "d", "12345", false);
        assert_int_equal(spool_put(&s, -EBADF, "e", "whole", 5), 0);
        assert_item(&s, "e", "whole", true);
        assert_error(spool_read(&s, spool_find(&s, "e"), 4, &b), EFBIG);
}

static void test_pieces_have_bounds(void **state) {
        struct Spool s _cleanup_(spool_done) = SPOOL_NULL;
        Glovebox__V1__Content piece = GLOVEBOX__V1__CONTENT__INIT;
        char id[512], *chunk _cleanup_free_ = calloc(1, 16 * MIB);
        int r = 0;

        s.only_counts = true;
        piece.data = (ProtobufCBinaryData) { .len = 16 * MIB, .data = (uint8_t *) chunk };
        piece.content_id = (char *) "x";
        for (piece.offset = 0; r == 0; piece.offset += piece.data.len)
                r = spool_add(&s, -EBADF, &piece);
        assert_error(r, E2BIG);
        assert_int_equal(s.size, SPOOL_BYTES_MAX);
        for (size_t i = s.n_items; i < SPOOL_ITEMS_MAX; i++) {
                (void) snprintf(id, sizeof(id), "%zu", i);
                assert_int_equal(spool_put(&s, -EBADF, id, "", 0), 0);
        }
        assert_error(spool_put(&s, -EBADF, "one more", "", 0), E2BIG);
        spool_done(&s);
        memset(id, 'i', sizeof(id) - 1);
        id[sizeof(id) - 1] = '\0';
        assert_error(spool_put(&s, -EBADF, id, "", 0), E2BIG);
}

/* FIL-07: as the contract writes names, and as only an attacker would. */
static void test_FIL_07_names(void **state) {
        static const struct {
                const char *path;
                bool escaped;
                const char *name; /* NULL: refused */
        } cases[] = {
                { "a", false, "a" },          { "a/b c/\n", false, "a/b c/\n" }, { "...", false, "..." },     { "a\\x41", false, "a\\x41" },
                { "\\xff", true, "\xff" },    { "a\\\\x\\xFe", true, "a\\x\xfe" }, { "", false, NULL },        { "/", false, NULL },
                { "/a", false, NULL },        { "..", false, NULL },             { "a/..", false, NULL },     { "../a", false, NULL },
                { "a/../b", false, NULL },    { ".", false, NULL },              { "./a", false, NULL },      { "a/./b", false, NULL },
                { "a//b", false, NULL },      { "a/", false, NULL },             { "\\x2e\\x2e/a", true, NULL }, { "\\x2fetc", true, NULL },
                { "a\\x00", true, NULL },     { "\\x7f", true, NULL },           { "\\n", true, NULL },       { "\\", true, NULL },
                { "\\x", true, NULL },        { "\\xf", true, NULL },            { "\\x8g", true, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const char *fault = NULL;
                char *name _cleanup_free_ = out_dir_name(cases[i].path, cases[i].escaped, &fault);

                if (!name != !cases[i].name || (name && !streq(name, cases[i].name)))
                        fail_msg("%s gives %s", cases[i].path, name ? name : fault);
                assert_true(!name == !!fault);
        }
}

static void assert_content(int folder, const char *name, const char *text) {
        int fd _cleanup_close_ = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        char buffer[100];
        ssize_t n = read_small(fd, buffer, sizeof(buffer));

        assert_true(fd >= 0 && n >= 0);
        assert_string_equal(buffer, text);
}

/* The attack: a link in the place of a folder, of a file, and one that appears between two files. */
static void test_nothing_is_written_through_links(void **state) {
        char folder[] = "/tmp/glovebox-unit-XXXXXX", path[128], command[512];
        struct OutDir d = OUT_DIR_NULL;
        struct Spool s _cleanup_(spool_done) = SPOOL_NULL;
        int top _cleanup_close_ = -EBADF;
        int fd, saved;

        assert_non_null(mkdtemp(folder));
        top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(mkdirat(top, "outside", 0755), 0);
        (void) snprintf(path, sizeof(path), "%s/made/here", folder);
        fd = catch_start(&saved);
        assert_int_equal(out_dir_open(&d, path), 0); /* folders above are made */
        assert_int_equal(spool_put(&s, -EBADF, "f", "evil", 4), 0);
        assert_int_equal(out_dir_write(&d, "a/b/x", &s, spool_find(&s, "f")), 0);
        assert_int_equal(renameat(d.fd, "a/b", top, "moved"), 0);
        assert_int_equal(symlinkat("../../../outside", d.fd, "a/b"), 0);
        assert_int_not_equal(out_dir_write(&d, "a/b/x", &s, spool_find(&s, "f")), 0);
        assert_int_not_equal(out_dir_write(&d, "a/b", &s, spool_find(&s, "f")), 0);
        assert_int_not_equal(out_dir_write(&d, "a", &s, spool_find(&s, "f")), 0);
        assert_int_equal(out_dir_write(&d, "a/x", &s, spool_find(&s, "f")), 0);
        catch_end(fd, saved);
        assert_non_null(strstr(said, "links are not followed"));
        assert_non_null(strstr(said, "a folder is in its place"));
        assert_content(d.fd, "a/x", "evil");
        assert_content(top, "moved/x", "evil");
        assert_int_not_equal(faccessat(top, "outside/b", F_OK, 0), 0);
        out_dir_done(&d);
        (void) snprintf(command, sizeof(command), "! grep -rq evil %s/outside && ! find %s -name '.glovebox*' | grep -q . && rm -r %s", folder, folder, folder);
        assert_int_equal(system(command), 0);
}

static int read_json(const char *text, bool is_object) {
        struct Bytes b _cleanup_(bytes_done) = {};
        int saved, fd = catch_start(&saved);
        int r = json_text_read("--inputs", text, is_object, &b);

        catch_end(fd, saved);
        return r;
}

static void test_json_of_the_command_line(void **state) {
        assert_int_equal(read_json(" {\"a\": [1, null, \"\xc3\xa9\"]} ", true), 0);
        assert_int_equal(read_json("1", false), 0);
        assert_int_not_equal(read_json("[]", true), 0);
        assert_non_null(strstr(said, "--inputs: it must be a JSON object"));
        assert_int_not_equal(read_json("{\n \"\xc3\xa9\xc3\xa9\" 1}", false), 0);
        assert_non_null(strstr(said, "(line 2, column 7)")); /* columns are characters */
        assert_int_not_equal(read_json("{\"a\": ", false), 0);
        assert_non_null(strstr(said, "(line 1, column 7)"));
        assert_int_not_equal(read_json("@/nonexistent", false), 0);
        assert_non_null(strstr(said, "/nonexistent"));
}

static void test_terminals(void **state) {
        static const struct {
                const char *variable, *value;
                enum Show expected;
        } cases[] = {
                { "TERM", "xterm-kitty", SHOW_KITTY },  { "TERM", "xterm-ghostty", SHOW_KITTY }, { "KITTY_WINDOW_ID", "3", SHOW_KITTY },
                { "TERM_PROGRAM", "iTerm.app", SHOW_ITERM }, { "TERM_PROGRAM", "WezTerm", SHOW_ITERM }, { "LC_TERMINAL", "iTerm2", SHOW_ITERM },
                { "TERM", "dumb", SHOW_NONE },          { "TERM", "linux", SHOW_NONE },          { "TERM", "screen-256color", SHOW_NONE },
                { "TMUX", "x", SHOW_NONE },             { "TERM", "xterm-256color", SHOW_AUTO },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                assert_int_equal(clearenv(), 0);
                (void) setenv("TERM", "xterm", 1);
                (void) setenv(cases[i].variable, cases[i].value, 1);
                assert_int_equal(picture_protocol(SHOW_AUTO, true), cases[i].expected);
                assert_int_equal(picture_protocol(SHOW_AUTO, false), SHOW_NONE);
                assert_int_equal(picture_protocol(SHOW_KITTY, false), SHOW_KITTY);
        }
}

/* 2 x 1 pixels: red and white. */
static const uint8_t small[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
        0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x7b, 0x40, 0xe8, 0xdd, 0x00, 0x00, 0x00, 0x0f, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63,
        0xf8, 0xcf, 0xc0, 0xf0, 0xff, 0xff, 0x7f, 0x00, 0x0b, 0xfb, 0x03, 0xfd, 0xdd, 0x17, 0x6f, 0x47, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45,
        0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
};

static void test_sixels(void **state) {
        struct Bytes png = { (char *) small, sizeof(small) }, broken = { (char *) small, sizeof(small) - 20 };
        char *text _cleanup_free_ = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        assert_int_equal(sixel_print(out, &broken, 100, 100), 1);
        if (!sixel_is_built()) {
                assert_int_equal(sixel_print(out, &png, 100, 100), 1); /* it cannot, and says so */
                (void) fclose(out);
                return;
        }
        assert_int_equal(sixel_print(out, &png, 100, 100), 0);
        assert_int_equal(fclose(out), 0);
        assert_int_equal(strncmp(text, "\033P0;1;0q\"1;1;2;1#0;2;0;0;0", 26), 0);
        assert_non_null(strstr(text, "#180;2;100;0;0"));
        assert_non_null(strstr(text, "#180@$#215?@$-\033\\\n")); /* red in the first column, white in the second */
}

RUN(T(test_pieces), T(test_pieces_have_bounds), T(test_FIL_07_names), T(test_nothing_is_written_through_links), T(test_json_of_the_command_line),
    T(test_terminals), T(test_sixels))
