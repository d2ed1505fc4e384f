/* Conversions for people, and aligned tables. */
#include "client/text.h"

#include "client/console.h"

usec_t duration_usec(const Google__Protobuf__Duration *d) {
        if (!d || d->seconds < 0 || d->nanos < 0 || (uint64_t) d->seconds > USEC_INFINITY / USEC_PER_SEC / 2)
                return 0;
        return (usec_t) d->seconds * USEC_PER_SEC + (usec_t) d->nanos / NSEC_PER_USEC;
}

usec_t timestamp_usec(const Google__Protobuf__Timestamp *t) {
        Google__Protobuf__Duration since_epoch = GOOGLE__PROTOBUF__DURATION__INIT;

        if (!t)
                return 0;
        since_epoch.seconds = t->seconds;
        since_epoch.nanos = t->nanos;
        return duration_usec(&since_epoch);
}

Google__Protobuf__Duration duration_of(usec_t t) {
        Google__Protobuf__Duration d = GOOGLE__PROTOBUF__DURATION__INIT;

        d.seconds = (int64_t) (t / USEC_PER_SEC);
        d.nanos = (int32_t) (t % USEC_PER_SEC * NSEC_PER_USEC);
        return d;
}

struct Limits limits_of(const Glovebox__V1__Limits *message) {
        if (!message)
                return (struct Limits) {};
        return (struct Limits) {
                .timeout = duration_usec(message->timeout),
                .cpu_time = duration_usec(message->cpu_time),
                .memory_bytes = message->memory_bytes,
                .cpus = message->cpus,
                .max_processes = message->max_processes,
                .output_bytes = message->output_bytes,
                .workspace_bytes = message->workspace_bytes,
                .workspace_inodes = message->workspace_inodes,
                .value_bytes = message->value_bytes,
                .content_bytes = message->content_bytes,
        };
}

static const char *limit_key(const char *field) {
        for (const struct LimitInfo *limit = limit_table; limit->field; limit++)
                if (streq(limit->field, field))
                        return limit->key;
        return field; /* of a newer server */
}

char *limits_waived(char *const *fields, size_t n) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = n > 0 ? open_memstream(&text, &size) : NULL;

        if (!out)
                return NULL;
        for (size_t i = 0; i < n; i++)
                fprintf(out, "%s%s", i ? ", " : "", limit_key(fields[i]));
        (void) fclose(out);
        return text;
}

char *execution_labels(const Glovebox__V1__Execution *e) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = e->n_labels > 0 ? open_memstream(&text, &size) : NULL;

        if (!out)
                return NULL;
        for (size_t i = 0; i < e->n_labels; i++)
                fprintf(out, "%s%s=%s", i ? " " : "", e->labels[i]->key, e->labels[i]->value);
        (void) fclose(out);
        return text;
}

int grid_add(struct Grid *t, const char *cell) {
        char *safe = console_escape(cell);

        if (safe && t->n == t->capacity) {
                size_t capacity = t->capacity ? 2 * t->capacity : 64;
                char **cells = reallocarray(t->cells, capacity, sizeof(*cells));

                if (!cells) {
                        free(safe);
                        return -ENOMEM;
                }
                t->cells = cells;
                t->capacity = capacity;
        }
        if (!safe)
                return -ENOMEM;
        t->cells[t->n++] = safe;
        return 0;
}

/* Cells behind the last one that holds something are not printed: no line ends in spaces. */
static size_t row_length(char *const *row, size_t columns) {
        while (columns > 0 && !*row[columns - 1])
                columns--;
        return columns;
}

static size_t gap_of(const struct Grid *t) {
        return t->gap > 0 ? t->gap : 2;
}

size_t grid_width_of(const struct Grid *t, size_t column) {
        size_t width = t->least ? t->least[column] : 0;

        for (size_t i = column; i < t->n; i += t->columns)
                width = MAX(width, console_width(t->cells[i]));
        return width;
}

size_t grid_width(const struct Grid *t, size_t n) {
        size_t width = 0;

        for (size_t i = 0; i < n; i++)
                width += grid_width_of(t, i) + (i > 0 ? gap_of(t) : 0);
        return width;
}

#define ELLIPSIS "\u2026"

/* The end of the text that fits. */
static const char *last_columns(const char *s, size_t columns) {
        while (console_width(s) > columns) {
                size_t n = console_fit(s, 1);

                s += n > 0 ? n : MAX(console_fit(s, 2), (size_t) 1);
        }
        return s;
}

int grid_shorten(struct Grid *t, size_t column, size_t width, bool keep_end) {
        for (size_t i = column; i < t->n; i += t->columns) {
                char *cell = t->cells[i];
                char *cut;

                if (console_width(cell) <= width || width == 0)
                        continue;
                if (asprintf(&cut, "%.*s" ELLIPSIS "%s", keep_end ? 0 : (int) console_fit(cell, width - 1), cell,
                             keep_end ? last_columns(cell, width - 1) : "") < 0)
                        return -ENOMEM;
                free(cell);
                t->cells[i] = cut;
        }
        return 0;
}

void grid_blank(struct Grid *t, size_t column) {
        for (size_t i = column; i < t->n; i += t->columns)
                t->cells[i][0] = '\0';
}

int grid_write(const struct Grid *t, int indent, FILE *out) {
        size_t *widths _cleanup_free_ = calloc(t->columns, sizeof(*widths));

        if (!widths)
                return -ENOMEM;
        for (size_t i = 0; i < t->columns; i++)
                widths[i] = grid_width_of(t, i);
        for (size_t row = 0; row + t->columns <= t->n; row += t->columns) {
                size_t length = row_length(t->cells + row, t->columns);

                fprintf(out, "%*s", length ? indent : 0, "");
                for (size_t i = 0; i < length; i++) {
                        const char *cell = t->cells[row + i];

                        fputs(cell, out);
                        if (i + 1 < length)
                                fprintf(out, "%*s", (int) (widths[i] - console_width(cell) + gap_of(t)), "");
                }
                fputc('\n', out);
        }
        return 0;
}

int grid_print(const struct Grid *t, int indent) {
        return grid_write(t, indent, stdout);
}

void grid_done(struct Grid *t) {
        for (size_t i = 0; i < t->n; i++)
                free(t->cells[i]);
        free(t->cells);
        *t = (struct Grid) {};
}
