/* Who may run now: a bound on executions at once, callers' own quotas, and a bounded waiting list that is fair between callers.
 *
 * Each caller has a line of its own; a free place goes to the lines in turn. When the list is full, a caller with fewer waiting takes the
 * place of the newest of the caller with the most. */
#pragma once

#include <systemd/sd-event.h>

#include "common/config.h"
#include "server/refusal.h"

struct Line;

enum TicketState {
        TICKET_NONE,
        TICKET_WAITING,
        TICKET_RUNNING,
};

struct Ticket {
        enum TicketState state;
        struct Line *line;
        struct Ticket *next;
        usec_t deadline;
        struct Limits charge; /* what counts against the caller's sums */
        /* From the event loop. on_turn: may run now. on_refused: waited too long, or made way. */
        void (*on_turn)(void *userdata);
        void (*on_refused)(const struct Refusal *refusal, void *userdata);
        void *userdata;
};

struct Gate {
        uint64_t max_running;
        uint64_t running, waiting;
        const struct Config *config;
        struct Line *lines; /* ring order: the next to be served first */
        sd_event_source *timer, *turn;
};

int gate_init(struct Gate *g, sd_event *event);
void gate_done(struct Gate *g);
/* New bounds hold from now on; more room lets waiting ones in. config must live until the next call. */
void gate_set_bounds(struct Gate *g, const struct Config *config, uint64_t max_running);
/* 0 = runs now; TICKET_WAITING (1) = waits; REFUSE_RESOURCE_EXHAUSTED; REFUSE_INVALID_ARGUMENT: more than the caller may ever have;
 * -ENOMEM. */
int gate_enter(struct Gate *g, const char *caller, struct Ticket *t, struct Refusal *refusal);
/* Leaves the list, or gives the place back. Any state. */
void gate_leave(struct Gate *g, struct Ticket *t);
