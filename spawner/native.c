/* Cells made of namespaces. A cell holds a slot of uids, a cgroup, and an init that the builder made; each is taken in prepare in this
 * order and given back by destroy, which verifies that nothing is left before a uid can be used again. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "common/job.h"
#include "common/log.h"
#include "spawner/builder.h"
#include "spawner/cell.h"
#include "spawner/limits/io.h"
#include "spawner/observer.h"
#include "spawner/placer.h"
#include "spawner/run.h"
#include "spawner/slots.h"
#include "spawner/space.h"
#include "spawner/trace.h"
#include "spawner/zygote.h"

#define DESTROY_TIME (10 * USEC_PER_SEC)
#define WARM_TIME (30 * USEC_PER_SEC)
#define WANTED_TIME (2 * USEC_PER_SEC) /* of that, once a run waits for it */
#define REPLACE_TIME (10 * USEC_PER_SEC)
#define REMOVE_PAUSE (5 * USEC_PER_MSEC)

/* Of a main process that the server does not know yet. */
enum Ahead {
        AHEAD_NONE,      /* there is none, or the server has it */
        AHEAD_FORKING,   /* the zygote has been asked for it, or it is on its way into its leaf */
        AHEAD_WARMING,   /* it has not said yet that it waits */
        AHEAD_WAITING,   /* for its job */
        AHEAD_REPLACING, /* it is no good for the run that is wanted, and dies */
};

struct Native {
        struct Cell *cell;
        int slot;
        struct CellCgroup *cgroup;
        bool cgroup_pending;      /* made by the driver, not answered yet */
        struct Leaf init_leaf;
        struct Build build;
        int inner[2], outer[2];   /* ends of the pipes collect and files; inner until init has them */
        pid_t init_pid;
        int init;                 /* pidfd */
        sd_event_source *init_source;
        struct Space space;
        struct Run run;
        uint64_t runs;            /* so far */
        enum Ahead ahead;
        bool prepared;            /* the leaf of the next run is there */
        bool wanted;              /* cell->run waits for its main process */
        bool alone;               /* no zygote for this run */
        bool fork_warm;           /* what the zygote is asked for is to wait */
        bool over;                /* main has told its status, and is killed */
        uint8_t status;
        struct ZygoteFork fork;
        struct Placing placing;
        struct Wait replaced;
        sd_event_source *report, *report_deadline; /* while it warms up */
        struct LeafUsage warmed;  /* what that took */
        struct Look look;
        struct FactSpec told;     /* of its machine */
        bool destroying;
        struct Wait gone;
        sd_event_source *retry;
        usec_t destroy_deadline;
};

static void native_destroy_go_on(struct Native *n);
static void prepare_ahead(struct Native *n);

static struct Cgroups *cgroups(struct Native *n) {
        return n->cell->world->cgroups;
}

static int native_on_init_exit(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct Native *n = userdata;
        n->init_source = sd_event_source_disable_unref(n->init_source);
        cell_on_lost(n->cell);
        return 0;
}

static int make_pipes(struct Native *n) {
        int collect[2], files[2];
        if (pipe2(collect, O_CLOEXEC) < 0)
                return -errno;
        n->inner[0] = collect[0];
        n->outer[0] = collect[1];
        if (pipe2(files, O_CLOEXEC) < 0)
                return -errno;
        n->inner[1] = files[1];
        n->outer[1] = files[0];
        return 0;
}

static void close_ends(int ends[2]) {
        for (int i = 0; i < 2; i++)
                ends[i] = close_fd(ends[i]);
}

static void native_on_built(struct Build *b, int error, const char *step, pid_t pid, int pidfd) {
        struct Native *n = CONTAINER_OF(b, struct Native, build);
        close_ends(n->inner);
        n->init = pidfd;
        n->init_pid = pid;
        if (n->destroying) {
                native_destroy_go_on(n);
                return;
        }
        if (error >= 0) {
                step = "file systems";
                error = space_open(&n->space, pid, pidfd);
        }
        if (error >= 0) {
                step = "watch init";
                error = sd_event_add_io(n->cell->world->event, &n->init_source, n->init, EPOLLIN, native_on_init_exit, n);
        }
        if (error >= 0 && cgroups(n)->driver->settled)
                cgroups(n)->driver->settled(n->cgroup);
        cell_on_prepared(n->cell, MIN(error, 0), step);
}

