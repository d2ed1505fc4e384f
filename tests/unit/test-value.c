/* server/stream/value.c, with a real pipe: what a runner says, and what user code that found the descriptor may say. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "server/stream/value.h"

#define VALUE_MAX (1 * MIB)
#define CONTENT_MAX (2 * MIB)

struct Fixture {
        sd_event *event;
        struct EventLog log;
        struct LogCursor cursor;
        struct ValueBudget budget;
        struct ValuePipe values;
        int in; /* write end */
        unsigned drained, over;
        uint8_t status;
};

static void on_wake(void *userdata) {
}

static void on_drained(void *userdata) {
        ((struct Fixture *) userdata)->drained++;
}

static void on_over(uint8_t status, void *userdata) {
        struct Fixture *f = userdata;
        f->over++;
        f->status = status;
}

static void on_room(void *userdata) {
        value_pipe_resume(&((struct Fixture *) userdata)->values);
}

static void start_with(struct Fixture *f, uint64_t value_max, uint64_t content_max) {
        int fds[2];

        *f = (struct Fixture) {.budget = {.most = 64 * MIB}};
        assert_ok(sd_event_new(&f->event));
        assert_ok(pipe2(fds, O_CLOEXEC));
        f->in = fds[1];
        assert_ok(set_nonblock(f->in, true));
        assert_ok(eventlog_init(&f->log, f->event, now_monotonic()));
        f->log.on_room = on_room;
        f->log.userdata = f;
        log_cursor_start(&f->cursor, &f->log, true, on_wake, f);
        value_pipe_init(&f->values, &f->log, &f->budget, value_max, content_max);
        f->values.on_drained = on_drained;
        f->values.on_over = on_over;
        f->values.userdata = f;
        assert_ok(value_pipe_start(&f->values, f->event, fds[0]));
}

static void start(struct Fixture *f) {
        start_with(f, VALUE_MAX, CONTENT_MAX);
}

static void stop(struct Fixture *f) {
        f->in = close_fd(f->in);
        value_pipe_done(&f->values);
        assert_int_equal(f->budget.used, 0);
        assert_int_equal(f->values.fd, -EBADF);
        value_pipe_done(&f->values); /* twice is once */
        log_cursor_stop(&f->cursor);
        eventlog_done(&f->log);
        sd_event_unref(f->event);
}

static void run(struct Fixture *f) {
        while (sd_event_run(f->event, 0) > 0)
                ;
}

static void drain(struct Fixture *f) {
        value_pipe_drain(&f->values, false);
        run(f);
}

