/* Namespaces made ahead of the cells that they are for, while the builder has nothing else to do: making a network namespace takes the kernel longer
 * than all that is left of a cell. Each is for one cell, and never used again. */
#pragma once

#include "common/probe.h"
#include "common/util.h"

/* Those that hold nothing of the cell's own. */
enum SpareKind {
        SPARE_NETWORK,
        SPARE_IPC,
        SPARE_UTS,
        SPARE_KINDS,
};

struct SpareSet {
        int fds[SPARE_KINDS]; /* -EBADF: not to be made, or none there */
};

#define SPARE_MAX 8

/* Of one runtime. All zero = empty. */
struct SpareStock {
        struct SpareSet sets[SPARE_MAX];
        unsigned n, wanted;
        usec_t asked; /* when the last cell was */
};

/* Flags of clone for the kinds that are not waived. */
uint64_t spare_flags(uint32_t without);
/* In the namespaces, before anyone else is: what a cell expects of them. */
int spare_set_loopback(void);
int spare_set_hostname(void);

/* A cell is asked for: false = there is no set, and more are wanted from now on. The set is the caller's. */
bool spare_take(struct SpareStock *s, struct SpareSet *ret);
/* What there is to do when nothing else is: 0 = at once, or after so many milliseconds, -1 = nothing. */
int spare_pause(const struct SpareStock *s);
/* Does it, if it is time: lets sets go that nobody asks for, or makes one in the user namespace; true = that took a while. */
bool spare_do(struct SpareStock *s, int userns, uint32_t without);
/* Joins the namespaces of a set, in the user namespace that owns them. */
int spare_join(const struct SpareSet *set);
void spare_done(struct SpareSet *set);