static int native_build(struct Native *n) {
        struct Cell *c = n->cell;
        int r = cell_bound(n->cgroup->dir, cgroups(n)->controllers, &c->limits);
        if (r >= 0)
                r = leaf_make(&n->init_leaf, n->cgroup->dir, "init", cgroups(n)->controllers, NULL);
        if (r >= 0)
                r = make_pipes(n);
        if (r < 0)
                return r;
        n->build.request = (struct ConstructRequest) {
                .number = c->number,
                .runtime = c->runtime,
                .slot = n->slot,
                .workspace_bytes = c->limits.workspace_bytes,
                .workspace_inodes = c->limits.workspace_inodes,
                .memory_bytes = c->limits.memory_bytes,
                .cpus = c->limits.cpus,
        };
        n->told = (struct FactSpec) {.cpus = c->limits.cpus, .memory_bytes = c->limits.memory_bytes};
        n->build.fds[CONSTRUCT_LEAF] = n->init_leaf.dir;
        n->build.fds[CONSTRUCT_COLLECT] = n->inner[0];
        n->build.fds[CONSTRUCT_FILES] = n->inner[1];
        n->build.on_built = native_on_built;
        trace("spawner: cgroup of the cell");
        if (!isempty(c->tag))
                log_step(MESSAGE_CELL_BEGUN, c->tag, "Cell %" PRIu64 " is made, its cgroup is %s.", c->number, n->cgroup->name);
        builder_build(c->world->builder, &n->build);
        prepare_ahead(n);
        return 0;
}

static void native_on_cgroup(struct CellCgroup *g, int error, void *userdata) {
        struct Native *n = userdata;
        n->cgroup_pending = false;
        if (n->destroying) {
                native_destroy_go_on(n);
                return;
        }
        if (error >= 0)
                error = native_build(n);
        if (error < 0)
                cell_on_prepared(n->cell, error, "cgroup of the cell");
}

static void native_on_seen(struct Look *l, enum Waiting waiting) {
        struct Native *n = CONTAINER_OF(l, struct Native, look);
        cell_on_waiting(n->cell, waiting_words(waiting));
}

static bool native_is_gone(void *userdata);
static void native_on_gone(int error, void *userdata);
static bool native_is_replaced(void *userdata);
static void native_on_replaced(int error, void *userdata);
static void native_on_forked(struct ZygoteFork *f, int error, const char *step, pid_t pid);
static void native_on_placed(struct Placing *p, int error);

static int native_prepare(struct Cell *c) {
        struct Native *n = calloc(1, sizeof *n);
        if (!n)
                return -ENOMEM;
        *n = (struct Native) {
                .cell = c, .slot = -1, .init = -EBADF, .init_leaf = {.dir = -EBADF, .events = -EBADF},
                .inner = {-EBADF, -EBADF}, .outer = {-EBADF, -EBADF},
                .gone = {.is_over = native_is_gone, .on_over = native_on_gone, .userdata = n},
                .replaced = {.is_over = native_is_replaced, .on_over = native_on_replaced, .userdata = n},
                .fork = {.on_forked = native_on_forked},
                .placing = {.on_placed = native_on_placed},
                .look = {.on_seen = native_on_seen},
        };
        run_init(&n->run);
        space_init(&n->space);
        c->impl = n;
        n->slot = slots_acquire(c->world->slots);
        if (n->slot < 0)
                return n->slot;
        int r = cgroups(n)->driver->make(cgroups(n), c->number, c->slice, native_on_cgroup, n, &n->cgroup);
        if (r == 0)
                n->cgroup_pending = true;
        else if (r > 0)
                r = native_build(n);
        if (r < 0) {
                if (n->cgroup)
                        cgroups(n)->driver->remove_leaf(n->cgroup, ""); /* the folder itself */
                slots_release(c->world->slots, n->slot);
        }
        return MIN(r, 0);
}

