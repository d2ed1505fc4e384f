/* The value pipe of one execution: what its runner says of value, error and displays (common/value.h), believed in nothing. Displays go into the log
 * as they come, held back by a slow reader as output is. */
#pragma once

#include "common/json-check.h"
#include "common/value.h"
#include "server/stream/eventlog.h"
#include "server/stream/records.h"

#define CONTENT_PIECE (256 * KIB)

/* Bytes that values of all executions may take, until these have ended. */
struct ValueBudget {
        size_t used, most;
};

struct DisplayInput {
        bool open, dropped, in_pieces;
        char *head; /* id, NUL, type, NUL, metadata */
        const char *id, *mime_type, *metadata;
        char content_id[CONTENT_ID_MAX];
        uint8_t *data;
        size_t size, allocated;
        uint64_t sent;
};

struct ValuePipe {
        struct EventLog *log;
        struct ValueBudget *budget;
        int fd; /* -EBADF: closed or ended */
        sd_event_source *source, *drain;
        struct RecordReader reader;
        bool waiting, draining;
        uint64_t total; /* bytes read */
        uint64_t value_max, content_max;

        bool started, invalid, incomplete;
        struct JsonCheck check; /* of the value that comes */
        struct Value coming, value;
        size_t coming_allocated, value_allocated; /* what they take of the budget */
        struct CodeError coming_error, error;
        char note[VALUE_NOTE_MAX + 1];
        struct DisplayInput display;
        unsigned n_displays;
        uint64_t content_used;
        uint32_t limits_hit; /* bits */
        bool over, told_over;
        uint8_t status; /* with over */

        void (*on_over)(uint8_t status, void *userdata); /* once, before value_drain: the program says that it has ended */
        void (*on_drained)(void *userdata); /* after value_drain: the pipe is empty */
        void *userdata;
};

void value_pipe_init(struct ValuePipe *v, struct EventLog *log, struct ValueBudget *budget, uint64_t value_max, uint64_t content_max);
/* Takes fd; -EBADF: there is no such pipe. */
int value_pipe_start(struct ValuePipe *v, sd_event *event, int fd);
void value_pipe_done(struct ValuePipe *v);
void value_pipe_resume(struct ValuePipe *v);
void value_pipe_drain(struct ValuePipe *v, bool at_once);
