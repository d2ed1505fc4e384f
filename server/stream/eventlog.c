/* The bounded log of one execution's events, and its cursors. */
#include "server/stream/eventlog.h"

struct Record {
        struct Record *next;
        struct Event event; /* of output: data is not set; of displays and content: points into data */
        size_t allocated;
        uint8_t *data;
};

static void record_free(struct Record *r) {
        if (!r)
                return;
        free(r->data);
        free(r);
}
DEFINE_CLEANUP(struct Record *, record_free)

static bool record_is_droppable(const struct Record *r) {
        enum EventKind kind = r->event.kind;
        return kind == EVENT_OUTPUT || kind == EVENT_HEARTBEAT || kind == EVENT_DISPLAY || kind == EVENT_CONTENT;
}

static size_t record_charge(const struct Record *r) {
        return sizeof *r + (r->event.kind == EVENT_OUTPUT ? r->event.output.size : r->allocated);
}

static int eventlog_on_gathered(sd_event_source *source, uint64_t usec, void *userdata) {
        eventlog_seal(userdata);
        return 0;
}

void eventlog_wake_now(struct EventLog *l) {
        (void) sd_event_source_set_enabled(l->waker, SD_EVENT_OFF);
        for (struct LogCursor *c = l->cursors, *next; c; c = next) {
                next = c->next_cursor;
                if (!c->armed)
                        continue;
                c->armed = false;
                c->wake(c->userdata);
        }
}

static int eventlog_on_wake(sd_event_source *source, void *userdata) {
        eventlog_wake_now(userdata);
        return 0;
}

int eventlog_init(struct EventLog *l, sd_event *event, usec_t base) {
        *l = (struct EventLog) { .base = base };
        int r = sd_event_add_time(event, &l->gather, CLOCK_MONOTONIC, 0, 500, eventlog_on_gathered, l);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(l->gather, SD_EVENT_OFF);
        if (r < 0)
                return r;
        r = sd_event_add_defer(event, &l->waker, eventlog_on_wake, l);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(l->waker, SD_EVENT_OFF);
}

void eventlog_done(struct EventLog *l) {
        while (l->cursors)
                log_cursor_stop(l->cursors);
        while (l->first) {
                struct Record *r = l->first;
                l->first = r->next;
                record_free(r);
        }
        l->gather = sd_event_source_disable_unref(l->gather);
        l->waker = sd_event_source_disable_unref(l->waker);
}

static void wake_those(struct EventLog *l, bool patient_too) {
        for (struct LogCursor *c = l->cursors; c; c = c->next_cursor)
                if (c->armed && (patient_too || !c->patient)) {
                        (void) sd_event_source_set_enabled(l->waker, SD_EVENT_ONESHOT);
                        return;
                }
}

void eventlog_wake(struct EventLog *l) {
        wake_those(l, true);
}

/* There is something new. */
static void tell(struct EventLog *l) {
        wake_those(l, l->complete || l->charged >= OUTPUT_HELD / 2);
}

static struct LogCursor *lead_cursor(const struct EventLog *l) {
        for (struct LogCursor *c = l->cursors; c; c = c->next_cursor)
                if (c->lead)
                        return c;
        return NULL;
}

bool eventlog_has_lead(const struct EventLog *l) {
        return lead_cursor(l) != NULL;
}

bool eventlog_wants_heartbeat(const struct EventLog *l) {
        const struct LogCursor *lead = lead_cursor(l);
        return !lead || lead->next_seq > l->last_heartbeat;
}

/* The first seq that some cursor still needs; records before it may go. */
static uint64_t first_needed(const struct EventLog *l) {
        uint64_t needed = UINT64_MAX;

        for (struct LogCursor *c = l->cursors; c; c = c->next_cursor) {
                uint64_t seq = c->current ? c->current->event.seq : c->next_seq;
                needed = MIN(needed, seq);
        }
        return needed;
}

/* By a reader that is looking at it. */
static bool is_held(const struct EventLog *l, const struct Record *r) {
        for (struct LogCursor *c = l->cursors; c; c = c->next_cursor)
                if (c->current == r)
                        return true;
        return false;
}

/* Drops the oldest output, displays, content and heartbeats until the log holds at most `size` bytes of them, never what the lead still needs. */
static void drop_oldest(struct EventLog *l, size_t size) {
        struct Record **p = &l->first, *previous = NULL;
        const struct LogCursor *lead = lead_cursor(l);

        while (*p && l->charged > size) {
                struct Record *r = *p;
                if (lead && r->event.seq >= lead->next_seq)
                        return; /* it needs all that follow, too */
                if (!record_is_droppable(r) || r == l->open || is_held(l, r)) {
                        previous = r;
                        p = &r->next;
                        continue;
                }
                l->charged -= record_charge(r);
                *p = r->next;
                if (l->last == r)
                        l->last = previous;
                record_free(r);
        }
}

