/* The bounded log of one execution's events, and the cursors that read it.
 *
 * Output is kept in records of at most 64 KiB. The lead cursor (the call that started the execution) holds the log back: while it has
 * OUTPUT_HELD bytes in front of it (a record more at the most), eventlog_room is 0 and the pipes are not read. Without a lead the
 * log is a ring: the oldest output goes, and a cursor that was overtaken finds a gap. The newest output record stays open for up to
 * 10 ms so that small writes are gathered; it is closed at once when nothing was sent just before. */
#pragma once

#include <systemd/sd-event.h>

#include "server/event.h"

#define OUTPUT_RECORD_MAX (64 * KIB)
#define OUTPUT_HELD (256 * KIB)
#define OUTPUT_GATHER (10 * USEC_PER_MSEC)

struct Record;

struct LogCursor {
        struct EventLog *log;
        struct LogCursor *next_cursor;
        struct Record *current; /* the event handed out last; held until the next call */
        uint64_t next_seq;
        uint64_t offset[STREAM_MAX_]; /* next byte of each stream for this reader */
        bool lead, armed, finished;
        bool patient; /* woken for the end, or when the log needs room: nobody is shown anything before */
        void (*wake)(void *userdata);
        void *userdata;
};

struct EventLog {
        usec_t base; /* elapsed counts from here (CLOCK_MONOTONIC) */
        struct Record *first, *last;
        struct Record *open; /* = last while output may be added to it */
        uint64_t last_seq, last_heartbeat;
        size_t charged;      /* bytes of records that may be dropped */
        uint64_t offset[STREAM_MAX_];
        usec_t sealed_at;
        bool complete; /* the last event is there */
        struct LogCursor *cursors;
        sd_event_source *gather, *waker;
        void (*on_room)(void *userdata); /* the lead cursor has emptied half of it, or has gone */
        void *userdata;
};

int eventlog_init(struct EventLog *l, sd_event *event, usec_t base);
void eventlog_done(struct EventLog *l);

/* Adds an event whose seq and elapsed are filled in here, and whose pointers stay good for as long as anyone reads the log. Not for output.
 * complete: it is the last. */
int eventlog_add(struct EventLog *l, const struct Event *event, bool complete);
/* Adds a display or a piece of content, copied. */
int eventlog_add_copy(struct EventLog *l, const struct Event *event);
/* Adds bytes of a stream; size <= OUTPUT_RECORD_MAX. */
int eventlog_add_output(struct EventLog *l, enum Stream stream, const uint8_t *data, size_t size);
/* Nothing more is added to the open record. */
void eventlog_seal(struct EventLog *l);
/* How many bytes of output may be added now: a whole record or nothing, so that records are full. */
size_t eventlog_room(const struct EventLog *l);
bool eventlog_has_lead(const struct EventLog *l);
/* False while the lead has not read the last one: heartbeats never pile up in front of a slow reader. */
bool eventlog_wants_heartbeat(const struct EventLog *l);
/* Lets every waiting cursor look again. */
void eventlog_wake(struct EventLog *l);
/* The same now, for callers that come from the event loop themselves. */
void eventlog_wake_now(struct EventLog *l);
/* Frees what no cursor will read. */
void eventlog_shrink(struct EventLog *l);

void log_cursor_start(struct LogCursor *c, struct EventLog *l, bool lead, void (*wake)(void *userdata), void *userdata);
void log_cursor_stop(struct LogCursor *c);
/* As cursor_next in server/execution.h. */
int log_cursor_next(struct LogCursor *c, struct Event *ret);
