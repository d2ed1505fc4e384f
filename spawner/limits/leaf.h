/* A leaf of a cell's cgroup: where processes are, and what is read, frozen and killed. */
#pragma once

#include "common/limits.h"
#include "spawner/limits/driver.h"

#define LEAF_NAME_MAX 40

struct Leaf {
        int dir;     /* O_PATH: for clone3 and for openat */
        int events;  /* cgroup.events */
        char name[LEAF_NAME_MAX];
};

/* Makes it with its limits; limits = NULL: the small fixed ones of `init`. */
int leaf_make(struct Leaf *l, int cell_dir, const char *name, unsigned controllers, const struct Limits *limits);
/* Others than it was made with. */
int leaf_change(const struct Leaf *l, unsigned controllers, const struct Limits *limits);
void leaf_done(struct Leaf *l);
/* 1 = a live process is in it, 0 = none. */
int leaf_is_populated(const struct Leaf *l);

/* Once it is killed: what dies still needs the processor to give back what it holds, which would take minutes within a hundredth of a core. */
int leaf_hurry(const struct Leaf *l, unsigned controllers);

/* On any cgroup folder. */
int cgroup_freeze(int dir, bool frozen);
int cgroup_kill(int dir);

/* The word behind "populated" in the text of a cgroup.events file: 0, 1, or -EBADMSG. */
int cgroup_events_populated(const char *text);