/* All of it, however small the pipe; whoever fills the log has to read it. */
static void send_raw(struct Fixture *f, const void *bytes, size_t size) {
        for (const uint8_t *p = bytes; size > 0;) {
                ssize_t n = write(f->in, p, size);
                if (n < 0 && errno == EPIPE)
                        return;
                if (n < 0 && f->values.waiting)
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

static bool is_open(const struct Fixture *f) {
        return f->values.fd >= 0;
}

static void send_pieces(struct Fixture *f, uint32_t type, const uint8_t *bytes, size_t size) {
        for (size_t at = 0; at < size; at += VALUE_PIECE_MAX)
                send(f, type, bytes + at, MIN(size - at, (size_t) VALUE_PIECE_MAX));
}

static void expect_fault(struct Fixture *f, unsigned error, const char *words) {
        const struct Value *v = &f->values.value;
        assert_int_equal(v->kind, VALUE_KIND_ERROR);
        assert_int_equal(v->error, error);
        assert_null(v->json);
        if (!strstr(v->message, words))
                fail_msg("'%s' does not say '%s'", v->message, words);
}

static void a_value(void **state) {
        struct Fixture f;

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, VALUE_JSON, "{\"a\": [1, ");
        SEND(&f, VALUE_JSON, "2]}");
        assert_int_equal(f.values.value.kind, VALUE_KIND_NONE);
        SEND(&f, VALUE_END, "\1");
        assert_int_equal(f.values.value.kind, VALUE_KIND_JSON);
        assert_string_equal(f.values.value.json, "{\"a\": [1, 2]}");
        assert_int_equal(f.values.value.size, 13);
        assert_true(f.values.value.lossy);
        /* The last whole one counts, and half a one does not. */
        SEND(&f, VALUE_JSON, "3");
        SEND(&f, VALUE_END, "\0");
        SEND(&f, VALUE_JSON, "[4");
        drain(&f);
        assert_int_equal(f.drained, 1);
        assert_string_equal(f.values.value.json, "3");
        assert_false(f.values.value.lossy);
        assert_int_equal(f.values.limits_hit, 0);
        stop(&f);
}

static void what_is_no_json(void **state) {
        struct Fixture f;

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, VALUE_JSON, "[1,]");
        SEND(&f, VALUE_JSON, "2");
        SEND(&f, VALUE_END, "\0");
        expect_fault(&f, 1, "at byte 3");
        SEND(&f, VALUE_JSON, "[1");
        SEND(&f, VALUE_END, "\0");
        expect_fault(&f, 1, "ends before it is whole");
        SEND(&f, VALUE_END, "\0");
        expect_fault(&f, 1, "is empty");
        SEND(&f, VALUE_JSON, "");
        SEND(&f, VALUE_END, "\0");
        expect_fault(&f, 1, "is empty");
        SEND(&f, VALUE_JSON, "\"\xff\"");
        SEND(&f, VALUE_END, "\0");
        expect_fault(&f, 1, "UTF-8");
        assert_string_equal(f.values.value.path, "$");
        /* None of it spoils the next. */
        SEND(&f, VALUE_JSON, "1");
        SEND(&f, VALUE_END, "\0");
        assert_string_equal(f.values.value.json, "1");
        stop(&f);
}

static void the_cap_of_a_value_is_exact(void **state) {
        struct Fixture f;
        uint8_t *text = malloc(VALUE_MAX + 1);

        assert_non_null(text);
        memset(text, ' ', VALUE_MAX + 1);
        text[0] = '1';
        start(&f);
        SEND(&f, VALUE_STARTED, "");
        send_pieces(&f, VALUE_JSON, text, VALUE_MAX);
        SEND(&f, VALUE_END, "\0");
        assert_int_equal(f.values.value.kind, VALUE_KIND_JSON);
        assert_int_equal(f.values.value.size, VALUE_MAX);
        assert_int_equal(f.values.limits_hit, 0);
        send_pieces(&f, VALUE_JSON, text, VALUE_MAX + 1);
        assert_true(f.budget.used <= VALUE_MAX + 1); /* what is too large is let go at once */
        SEND(&f, VALUE_END, "\0");
        expect_fault(&f, 2, "1048577 bytes as JSON; limits.value_bytes allows 1048576");
        assert_int_equal(f.values.limits_hit, 1u << LIMIT_HIT_VALUE);
        assert_int_equal(f.budget.used, 0);
        stop(&f);
        free(text);
}

/* A value that is whole takes its bytes until its execution has ended: a program may end long after. */
static void the_budget_counts_what_is_kept(void **state) {
        struct Fixture f;
        static uint8_t text[100 * KIB];

        memset(text, ' ', sizeof text);
        text[0] = '1';
        start(&f);
        SEND(&f, VALUE_STARTED, "");
        send_pieces(&f, VALUE_JSON, text, sizeof text);
        assert_true(f.budget.used > sizeof text);
        SEND(&f, VALUE_END, "\0");
        assert_int_equal(f.budget.used, sizeof text + 1);
        send_pieces(&f, VALUE_JSON, text, sizeof text);
        assert_true(f.budget.used > 2 * sizeof text);
        SEND(&f, VALUE_JSON, "x");
        assert_int_equal(f.budget.used, sizeof text + 1);
        SEND(&f, VALUE_END, "\0");
        assert_int_equal(f.budget.used, 0);
        SEND(&f, VALUE_JSON, "1");
        SEND(&f, VALUE_END, "\0");
        assert_int_equal(f.budget.used, 2);
        SEND(&f, VALUE_ERROR, "\1$\0no");
        assert_int_equal(f.budget.used, 0);
        stop(&f);
}

