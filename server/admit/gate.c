/* Who may run now, and who waits. */
#include "server/admit/gate.h"

#include <stdio.h>

#define RETRY_AFTER (1 * USEC_PER_SEC)

struct Line {
        struct Line *next;
        struct Ticket *first;
        uint64_t running, waiting;
        uint64_t max_running;
        struct Limits together, used; /* sums of the running ones' limits: bound, and now */
        char caller[];
};

/* What this caller may have, by the config of now. */
static void line_set_bounds(const struct Gate *g, struct Line *line) {
        const struct CallerRule *rule = config_caller(g->config, line->caller);
        uint64_t shared = g->config->max_executions_per_caller;

        line->together = rule ? rule->together : (struct Limits) {};
        line->max_running = rule && rule->max_executions ? rule->max_executions : shared ? shared : UINT64_MAX;
}

/* Empty lines go. */
static void line_collect(struct Gate *g, struct Line *line) {
        if (line->running || line->waiting)
                return;
        for (struct Line **p = &g->lines; *p; p = &(*p)->next)
                if (*p == line) {
                        *p = line->next;
                        free(line);
                        return;
                }
}

static struct Line *line_get(struct Gate *g, const char *caller) {
        struct Line **p = &g->lines;

        for (; *p; p = &(*p)->next)
                if (streq((*p)->caller, caller))
                        return *p;
        size_t n = strlen(caller) + 1;
        struct Line *line = calloc(1, sizeof *line + n);
        if (!line)
                return NULL;
        memcpy(line->caller, caller, n);
        line_set_bounds(g, line);
        *p = line;
        return line;
}

static void line_to_end(struct Gate *g, struct Line *line) {
        struct Line **p = &g->lines;

        while (*p && *p != line)
                p = &(*p)->next;
        if (*p)
                *p = line->next;
        line->next = NULL;
        for (p = &g->lines; *p; p = &(*p)->next)
                ;
        *p = line;
}

static void ticket_unlink(struct Gate *g, struct Ticket *t) {
        for (struct Ticket **p = &t->line->first; *p; p = &(*p)->next)
                if (*p == t) {
                        *p = t->next;
                        break;
                }
        t->next = NULL;
        t->line->waiting--;
        g->waiting--;
}

/* The first bound that the caller's sums, and this on top of them, would break. */
static const struct LimitInfo *line_exceeded(const struct Line *line, const struct Limits *used, const struct Limits *charge) {
        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                double bound = info->controller ? limit_get(&line->together, info) : 0;
                /* Cores are fractions, whose sum may miss the bound by a hair. */
                if (bound > 0 && limit_get(used, info) + limit_get(charge, info) > bound + 1e-6)
                        return info;
        }
        return NULL;
}

static bool line_may_run(const struct Gate *g, const struct Ticket *t) {
        const struct Line *line = t->line;
        return g->running < g->max_running && line->running < line->max_running && !line_exceeded(line, &line->used, &t->charge);
}

static void line_charge(struct Line *line, const struct Limits *charge, int sign) {
        for (const struct LimitInfo *info = limit_table; info->field; info++)
                if (info->controller)
                        limit_set(&line->used, info, limit_get(&line->used, info) + sign * limit_get(charge, info));
        if (line->running == 0)
                line->used = (struct Limits) {}; /* no rounding adds up */
}

static void ticket_grant(struct Gate *g, struct Ticket *t) {
        t->state = TICKET_RUNNING;
        t->line->running++;
        line_charge(t->line, &t->charge, 1);
        g->running++;
}

static struct Ticket *next_turn(struct Gate *g) {
        for (struct Line *line = g->lines; line; line = line->next)
                if (line->first && line_may_run(g, line->first))
                        return line->first;
        return NULL;
}

static int gate_on_turn(sd_event_source *source, void *userdata) {
        struct Gate *g = userdata;

        for (struct Ticket *t = next_turn(g); t; t = next_turn(g)) {
                ticket_unlink(g, t);
                line_to_end(g, t->line);
                ticket_grant(g, t);
                t->on_turn(t->userdata);
        }
        return 0;
}

static void schedule_turn(struct Gate *g) {
        if (g->waiting > 0)
                (void) sd_event_source_set_enabled(g->turn, SD_EVENT_ONESHOT);
}

static struct Ticket *first_expiring(const struct Gate *g) {
        struct Ticket *first = NULL;

        for (struct Line *line = g->lines; line; line = line->next)
                for (struct Ticket *t = line->first; t; t = t->next)
                        if (!first || t->deadline < first->deadline)
                                first = t;
        return first;
}