static void native_spoiled(struct Native *n, int error, const char *step);

static void native_reap(struct Native *n) {
        struct MainExit e;
        if (run_reap(&n->run, &e) == 0)
                return;
        if (n->ahead != AHEAD_NONE) {
                if (n->ahead != AHEAD_REPLACING && !n->destroying)
                        native_spoiled(n, -ECHILD, "process that waits");
                return;
        }
        if (e.signaled && e.status == SIGKILL && !n->destroying && n->cell->state == CELL_RUNNING)
                e.init_died = run_init_is_dying(n->init_pid, n->init);
        if (e.signaled && e.status == SIGKILL && n->over && !e.init_died) {
                e.signaled = false;
                e.status = n->status;
        }
        cell_on_main_exit(n->cell, &e);
}

static int native_on_main_exit(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        native_reap(userdata);
        return 0;
}

/* Each run gets duplicates: the cell's own stay for the next one. */
static int give_pipes(const struct Native *n, struct RunFds *ret) {
        static const Glovebox__Internal__Role roles[] = {GLOVEBOX__INTERNAL__ROLE__ROLE_COLLECT, GLOVEBOX__INTERNAL__ROLE__ROLE_FILES};
        for (int i = 0; i < 2; i++) {
                int fd = fcntl(n->outer[i], F_DUPFD_CLOEXEC, 3);
                if (fd < 0)
                        return -errno;
                ret->roles[ret->n] = roles[i];
                ret->fds[ret->n++] = fd;
        }
        return 0;
}

/* Starting a main process: a zygote clones it, or it is a program of its own. Either now, for a run, or ahead, to wait for one. */

static struct RunSetup run_setup(struct Native *n) {
        struct CellWorld *world = n->cell->world;
        return (struct RunSetup) {
                .world = world, .runtime = &world->config->runtimes[n->cell->runtime], .cell_dir = n->cgroup->dir, .init = n->init,
                .init_pid = n->init_pid, .slot = n->slot, .number = n->runs, .told = &n->told,
        };
}

static struct Zygote *zygote_of(const struct Native *n) {
        struct Zygote **zygotes = n->cell->world->zygotes;
        return zygotes ? zygotes[n->cell->runtime] : NULL;
}

static int watch_main(struct Native *n, const char **ret_step) {
        *ret_step = "watch the main process";
        return sd_event_add_io(n->cell->world->event, &n->run.source, n->run.pidfd, EPOLLIN, native_on_main_exit, n);
}

static int hand_over(struct Native *n, struct RunFds *ret, const char **ret_step) {
        n->ahead = AHEAD_NONE;
        n->wanted = n->alone = false;
        run_give(&n->run, ret);
        *ret_step = "pipes of init";
        return give_pipes(n, ret);
}

static int ask_zygote(struct Native *n, const struct RunSetup *setup, bool warm) {
        struct ZygoteRequest request = {.warm = warm};
        int fds[ZYGOTE_FDS_];
        int r = run_fill_fork(&n->run, setup, &request, fds);
        if (r < 0)
                return r;
        n->fork.number = n->cell->number;
        r = zygote_fork(zygote_of(n), &n->fork, &request, fds);
        for (size_t i = 0; i < ZYGOTE_PIPES; i++)
                close_fd(fds[i]);
        if (r >= 0)
                run_close_inside(&n->run);
        return r;
}

static void forget_run(struct Native *n) {
        n->report = sd_event_source_disable_unref(n->report);
        n->report_deadline = sd_event_source_disable_unref(n->report_deadline);
        if (n->run.has_leaf)
                cgroups(n)->driver->remove_leaf(n->cgroup, n->run.leaf.name);
        run_done(&n->run);
        n->ahead = AHEAD_NONE;
        n->prepared = false;
}

