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
void space_done(struct Space *s);