void eventlog_shrink(struct EventLog *l) {
        if (first_needed(l) > l->last_seq)
                drop_oldest(l, 0);
}

static int append(struct EventLog *l, const struct Event *event, const uint8_t *data, size_t size) {
        struct Record *r _cleanup_(record_freep) = calloc(1, sizeof *r);

        if (!r)
                return -ENOMEM;
        r->event = *event;
        if (data) {
                r->allocated = size > OUTPUT_RECORD_MAX / 4 ? size : MAX(size * 2, (size_t) 256);
                r->data = malloc(r->allocated);
                if (!r->data)
                        return -ENOMEM;
                memcpy(r->data, data, size);
        }
        r->event.seq = ++l->last_seq;
        r->event.elapsed = now_monotonic() - l->base;
        if (record_is_droppable(r))
                l->charged += record_charge(r);
        if (l->last)
                l->last->next = r;
        else
                l->first = r;
        l->last = TAKE_PTR(r);
        return 0;
}

int eventlog_add(struct EventLog *l, const struct Event *event, bool complete) {
        eventlog_seal(l);
        int r = append(l, event, NULL, 0);
        if (r < 0)
                return r;
        l->complete = complete;
        if (event->kind == EVENT_HEARTBEAT)
                l->last_heartbeat = l->last_seq;
        if (!eventlog_has_lead(l))
                drop_oldest(l, OUTPUT_HELD);
        tell(l);
        return 0;
}

/* A string or bytes of an event, copied behind those before. */
static const void *store(struct Record *r, size_t *at, const void *bytes, size_t size) {
        void *to = r->data + *at;
        if (size > 0)
                memcpy(to, bytes, size);
        *at += size;
        return to;
}

static const char *store_string(struct Record *r, size_t *at, const char *s) {
        return store(r, at, s, strlen(s) + 1);
}

static size_t size_of_copy(const struct Event *e) {
        if (e->kind == EVENT_CONTENT)
                return strlen(e->content.id) + 1 + e->content.size;
        return strlen(e->display.id) + strlen(e->display.mime_type) + strlen(e->display.metadata) + strlen(e->display.content_id) + 4 +
               e->display.size;
}

/* Of a display or a piece of content, which the caller still owns. */
static int make_copy(const struct Event *from, struct Event *event, struct Record *holder) {
        size_t at = 0;

        holder->allocated = size_of_copy(from);
        holder->data = malloc(holder->allocated);
        if (!holder->data)
                return -ENOMEM;
        *event = *from;
        if (from->kind == EVENT_CONTENT) {
                event->content.id = store_string(holder, &at, from->content.id);
                event->content.data = store(holder, &at, from->content.data, from->content.size);
                return 0;
        }
        event->display.id = store_string(holder, &at, from->display.id);
        event->display.mime_type = store_string(holder, &at, from->display.mime_type);
        event->display.metadata = store_string(holder, &at, from->display.metadata);
        event->display.content_id = store_string(holder, &at, from->display.content_id);
        event->display.data = store(holder, &at, from->display.data, from->display.size);
        return 0;
}

int eventlog_add_copy(struct EventLog *l, const struct Event *event) {
        struct Record holder = {};
        struct Event copy;

        eventlog_seal(l);
        int r = make_copy(event, &copy, &holder);
        if (r < 0)
                return r;
        r = append(l, &copy, NULL, 0);
        if (r < 0) {
                free(holder.data);
                return r;
        }
        l->last->data = holder.data;
        l->last->allocated = holder.allocated;
        l->charged += holder.allocated;
        if (!eventlog_has_lead(l))
                drop_oldest(l, OUTPUT_HELD);
        tell(l);
        return 0;
}

/* Puts bytes behind those of the open record; makes it larger when needed. Returns how many. */
static ssize_t extend_open(struct EventLog *l, const uint8_t *data, size_t size) {
        struct Record *r = l->open;
        size_t used = r->event.output.size, n = MIN(size, (size_t) OUTPUT_RECORD_MAX - used);

        if (used + n > r->allocated) {
                size_t allocated = MIN((used + n) * 2, (size_t) OUTPUT_RECORD_MAX);
                uint8_t *larger = realloc(r->data, allocated);
                if (!larger)
                        return -ENOMEM;
                r->data = larger;
                r->allocated = allocated;
        }
        memcpy(r->data + used, data, n);
        r->event.output.size += n;
        l->charged += n;
        return (ssize_t) n;
}

static void set_gather_timer(struct EventLog *l, usec_t now) {
        if (now >= l->sealed_at + OUTPUT_GATHER) {
                eventlog_seal(l);
                return;
        }
        (void) sd_event_source_set_time(l->gather, l->sealed_at + OUTPUT_GATHER);
        (void) sd_event_source_set_enabled(l->gather, SD_EVENT_ONESHOT);
}