static void a_budget_that_is_used_up(void **state) {
        struct Fixture f;
        static uint8_t text[100 * KIB];

        memset(text, ' ', sizeof text);
        text[0] = '1';
        start(&f);
        f.budget = (struct ValueBudget) {.used = 10000, .most = 110000}; /* another one's */
        SEND(&f, VALUE_STARTED, "");
        send_pieces(&f, VALUE_JSON, text, sizeof text);
        assert_int_equal(f.budget.used, 10000);
        SEND(&f, VALUE_END, "\0");
        expect_fault(&f, 2, "no memory for a value of 102400 bytes now");
        send_pieces(&f, VALUE_JSON, text, 90000);
        SEND(&f, VALUE_END, "\0");
        assert_int_equal(f.values.value.kind, VALUE_KIND_JSON);
        assert_int_equal(f.budget.used, 10000 + 90001);
        f.budget.used -= 10000;
        stop(&f);
}

static void a_fault_of_the_runner(void **state) {
        struct Fixture f;

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, VALUE_JSON, "[1");
        SEND(&f, VALUE_ERROR, "\4$.a[3]\0refers to \xff itself\0.");
        expect_fault(&f, 4, "refers to \xef\xbf\xbd itself\xef\xbf\xbd.");
        assert_string_equal(f.values.value.path, "$.a[3]");
        assert_int_equal(f.values.limits_hit, 0);
        SEND(&f, VALUE_ERROR, "\2$\0too large");
        assert_int_equal(f.values.limits_hit, 1u << LIMIT_HIT_VALUE);
        /* A message may name what the program named, however long. */
        uint8_t longest[1 + VALUE_PATH_MAX + 1 + ERROR_MESSAGE_MAX + 1];
        memset(longest, 0xff, sizeof longest);
        longest[0] = 1;
        longest[1 + VALUE_PATH_MAX] = 0;
        send(&f, VALUE_ERROR, longest, sizeof longest - 1);
        assert_in_range(strlen(f.values.value.path), VALUE_PATH_MAX - 2, VALUE_PATH_MAX);
        assert_in_range(strlen(f.values.value.message), VALUE_NOTE_MAX - 2, VALUE_NOTE_MAX);
        /* The half value is gone. */
        SEND(&f, VALUE_JSON, "1");
        SEND(&f, VALUE_END, "\0");
        assert_string_equal(f.values.value.json, "1");
        stop(&f);
}

static void an_error(void **state) {
        struct Fixture f;

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, ERROR_TYPE, "KeyError");
        SEND(&f, ERROR_TYPE, "ValueError"); /* a later text replaces an earlier */
        SEND(&f, ERROR_MESSAGE, "caf\xe9");
        SEND(&f, ERROR_POSITION, "\3\0\0\0\7\1\0\0\1");
        assert_false(f.values.error.set);
        SEND(&f, ERROR_END, "");
        const struct CodeError *e = &f.values.error;
        assert_true(e->set && e->truncated && !e->incomplete);
        assert_string_equal(e->texts[ERROR_TEXT_TYPE], "ValueError");
        assert_string_equal(e->texts[ERROR_TEXT_MESSAGE], "caf\xef\xbf\xbd");
        assert_null(e->texts[ERROR_TEXT_HINT]);
        assert_int_equal(e->line, 3);
        assert_int_equal(e->column, 263);
        /* Nothing of the first is in the second; half a third does not count. */
        SEND(&f, ERROR_HINT, "hint");
        SEND(&f, ERROR_END, "");
        SEND(&f, ERROR_TYPE, "Half");
        assert_null(e->texts[ERROR_TEXT_TYPE]);
        assert_int_equal(e->line, 0);
        assert_string_equal(e->texts[ERROR_TEXT_HINT], "hint");
        stop(&f);
}

