/* server/stream/eventlog.c */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "server/stream/eventlog.h"

struct Fixture {
        sd_event *event;
        struct EventLog log;
        struct LogCursor cursor;
        unsigned wakes, rooms;
};

static void on_wake(void *userdata) {
        ((struct Fixture *) userdata)->wakes++;
}

static void on_room(void *userdata) {
        ((struct Fixture *) userdata)->rooms++;
}

static void start(struct Fixture *f) {
        *f = (struct Fixture) {};
        assert_true(sd_event_new(&f->event) >= 0);
        assert_true(eventlog_init(&f->log, f->event, now_monotonic()) >= 0);
        f->log.on_room = on_room;
        f->log.userdata = f;
}

static void stop(struct Fixture *f) {
        log_cursor_stop(&f->cursor);
        eventlog_done(&f->log);
        sd_event_unref(f->event);
}

static void add(struct Fixture *f, enum Stream s, const char *text) {
        assert_int_equal(eventlog_add_output(&f->log, s, (const uint8_t *) text, strlen(text)), 0);
}

static void add_plain(struct Fixture *f, enum EventKind kind, bool complete) {
        struct Event e = { .kind = kind };
        assert_int_equal(eventlog_add(&f->log, &e, complete), 0);
}

static void expect_output(struct Fixture *f, enum Stream s, uint64_t offset, const char *text) {
        struct Event e;
        assert_int_equal(log_cursor_next(&f->cursor, &e), 1);
        assert_int_equal(e.kind, EVENT_OUTPUT);
        assert_int_equal(e.output.stream, s);
        assert_int_equal(e.output.offset, offset);
        assert_int_equal(e.output.size, strlen(text));
        assert_memory_equal(e.output.data, text, strlen(text));
}

/* The first write is delivered at once; what follows within 10 ms is gathered into one. */
static void small_writes_are_gathered(void **state) {
        struct Fixture f;
        struct Event e;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        add(&f, STREAM_STDOUT, "a");
        expect_output(&f, STREAM_STDOUT, 0, "a");
        add(&f, STREAM_STDOUT, "b");
        add(&f, STREAM_STDOUT, "c");
        assert_int_equal(log_cursor_next(&f.cursor, &e), 0);
        assert_true(sd_event_run(f.event, USEC_PER_SEC) >= 0); /* the timer */
        assert_true(sd_event_run(f.event, 0) >= 0);            /* the wake */
        assert_int_equal(f.wakes, 1);
        expect_output(&f, STREAM_STDOUT, 1, "bc");
        stop(&f);
}

static void streams_keep_their_order(void **state) {
        struct Fixture f;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        add(&f, STREAM_STDOUT, "1");
        add(&f, STREAM_STDERR, "2");
        add(&f, STREAM_STDOUT, "3");
        eventlog_seal(&f.log);
        expect_output(&f, STREAM_STDOUT, 0, "1");
        expect_output(&f, STREAM_STDERR, 0, "2");
        expect_output(&f, STREAM_STDOUT, 1, "3");
        stop(&f);
}

static void the_lead_holds_the_log_back(void **state) {
        static uint8_t block[OUTPUT_RECORD_MAX];
        struct Fixture f;
        struct Event e;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        size_t added = 0;
        for (size_t room; (room = eventlog_room(&f.log)) > 0; added += MIN(room, sizeof block))
                assert_int_equal(eventlog_add_output(&f.log, STREAM_STDOUT, block, MIN(room, sizeof block)), 0);
        assert_in_range(added, OUTPUT_HELD / 2, OUTPUT_HELD + OUTPUT_RECORD_MAX);
        eventlog_seal(&f.log);
        uint64_t got = 0;
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_int_equal(f.rooms, 0); /* it may still be looking at it */
        while (f.rooms == 0) {
                got += e.output.size;
                assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        }
        got += e.output.size;
        assert_true(f.log.charged <= OUTPUT_HELD / 2);
        assert_true(eventlog_room(&f.log) > 0);
        while (log_cursor_next(&f.cursor, &e) > 0)
                got += e.output.size;
        assert_int_equal(got, added);
        stop(&f);
}

/* It hears of nothing but a log that fills up, and the end; one who is not patient, of everything. */
static void a_patient_cursor_sleeps(void **state) {
        static uint8_t block[OUTPUT_RECORD_MAX];
        struct Fixture f;
        struct Event e;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        f.cursor.patient = true;
        assert_int_equal(log_cursor_next(&f.cursor, &e), 0);
        add_plain(&f, EVENT_STARTED, false);
        add(&f, STREAM_STDOUT, "a");
        eventlog_seal(&f.log);
        assert_int_equal(sd_event_run(f.event, 0), 0);
        assert_int_equal(f.wakes, 0);
        while (f.log.charged < OUTPUT_HELD / 2)
                assert_int_equal(eventlog_add_output(&f.log, STREAM_STDOUT, block, sizeof block), 0);
        assert_true(eventlog_room(&f.log) > 0);
        assert_true(sd_event_run(f.event, 0) > 0);
        assert_int_equal(f.wakes, 1);
        while (log_cursor_next(&f.cursor, &e) > 0)
                ;
        add_plain(&f, EVENT_RESULT, true);
        assert_true(sd_event_run(f.event, 0) > 0);
        assert_int_equal(f.wakes, 2);
        while (log_cursor_next(&f.cursor, &e) > 0)
                ;
        stop(&f);
}

