/* A run of a native cell: pipes, leaf and main process. The spawner is the parent of every main process. */
#include "spawner/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/log.h"
#include "spawner/clone.h"
#include "spawner/job.h"
#include "spawner/limits/io.h"
#include "spawner/slots.h"
#include "spawner/steps/steps.h"
#include "spawner/trace.h"

#define OUTPUT_PIPE_SIZE (256 * 1024)
#define LEFT_PAUSE (1 * USEC_PER_SEC)
/* The pids controller notes that its limit was met, so RLIMIT_NPROC may not be met before it. */
#define NPROC_MARGIN 16
#define NO_CONTROLLER UINT_MAX
#define STRANGERS_PER_LOOK 256

enum PipeName {
        PIPE_STDIN,
        PIPE_STDOUT,
        PIPE_STDERR,
        PIPE_JOB,
        PIPE_REPORT,
        PIPE_VALUE,
        PIPE_MAX_,
};

/* inside: the end that the cell gets; 0 = it reads, 1 = it writes. */
static const struct {
        Glovebox__Internal__Role role;
        int inside;
} pipe_table[PIPE_MAX_] = {
        [PIPE_STDIN] = {GLOVEBOX__INTERNAL__ROLE__ROLE_STDIN, 0},   [PIPE_STDOUT] = {GLOVEBOX__INTERNAL__ROLE__ROLE_STDOUT, 1},
        [PIPE_STDERR] = {GLOVEBOX__INTERNAL__ROLE__ROLE_STDERR, 1}, [PIPE_JOB] = {GLOVEBOX__INTERNAL__ROLE__ROLE_JOB, 0},
        [PIPE_REPORT] = {GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT, 1}, [PIPE_VALUE] = {GLOVEBOX__INTERNAL__ROLE__ROLE_VALUE, 1},
};

static const struct {
        const char *file;
        Glovebox__Internal__Role role;
        int flags;
        unsigned controller; /* without which it does not exist; 0 = always there; NO_CONTROLLER: depends on the kernel alone */
} leaf_files[] = {
        {"cgroup.freeze", GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_FREEZE, O_RDWR, 0},
        {"cgroup.events", GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_EVENTS, O_RDONLY, 0},
        {"cgroup.procs", GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_PROCS, O_RDONLY, 0},
        {"cpu.stat", GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_STAT, O_RDONLY, 0},
        {"memory.current", GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_CURRENT, O_RDONLY, CONTROLLER_MEMORY},
        {"memory.peak", GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_PEAK, O_RDONLY, CONTROLLER_MEMORY},
        {"memory.events", GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_EVENTS, O_RDONLY, CONTROLLER_MEMORY},
        {"pids.current", GLOVEBOX__INTERNAL__ROLE__ROLE_PIDS_CURRENT, O_RDONLY, CONTROLLER_PIDS},
        {"pids.peak", GLOVEBOX__INTERNAL__ROLE__ROLE_PIDS_PEAK, O_RDONLY, CONTROLLER_PIDS},
        {"pids.events", GLOVEBOX__INTERNAL__ROLE__ROLE_PIDS_EVENTS, O_RDONLY, CONTROLLER_PIDS},
        {"io.stat", GLOVEBOX__INTERNAL__ROLE__ROLE_IO_STAT, O_RDONLY, CONTROLLER_IO},
        {"cpu.pressure", GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_PRESSURE, O_RDONLY, NO_CONTROLLER},
        {"memory.pressure", GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_PRESSURE, O_RDONLY, NO_CONTROLLER},
        {"io.pressure", GLOVEBOX__INTERNAL__ROLE__ROLE_IO_PRESSURE, O_RDONLY, NO_CONTROLLER},
};

struct Pipes {
        int inside[PIPE_MAX_], outside[PIPE_MAX_];
};

static void pipes_done(struct Pipes *p) {
        for (int i = 0; i < PIPE_MAX_; i++) {
                close_fd(p->inside[i]);
                close_fd(p->outside[i]);
        }
}

/* Owned by the cell's user, who may then open /dev/stderr again. */
static int pipes_make(struct Pipes *p, uid_t owner, bool merge) {
        for (int i = 0; i < PIPE_MAX_; i++) {
                int pair[2];
                if (i == PIPE_STDERR && merge) {
                        p->inside[i] = fcntl(p->inside[PIPE_STDOUT], F_DUPFD_CLOEXEC, 3);
                        if (p->inside[i] < 0)
                                return -errno;
                        continue;
                }
                if (pipe2(pair, O_CLOEXEC) < 0)
                        return -errno;
                /* Larger output pipes: fewer switches between program and server. What the kernel will not give is no fault. */
                if (i == PIPE_STDOUT || i == PIPE_STDERR)
                        (void) fcntl(pair[0], F_SETPIPE_SZ, OUTPUT_PIPE_SIZE);
                p->inside[i] = pair[pipe_table[i].inside];
                p->outside[i] = pair[!pipe_table[i].inside];
                if (fchown(pair[0], owner, owner) < 0)
                        return -errno;
        }
        return 0;
}

