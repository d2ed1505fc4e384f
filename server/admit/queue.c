/* Who may run now, and who waits. */
#include "server/admit/queue.h"

#define RETRY_AFTER (1 * USEC_PER_SEC)

struct Line {
        struct Line *next;
        struct Ticket *first;
        uint64_t running, waiting;
        char caller[];
};

/* Empty lines go. */
static void line_collect(struct Queue *q, struct Line *line) {
        if (line->running || line->waiting)
                return;
        for (struct Line **p = &q->lines; *p; p = &(*p)->next)
                if (*p == line) {
                        *p = line->next;
                        free(line);
                        return;
                }
}

static struct Line *line_get(struct Queue *q, const char *caller) {
        struct Line **p = &q->lines;

        for (; *p; p = &(*p)->next)
                if (streq((*p)->caller, caller))
                        return *p;
        size_t n = strlen(caller) + 1;
        struct Line *line = calloc(1, sizeof *line + n);
        if (!line)
                return NULL;
        memcpy(line->caller, caller, n);
        *p = line;
        return line;
}

static void line_to_end(struct Queue *q, struct Line *line) {
        struct Line **p = &q->lines;

        while (*p && *p != line)
                p = &(*p)->next;
        if (*p)
                *p = line->next;
        line->next = NULL;
        for (p = &q->lines; *p; p = &(*p)->next)
                ;
        *p = line;
}

static void ticket_unlink(struct Queue *q, struct Ticket *t) {
        for (struct Ticket **p = &t->line->first; *p; p = &(*p)->next)
                if (*p == t) {
                        *p = t->next;
                        break;
                }
        t->next = NULL;
        t->line->waiting--;
        q->waiting--;
}

static bool line_may_run(const struct Queue *q, const struct Line *line) {
        return q->running < q->max_running && line->running < q->max_running_per_caller;
}

static void ticket_grant(struct Queue *q, struct Ticket *t) {
        t->state = TICKET_RUNNING;
        t->line->running++;
        q->running++;
}

static struct Ticket *next_turn(struct Queue *q) {
        for (struct Line *line = q->lines; line; line = line->next)
                if (line->first && line_may_run(q, line))
                        return line->first;
        return NULL;
}

static int queue_on_turn(sd_event_source *source, void *userdata) {
        struct Queue *q = userdata;

        for (struct Ticket *t = next_turn(q); t; t = next_turn(q)) {
                ticket_unlink(q, t);
                line_to_end(q, t->line);
                ticket_grant(q, t);
                t->on_turn(t->userdata);
        }
        return 0;
}

static void schedule_turn(struct Queue *q) {
        if (q->waiting > 0)
                (void) sd_event_source_set_enabled(q->turn, SD_EVENT_ONESHOT);
}

static struct Ticket *first_expiring(const struct Queue *q) {
        struct Ticket *first = NULL;

        for (struct Line *line = q->lines; line; line = line->next)
                for (struct Ticket *t = line->first; t; t = t->next)
                        if (!first || t->deadline < first->deadline)
                                first = t;
        return first;
}

static void arm_timer(struct Queue *q) {
        struct Ticket *t = first_expiring(q);

        if (t)
                (void) sd_event_source_set_time(q->timer, t->deadline);
        (void) sd_event_source_set_enabled(q->timer, t ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static void ticket_refuse(struct Queue *q, struct Ticket *t, const char *why) {
        struct Refusal refusal;
        struct Line *line = t->line;

        (void) refuse(&refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "%s; try again later", why);
        refusal.retry_after = RETRY_AFTER;
        ticket_unlink(q, t);
        t->state = TICKET_NONE;
        t->line = NULL;
        line_collect(q, line);
        t->on_refused(&refusal, t->userdata);
}

static int queue_on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Queue *q = userdata;
        usec_t now = now_monotonic();

        for (struct Ticket *t = first_expiring(q); t && t->deadline <= now; t = first_expiring(q))
                ticket_refuse(q, t, "all places are taken, and none came free while the request waited");
        arm_timer(q);
        return 0;
}

int queue_init(struct Queue *q, sd_event *event) {
        *q = (struct Queue) {};
        int r = sd_event_add_time(event, &q->timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, queue_on_timer, q);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(q->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        r = sd_event_add_defer(event, &q->turn, queue_on_turn, q);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(q->turn, SD_EVENT_OFF);
}

void queue_done(struct Queue *q) {
        q->timer = sd_event_source_disable_unref(q->timer);
        q->turn = sd_event_source_disable_unref(q->turn);
        while (q->lines) {
                struct Line *line = q->lines;
                q->lines = line->next;
                free(line);
        }
}

void queue_set_bounds(struct Queue *q, uint64_t max_running, uint64_t per_caller, uint64_t max_waiting, usec_t wait_deadline) {
        q->max_running = max_running;
        q->max_running_per_caller = per_caller ? per_caller : max_running;
        q->max_waiting = max_waiting;
        q->wait_deadline = wait_deadline;
        schedule_turn(q);
}

/* Makes room in a full list at the cost of the caller with the most waiting. */
static bool make_way(struct Queue *q, const struct Line *line) {
        struct Line *most = NULL;

        for (struct Line *l = q->lines; l; l = l->next)
                if (!most || l->waiting > most->waiting)
                        most = l;
        if (!most || most->waiting <= line->waiting + 1)
                return false;
        struct Ticket *newest = most->first;
        while (newest->next)
                newest = newest->next;
        ticket_refuse(q, newest, "all places are taken, and the waiting list is shared fairly between callers");
        return true;
}

static void ticket_wait(struct Queue *q, struct Ticket *t) {
        struct Ticket **p = &t->line->first;

        while (*p)
                p = &(*p)->next;
        *p = t;
        t->next = NULL;
        t->state = TICKET_WAITING;
        t->deadline = now_monotonic() + q->wait_deadline;
        t->line->waiting++;
        q->waiting++;
        arm_timer(q);
}

int queue_enter(struct Queue *q, const char *caller, struct Ticket *t, struct Refusal *refusal) {
        struct Line *line = line_get(q, caller);

        if (!line)
                return -ENOMEM;
        t->line = line;
        if (!line->first && line_may_run(q, line) && q->waiting == 0) {
                ticket_grant(q, t);
                return 0;
        }
        if (q->waiting >= q->max_waiting && !make_way(q, line)) {
                (void) refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL,
                              "%llu executions run and %llu wait, which is all this server takes; try again later",
                              (unsigned long long) q->running, (unsigned long long) q->waiting);
                refusal->retry_after = RETRY_AFTER;
                t->line = NULL;
                line_collect(q, line);
                return REFUSE_RESOURCE_EXHAUSTED;
        }
        ticket_wait(q, t);
        schedule_turn(q);
        return TICKET_WAITING;
}

void queue_leave(struct Queue *q, struct Ticket *t) {
        struct Line *line = t->line;

        if (t->state == TICKET_WAITING) {
                ticket_unlink(q, t);
                arm_timer(q);
        } else if (t->state == TICKET_RUNNING) {
                line->running--;
                q->running--;
                schedule_turn(q);
        }
        t->state = TICKET_NONE;
        t->line = NULL;
        if (line)
                line_collect(q, line);
}
