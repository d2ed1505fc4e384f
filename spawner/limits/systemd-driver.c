/* The driver that has systemd make cells' cgroups: a transient scope for each cell, or scopes that cells share.
 *
 * A cell's cgroup is the folder of its scope, glovebox.slice/glovebox-pool<k>.slice/glovebox-<id>-<n>.scope, where systemctl and
 * systemd-cgls show it; shared, it is cell-<n> in such a folder. The limits of a run are in its leaf alone: those of a scope are systemd's,
 * which writes them anew whenever it is reloaded, and are ceilings. All scopes are bound to the unit of this process, so that PID 1 ends them
 * however this process ends. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <systemd/sd-login.h>

#include "common/log.h"
#include "spawner/complain.h"
#include "spawner/limits/driver.h"
#include "spawner/limits/scope.h"
#include "spawner/limits/tree.h"

/* PID 1 has its own opinion on when it is done, above all while the machine boots. */
#define START_TIME (30 * USEC_PER_SEC)
/* What the bus takes to answer at all. */
#define BUS_TIME (10 * USEC_PER_SEC)
#define PER_SLICE 64
/* Above what the leaves of a cell may have: its init, its leader, and what the kernel counts to the scope itself. */
#define SPARE_MEMORY (64 * MIB)
#define SPARE_PROCESSES 16
#define SPARE_CPUS 0.5

/* A scope that cells share, and those that wait for it. */
struct Shared {
        LIST_ENTRY(Shared) entry;
        struct Systemd *owner;
        const char *slice;   /* of the callers whose cells it holds; NULL: all others */
        struct Scope *scope; /* NULL: it has gone */
        bool is_up;
        unsigned n_cells;
        LIST_HEAD(, SystemdCell) waiting;
};

struct SystemdCell {
        struct CellCgroup base;
        struct Scope *scope;    /* its own; NULL: it shares one, or it has gone */
        struct Shared *shared;
        LIST_ENTRY(SystemdCell) entry;
        bool is_waiting;
        char path[JANITOR_PATH_MAX]; /* shared: below the mount point; empty: not made */
        sd_event_source *tell;
};

struct Systemd {
        struct Cgroups base;
        sd_event *event;
        bool is_shared;
        struct UnitNames names;
        int mount;
        struct Janitor *janitor;
        struct Scopes *scopes;
        LIST_HEAD(, Shared) shared;
        struct Scope *trial;
        int trial_answer; /* 1 = none yet */
};

static struct Cgroups *systemd_stop(struct Cgroups *o);

static void systemd_stopp(struct Systemd **s) {
        if (*s)
                systemd_stop(&(*s)->base);
}

static struct SystemdCell *cell_of(struct CellCgroup *g) {
        return CONTAINER_OF(g, struct SystemdCell, base);
}

/* Scopes that are shared. */

static int shared_make_folder(struct SystemdCell *c) {
        struct Shared *h = c->shared;
        const struct Systemd *s = h->owner;
        if (mkdirat(h->scope->dir, c->base.name, 0755) < 0)
                return -errno;
        snprintf(c->path, sizeof c->path, "%s/%s", h->scope->path, c->base.name);
        c->base.dir = openat(h->scope->dir, c->base.name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->base.dir < 0)
                return -errno;
        return tree_enable(c->base.dir, s->base.controllers) == s->base.controllers ? 0 : -EIO;
}

static void shared_lose(struct Shared *h) {
        h->is_up = false;
        if (h->scope)
                scope_forget(h->scope);
        h->scope = NULL;
}

static void shared_on_up(struct Scope *scope, int error, void *userdata) {
        struct Shared *h = userdata;
        struct SystemdCell *c;
        h->is_up = error >= 0;
        if (error < 0)
                shared_lose(h);
        while ((c = LIST_FIRST(&h->waiting))) {
                LIST_REMOVE(c, entry);
                c->is_waiting = false;
                c->base.handler(&c->base, error < 0 ? error : shared_make_folder(c), c->base.userdata);
        }
}

static int shared_start(struct Shared *h) {
        return scope_new(h->owner->scopes, h->slice, "Glovebox: cells", shared_on_up, h, &h->scope);
}

static int shared_find(struct Systemd *s, const char *slice, struct Shared **ret) {
        struct Shared *h;
        LIST_FOREACH(h, &s->shared, entry)
                if (h->n_cells < PER_SLICE && streq(strempty(h->slice), strempty(slice)))
                        break;
        if (!h) {
                h = calloc(1, sizeof *h);
                if (!h)
                        return -ENOMEM;
                h->owner = s;
                h->slice = slice;
                LIST_INSERT_HEAD(&s->shared, h, entry);
        }
        *ret = h;
        return h->scope ? 0 : shared_start(h);
}

