/* The table of executions: by id, by age, by caller; and how long finished ones are kept. */
#include "server/execution-internal.h"

#define KEPT_SHARE 2 /* values, errors and lists of files that are kept may take this part of request-budget */
#define KEEP_ALL_CALLERS 32768 /* finished ones in all: a few KiB each */

#define HASH_START 2166136261u

static uint32_t hash_string(uint32_t h, const char *s) {
        for (; *s; s++)
                h = (h ^ (uint8_t) *s) * 16777619u;
        return h;
}

static struct Execution **bucket(struct Executions *x, const char *id) {
        return &x->buckets[hash_string(HASH_START, id) % TABLE_BUCKETS];
}

/* request_ids are the caller's choice, so the hash begins with a number that callers do not know. */
static struct Execution **request_bucket(struct Executions *x, const char *caller, const char *request_id) {
        return &x->requests[hash_string(hash_string(HASH_START ^ x->hash_seed, caller), request_id) % TABLE_BUCKETS];
}

static struct Account *account_find(struct Executions *x, const char *name) {
        for (struct Account *a = x->accounts; a; a = a->next)
                if (streq(a->name, name))
                        return a;
        return NULL;
}

static struct Account *account_get(struct Executions *x, const char *name) {
        struct Account *a = account_find(x, name);

        if (a)
                return a;
        a = calloc(1, sizeof *a);
        if (!a)
                return NULL;
        memcpy(a->name, name, strnlen(name, sizeof a->name - 1));
        TAILQ_INIT(&a->finished);
        a->next = x->accounts;
        x->accounts = a;
        return a;
}

static void account_collect(struct Executions *x, struct Account *account) {
        if (account->newest)
                return;
        for (struct Account **p = &x->accounts; *p; p = &(*p)->next)
                if (*p == account) {
                        *p = account->next;
                        free(account);
                        return;
                }
}

int table_add(struct Executions *x, struct Execution *e) {
        struct Account *a = account_get(x, e->caller);
        struct Execution **b = bucket(x, e->id);

        if (!a)
                return -ENOMEM;
        e->account = a;
        e->number = ++x->last_number;
        e->hash_next = *b;
        *b = e;
        if (!isempty(e->request_id)) {
                b = request_bucket(x, e->caller, e->request_id);
                e->request_next = *b;
                *b = e;
        }
        e->older = x->newest;
        if (x->newest)
                x->newest->newer = e;
        x->newest = e;
        e->account_older = a->newest;
        if (a->newest)
                a->newest->account_newer = e;
        a->newest = e;
        return 0;
}

static void unlink_from_all(struct Executions *x, struct Execution *e) {
        if (e->newer)
                e->newer->older = e->older;
        else
                x->newest = e->older;
        if (e->older)
                e->older->newer = e->newer;
        e->newer = e->older = NULL;
}

static void unlink_from_account(struct Account *a, struct Execution *e) {
        if (e->account_newer)
                e->account_newer->account_older = e->account_older;
        else
                a->newest = e->account_older;
        if (e->account_older)
                e->account_older->account_newer = e->account_newer;
        e->account_newer = e->account_older = NULL;
}

static void unlink_from_finished(struct Executions *x, struct Account *a, struct Execution *e) {
        if (!e->kept)
                return;
        e->kept = false;
        TAILQ_REMOVE(&x->finished, e, finished_entry);
        TAILQ_REMOVE(&a->finished, e, account_finished_entry);
        a->n_finished--;
        x->n_finished--;
        x->kept_size -= e->kept_size;
}

void table_remove(struct Execution *e) {
        struct Executions *x = e->owner;
        struct Account *a = e->account;

        if (!a)
                return;
        for (struct Execution **p = bucket(x, e->id); *p; p = &(*p)->hash_next)
                if (*p == e) {
                        *p = e->hash_next;
                        break;
                }
        for (struct Execution **p = request_bucket(x, e->caller, strempty(e->request_id)); *p; p = &(*p)->request_next)
                if (*p == e) {
                        *p = e->request_next;
                        break;
                }
        unlink_from_all(x, e);
        unlink_from_account(a, e);
        unlink_from_finished(x, a, e);
        a->held -= e->held; /* in x until it has been read */
        e->account = NULL;
        account_collect(x, a);
}

struct Execution *table_find(struct Executions *x, const char *id) {
        for (struct Execution *e = *bucket(x, id); e; e = e->hash_next)
                if (streq(e->id, id))
                        return e;
        return NULL;
}

struct Execution *table_find_request(struct Executions *x, const char *caller, const char *request_id) {
        for (struct Execution *e = *request_bucket(x, caller, request_id); e; e = e->request_next)
                if (streq(e->request_id, request_id) && streq(e->caller, caller))
                        return e;
        return NULL;
}

void table_hold(struct Execution *e) {
        e->held = e->n_cursors > 0 ? e->log.charged + result_size(&e->result) : 0;
        e->owner->held += e->held;
        if (e->account)
                e->account->held += e->held;
}

void table_let_go_of_held(struct Execution *e) {
        e->owner->held -= e->held;
        if (e->account)
                e->account->held -= e->held;
        e->held = 0;
}

size_t table_held_of(struct Executions *x, const char *caller) {
        const struct Account *a = account_find(x, caller);
        return a ? a->held : 0;
}

static void let_go(struct Execution *e) {
        table_remove(e);
        execution_unref(e);
}

/* Everything finished long ago goes; the timer is set for the next to go. */
void table_expire(struct Executions *x) {
        usec_t keep = x->config->keep_finished_for, now = now_monotonic();
        struct Execution *e;

        while ((e = TAILQ_FIRST(&x->finished)) && e->finished + keep <= now)
                let_go(e);
        if (!e) {
                (void) sd_event_source_set_enabled(x->expiry, SD_EVENT_OFF);
                return;
        }
        (void) sd_event_source_set_time(x->expiry, e->finished + keep);
        (void) sd_event_source_set_enabled(x->expiry, SD_EVENT_ONESHOT);
}

/* Those that finished first go first, however old they are: what has just ended can always be asked for. So it is never e that goes. */
void table_on_finished(struct Execution *e) {
        struct Executions *x = e->owner;
        struct Account *a = e->account;
        int enabled = SD_EVENT_OFF;

        x->n_active--;
        x->n_finished++;
        a->n_finished++;
        e->kept = true;
        e->kept_size = result_size(&e->result);
        x->kept_size += e->kept_size;
        TAILQ_INSERT_TAIL(&x->finished, e, finished_entry);
        TAILQ_INSERT_TAIL(&a->finished, e, account_finished_entry);
        while (a->n_finished > MAX(x->config->keep_finished, (uint64_t) 1))
                let_go(TAILQ_FIRST(&a->finished));
        while (x->n_finished > KEEP_ALL_CALLERS)
                let_go(TAILQ_FIRST(&x->finished));
        while (x->kept_size > x->config->request_budget / KEPT_SHARE && TAILQ_FIRST(&x->finished) != e)
                let_go(TAILQ_FIRST(&x->finished));
        (void) sd_event_source_get_enabled(x->expiry, &enabled);
        if (enabled == SD_EVENT_OFF) {
                (void) sd_event_source_set_time(x->expiry, now_monotonic() + x->config->keep_finished_for);
                (void) sd_event_source_set_enabled(x->expiry, SD_EVENT_ONESHOT);
        }
}
