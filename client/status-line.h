/* The line at the bottom of the terminal that tells how a running execution is doing. */
#pragma once

#include <glovebox/v1/execution.pb-c.h>
#include <stdatomic.h>

#include "common/util.h"

struct StatusLine {
        bool enabled;
        atomic_bool visible;     /* also read by the thread that leaves on the second Ctrl-C */
        atomic_bool cancelling;
        bool at_line_start;      /* the cursor is in column 0, as far as we know: only then may we draw */
        bool out_is_terminal;
        bool err_is_terminal;
        const char *phase;       /* what it does while it does not run; NULL: it runs */
        usec_t since;            /* start of the phase */
        usec_t next;             /* when to draw again */
        bool measured;           /* the figures below are there */
        usec_t cpu_time;
        usec_t idle_for;
        uint64_t memory;
        uint32_t processes;
};

/* wanted: shown when standard error is a terminal that can be drawn on. */
void status_line_init(struct StatusLine *s, bool wanted);
void status_line_set_phase(struct StatusLine *s, const char *phase);
void status_line_set_heartbeat(struct StatusLine *s, const Glovebox__V1__Heartbeat *heartbeat);
/* When status_line_tick wants to be called next (monotonic); USEC_INFINITY: never. */
usec_t status_line_next(const struct StatusLine *s);
void status_line_tick(struct StatusLine *s);
/* Before anything else is written to the terminal. */
void status_line_clear(struct StatusLine *s);
/* After output of the program. */
void status_line_saw(struct StatusLine *s, int fd, const char *data, size_t size);
/* At the end: the line is gone and the cursor at the start of a line. */
void status_line_done(struct StatusLine *s);
