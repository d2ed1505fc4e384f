/* The driver that makes cells' cgroups itself, below the cgroup this process was started in:
 * OWN/glovebox-<hash of the state folder>/cell-<n>. On a unified hierarchy OWN must be delegated to us; on a hybrid machine the
 * cgroup2 hierarchy has no controllers, and the operator has to waive their limits. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/log.h"
#include "spawner/complain.h"
#include "spawner/limits/driver.h"
#include "spawner/limits/janitor.h"
#include "spawner/limits/leaf.h"
#include "spawner/limits/tree.h"

#define SWEEP_TIME (10 * USEC_PER_SEC)

struct Cgroupfs {
        struct Cgroups base;
        int own;         /* the cgroup we were started in */
        int root;        /* our folder in it */
        char name[32];
        struct Janitor *janitor;
};

static struct Cgroups *cgroupfs_stop(struct Cgroups *o);

static void cgroupfs_stopp(struct Cgroupfs **c) {
        if (*c)
                cgroupfs_stop(&(*c)->base);
}

/* FNV-1a: only has to tell instances on one machine apart, and to be the same in the next life. */
static uint64_t hash_text(const char *s) {
        uint64_t h = 0xcbf29ce484222325ULL;
        for (; *s; s++)
                h = (h ^ (uint8_t) *s) * 0x100000001b3ULL;
        return h;
}

static int check_controllers(unsigned have, unsigned enabled, const struct CgroupSetup *setup, const char *path, char **ret_error) {
        char missing[64];
        controllers_missing(enabled, setup->waive, missing, sizeof missing);
        if (!*missing)
                return 0;
        char absent[64];
        controllers_missing(have, setup->waive, absent, sizeof absent);
        if (*absent)
                return complain(ret_error, -EOPNOTSUPP,
                            "cgroup controller %s is not in %s/cgroup.controllers (cgroup v1 or hybrid machine, or not delegated to this service); "
                            "boot with systemd.unified_cgroup_hierarchy=1 or set Delegate=yes, or run without these limits: --waive %s",
                            absent, path, absent);
        return complain(ret_error, -EBUSY,
                    "cgroup controller %s cannot be enabled in %s, which holds other processes; start it under "
                    "systemd-run --scope -p Delegate=yes, or run without these limits: --waive %s",
                    missing, path, missing);
}

/* The spawner answers while its cells, which are beside it, eat what the whole service has: ten times their share of time, and first claim on the
 * memory that is kept for the service (MemoryMin= of a unit). Files of controllers that are not there are missing. */
static void protect_self(int own) {
        static const char *const files[][2] = {{"supervisor/cpu.weight", "1000"}, {"supervisor/memory.min", "max"}};
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                int r = write_file_at(own, files[i][0], files[i][1]);
                if (r < 0 && r != -ENOENT)
                        log_warning_errno(r, "Failed to write %s, the spawner may answer late under load: %m", files[i][0]);
        }
}

/* A waived controller is used where it is enabled all the same, but nothing is moved for it. In a cgroup with processes nothing may be
 * enabled: memory and io are refused there, but cpu and pids would turn it into a threaded one, in which no cell can be made. */
static int prepare_controllers(struct Cgroupfs *c, const struct CgroupSetup *setup, const char *path, char **ret_error) {
        unsigned have, enabled;
        int r = tree_controllers(c->own, "cgroup.controllers", &have);
        if (r >= 0)
                r = tree_controllers(c->own, "cgroup.subtree_control", &enabled);
        if (r < 0)
                return complain(ret_error, r, "cannot read %s/cgroup.controllers: %s", path, strerror(-r));
        if (have & ~enabled & ~controllers_waived(setup->waive)) {
                r = tree_make_room(c->own);
                if (r < 0)
                        return complain(ret_error, r, "cannot move into the leaf %s/supervisor: %s", path, strerror(-r));
                if (r > 0)
                        enabled |= tree_enable(c->own, have & ~enabled);
        }
        c->base.controllers = enabled & have;
        protect_self(c->own);
        return check_controllers(have, enabled, setup, path, ret_error);
}

static int make_root(struct Cgroupfs *c, const char *path, char **ret_error) {
        int r = tree_sweep(c->own, c->name, now_monotonic() + SWEEP_TIME);
        if (r < 0)
                return complain(ret_error, r, "cannot remove what an earlier life left in %s/%s: %s", path, c->name, strerror(-r));
        if (mkdirat(c->own, c->name, 0755) < 0)
                return complain(ret_error, -errno, "cannot make the cgroup %s/%s: %m", path, c->name);
        c->root = openat(c->own, c->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->root < 0)
                return complain(ret_error, -errno, "cannot open the cgroup %s/%s: %m", path, c->name);
        r = cgroup_check_kernel(c->root, path, ret_error);
        if (r < 0)
                return r;
        c->base.controllers = tree_enable(c->root, c->base.controllers);
        return 0;
}

