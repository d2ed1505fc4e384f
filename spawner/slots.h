/* Host uids of cells: each cell has a slot of two, one for its init and one for the user's code. The same numbers serve as gids. */
#pragma once

#include "common/config.h"

#define SLOT_UIDS_FIRST 64       /* uids of the range before the slots: the root of each runtime's user namespace */
#define SLOT_INSIDE_FIRST 1000   /* what the first of a slot's uids is called inside */

struct Slots;

/* -ERANGE: the range is too small for a single slot. There are at most max_cells slots. */
int slots_new(const struct Config *config, struct Slots **ret);
struct Slots *slots_free(struct Slots *s);
DEFINE_CLEANUP(struct Slots *, slots_free)
unsigned slots_count(const struct Slots *s);
/* The lowest free one, or -EBUSY. */
int slots_acquire(struct Slots *s);
void slots_release(struct Slots *s, int slot);

static inline uid_t slot_inside_init(int slot) {
        return SLOT_INSIDE_FIRST + 2 * (uid_t) slot;
}

static inline uid_t slot_inside_user(int slot) {
        return slot_inside_init(slot) + 1;
}

/* The same user's uid as the host sees it. */
uid_t slot_host_user(const struct Slots *s, int slot);

/* Does this line of passwd or group (id in field 3), or of subuid or subgid (start and count in fields 2 and 3), overlap the range? */
bool slots_line_overlaps(const char *line, bool sub, uint32_t start, uint32_t count);
/* Refuses a range that someone else uses; *ret_error names the file, the line and the cure. */
int slots_check_range(uint32_t start, uint32_t count, char **ret_error);
