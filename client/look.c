/* Looking at executions: their processor time is compared with that of the look before. */
#include "client/look.h"

#include "client/console.h"
#include "client/pages.h"
#include "client/text.h"

/* More than any server runs; a list without end must not fill our memory. */
#define ROWS_MAX 100000

static int take_page(void *userdata, Glovebox__V1__ListExecutionsResponse *page) {
        return look_add(userdata, page);
}

int look_take(struct Look *l, struct Channel *channel, const char *caller) {
        struct Look look = {};
        int r;

        r = pages_list(channel, caller, true, take_page, &look);
        if (r != 0) {
                look_done(&look);
                return r;
        }
        look.taken = now_monotonic();
        look.at = now_realtime();
        *l = look;
        return 0;
}

int look_add(struct Look *l, Glovebox__V1__ListExecutionsResponse *page) {
        Glovebox__V1__ListExecutionsResponse **pages = reallocarray(l->pages, l->n_pages + 1, sizeof(*pages));
        struct Row *rows;

        if (!pages) {
                glovebox__v1__list_executions_response__free_unpacked(page, NULL);
                return console_fault("out of memory");
        }
        l->pages = pages;
        l->pages[l->n_pages++] = page;
        if (l->n_rows + page->n_executions > ROWS_MAX)
                return console_fault("the server lists more than %d executions; that is too many to show", ROWS_MAX);
        rows = reallocarray(l->rows, l->n_rows + page->n_executions + 1, sizeof(*rows));
        if (!rows)
                return console_fault("out of memory");
        l->rows = rows;
        for (size_t i = 0; i < page->n_executions; i++)
                l->rows[l->n_rows++] = (struct Row) { .execution = page->executions[i], .cpu = -1 };
        return 0;
}

static int compare_ids(const void *a, const void *b) {
        const struct Row *x = a, *y = b;

        return strcmp(x->execution->execution_id, y->execution->execution_id);
}

/* Time used between two looks. One that waited in the first has used nothing by then; one that no longer runs in the second has no
 * figure. */
static double cpu_since(const struct Row *row, const struct Row *old, usec_t between) {
        usec_t now = duration_usec(row->execution->cpu_time), then = duration_usec(old->execution->cpu_time);

        if (!row->execution->cpu_time || between == 0)
                return -1;
        return now > then ? 100.0 * (double) (now - then) / (double) between : 0;
}

void look_compare(struct Look *l, const struct Look *before) {
        if (l->n_rows > 0)
                qsort(l->rows, l->n_rows, sizeof(*l->rows), compare_ids);
        for (size_t i = 0; i < l->n_rows; i++) {
                struct Row *row = &l->rows[i];
                usec_t accepted = timestamp_usec(row->execution->accepted_at);
                const struct Row *old =
                        before && before->n_rows > 0 ? bsearch(row, before->rows, before->n_rows, sizeof(*row), compare_ids) : NULL;

                row->age = accepted > 0 && l->at > accepted ? l->at - accepted : 0;
                row->cpu = old && l->taken > before->taken ? cpu_since(row, old, l->taken - before->taken) : -1;
        }
}

static double by_cpu(const struct Row *row) {
        return row->cpu;
}

static double by_memory(const struct Row *row) {
        return (double) row->execution->memory_bytes;
}

static double by_processes(const struct Row *row) {
        return row->execution->processes;
}

static double by_age(const struct Row *row) {
        return (double) row->age;
}

static double by_idle(const struct Row *row) {
        return row->execution->idle_for ? (double) duration_usec(row->execution->idle_for) : -1;
}

static int compare_rows(const void *a, const void *b, void *userdata) {
        double (*const *key)(const struct Row *) = userdata;
        double x = (*key)(a), y = (*key)(b);
        usec_t age_x = ((const struct Row *) a)->age, age_y = ((const struct Row *) b)->age;

        if (x != y)
                return x > y ? -1 : 1;
        if (age_x != age_y)
                return age_x < age_y ? -1 : 1;
        return compare_ids(a, b);
}

struct Row *look_sort(const struct Look *l, enum Sort by) {
        static double (*const keys[])(const struct Row *) = {
                [SORT_CPU] = by_cpu, [SORT_MEMORY] = by_memory, [SORT_PROCESSES] = by_processes, [SORT_AGE] = by_age, [SORT_IDLE] = by_idle,
        };
        double (*key)(const struct Row *) = keys[by];
        struct Row *rows = calloc(l->n_rows + 1, sizeof(*rows));

        if (!rows || l->n_rows == 0)
                return rows;
        memcpy(rows, l->rows, l->n_rows * sizeof(*rows));
        qsort_r(rows, l->n_rows, sizeof(*rows), compare_rows, (void *) &key);
        return rows;
}

void look_done(struct Look *l) {
        for (size_t i = 0; i < l->n_pages; i++)
                glovebox__v1__list_executions_response__free_unpacked(l->pages[i], NULL);
        free(l->pages);
        free(l->rows);
        *l = (struct Look) {};
}
