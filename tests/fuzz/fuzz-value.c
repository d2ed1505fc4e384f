/* The value pipe, through a real pipe and a real log: whatever comes, order and bounds hold, a value that counts is JSON to another parser, too,
 * and nothing is left of the budget. The first two bytes choose the limits and the reader; then come bytes as they are, or words of
 * four bytes that each make a long record. */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>

#include "server/stream/value.h"

#define BUDGET (1 * MIB)
#define OTHERS 1000 /* of the budget, another execution's */

struct Look {
        struct ValuePipe *values;
        struct LogCursor cursor;
        bool slow, drained, over;
        unsigned displays;
        uint64_t content; /* bytes of displays and of their metadata */
        char open[CONTENT_ID_MAX]; /* content that still lacks its last piece */
        uint64_t at;
};

static void expect(bool good) {
        if (!good)
                abort();
}

static void look_at_display(struct Look *l, const struct Event *e) {
        bool in_pieces = *e->display.content_id;

        expect(l->values->started && !*l->open && ++l->displays <= VALUE_DISPLAYS_MAX);
        expect(utf8_is_valid(e->display.id, strlen(e->display.id)) && strlen(e->display.id) <= 64);
        expect(strchr(e->display.mime_type, '/') && strlen(e->display.mime_type) <= 127);
        expect(utf8_is_valid(e->display.metadata, strlen(e->display.metadata)) && e->display.size <= CONTENT_WHOLE_MAX);
        expect(!in_pieces || e->display.size == 0);
        l->content += e->display.size + strlen(e->display.metadata);
        if (in_pieces) {
                memcpy(l->open, e->display.content_id, strlen(e->display.content_id) + 1);
                l->at = 0;
        }
}

static void look(struct Look *l) {
        struct Event e;

        while (log_cursor_next(&l->cursor, &e) > 0) {
                if (e.kind == EVENT_DISPLAY)
                        look_at_display(l, &e);
                else {
                        expect(e.kind == EVENT_CONTENT && strcmp(e.content.id, l->open) == 0 && e.content.offset == l->at);
                        expect(e.content.size <= CONTENT_PIECE);
                        l->at += e.content.size;
                        l->content += e.content.size;
                        if (e.content.last)
                                *l->open = 0;
                }
        }
        expect(l->content <= l->values->content_max);
}

static void on_wake(void *userdata) {
        struct Look *l = userdata;
        if (!l->slow)
                look(l);
}

static void on_room(void *userdata) {
        value_pipe_resume(((struct Look *) userdata)->values);
}

static void on_drained(void *userdata) {
        struct Look *l = userdata;
        expect(!l->drained && l->values->fd < 0);
        l->drained = true;
}

static void on_over(uint8_t status, void *userdata) {
        struct Look *l = userdata;
        expect(!l->drained && !l->over && l->values->started && l->values->over);
        l->over = true;
}

static void check_value(const struct ValuePipe *v) {
        const struct Value *value = &v->value;
        json_error_t error;

        if (value->kind == VALUE_KIND_ERROR)
                expect(v->started && value->error >= 1 && value->error <= 4 && utf8_is_valid(value->path, strlen(value->path)) &&
                       utf8_is_valid(value->message, strlen(value->message)) && strlen(value->path) <= VALUE_PATH_MAX && *value->message + 1);
        if (value->kind != VALUE_KIND_JSON)
                return;
        expect(v->started && value->size > 0 && value->size <= v->value_max && strlen(value->json) == value->size);
        json_t *json = json_loadb(value->json, value->size, JSON_DECODE_ANY, &error);
        /* It refuses "\u0000" and numbers beyond its range, which are JSON. */
        expect(json || json_error_code(&error) == json_error_numeric_overflow || json_error_code(&error) == json_error_null_character);
        json_decref(json);
}