/* Bytes that are no UTF-8 grow when they are mended; the bound holds all the same. */
static void texts_are_bounded(void **state) {
        static uint8_t bytes[ERROR_TRACEBACK_MAX + 1];
        struct Fixture f;

        memset(bytes, 0xff, sizeof bytes);
        start(&f);
        SEND(&f, VALUE_STARTED, "");
        send(&f, ERROR_TRACEBACK, bytes, ERROR_TRACEBACK_MAX);
        send(&f, ERROR_MESSAGE, bytes, ERROR_MESSAGE_MAX);
        SEND(&f, ERROR_END, "");
        const struct CodeError *e = &f.values.error;
        assert_in_range(strlen(e->texts[ERROR_TEXT_TRACEBACK]), ERROR_TRACEBACK_MAX - 2, ERROR_TRACEBACK_MAX);
        assert_in_range(strlen(e->texts[ERROR_TEXT_MESSAGE]), ERROR_MESSAGE_MAX - 2, ERROR_MESSAGE_MAX);
        assert_true(utf8_is_valid(e->texts[ERROR_TEXT_TRACEBACK], strlen(e->texts[ERROR_TEXT_TRACEBACK])));
        assert_true(e->truncated);
        send(&f, ERROR_TRACEBACK, bytes, ERROR_TRACEBACK_MAX + 1);
        assert_false(is_open(&f));
        assert_true(f.values.error.set); /* what came before counts */
        stop(&f);
}

static void invalid_code(void **state) {
        struct Fixture f;

        start(&f);
        SEND(&f, ERROR_TYPE, "SyntaxError");
        SEND(&f, VALUE_INVALID, "\1");
        assert_true(f.values.invalid && f.values.incomplete && f.values.error.set && f.values.error.incomplete);
        assert_string_equal(f.values.error.texts[ERROR_TEXT_TYPE], "SyntaxError");
        SEND(&f, VALUE_STARTED, "");
        assert_false(is_open(&f));
        assert_false(f.values.started);
        stop(&f);
}

/* Whoever runs cannot take it back. */
static void nothing_is_invalid_once_it_runs(void **state) {
        struct Fixture f;

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, VALUE_INVALID, "\0");
        assert_false(is_open(&f));
        assert_false(f.values.invalid);
        drain(&f);
        assert_int_equal(f.drained, 1);
        stop(&f);
}

static void what_is_out_of_its_place_ends_it(void **state) {
        static const struct {
                bool started, display;
                uint32_t type;
                const char *bytes;
                size_t size;
        } cases[] = {
                {false, false, VALUE_JSON, "1", 1},         {false, false, VALUE_END, "\0", 1},   {false, false, DISPLAY, "a\0a/b\0", 6},
                {false, false, VALUE_NOTE, "x", 1},         {false, false, ERROR_END, "", 0},     {true, false, DISPLAY_DATA, "x", 1},
                {true, false, DISPLAY_END, "", 0},          {true, false, 0, "", 0},              {true, false, VALUE_RECORD_MAX_, "", 0},
                {true, false, VALUE_ERROR, "\0$\0x", 4},    {true, false, VALUE_ERROR, "\5$\0x", 4}, {true, false, VALUE_ERROR, "\1$x", 3},
                {true, false, DISPLAY, "a\0a/b", 5},        {true, false, DISPLAY, "a\0a/b\0\0", 7}, {true, false, DISPLAY, "a", 1},
                {true, true, VALUE_JSON, "1", 1},           {true, true, VALUE_NOTE, "x", 1},     {true, true, DISPLAY, "a\0a/b\0", 6},
                {true, true, ERROR_TYPE, "x", 1},           {true, true, VALUE_STARTED, "", 0},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct Fixture f;
                start(&f);
                if (cases[i].started)
                        SEND(&f, VALUE_STARTED, "");
                if (cases[i].display)
                        SEND(&f, DISPLAY, "d\0image/png\0");
                assert_true(is_open(&f));
                send(&f, cases[i].type, cases[i].bytes, cases[i].size);
                if (is_open(&f))
                        fail_msg("case %zu was taken", i);
                assert_int_equal(f.values.value.kind, VALUE_KIND_NONE);
                drain(&f);
                assert_int_equal(f.drained, 1);
                stop(&f);
        }
}

