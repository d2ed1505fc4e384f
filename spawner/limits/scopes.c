/* All scopes of one spawner: the slices they are in, their turns at PID 1, and what PID 1 says of them.
 *
 * PID 1 has one thread and does some 500 scopes a second, whatever is asked at once: four calls are under way, the rest wait here. Its
 * signals can be missed (a restart of the bus or of itself), so each doubt is settled by the list of units. */
#include "spawner/limits/scope.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/log.h"

#define IN_FLIGHT_MAX 4
#define LOOK_PAUSE (100 * USEC_PER_MSEC)
#define PARENT "glovebox.slice"

/* Turns. */

void scopes_queue(struct Scope *c, int queue) {
        struct Scopes *s = c->owner;
        if (c->queued == QUEUED_START)
                TAILQ_REMOVE(&s->starts, c, turn);
        else if (c->queued == QUEUED_STOP)
                TAILQ_REMOVE(&s->stops, c, turn);
        c->queued = queue;
        if (queue == QUEUED_START)
                TAILQ_INSERT_TAIL(&s->starts, c, turn);
        else if (queue == QUEUED_STOP)
                TAILQ_INSERT_TAIL(&s->stops, c, turn);
}

void scopes_landed(struct Scopes *s, bool *in_flight) {
        if (!*in_flight)
                return;
        *in_flight = false;
        s->in_flight--;
}

static void pool_start(struct Pool *p);

/* Stops come first: they make room. */
static struct Scope *next_turn(struct Scopes *s) {
        struct Scope *c = TAILQ_FIRST(&s->stops);
        if (c)
                return c;
        TAILQ_FOREACH(c, &s->starts, turn) {
                if (c->pool->state == POOL_DOWN && s->in_flight < IN_FLIGHT_MAX)
                        pool_start(c->pool);
                if (c->pool->state == POOL_UP)
                        return c;
        }
        return NULL;
}

void scopes_pump(struct Scopes *s) {
        struct Scope *c;
        while (manager_is_ready(s->manager) && !manager_is_reloading(s->manager) && s->in_flight < IN_FLIGHT_MAX && (c = next_turn(s)))
                scope_send(c);
}

/* Slices. */

static void pool_fail(struct Pool *p, int error) {
        struct Scope *c, *next;
        p->state = POOL_DOWN;
        for (c = TAILQ_FIRST(&p->owner->starts); c; c = next) {
                next = TAILQ_NEXT(c, turn);
                if (c->pool == p)
                        scope_fail(c, error, "its slice cannot be started");
        }
}

static void pool_on_answer(struct ManagerCall *call, int answer, const char *words) {
        struct Pool *p = CONTAINER_OF(call, struct Pool, call);
        struct Scopes *s = p->owner;
        if (answer == 0)
                return; /* its job's end comes as a signal */
        scopes_landed(s, &p->in_flight);
        if (answer == MANAGER_LOST) {
                p->state = POOL_DOWN;
        } else if (answer == MANAGER_EXISTS) {
                p->state = POOL_UP; /* of the operator's making, or the answer to a call that was lost */
        } else if (answer == -EDEADLK) {
                /* A stop of it, of an earlier life's most likely, is under way; the scopes' deadlines go on meanwhile. */
                p->state = POOL_DOWN;
                scopes_look_again(s);
                return;
        } else {
                log_warning("PID 1 refuses to start %s: %s", p->slice, words);
                snprintf(s->refusal, sizeof s->refusal, "%s", words);
                pool_fail(p, answer < 0 ? answer : -EIO);
        }
        scopes_pump(s);
}

/* Without being asked PID 1 makes it too, but then it stays for ever. Where the operator has installed one, that is the one. */
static void group_on_answer(struct ManagerCall *call, int answer, const char *words) {
        struct Pool *p = CONTAINER_OF(call, struct Pool, parent);
        if (answer < 0 && answer != -EDEADLK)
                log_warning("PID 1 refuses to start the slice above %s: %s", p->slice, words);
}

static void group_start(struct Pool *p) {
        char name[UNIT_NAME_LEN];
        snprintf(name, sizeof name, "glovebox-%.32s.slice", p->group);
        const struct UnitPlan plan = {.name = name, .description = "Glovebox: cells of callers of their own", .is_for_others = true};
        p->parent.on_answer = group_on_answer;
        if (!p->parent.slot && manager_start_unit(p->owner->manager, &p->parent, &plan) < 0)
                log_warning("PID 1 cannot be asked for %s.", name);
}