static int shared_make(struct Systemd *s, struct SystemdCell *c, const char *slice) {
        int r = shared_find(s, slice, &c->shared);
        if (r < 0)
                return r;
        if (c->shared->is_up) {
                r = shared_make_folder(c);
                if (r != -ENOENT && r != -ENODEV)
                        return r < 0 ? r : 1;
                log_warning("The scope %s, which cells share, has gone; another one takes its place.", c->shared->scope->name);
                shared_lose(c->shared);
                r = shared_start(c->shared);
                if (r < 0)
                        return r;
        }
        c->is_waiting = true;
        LIST_INSERT_HEAD(&c->shared->waiting, c, entry);
        return 0;
}

/* Scopes of their own. */

static void systemd_on_up(struct Scope *scope, int error, void *userdata) {
        struct SystemdCell *c = userdata;
        if (error >= 0 && (scope->controllers & c->base.owner->controllers) != c->base.owner->controllers)
                error = -EIO; /* less than at the start: never a cell with fewer limits */
        if (error >= 0) {
                c->base.dir = fcntl(scope->dir, F_DUPFD_CLOEXEC, 3);
                error = c->base.dir < 0 ? -errno : 0;
        }
        c->base.handler(&c->base, error, c->base.userdata);
}

static int own_make(struct Systemd *s, struct SystemdCell *c, const char *slice) {
        char description[64];
        snprintf(description, sizeof description, "Glovebox: cell %" PRIu64, c->base.number);
        int r = scope_new(s->scopes, slice, description, systemd_on_up, c, &c->scope);
        if (r >= 0)
                snprintf(c->base.name, sizeof c->base.name, "%.47s", c->scope->name);
        return r;
}

static void systemd_remove_leaf(struct CellCgroup *g, const char *leaf) {
        struct SystemdCell *c = cell_of(g);
        struct Systemd *s = (struct Systemd *) g->owner;
        char path[JANITOR_PATH_MAX];
        snprintf(path, sizeof path, "%.*s%s%s", JANITOR_PATH_MAX - 64, c->scope ? c->scope->path : c->path, *leaf ? "/" : "", leaf);
        int r = janitor_remove(s->janitor, path, NULL, NULL);
        if (r < 0)
                log_warning_errno(r, "Failed to have the cgroup %s removed, it goes with its cell: %m", path);
}

static int systemd_make(struct Cgroups *o, uint64_t number, const char *slice, cgroup_handler_t on_made, void *userdata, struct CellCgroup **ret) {
        struct Systemd *s = (struct Systemd *) o;
        struct SystemdCell *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        c->base = (struct CellCgroup) {.owner = o, .number = number, .dir = -EBADF, .handler = on_made, .userdata = userdata};
        snprintf(c->base.name, sizeof c->base.name, "cell-%" PRIu64, number);
        int r = s->is_shared ? shared_make(s, c, slice) : own_make(s, c, slice);
        if (c->shared)
                c->shared->n_cells++;
        if (r >= 0) {
                *ret = &c->base;
                return r;
        }
        if (*c->path)
                systemd_remove_leaf(&c->base, "");
        cell_cgroup_free(&c->base);
        return r;
}

static void systemd_on_left(struct Scope *scope, int error, void *userdata) {
        struct SystemdCell *c = userdata;
        if (error >= 0)
                c->scope = NULL;
        c->base.handler(&c->base, error, c->base.userdata);
}

static void systemd_on_removed(int error, void *userdata) {
        struct SystemdCell *c = userdata;
        c->base.handler(&c->base, error, c->base.userdata);
}

static int systemd_on_tell(sd_event_source *source, void *userdata) {
        struct SystemdCell *c = userdata;
        c->tell = sd_event_source_disable_unref(c->tell);
        c->base.handler(&c->base, 0, c->base.userdata);
        return 0;
}

static int systemd_remove(struct CellCgroup *g, cgroup_handler_t on_removed, void *userdata) {
        struct SystemdCell *c = cell_of(g);
        struct Systemd *s = (struct Systemd *) g->owner;
        g->handler = on_removed;
        g->userdata = userdata;
        if (c->scope)
                return scope_leave(c->scope, systemd_on_left);
        if (*c->path)
                return janitor_remove(s->janitor, c->path, systemd_on_removed, c);
        return sd_event_add_defer(s->event, &c->tell, systemd_on_tell, c);
}

static void systemd_settled(struct CellCgroup *g) {
        struct SystemdCell *c = cell_of(g);
        if (c->scope)
                scope_settled(c->scope);
}

