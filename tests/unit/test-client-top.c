/* What `glovebox top` makes of two looks, the order it shows them in, and how text fits a terminal. */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "client/console.h"
#include "client/look.h"
#include "client/text.h"

#define RUNNING GLOVEBOX__V1__STATE__STATE_RUNNING
#define QUEUED GLOVEBOX__V1__STATE__STATE_QUEUED
#define START (1000 * USEC_PER_SEC) /* by the clock on the wall */

struct Sample {
        const char *id;
        double cpu;       /* seconds used; below 0: no figure */
        uint64_t memory;
        uint32_t processes;
        double idle;      /* seconds; below 0: no figure */
        unsigned age;     /* seconds */
};

static Google__Protobuf__Duration *new_duration(double seconds) {
        Google__Protobuf__Duration *d = seconds < 0 ? NULL : malloc(sizeof(*d));

        if (d)
                *d = duration_of((usec_t) (seconds * 1e6));
        return d;
}

static Glovebox__V1__Execution *new_execution(const struct Sample *s, usec_t at) {
        Glovebox__V1__Execution *e = malloc(sizeof(*e));

        assert_non_null(e);
        glovebox__v1__execution__init(e);
        e->execution_id = strdup(s->id);
        e->state = s->cpu < 0 ? QUEUED : RUNNING;
        e->cpu_time = new_duration(s->cpu);
        e->idle_for = new_duration(s->idle);
        e->memory_bytes = s->memory;
        e->processes = s->processes;
        e->accepted_at = malloc(sizeof(*e->accepted_at));
        assert_non_null(e->accepted_at);
        google__protobuf__timestamp__init(e->accepted_at);
        e->accepted_at->seconds = (int64_t) (at / USEC_PER_SEC) - s->age;
        return e;
}

/* A page as the server would send it, added to the look. */
static void add_page(struct Look *l, const struct Sample *samples, size_t n) {
        Glovebox__V1__ListExecutionsResponse *page = malloc(sizeof(*page));

        assert_non_null(page);
        glovebox__v1__list_executions_response__init(page);
        page->next_page_token = strdup("");
        page->n_executions = n;
        page->executions = calloc(n + 1, sizeof(*page->executions));
        for (size_t i = 0; i < n; i++)
                page->executions[i] = new_execution(&samples[i], l->at);
        assert_int_equal(look_add(l, page), 0);
}

static double cpu_of(const struct Look *l, const char *id) {
        for (size_t i = 0; i < l->n_rows; i++)
                if (streq(l->rows[i].execution->execution_id, id))
                        return l->rows[i].cpu;
        fail_msg("%s is not in the look", id);
        return 0;
}

static void test_cpu_between_two_looks(void **state) {
        static const struct Sample first[] = { { "b", 1.0 }, { "a", 5.0 }, { "gone", 3.0 }, { "queued", -1 }, { "ends", 1.0 }, { "odd", 2.0 } };
        static const struct Sample second[] = { { "new", 0.5 }, { "a", 5.0 }, { "queued", 0.25 } };
        static const struct Sample page[] = { { "b", 4.0 }, { "ends", -1 }, { "odd", 1.0 } };
        struct Look before = { .taken = 10 * USEC_PER_SEC, .at = START }, now = { .taken = 12 * USEC_PER_SEC, .at = START + 2 * USEC_PER_SEC };

        add_page(&before, first, ELEMENTSOF(first));
        look_compare(&before, NULL);
        assert_true(cpu_of(&before, "a") < 0); /* nothing to compare with */
        add_page(&now, second, ELEMENTSOF(second));
        add_page(&now, page, ELEMENTSOF(page));
        look_compare(&now, &before);
        assert_int_equal(now.n_rows, 6);
        assert_true(cpu_of(&now, "b") == 150);  /* 3 s in 2 s: one core and a half */
        assert_true(cpu_of(&now, "a") == 0);
        assert_true(cpu_of(&now, "queued") == 12.5);
        assert_true(cpu_of(&now, "new") < 0);
        assert_true(cpu_of(&now, "ends") < 0);  /* no figure any more */
        assert_true(cpu_of(&now, "odd") == 0);  /* time does not run backwards */
        look_done(&before);
        look_done(&now);
}