static void a_note(void **state) {
        struct Fixture f;

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, VALUE_NOTE, "first");
        SEND(&f, VALUE_NOTE, "main was not called: \xff");
        assert_string_equal(f.values.note, "main was not called: \xef\xbf\xbd");
        stop(&f);
}

/* Reads what is in the log: how many displays, and the pieces of one content joined. */
struct Seen {
        unsigned displays, pieces, last;
        size_t size, most;
        char mime_type[64], metadata[64], content_id[CONTENT_ID_MAX];
};

static void look(struct Fixture *f, struct Seen *s) {
        struct Event e;
        while (log_cursor_next(&f->cursor, &e) > 0) {
                if (e.kind == EVENT_DISPLAY) {
                        s->displays++;
                        s->size += e.display.size;
                        (void) snprintf(s->mime_type, sizeof s->mime_type, "%s", e.display.mime_type);
                        (void) snprintf(s->metadata, sizeof s->metadata, "%s", e.display.metadata);
                        (void) snprintf(s->content_id, sizeof s->content_id, "%s", e.display.content_id);
                } else if (e.kind == EVENT_CONTENT) {
                        assert_string_equal(e.content.id, s->content_id);
                        assert_int_equal(e.content.offset, s->size);
                        s->pieces++;
                        s->last += e.content.last;
                        s->size += e.content.size;
                        s->most = MAX(s->most, e.content.size);
                }
        }
}

static void displays(void **state) {
        struct Fixture f;
        struct Seen s = {};

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "fig-1\0image/svg+xml\0{\"width\": 3}");
        SEND(&f, DISPLAY_DATA, "<svg");
        SEND(&f, DISPLAY_DATA, "/>");
        look(&f, &s);
        assert_int_equal(s.displays, 0);
        SEND(&f, DISPLAY_END, "");
        look(&f, &s);
        assert_int_equal(s.displays, 1);
        assert_int_equal(s.size, 6);
        assert_string_equal(s.mime_type, "image/svg+xml");
        assert_string_equal(s.metadata, "{\"width\": 3}");
        assert_string_equal(s.content_id, "");
        /* Metadata that is no object is left out; a display may be empty. */
        SEND(&f, DISPLAY, "fig-2\0text/plain\0[1]");
        SEND(&f, DISPLAY_END, "");
        look(&f, &s);
        assert_int_equal(s.displays, 2);
        assert_string_equal(s.metadata, "");
        /* Half a one is never seen. */
        SEND(&f, DISPLAY, "fig-3\0text/plain\0");
        SEND(&f, DISPLAY_DATA, "x");
        drain(&f);
        look(&f, &s);
        assert_int_equal(s.displays, 2);
        stop(&f);
}

/* Ids and types are the program's own: what is odd about them may cost a display, and never the value behind it. */
static void heads_that_programs_choose(void **state) {
        static const struct {
                const char *head;
                size_t size;
                const char *id, *type; /* NULL: not shown */
        } cases[] = {
                {"my f\xc3\xbcg\0text/html; charset=utf-8\0", 33, "my f\xc3\xbcg", "text/html"},
                {"\0a/b\0", 5, "", "a/b"},
                {"a\n\x7f\0a/b;c\0", 10, "a??", "a/b"},
                {"\xff\xc3\xbc\0a/b\0", 8, "???", "a/b"},
                {"a\0plain\0", 8, NULL, NULL},
                {"a\0/b\0", 5, NULL, NULL},
                {"a\0a/\0", 5, NULL, NULL},
                {"a\0a/b/c\0", 8, NULL, NULL},
                {"a\0a/\xc3\xbc\0", 7, NULL, NULL},
                {"a\0\0", 3, NULL, NULL},
        };
        uint8_t long_head[2000];
        struct Fixture f;
        struct Event e;

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                send(&f, DISPLAY, cases[i].head, cases[i].size);
                SEND(&f, DISPLAY_DATA, "x");
                SEND(&f, DISPLAY_END, "");
                assert_int_equal(log_cursor_next(&f.cursor, &e), cases[i].id != NULL);
                if (!cases[i].id)
                        continue;
                assert_string_equal(e.display.id, cases[i].id);
                assert_string_equal(e.display.mime_type, cases[i].type);
                assert_int_equal(e.display.size, 1);
        }
        /* The longest id, cut between characters; and the longest type. */
        for (size_t longest = 127; longest <= 128; longest++) {
                size_t n = 0;
                for (; n < 1000; n += 2)
                        memcpy(long_head + n, "\xc3\xbc", 2);
                n = 1001;
                long_head[1000] = 0;
                memset(long_head + n, 'a', longest);
                long_head[n + 5] = '/';
                n += longest;
                long_head[n++] = 0;
                send(&f, DISPLAY, long_head, n);
                SEND(&f, DISPLAY_END, "");
                assert_int_equal(log_cursor_next(&f.cursor, &e), longest == 127);
                if (longest == 127)
                        assert_int_equal(strlen(e.display.id), 64);
        }
        assert_int_equal(f.values.limits_hit, 0);
        SEND(&f, VALUE_JSON, "1");
        SEND(&f, VALUE_END, "\0");
        assert_int_equal(f.values.value.kind, VALUE_KIND_JSON);
        stop(&f);
}

