/* Giving up privileges, in the pieces that init and the user's process share. All async-signal-safe. */
#pragma once

#include "common/util.h"

/* A set of one, by its name in linux/capability.h. */
#define PRIVILEGE(name) (UINT64_C(1) << CAP_##name)

/* The bounding and ambient sets, and locked securebits; needs CAP_SETPCAP. */
int privileges_drop_bounding(void);
/* No groups, gid = uid = id, then no capability of any kind. */
int privileges_become(uid_t id);
/* Instead of the two above, before an exec: no groups, gid = uid = id; the program gets these capabilities, and can raise no others. */
int privileges_lend(uid_t id, uint64_t capabilities);
/* -EPERM when any capability is left in any set, or a securebit is not locked. */
int privileges_verify_none(void);
/* For the spawner itself, so that nothing below it holds keys of whoever started it. */
int privileges_leave_keyrings(void);
/* For the spawner's helpers: of what the caller has it keeps these, and no exec brings any back. */
int privileges_confine(uint64_t capabilities);
/* Are all of these permitted to the caller? */
bool privileges_have(uint64_t capabilities);
/* For the spawner itself: keeps these in all but the inheritable and ambient sets. */
int privileges_keep(uint64_t capabilities);