static uint64_t times(uint64_t a, uint64_t n) {
        return a > UINT64_MAX / n ? UINT64_MAX : a * n;
}

static struct Ceilings pool_ceilings(const struct Scopes *s) {
        const struct Ceilings *one = &s->setup.ceilings;
        unsigned n = s->setup.per_slice;
        return (struct Ceilings) {.memory_bytes = times(one->memory_bytes, n), .processes = times(one->processes, n), .cpus = one->cpus * n};
}

static void pool_start(struct Pool *p) {
        const struct UnitPlan plan = {
                .name = p->slice,
                .description = "Glovebox: cells",
                .bound = p->owner->bound,
                .is_at_once = true,
                .ceilings = pool_ceilings(p->owner),
        };
        if (p->group)
                group_start(p);
        manager_forget(&p->call); /* of its ceilings: it went while they were being changed */
        p->call.on_answer = pool_on_answer;
        p->asked_list = p->owner->lists;
        int r = manager_start_unit(p->owner->manager, &p->call, &plan);
        if (r < 0) {
                log_warning_errno(r, "PID 1 cannot be asked for %s: %m", p->slice);
                return; /* the scopes' deadlines go on */
        }
        p->state = POOL_ASKED;
        p->in_flight = true;
        p->owner->in_flight++;
}

static void pool_on_job(struct Pool *p, const char *result) {
        if (p->state != POOL_ASKED)
                return;
        manager_forget(&p->call);
        scopes_landed(p->owner, &p->in_flight);
        if (streq(result, "done"))
                p->state = POOL_UP;
        else
                pool_fail(p, -EIO);
}

static struct Pool *pool_by_name(const struct Scopes *s, const char *name) {
        for (size_t i = 0; i < s->n_pools; i++)
                if (streq(s->pools[i]->slice, name))
                        return s->pools[i];
        return NULL;
}

int scopes_pool(struct Scopes *s, const char *group, struct Pool **ret) {
        unsigned k = 0;
        for (size_t i = 0; i < s->n_pools; i++) {
                if (!streq(strempty(s->pools[i]->group), strempty(group)))
                        continue;
                if (s->pools[i]->n_live < s->setup.per_slice) {
                        *ret = s->pools[i];
                        return 0;
                }
                k++;
        }
        struct Pool **grown = reallocarray(s->pools, s->n_pools + 1, sizeof *grown);
        if (!grown)
                return -ENOMEM;
        s->pools = grown;
        struct Pool *p = calloc(1, sizeof *p);
        if (!p)
                return -ENOMEM;
        p->owner = s;
        p->group = group;
        names_pool(s->setup.names, group, k, p->slice);
        s->pools[s->n_pools++] = p;
        *ret = p;
        return 0;
}

/* The list. */

static int scopes_on_relist(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Scopes *s = userdata;
        s->relist = sd_event_source_disable_unref(s->relist);
        if (!manager_is_ready(s->manager))
                return 0; /* it is asked for when the connection is back */
        if (s->is_listing) {
                s->list_again = true;
                return 0;
        }
        struct Scope *c;
        LIST_FOREACH(c, &s->all, entry)
                c->seen = false;
        for (size_t i = 0; i < s->n_pools; i++)
                s->pools[i]->seen = false;
        s->lists++;
        s->is_listing = manager_list(s->manager, NAMES_PATTERN) >= 0;
        if (!s->is_listing)
                scopes_look_again(s);
        return 0;
}

static void scopes_list_after(struct Scopes *s, usec_t time) {
        if (s->relist)
                return;
        int r = sd_event_add_time_relative(s->setup.event, &s->relist, CLOCK_MONOTONIC, time, 0, scopes_on_relist, s);
        if (r < 0)
                sd_event_exit(s->setup.event, log_error_errno(r, "Failed to plan a look at the units, giving up: %m"));
}

void scopes_look_again(struct Scopes *s) {
        scopes_list_after(s, LOOK_PAUSE);
}

