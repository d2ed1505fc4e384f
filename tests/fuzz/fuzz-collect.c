/* The collect pipe, as glovebox-init reads it, and patterns: whatever comes, bounds hold, and a pattern that is let through matches what is
 * sure to match. */
#include <stdint.h>
#include <stdlib.h>

#include "inside/question.h"

struct Input {
        const uint8_t *bytes;
        size_t size;
};

static int on_read(void *userdata, void *buffer, size_t size) {
        struct Input *in = userdata;
        if (size > in->size)
                return -ENODATA;
        memcpy(buffer, in->bytes, size);
        in->bytes += size;
        in->size -= size;
        return 0;
}

static void check_question(const struct Question *q) {
        if (q->n_base > COLLECT_BASE_MAX || q->n_patterns > COLLECT_PATTERNS_MAX || q->base_used > COLLECT_BASE_BYTES_MAX)
                abort();
        for (size_t i = 0; i < q->n_base; i++) {
                const struct BaseEntry *b = &q->base[i];
                if (b->length == 0 || b->length > COLLECT_PATH_MAX || b->path > q->base_used - b->length)
                        abort();
                if (memchr(q->base_paths + b->path, 0, b->length))
                        abort();
        }
        for (size_t i = 0; i < q->n_patterns; i++)
                for (size_t k = 0; k < q->n_base; k++)
                        path_pattern_matches(q->patterns[i].bytes, q->patterns[i].length, q->base_paths + q->base[k].path, q->base[k].length);
}

/* Behind a NUL: a path. "./" before a pattern and a second "/" behind it change nothing. */
static void try_pattern(const uint8_t *bytes, size_t size) {
        const uint8_t *nul = memchr(bytes, 0, size);
        size_t length = nul ? (size_t) (nul - bytes) : size;
        const char *pattern = (const char *) bytes, *path = nul ? (const char *) nul + 1 : "";
        size_t path_length = nul ? size - length - 1 : 0;
        if (path_length > COLLECT_PATH_MAX || path_pattern_check(pattern, length))
                return;
        bool matched = path_pattern_matches(pattern, length, path, path_length);
        char *copy = malloc(length + 3);
        if (!copy)
                return;
        memcpy(copy, "./", 2);
        memcpy(copy + 2, pattern, length);
        if (path_pattern_matches(copy, length + 2, path, path_length) != matched)
                abort();
        copy[length + 2] = '/';
        if (pattern[length - 1] == '/' && path_pattern_matches(copy + 2, length + 1, path, path_length) != matched)
                abort();
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct Question q;
        struct Input in = {.bytes = data, .size = size};
        const struct QuestionReader reader = {.read = on_read, .userdata = &in};
        q.n_base = q.n_patterns = q.base_used = 0;
        (void) question_read(&q, &reader);
        check_question(&q);
        try_pattern(data, size);
        return 0;
}