static void assert_order(const struct Look *l, enum Sort by, const char *expected) {
        struct Row *rows _cleanup_free_ = look_sort(l, by);
        char text[64] = "";

        assert_non_null(rows);
        for (size_t i = 0; i < l->n_rows; i++)
                (void) strcat(text, rows[i].execution->execution_id);
        assert_string_equal(text, expected);
}

static void test_order(void **state) {
        static const struct Sample first[] = { { "a", 0 }, { "b", 0 }, { "c", 0 }, { "d", -1 } };
        static const struct Sample second[] = {
                { "a", 0.1, 300 * MIB, 1, 5, 10 }, { "b", 0.9, 100 * MIB, 7, 0, 40 }, { "c", 0.5, 200 * MIB, 7, 1, 30 }, { "d", -1, 0, 0, -1, 20 },
        };
        struct Look before = { .taken = 1, .at = START }, now = { .taken = 1 + USEC_PER_SEC, .at = START + USEC_PER_SEC };

        add_page(&before, first, ELEMENTSOF(first));
        look_compare(&before, NULL);
        add_page(&now, second, ELEMENTSOF(second));
        look_compare(&now, &before);
        assert_order(&now, SORT_CPU, "bcad");
        assert_order(&now, SORT_MEMORY, "acbd");
        assert_order(&now, SORT_PROCESSES, "cbad"); /* among equals the youngest */
        assert_order(&now, SORT_AGE, "bcda");
        assert_order(&now, SORT_IDLE, "acbd");
        look_done(&before);
        look_done(&now);
}

static void test_a_look_at_nothing(void **state) {
        struct Look before = { .taken = 1 }, now = { .taken = 2 };
        struct Row *rows;

        look_compare(&before, NULL);
        add_page(&now, NULL, 0);
        look_compare(&now, &before);
        rows = look_sort(&now, SORT_AGE);
        assert_non_null(rows);
        free(rows);
        assert_int_equal(now.n_rows, 0);
        look_done(&before);
        look_done(&now);
}

static void test_a_list_has_a_bound(void **state) {
        Glovebox__V1__ListExecutionsResponse *page = malloc(sizeof(*page));
        struct Look l = { .at = START };

        assert_non_null(page);
        glovebox__v1__list_executions_response__init(page);
        page->next_page_token = strdup("");
        page->n_executions = 100001;
        page->executions = calloc(page->n_executions, sizeof(*page->executions));
        assert_int_equal(look_add(&l, page), STATUS_FAULT);
        assert_int_equal(l.n_rows, 0);
        page->n_executions = 0;
        look_done(&l);
}

static void test_columns_of_text(void **state) {
        static const struct {
                const char *text;
                size_t width, columns, fits;
        } cases[] = {
                { "", 0, 5, 0 },       { "plain", 5, 3, 3 },    { "plain", 5, 5, 5 },  { "plain", 5, 0, 0 }, { "ä€b", 3, 2, 5 },
                { "漢字", 4, 3, 3 },   { "漢字", 4, 4, 6 },     { "a🙂b", 4, 2, 1 },   { "a🙂b", 4, 3, 5 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                assert_int_equal(console_width(cases[i].text), cases[i].width);
                assert_int_equal(console_fit(cases[i].text, cases[i].columns), cases[i].fits);
        }
}

static void test_tables_are_aligned_by_what_is_seen(void **state) {
        static const size_t least[] = { 0, 6, 0 };
        struct Grid t = { .columns = 3, .least = least };
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        assert_int_equal(grid_add(&t, "é") | grid_add(&t, "1") | grid_add(&t, "x"), 0);
        assert_int_equal(grid_add(&t, "漢字") | grid_add(&t, "22") | grid_add(&t, "\033[31m\n"), 0);
        assert_int_equal(grid_add(&t, "a") | grid_add(&t, "") | grid_add(&t, ""), 0);
        assert_int_equal(grid_write(&t, 1, out), 0);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, " é     1       x\n 漢字  22      \\x1b[31m\\n\n a\n");
        free(text);
        grid_done(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cpu_between_two_looks),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_a_look_at_nothing),
                cmocka_unit_test(test_a_list_has_a_bound),
                cmocka_unit_test(test_columns_of_text),
                cmocka_unit_test(test_tables_are_aligned_by_what_is_seen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
