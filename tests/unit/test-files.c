/* server/stream/files.c and mime.c, with real pipes: the test is the cell's init, honest or not. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "server/stream/files.h"
#include "server/stream/mime.h"

struct Fixture {
        sd_event *event;
        struct EventLog log;
        struct LogCursor cursor;
        struct Files files;
        int question, answer; /* init's ends */
        unsigned done;
        /* what came into the log */
        unsigned pieces, last;
        size_t size;
        char id[CONTENT_ID_MAX];
};

static void on_wake(void *userdata) {
}

static void on_done(void *userdata) {
        ((struct Fixture *) userdata)->done++;
}

static void on_room(void *userdata) {
        files_resume(&((struct Fixture *) userdata)->files);
}

static void start(struct Fixture *f, const struct FilesQuestion *q) {
        int question[2], answer[2];

        *f = (struct Fixture) {};
        assert_ok(sd_event_new(&f->event));
        assert_ok(pipe2(question, O_CLOEXEC));
        assert_ok(pipe2(answer, O_CLOEXEC));
        f->question = question[0];
        f->answer = answer[1];
        assert_ok(set_nonblock(f->question, true));
        assert_ok(set_nonblock(f->answer, true));
        assert_ok(eventlog_init(&f->log, f->event, now_monotonic()));
        f->log.on_room = on_room;
        f->log.userdata = f;
        log_cursor_start(&f->cursor, &f->log, true, on_wake, f);
        files_init(&f->files, &f->log);
        f->files.on_done = on_done;
        f->files.userdata = f;
        assert_ok(files_ask(&f->files, f->event, question[1], answer[0], q));
}

static void start_plain(struct Fixture *f, uint64_t content_max) {
        start(f, &(struct FilesQuestion) {.content_max = content_max});
}

static void stop(struct Fixture *f) {
        f->question = close_fd(f->question);
        f->answer = close_fd(f->answer);
        files_done(&f->files);
        files_done(&f->files); /* twice is once */
        log_cursor_stop(&f->cursor);
        eventlog_done(&f->log);
        sd_event_unref(f->event);
}

static void run(struct Fixture *f) {
        while (sd_event_run(f->event, 0) > 0)
                ;
}

static void send_raw(struct Fixture *f, const void *bytes, size_t size) {
        for (const uint8_t *p = bytes; size > 0;) {
                ssize_t n = write(f->answer, p, size);
                if (n < 0 && errno == EPIPE)
                        return;
                if (n < 0 && f->files.waiting)
                        fail_msg("the log is full");
                if (n > 0) {
                        p += n;
                        size -= (size_t) n;
                }
                run(f);
        }
}

static void send(struct Fixture *f, uint32_t type, const void *bytes, size_t size) {
        uint8_t header[JOB_HEADER_SIZE];
        job_put_header(header, type, (uint32_t) size);
        send_raw(f, header, sizeof header);
        send_raw(f, bytes, size);
        run(f);
}

#define SEND(f, type, text) send(f, type, text, sizeof(text) - 1)

static void send_entry(struct Fixture *f, unsigned change, unsigned skipped, bool matched, uint64_t size, const char *path, size_t length) {
        uint8_t entry[4 + FILE_STAMP_SIZE + COLLECT_PATH_MAX + 1] = {(uint8_t) change, (uint8_t) skipped, matched};
        for (int i = 0; i < 8; i++)
                entry[4 + 8 + i] = (uint8_t) (size >> (8 * i));
        memcpy(entry + 4 + FILE_STAMP_SIZE, path, length);
        send(f, FILES_ENTRY, entry, 4 + FILE_STAMP_SIZE + length);
}

#define ENTRY(f, change, skipped, matched, size, path) send_entry(f, change, skipped, matched, size, path, sizeof(path) - 1)

static void look(struct Fixture *f) {
        struct Event e;
        while (log_cursor_next(&f->cursor, &e) > 0) {
                assert_int_equal(e.kind, EVENT_CONTENT);
                if (f->last || !*f->id) {
                        (void) snprintf(f->id, sizeof f->id, "%s", e.content.id);
                        f->pieces = f->last = 0;
                        f->size = 0;
                }
                assert_string_equal(e.content.id, f->id);
                assert_int_equal(e.content.offset, f->size);
                f->pieces++;
                f->last += e.content.last;
                f->size += e.content.size;
        }
}

