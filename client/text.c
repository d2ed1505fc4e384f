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

        return safe ? strv_push(&t->cells, safe) : -ENOMEM;
}

void table_print(const struct Table *t, int indent) {
        size_t n = strv_length(t->cells);

        for (size_t i = 0; i < n; i++) {
                size_t column = i % t->columns;
                size_t width = 0;

                if (column == 0)
                        printf("%*s", indent, "");
                if (column + 1 == t->columns) {
                        puts(t->cells[i]);
                        continue;
                }
                for (size_t j = column; j < n; j += t->columns)
                        width = MAX(width, strlen(t->cells[j]));
                printf("%-*s  ", (int) width, t->cells[i]);
        }
}

void table_done(struct Table *t) {
        t->cells = strv_free(t->cells);
}