static struct Scope *scope_by_name(const struct Scopes *s, const char *name) {
        uint64_t number = names_number(s->setup.names, name);
        struct Scope *c;
        LIST_FOREACH(c, &s->all, entry)
                if (c->number == number && streq(c->name, name))
                        return c;
        return NULL;
}

static void scopes_on_unit(const char *unit, bool is_active, bool is_settled, void *userdata) {
        struct Scopes *s = userdata;
        if (!names_is_ours(s->setup.names, unit) || streq(unit, s->own))
                return;
        struct Scope *c = scope_by_name(s, unit);
        struct Pool *p = pool_by_name(s, unit);
        if (c) {
                c->seen = true;
                scope_on_seen(c, is_active, is_settled);
        } else if (p) {
                p->seen = true;
                if (p->state == POOL_ASKED && is_settled && !p->call.slot)
                        pool_on_job(p, is_active ? "done" : "lost");
        } else if (scope_adopt(s, unit) < 0) {
                scopes_look_again(s);
        }
}

static void scopes_on_listed(int error, void *userdata) {
        struct Scopes *s = userdata;
        s->is_listing = false;
        if (error < 0 || s->list_again)
                scopes_look_again(s);
        s->list_again = false;
        if (error < 0)
                return;
        struct Scope *c, *next;
        for (c = LIST_FIRST(&s->all); c; c = next) {
                next = LIST_NEXT(c, entry); /* at most c itself is freed */
                if (!c->seen && c->asked_list < s->lists)
                        scope_on_missing(c);
        }
        for (size_t i = 0; i < s->n_pools; i++) {
                struct Pool *p = s->pools[i];
                if (p->seen || p->asked_list >= s->lists || p->state == POOL_DOWN || p->call.slot)
                        continue;
                scopes_landed(s, &p->in_flight);
                p->state = POOL_DOWN;
        }
        s->has_listed = true;
        scopes_pump(s);
}

/* What PID 1 says by itself. */

static void scopes_on_job(const char *unit, const char *result, void *userdata) {
        struct Scopes *s = userdata;
        if (streq(unit, s->own) && s->self_answer > 0)
                s->self_answer = streq(result, "done") ? 0 : -EIO;
        if (!names_is_ours(s->setup.names, unit))
                return;
        struct Pool *p = pool_by_name(s, unit);
        struct Scope *c = p ? NULL : scope_by_name(s, unit);
        if (p)
                pool_on_job(p, result);
        else if (c)
                scope_on_job(c, result);
        scopes_pump(s);
}

static void scopes_on_removed(const char *unit, void *userdata) {
        struct Scopes *s = userdata;
        if (!names_is_ours(s->setup.names, unit))
                return;
        struct Pool *p = pool_by_name(s, unit);
        struct Scope *c = scope_by_name(s, unit); /* also a slice of an earlier life */
        if (p && p->state == POOL_UP)
                p->state = POOL_DOWN;
        if (c)
                scope_on_removed(c);
        scopes_pump(s);
}

/* Everything is below it, and it goes with the last of them, unless it is installed and then stays. */
static void scopes_on_parent(struct ManagerCall *call, int answer, const char *words) {
        struct Scopes *s = CONTAINER_OF(call, struct Scopes, parent);
        s->wants_parent = answer == MANAGER_LOST;
        if (answer < 0)
                log_warning("PID 1 refuses to start " PARENT ": %s", words);
}

static void scopes_on_ready(void *userdata) {
        struct Scopes *s = userdata;
        const struct UnitPlan parent = {.name = PARENT, .description = "Glovebox", .is_for_others = true};
        s->parent.on_answer = scopes_on_parent;
        if (s->wants_parent && !s->parent.slot && manager_start_unit(s->manager, &s->parent, &parent) >= 0)
                s->wants_parent = false;
        scopes_list_after(s, 0);
        scopes_pump(s);
}

bool scopes_is_clean(const struct Scopes *s) {
        return s->has_listed && LIST_EMPTY(&s->all);
}

/* Ceilings. A unit that is on its way has those it was asked for with: above it the slices', below it the leaves' own limits hold. */

static void pool_on_ceilings(struct ManagerCall *call, int answer, const char *words) {
        struct Pool *p = CONTAINER_OF(call, struct Pool, call);
        if (answer < 0)
                log_warning_errno(answer, "PID 1 does not change the ceilings of %s (%s): %m", p->slice, words);
}

