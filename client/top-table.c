/* The line and the table of `glovebox top`. */
#include "client/top-table.h"

#include <time.h>

#include "client/console.h"
#include "client/proto-json.h"
#include "client/text.h"

/* What an id, a caller and a runtime keep when room is short. */
#define ID_LEAST 12
#define CALLER_LEAST 8
#define RUNTIME_LEAST 6

static const struct {
        const char *title;
        size_t least, narrow; /* width, where there is room and where there is not */
        bool for_operators;
} columns[] = {
        { "ID", 0, 0 },     { "CALLER", 0, 0, true }, { "RUNTIME", 0, 0 }, { "STATE", 8, 8 }, { "AGE", 11, 6 },   { "CPU%", 5, 5 },
        { "MEMORY", 8, 6 }, { "LIMIT", 7, 6 },        { "PROCS", 5, 5 },   { "IDLE", 11, 6 }, { "OUTPUT", 8, 6 }, { "LABELS", 0, 0 },
};
/* ID to IDLE, without CALLER: what is worth cutting ids for. */
#define WANTED 9

/* Cut behind the last word that fits, or where there is none, behind the last character. */
static void print_words(const char *line, size_t width, FILE *out) {
        size_t n = strlen(line);

        if (width > 0 && console_width(line) > width) {
                n = console_fit(line, width - 1);
                for (size_t i = n; i > 0; i--)
                        if (line[i] == ' ') {
                                n = i;
                                break;
                        }
                while (n > 0 && strchr(" ,;:", line[n - 1]))
                        n--;
                fprintf(out, "%.*s\u2026\n", (int) n, line);
                return;
        }
        fprintf(out, "%s\n", line);
}

/* "12:34:56  node: 2 running, 0 waiting, at most 8 at once; not enforced: memory" */
int top_table_head(const struct TopTable *t, FILE *out) {
        const Glovebox__V1__GetInfoResponse *info = t->info;
        char *node _cleanup_free_ = console_escape(info->node);
        char *raw _cleanup_free_ = limits_waived(info->limits_not_enforced, info->n_limits_not_enforced);
        char *waived _cleanup_free_ = console_escape(raw);
        char *line _cleanup_free_ = NULL;
        time_t seconds = (time_t) (t->look->at / USEC_PER_SEC);
        struct tm when = {};
        char clock[16];

        (void) localtime_r(&seconds, &when);
        (void) strftime(clock, sizeof(clock), "%H:%M:%S", &when);
        if (asprintf(&line, "%s  %s: %u running, %u waiting, at most %u at once%s%s%s", clock, strempty(node), info->running, info->waiting,
                     info->max_executions, info->spawner_connected ? "" : "; the spawner is not connected: nothing can start",
                     isempty(waived) ? "" : "; not enforced: ", strempty(waived)) < 0) {
                line = NULL;
                return -ENOMEM;
        }
        print_words(line, t->columns, out);
        return 0;
}

static bool memory_is_waived(const Glovebox__V1__GetInfoResponse *info) {
        for (size_t i = 0; i < info->n_limits_not_enforced; i++)
                if (streq(info->limits_not_enforced[i], "memory_bytes"))
                        return true;
        return false;
}

/* "850ms", "12.3s", "4m05s", "2h03m", "5d07h": at most six characters for a hundred days. */
static const char *short_time(usec_t t, char *buffer, size_t size) {
        unsigned long long seconds = t / USEC_PER_SEC;

        if (t < USEC_PER_SEC)
                (void) snprintf(buffer, size, "%llums", (unsigned long long) (t / USEC_PER_MSEC));
        else if (seconds < 60)
                (void) snprintf(buffer, size, "%llu.%llus", seconds, (unsigned long long) (t / (100 * USEC_PER_MSEC) % 10));
        else if (seconds < 3600)
                (void) snprintf(buffer, size, "%llum%02llus", seconds / 60, seconds % 60);
        else if (seconds < 100 * 3600ULL)
                (void) snprintf(buffer, size, "%lluh%02llum", seconds / 3600, seconds / 60 % 60);
        else
                (void) snprintf(buffer, size, "%llud%02lluh", seconds / 86400, seconds / 3600 % 24);
        return buffer;
}

static void add_time(struct Grid *grid, bool narrow, usec_t time) {
        char buffer[48];

        (void) grid_add(grid, narrow ? short_time(time, buffer, sizeof(buffer)) : console_time(time, buffer, sizeof(buffer)));
}

/* "1.5 MiB", or "1.5M". */
static void add_bytes(struct Grid *grid, bool narrow, uint64_t bytes) {
        char buffer[32];
        char *space;

        (void) console_bytes(bytes, buffer, sizeof(buffer));
        space = strchr(buffer, ' ');
        if (narrow && space) {
                space[0] = space[1];
                space[1] = '\0';
        }
        (void) grid_add(grid, buffer);
}