static void send_large(struct Fixture *f, size_t size) {
        static const uint8_t bytes[VALUE_PIECE_MAX];
        for (size_t n; size > 0; size -= n) {
                n = MIN(size, sizeof bytes);
                send(f, DISPLAY_DATA, bytes, n);
        }
}

/* Up to 512 KiB in one, above in pieces; and one that is cut off ends where it was. */
static void large_displays_come_in_pieces(void **state) {
        struct Fixture f;
        struct Seen s = {};

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "a\0image/png\0");
        send_large(&f, CONTENT_WHOLE_MAX);
        SEND(&f, DISPLAY_END, "");
        look(&f, &s);
        assert_int_equal(s.displays, 1);
        assert_int_equal(s.pieces, 0);
        assert_int_equal(s.size, CONTENT_WHOLE_MAX);
        for (int cut = 0; cut < 2; cut++) {
                s = (struct Seen) {};
                SEND(&f, DISPLAY, "b\0image/png\0");
                send_large(&f, CONTENT_WHOLE_MAX + 1);
                look(&f, &s);
                send_large(&f, 1000);
                assert_int_equal(s.displays, 1);
                assert_string_equal(s.content_id, cut ? "display-3" : "display-2");
                assert_int_equal(s.last, 0);
                if (cut)
                        drain(&f);
                else
                        SEND(&f, DISPLAY_END, "");
                look(&f, &s);
                assert_int_equal(s.last, 1);
                assert_int_equal(s.size, CONTENT_WHOLE_MAX + 1001);
                assert_true(s.most <= CONTENT_PIECE);
        }
        stop(&f);
}

static void displays_are_bounded(void **state) {
        struct Fixture f;
        struct Seen s = {};

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        for (int i = 0; i < VALUE_DISPLAYS_MAX + 2; i++) {
                SEND(&f, DISPLAY, "a\0text/plain\0");
                SEND(&f, DISPLAY_DATA, "x");
                assert_int_equal(f.values.limits_hit, i < VALUE_DISPLAYS_MAX ? 0 : 1u << LIMIT_HIT_CONTENT);
                SEND(&f, DISPLAY_END, "");
                look(&f, &s);
        }
        assert_int_equal(s.displays, VALUE_DISPLAYS_MAX);
        /* A value still comes. */
        SEND(&f, VALUE_JSON, "1");
        SEND(&f, VALUE_END, "\0");
        assert_int_equal(f.values.value.kind, VALUE_KIND_JSON);
        stop(&f);
}

