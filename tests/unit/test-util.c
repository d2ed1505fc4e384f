/* common/util.c */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/open-within.h"

static void strv_grows_and_copies(void **state) {
        char **v _cleanup_strv_ = NULL, **copy _cleanup_strv_ = NULL;

        assert_int_equal(strv_length(NULL), 0);
        assert_ok(strv_extend(&v, "a"));
        assert_ok(strv_extend(&v, ""));
        assert_int_equal(strv_length(v), 2);
        assert_true(strv_contains(v, ""));
        assert_false(strv_contains(v, "b"));
        assert_error(strv_push(&v, NULL), ENOMEM);
        copy = strv_copy(v);
        assert_string_equal(copy[0], "a");
        assert_ptr_not_equal(copy[0], v[0]);
        assert_null(copy[2]);
}

static void cleanup_attributes(void **state) {
        int fds[2], taken;

        assert_ok(pipe(fds));
        {
                int scoped _cleanup_close_ = fds[0];
                int kept _cleanup_close_ = fds[1];
                taken = TAKE_FD(kept);
                assert_int_equal(kept, -EBADF);
                assert_true(scoped >= 0);
        }
        assert_int_equal(fcntl(fds[0], F_GETFD), -1);
        assert_ok(fcntl(taken, F_GETFD));
        errno = EPIPE;
        assert_int_equal(close_fd(taken), -EBADF);
        assert_int_equal(errno, EPIPE);
}

static void read_small_cuts_and_terminates(void **state) {
        int fd _cleanup_close_ = memfd_create("test", MFD_CLOEXEC);
        char buffer[4];

        assert_int_equal(write(fd, "abcdef", 6), 6);
        /* Twice: it reads from the start, wherever the offset is. */
        for (int i = 0; i < 2; i++) {
                assert_int_equal(read_small(fd, buffer, sizeof(buffer)), 3);
                assert_string_equal(buffer, "abc");
        }
        assert_error(read_small(fd, buffer, 0), EINVAL);
        assert_error(read_small(-1, buffer, sizeof(buffer)), EBADF);
}

static void keyed_numbers(void **state) {
        static const char text[] = "usage_usec 12\nuser_usec 7\nbad x\nhuge 99999999999999999999\nlast 3";
        uint64_t n = 5;

        assert_ok(keyed_number(text, "user_usec", &n));
        assert_int_equal(n, 7);
        assert_ok(keyed_number(text, "last", &n));
        assert_int_equal(n, 3);
        assert_error(keyed_number(text, "usec", &n), ENOENT);
        assert_error(keyed_number(text, "user", &n), ENOENT);
        assert_error(keyed_number(text, "bad", &n), EBADMSG);
        assert_error(keyed_number(text, "huge", &n), ERANGE);
        assert_error(keyed_number("", "a", &n), ENOENT);
        assert_error(keyed_number("a -1\n", "a", &n), EBADMSG);
        assert_int_equal(n, 3);
}

static void write_file_wants_an_existing_file(void **state) {
        char folder[] = "/tmp/test-util-XXXXXX", buffer[16];
        int dir _cleanup_close_ = -EBADF, fd _cleanup_close_ = -EBADF;

        assert_non_null(mkdtemp(folder));
        dir = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        assert_error(write_file_at(dir, "missing", "1"), ENOENT);
        fd = openat(dir, "there", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        assert_ok(write_file_at(dir, "there", "max"));
        assert_int_equal(read_small(fd, buffer, sizeof(buffer)), 3);
        assert_ok(symlinkat("there", dir, "link"));
        assert_error(write_file_at(dir, "link", "1"), ELOOP);
        assert_ok(unlinkat(dir, "link", 0));
        assert_ok(unlinkat(dir, "there", 0));
        assert_ok(rmdir(folder));
}

static void nonblock_on_and_off(void **state) {
        int fds[2];

        assert_ok(pipe(fds));
        assert_ok(set_nonblock(fds[0], true));
        assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
        assert_ok(set_nonblock(fds[0], false));
        assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
        assert_error(set_nonblock(-1, true), EBADF);
        (void) close(fds[0]);
        (void) close(fds[1]);
}

static atomic_bool renaming_is_over;

static void *rename_all_the_time(void *userdata) {
        int folder = *(int *) userdata;
        while (!renaming_is_over)
                if (renameat(folder, "a", folder, "b") < 0 || renameat(folder, "b", folder, "a") < 0)
                        abort();
        return NULL;
}

/* A link with ".." in it, opened while the machine renames: the kernel says EAGAIN again and again, the caller never. */
static void open_within_tries_again(void **state) {
        char path[] = "/tmp/glovebox-within-XXXXXX";
        assert_non_null(mkdtemp(path));
        int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(folder >= 0);
        assert_ok(mkdirat(folder, "a", 0755));
        assert_ok(mkdirat(folder, "etc", 0755));
        assert_ok(symlinkat("../target", folder, "etc/link"));
        int target = openat(folder, "target", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        assert_true(target >= 0);
        close_fd(target);

        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, rename_all_the_time, &folder), 0);
        for (int i = 0; i < 20000; i++) {
                int fd = open_within(folder, "etc/link", O_RDONLY | O_NONBLOCK, 0, WITHIN_ROOT);
                assert_true(fd >= 0);
                close_fd(fd);
        }
        renaming_is_over = true;
        assert_int_equal(pthread_join(thread, NULL), 0);

        assert_error(open_within(folder, "etc/../../etc", O_PATH, 0, WITHIN_BENEATH), EXDEV);
        assert_error(open_within(folder, "etc/link", O_PATH, 0, WITHIN_BENEATH | WITHIN_NO_SYMLINKS), ELOOP);
        assert_ok(unlinkat(folder, "etc/link", 0));
        assert_ok(unlinkat(folder, "target", 0));
        assert_ok(unlinkat(folder, "etc", AT_REMOVEDIR));
        assert_ok(unlinkat(folder, "a", AT_REMOVEDIR));
        close_fd(folder);
        assert_ok(rmdir(path));
}