static void arm_timer(struct Gate *g) {
        struct Ticket *t = first_expiring(g);

        if (t)
                (void) sd_event_source_set_time(g->timer, t->deadline);
        (void) sd_event_source_set_enabled(g->timer, t ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static void ticket_refuse(struct Gate *g, struct Ticket *t, const char *why) {
        struct Refusal refusal;
        struct Line *line = t->line;

        (void) refuse(&refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "%s; try again later", why);
        refusal.retry_after = RETRY_AFTER;
        ticket_unlink(g, t);
        t->state = TICKET_NONE;
        t->line = NULL;
        line_collect(g, line);
        t->on_refused(&refusal, t->userdata);
}

/* Which of the caller's own bounds has kept it waiting, by the operator's key; NULL: none, it was the server's. */
static const char *own_bound(const struct Gate *g, const struct Ticket *t) {
        const struct LimitInfo *info = line_exceeded(t->line, &t->line->used, &t->charge);

        if (info)
                return info->key;
        return t->line->running >= t->line->max_running && g->running < g->max_running ? "max-executions" : NULL;
}

static void ticket_expire(struct Gate *g, struct Ticket *t) {
        char why[160];
        const char *key = own_bound(g, t);

        if (key)
                (void) snprintf(why, sizeof why, "your own executions use all the %s that you may have at once, and none ended while the request waited", key);
        else
                (void) snprintf(why, sizeof why, "all places are taken, and none came free while the request waited");
        ticket_refuse(g, t, why);
}

static int gate_on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Gate *g = userdata;
        usec_t now = now_monotonic();

        for (struct Ticket *t = first_expiring(g); t && t->deadline <= now; t = first_expiring(g))
                ticket_expire(g, t);
        arm_timer(g);
        return 0;
}

int gate_init(struct Gate *g, sd_event *event) {
        *g = (struct Gate) {};
        int r = sd_event_add_time(event, &g->timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, gate_on_timer, g);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(g->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        r = sd_event_add_defer(event, &g->turn, gate_on_turn, g);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(g->turn, SD_EVENT_OFF);
}

void gate_done(struct Gate *g) {
        g->timer = sd_event_source_disable_unref(g->timer);
        g->turn = sd_event_source_disable_unref(g->turn);
        while (g->lines) {
                struct Line *line = g->lines;
                g->lines = line->next;
                free(line);
        }
}

void gate_set_bounds(struct Gate *g, const struct Config *config, uint64_t max_running) {
        g->config = config;
        g->max_running = max_running;
        for (struct Line *line = g->lines; line; line = line->next)
                line_set_bounds(g, line);
        schedule_turn(g);
}

/* Makes room in a full list at the cost of the caller with the most waiting. */
static bool make_way(struct Gate *g, const struct Line *line) {
        struct Line *most = NULL;

        for (struct Line *l = g->lines; l; l = l->next)
                if (!most || l->waiting > most->waiting)
                        most = l;
        if (!most || most->waiting <= line->waiting + 1)
                return false;
        struct Ticket *newest = most->first;
        while (newest->next)
                newest = newest->next;
        ticket_refuse(g, newest, "all places are taken, and the waiting list is shared fairly between callers");
        return true;
}

static void ticket_wait(struct Gate *g, struct Ticket *t) {
        struct Ticket **p = &t->line->first;

        while (*p)
                p = &(*p)->next;
        *p = t;
        t->next = NULL;
        t->state = TICKET_WAITING;
        t->deadline = now_monotonic() + g->config->wait_deadline;
        t->line->waiting++;
        g->waiting++;
        arm_timer(g);
}

/* More than the caller may ever have: waiting would not help. */
static int refuse_never(const struct Line *line, const struct LimitInfo *info, const struct Limits *charge, struct Refusal *refusal) {
        char field[64], asked[40], bound[40];

        (void) snprintf(field, sizeof field, "limits.%s", info->field);
        return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "%s is above the %s that the operator allows all executions of %s together; ask for less",
                      limit_format(info, limit_get(charge, info), asked, sizeof asked),
                      limit_format(info, limit_get(&line->together, info), bound, sizeof bound), line->caller);
}

int gate_enter(struct Gate *g, const char *caller, struct Ticket *t, struct Refusal *refusal) {
        struct Line *line = line_get(g, caller);

        if (!line)
                return -ENOMEM;
        const struct LimitInfo *exceeded = line_exceeded(line, &(struct Limits) {}, &t->charge);
        if (exceeded) {
                int r = refuse_never(line, exceeded, &t->charge, refusal);
                line_collect(g, line);
                return r;
        }
        t->line = line;
        if (!line->first && line_may_run(g, t) && g->waiting == 0) {
                ticket_grant(g, t);
                return 0;
        }
        if (g->waiting >= g->config->max_waiting && !make_way(g, line)) {
                (void) refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL,
                              "%llu executions run and %llu wait, which is all this server takes; try again later",
                              (unsigned long long) g->running, (unsigned long long) g->waiting);
                refusal->retry_after = RETRY_AFTER;
                t->line = NULL;
                line_collect(g, line);
                return REFUSE_RESOURCE_EXHAUSTED;
        }
        ticket_wait(g, t);
        schedule_turn(g);
        return TICKET_WAITING;
}

void gate_leave(struct Gate *g, struct Ticket *t) {
        struct Line *line = t->line;

        if (t->state == TICKET_WAITING) {
                ticket_unlink(g, t);
                arm_timer(g);
        } else if (t->state == TICKET_RUNNING) {
                line->running--;
                line_charge(line, &t->charge, -1);
                g->running--;
                schedule_turn(g);
        }
        t->state = TICKET_NONE;
        t->line = NULL;
        if (line)
                line_collect(g, line);
}
