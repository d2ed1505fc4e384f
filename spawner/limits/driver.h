/* How cells get their cgroups: one vtable, a file per driver. A cell's cgroup is a folder with the leaves `init` and `run-N`; the
 * driver makes and removes the folder (both may take their time and answer later), limits/leaf.c works inside it. */
#pragma once

#include <systemd/sd-event.h>

#include "common/limits.h"

/* Controllers, as bits in the order of controller_names. */
enum {
        CONTROLLER_MEMORY = 1 << 0,
        CONTROLLER_PIDS = 1 << 1,
        CONTROLLER_CPU = 1 << 2,
        CONTROLLER_IO = 1 << 3,
        CONTROLLER_ALL = (1 << 4) - 1,
};

extern const char *const controller_names[];

struct CellCgroup;
struct CgroupDriver;

/* What every driver's own state begins with. */
struct Cgroups {
        const struct CgroupDriver *driver;
        unsigned controllers; /* present and enabled for leaves */
};

struct CgroupSetup {
        sd_event *event;
        const char *state;   /* the folder that this spawner has locked: names its part of the tree */
        char *const *waive;  /* names of controllers that may be missing */
        const struct Limits *caps; /* ceilings of what is shared by cells */
        bool shared;         /* systemd: cells share scopes instead of having one each */
};

typedef void (*cgroup_handler_t)(struct CellCgroup *g, int error, void *userdata);

/* A cell's folder. Owned by who made it until remove was called. */
struct CellCgroup {
        struct Cgroups *owner;
        uint64_t number;
        int dir; /* the folder, O_PATH */
        char name[48];
        cgroup_handler_t handler;
        void *userdata;
};

struct CgroupDriver {
        const char *name;
        bool has_slices;
        /* On an error *ret_error is one line for the operator: what is missing, why, and what helps. */
        int (*start)(const struct CgroupSetup *setup, struct Cgroups **ret, char **ret_error);
        /* 1 = made already, on_made will not be called; 0 = on_made comes later. number is never used twice in a life.
         * slice: of cells that are kept apart, NULL = the one for all; only with has_slices. */
        int (*make)(struct Cgroups *o, uint64_t number, const char *slice, cgroup_handler_t on_made, void *userdata, struct CellCgroup **ret);
        /* Removes the empty folder and its leaves; on_removed comes later, always. -EBUSY in it: something is left, try again. */
        int (*remove)(struct CellCgroup *g, cgroup_handler_t on_removed, void *userdata);
        /* One leaf of a finished run; nobody waits for it. */
        void (*remove_leaf)(struct CellCgroup *g, const char *leaf);
        /* A process of the cell's own lives in it: what kept it there may go. May be NULL. */
        void (*settled)(struct CellCgroup *g);
        /* The caps of the config have changed: ceilings follow. May be NULL. */
        void (*set_caps)(struct Cgroups *o, const struct Limits *caps);
        /* Its owner frees it, at any time: no handler of it is called any more. May be NULL. */
        void (*forget)(struct CellCgroup *g);
        struct Cgroups *(*stop)(struct Cgroups *o);
};

extern const struct CgroupDriver cgroupfs_driver, systemd_driver;

/* name: that of a driver; empty: systemd where it is PID 1 and its bus can be had, else cgroupfs. Says in the log which it is. */
int cgroups_start(const char *name, const struct CgroupSetup *setup, struct Cgroups **ret, char **ret_error);
/* What no cell can do without, in this cgroup folder. */
int cgroup_check_kernel(int dir, const char *path, char **ret_error);
/* What `enabled` lacks of the controllers that nobody waived, as "memory,pids"; empty: nothing. */
void controllers_missing(unsigned enabled, char *const *waive, char *out, size_t size);
/* Those that are waived, as bits. */
unsigned controllers_waived(char *const *waive);

struct CellCgroup *cell_cgroup_free(struct CellCgroup *g);
