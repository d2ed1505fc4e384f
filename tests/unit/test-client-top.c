/* What `glovebox top` makes of two looks, the order it shows them in, and how text fits a terminal. */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "client/console.h"
#include "client/look.h"
#include "client/text.h"
#include "client/top-table.h"

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

static void test_cells_are_cut_at_one_side(void **state) {
        static const struct {
                const char *cell;
                size_t width;
                bool keep_end;
                const char *cut;
        } cases[] = {
                { "node.abcdef", 5, true, "…cdef" }, { "node.abcdef", 5, false, "node…" }, { "short", 5, true, "short" }, { "漢字x", 4, true, "…字x" },
                { "漢字x", 3, true, "…x" },          { "漢字x", 4, false, "漢…" },         { "ab", 1, true, "…" },        { "ab", 0, true, "ab" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct Grid t _cleanup_(grid_done) = { .columns = 1 };

                assert_int_equal(grid_add(&t, cases[i].cell) | grid_shorten(&t, 0, cases[i].width, cases[i].keep_end), 0);
                assert_string_equal(t.cells[0], cases[i].cut);
        }
}

/* Head and rows of one execution that has run for 25 hours and was idle for 70 minutes. */
static char *draw(size_t columns, bool callers) {
        static const struct Sample samples[] = { { "node.0123456789abcdef0123456789", 5, 512 * MIB, 3, 4200, 90000 } };
        char *waived[] = { (char *) "cpus", (char *) "max_processes" };
        Glovebox__V1__GetInfoResponse info = GLOVEBOX__V1__GET_INFO_RESPONSE__INIT;
        struct Look look = { .taken = 1, .at = 100000 * USEC_PER_SEC };
        struct TopTable t = { .look = &look, .info = &info, .callers = callers, .columns = columns };
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        info.node = (char *) "node";
        info.spawner_connected = true;
        info.limits_not_enforced = waived;
        info.n_limits_not_enforced = ELEMENTSOF(waived);
        add_page(&look, samples, ELEMENTSOF(samples));
        look.pages[0]->executions[0]->runtime = strdup("javascript-module");
        look.pages[0]->executions[0]->caller = strdup("cert:build.example.org");
        look_compare(&look, NULL);
        assert_int_equal(top_table_head(&t, out), 0);
        assert_int_equal(top_table_rows(&t, out), 0);
        assert_int_equal(fclose(out), 0);
        look_done(&look);
        return text;
}

static void assert_has(const char *text, const char *part) {
        if (!strstr(text, part))
                fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void test_a_table_fits_the_terminal(void **state) {
        char *whole = draw(0, true), *wide = draw(150, false), *usual = draw(79, false), *narrow = draw(79, true);

        assert_has(whole, "at most 0 at once; not enforced: cpus, max-processes\n");
        assert_has(whole, "node.0123456789abcdef0123456789  cert:build.example.org  javascript-module  RUNNING   25 h 00 min");
        assert_has(wide, "node.0123456789abcdef0123456789  javascript-module  RUNNING   25 h 00 min");
        assert_has(wide, "1 h 10 min   0 B\n");
        assert_has(usual, "at most 0 at once; not enforced: cpus…\n");
        assert_has(usual, "…f0123456789 javascript-module RUNNING  25h00m -     512M   -      3     1h10m\n");
        assert_has(narrow, "cert:bu…");
        assert_has(narrow, " javascr… ");
        for (char *const *t = (char *const[]) { usual, narrow, NULL }; *t; t++)
                for (const char *line = *t; *line; line = strchr(line, '\n') + 1)
                        assert_true(console_fit(line, 79) >= strcspn(line, "\n"));
        free(whole);
        free(wide);
        free(usual);
        free(narrow);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cpu_between_two_looks),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_a_look_at_nothing),
                cmocka_unit_test(test_a_list_has_a_bound),
                cmocka_unit_test(test_columns_of_text),
                cmocka_unit_test(test_tables_are_aligned_by_what_is_seen),
                cmocka_unit_test(test_cells_are_cut_at_one_side),
                cmocka_unit_test(test_a_table_fits_the_terminal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