static int prepare_run(struct Native *n, const struct RunSpec *spec, const char **ret_step) {
        if (!n->prepared)
                n->runs++;
        const struct RunSetup setup = run_setup(n);
        int r = n->prepared ? run_reuse(&n->run, &setup, spec, ret_step) : run_prepare(&n->run, &setup, spec, ret_step);
        n->prepared = false;
        return r < 0 ? r : run_open(&n->run, &setup, spec, ret_step);
}

/* What the cell is to run, as it was made. */
static struct RunSpec spec_ahead(const struct Native *n) {
        return (struct RunSpec) {.limits = n->cell->limits};
}

/* What takes part of the kernel's own lock on cgroups, which others may hold for long, is done before a run is asked for, while the builder is at
 * work. If it fails, the run tries it once more and says why. */
static void prepare_ahead(struct Native *n) {
        const struct RunSpec spec = spec_ahead(n);
        const char *step = "";
        n->runs++;
        const struct RunSetup setup = run_setup(n);
        n->prepared = run_prepare(&n->run, &setup, &spec, &step) >= 0;
        if (!n->prepared)
                forget_run(n);
}

/* 1 = it comes later. */
static int begin_main(struct Native *n, const struct RunSpec *spec, bool wait, struct RunFds *ret, const char **ret_step) {
        bool forked = !spec->fresh && !spec->probe && !spec->probe_version && !n->alone && zygote_want(zygote_of(n));
        int r = prepare_run(n, spec, ret_step);
        const struct RunSetup setup = run_setup(n);
        if (r < 0)
                return r;
        if (forked) {
                *ret_step = "zygote";
                r = ask_zygote(n, &setup, wait);
                n->ahead = r >= 0 ? AHEAD_FORKING : n->ahead;
                if (r >= 0)
                        return 1;
                if (r != -EAGAIN || wait) {
                        forget_run(n);
                        return r;
                }
        }
        if (ret)
                ret->begun = now_monotonic();
        r = run_start(&n->run, &setup, spec, wait, ret_step);
        if (r >= 0)
                r = watch_main(n, ret_step);
        return r < 0 || wait ? r : hand_over(n, ret, ret_step);
}

static void tell_started(struct Native *n, int error, const char *step, struct RunFds *fds) {
        n->wanted = false;
        cell_on_started(n->cell, error, step, fds);
        for (size_t i = 0; i < fds->n; i++)
                close_fd(fds->fds[i]);
}

static void begin_wanted(struct Native *n) {
        struct RunFds fds = {};
        const char *step = "";
        int r = begin_main(n, &n->cell->run, false, &fds, &step);
        if (r <= 0)
                tell_started(n, r, step, &fds);
}

static bool native_is_replaced(void *userdata) {
        struct Native *n = userdata;
        native_reap(n);
        return n->run.pidfd < 0 && (!n->run.has_leaf || leaf_is_populated(&n->run.leaf) == 0);
}

static void native_on_replaced(int error, void *userdata) {
        struct Native *n = userdata;
        if (error < 0) {
                cell_on_spoiled(n->cell, error, "end the process that waited");
                return;
        }
        forget_run(n);
        begin_wanted(n);
}