static void check_error(const struct CodeError *e) {
        static const size_t most[ERROR_TEXT_MAX_] = {ERROR_TYPE_MAX, ERROR_MESSAGE_MAX, ERROR_TRACEBACK_MAX, ERROR_SOURCE_LINE_MAX, ERROR_HINT_MAX};
        for (size_t i = 0; i < ERROR_TEXT_MAX_; i++)
                expect(!e->texts[i] || (e->set && strlen(e->texts[i]) <= most[i] && utf8_is_valid(e->texts[i], strlen(e->texts[i]))));
}

static void check(struct Look *l) {
        const struct ValuePipe *v = l->values;

        expect(!v->started || !v->invalid);
        expect(v->budget->used >= OTHERS && v->budget->used <= BUDGET);
        expect(v->content_used <= v->content_max && v->log->charged <= OUTPUT_HELD + CONTENT_WHOLE_MAX + 16 * VALUE_PIECE_MAX);
        expect(utf8_is_valid(v->note, strlen(v->note)));
        check_value(v);
        check_error(&v->error);
}

static void run(sd_event *event) {
        while (sd_event_run(event, 0) > 0)
                ;
}

static void feed(struct Look *l, sd_event *event, int fd, const uint8_t *bytes, size_t size) {
        while (size > 0 && l->values->fd >= 0) {
                ssize_t n = write(fd, bytes, size);
                if (n > 0) {
                        bytes += n;
                        size -= (size_t) n;
                }
                run(event);
                if (l->values->waiting)
                        look(l);
        }
}

/* Type, size, size, what it is filled with. */
static void feed_word(struct Look *l, sd_event *event, int fd, const uint8_t word[4]) {
        static uint8_t record[JOB_HEADER_SIZE + 2 * 65536];
        static const char head[] = "a\0image/png\0";
        uint32_t type = word[0] % VALUE_RECORD_MAX_, size = (uint32_t) word[1] << 8 | word[2];

        if (type == DISPLAY_DATA || type == VALUE_JSON || type == ERROR_TRACEBACK)
                size *= 2;
        job_put_header(record, type, size);
        memset(record + JOB_HEADER_SIZE, word[3], size);
        if (type == DISPLAY && size >= sizeof head - 1)
                memcpy(record + JOB_HEADER_SIZE, head, sizeof head - 1);
        feed(l, event, fd, record, JOB_HEADER_SIZE + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const uint64_t limits[] = {1, 8, 100, 4 * KIB, 64 * KIB, 700 * KIB, 1 * MIB, 3 * MIB};
        static sd_event *event;
        struct ValueBudget budget = {.used = OTHERS, .most = BUDGET};
        struct ValuePipe values = {};
        struct EventLog log;
        struct Look l = {.values = &values};
        int fds[2];

        if (size < 2)
                return 0;
        (void) signal(SIGPIPE, SIG_IGN);
        if ((!event && sd_event_new(&event) < 0) || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0 || eventlog_init(&log, event, now_monotonic()) < 0)
                abort();
        l.slow = data[1] & 1;
        log.on_room = on_room;
        log.userdata = &l;
        log_cursor_start(&l.cursor, &log, true, on_wake, &l);
        look(&l);
        value_pipe_init(&values, &log, &budget, limits[data[0] & 7], limits[data[0] >> 3 & 7]);
        values.on_drained = on_drained;
        values.on_over = on_over;
        values.userdata = &l;
        if (value_pipe_start(&values, event, fds[0]) < 0)
                abort();
        if (data[1] & 2)
                feed(&l, event, fds[1], data + 2, size - 2);
        else
                for (size_t at = 2; at + 4 <= size; at += 4)
                        feed_word(&l, event, fds[1], data + at);
        check(&l);
        if (data[1] & 4) {
                value_pipe_drain(&values, false);
                while (!l.drained) {
                        run(event);
                        look(&l);
                }
                look(&l);
                expect(!*l.open); /* whoever waits for a last piece gets it */
                check(&l);
        }
        value_pipe_done(&values);
        expect(budget.used == OTHERS);
        log_cursor_stop(&l.cursor);
        eventlog_done(&log);
        (void) close(fds[1]);
        return 0;
}