int eventlog_add_output(struct EventLog *l, enum Stream stream, const uint8_t *data, size_t size) {
        if (l->open && l->open->event.output.stream == stream) {
                ssize_t n = extend_open(l, data, size);
                if (n < 0)
                        return (int) n;
                data += n;
                size -= (size_t) n;
                l->offset[stream] += (uint64_t) n;
        } else
                eventlog_seal(l);
        if (l->open && l->open->event.output.size == OUTPUT_RECORD_MAX)
                eventlog_seal(l);
        if (size > 0) {
                struct Event e = { .kind = EVENT_OUTPUT, .output = { .stream = stream, .offset = l->offset[stream], .size = size } };
                int r = append(l, &e, data, size);
                if (r < 0)
                        return r;
                l->offset[stream] += size;
                l->open = l->last;
                if (size == OUTPUT_RECORD_MAX)
                        eventlog_seal(l);
        }
        if (!eventlog_has_lead(l))
                drop_oldest(l, OUTPUT_HELD);
        if (l->open)
                set_gather_timer(l, now_monotonic());
        return 0;
}

void eventlog_seal(struct EventLog *l) {
        if (!l->open)
                return;
        l->open = NULL;
        l->sealed_at = now_monotonic();
        (void) sd_event_source_set_enabled(l->gather, SD_EVENT_OFF);
        tell(l);
}

size_t eventlog_room(const struct EventLog *l) {
        if (!eventlog_has_lead(l))
                return OUTPUT_RECORD_MAX;
        return l->charged >= OUTPUT_HELD ? 0 : OUTPUT_RECORD_MAX;
}

void log_cursor_start(struct LogCursor *c, struct EventLog *l, bool lead, void (*wake)(void *userdata), void *userdata) {
        *c = (struct LogCursor) { .log = l, .next_seq = 1, .lead = lead, .wake = wake, .userdata = userdata, .next_cursor = l->cursors };
        l->cursors = c;
}

void log_cursor_stop(struct LogCursor *c) {
        struct EventLog *l = c->log;

        if (!l)
                return;
        for (struct LogCursor **p = &l->cursors; *p; p = &(*p)->next_cursor)
                if (*p == c) {
                        *p = c->next_cursor;
                        break;
                }
        c->log = NULL;
        c->current = NULL;
        if (c->lead && l->on_room)
                l->on_room(l->userdata);
}

/* Lets go of the event handed out last. What the lead has read makes room. */
static void release_current(struct LogCursor *c) {
        struct EventLog *l = c->log;

        if (!c->current)
                return;
        c->current = NULL;
        if (!c->lead)
                return;
        drop_oldest(l, 0);
        /* Not for each record: stopping and starting to read costs more than reading. */
        if (l->on_room && l->charged <= OUTPUT_HELD / 2)
                l->on_room(l->userdata);
}

static struct Record *find_record(const struct LogCursor *c, struct Record *from) {
        for (struct Record *r = from; r; r = r->next)
                if (r->event.seq >= c->next_seq && r != c->log->open)
                        return r;
        return NULL;
}

/* Bytes of a stream that went before this reader had them, up to where it goes on. */
static bool find_gap(struct LogCursor *c, const struct Record *r, struct Event *ret) {
        if (r->event.seq == c->next_seq)
                return false;
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++) {
                uint64_t to = c->log->offset[s];
                for (const struct Record *q = r; q; q = q->next)
                        if (q->event.kind == EVENT_OUTPUT && q->event.output.stream == s) {
                                to = q->event.output.offset;
                                break;
                        }
                if (to <= c->offset[s])
                        continue;
                *ret = (struct Event) {
                        .kind = EVENT_GAP,
                        .seq = r->event.seq - 1,
                        .elapsed = r->event.elapsed,
                        .gap = { s, c->offset[s], to },
                };
                c->offset[s] = to;
                return true;
        }
        return false;
}

int log_cursor_next(struct LogCursor *c, struct Event *ret) {
        if (!c->log || c->finished)
                return -ENODATA;
        struct Record *from = c->current ? c->current->next : NULL;
        release_current(c);
        struct Record *r = find_record(c, from ? from : c->log->first);
        if (!r) {
                c->armed = true;
                return 0;
        }
        if (find_gap(c, r, ret))
                return 1;
        *ret = r->event;
        if (r->event.kind == EVENT_OUTPUT) {
                ret->output.data = r->data;
                c->offset[r->event.output.stream] = r->event.output.offset + r->event.output.size;
        }
        c->next_seq = r->event.seq + 1;
        c->current = r;
        c->finished = c->log->complete && r == c->log->last;
        return 1;
}
