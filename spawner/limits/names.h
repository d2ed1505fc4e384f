/* Names of our units in systemd: which are ours, and which belong to another instance on this machine. */
#pragma once

#include "common/util.h"

#define UNIT_NAME_LEN 80

/* One spawner, by its state folder. */
struct UnitNames {
        char id[9];          /* 8 hexadecimal digits of boot and state folder */
        char slice_mark[12]; /* "" for the state folder of the service, else "_" and id */
};

/* boot_id: the text of /proc/sys/kernel/random/boot_id. */
void names_init(struct UnitNames *n, const char *boot_id, const char *state);
/* glovebox-<id>-<number>.scope */
void names_scope(const struct UnitNames *n, uint64_t number, char out[UNIT_NAME_LEN]);
/* The scope that a spawner which is no service makes for itself: glovebox-spawner-<id>-<number>.scope */
void names_own_scope(const struct UnitNames *n, uint64_t number, char out[UNIT_NAME_LEN]);
/* glovebox-pool<k>.slice, below glovebox.slice by its name; with a group glovebox-<group>-pool<k>.slice. */
void names_pool(const struct UnitNames *n, const char *group, unsigned k, char out[UNIT_NAME_LEN]);
/* For ListUnitsByPatterns: wider than what is ours. */
#define NAMES_PATTERN "glovebox-*"
/* Was this unit made by this instance, in this life or an earlier one? */
bool names_is_ours(const struct UnitNames *n, const char *unit);
/* The number in the name of a cell's scope of this instance; 0: it is no such name. */
uint64_t names_number(const struct UnitNames *n, const char *unit);
/* Of this text of /proc/PID/cgroup: the path in the cgroup2 hierarchy without the slash at its start, if it ends in the folder `unit`. */
int names_folder(const char *cgroup, const char *unit, char *out, size_t size);
