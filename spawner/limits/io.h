/* What a cell may do to the machine's disks, and how cells share what all of them want. */
#pragma once

#include "common/io-max.h"
#include "common/limits.h"
#include "common/util.h"

/* Writes what io_max_resolve gave into a leaf. */
int io_max_apply(int leaf, char *const *resolved);
/* What all of a cell may have: what of one run outlives it (shared memory) counts for the next. Once, while the cell is empty. */
int cell_bound(int cell, unsigned controllers, const struct Limits *limits);
/* Where all are wanted, processors and disks go to cells in proportion to their limits of cpus. What the kernel lacks is left out. */
int cell_share(int cell, unsigned controllers, const struct Limits *limits);