static int write_head(int job, const struct Runtime *runtime, const struct RunSpec *spec) {
        uint8_t head[JOB_HEAD_MAX];
        size_t size;
        int r = job_head(runtime, spec->probe_version, facts_processors(spec->limits.cpus), head, &size);
        if (r < 0)
                return r;
        ssize_t n = write(job, head, size);
        return n == (ssize_t) size ? 0 : n < 0 ? -errno : -EIO;
}

static int open_leaf_files(const struct Run *run, unsigned controllers, struct RunFds *ret) {
        for (size_t i = 0; i < ELEMENTSOF(leaf_files); i++) {
                unsigned needed = leaf_files[i].controller;
                if (needed != NO_CONTROLLER && (needed & ~controllers))
                        continue;
                int fd = openat(run->leaf.dir, leaf_files[i].file, leaf_files[i].flags | O_CLOEXEC);
                if (fd < 0 && needed && (errno == ENOENT || errno == EOPNOTSUPP))
                        continue; /* an older kernel, or one that was started with psi=0 */
                if (fd < 0)
                        return -errno;
                ret->fds[ret->n] = fd;
                ret->roles[ret->n++] = leaf_files[i].role;
        }
        return 0;
}

/* The main process: born in its cgroup and in the cell's pid namespace, child of ours all the same. */
static int clone_main(struct Run *run, const struct RunSetup *setup, struct StepContext *context) {
        struct clone_args args = {
                .flags = CLONE_INTO_CGROUP | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
                .exit_signal = SIGCHLD,
                .cgroup = (uint64_t) run->leaf.dir,
        };
        int pidfd = -EBADF;
        args.pidfd = (uint64_t) (uintptr_t) &pidfd;
        if (setns(setup->init, CLONE_NEWPID) < 0)
                return -errno;
        pid_t pid = clone_process(&args);
        if (pid == 0)
                steps_run(context);
        int error = errno;
        /* Without the way back our next child would be born in a cell. */
        if (setns(setup->world->own_pidns, CLONE_NEWPID) < 0)
                abort();
        if (pid < 0)
                return -error;
        run->pid = pid;
        run->pidfd = pidfd;
        LIST_INSERT_HEAD(&setup->world->runs, run, entry);
        return 0;
}

static int prepare_leaf(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec) {
        char name[LEAF_NAME_MAX];
        snprintf(name, sizeof name, "run-%" PRIu64, spec->number);
        int r = leaf_make(&run->leaf, setup->cell_dir, name, setup->world->cgroups->controllers, &spec->limits);
        run->has_leaf = r >= 0;
        if (r >= 0)
                r = cell_share(setup->cell_dir, setup->world->cgroups->controllers, &spec->limits);
        if (r >= 0 && (setup->world->cgroups->controllers & CONTROLLER_IO))
                r = io_max_apply(run->leaf.dir, setup->world->io_max);
        return r;
}

/* Only where the limits are others than the cell was made for or ran with. */
static int render_facts(const struct RunSetup *setup, const struct Limits *limits, struct FactTexts *ret) {
        struct FactSpec spec = {.cpus = limits->cpus, .memory_bytes = limits->memory_bytes};
        if (spec.cpus == setup->told->cpus && spec.memory_bytes == setup->told->memory_bytes)
                return 0;
        int r = facts_render(&spec, false, ret);
        if (r < 0)
                return r;
        *setup->told = spec;
        return 1;
}

static int start_main(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, const struct Pipes *pipes) {
        struct FactTexts facts _cleanup_(facts_done) = {};
        int r = render_facts(setup, &spec->limits, &facts);
        if (r < 0)
                return r;
        struct StepContext context = {
                .init = setup->init,
                .user = slot_inside_user(setup->slot),
                .max_processes = spec->limits.max_processes + (setup->world->cgroups->controllers & CONTROLLER_PIDS ? NPROC_MARGIN : 0),
                .program = spec->probe ? setup->world->probe_program : setup->world->start_program,
                .without = setup->world->without | spec->without,
                .seccomp = setup->world->seccomp,
                .facts = r > 0 ? &facts : NULL,
                .core_scheduling = setup->world->core_scheduling,
                .landlock_abi = setup->world->landlock_abi,
                .fds = {pipes->inside[PIPE_STDIN], pipes->inside[PIPE_STDOUT], pipes->inside[PIPE_STDERR], pipes->inside[PIPE_JOB],
                        pipes->inside[PIPE_REPORT], pipes->inside[PIPE_VALUE]},
        };
        return clone_main(run, setup, &context);
}

static void give_pipes(struct Pipes *pipes, struct RunFds *ret) {
        for (int i = 0; i < PIPE_MAX_; i++) {
                if (pipes->outside[i] < 0)
                        continue;
                ret->roles[ret->n] = pipe_table[i].role;
                ret->fds[ret->n++] = TAKE_FD(pipes->outside[i]);
        }
}

