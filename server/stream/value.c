/* The value pipe of one execution. */
#include "server/stream/value.h"

#include <stdio.h>
#include <sys/epoll.h>

#define READ_SIZE (64 * KIB)
#define READS_AT_ONCE 4
#define OVERHEAD_MAX (32 * MIB) /* errors, heads and what is dropped, besides value and displays */
#define DISPLAY_ID_MAX 64
#define MIME_TYPE_MAX 127

static const struct RecordRuleOut rules[VALUE_RECORD_MAX_] = {
        [0] = {1, 0, false},
        [VALUE_STARTED] = {0, 0, false},
        [VALUE_INVALID] = {1, 1, false},
        [VALUE_JSON] = {0, VALUE_PIECE_MAX, true},
        [VALUE_END] = {1, 1, false},
        [VALUE_ERROR] = {2, 1 + VALUE_PATH_MAX + 1 + ERROR_MESSAGE_MAX, false},
        [ERROR_TYPE] = {0, ERROR_TYPE_MAX, false},
        [ERROR_MESSAGE] = {0, ERROR_MESSAGE_MAX, false},
        [ERROR_TRACEBACK] = {0, ERROR_TRACEBACK_MAX, false},
        [ERROR_SOURCE_LINE] = {0, ERROR_SOURCE_LINE_MAX, false},
        [ERROR_HINT] = {0, ERROR_HINT_MAX, false},
        [ERROR_POSITION] = {9, 9, false},
        [ERROR_END] = {0, 0, false},
        [DISPLAY] = {2, VALUE_DISPLAY_HEAD_MAX, false},
        [DISPLAY_DATA] = {0, VALUE_PIECE_MAX, true},
        [DISPLAY_END] = {0, 1, false},
        [VALUE_NOTE] = {0, VALUE_NOTE_MAX, false},
        [VALUE_OVER] = {1, 1, false},
};

/* What the coming value took of the budget goes back; its size and what is wrong with it are still told at its end. */
static void free_coming(struct ValuePipe *v) {
        v->budget->used -= v->coming_allocated;
        v->coming_allocated = 0;
        free(v->coming.json);
        v->coming.json = NULL;
}

static void drop_coming(struct ValuePipe *v) {
        free_coming(v);
        value_done(&v->coming);
        json_check_start(&v->check);
}

static void drop_value(struct ValuePipe *v) {
        v->budget->used -= v->value_allocated;
        v->value_allocated = 0;
        value_done(&v->value);
}

/* The coming value is whole: it keeps what it needs. */
static void keep_coming(struct ValuePipe *v, bool lossy) {
        size_t size = v->coming.size, fitting = size + 1;
        char *json = TAKE_PTR(v->coming.json), *smaller = realloc(json, fitting);

        drop_value(v);
        v->budget->used -= v->coming_allocated - fitting;
        v->value_allocated = fitting;
        v->coming_allocated = 0;
        if (smaller)
                json = smaller;
        json[size] = 0;
        v->value = (struct Value) {.kind = VALUE_KIND_JSON, .json = json, .size = size, .lossy = lossy};
}

/* Mended bytes can take three times their size; a text of ours has at most `most`. */
static char *mend_within(const uint8_t *bytes, size_t size, size_t most, bool *ret_cut) {
        char *text = utf8_mend(bytes, size);
        size_t n = text ? utf8_fit(text, most) : 0;

        *ret_cut = text && text[n];
        if (!*ret_cut)
                return text;
        text[n] = 0;
        char *smaller = realloc(text, n + 1);
        return smaller ? smaller : text;
}

static int value_fault(struct ValuePipe *v, unsigned type, const char *path, const char *message) {
        struct Value value = {.kind = VALUE_KIND_ERROR, .error = type, .path = strdup(path), .message = strdup(message)};
        if (!value.path || !value.message) {
                value_done(&value);
                return -ENOMEM;
        }
        drop_value(v);
        v->value = value;
        return 0;
}

enum { /* glovebox.v1.ValueErrorType */
        FAULT_NOT_SERIALIZABLE = 1,
        FAULT_TOO_LARGE = 2,
        FAULT_MAX = 4,
};

