/* Cells that are made before anyone asks for them, a stock for each runtime.
 *
 * How many: between the config's pool-min and pool-max, by demand. Whoever comes in vain doubles the goal; what was not needed for a while
 * halves it. When: a cell costs some milliseconds of a processor, which executions that run are not to pay. So the pool makes a few at a time,
 * and only when no execution has been started for a moment, unless half of the goal is gone. An interpreter that is started and warmed up costs
 * more than it saves: it gives time of idle processors for an answer that comes sooner. Where none is idle, one a second has to do. */
#include "spawner/pool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/log.h"

#define MAKING_MAX 2
#define QUIET (5 * USEC_PER_MSEC)    /* since a cell was taken */
#define REVIEW (10 * USEC_PER_SEC)
#define LOOK (20 * USEC_PER_MSEC)
#define BUSY_PAUSE USEC_PER_SEC
#define PAUSE_MIN (100 * USEC_PER_MSEC) /* after one could not be made; doubled each time */
#define PAUSE_MAX (60 * USEC_PER_SEC)

struct Stock {
        uint64_t min, max, goal;
        bool warm;
        struct Limits limits;
        LIST_HEAD(, Cell) cells;
        uint64_t n;
        uint64_t least;          /* of those ready, since the last review */
        usec_t pause, not_before;
};

struct Pool {
        struct CellWorld *world;
        struct CellOwner owner;
        void (*on_closed)(void *userdata);
        void *userdata;
        uint64_t part;           /* of all cells: no more are for stocks */
        uint64_t allowed;        /* cells of all stocks together */
        struct Stock *stocks;    /* by the runtime's index in the world's config */
        usec_t taken;            /* when the last cell was */
        long processors;
        usec_t look;             /* whether one of them is idle: not before */
        usec_t dear;             /* when an interpreter was last warmed up although none was */
        size_t next_dear;        /* the runtime that is looked at first */
        bool stopped;
        bool reviewed;           /* the review is due at some time */
        sd_event_source *timer, *review;
};

static void pool_plan(struct Pool *p);

static struct Stock *stock_of(struct Pool *p, const struct Cell *c) {
        return &p->stocks[c->runtime];
}

