/* The file systems that a cell may write to, and whether one of them is full. */
#pragma once

#include "common/util.h"

#define SPACES_MAX 3

struct Space {
        int fds[SPACES_MAX]; /* O_PATH */
};

void space_init(struct Space *s);
/* Opens them in the cell of this init. -ESRCH: init has ended meanwhile. */
int space_open(struct Space *s, pid_t init, int init_pidfd);
/* No block or no inode is left in one of them. */
bool space_is_full(const struct Space *s);
/* What the cell was made with is changed: bytes and inodes of the workspace, and of the others in the same proportion. */
int space_resize(const struct Space *s, uint64_t bytes, uint64_t inodes);
void space_done(struct Space *s);

/* The sizes of one of them (in the order of places in space.c) in a cell with this workspace. */
static inline uint64_t space_bytes(size_t i, uint64_t workspace) {
        return i < 2 ? workspace : MAX(workspace / 4, 64 * KIB);
}

static inline uint64_t space_inodes(size_t i, uint64_t workspace) {
        return i == 0 ? workspace + 2 : i == 1 ? workspace : MAX(workspace / 4, (uint64_t) 16);
}
