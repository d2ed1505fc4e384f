/* The table of executions: which finished ones are kept. */
#include "server/execution-internal.h"
#include "tests/unit/unit.h"

static struct Config config = { .keep_finished = 2, .keep_finished_for = USEC_PER_SEC};

static void table_init(struct Executions *x) {
        *x = (struct Executions) { .config = &config };
        TAILQ_INIT(&x->finished);
}

static struct Execution *start(struct Executions *x, const char *id, const char *caller) {
        struct Execution *e = calloc(1, sizeof *e);

        assert_non_null(e);
        e->owner = x;
        e->report = e->job.writer.fd = e->stdin_writer.fd = -EBADF;
        evidence_init(&e->evidence);
        (void) snprintf(e->id, sizeof e->id, "%s", id);
        (void) snprintf(e->caller, sizeof e->caller, "%s", caller);
        assert_int_equal(table_add(x, e), 0);
        x->n_active++;
        return e;
}

static void finish(struct Execution *e) {
        e->state = EXECUTION_FINISHED;
        e->result.finished_at = now_realtime();
        e->finished = now_monotonic();
        table_on_finished(e);
}

static void table_done(struct Executions *x) {
        while (x->newest) {
                struct Execution *e = x->newest;
                table_remove(e);
                execution_free(e);
        }
        assert_null(x->accounts);
        assert_true(TAILQ_EMPTY(&x->finished));
        assert_int_equal(x->n_finished, 0);
}

/* A program that ran for long is the oldest of all when it ends: its result must not be the first to go. */
static void the_first_to_finish_goes_first(void **state) {
        struct Executions x;

        table_init(&x);
        struct Execution *slow = start(&x, "slow", "uid:1"), *a = start(&x, "a", "uid:1"), *b = start(&x, "b", "uid:1"),
                         *other = start(&x, "other", "uid:2"), *c = start(&x, "c", "uid:1");
        finish(a);
        finish(b);
        finish(c);
        finish(other);
        finish(slow);
        assert_null(table_find(&x, "a"));
        assert_null(table_find(&x, "b"));
        assert_ptr_equal(table_find(&x, "c"), c);
        assert_ptr_equal(table_find(&x, "slow"), slow);
        assert_ptr_equal(table_find(&x, "other"), other);
        assert_int_equal(x.n_finished, 3);
        table_done(&x);
}

static void what_is_old_expires(void **state) {
        struct Executions x;

        table_init(&x);
        struct Execution *running = start(&x, "running", "uid:1"), *old = start(&x, "old", "uid:1"), *fresh = start(&x, "fresh", "uid:1");
        finish(old);
        old->finished -= config.keep_finished_for;
        finish(fresh);
        table_expire(&x);
        assert_null(table_find(&x, "old"));
        assert_ptr_equal(table_find(&x, "running"), running);
        assert_ptr_equal(table_find(&x, "fresh"), fresh);
        table_done(&x);
}

RUN(T(the_first_to_finish_goes_first), T(what_is_old_expires))
