/* Readers of an execution. */
#include "server/execution-internal.h"

struct Cursor {
        struct LogCursor log;
        struct Execution *execution;
};

int cursor_new(struct Execution *e, bool lead, void (*wake)(void *userdata), void *userdata, struct Cursor **ret) {
        struct Cursor *c = calloc(1, sizeof *c);

        if (!c)
                return -ENOMEM;
        c->execution = e;
        log_cursor_start(&c->log, &e->log, lead && !e->detached, wake, userdata);
        e->n_cursors++;
        *ret = c;
        return 0;
}

void cursor_be_patient(struct Cursor *c) {
        c->log.patient = true;
}

struct Cursor *cursor_free(struct Cursor *c) {
        if (!c)
                return NULL;
        struct Execution *e = c->execution;
        log_cursor_stop(&c->log);
        free(c);
        e->n_cursors--;
        if (e->n_cursors == 0 && e->state == EXECUTION_FINISHED) {
                eventlog_shrink(&e->log);
                table_let_go_of_held(e);
        }
        execution_unref(e);
        return NULL;
}

int cursor_next(struct Cursor *c, struct Event *ret) {
        int r = log_cursor_next(&c->log, ret);
        return r == 0 && c->execution->refused ? -EREMOTEIO : r;
}