int run_start(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, struct RunFds *ret, const char **ret_step) {
        struct Pipes pipes _cleanup_(pipes_done);
        for (int i = 0; i < PIPE_MAX_; i++)
                pipes.inside[i] = pipes.outside[i] = -EBADF;
        *ret_step = "cgroup of the run";
        int r = prepare_leaf(run, setup, spec);
        if (r >= 0)
                r = open_leaf_files(run, setup->world->cgroups->controllers, ret);
        if (r < 0)
                return r;
        trace("spawner: cgroup of the run");
        *ret_step = "pipes";
        r = pipes_make(&pipes, slot_host_user(setup->world->slots, setup->slot), spec->merge_streams);
        if (r < 0)
                return r;
        trace("spawner: pipes");
        *ret_step = "job";
        r = spec->probe ? 0 : write_head(pipes.outside[PIPE_JOB], setup->runtime, spec);
        if (r < 0)
                return r;
        *ret_step = "clone the main process";
        trace("spawner: job's head");
        r = start_main(run, setup, spec, &pipes);
        trace("spawner: clone main");
        if (r >= 0)
                give_pipes(&pipes, ret);
        return r;
}

static void run_forget_pid(struct Run *run) {
        if (run->pid)
                LIST_REMOVE(run, entry);
        run->pid = 0;
}

/* A process that asks to be traced is traced by its parent, which is us; then each of its signals is told like an exit, and is none. */
static bool has_ended(const siginfo_t *info) {
        return info->si_pid != 0 && (info->si_code == CLD_EXITED || info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED);
}

int run_reap(struct Run *run, struct MainExit *ret) {
        siginfo_t info = {};
        struct rusage usage;
        if (run->pidfd < 0)
                return 0;
        /* The raw call: it tells the usage too. */
        if (syscall(SYS_waitid, P_PIDFD, run->pidfd, &info, WEXITED | WNOHANG, &usage) < 0) {
                log_error_errno(errno, "Failed to wait for a main process: %m");
                return 0;
        }
        if (!has_ended(&info))
                return 0;
        run->source = sd_event_source_disable_unref(run->source);
        run->pidfd = close_fd(run->pidfd);
        run_forget_pid(run);
        *ret = (struct MainExit) {
                .signaled = info.si_code != CLD_EXITED,
                .status = info.si_status,
                .max_rss_bytes = (uint64_t) usage.ru_maxrss * KIB,
        };
        return 1;
}

static bool is_main(const struct CellWorld *world, pid_t pid) {
        const struct Run *run;
        LIST_FOREACH(run, &world->runs, entry)
                if (run->pid == pid)
                        return true;
        return false;
}

/* It has a number in a pid namespace below ours, too. */
static bool is_in_cell(pid_t pid) {
        char path[32], text[4096];
        int outside, inside;
        snprintf(path, sizeof path, "/proc/%d/status", pid);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read_small(fd, text, sizeof text) < 0)
                return false;
        const char *line = strstr(text, "\nNSpid:");
        return line && sscanf(line, "\nNSpid: %d%*[\t ]%d", &outside, &inside) == 2;
}

void run_reap_strangers(struct CellWorld *world) {
        for (int i = 0; i < STRANGERS_PER_LOOK; i++) {
                siginfo_t info = {};
                if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
                        return;
                /* Ours: whoever started it is about to reap it, and we look again. */
                if (is_main(world, info.si_pid) || !is_in_cell(info.si_pid))
                        return;
                waitid(P_PID, (id_t) info.si_pid, &info, WEXITED | WNOHANG);
        }
}

void run_init(struct Run *run) {
        *run = (struct Run) {.pidfd = -EBADF, .leaf = {.dir = -EBADF, .events = -EBADF}};
}

void run_done(struct Run *run) {
        run->source = sd_event_source_disable_unref(run->source);
        run_forget_pid(run);
        run->pidfd = close_fd(run->pidfd);
        leaf_done(&run->leaf);
        run_init(run);
}

/* By the clock and not by its pidfd: one that a debugger holds is readable long before it can be reaped. */
static int run_on_left(sd_event_source *s, uint64_t usec, void *userdata) {
        int fd = (int) (intptr_t) userdata;
        siginfo_t info = {};
        if (waitid(P_PIDFD, (id_t) fd, &info, WEXITED | WNOHANG) < 0 || has_ended(&info)) {
                close_fd(fd);
                return sd_event_source_set_floating(s, false); /* the loop's reference was the last one */
        }
        int r = sd_event_source_set_time_relative(s, LEFT_PAUSE);
        return r < 0 ? r : sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

void run_leave(struct Run *run, sd_event *event) {
        if (run->pidfd < 0)
                return;
        run->source = sd_event_source_disable_unref(run->source);
        run_forget_pid(run);
        int fd = TAKE_FD(run->pidfd);
        int r = sd_event_add_time_relative(event, NULL, CLOCK_MONOTONIC, LEFT_PAUSE, 0, run_on_left, (void *) (intptr_t) fd);
        if (r < 0) {
                log_error_errno(r, "Failed to keep an eye on a process that does not die: %m");
                close_fd(fd);
        }
}