static void the_cap_of_content_is_exact(void **state) {
        struct Fixture f;
        struct Seen s = {};

        start_with(&f, VALUE_MAX, 100);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "a\0text/plain\0{}"); /* metadata counts, too */
        send_large(&f, 98);
        SEND(&f, DISPLAY_END, "");
        look(&f, &s);
        assert_int_equal(s.size, 98);
        assert_int_equal(f.values.content_used, 100);
        assert_int_equal(f.values.limits_hit, 0);
        SEND(&f, DISPLAY, "a\0text/plain\0");
        SEND(&f, DISPLAY_END, "");
        assert_int_equal(f.values.limits_hit, 0);
        SEND(&f, DISPLAY, "a\0text/plain\0");
        SEND(&f, DISPLAY_DATA, "x");
        SEND(&f, DISPLAY_END, "");
        look(&f, &s);
        assert_int_equal(s.displays, 2);
        assert_int_equal(f.values.limits_hit, 1u << LIMIT_HIT_CONTENT);
        stop(&f);
        /* What was sent in pieces already ends there, with a last piece. */
        s = (struct Seen) {};
        start_with(&f, VALUE_MAX, 700 * KIB);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "a\0text/plain\0");
        send_large(&f, 600 * KIB);
        look(&f, &s);
        send_large(&f, 90 * KIB);
        assert_int_equal(f.values.limits_hit, 0);
        send_large(&f, 90 * KIB);
        assert_int_equal(f.values.limits_hit, 1u << LIMIT_HIT_CONTENT);
        SEND(&f, DISPLAY_END, "");
        look(&f, &s);
        assert_int_equal(s.last, 1);
        assert_int_equal(s.size, f.values.content_used);
        assert_in_range(s.size, 600 * KIB, 700 * KIB);
        stop(&f);
}

static void what_a_runner_leaves_out_is_told(void **state) {
        struct Fixture f;
        struct Seen s = {};

        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "a\0image/png\0");
        SEND(&f, DISPLAY_END, "\0");
        assert_int_equal(f.values.limits_hit, 0);
        SEND(&f, DISPLAY, "b\0image/png\0");
        SEND(&f, DISPLAY_END, "\1");
        assert_int_equal(f.values.limits_hit, 1u << LIMIT_HIT_CONTENT);
        look(&f, &s);
        assert_int_equal(s.displays, 1);
        stop(&f);
        /* Of what was sent in pieces the last one comes. */
        s = (struct Seen) {};
        start_with(&f, VALUE_MAX, 2 * MIB);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "a\0image/png\0");
        send_large(&f, 600 * KIB);
        look(&f, &s);
        SEND(&f, DISPLAY_END, "\1");
        look(&f, &s);
        assert_int_equal(s.last, 1);
        stop(&f);
}

static void metadata_is_bounded(void **state) {
        static uint8_t head[VALUE_DISPLAY_HEAD_MAX];
        struct Fixture f;
        struct Seen s = {};

        memset(head, ' ', sizeof head);
        memcpy(head, "a\0text/plain\0{", 14);
        head[sizeof head - 1] = '}';
        start_with(&f, VALUE_MAX, 3 * sizeof head);
        SEND(&f, VALUE_STARTED, "");
        for (int i = 0; i < 5; i++) {
                send(&f, DISPLAY, head, sizeof head);
                SEND(&f, DISPLAY_END, "");
                look(&f, &s);
        }
        assert_int_equal(s.displays, 3);
        assert_int_equal(f.values.limits_hit, 1u << LIMIT_HIT_CONTENT);
        stop(&f);
}

/* Whoever reads slowly holds the program back and costs a fixed amount; draining waits for them and loses nothing. */
static void a_slow_reader_holds_the_pipe(void **state) {
        static uint8_t record[JOB_HEADER_SIZE + VALUE_PIECE_MAX];
        struct Fixture f;
        struct Seen s = {};
        size_t sent = 0;

        start_with(&f, VALUE_MAX, 64 * MIB);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "a\0image/png\0");
        job_put_header(record, DISPLAY_DATA, VALUE_PIECE_MAX);
        for (size_t at = 0;; run(&f)) {
                ssize_t n = write(f.in, record + at, sizeof record - at);
                if (n < 0 && f.values.waiting)
                        break;
                if (n > 0)
                        at = (at + (size_t) n) % sizeof record;
                sent += n > 0 ? (size_t) n : 0;
        }
        assert_true(f.log.charged <= OUTPUT_HELD + CONTENT_WHOLE_MAX + 3 * VALUE_PIECE_MAX);
        drain(&f);
        assert_int_equal(f.drained, 0);
        while (f.drained == 0) {
                look(&f, &s);
                run(&f);
        }
        look(&f, &s);
        assert_int_equal(s.last, 1);
        assert_true(s.size > sent - 2 * sizeof record - (sent / sizeof record + 1) * JOB_HEADER_SIZE);
        stop(&f);
}

