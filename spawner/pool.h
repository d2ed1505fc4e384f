/* Cells that are made before anyone asks for them, a stock for each runtime. */
#pragma once

#include "spawner/cell.h"

struct Pool;

/* Of what a machine's cells can be, this part at most waits: the rest is for executions. */
#define POOL_PART 4

/* max_cells: of the spawner. on_closed: a cell of the pool's is gone for good. */
int pool_new(struct CellWorld *world, uint64_t max_cells, void (*on_closed)(void *userdata), void *userdata, struct Pool **ret);
struct Pool *pool_free(struct Pool *p);
DEFINE_CLEANUP(struct Pool *, pool_free)
/* Takes over sizes and limits of a config that was read again; cells that wait are made anew. */
void pool_reload(struct Pool *p, const struct Config *config);
/* One that is as spec says, from now on owner's; NULL = there is none. Another one is made in its place. */
struct Cell *pool_take(struct Pool *p, const struct CellSpec *spec, const struct CellOwner *owner);
/* There is a zygote for it: what waits without an interpreter gets one. */
void pool_on_zygote(struct Pool *p, unsigned runtime);
/* No new ones, and the old ones go. */
void pool_stop(struct Pool *p);
bool pool_is_empty(const struct Pool *p);
/* The most it may ever hold. */
uint64_t pool_max(const struct Pool *p);
