/* One request in plain C, as accept/ hands it to execution.c: shape decoded, nothing validated yet.
 *
 * Strings and bytes point into `backing` (the unpacked message), which is freed with the request. */
#pragma once

#include "common/limits.h"

struct Bytes {
        const uint8_t *data;
        size_t size;
};

struct RequestFile {
        const char *path;
        size_t path_size; /* strlen differs from it when there is a NUL inside */
        struct Bytes content;
        bool executable;
};

struct RequestPair {
        const char *key;
        const char *value;
};

struct Request {
        const char *request_id;
        const char *runtime;
        struct Bytes code;
        const char *const *args;
        size_t n_args;
        const struct RequestPair *env; /* the caller's order; later ones win */
        size_t n_env;
        struct Bytes stdin_bytes;
        const struct RequestFile *files;
        size_t n_files;
        const char *profile;
        /* Values as sent; 0 = not set. A set value that has no meaning at all (negative, NaN) is in bad_field instead. */
        struct Limits limits;
        struct IdlePolicy idle;
        bool idle_set;
        bool merge_streams;
        bool detached;
        usec_t heartbeat_interval; /* 0 = not set */
        const char *working_dir;
        const char *timezone;
        unsigned contract; /* numbers of glovebox.v1.Contract */
        struct Bytes inputs, variables; /* size 0 = not given */
        bool import_restrict;
        const char *const *import_allowed;
        size_t n_import_allowed;
        const char *const *collect;
        size_t n_collect;
        const struct RequestPair *labels;
        size_t n_labels;
        const char *isolation;

        void *backing;
        void (*backing_free)(void *backing);
        size_t charged; /* bytes of the request budget it holds; given back by backing_free's owner */
};

static inline void request_done(struct Request *r) {
        if (r->backing)
                r->backing_free(r->backing);
        *r = (struct Request) {};
}