static void whoever_ends_a_wait_wakes_the_patient_too(void **state) {
        struct Fixture f;
        struct Event e;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        f.cursor.patient = true;
        assert_int_equal(log_cursor_next(&f.cursor, &e), 0);
        eventlog_wake(&f.log);
        assert_true(sd_event_run(f.event, 0) > 0);
        assert_int_equal(f.wakes, 1);
        stop(&f);
}

/* Nobody holds it: the oldest goes, and the late reader is told what it missed. */
static void a_ring_leaves_a_gap(void **state) {
        static uint8_t block[OUTPUT_RECORD_MAX];
        struct Fixture f;
        struct Event e;

        start(&f);
        add_plain(&f, EVENT_ACCEPTED, false);
        log_cursor_start(&f.cursor, &f.log, false, on_wake, &f);
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        for (int i = 0; i < 20; i++)
                assert_int_equal(eventlog_add_output(&f.log, STREAM_STDOUT, block, sizeof block), 0);
        assert_true(f.log.charged <= OUTPUT_HELD + sizeof block + KIB);
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_int_equal(e.kind, EVENT_GAP);
        assert_int_equal(e.gap.from, 0);
        uint64_t to = e.gap.to, seq = e.seq;
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_int_equal(e.kind, EVENT_OUTPUT);
        assert_int_equal(e.output.offset, to);
        assert_int_equal(e.seq, seq + 1);
        add_plain(&f, EVENT_RESULT, true);
        uint64_t end = 0;
        while (log_cursor_next(&f.cursor, &e) > 0)
                end = e.kind == EVENT_OUTPUT ? e.output.offset + e.output.size : end;
        assert_int_equal(end, 20 * sizeof block);
        assert_int_equal(e.kind, EVENT_RESULT);
        assert_int_equal(log_cursor_next(&f.cursor, &e), -ENODATA);
        stop(&f);
}

static void heartbeats_do_not_pile_up(void **state) {
        struct Fixture f;
        struct Event e;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        assert_true(eventlog_wants_heartbeat(&f.log));
        add_plain(&f, EVENT_HEARTBEAT, false);
        assert_false(eventlog_wants_heartbeat(&f.log));
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_true(eventlog_wants_heartbeat(&f.log));
        stop(&f);
}

static void seq_counts_from_one(void **state) {
        struct Fixture f;
        struct Event e;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        add_plain(&f, EVENT_ACCEPTED, false);
        add(&f, STREAM_STDOUT, "x");
        add_plain(&f, EVENT_RESULT, true);
        for (uint64_t i = 1; i <= 3; i++) {
                assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
                assert_int_equal(e.seq, i);
        }
        assert_int_equal(log_cursor_next(&f.cursor, &e), -ENODATA);
        stop(&f);
}

static void add_display(struct Fixture *f, const char *id, size_t size) {
        static const uint8_t block[CONTENT_WHOLE_MAX];
        char name[16], type[16] = "image/png", metadata[8] = "{}";
        struct Event e = {
                .kind = EVENT_DISPLAY,
                .display = {.id = name, .mime_type = type, .metadata = metadata, .content_id = "", .data = block, .size = size},
        };
        (void) snprintf(name, sizeof name, "%s", id);
        assert_int_equal(eventlog_add_copy(&f->log, &e), 0);
        memset(name, 'x', sizeof name - 1); /* the log has its own */
        memset(type, 'x', sizeof type - 1);
}

static void add_content(struct Fixture *f, uint64_t offset, const char *text, bool last) {
        struct Event e = {.kind = EVENT_CONTENT, .content = {"file-1", offset, (const uint8_t *) text, strlen(text), last}};
        assert_int_equal(eventlog_add_copy(&f->log, &e), 0);
}