/* The one that waits is no good for the run that is wanted: it goes, and an interpreter is started in the same cell. */
static int replace_main(struct Native *n) {
        n->ahead = AHEAD_REPLACING;
        n->report = sd_event_source_disable_unref(n->report);
        n->report_deadline = sd_event_source_disable_unref(n->report_deadline);
        placer_forget(n->cell->world->placer, &n->placing);
        int r = cgroup_freeze(n->run.leaf.dir, true);
        int q = cgroup_kill(n->run.leaf.dir);
        /* It may not be in its leaf yet. */
        if (n->run.pidfd >= 0 && syscall(SYS_pidfd_send_signal, n->run.pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH && q >= 0)
                q = -errno;
        if (r >= 0 && q >= 0)
                r = wait_start(&n->replaced, n->cell->world->event, REPLACE_TIME);
        return q < 0 ? q : r;
}

static void native_spoiled(struct Native *n, int error, const char *step) {
        if (!n->wanted) {
                cell_on_spoiled(n->cell, error, step);
                return;
        }
        n->alone = true; /* whatever it died of, this run does not try it again */
        int r = n->run.has_leaf ? replace_main(n) : error;
        if (r < 0)
                cell_on_spoiled(n->cell, r, step);
}

/* It waits, and is wanted. */
static int use_waiting(struct Native *n, struct RunFds *ret, const char **ret_step) {
        const struct RunSetup setup = run_setup(n);
        ret->begun = now_monotonic();
        int r = run_change(&n->run, &setup, &n->cell->run, ret_step);
        if (r > 0) {
                ret->waited = true;
                ret->before = n->warmed;
                return hand_over(n, ret, ret_step);
        }
        /* It is no good for this, or has just died: another one. */
        n->wanted = true;
        n->alone |= r < 0;
        *ret_step = "end the process that waited";
        r = replace_main(n);
        return r < 0 ? r : 1;
}

static int native_on_report(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct Native *n = userdata;
        uint8_t record[JOB_HEADER_SIZE + 4 + RUN_STEP_MAX];
        ssize_t size = read(fd, record, sizeof record);
        char failed[RUN_STEP_MAX + 1];
        int error;
        n->report = sd_event_source_disable_unref(n->report);
        n->report_deadline = sd_event_source_disable_unref(n->report_deadline);
        if (run_parse_failure(record, size, &error, failed)) {
                native_spoiled(n, error, failed);
                return 0;
        }
        if (size != JOB_HEADER_SIZE || job_get_u32(record) != REPORT_READY || job_get_u32(record + 4) != 0) {
                native_spoiled(n, -EPROTO, "warm up");
                return 0;
        }
        n->ahead = AHEAD_WAITING;
        run_usage(&n->run, &n->warmed);
        if (!n->wanted) {
                cell_on_warm(n->cell);
                return 0;
        }
        struct RunFds fds = {};
        const char *step = "";
        int r = use_waiting(n, &fds, &step);
        if (r <= 0)
                tell_started(n, r, step, &fds);
        return 0;
}

static int native_on_report_deadline(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Native *n = userdata;
        if (n->wanted && log_limit_pass(&n->cell->world->complaints))
                log_warning("What was to wait for an execution of %s was not ready in time; it is started anew.",
                            n->cell->world->config->runtimes[n->cell->runtime].key);
        native_spoiled(n, -ETIMEDOUT, "warm up");
        return 0;
}

static int watch_report(struct Native *n) {
        sd_event *event = n->cell->world->event;
        int r = sd_event_add_io(event, &n->report, run_fd(&n->run, GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT), EPOLLIN, native_on_report, n);
        n->ahead = AHEAD_WARMING;
        usec_t time = n->wanted ? WANTED_TIME : WARM_TIME;
        return r < 0 ? r : sd_event_add_time_relative(event, &n->report_deadline, CLOCK_MONOTONIC, time, 0, native_on_report_deadline, n);
}

/* The zygote has given nothing: an interpreter of the run's own; or, ahead of one, none for now. */
static void fork_failed(struct Native *n) {
        forget_run(n);
        n->cell->warming = false;
        n->alone = n->wanted;
        if (n->wanted)
                begin_wanted(n);
}

static void native_on_forked(struct ZygoteFork *f, int error, const char *step, pid_t pid) {
        struct Native *n = CONTAINER_OF(f, struct Native, fork);
        const struct RunSetup setup = run_setup(n);
        bool forked = error >= 0;
        if (forked)
                error = run_take_fork(&n->run, &setup, pid, &step);
        if (forked && error == -EPERM)
                zygote_distrust(zygote_of(n), &n->fork, "named a process that is none of its own, and is killed");
        if (error < 0) {
                fork_failed(n);
                return;
        }
        error = watch_main(n, &step);
        if (error >= 0) {
                step = "place the forked process";
                error = placer_place(n->cell->world->placer, n->run.leaf.dir, pid, &n->placing);
        }
        if (error < 0)
                native_spoiled(n, error, step);
}

static void native_on_placed(struct Placing *p, int error) {
        struct Native *n = CONTAINER_OF(p, struct Native, placing);
        const struct RunSetup setup = run_setup(n);
        const struct RunSpec spec = n->fork_warm ? spec_ahead(n) : n->cell->run;
        const char *step = "place the forked process";
        struct RunFds fds = {.begun = now_monotonic()};
        if (error >= 0)
                error = run_begin_fork(&n->run, &setup, &spec, &step);
        if (error >= 0 && n->fork_warm)
                error = watch_report(n);
        if (error < 0) {
                native_spoiled(n, error, step);
                return;
        }
        if (n->fork_warm)
                return;
        error = hand_over(n, &fds, &step);
        tell_started(n, error, step, &fds);
}

static int native_warm(struct Cell *c) {
        struct Native *n = c->impl;
        const struct RunSpec spec = spec_ahead(n);
        const char *step = "";
        /* Another interpreter would not have what the zygote preloads. */
        if (c->world->config->runtimes[c->runtime].zygote && !zygote_want(zygote_of(n)))
                return -EAGAIN;
        n->fork_warm = true;
        int r = begin_main(n, &spec, true, NULL, &step);
        if (r == 0)
                r = watch_report(n);
        return r < 0 ? r : 1;
}

static bool native_is_warm(struct Cell *c) {
        struct Native *n = c->impl;
        return n->ahead == AHEAD_WAITING;
}

static int native_adopt(struct Cell *c, const struct Limits *limits) {
        struct Native *n = c->impl;
        const struct Limits *was = &c->limits;
        int r = limits->workspace_bytes == was->workspace_bytes && limits->workspace_inodes == was->workspace_inodes
                        ? 0 : space_resize(&n->space, limits->workspace_bytes, limits->workspace_inodes);
        return r < 0 ? r : cell_bound(n->cgroup->dir, cgroups(n)->controllers, limits);
}

static int native_start(struct Cell *c, const struct RunSpec *spec, struct RunFds *ret, const char **ret_step) {
        struct Native *n = c->impl;
        if (n->ahead == AHEAD_WAITING)
                return use_waiting(n, ret, ret_step);
        n->wanted = true;
        if (n->ahead == AHEAD_NONE) {
                n->fork_warm = false;
                return begin_main(n, spec, false, ret, ret_step);
        }
        if (n->ahead != AHEAD_WARMING)
                return 1; /* as soon as it waits */
        const struct RunSetup setup = run_setup(n);
        *ret_step = "end the process that waited";
        int r = run_may_change(&n->run, &setup, spec) ? sd_event_source_set_time_relative(n->report_deadline, WANTED_TIME) : replace_main(n);
        return r < 0 ? r : 1;
}

static int native_freeze(struct Cell *c, bool frozen) {
        struct Native *n = c->impl;
        return n->run.has_leaf ? cgroup_freeze(n->run.leaf.dir, frozen) : 0;
}

static int native_usage(struct Cell *c, struct CellUsage *ret) {
        struct Native *n = c->impl;
        char text[1024];
        int fd _cleanup_close_ = openat(n->run.leaf.dir, "cpu.stat", O_RDONLY | O_CLOEXEC);
        struct CellUsage usage = {};
        if (fd < 0)
                return -errno;
        ssize_t size = read_small(fd, text, sizeof text);
        int r = size < 0 ? (int) size : keyed_number(text, "usage_usec", &usage.cpu);
        if (r < 0)
                return r;
        int peak _cleanup_close_ = openat(n->run.leaf.dir, "memory.peak", O_RDONLY | O_CLOEXEC);
        if (peak >= 0 && read_small(peak, text, sizeof text) > 0)
                usage.memory_peak = strtoull(text, NULL, 10);
        *ret = usage;
        return 0;
}

static int native_kill(struct Cell *c) {
        struct Native *n = c->impl;
        int r = n->run.has_leaf ? cgroup_kill(n->run.leaf.dir) : 0;
        /* The kernel passes over a process whose first thread has ended, though others live. */
        if (n->run.pidfd >= 0 && syscall(SYS_pidfd_send_signal, n->run.pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH && r >= 0)
                r = -errno;
        return r < 0 || !n->run.has_leaf ? r : leaf_hurry(&n->run.leaf, cgroups(n)->controllers);
}

static bool native_is_over(struct Cell *c) {
        struct Native *n = c->impl;
        native_reap(n);
        return n->run.pidfd < 0 && (!n->run.has_leaf || leaf_is_populated(&n->run.leaf) == 0);
}

static void native_finish(struct Cell *c) {
        struct Native *n = c->impl;
        observer_forget(c->world->observer, &n->look);
        if (n->run.has_leaf)
                cgroups(n)->driver->remove_leaf(n->cgroup, n->run.leaf.name);
        run_done(&n->run);
        n->over = false;
}

static int native_main_over(struct Cell *c, uint8_t status) {
        struct Native *n = c->impl;
        struct MainExit e = {.status = status};
        native_reap(n);
        if (c->told_exit)
                return 0;
        int r = run_over(&n->run, &e.max_rss_bytes);
        if (r > 0) {
                cell_on_main_exit(c, &e);
                return 0;
        }
        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
                return r; /* ours: nothing is known of it, and it is not to be blamed */
        /* Only its real end tells all; or how it ended, where another process said that it was over: any of the cell could have killed it. */
        n->over = r == -ECHILD;
        n->status = status;
        return native_kill(c);
}

static bool native_is_full(struct Cell *c) {
        struct Native *n = c->impl;
        return space_is_full(&n->space);
}

static void native_ask_waiting(struct Cell *c) {
        struct Native *n = c->impl;
        if (!n->run.has_leaf || observer_look(c->world->observer, n->run.leaf.dir, &n->look) < 0)
                cell_on_waiting(c, waiting_words(WAITING_UNKNOWN));
}

/* Destroying: kill, wait until no process is left, remove the cgroups, give the slot back. */

static bool native_is_gone(void *userdata) {
        struct Native *n = userdata;
        struct pollfd p = {.fd = n->init, .events = POLLIN};
        native_reap(n);
        run_reap_strangers(n->cell->world);
        if (n->run.pidfd >= 0 || (n->init >= 0 && poll(&p, 1, 0) == 0))
                return false;
        if (n->init_leaf.events >= 0 && leaf_is_populated(&n->init_leaf) != 0)
                return false;
        return !n->run.has_leaf || leaf_is_populated(&n->run.leaf) == 0;
}

static void native_destroyed(struct Native *n, const char *left) {
        struct Cell *c = n->cell;
        if (isempty(left))
                slots_release(c->world->slots, n->slot);
        cell_on_destroyed(c, left);
}

static void native_left(struct Native *n, const char *what, int error) {
        char left[160];
        snprintf(left, sizeof left, "%s: %s", what, strerror(-error));
        native_destroyed(n, left);
}

static void native_remove(struct Native *n);

static int native_on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        native_remove(userdata);
        return 0;
}

static void native_on_removed(struct CellCgroup *g, int error, void *userdata) {
        struct Native *n = userdata;
        if (error >= 0) {
                native_destroyed(n, "");
                return;
        }
        n->retry = sd_event_source_disable_unref(n->retry);
        if (now_monotonic() < n->destroy_deadline &&
            sd_event_add_time_relative(n->cell->world->event, &n->retry, CLOCK_MONOTONIC, REMOVE_PAUSE, 0, native_on_retry, n) >= 0)
                return;
        native_left(n, g->name, error);
}

static void native_remove(struct Native *n) {
        if (!n->cgroup) {
                native_destroyed(n, "");
                return;
        }
        int r = cgroups(n)->driver->remove(n->cgroup, native_on_removed, n);
        if (r < 0)
                native_left(n, n->cgroup->name, r);
}

static void native_on_gone(int error, void *userdata) {
        struct Native *n = userdata;
        if (error < 0) {
                run_leave(&n->run, n->cell->world->event);
                native_destroyed(n, "processes that do not die");
                return;
        }
        n->init_source = sd_event_source_disable_unref(n->init_source);
        space_done(&n->space);
        run_done(&n->run);
        leaf_done(&n->init_leaf);
        native_remove(n);
}

static void native_destroy_go_on(struct Native *n) {
        if (n->build.queued || n->cgroup_pending)
                return; /* what is under way answers first, and calls again */
        n->destroy_deadline = now_monotonic() + DESTROY_TIME;
        n->init_source = sd_event_source_disable_unref(n->init_source);
        if (n->cgroup && !native_is_gone(n)) {
                /* The whole cell: both leaves. */
                int r = cgroup_freeze(n->cgroup->dir, true);
                int q = cgroup_kill(n->cgroup->dir);
                if (q >= 0 && n->run.has_leaf)
                        q = leaf_hurry(&n->run.leaf, cgroups(n)->controllers);
                if (r < 0 || q < 0)
                        log_warning_errno(q < 0 ? q : r, "Failed to kill cell %" PRIu64 ", trying by its init alone: %m", n->cell->number);
                if (n->init >= 0 && syscall(SYS_pidfd_send_signal, n->init, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
                        log_warning_errno(errno, "Failed to kill the init of cell %" PRIu64 ": %m", n->cell->number);
        }
        int r = wait_start(&n->gone, n->cell->world->event, DESTROY_TIME);
        if (r < 0)
                native_left(n, "cannot wait for its processes", r);
}

static void native_destroy(struct Cell *c) {
        struct Native *n = c->impl;
        n->destroying = true;
        n->wanted = false;
        wait_stop(&n->replaced);
        n->report = sd_event_source_disable_unref(n->report);
        n->report_deadline = sd_event_source_disable_unref(n->report_deadline);
        if (n->fork.queued)
                zygote_withdraw(zygote_of(n), &n->fork);
        placer_forget(c->world->placer, &n->placing);
        /* Or a storm of cells that are closed at once would keep the builder busy for nobody. */
        builder_withdraw(c->world->builder, &n->build);
        native_destroy_go_on(n);
}

static void native_done(struct Cell *c) {
        struct Native *n = c->impl;
        if (!n)
                return;
        wait_stop(&n->gone);
        wait_stop(&n->replaced);
        if (n->fork.queued)
                zygote_withdraw(zygote_of(n), &n->fork);
        placer_forget(c->world->placer, &n->placing);
        sd_event_source_disable_unref(n->report);
        sd_event_source_disable_unref(n->report_deadline);
        observer_forget(c->world->observer, &n->look);
        sd_event_source_disable_unref(n->init_source);
        sd_event_source_disable_unref(n->retry);
        space_done(&n->space);
        run_done(&n->run);
        leaf_done(&n->init_leaf);
        close_fd(n->init);
        close_ends(n->inner);
        close_ends(n->outer);
        cell_cgroup_free(n->cgroup);
        free(n);
        c->impl = NULL;
}

const struct CellKind native_kind = {
        .name = "native",
        .prepare = native_prepare,
        .warm = native_warm,
        .is_warm = native_is_warm,
        .adopt = native_adopt,
        .start = native_start,
        .freeze = native_freeze,
        .usage = native_usage,
        .kill = native_kill,
        .is_over = native_is_over,
        .finish = native_finish,
        .is_full = native_is_full,
        .ask_waiting = native_ask_waiting,
        .main_over = native_main_over,
        .destroy = native_destroy,
        .done = native_done,
};
