/* server/stream/records.c: records taken apart, however their bytes are cut. And server/lease/report.c, whose records are of the same kind. */
#include "tests/unit/unit.h"

#include "server/lease/report.h"
#include "server/stream/records.h"

enum { SMALL = 1, PIECES, EMPTY, GAP, TYPES };

static const struct RecordRuleOut rules[TYPES] = {
        [0] = {1, 0, false}, [SMALL] = {2, 5, false}, [PIECES] = {0, 8, true}, [EMPTY] = {0, 0, false}, [GAP] = {1, 0, false},
};

struct Seen {
        uint32_t type;
        uint8_t bytes[256];
        size_t n, calls;
        int answer;
};

/* Pieces are joined, so that all ways to cut give the same. */
static int on_record(void *userdata, uint32_t type, const uint8_t *bytes, size_t size) {
        struct Seen *s = userdata;
        if (type != PIECES)
                assert_int_equal(bytes[size], 0);
        assert_true(s->n + size + 1 < sizeof s->bytes);
        s->bytes[s->n++] = (uint8_t) type;
        if (type == PIECES)
                s->n -= s->type == PIECES;
        memcpy(s->bytes + s->n, bytes, size);
        s->n += size;
        s->type = type;
        s->calls++;
        return s->answer;
}

static struct RecordReader reader_of(struct Seen *s) {
        return (struct RecordReader) {.rules = rules, .n_rules = TYPES, .on_record = on_record, .userdata = s};
}

static size_t put(uint8_t *to, uint32_t type, const char *text) {
        job_put_header(to, type, (uint32_t) strlen(text));
        memcpy(to + JOB_HEADER_SIZE, text, strlen(text));
        return JOB_HEADER_SIZE + strlen(text);
}

static void every_way_to_cut_gives_the_same(void **state) {
        uint8_t bytes[128];
        size_t n = 0;

        n += put(bytes + n, SMALL, "ab");
        n += put(bytes + n, PIECES, "12345678");
        n += put(bytes + n, EMPTY, "");
        n += put(bytes + n, PIECES, "");
        n += put(bytes + n, SMALL, "vwxyz");
        for (size_t piece = 1; piece <= n; piece++) {
                struct Seen s = {};
                struct RecordReader r = reader_of(&s);
                for (size_t at = 0; at < n; at += piece)
                        assert_ok(record_reader_feed(&r, bytes + at, MIN(piece, n - at)));
                assert_true(record_reader_is_idle(&r));
                assert_int_equal(s.n, 19);
                assert_memory_equal(s.bytes, "\1ab\00212345678\3\1vwxyz", 19);
                record_reader_done(&r);
        }
}

static void what_has_no_rule_is_refused(void **state) {
        static const struct {
                uint32_t type, length;
        } bad[] = {{0, 0}, {0, 1}, {GAP, 0}, {GAP, 1}, {TYPES, 0}, {UINT32_MAX, 0}, {SMALL, 1}, {SMALL, 6},
                 {PIECES, 9}, {PIECES, UINT32_MAX}, {EMPTY, 1}};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct Seen s = {};
                struct RecordReader r = reader_of(&s);
                uint8_t header[JOB_HEADER_SIZE];
                job_put_header(header, bad[i].type, bad[i].length);
                assert_ok(record_reader_feed(&r, header, sizeof header - 1));
                assert_false(record_reader_is_idle(&r));
                assert_error(record_reader_feed(&r, header + sizeof header - 1, 1), EBADMSG);
                assert_int_equal(s.calls, 0);
                record_reader_done(&r);
        }
}

static void what_is_said_of_a_record_ends_it(void **state) {
        struct Seen s = {.answer = -ENOMEM};
        struct RecordReader r = reader_of(&s);
        uint8_t bytes[64];
        size_t n = put(bytes, EMPTY, "");

        n += put(bytes + n, EMPTY, "");
        assert_error(record_reader_feed(&r, bytes, n), ENOMEM);
        assert_int_equal(s.calls, 1);
        record_reader_done(&r);
        record_reader_done(&r); /* twice is once */
}