static void set_timer(sd_event_source *timer, usec_t when) {
        int r = sd_event_source_set_time(timer, when);
        if (r >= 0)
                r = sd_event_source_set_enabled(timer, when == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        if (r < 0)
                log_error_errno(r, "Failed to set a timer of the pool: %m");
}

static void review_at(struct Pool *p, usec_t when) {
        p->reviewed = when != USEC_INFINITY;
        set_timer(p->review, when);
}

/* Those that can be taken, and nothing more is done to them. Counted each time: a cell changes in ways that nobody tells. */
static uint64_t count_ready(const struct Stock *s) {
        const struct Cell *c;
        uint64_t n = 0;
        LIST_FOREACH(c, &s->cells, entry)
                n += c->state == CELL_READY && !c->warming;
        return n;
}

static void note_least(struct Stock *s) {
        s->least = MIN(s->least, count_ready(s));
}

static uint64_t making(const struct Pool *p) {
        uint64_t n = 0;
        for (size_t i = 0; i < p->world->config->n_runtimes; i++)
                n += p->stocks[i].n - count_ready(&p->stocks[i]);
        return n;
}

/* What cells say. */

/* A failure is in the journal already, and the cell closes. One that is lost is not taken any more, and goes in a moment: its run is still
 * looked at. */
static void pool_send(void *userdata, Glovebox__Internal__FromSpawner *m, const struct RunFds *fds) {
        struct Pool *p = userdata;
        if (m->message_case == GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_LOST)
                review_at(p, 0);
}

static void drop(struct Stock *s, struct Cell *c) {
        LIST_REMOVE(c, entry);
        s->n--;
        note_least(s);
}

static void stock_failed(struct Stock *s) {
        s->pause = MIN(MAX(2 * s->pause, PAUSE_MIN), PAUSE_MAX);
        s->not_before = now_monotonic() + s->pause;
}

static void pool_on_closed(void *userdata, struct Cell *c) {
        struct Pool *p = userdata;
        struct Stock *s = stock_of(p, c);
        bool failed = !c->orphan; /* orphans are those that were asked to go */
        drop(s, c);
        cell_free(c);
        if (failed)
                stock_failed(s);
        pool_plan(p);
        p->on_closed(p->userdata);
}

static void warm_up(struct Cell *c) {
        int r = c->kind->warm(c);
        if (r < 0 && r != -EAGAIN)
                cell_on_spoiled(c, r, "start what waits");
        else
                c->warming = r >= 0;
}

/* Its interpreters are started and warmed up, which costs more than what is done without that. A fork of a zygote, and the small process that becomes
 * a program, cost less. */
static bool is_dear(const struct Pool *p, const struct Stock *s) {
        const struct Runtime *runtime = &p->world->config->runtimes[s - p->stocks];
        return s->warm && runtime->runner && !runtime->zygote;
}

/* "0.20 0.18 0.12 3/256 12345": three run or want to, this process among them. What cannot be read is no reason to do without. */
static bool processors_are_busy(const struct Pool *p) {
        char text[128];
        long running = 0;
        int fd _cleanup_close_ = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
        return fd >= 0 && read_small(fd, text, sizeof text) > 0 && sscanf(text, "%*f %*f %*f %ld/", &running) == 1 && running - 1 >= p->processors;
}

static bool could_be_warmed(struct Cell *c) {
        return c->state == CELL_READY && !c->orphan && !c->lost && !c->warming && !c->kind->is_warm(c);
}

static bool wants_warmth(const struct Stock *s) {
        struct Cell *c;
        LIST_FOREACH(c, &s->cells, entry)
                if (could_be_warmed(c))
                        return true;
        return false;
}

/* What waits without an interpreter gets one: so many at a time. */
static void warm_some(struct Pool *p, struct Stock *s, uint64_t most) {
        struct Cell *c, *next;
        if (!s->warm)
                return;
        for (c = LIST_FIRST(&s->cells); c; c = next) {
                next = LIST_NEXT(c, entry); /* a failure frees at most c itself */
                if (!could_be_warmed(c))
                        continue;
                if (making(p) >= most)
                        return;
                warm_up(c);
                note_least(s);
        }
}

static void warm_cheap(struct Pool *p) {
        for (size_t i = 0; i < p->world->config->n_runtimes; i++)
                if (!is_dear(p, &p->stocks[i]))
                        warm_some(p, &p->stocks[i], MAKING_MAX);
}

/* Busy: one at a time and not before its time, which the runtimes take in turns. */
static void warm_dear(struct Pool *p) {
        size_t n = p->world->config->n_runtimes, first = p->next_dear;
        for (size_t k = 0; k < n; k++) {
                size_t i = (first + k) % n;
                struct Stock *s = &p->stocks[i];
                if (!is_dear(p, s) || !wants_warmth(s) || making(p) >= MAKING_MAX)
                        continue;
                bool busy = processors_are_busy(p);
                p->look = now_monotonic() + LOOK;
                if (busy && p->look < p->dear + BUSY_PAUSE)
                        return;
                p->dear = busy ? p->look : p->dear;
                p->next_dear = i + 1;
                warm_some(p, s, busy ? making(p) + 1 : MAKING_MAX);
        }
}

/* It is made, or its interpreter waits. Without a zygote it stays as it is until there is one. */
static void pool_on_ready(void *userdata, struct Cell *c) {
        struct Pool *p = userdata;
        struct Stock *s = stock_of(p, c);
        if (c->kind->is_warm(c) || !s->warm) {
                c->warming = false;
                s->pause = 0;
        }
        note_least(s);
        warm_cheap(p);
        pool_plan(p);
}

void pool_on_zygote(struct Pool *p, unsigned runtime) {
        warm_some(p, &p->stocks[runtime], MAKING_MAX);
        pool_plan(p);
}

static void retire(struct Cell *c) {
        c->orphan = true;
        cell_close(c);
}

/* Making. */

static int make_one(struct Pool *p, unsigned runtime) {
        struct Stock *s = &p->stocks[runtime];
        const struct CellSpec spec = {.runtime = runtime, .kind = &native_kind, .limits = s->limits, .tag = ""};
        struct Cell *c = NULL;
        int r = cell_new(p->world, &spec, &p->owner, &c);
        if (r < 0)
                return r;
        LIST_INSERT_HEAD(&s->cells, c, entry);
        s->n++;
        return 0;
}

static uint64_t total(const struct Pool *p) {
        uint64_t n = 0;
        for (size_t i = 0; i < p->world->config->n_runtimes; i++)
                n += p->stocks[i].n;
        return n;
}

/* The time before which none of this stock is to be made; USEC_INFINITY = none is wanted. */
static usec_t when_to_make(const struct Pool *p, const struct Stock *s) {
        if (s->n >= s->goal)
                return USEC_INFINITY;
        bool is_low = 2 * s->n < s->goal;
        return MAX(s->not_before, is_low ? 0 : p->taken + QUIET);
}

/* The stock that lacks most is first. Cells are made from the timer alone: whoever takes one is served before. */
static void pool_plan(struct Pool *p) {
        usec_t first = USEC_INFINITY;
        bool occupied = p->stopped || making(p) >= MAKING_MAX, full = total(p) >= p->allowed;
        for (size_t i = 0; i < p->world->config->n_runtimes && !occupied; i++) {
                const struct Stock *s = &p->stocks[i];
                if (is_dear(p, s) && wants_warmth(s))
                        first = MIN(first, p->look);
                if (!full)
                        first = MIN(first, when_to_make(p, s));
        }
        set_timer(p->timer, first);
}

static int pool_on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Pool *p = userdata;
        struct Stock *best = NULL;
        usec_t now = now_monotonic();
        warm_cheap(p);
        if (now >= p->look)
                warm_dear(p);
        bool may = making(p) < MAKING_MAX && total(p) < p->allowed;
        for (size_t i = 0; i < p->world->config->n_runtimes && may; i++) {
                struct Stock *s = &p->stocks[i];
                if (when_to_make(p, s) <= now && (!best || s->goal - s->n > best->goal - best->n))
                        best = s;
        }
        if (best) {
                int r = make_one(p, (unsigned) (best - p->stocks));
                if (r < 0) {
                        stock_failed(best);
                        if (log_limit_pass(&p->world->complaints))
                                log_warning_errno(r, "Failed to make a cell ahead: %m");
                }
        }
        pool_plan(p);
        return 0;
}