static void copies_are_the_logs_own(void **state) {
        struct Fixture f;
        struct Event e;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        assert_int_equal(log_cursor_next(&f.cursor, &e), 0);
        add(&f, STREAM_STDOUT, "before");
        add_display(&f, "fig-1", 3);
        add_display(&f, "", 0);
        add_content(&f, 7, "abc", true);
        assert_true(sd_event_run(f.event, 0) >= 0);
        assert_int_equal(f.wakes, 1);
        expect_output(&f, STREAM_STDOUT, 0, "before"); /* in their order */
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_int_equal(e.kind, EVENT_DISPLAY);
        assert_int_equal(e.seq, 2);
        assert_string_equal(e.display.id, "fig-1");
        assert_string_equal(e.display.mime_type, "image/png");
        assert_string_equal(e.display.metadata, "{}");
        assert_string_equal(e.display.content_id, "");
        assert_int_equal(e.display.size, 3);
        assert_memory_equal(e.display.data, "\0\0\0", 3);
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_int_equal(e.display.size, 0);
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_int_equal(e.kind, EVENT_CONTENT);
        assert_string_equal(e.content.id, "file-1");
        assert_int_equal(e.content.offset, 7);
        assert_int_equal(e.content.size, 3);
        assert_memory_equal(e.content.data, "abc", 3);
        assert_true(e.content.last);
        assert_int_equal(log_cursor_next(&f.cursor, &e), 0);
        assert_int_equal(f.log.charged, 0);
        stop(&f);
}

/* What the lead has not read is charged and never goes; when it has read, nothing is left of it. */
static void copies_wait_for_the_lead(void **state) {
        struct Fixture f;
        struct Event e;
        unsigned n = 0, seen = 0;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, true, on_wake, &f);
        for (; eventlog_room(&f.log) > 0; n++) {
                size_t before = f.log.charged;
                add_display(&f, "a", 50 * KIB);
                assert_in_range(f.log.charged - before, 50 * KIB, 51 * KIB);
        }
        assert_int_equal(n, 6);
        assert_int_equal(f.rooms, 0);
        for (; log_cursor_next(&f.cursor, &e) > 0; seen++)
                assert_int_equal(e.seq, seen + 1);
        assert_int_equal(seen, n);
        assert_true(f.rooms > 0);
        assert_int_equal(f.log.charged, 0);
        stop(&f);
}

/* Nobody holds it: the oldest go, be they output or displays, and what is charged is what is there. */
static void a_ring_of_copies(void **state) {
        struct Fixture f;
        struct Event e;
        unsigned seen = 0;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, false, on_wake, &f);
        add_plain(&f, EVENT_ACCEPTED, false);
        for (int i = 0; i < 100; i++) {
                add_display(&f, "a", 10 * KIB);
                add_content(&f, 0, "x", false);
                add(&f, STREAM_STDERR, "y");
                assert_true(f.log.charged <= OUTPUT_HELD + 11 * KIB);
        }
        add_display(&f, "large", CONTENT_WHOLE_MAX); /* larger than the ring itself */
        add_plain(&f, EVENT_RESULT, true);
        assert_true(f.log.charged <= OUTPUT_HELD);
        assert_int_equal(log_cursor_next(&f.cursor, &e), 1);
        assert_int_equal(e.kind, EVENT_ACCEPTED); /* that and the result are never dropped */
        while (log_cursor_next(&f.cursor, &e) > 0)
                seen += e.kind == EVENT_DISPLAY;
        assert_in_range(seen, 0, 25);
        assert_int_equal(e.kind, EVENT_RESULT);
        eventlog_shrink(&f.log);
        assert_int_equal(f.log.charged, 0);
        stop(&f);
}

/* A large value is not copied: its pieces cost a record each, so that no reader is overtaken by them. */
static void pieces_of_a_result_take_no_room(void **state) {
        static const uint8_t value[16 * MIB];
        struct Fixture f;
        struct Event e;
        uint64_t got = 0;

        start(&f);
        log_cursor_start(&f.cursor, &f.log, false, on_wake, &f);
        for (size_t at = 0; at < sizeof value; at += 256 * KIB) {
                bool last = at + 256 * KIB == sizeof value;
                struct Event piece = {.kind = EVENT_CONTENT, .content = {VALUE_CONTENT_ID, at, value + at, 256 * KIB, last}};
                assert_int_equal(eventlog_add(&f.log, &piece, false), 0);
        }
        assert_in_range(f.log.charged, 64, 64 * KIB);
        add_plain(&f, EVENT_RESULT, true);
        while (log_cursor_next(&f.cursor, &e) > 0 && e.kind == EVENT_CONTENT) {
                assert_ptr_equal(e.content.data, value + got);
                got += e.content.size;
        }
        assert_int_equal(got, sizeof value);
        stop(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(small_writes_are_gathered), cmocka_unit_test(streams_keep_their_order),
                cmocka_unit_test(the_lead_holds_the_log_back), cmocka_unit_test(copies_are_the_logs_own),
                cmocka_unit_test(copies_wait_for_the_lead),  cmocka_unit_test(a_ring_of_copies),
                cmocka_unit_test(pieces_of_a_result_take_no_room), cmocka_unit_test(a_patient_cursor_sleeps),
                cmocka_unit_test(whoever_ends_a_wait_wakes_the_patient_too),
                cmocka_unit_test(a_ring_leaves_a_gap),       cmocka_unit_test(heartbeats_do_not_pile_up), cmocka_unit_test(seq_counts_from_one),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