static void systemd_forget(struct CellCgroup *g) {
        struct SystemdCell *c = cell_of(g);
        sd_event_source_disable_unref(c->tell);
        if (c->scope)
                scope_forget(c->scope);
        if (c->is_waiting)
                LIST_REMOVE(c, entry);
        if (c->shared)
                c->shared->n_cells--;
}

/* The start: the loop turns until each step is done. Nobody is served yet. */

static int turn_until(struct Systemd *s, bool (*is_done)(const struct Systemd *s), usec_t time) {
        usec_t deadline = now_monotonic() + time;
        while (!is_done(s)) {
                usec_t now = now_monotonic();
                if (now >= deadline)
                        return -ETIMEDOUT;
                int r = sd_event_run(s->event, deadline - now);
                if (r < 0)
                        return r;
                if (sd_event_get_state(s->event) == SD_EVENT_EXITING || sd_event_get_state(s->event) == SD_EVENT_FINISHED)
                        return -ECANCELED;
        }
        return 0;
}

static bool is_connected(const struct Systemd *s) {
        return manager_is_ready(s->scopes->manager);
}

static bool is_clean(const struct Systemd *s) {
        return scopes_is_clean(s->scopes);
}

static bool has_own_unit(const struct Systemd *s) {
        return scopes_own(s->scopes) <= 0;
}

static bool has_answer(const struct Systemd *s) {
        return s->trial_answer <= 0;
}

static bool has_left(const struct Systemd *s) {
        return !s->trial;
}

static struct Ceilings ceilings_of(const struct Systemd *s, const struct Limits *caps) {
        unsigned n = s->is_shared ? PER_SLICE : 1;
        return (struct Ceilings) {
                .memory_bytes = n * (caps->memory_bytes + SPARE_MEMORY),
                .processes = n * (caps->max_processes + SPARE_PROCESSES),
                .cpus = n * (caps->cpus + SPARE_CPUS),
        };
}

static void systemd_set_caps(struct Cgroups *o, const struct Limits *caps) {
        struct Systemd *s = (struct Systemd *) o;
        const struct Ceilings ceilings = ceilings_of(s, caps);
        scopes_set_ceilings(s->scopes, &ceilings);
}

static int connect_bus(struct Systemd *s, const struct CgroupSetup *setup, char **ret_error) {
        const struct ScopesSetup scopes = {
                .event = s->event,
                .names = &s->names,
                .mount = s->mount,
                .controllers = CONTROLLER_ALL,
                .per_slice = s->is_shared ? 1 : PER_SLICE,
                .ceilings = ceilings_of(s, setup->caps),
        };
        int r = scopes_new(&scopes, &s->scopes);
        if (r >= 0)
                r = turn_until(s, is_connected, BUS_TIME);
        if (r == -ETIMEDOUT && manager_error(s->scopes->manager) < 0)
                r = manager_error(s->scopes->manager);
        if (r < 0)
                return complain(ret_error, r, "PID 1 cannot be reached over the system bus (%s): systemd and dbus must run here; or set driver = cgroupfs in "
                                "section [spawner]", strerror(-r));
        r = turn_until(s, is_clean, START_TIME);
        return r < 0 ? complain(ret_error, r, "scopes that an earlier life of this spawner left cannot be stopped (%s): systemctl stop 'glovebox-%s-*.scope'",
                                strerror(-r), s->names.id)
                     : 0;
}

/* systemd says which process it started for a service; only that one's end ends the service. */
static int find_own_unit(struct Systemd *s, char **ret_error) {
        _cleanup_free_ char *unit = NULL;
        const char *pid = getenv("SYSTEMD_EXEC_PID");
        size_t length = sd_pid_get_unit(0, &unit) >= 0 ? strlen(unit) : 0;
        if (pid && strtol(pid, NULL, 10) == getpid() && length > 8 && length < UNIT_NAME_LEN && streq(unit + length - 8, ".service")) {
                strcpy(s->scopes->bound, unit);
                return 0;
        }
        int r = scopes_make_own(s->scopes);
        if (r >= 0)
                r = turn_until(s, has_own_unit, START_TIME);
        if (r >= 0)
                r = scopes_own(s->scopes);
        return r < 0 ? complain(ret_error, r, "systemd does not make a scope for this process (%s): %s", strerror(-r), s->scopes->refusal) : 0;
}

static void trial_on_up(struct Scope *scope, int error, void *userdata) {
        struct Systemd *s = userdata;
        s->trial_answer = MIN(error, 0);
}

static void trial_on_left(struct Scope *scope, int error, void *userdata) {
        struct Systemd *s = userdata;
        if (error >= 0)
                s->trial = NULL;
}