/* Half of what nobody has needed since the last look goes. True: there is more to take back. */
static bool review_stock(struct Stock *s) {
        uint64_t spare = (s->least + 1) / 2;
        s->goal = MAX(s->min, s->goal - MIN(spare, s->goal));
        uint64_t keep = s->goal;
        struct Cell *c, *next;
        for (c = LIST_FIRST(&s->cells); c; c = next) {
                next = LIST_NEXT(c, entry); /* closing frees at most c itself */
                if (c->orphan || c->state != CELL_READY)
                        continue;
                if (c->lost || keep == 0)
                        retire(c);
                else
                        keep--;
        }
        s->least = count_ready(s);
        return s->goal > s->min;
}

static int pool_on_review(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Pool *p = userdata;
        bool again = false;
        for (size_t i = 0; i < p->world->config->n_runtimes; i++)
                again |= review_stock(&p->stocks[i]);
        review_at(p, again ? now_monotonic() + REVIEW : USEC_INFINITY);
        pool_plan(p);
        return 0;
}

/* Taking. */

static struct Cell *find(struct Stock *s, const struct CellSpec *spec) {
        struct Cell *c, *best = NULL;
        LIST_FOREACH(c, &s->cells, entry) {
                if (c->state != CELL_READY || c->orphan || c->lost || c->kind != spec->kind)
                        continue;
                if (c->kind->is_warm(c) || !s->warm)
                        return c;
                if (!best || !c->warming)
                        best = c;
        }
        return best;
}

struct Cell *pool_take(struct Pool *p, const struct CellSpec *spec, const struct CellOwner *owner) {
        struct Stock *s = &p->stocks[spec->runtime];
        if (p->stopped || spec->slice || spec->aside || s->max == 0)
                return NULL;
        p->taken = now_monotonic();
        struct Cell *c = find(s, spec);
        if (!c)
                s->goal = MIN(s->max, MAX(2 * s->goal, (uint64_t) 1));
        if (!p->reviewed && s->goal > s->min)
                review_at(p, p->taken + REVIEW);
        if (c && cell_adopt(c, spec, owner) < 0)
                c = NULL;
        if (c) {
                drop(s, c);
                c->warming = false;
        }
        pool_plan(p);
        return c;
}

/* Its life. */

static void take_config(struct Pool *p, const struct Config *config) {
        const struct Config *own = p->world->config;
        uint64_t left = p->allowed;
        for (size_t i = 0; i < own->n_runtimes; i++) {
                const struct Runtime *runtime = config_runtime(config, own->runtimes[i].key);
                struct Stock *s = &p->stocks[i];
                if (!runtime) { /* it is offered no longer */
                        s->min = s->max = s->goal = 0;
                        continue;
                }
                s->max = config->pool ? MIN(runtime->pool_max, left) : 0;
                s->min = s->goal = s->least = MIN(runtime->pool_min, s->max);
                s->warm = own->runtimes[i].warm; /* as its cells go by; another one needs a restart */
                left -= s->max;
                config_limits(config, runtime, config_profile(config, runtime->profile), &s->limits);
                limits_clamp(&s->limits, &runtime->caps);
        }
}

