/* What comes in pieces, until it is known what it is and where it goes: all of it in one unnamed file on disk, since it may be 272 MiB. */
#pragma once

#include <glovebox/v1/execution.pb-c.h>

#include "client/input.h"

/* Of the contract: displays and files, and the value. */
#define SPOOL_BYTES_MAX ((256 + 16) * MIB)
#define SPOOL_ITEMS_MAX 4096

struct SpoolPart {
        uint64_t at, size; /* in the file */
};

struct SpoolItem {
        char *id;
        uint64_t size;
        bool whole; /* its last piece has come */
        struct SpoolPart *parts;
        size_t n_parts;
};

struct Spool {
        int fd; /* made when it is first needed */
        bool only_counts; /* sizes are wanted, and nothing is kept */
        uint64_t size;
        struct SpoolItem *items;
        size_t n_items;
        size_t n_parts; /* of all items */
};

#define SPOOL_NULL ((struct Spool) { .fd = -EBADF })

/* folder: where the file is made; -EBADF: where temporary files go. Then 0 or negative errno: -E2BIG: more than the contract allows, -EBADMSG:
 * a piece that does not continue what came before. */
int spool_add(struct Spool *s, int folder, const Glovebox__V1__Content *piece);
/* The same for what came whole. */
int spool_put(struct Spool *s, int folder, const char *id, const void *data, size_t size);
/* NULL: nothing of it has come. Until the next call of the two above. */
const struct SpoolItem *spool_find(const struct Spool *s, const char *id);
/* Writes an item into a descriptor. */
int spool_copy(const struct Spool *s, const struct SpoolItem *item, int to);
/* Into memory; -EFBIG when it is larger than max. */
int spool_read(const struct Spool *s, const struct SpoolItem *item, size_t max, struct Bytes *ret);
void spool_done(struct Spool *s);