static void the_question(void **state) {
        static const char expected[] =
                "\1\0\0\0\x25\0\0\0" "\1\0\0\0\0\0\0\x80" "\2\0\0\0\0\0\0\0" "\3\0\0\0\0\0\0\0" "\4\0\0\0\0\0\0\0" "a/b.c"
                "\2\0\0\0\5\0\0\0" "*.png"
                "\3\0\0\0\x08\0\0\0" "\0\0\0\1\1\0\0\0";
        static const struct FileBase base = {"a/b.c", {1 | 1ull << 63, 2, 3, 4}};
        const char *patterns[] = {"*.png"};
        struct Fixture f;
        char bytes[256];

        start(&f, &(struct FilesQuestion) {&base, 1, patterns, 1, 1ull << 32 | 1 << 24});
        run(&f);
        assert_int_equal(read(f.question, bytes, sizeof bytes), sizeof expected - 1);
        assert_memory_equal(bytes, expected, sizeof expected - 1);
        assert_int_equal(read(f.question, bytes, sizeof bytes), 0); /* nothing more will be asked */
        assert_int_equal(f.done, 0);
        stop(&f);
}

/* Much larger than a pipe; init reads it as it likes, and a path has at most the bytes that a record may have. */
static void a_long_question(void **state) {
        static char path[COLLECT_PATH_MAX + 100];
        static struct FileBase base[100];
        struct Fixture f;
        uint8_t bytes[5000];
        size_t total = 0;

        memset(path, 'a', sizeof path - 1);
        for (size_t i = 0; i < ELEMENTSOF(base); i++)
                base[i].path = path;
        start(&f, &(struct FilesQuestion) {.base = base, .n_base = ELEMENTSOF(base)});
        for (ssize_t n; (n = read(f.question, bytes, sizeof bytes)) != 0; run(&f))
                total += n > 0 ? (size_t) n : 0;
        assert_int_equal(total, ELEMENTSOF(base) * (JOB_HEADER_SIZE + FILE_STAMP_SIZE + COLLECT_PATH_MAX) + JOB_HEADER_SIZE + 8);
        SEND(&f, FILES_END, "\0");
        assert_int_equal(f.done, 1);
        assert_false(f.files.truncated);
        stop(&f);
}

static void an_answer(void **state) {
        struct Fixture f;

        start_plain(&f, MIB);
        ENTRY(&f, FILE_ADDED, 0, true, 5, "out/a.PNG");
        SEND(&f, FILES_DATA, "123");
        look(&f);
        assert_int_equal(f.last, 0);
        SEND(&f, FILES_DATA, "45");
        look(&f);
        assert_int_equal(f.last, 1);
        assert_int_equal(f.size, 5);
        assert_string_equal(f.id, "file-1");
        ENTRY(&f, FILE_MODIFIED, 0, false, 1ull << 40, "b");
        ENTRY(&f, FILE_ADDED, FILE_SYMLINK, true, 7, "link"); /* skipped: no content, whatever it says */
        ENTRY(&f, FILE_DELETED, 0, false, 9, "gone");
        ENTRY(&f, FILE_UNCHANGED, 0, true, 0, "empty.txt");
        look(&f);
        assert_string_equal(f.id, "file-5");
        assert_int_equal(f.last, 1);
        assert_int_equal(f.size, 0);
        SEND(&f, FILES_END, "\0");
        assert_int_equal(f.done, 1);
        assert_false(f.files.truncated);
        assert_int_equal(f.files.n, 5);
        const struct ResultFile *l = f.files.list;
        assert_string_equal(l[0].path, "out/a.PNG");
        assert_string_equal(l[0].mime_type, "image/png");
        assert_string_equal(l[0].content_id, "file-1");
        assert_int_equal(l[1].size, 1ull << 40);
        assert_int_equal(l[1].change, FILE_MODIFIED);
        assert_string_equal(l[1].content_id, "");
        assert_int_equal(l[2].skipped, FILE_SYMLINK);
        assert_string_equal(l[2].content_id, "");
        assert_int_equal(l[3].change, FILE_DELETED);
        assert_string_equal(l[4].mime_type, "text/plain");
        assert_false(l[4].escaped);
        stop(&f);
}

