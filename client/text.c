/* Conversions for people, and aligned tables. */
#include "client/text.h"

#include <stdio.h>

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

int table_add(struct Table *t, const char *cell) {
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

int table_print(const struct Table *t, int indent) {
        size_t *widths _cleanup_free_ = calloc(t->columns, sizeof(*widths));

        if (!widths)
                return -ENOMEM;
        for (size_t i = 0; i < t->n; i++)
                widths[i % t->columns] = MAX(widths[i % t->columns], strlen(t->cells[i]));
        for (size_t row = 0; row + t->columns <= t->n; row += t->columns) {
                size_t length = row_length(t->cells + row, t->columns);

                printf("%*s", length ? indent : 0, "");
                for (size_t i = 0; i < length; i++)
                        printf("%-*s%s", i + 1 < length ? (int) widths[i] : 0, t->cells[row + i], i + 1 < length ? "  " : "");
                putchar('\n');
        }
        return 0;
}

void table_done(struct Table *t) {
        for (size_t i = 0; i < t->n; i++)
                free(t->cells[i]);
        free(t->cells);
        *t = (struct Table) {};
}