static int check_trial(struct Systemd *s, const struct CgroupSetup *setup, char **ret_error) {
        char missing[64];
        s->base.controllers = s->trial->controllers;
        controllers_missing(s->base.controllers, setup->waive, missing, sizeof missing);
        if (*missing)
                return complain(ret_error, -EOPNOTSUPP, "systemd does not delegate cgroup controller %s to a scope (cgroup v1 or hybrid machine, cgroup_disable= at boot, or "
                                "DisableControllers= of glovebox.slice); boot with systemd.unified_cgroup_hierarchy=1, or run without these limits: --waive %s", missing, missing);
        return cgroup_check_kernel(s->trial->dir, s->trial->path, ret_error);
}

/* One scope as every cell gets it: whatever is wrong on this machine is said now, and which controllers leaves can have. */
static int try_scope(struct Systemd *s, const struct CgroupSetup *setup, char **ret_error) {
        s->trial_answer = 1;
        int r = scope_new(s->scopes, NULL, "Glovebox: trial", trial_on_up, s, &s->trial);
        if (r >= 0)
                r = turn_until(s, has_answer, START_TIME);
        if (r >= 0)
                r = s->trial_answer;
        r = r < 0 ? complain(ret_error, r, "systemd does not make a scope for a cell (%s): %s", strerror(-r), s->scopes->refusal)
                  : check_trial(s, setup, ret_error);
        if (r >= 0)
                r = scope_leave(s->trial, trial_on_left);
        if (r >= 0) {
                r = turn_until(s, has_left, START_TIME);
                if (r < 0)
                        return complain(ret_error, r, "systemd does not remove a scope that is empty: %s", strerror(-r));
        }
        if (s->trial)
                scope_forget(s->trial);
        s->trial = NULL;
        return r;
}

static int open_tree(struct Systemd *s, const struct CgroupSetup *setup, char **ret_error) {
        _cleanup_free_ char *root = NULL;
        char boot[64] = "";
        if (geteuid() != 0)
                return complain(ret_error, -EPERM, "the cgroup driver systemd needs root");
        int r = tree_root(&root);
        if (r < 0)
                return complain(ret_error, r, "no cgroup2 hierarchy is mounted; Glovebox needs it to freeze and kill cells (mount -t cgroup2 none /sys/fs/cgroup)");
        s->mount = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s->mount < 0)
                return complain(ret_error, -errno, "cannot open %s: %m", root);
        _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read_small(fd, boot, sizeof boot) < 0)
                return complain(ret_error, -errno, "cannot read /proc/sys/kernel/random/boot_id: %m");
        names_init(&s->names, boot, setup->state);
        return 0;
}

static int start_helpers(struct Systemd *s, char **ret_error) {
        int r = janitor_new(s->event, s->mount, &s->janitor);
        if (r >= 0)
                r = leaders_new(s->event, &s->scopes->leaders);
        s->scopes->setup.janitor = s->janitor;
        return r < 0 ? complain(ret_error, r, "cannot start the processes that make and remove cgroups: %s", strerror(-r)) : 0;
}

static int systemd_start(const struct CgroupSetup *setup, struct Cgroups **ret, char **ret_error) {
        struct Systemd *s _cleanup_(systemd_stopp) = calloc(1, sizeof *s);
        if (!s)
                return -ENOMEM;
        *s = (struct Systemd) {.base.driver = &systemd_driver, .event = setup->event, .is_shared = setup->shared, .mount = -EBADF};
        LIST_INIT(&s->shared);
        int r = open_tree(s, setup, ret_error);
        if (r >= 0)
                r = connect_bus(s, setup, ret_error);
        if (r >= 0)
                r = find_own_unit(s, ret_error);
        /* Only now: they are to be in the own unit, too. */
        if (r >= 0)
                r = start_helpers(s, ret_error);
        if (r >= 0)
                r = try_scope(s, setup, ret_error);
        if (r < 0)
                return r;
        *ret = &TAKE_PTR(s)->base;
        return 0;
}

static struct Cgroups *systemd_stop(struct Cgroups *o) {
        struct Systemd *s = (struct Systemd *) o;
        struct Shared *h;
        if (s->scopes)
                scopes_stop_now(s->scopes);
        scopes_free(s->scopes);
        while ((h = LIST_FIRST(&s->shared))) {
                LIST_REMOVE(h, entry);
                free(h);
        }
        janitor_free(s->janitor);
        close_fd(s->mount);
        free(s);
        return NULL;
}

const struct CgroupDriver systemd_driver = {
        .name = "systemd",
        .has_slices = true,
        .start = systemd_start,
        .make = systemd_make,
        .remove = systemd_remove,
        .remove_leaf = systemd_remove_leaf,
        .settled = systemd_settled,
        .set_caps = systemd_set_caps,
        .forget = systemd_forget,
        .stop = systemd_stop,
};
