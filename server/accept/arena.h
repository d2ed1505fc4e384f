/* Memory for a message under construction: pieces that live until it is packed. As in gRPC itself, having none ends the process. */
#pragma once

#include <grpc/support/alloc.h>

#include "common/util.h"

struct Piece {
        struct Piece *next;
        max_align_t data[];
};

struct Arena {
        struct Piece *pieces;
};

/* Zeroed. */
static inline void *arena_get(struct Arena *arena, size_t size) {
        struct Piece *piece = gpr_zalloc(sizeof(*piece) + size);

        piece->next = arena->pieces;
        arena->pieces = piece;
        return piece->data;
}

static inline void *arena_get_array(struct Arena *arena, size_t n, size_t size) {
        size_t bytes;

        return n == 0 || __builtin_mul_overflow(n, size, &bytes) ? NULL : arena_get(arena, bytes);
}

static inline void arena_done(struct Arena *arena) {
        while (arena->pieces) {
                struct Piece *piece = arena->pieces;

                arena->pieces = piece->next;
                gpr_free(piece);
        }
}

/* One message, initialised: ARENA_MESSAGE(arena, Glovebox__V1__Limits, GLOVEBOX__V1__LIMITS__INIT) */
#define ARENA_MESSAGE(arena, type, init)                        \
        ({                                                      \
                type *message_ = arena_get(arena, sizeof(type)); \
                *message_ = (type) init;                        \
                message_;                                       \
        })