static void scope_on_ceilings(struct ManagerCall *call, int answer, const char *words) {
        struct Scope *c = CONTAINER_OF(call, struct Scope, call);
        if (answer < 0 && c->state == SCOPE_UP)
                log_warning_errno(answer, "PID 1 does not change the ceilings of %s (%s): %m", c->name, words);
}

void scopes_set_ceilings(struct Scopes *s, const struct Ceilings *ceilings) {
        struct Scope *c;
        s->setup.ceilings = *ceilings;
        const struct Ceilings all = pool_ceilings(s);
        for (size_t i = 0; i < s->n_pools; i++) {
                struct Pool *p = s->pools[i];
                p->call.on_answer = p->call.slot ? p->call.on_answer : pool_on_ceilings;
                if (p->state == POOL_UP && !p->call.slot && manager_set_ceilings(s->manager, &p->call, p->slice, &all) < 0)
                        log_warning("PID 1 cannot be asked to change the ceilings of %s.", p->slice);
        }
        LIST_FOREACH(c, &s->all, entry) {
                if (c->state != SCOPE_UP || c->call.slot)
                        continue;
                c->call.on_answer = scope_on_ceilings;
                if (manager_set_ceilings(s->manager, &c->call, c->name, ceilings) < 0)
                        log_warning("PID 1 cannot be asked to change the ceilings of %s.", c->name);
        }
}

/* Its own scope. */

static void scopes_on_self(struct ManagerCall *call, int answer, const char *words) {
        struct Scopes *s = CONTAINER_OF(call, struct Scopes, self);
        if (answer == 0 || s->self_answer <= 0)
                return;
        snprintf(s->refusal, sizeof s->refusal, "%s", words);
        s->self_answer = answer < 0 ? answer : -EIO;
}

int scopes_make_own(struct Scopes *s) {
        names_own_scope(s->setup.names, ++s->last_number, s->own);
        const struct UnitPlan plan = {
                .name = s->own,
                .description = "Glovebox: the spawner, which was started by hand",
                .pid = getpid(),
                .is_mild = true,
        };
        s->self.on_answer = scopes_on_self;
        s->self_answer = 1;
        snprintf(s->bound, sizeof s->bound, "%s", s->own);
        return manager_start_unit(s->manager, &s->self, &plan);
}

int scopes_own(const struct Scopes *s) {
        return s->self_answer;
}

int scopes_new(const struct ScopesSetup *setup, struct Scopes **ret) {
        struct Scopes *s _cleanup_(scopes_freep) = calloc(1, sizeof *s);
        if (!s)
                return -ENOMEM;
        s->setup = *setup;
        s->wants_parent = true;
        /* Never used twice in a boot: no life makes more than one a microsecond. */
        s->last_number = now_monotonic();
        LIST_INIT(&s->all);
        TAILQ_INIT(&s->starts);
        TAILQ_INIT(&s->stops);
        const struct ManagerHandler handler = {
                .on_ready = scopes_on_ready, .on_job = scopes_on_job, .on_removed = scopes_on_removed, .on_unit = scopes_on_unit,
                .on_listed = scopes_on_listed, .userdata = s,
        };
        int r = manager_new(setup->event, &handler, &s->manager);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

struct Scopes *scopes_free(struct Scopes *s) {
        if (!s)
                return NULL;
        struct Scope *c;
        while ((c = LIST_FIRST(&s->all)))
                scope_free(c);
        for (size_t i = 0; i < s->n_pools; i++) {
                manager_forget(&s->pools[i]->call);
                manager_forget(&s->pools[i]->parent);
                free(s->pools[i]);
        }
        free(s->pools);
        manager_free(s->manager);
        leaders_free(s->leaders);
        sd_event_source_disable_unref(s->relist);
        free(s);
        return NULL;
}

#define STOP_NOW_TIME (2 * USEC_PER_SEC)

void scopes_stop_now(struct Scopes *s) {
        for (size_t i = 0; i < s->n_pools; i++)
                if (s->pools[i]->state != POOL_DOWN && manager_stop_now(s->manager, s->pools[i]->slice, STOP_NOW_TIME) < 0)
                        return; /* they are bound to a unit of ours that ends now */
}