static void names_of_any_bytes(void **state) {
        struct Fixture f;

        start_plain(&f, 0);
        ENTRY(&f, FILE_ADDED, 0, false, 0, "a\xff\\.png");
        ENTRY(&f, FILE_ADDED, 0, false, 0, "b\\n\n");
        SEND(&f, FILES_END, "\1");
        assert_string_equal(f.files.list[0].path, "a\\xff\\\\.png");
        assert_true(f.files.list[0].escaped);
        assert_string_equal(f.files.list[0].mime_type, "image/png");
        assert_string_equal(f.files.list[1].path, "b\\n\n");
        assert_false(f.files.list[1].escaped);
        assert_true(f.files.truncated); /* init said so */
        stop(&f);
}

/* Each of these ends the answer: what came before counts, and the rest is told as missing. */
static void lies(void **state) {
        static const struct {
                uint32_t type;
                size_t size;
                const char *bytes;
        } raw[] = {{0, 0, ""}, {FILES_RECORD_MAX_, 0, ""}, {FILES_END, 0, ""}, {FILES_END, 2, "\0\0"}, {FILES_ENTRY, 36, NULL}};
        static const struct {
                unsigned change, skipped;
                const char *path;
                size_t length;
        } entries[] = {{4, 0, "a", 1}, {0, 8, "a", 1}, {255, 0, "a", 1}, {0, 0, "a\0b", 3}, {0, 0, "\0", 1}};
        static const char zeros[COLLECT_PATH_MAX + 64];
        struct Fixture f;

        for (size_t i = 0; i < ELEMENTSOF(raw) + ELEMENTSOF(entries) + 1; i++) {
                start_plain(&f, MIB);
                ENTRY(&f, FILE_ADDED, 0, false, 0, "good");
                if (i < ELEMENTSOF(raw))
                        send(&f, raw[i].type, raw[i].bytes ? raw[i].bytes : zeros, raw[i].size);
                else if (i < ELEMENTSOF(raw) + ELEMENTSOF(entries)) {
                        size_t k = i - ELEMENTSOF(raw);
                        send_entry(&f, entries[k].change, entries[k].skipped, false, 0, entries[k].path, entries[k].length);
                } else
                        send(&f, FILES_ENTRY, zeros, 4 + FILE_STAMP_SIZE + COLLECT_PATH_MAX + 1);
                if (f.done != 1)
                        fail_msg("case %zu was taken", i);
                assert_true(f.files.truncated);
                assert_int_equal(f.files.n, 1);
                assert_int_equal(f.files.fd, -EBADF);
                stop(&f);
        }
}

/* More content than the entry's size, than is left, or than was announced; what was begun gets its last piece. */
static void content_is_bounded(void **state) {
        static const struct {
                bool matched;
                uint64_t size, content_max;
                size_t arrives;
        } cases[] = {{true, 3, MIB, 0}, {true, UINT64_MAX, 3, 0}, {false, 4, MIB, 0}, {true, 10, MIB, 4}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct Fixture f;
                start_plain(&f, cases[i].content_max);
                ENTRY(&f, FILE_ADDED, cases[i].matched ? 0 : FILE_TOO_LARGE, cases[i].matched, cases[i].size, "a");
                SEND(&f, FILES_DATA, "1234");
                assert_int_equal(f.done, cases[i].arrives == 0);
                f.answer = close_fd(f.answer);
                run(&f);
                look(&f);
                assert_int_equal(f.done, 1);
                assert_int_equal(f.size, cases[i].arrives);
                assert_int_equal(f.last, cases[i].matched);
                assert_true(f.files.truncated);
                stop(&f);
        }
}