/* The reader leaves while the pipe waits for it. */
static void the_reader_goes(void **state) {
        struct Fixture f;

        start_with(&f, VALUE_MAX, 64 * MIB);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, DISPLAY, "a\0image/png\0");
        while (!f.values.waiting)
                send_large(&f, 1000);
        log_cursor_stop(&f.cursor);
        assert_false(f.values.waiting);
        send_large(&f, 1 * MIB);
        assert_true(f.log.charged <= OUTPUT_HELD + CONTENT_PIECE + KIB);
        SEND(&f, DISPLAY_END, "");
        SEND(&f, VALUE_JSON, "1");
        SEND(&f, VALUE_END, "\0");
        drain(&f);
        assert_int_equal(f.drained, 1);
        assert_string_equal(f.values.value.json, "1");
        stop(&f);
}

/* Bytes that lead nowhere are bounded, too. */
static void a_flood_ends(void **state) {
        static uint8_t text[ERROR_MESSAGE_MAX];
        struct Fixture f;
        size_t n = 0;

        start_with(&f, 1, 1);
        SEND(&f, VALUE_STARTED, "");
        memset(text, 'a', sizeof text);
        for (; is_open(&f) && n < 2000; n++)
                send(&f, ERROR_MESSAGE, text, sizeof text);
        assert_in_range(n, 900, 1100);
        stop(&f);
}

/* The last record, only of a program that has begun, and nothing once another end came first. */
static void a_program_that_is_over(void **state) {
        for (int way = 0; way < 3; way++) {
                struct Fixture f;
                start(&f);
                if (way > 0)
                        SEND(&f, VALUE_STARTED, "");
                if (way > 1)
                        value_pipe_drain(&f.values, false);
                SEND(&f, VALUE_OVER, "\x78");
                assert_int_equal(f.over, way == 1);
                assert_int_equal(f.status, way == 1 ? 120 : 0);
                SEND(&f, VALUE_OVER, "\0");
                assert_false(is_open(&f));
                assert_int_equal(f.over, way == 1);
                stop(&f);
        }
}

/* There is no such pipe, and one that is given up in the middle of everything. */
static void ends_of_all_kinds(void **state) {
        struct Fixture f;

        start(&f);
        value_pipe_done(&f.values);
        value_pipe_init(&f.values, &f.log, &f.budget, VALUE_MAX, CONTENT_MAX);
        f.values.on_drained = on_drained;
        f.values.userdata = &f;
        assert_ok(value_pipe_start(&f.values, f.event, -EBADF));
        drain(&f);
        assert_int_equal(f.drained, 1);
        stop(&f);
        start(&f);
        SEND(&f, VALUE_STARTED, "");
        SEND(&f, ERROR_TYPE, "half");
        SEND(&f, VALUE_JSON, "[");
        SEND(&f, DISPLAY, "a\0image/png\0");
        send_large(&f, CONTENT_WHOLE_MAX + 1);
        stop(&f);
        struct ValuePipe never = {};
        value_pipe_done(&never);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                T(a_value), T(what_is_no_json), T(the_cap_of_a_value_is_exact), T(the_budget_counts_what_is_kept), T(a_budget_that_is_used_up),
                T(a_fault_of_the_runner), T(an_error), T(texts_are_bounded), T(invalid_code), T(nothing_is_invalid_once_it_runs),
                T(what_is_out_of_its_place_ends_it), T(a_note), T(displays), T(ends_of_all_kinds),
                T(heads_that_programs_choose), T(large_displays_come_in_pieces), T(displays_are_bounded),
                T(the_cap_of_content_is_exact), T(what_a_runner_leaves_out_is_told),
                T(metadata_is_bounded), T(a_slow_reader_holds_the_pipe), T(the_reader_goes), T(a_flood_ends), T(a_program_that_is_over),
        };
        (void) signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