static void utf8(void **state) {
        static const struct {
                const char *text;
                bool valid;
        } cases[] = {
                { "", true },
                { "plain", true },
                { "gr\xc3\xbc\xc3\x9f", true },
                { "\xe2\x82\xac\xf0\x9f\x98\x80", true },
                { "\xf4\x8f\xbf\xbf", true },      /* U+10FFFF */
                { "\xf4\x90\x80\x80", false },     /* above it */
                { "\xed\x9f\xbf", true },          /* last before the surrogates */
                { "\xed\xa0\x80", false },         /* a surrogate */
                { "\xc0\x80", false },             /* overlong NUL */
                { "\xc1\xbf", false },
                { "\xe0\x9f\xbf", false },         /* overlong */
                { "\xf0\x8f\xbf\xbf", false },
                { "\xc3", false },                 /* cut */
                { "a\xe2\x82", false },
                { "\x80", false },
                { "\xe2\x28\xa1", false },
                { "\xff", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_int_equal(utf8_is_valid(cases[i].text, strlen(cases[i].text)), cases[i].valid);
        assert_false(utf8_is_valid("a\0b", 3));
}

/* What a cell says becomes text that every client can read: no byte is believed, none is lost without a mark. */
static void utf8_of_anything(void **state) {
        static const struct {
                const char *bytes;
                size_t size;
                const char *mended, *escaped;
        } cases[] = {
                { "", 0, "", "" },
                { "plain\\n", 7, "plain\\n", "plain\\n" }, /* nothing to escape: nothing is changed */
                { "\xe2\x82\xac", 3, "\xe2\x82\xac", "\xe2\x82\xac" },
                { "a\xff\\", 3, "a\xef\xbf\xbd\\", "a\\xff\\\\" },
                { "a\0b", 3, "a\xef\xbf\xbd" "b", "a\\x00b" },
                { "\xe2\x82", 2, "\xef\xbf\xbd\xef\xbf\xbd", "\\xe2\\x82" },             /* cut at the end */
                { "\xc3\xc3\xa9", 3, "\xef\xbf\xbd\xc3\xa9", "\\xc3\xc3\xa9" },               /* the good one behind it stays */
                { "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\\xed\\xa0\\x80" }, /* a surrogate */
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                bool escaped = true;
                char *mended _cleanup_free_ = utf8_mend(cases[i].bytes, cases[i].size);
                char *e _cleanup_free_ = utf8_escape(cases[i].bytes, cases[i].size, &escaped);
                assert_string_equal(mended, cases[i].mended);
                assert_string_equal(e, cases[i].escaped);
                assert_int_equal(escaped, !utf8_is_valid(cases[i].bytes, cases[i].size));
                assert_true(utf8_is_valid(mended, strlen(mended)) && utf8_is_valid(e, strlen(e)));
        }
        /* The worst of both: every byte. */
        uint8_t all[256];
        for (size_t i = 0; i < sizeof all; i++)
                all[i] = (uint8_t) (255 - i);
        bool escaped;
        char *mended _cleanup_free_ = utf8_mend(all, sizeof all), *e _cleanup_free_ = utf8_escape(all, sizeof all, &escaped);
        assert_int_equal(strlen(mended), 127 + 3 * 129);
        assert_int_equal(strlen(e), 127 + 1 + 4 * 129);
}

static void utf8_is_cut_between_characters(void **state) {
        static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
        static const size_t fits[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10, 10};

        for (size_t most = 0; most < ELEMENTSOF(fits); most++)
                assert_int_equal(utf8_fit(text, most), fits[most]);
        assert_int_equal(utf8_fit("", 0), 0);
        assert_int_equal(utf8_fit("", 9), 0);
        assert_int_equal(utf8_fit("ab", 2), 2);
}

static void hex(void **state) {
        char out[7];

        hex_encode((const uint8_t *) "\x00\xaf\xff", 3, out);
        assert_string_equal(out, "00afff");
        hex_encode(NULL, 0, out);
        assert_string_equal(out, "");
}

static void library_is_beside_the_program(void **state) {
        char *path _cleanup_free_ = NULL;
        struct stat st;

        assert_ok(library_dir(&path));
        assert_ok(stat(path, &st));
        assert_string_equal(path + strlen(path) - strlen("/lib/glovebox"), "/lib/glovebox");
}

static void clocks_go_forward(void **state) {
        usec_t a = now_monotonic(), b = now_monotonic();

        assert_true(a > 0 && b >= a);
        /* After 2020 and before 2200: microseconds, not another unit. */
        assert_in_range(now_realtime(), 1577836800 * USEC_PER_SEC, 7258118400 * USEC_PER_SEC);
}

RUN(T(strv_grows_and_copies), T(cleanup_attributes), T(read_small_cuts_and_terminates), T(keyed_numbers), T(write_file_wants_an_existing_file),
    T(nonblock_on_and_off), T(open_within_tries_again), T(utf8), T(utf8_of_anything), T(utf8_is_cut_between_characters),
    T(hex), T(library_is_beside_the_program), T(clocks_go_forward))