/* Room for one more piece; 1 = there is none, and the value is dropped. */
static int reserve(struct ValuePipe *v, size_t size) {
        if (size + 1 <= v->coming_allocated)
                return 0;
        size_t doubled = MAX(2 * v->coming_allocated, (size_t) 4096);
        size_t want = MIN(MAX(doubled, size + 1), (size_t) v->value_max + 1), left = v->budget->most - MIN(v->budget->used, v->budget->most);
        if (want - v->coming_allocated > left)
                want = size + 1;
        if (want - v->coming_allocated > left)
                return 1;
        char *larger = realloc(v->coming.json, want);
        if (!larger)
                return 1;
        v->budget->used += want - v->coming_allocated;
        v->coming_allocated = want;
        v->coming.json = larger;
        return 0;
}

/* Once one piece does not fit, the rest of this value is counted and not kept: error says why at its end. */
static int on_json(struct ValuePipe *v, const uint8_t *bytes, size_t size) {
        struct Value *c = &v->coming;

        c->size += size;
        if (c->error)
                return 0;
        if (c->size > v->value_max || reserve(v, c->size) > 0)
                c->error = FAULT_TOO_LARGE;
        else if (json_check_add(&v->check, bytes, size) < 0)
                c->error = FAULT_NOT_SERIALIZABLE;
        else
                memcpy(c->json + c->size - size, bytes, size);
        if (c->error)
                free_coming(v);
        return 0;
}

static int on_value_end(struct ValuePipe *v, bool lossy) {
        struct Value *c = &v->coming;
        char message[200];
        int r;

        if (!c->error && json_check_end(&v->check) < 0)
                c->error = FAULT_NOT_SERIALIZABLE;
        if (c->error == FAULT_TOO_LARGE) {
                v->limits_hit |= 1u << LIMIT_HIT_VALUE;
                if (c->size > v->value_max)
                        (void) snprintf(message, sizeof message, "The value takes %zu bytes as JSON; limits.value_bytes allows %llu.", c->size, (unsigned long long) v->value_max);
                else
                        (void) snprintf(message, sizeof message, "The server has no memory for a value of %zu bytes now; try again later.", c->size);
                r = value_fault(v, FAULT_TOO_LARGE, "$", message);
        } else if (c->error) {
                (void) snprintf(message, sizeof message, "What came as the value is not JSON: it %s, at byte %zu.", v->check.fault, v->check.offset);
                r = value_fault(v, FAULT_NOT_SERIALIZABLE, "$", message);
        } else {
                keep_coming(v, lossy);
                r = 0;
        }
        drop_coming(v);
        return r;
}

static int on_value_error(struct ValuePipe *v, const uint8_t *bytes, size_t size) {
        const uint8_t *nul = memchr(bytes + 1, 0, size - 1);

        if (!nul || bytes[0] == 0 || bytes[0] > FAULT_MAX)
                return -EBADMSG;
        bool cut;
        char *path _cleanup_free_ = mend_within(bytes + 1, (size_t) (nul - bytes - 1), VALUE_PATH_MAX, &cut);
        char *message _cleanup_free_ = mend_within(nul + 1, (size_t) (bytes + size - nul - 1), VALUE_NOTE_MAX, &cut);
        if (!path || !message)
                return -ENOMEM;
        drop_coming(v);
        if (bytes[0] == FAULT_TOO_LARGE)
                v->limits_hit |= 1u << LIMIT_HIT_VALUE;
        return value_fault(v, bytes[0], path, message);
}

static int on_error_text(struct ValuePipe *v, uint32_t type, const uint8_t *bytes, size_t size) {
        enum ErrorText which = (enum ErrorText) (type - ERROR_TYPE);
        bool cut;
        char *text = mend_within(bytes, size, rules[type].max, &cut);
        if (!text)
                return -ENOMEM;
        v->coming_error.truncated |= cut;
        free(v->coming_error.texts[which]);
        v->coming_error.texts[which] = text;
        return 0;
}

static int on_error_position(struct ValuePipe *v, const uint8_t *bytes) {
        v->coming_error.line = job_get_u32(bytes);
        v->coming_error.column = job_get_u32(bytes + 4);
        v->coming_error.truncated |= bytes[8] != 0;
        return 0;
}

static int on_error_end(struct ValuePipe *v) {
        code_error_done(&v->error);
        v->error = v->coming_error;
        v->error.set = true;
        v->coming_error = (struct CodeError) {};
        return 0;
}