#define STAMP_RECORD (JOB_HEADER_SIZE + FILE_STAMP_SIZE)

static size_t put_stamp(uint8_t *to, uint8_t n) {
        job_put_header(to, REPORT_FILE, FILE_STAMP_SIZE);
        memset(to + JOB_HEADER_SIZE, 0, FILE_STAMP_SIZE);
        for (size_t i = 0; i < 4; i++) {
                to[JOB_HEADER_SIZE + 8 * i] = (uint8_t) (n + i);
                to[JOB_HEADER_SIZE + 8 * i + 7] = 0x80;
        }
        return STAMP_RECORD;
}

static void stamps_come_in_order(void **state) {
        uint8_t bytes[3 * STAMP_RECORD + 12];
        struct FileStamp stamps[4] = {};
        size_t n = 0, size = 0;

        for (uint8_t i = 0; i < 3; i++)
                size += put_stamp(bytes + size, (uint8_t) (10 * i));
        job_put_header(bytes + size, REPORT_FAILED, 4);
        memset(bytes + size + JOB_HEADER_SIZE, 7, 4);
        /* Half a record stays for the next time. */
        assert_int_equal(report_take_stamps(bytes, 2 * STAMP_RECORD - 1, stamps, &n, 4), STAMP_RECORD);
        assert_int_equal(n, 1);
        assert_int_equal(report_take_stamps(bytes + STAMP_RECORD, sizeof bytes - STAMP_RECORD, stamps, &n, 4), 2 * STAMP_RECORD);
        assert_int_equal(n, 3);
        for (size_t i = 0; i < 3; i++) {
                assert_true(stamps[i].inode == (10 * i | 1ull << 63) && stamps[i].size == ((10 * i + 1) | 1ull << 63));
                assert_true(stamps[i].mtime == ((10 * i + 2) | 1ull << 63) && stamps[i].ctime == ((10 * i + 3) | 1ull << 63));
        }
        struct Report report;
        assert_int_equal(report_parse(bytes + 3 * STAMP_RECORD, 12, &report), 1);
}

/* No more than files were sent, whatever comes; and what is no stamp is left where it is. */
static void stamps_are_bounded(void **state) {
        uint8_t bytes[3 * STAMP_RECORD];
        struct FileStamp stamps[2] = {};
        size_t n = 0, size = 0;
        struct Report report;

        for (uint8_t i = 0; i < 3; i++)
                size += put_stamp(bytes + size, i);
        assert_int_equal(report_take_stamps(bytes, size, stamps, &n, 0), 0);
        assert_int_equal(report_take_stamps(bytes, size, stamps, &n, 2), 2 * STAMP_RECORD);
        assert_int_equal(n, 2);
        assert_int_equal(report_take_stamps(bytes, size, stamps, &n, 2), 0);
        assert_error(report_parse(bytes, STAMP_RECORD, &report), EBADMSG);
        n = 0;
        job_put_header(bytes, REPORT_FILE, FILE_STAMP_SIZE - 1);
        assert_int_equal(report_take_stamps(bytes, size, stamps, &n, 2), 0);
        job_put_header(bytes, REPORT_FILE, FILE_STAMP_SIZE + 1);
        assert_int_equal(report_take_stamps(bytes, size, stamps, &n, 2), 0);
        job_put_header(bytes, REPORT_TYPE_MAX_, FILE_STAMP_SIZE);
        assert_int_equal(report_take_stamps(bytes, size, stamps, &n, 2), 0);
        assert_int_equal(report_take_stamps(bytes, 0, stamps, &n, 2), 0);
        assert_int_equal(n, 0);
}

RUN(T(every_way_to_cut_gives_the_same), T(what_has_no_rule_is_refused), T(what_is_said_of_a_record_ends_it), T(stamps_come_in_order),
    T(stamps_are_bounded))