static void add_known_bytes(struct Grid *grid, bool narrow, uint64_t bytes) {
        if (bytes > 0)
                add_bytes(grid, narrow, bytes);
        else
                (void) grid_add(grid, "-");
}

static void add_number(struct Grid *grid, bool known, int decimals, double number) {
        char buffer[48];

        (void) snprintf(buffer, sizeof(buffer), "%.*f", decimals, number);
        (void) grid_add(grid, known ? buffer : "-");
}

static void add_row(struct Grid *grid, const struct TopTable *t, bool narrow, const struct Row *row) {
        const Glovebox__V1__Execution *e = row->execution;
        char *labels _cleanup_free_ = execution_labels(e);

        (void) grid_add(grid, e->execution_id);
        if (t->callers)
                (void) grid_add(grid, e->caller);
        (void) grid_add(grid, e->runtime);
        (void) grid_add(grid, proto_enum_word(&glovebox__v1__state__descriptor, (int) e->state));
        add_time(grid, narrow, row->age);
        add_number(grid, row->cpu >= 0, 1, row->cpu);
        add_known_bytes(grid, narrow, e->memory_bytes);
        if (memory_is_waived(t->info))
                (void) grid_add(grid, "waived");
        else
                add_known_bytes(grid, narrow, e->limits ? e->limits->memory_bytes : 0);
        add_number(grid, e->processes > 0, 0, e->processes);
        if (e->idle_for)
                add_time(grid, narrow, duration_usec(e->idle_for));
        else
                (void) grid_add(grid, "-");
        add_bytes(grid, narrow, e->stdout_bytes + e->stderr_bytes);
        (void) grid_add(grid, labels);
}

static void fill(struct Grid *grid, size_t *widths, const struct TopTable *t, bool narrow, const struct Row *rows) {
        grid->least = widths;
        for (size_t i = 0; i < ELEMENTSOF(columns); i++)
                if (t->callers || !columns[i].for_operators) {
                        widths[grid->columns++] = narrow ? columns[i].narrow : columns[i].least;
                        (void) grid_add(grid, columns[i].title);
                }
        for (size_t i = 0; i < t->look->n_rows; i++)
                add_row(grid, t, narrow, &rows[i]);
}

/* Takes from one column what is too much, but leaves it `least`. */
static int shorten(struct Grid *grid, const struct TopTable *t, size_t column, size_t least) {
        size_t all = grid_width(grid, WANTED + t->callers);
        size_t own = grid_width_of(grid, column);
        size_t excess = all > t->columns ? all - t->columns : 0;

        if (excess == 0 || own <= least)
                return 0;
        return grid_shorten(grid, column, own > least + excess ? own - excess : least, column == 0);
}

static int fit(struct Grid *grid, const struct TopTable *t) {
        size_t id = grid_width_of(grid, 0);
        int r;

        /* Columns stand closer before ids become shorter than is of use. */
        if (grid_width(grid, WANTED + t->callers) - id + MIN(id, (size_t) ID_LEAST) > t->columns)
                grid->gap = 1;
        r = shorten(grid, t, 0, ID_LEAST);
        if (r == 0 && t->callers)
                r = shorten(grid, t, 1, CALLER_LEAST);
        return r < 0 ? r : shorten(grid, t, 1 + t->callers, RUNTIME_LEAST);
}

/* Half a number is worse than none. */
static void leave_out(struct Grid *grid, const struct TopTable *t) {
        size_t n = WANTED + t->callers;

        if (grid_width(grid, n) > t->columns || grid_width(grid, n + 1) <= t->columns)
                return;
        grid_blank(grid, n);
        grid_blank(grid, n + 1);
}

int top_table_rows(const struct TopTable *t, FILE *out) {
        struct Row *rows _cleanup_free_ = look_sort(t->look, t->sort);
        size_t widths[ELEMENTSOF(columns)], narrow_widths[ELEMENTSOF(columns)];
        struct Grid wide _cleanup_(grid_done) = {}, narrow _cleanup_(grid_done) = {};
        struct Grid *grid = &wide;
        int r = 0;

        if (!rows)
                return -ENOMEM;
        fill(grid, widths, t, false, rows);
        if (t->columns > 0 && grid_width(grid, WANTED + t->callers) > t->columns) {
                grid = &narrow;
                fill(grid, narrow_widths, t, true, rows);
                r = fit(grid, t);
        }
        if (t->columns > 0)
                leave_out(grid, t);
        return r < 0 ? r : grid_write(grid, 0, out);
}
