/* The folder of --out. Names of what is written there come from a server and from code in a cell: whatever they are, nothing is written
 * anywhere else, and nothing through a link. */
#pragma once

#include "client/spool.h"

struct OutDir {
        const char *path; /* as the user wrote it; NULL: none */
        int fd;
};

#define OUT_DIR_NULL ((struct OutDir) { .fd = -EBADF })

/* Made when it is missing, as are the folders above it. 0, or STATUS_FAULT after saying why. */
int out_dir_open(struct OutDir *d, const char *path);
/* The name of a result's file as bytes, its escapes taken back. NULL with *ret_fault: no such file may be written. */
char *out_dir_name(const char *path, bool escaped, const char **ret_fault);
/* Writes an item as a new file, or in place of one, all at once; name as out_dir_name gives it. 0, or STATUS_FAULT after saying why. */
int out_dir_write(const struct OutDir *d, const char *name, const struct Spool *spool, const struct SpoolItem *item);
void out_dir_done(struct OutDir *d);