static int on_invalid(struct ValuePipe *v, bool incomplete) {
        if (v->started || v->invalid)
                return -EBADMSG;
        v->invalid = true;
        v->incomplete = incomplete;
        (void) on_error_end(v);
        v->error.incomplete = incomplete;
        return 0;
}

static int on_note(struct ValuePipe *v, const uint8_t *bytes, size_t size) {
        bool cut;
        char *text _cleanup_free_ = mend_within(bytes, size, sizeof v->note - 1, &cut);
        if (!text)
                return -ENOMEM;
        (void) snprintf(v->note, sizeof v->note, "%s", text);
        return 0;
}

/* "image/png": as in RFC 6838, without parameters. */
static bool is_mime_type(const char *s) {
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&-^_.+";
        size_t n = strspn(s, allowed), m = s[n] == '/' ? strspn(s + n + 1, allowed) : 0;
        return n > 0 && m > 0 && !s[n + 1 + m] && n + 1 + m <= MIME_TYPE_MAX;
}

/* Programs choose the ids of displays: any text, but one line and not too long. */
static void tidy_id(char *id) {
        bool is_text = utf8_is_valid(id, strlen(id));
        for (char *p = id; *p; p++)
                if ((uint8_t) *p < 0x20 || *p == 0x7f || ((uint8_t) *p >= 0x80 && !is_text))
                        *p = '?';
        id[utf8_fit(id, DISPLAY_ID_MAX)] = 0;
}

/* "text/html; charset=utf-8": all text here is UTF-8. */
static void drop_parameters(char *mime_type) {
        mime_type[strcspn(mime_type, "; \t")] = 0;
}

static bool is_metadata(const char *s) {
        struct JsonCheck check;
        json_check_start(&check);
        return json_check_add(&check, s, strlen(s)) >= 0 && json_check_end(&check) >= 0 && check.first == '{';
}

static void display_close(struct DisplayInput *d) {
        free(d->head);
        free(d->data);
        *d = (struct DisplayInput) {};
}

static int on_display(struct ValuePipe *v, const uint8_t *bytes, size_t size) {
        struct DisplayInput *d = &v->display;
        const uint8_t *first = memchr(bytes, 0, size), *second = first ? memchr(first + 1, 0, (size_t) (bytes + size - first - 1)) : NULL;

        if (d->open || !second || memchr(second + 1, 0, (size_t) (bytes + size - second - 1)))
                return -EBADMSG;
        d->head = malloc(size + 1);
        if (!d->head)
                return -ENOMEM;
        memcpy(d->head, bytes, size);
        d->head[size] = 0;
        char *mime_type = d->head + (first - bytes) + 1;
        tidy_id(d->head);
        drop_parameters(mime_type);
        d->id = d->head;
        d->mime_type = mime_type;
        d->metadata = d->head + (second - bytes) + 1;
        d->open = true;
        if (!is_metadata(d->metadata))
                d->metadata = "";
        /* Nobody knows what such bytes are. That is the program's mistake, and costs it this display, not its value. */
        if (!is_mime_type(d->mime_type)) {
                d->dropped = true;
                return 0;
        }
        size_t n = strlen(d->metadata);
        if (v->n_displays == VALUE_DISPLAYS_MAX || n > v->content_max - v->content_used) {
                d->dropped = true;
                v->limits_hit |= 1u << LIMIT_HIT_CONTENT;
        } else {
                v->content_used += n;
                (void) snprintf(d->content_id, sizeof d->content_id, "display-%u", ++v->n_displays);
        }
        return 0;
}

static int send_display(struct ValuePipe *v) {
        struct DisplayInput *d = &v->display;
        struct Event e = {
                .kind = EVENT_DISPLAY,
                .display = {.id = d->id, .mime_type = d->mime_type, .metadata = d->metadata, .content_id = d->in_pieces ? d->content_id : ""},
        };
        if (!d->in_pieces) {
                e.display.data = d->data;
                e.display.size = d->size;
        }
        return eventlog_add_copy(v->log, &e);
}