/* A pattern such as "*" means the caller's files; the code's own is told when it was changed. */
static void the_code_is_passed_over(void **state) {
        struct Fixture f;

        start(&f, &(struct FilesQuestion) {.content_max = MIB, .code_name = "main.py"});
        ENTRY(&f, FILE_UNCHANGED, 0, true, 3, "main.py");
        SEND(&f, FILES_DATA, "1");
        SEND(&f, FILES_DATA, "23");
        ENTRY(&f, FILE_UNCHANGED, 0, true, 2, "main.pyc");
        SEND(&f, FILES_DATA, "ab");
        look(&f);
        assert_int_equal(f.size, 2);
        assert_int_equal(f.last, 1);
        ENTRY(&f, FILE_MODIFIED, 0, true, 1, "main.py");
        SEND(&f, FILES_DATA, "c");
        SEND(&f, FILES_END, "\0");
        look(&f);
        assert_string_equal(f.id, "file-2");
        assert_int_equal(f.files.n, 2);
        assert_string_equal(f.files.list[1].path, "main.py");
        assert_false(f.files.truncated);
        stop(&f);
}

/* A file that shrank while it was read ends where the next begins. */
static void a_file_that_shrank(void **state) {
        struct Fixture f;

        start_plain(&f, MIB);
        ENTRY(&f, FILE_ADDED, 0, true, 100, "a");
        SEND(&f, FILES_DATA, "12");
        ENTRY(&f, FILE_ADDED, 0, true, 100, "b");
        look(&f);
        assert_string_equal(f.id, "file-1");
        assert_int_equal(f.last, 1);
        SEND(&f, FILES_END, "\0");
        look(&f);
        assert_string_equal(f.id, "file-2");
        assert_int_equal(f.last, 1);
        assert_int_equal(f.size, 0);
        assert_false(f.files.truncated);
        stop(&f);
}

static void the_list_is_bounded(void **state) {
        static char path[COLLECT_PATH_MAX];
        struct Fixture f;
        size_t n = 0;

        start_plain(&f, MIB);
        for (; f.done == 0 && n < 2 * COLLECT_ENTRIES_MAX; n++)
                ENTRY(&f, FILE_ADDED, 0, false, 0, "a");
        assert_int_equal(n, COLLECT_ENTRIES_MAX + 1);
        assert_int_equal(f.files.n, COLLECT_ENTRIES_MAX);
        assert_true(f.files.truncated);
        stop(&f);
        /* Escaped bytes take four: it is those that the result carries. */
        memset(path, 0xff, sizeof path);
        start_plain(&f, MIB);
        for (n = 0; f.done == 0 && n < 2 * COLLECT_ENTRIES_MAX; n++)
                send_entry(&f, FILE_ADDED, 0, false, 0, path, sizeof path);
        assert_int_equal(f.files.n, COLLECT_ENTRY_BYTES_MAX / (4 * sizeof path));
        assert_true(f.files.truncated);
        stop(&f);
}

static void nothing_follows_the_end(void **state) {
        struct Fixture f;
        static const uint8_t bytes[] = "\3\0\0\0\1\0\0\0\0" "\3\0\0\0\1\0\0\0\1";

        start_plain(&f, MIB);
        send_raw(&f, bytes, sizeof bytes - 1);
        assert_int_equal(f.done, 1);
        assert_false(f.files.truncated);
        stop(&f);
}

/* init says nothing any more, or just enough not to be called silent. */
static void init_is_not_waited_for_for_ever(void **state) {
        struct Fixture f;

        for (int i = 0; i < 2; i++) {
                start_plain(&f, MIB);
                ENTRY(&f, FILE_ADDED, 0, true, 100, "a");
                if (i == 0)
                        assert_ok(sd_event_source_set_time(f.files.deadline, 0));
                else {
                        f.files.time_left = 0;
                        SEND(&f, FILES_DATA, "1");
                }
                for (int turn = 0; turn < 10 && f.done == 0; turn++)
                        assert_ok(sd_event_run(f.event, 20 * USEC_PER_MSEC));
                assert_int_equal(f.done, 1);
                assert_true(f.files.truncated);
                look(&f);
                assert_int_equal(f.last, 1);
                stop(&f);
        }
}