static int cgroupfs_start(const struct CgroupSetup *setup, struct Cgroups **ret, char **ret_error) {
        _cleanup_free_ char *path = NULL;
        int r = tree_own_folder(&path);
        if (r < 0)
                return complain(ret_error, r, "no cgroup2 hierarchy is mounted; Glovebox needs it to freeze and kill cells (mount -t cgroup2 none /sys/fs/cgroup)");
        struct Cgroupfs *c _cleanup_(cgroupfs_stopp) = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        *c = (struct Cgroupfs) {.base.driver = &cgroupfs_driver, .own = -EBADF, .root = -EBADF};
        snprintf(c->name, sizeof c->name, "glovebox-%012" PRIx64, hash_text(setup->state) & UINT64_C(0xffffffffffff));
        c->own = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->own < 0)
                return complain(ret_error, -errno, "cannot open the own cgroup %s: %m", path);
        r = prepare_controllers(c, setup, path, ret_error);
        if (r >= 0)
                r = make_root(c, path, ret_error);
        if (r < 0)
                return r;
        r = janitor_new(setup->event, c->root, &c->janitor);
        if (r < 0)
                return complain(ret_error, r, "cannot start the process that removes cgroups: %s", strerror(-r));
        *ret = &TAKE_PTR(c)->base;
        return 0;
}

static struct Cgroups *cgroupfs_stop(struct Cgroups *o) {
        struct Cgroupfs *c = (struct Cgroupfs *) o;
        janitor_free(c->janitor);
        if (c->root >= 0) {
                int r = tree_sweep(c->own, c->name, now_monotonic() + SWEEP_TIME);
                if (r < 0)
                        log_warning_errno(r, "Failed to remove the cgroup %s: %m; the next start does.", c->name);
        }
        close_fd(c->root);
        close_fd(c->own);
        free(c);
        return NULL;
}

static int cgroupfs_make(struct Cgroups *o, uint64_t number, const char *slice, cgroup_handler_t on_made, void *userdata, struct CellCgroup **ret) {
        struct Cgroupfs *c = (struct Cgroupfs *) o;
        struct CellCgroup *g = calloc(1, sizeof *g);
        if (!g)
                return -ENOMEM;
        *g = (struct CellCgroup) {.owner = o, .number = number, .dir = -EBADF};
        snprintf(g->name, sizeof g->name, "cell-%" PRIu64, number);
        int r = mkdirat(c->root, g->name, 0755) < 0 ? -errno : 0;
        if (r >= 0) {
                g->dir = openat(c->root, g->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
                r = g->dir < 0 ? -errno : 0;
        }
        if (r >= 0 && o->controllers && tree_enable(g->dir, o->controllers) != o->controllers)
                r = -EIO;
        if (r < 0) {
                unlinkat(c->root, g->name, AT_REMOVEDIR);
                cell_cgroup_free(g);
                return r;
        }
        *ret = g;
        return 1;
}

static void cgroupfs_on_removed(int error, void *userdata) {
        struct CellCgroup *g = userdata;
        g->handler(g, error, g->userdata);
}

static int cgroupfs_remove(struct CellCgroup *g, cgroup_handler_t on_removed, void *userdata) {
        struct Cgroupfs *c = (struct Cgroupfs *) g->owner;
        g->handler = on_removed;
        g->userdata = userdata;
        return janitor_remove(c->janitor, g->name, cgroupfs_on_removed, g);
}

static void cgroupfs_remove_leaf(struct CellCgroup *g, const char *leaf) {
        struct Cgroupfs *c = (struct Cgroupfs *) g->owner;
        char path[JANITOR_PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", g->name, leaf);
        int r = janitor_remove(c->janitor, path, NULL, NULL);
        if (r < 0)
                log_warning_errno(r, "Failed to have the cgroup %s removed, it goes with its cell: %m", path);
}

const struct CgroupDriver cgroupfs_driver = {
        .name = "cgroupfs",
        .start = cgroupfs_start,
        .make = cgroupfs_make,
        .remove = cgroupfs_remove,
        .remove_leaf = cgroupfs_remove_leaf,
        .stop = cgroupfs_stop,
};