static int send_pieces(struct ValuePipe *v, bool last) {
        struct DisplayInput *d = &v->display;
        for (size_t at = 0;;) {
                size_t n = MIN(d->size - at, (size_t) CONTENT_PIECE);
                struct Event e = {.kind = EVENT_CONTENT, .content = {.id = d->content_id, .offset = d->sent, .data = d->data + at, .size = n}};
                at += n;
                d->sent += n;
                e.content.last = last && at == d->size;
                int r = eventlog_add_copy(v->log, &e);
                if (r < 0)
                        return r;
                if (at == d->size)
                        break;
        }
        d->size = 0;
        return 0;
}

static int keep_display_data(struct DisplayInput *d, const uint8_t *bytes, size_t size) {
        if (d->size + size > d->allocated) {
                size_t doubled = MAX(2 * d->allocated, d->size + size), want = MIN(doubled, (size_t) (CONTENT_WHOLE_MAX + VALUE_PIECE_MAX));
                uint8_t *larger = realloc(d->data, want);
                if (!larger)
                        return -ENOMEM;
                d->data = larger;
                d->allocated = want;
        }
        memcpy(d->data + d->size, bytes, size);
        d->size += size;
        return 0;
}

static int on_display_data(struct ValuePipe *v, const uint8_t *bytes, size_t size) {
        struct DisplayInput *d = &v->display;

        if (!d->open)
                return -EBADMSG;
        if (d->dropped || size == 0)
                return 0;
        /* Half a picture is of no use: a runner counts as we do, and sends nothing of what does not fit. From whoever does not, what was sent in
         * pieces already ends where it is. */
        if (size > v->content_max - v->content_used) {
                v->limits_hit |= 1u << LIMIT_HIT_CONTENT;
                d->dropped = true;
                return d->in_pieces ? send_pieces(v, true) : 0;
        }
        v->content_used += size;
        int r = keep_display_data(d, bytes, size);
        if (r >= 0 && d->size > CONTENT_WHOLE_MAX && !d->in_pieces) {
                d->in_pieces = true;
                r = send_display(v);
        }
        return r >= 0 && d->in_pieces && d->size >= CONTENT_PIECE ? send_pieces(v, false) : r;
}

static int on_display_end(struct ValuePipe *v, bool left_out) {
        struct DisplayInput *d = &v->display;

        if (!d->open)
                return -EBADMSG;
        if (left_out) {
                v->limits_hit |= 1u << LIMIT_HIT_CONTENT;
                d->dropped |= !d->in_pieces;
        }
        int r = d->dropped ? 0 : d->in_pieces ? send_pieces(v, true) : send_display(v);
        display_close(d);
        return r;
}

static int value_on_record(void *userdata, uint32_t type, const uint8_t *bytes, size_t size) {
        struct ValuePipe *v = userdata;
        bool is_error = type >= ERROR_TYPE && type <= ERROR_POSITION;

        bool has_begun = v->started || (v->invalid && type == VALUE_OVER);

        if (v->over || (v->invalid && type != VALUE_OVER) || (!has_begun && !is_error && type != VALUE_STARTED && type != VALUE_INVALID) ||
            (v->display.open && type != DISPLAY_DATA && type != DISPLAY_END))
                return -EBADMSG;
        switch ((enum ValueRecord) type) {
        case VALUE_STARTED:
                v->started = true;
                return 0;
        case VALUE_INVALID:
                return on_invalid(v, bytes[0]);
        case VALUE_JSON:
                return on_json(v, bytes, size);
        case VALUE_END:
                return on_value_end(v, bytes[0]);
        case VALUE_ERROR:
                return on_value_error(v, bytes, size);
        case ERROR_TYPE:
        case ERROR_MESSAGE:
        case ERROR_TRACEBACK:
        case ERROR_SOURCE_LINE:
        case ERROR_HINT:
                return on_error_text(v, type, bytes, size);
        case ERROR_POSITION:
                return on_error_position(v, bytes);
        case ERROR_END:
                return on_error_end(v);
        case DISPLAY:
                return on_display(v, bytes, size);
        case DISPLAY_DATA:
                return on_display_data(v, bytes, size);
        case DISPLAY_END:
                return on_display_end(v, size > 0 && bytes[0]);
        case VALUE_NOTE:
                return on_note(v, bytes, size);
        case VALUE_OVER:
                v->over = true;
                v->status = bytes[0];
                return 0;
        case VALUE_RECORD_MAX_:
                break;
        }
        return -EBADMSG;
}