static void retire_all(struct Pool *p) {
        for (size_t i = 0; i < p->world->config->n_runtimes; i++) {
                struct Cell *c, *next;
                for (c = LIST_FIRST(&p->stocks[i].cells); c; c = next) {
                        next = LIST_NEXT(c, entry);
                        retire(c);
                }
        }
}

static uint64_t wanted_by_all(const struct Pool *p, const struct Config *config) {
        uint64_t n = 0;
        for (size_t i = 0; i < p->world->config->n_runtimes; i++) {
                const struct Runtime *runtime = config_runtime(config, p->world->config->runtimes[i].key);
                n += runtime ? (uint64_t) runtime->pool_max : 0;
        }
        return n;
}

/* What executions do without was decided at the start, so a reload may not be able to give what a restart would. */
static void tell_cuts(const struct Pool *p, const struct Config *config) {
        const struct Config *own = p->world->config;
        uint64_t wanted = wanted_by_all(p, config);
        for (size_t i = 0; i < own->n_runtimes && config->pool; i++) {
                const struct Runtime *runtime = config_runtime(config, own->runtimes[i].key);
                uint64_t got = p->stocks[i].max;
                if (!runtime || got >= (uint64_t) runtime->pool_max)
                        continue;
                if (wanted > p->part)
                        log_notice("Runtime %s has pool-max = %" PRIu64 " and not %d: all pools together want %" PRIu64 " cells, and a quarter of "
                                   "all cells is %" PRIu64 "; lower pool-max of others, or raise max-cells in [spawner].",
                                   runtime->key, got, (int) runtime->pool_max, wanted, p->part);
                else
                        log_notice("Runtime %s has pool-max = %" PRIu64 " from now on; the rest of it needs a restart of the spawner.",
                                   runtime->key, got);
        }
}

void pool_reload(struct Pool *p, const struct Config *config) {
        if (p->stopped)
                return;
        take_config(p, config);
        tell_cuts(p, config);
        retire_all(p);
        pool_plan(p);
}

int pool_new(struct CellWorld *world, uint64_t max_cells, void (*on_closed)(void *userdata), void *userdata, struct Pool **ret) {
        struct Pool *p _cleanup_(pool_freep) = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        *p = (struct Pool) {.world = world, .part = max_cells / POOL_PART, .on_closed = on_closed, .userdata = userdata};
        p->allowed = world->config->pool ? p->part : 0;
        p->processors = MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
        p->owner = (struct CellOwner) {.send = pool_send, .on_closed = pool_on_closed, .on_ready = pool_on_ready, .userdata = p};
        p->stocks = calloc(MAX(world->config->n_runtimes, (size_t) 1), sizeof *p->stocks);
        if (!p->stocks)
                return -ENOMEM;
        take_config(p, world->config);
        tell_cuts(p, world->config);
        p->allowed = pool_max(p); /* all that executions do without, also after a reload */
        int r = sd_event_add_time(world->event, &p->timer, CLOCK_MONOTONIC, USEC_INFINITY, 500, pool_on_timer, p);
        if (r >= 0)
                r = sd_event_source_set_priority(p->timer, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_add_time(world->event, &p->review, CLOCK_MONOTONIC, USEC_INFINITY, USEC_PER_SEC, pool_on_review, p);
        if (r < 0)
                return r;
        pool_plan(p);
        *ret = TAKE_PTR(p);
        return 0;
}

void pool_stop(struct Pool *p) {
        p->stopped = true;
        set_timer(p->timer, USEC_INFINITY);
        review_at(p, USEC_INFINITY);
        retire_all(p);
}

bool pool_is_empty(const struct Pool *p) {
        return total(p) == 0;
}

uint64_t pool_max(const struct Pool *p) {
        uint64_t n = 0;
        for (size_t i = 0; i < p->world->config->n_runtimes; i++)
                n += p->stocks[i].max;
        return n;
}

struct Pool *pool_free(struct Pool *p) {
        if (!p)
                return NULL;
        sd_event_source_disable_unref(p->timer);
        sd_event_source_disable_unref(p->review);
        for (size_t i = 0; p->stocks && i < p->world->config->n_runtimes; i++) {
                struct Cell *c;
                while ((c = LIST_FIRST(&p->stocks[i].cells))) {
                        LIST_REMOVE(c, entry);
                        cell_free(c);
                }
        }
        free(p->stocks);
        free(p);
        return NULL;
}