static void a_slow_reader_holds_the_answer(void **state) {
        static uint8_t record[JOB_HEADER_SIZE + COLLECT_PIECE_MAX];
        struct Fixture f;
        size_t sent = 0;
        int enabled;

        start_plain(&f, 64 * MIB);
        ENTRY(&f, FILE_ADDED, 0, true, 64 * MIB, "a");
        job_put_header(record, FILES_DATA, COLLECT_PIECE_MAX);
        for (size_t at = 0;; run(&f)) {
                ssize_t n = write(f.answer, record + at, sizeof record - at);
                if (n < 0 && f.files.waiting)
                        break;
                if (n > 0)
                        at = (at + (size_t) n) % sizeof record;
                sent += n > 0 ? (size_t) n : 0;
        }
        assert_true(f.log.charged <= OUTPUT_HELD + 2 * COLLECT_PIECE_MAX);
        /* That is not init's fault. */
        assert_ok(sd_event_source_get_enabled(f.files.deadline, &enabled));
        assert_int_equal(enabled, SD_EVENT_OFF);
        f.answer = close_fd(f.answer);
        while (f.done == 0) {
                look(&f);
                run(&f);
        }
        look(&f);
        assert_int_equal(f.last, 1);
        assert_true(f.size > sent - (sent / sizeof record + 2) * JOB_HEADER_SIZE);
        stop(&f);
}

/* The client leaves, and the rest is still read: init must not be left writing. */
static void the_reader_goes(void **state) {
        static const uint8_t piece[COLLECT_PIECE_MAX];
        struct Fixture f;

        start_plain(&f, 64 * MIB);
        ENTRY(&f, FILE_ADDED, 0, true, 64 * MIB, "a");
        while (!f.files.waiting)
                send(&f, FILES_DATA, piece, 1000);
        log_cursor_stop(&f.cursor);
        for (int i = 0; i < 20; i++)
                send(&f, FILES_DATA, piece, sizeof piece);
        assert_true(f.log.charged <= OUTPUT_HELD + 2 * COLLECT_PIECE_MAX);
        SEND(&f, FILES_END, "\0");
        assert_int_equal(f.done, 1);
        stop(&f);
}

/* Given up in the middle: on_done does not come any more. And a pipe that is not there. */
static void ends_of_all_kinds(void **state) {
        struct Fixture f;
        struct Files never = {};
        int fds[2];
        char byte;

        start_plain(&f, MIB);
        ENTRY(&f, FILE_ADDED, 0, true, 100, "a");
        SEND(&f, FILES_DATA, "1");
        files_done(&f.files);
        assert_int_equal(f.done, 0);
        files_init(&f.files, &f.log);
        assert_ok(pipe2(fds, O_CLOEXEC));
        assert_error(files_ask(&f.files, f.event, fds[1], -EBADF, &(struct FilesQuestion) {}), EBADF);
        assert_int_equal(read(fds[0], &byte, 1), 0); /* taken, and closed */
        close_fd(fds[0]);
        assert_ok(pipe2(fds, O_CLOEXEC));
        assert_error(files_ask(&f.files, f.event, -EBADF, fds[0], &(struct FilesQuestion) {}), EBADF);
        assert_int_equal(write(fds[1], "x", 1), -1);
        close_fd(fds[1]);
        stop(&f);
        files_done(&never);
}

static void types_by_ending(void **state) {
        static const char other[] = "application/octet-stream";
        static const struct {
                const char *path, *type;
        } cases[] = {
                {"a.png", "image/png"},         {"out/A.JPG", "image/jpeg"}, {"a.tar.gz", "application/gzip"}, {"a.b/c", other}, {"a.png/c", other},
                {".profile", other},            {".png", other},             {"x/.png", other},                {"a.", other},    {"", other},
                {"report.csv", "text/csv"},     {"a.unknown", other},        {"a.png ", other},                {"a/", other},
                {"..png", "image/png"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_string_equal(mime_type_of(cases[i].path), cases[i].type);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                T(the_question), T(a_long_question), T(an_answer), T(names_of_any_bytes), T(lies), T(content_is_bounded),
                T(the_code_is_passed_over), T(a_file_that_shrank),
                T(the_list_is_bounded), T(nothing_follows_the_end), T(init_is_not_waited_for_for_ever), T(a_slow_reader_holds_the_answer),
                T(the_reader_goes), T(ends_of_all_kinds), T(types_by_ending),
        };
        (void) signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