static void pipe_end(struct ValuePipe *v) {
        v->source = sd_event_source_disable_unref(v->source);
        v->fd = close_fd(v->fd);
        v->waiting = false;
        /* A display that was cut off in the middle: who waits for its last piece gets it. */
        if (v->display.open && v->display.in_pieces && !v->display.dropped)
                (void) send_pieces(v, true);
        display_close(&v->display);
        drop_coming(v);
        code_error_done(&v->coming_error);
        record_reader_done(&v->reader);
}

/* One read. 1 = there may be more, 0 = nothing now, the end, or no room. */
static int pipe_read(struct ValuePipe *v) {
        static uint8_t buffer[READ_SIZE]; /* one thread reads */

        if (eventlog_room(v->log) == 0) {
                v->waiting = true;
                (void) sd_event_source_set_enabled(v->source, SD_EVENT_OFF);
                return 0;
        }
        ssize_t n = read(v->fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR)
                return 1;
        if (n < 0 && errno == EAGAIN && !v->draining)
                return 0;
        if (n > 0)
                v->total += (uint64_t) n;
        if (n <= 0 || v->total > v->value_max + v->content_max + OVERHEAD_MAX || record_reader_feed(&v->reader, buffer, (size_t) n) < 0) {
                pipe_end(v);
                return 0;
        }
        return 1;
}

static int value_on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct ValuePipe *v = userdata;
        int r = 1;
        for (int i = 0; i < READS_AT_ONCE && r > 0; i++)
                r = pipe_read(v);
        /* Last: whoever hears of it may end all this. */
        if (v->over && !v->told_over) {
                v->told_over = true;
                v->on_over(v->status, v->userdata);
        }
        return 0;
}

static int value_on_drain(sd_event_source *source, void *userdata) {
        struct ValuePipe *v = userdata;
        int r = v->fd >= 0 && !v->waiting;

        for (int i = 0; i < READS_AT_ONCE && r > 0; i++)
                r = pipe_read(v);
        if (v->fd < 0)
                v->on_drained(v->userdata);
        else if (r > 0) /* a large pipe, or one that could not be frozen: others have their turn between */
                return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
}

void value_pipe_init(struct ValuePipe *v, struct EventLog *log, struct ValueBudget *budget, uint64_t value_max, uint64_t content_max) {
        v->log = log;
        v->budget = budget;
        v->fd = -EBADF;
        v->value_max = value_max;
        v->content_max = content_max;
        v->reader = (struct RecordReader) {.rules = rules, .n_rules = VALUE_RECORD_MAX_, .on_record = value_on_record, .userdata = v};
        json_check_start(&v->check);
}

int value_pipe_start(struct ValuePipe *v, sd_event *event, int fd) {
        v->fd = fd;
        int r = sd_event_add_defer(event, &v->drain, value_on_drain, v);
        if (r >= 0)
                r = sd_event_source_set_enabled(v->drain, SD_EVENT_OFF);
        if (r < 0 || fd < 0)
                return r;
        r = set_nonblock(fd, true);
        return r < 0 ? r : sd_event_add_io(event, &v->source, fd, EPOLLIN, value_on_readable, v);
}

void value_pipe_done(struct ValuePipe *v) {
        if (!v->log)
                return;
        v->display.dropped = true; /* nothing more goes into the log */
        pipe_end(v);
        v->drain = sd_event_source_disable_unref(v->drain);
        drop_value(v);
        code_error_done(&v->error);
        v->log = NULL;
}

void value_pipe_resume(struct ValuePipe *v) {
        if (!v->waiting)
                return;
        v->waiting = false;
        if (v->draining)
                (void) sd_event_source_set_enabled(v->drain, SD_EVENT_ONESHOT);
        else
                (void) sd_event_source_set_enabled(v->source, SD_EVENT_ON);
}

void value_pipe_drain(struct ValuePipe *v, bool at_once) {
        v->draining = true;
        if (at_once && v->fd < 0) {
                v->on_drained(v->userdata);
                return;
        }
        if (v->source)
                (void) sd_event_source_set_enabled(v->source, SD_EVENT_OFF);
        if (at_once)
                (void) value_on_drain(v->drain, v);
        else
                (void) sd_event_source_set_enabled(v->drain, SD_EVENT_ONESHOT);
}
