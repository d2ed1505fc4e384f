/* A run of a native cell: pipes, leaf and main process. The spawner is the parent of every main process. */
#include "spawner/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/log.h"
#include "common/value.h"
#include "spawner/clone.h"
#include "spawner/job.h"
#include "spawner/limits/io.h"
#include "spawner/slots.h"
#include "spawner/steps/steps.h"
#include "spawner/trace.h"

#define OUTPUT_PIPE_SIZE (256 * 1024)
#define PF_EXITING 0x4
#define LEFT_PAUSE (1 * USEC_PER_SEC)
/* The pids controller notes that its limit was met, so RLIMIT_NPROC may not be met before it. */
#define NPROC_MARGIN 16
#define NO_CONTROLLER UINT_MAX
/* Below this a run gets a new interpreter: one that waits may have used more already. */
#define MEMORY_OF_WAITING (64 * MIB)
#define STRANGERS_PER_LOOK 256
#define ERRNO_MAX 4095
#define LATE_HEAD_MAX (16 * KIB) /* beside a head that may not have been read yet: both fit into the pipe */

/* inside: the end that the cell gets; 0 = it reads, 1 = it writes. */
static const struct {
        Glovebox__Internal__Role role;
        int inside;
} pipe_table[RUN_PIPES] = {
        [STDIN_FILENO] = {GLOVEBOX__INTERNAL__ROLE__ROLE_STDIN, 0},    [STDOUT_FILENO] = {GLOVEBOX__INTERNAL__ROLE__ROLE_STDOUT, 1},
        [STDERR_FILENO] = {GLOVEBOX__INTERNAL__ROLE__ROLE_STDERR, 1},  [STEP_FD_JOB] = {GLOVEBOX__INTERNAL__ROLE__ROLE_JOB, 0},
        [STEP_FD_REPORT] = {GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT, 1}, [STEP_FD_VALUE] = {GLOVEBOX__INTERNAL__ROLE__ROLE_VALUE, 1},
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

static void give_fd(struct RunFds *fds, Glovebox__Internal__Role role, int fd) {
        if (fds->n == ELEMENTSOF(fds->fds))
                abort(); /* a fault of ours: they are as many as there are roles, at most */
        fds->roles[fds->n] = role;
        fds->fds[fds->n++] = fd;
}

/* Owned by the cell's user, who may then open /dev/stderr again. */
static int pipes_make(struct Run *run, uid_t owner, bool merge) {
        for (int i = 0; i < RUN_PIPES; i++) {
                int pair[2];
                if (i == STDERR_FILENO && merge) {
                        run->inside[i] = fcntl(run->inside[STDOUT_FILENO], F_DUPFD_CLOEXEC, 3);
                        if (run->inside[i] < 0)
                                return -errno;
                        continue;
                }
                if (pipe2(pair, O_CLOEXEC) < 0)
                        return -errno;
                /* Larger output pipes: fewer switches between program and server. What the kernel will not give is no fault. */
                if (i == STDOUT_FILENO || i == STDERR_FILENO)
                        (void) fcntl(pair[0], F_SETPIPE_SZ, OUTPUT_PIPE_SIZE);
                run->inside[i] = pair[pipe_table[i].inside];
                give_fd(&run->fds, pipe_table[i].role, pair[!pipe_table[i].inside]);
                if (fchown(pair[0], owner, owner) < 0)
                        return -errno;
        }
        return 0;
}

void run_close_inside(struct Run *run) {
        for (int i = 0; i < RUN_PIPES; i++)
                run->inside[i] = close_fd(run->inside[i]);
}

/* It fits into the pipe, which is empty. */
static int write_job(const struct Run *run, const uint8_t *bytes, size_t size) {
        ssize_t n = write(run_fd(run, GLOVEBOX__INTERNAL__ROLE__ROLE_JOB), bytes, size);
        return n == (ssize_t) size ? 0 : n < 0 ? -errno : -EIO;
}

static int write_head(const struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, bool wait, bool placed) {
        uint8_t head[1 + JOB_HEAD_MAX] = {ZYGOTE_PLACED};
        const struct HeadSpec h = {.runtime = setup->runtime, .limits = &spec->limits, .probe_version = spec->probe_version, .wait = wait};
        size_t size;
        int r = job_head(&h, head + placed, &size);
        return r < 0 ? r : write_job(run, head, placed + size);
}

static int open_leaf_files(struct Run *run, unsigned controllers) {
        for (size_t i = 0; i < ELEMENTSOF(leaf_files); i++) {
                unsigned needed = leaf_files[i].controller;
                if (needed != NO_CONTROLLER && (needed & ~controllers))
                        continue;
                int fd = openat(run->leaf.dir, leaf_files[i].file, leaf_files[i].flags | O_CLOEXEC);
                if (fd < 0 && needed && (errno == ENOENT || errno == EOPNOTSUPP))
                        continue; /* an older kernel, or one that was started with psi=0 */
                if (fd < 0)
                        return -errno;
                give_fd(&run->fds, leaf_files[i].role, fd);
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
        snprintf(name, sizeof name, "run-%" PRIu64, setup->number);
        int r = leaf_make(&run->leaf, setup->cell_dir, name, setup->world->cgroups->controllers, &spec->limits);
        run->has_leaf = r >= 0;
        if (r >= 0)
                r = cell_share(setup->cell_dir, setup->world->cgroups->controllers, &spec->limits);
        if (r >= 0 && (setup->world->cgroups->controllers & CONTROLLER_IO))
                r = io_max_apply(run->leaf.dir, setup->world->io_max);
        return r;
}

static bool is_main(const struct CellWorld *world, pid_t pid) {
        const struct Run *run;
        LIST_FOREACH(run, &world->runs, entry)
                if (run->pid == pid)
                        return true;
        return false;
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

static uint64_t processes_bound(const struct RunSetup *setup, const struct Limits *limits) {
        return limits->max_processes + (setup->world->cgroups->controllers & CONTROLLER_PIDS ? NPROC_MARGIN : 0);
}

static int start_main(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, bool wait) {
        struct FactTexts facts _cleanup_(facts_done) = {};
        int r = render_facts(setup, &spec->limits, &facts);
        if (r < 0)
                return r;
        struct StepContext context = {
                .init = setup->init,
                .user = slot_inside_user(setup->slot),
                .max_processes = run->max_processes,
                .program = spec->probe ? setup->world->probe_program : setup->world->start_program,
                .without = setup->world->without | spec->without,
                .seccomp = setup->world->seccomp,
                .facts = r > 0 ? &facts : NULL,
                .core_scheduling = setup->world->core_scheduling,
                .landlock_abi = setup->world->landlock_abi,
                .waits = wait,
        };
        memcpy(context.fds, run->inside, sizeof context.fds);
        r = clone_main(run, setup, &context);
        run_close_inside(run);
        return r;
}

/* What main is not there for to do itself. In the cell's namespaces its user's root may, as with the step of the same name. */
static int change_facts(const struct RunSetup *setup, const struct Limits *limits) {
        struct FactTexts facts _cleanup_(facts_done) = {};
        int status, r = setup->world->without & LAYER_BIT(LAYER_MASKED_PROC) ? 0 : render_facts(setup, limits, &facts);
        if (r <= 0)
                return r;
        pid_t pid = fork();
        if (pid == 0)
                _exit(setns(setup->init, CLONE_NEWUSER | CLONE_NEWNS) < 0 ? errno : -facts_rewrite(&facts));
        if (pid < 0)
                return -errno;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

int run_prepare(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step) {
        *ret_step = "cgroup of the run";
        int r = prepare_leaf(run, setup, spec);
        if (r < 0)
                return r;
        run->limits = spec->limits;
        run->max_processes = processes_bound(setup, &spec->limits);
        trace("spawner: cgroup of the run");
        return 0;
}

int run_open(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step) {
        *ret_step = "files of the cgroup";
        int r = open_leaf_files(run, setup->world->cgroups->controllers);
        if (r < 0)
                return r;
        trace("spawner: files of the cgroup");
        *ret_step = "pipes";
        r = pipes_make(run, slot_host_user(setup->world->slots, setup->slot), spec->merge_streams);
        trace("spawner: pipes");
        return r;
}

static int change_leaf(struct Run *run, const struct RunSetup *setup, const struct Limits *limits) {
        unsigned controllers = setup->world->cgroups->controllers;
        const struct Limits *now = &run->limits;
        if (now->memory_bytes == limits->memory_bytes && now->cpus == limits->cpus && now->max_processes == limits->max_processes)
                return 0;
        int r = leaf_change(&run->leaf, controllers, limits);
        return r < 0 ? r : cell_share(setup->cell_dir, controllers, limits);
}

int run_reuse(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step) {
        *ret_step = "cgroup of the run";
        int r = change_leaf(run, setup, &spec->limits);
        if (r < 0)
                return r;
        run->limits = spec->limits;
        run->max_processes = processes_bound(setup, &spec->limits);
        return 0;
}

int run_start(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, bool wait, const char **ret_step) {
        *ret_step = "job";
        int r = spec->probe ? 0 : write_head(run, setup, spec, wait, false);
        if (r < 0)
                return r;
        *ret_step = "clone the main process";
        trace("spawner: job's head");
        r = start_main(run, setup, spec, wait);
        trace("spawner: clone main");
        return r;
}

static bool is_alive(int pidfd) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        return poll(&p, 1, 0) == 0;
}

static int open_namespace(pid_t pid, const char *name) {
        char path[48];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int run_fill_fork(const struct Run *run, const struct RunSetup *setup, struct ZygoteRequest *request, int fds[ZYGOTE_FDS_]) {
        static const struct {
                const char *name;
                enum Layer layer;
        } table[ZYGOTE_PIPES] = {
                {"pid", LAYER_NONE},          {"mnt", LAYER_NONE},          {"net", LAYER_NETWORK_NAMESPACE},
                {"ipc", LAYER_IPC_NAMESPACE}, {"uts", LAYER_UTS_NAMESPACE},
        };
        request->user = slot_inside_user(setup->slot);
        request->max_processes = run->max_processes;
        memcpy(fds + ZYGOTE_PIPES, run->inside, sizeof run->inside);
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                bool waived = table[i].layer && (setup->world->without & LAYER_BIT(table[i].layer));
                fds[i] = open_namespace(setup->init_pid, waived ? "mnt" : table[i].name);
                if (fds[i] < 0) {
                        int r = fds[i];
                        while (i > 0)
                                close_fd(fds[--i]);
                        return r;
                }
        }
        if (is_alive(setup->init))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(table); i++) /* they may be another's */
                close_fd(fds[i]);
        return -ECHILD;
}

static int pid_namespace(pid_t pid, struct stat *ret) {
        char path[32];
        snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
        return stat(path, ret) < 0 ? -errno : 0;
}

/* The zygote says only a number. */
static int look_at_fork(const struct RunSetup *setup, pid_t pid, int pidfd) {
        siginfo_t info = {};
        struct stat theirs, cells;
        if (is_main(setup->world, pid) || waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
                return -EPERM;
        int r = pid == setup->init_pid ? -EPERM : pid_namespace(pid, &theirs);
        if (r >= 0)
                r = pid_namespace(setup->init_pid, &cells);
        if (r >= 0 && !is_alive(setup->init)) /* or its number may be another's by now */
                r = -ECHILD;
        return r < 0 ? r : theirs.st_ino == cells.st_ino && theirs.st_dev == cells.st_dev ? 0 : -EPERM;
}

/* It had died before it was named, so whoever named it need not have lied. */
static bool was_stranger(const struct CellWorld *world, pid_t pid) {
        for (size_t i = 0; i < STRANGERS_KEPT; i++)
                if (world->strangers[i] == pid)
                        return true;
        return false;
}

int run_take_fork(struct Run *run, const struct RunSetup *setup, pid_t pid, const char **ret_step) {
        *ret_step = "look at the forked process";
        if (pid <= 0)
                return -EPERM;
        _cleanup_close_ int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        int r = pidfd < 0 ? -errno : look_at_fork(setup, pid, pidfd);
        if (pidfd < 0 && r != -EMFILE && r != -ENFILE && r != -ENOMEM)
                r = -EPERM; /* a child of ours could at worst not be opened; a stranger, or a thread, has many errors, by the kernel's version */
        if (r == -EPERM && was_stranger(setup->world, pid))
                r = -ECHILD;
        if (r < 0)
                return r;
        run->pid = pid;
        run->pidfd = TAKE_FD(pidfd);
        LIST_INSERT_HEAD(&setup->world->runs, run, entry);
        return 0;
}

int run_begin_fork(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step) {
        *ret_step = "facts";
        int r = change_facts(setup, &spec->limits);
        if (r < 0)
                return r;
        *ret_step = "job";
        return write_head(run, setup, spec, false, true);
}

/* Whoever waits has used some memory, and was told how many processes it may have. */
static bool can_change(const struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec) {
        uint64_t bound = processes_bound(setup, &spec->limits);
        bool counted = setup->world->cgroups->controllers & CONTROLLER_PIDS;
        if (spec->fresh || spec->probe || spec->probe_version)
                return false;
        if (counted ? bound > run->max_processes : bound != run->max_processes)
                return false;
        if (spec->limits.memory_bytes != run->limits.memory_bytes &&
            ((setup->runtime->runner && spec->limits.memory_bytes < MEMORY_OF_WAITING) || job_tells_memory(setup->runtime)))
                return false;
        return !spec->merge_streams || setup->runtime->zygote || !setup->runtime->runner;
}

bool run_may_change(const struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec) {
        return run->pidfd >= 0 && is_alive(run->pidfd) && can_change(run, setup, spec);
}

int run_change(struct Run *run, const struct RunSetup *setup, const struct RunSpec *spec, const char **ret_step) {
        if (!run_may_change(run, setup, spec))
                return 0;
        *ret_step = "cgroup of the run";
        int r = change_leaf(run, setup, &spec->limits);
        if (r >= 0) {
                *ret_step = "facts";
                r = change_facts(setup, &spec->limits);
        }
        if (r >= 0 && (spec->merge_streams || facts_processors(spec->limits.cpus) != facts_processors(run->limits.cpus))) {
                uint8_t late[JOB_HEAD_MAX];
                const struct HeadSpec h = {.runtime = setup->runtime, .limits = &spec->limits, .merge_streams = spec->merge_streams};
                size_t size;
                *ret_step = "job";
                r = job_late_head(&h, late, &size);
                if (r >= 0 && size > LATE_HEAD_MAX)
                        return 0;
                if (r >= 0)
                        r = write_job(run, late, size);
        }
        if (r < 0)
                return r;
        run->limits = spec->limits;
        return 1;
}

static bool read_role(const struct Run *run, Glovebox__Internal__Role role, char *text, size_t size) {
        int fd = run_fd(run, role);
        return fd >= 0 && read_small(fd, text, size) > 0;
}

void run_usage(const struct Run *run, struct LeafUsage *ret) {
        char text[8192];
        const struct {
                Glovebox__Internal__Role role;
                usec_t *to;
        } pressures[] = {
                {GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_PRESSURE, &ret->cpu_stalled},
                {GLOVEBOX__INTERNAL__ROLE__ROLE_MEMORY_PRESSURE, &ret->memory_stalled},
                {GLOVEBOX__INTERNAL__ROLE__ROLE_IO_PRESSURE, &ret->io_stalled},
        };
        *ret = (struct LeafUsage) {};
        if (read_role(run, GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_STAT, text, sizeof text))
                (void) leaf_usage_parse_cpu(ret, text);
        if (read_role(run, GLOVEBOX__INTERNAL__ROLE__ROLE_IO_STAT, text, sizeof text))
                leaf_usage_parse_io(ret, text);
        for (size_t i = 0; i < ELEMENTSOF(pressures); i++)
                if (read_role(run, pressures[i].role, text, sizeof text))
                        *pressures[i].to = leaf_usage_parse_pressure(text);
}

int run_parse_failure(const uint8_t *record, ssize_t size, int *ret_error, char ret_step[RUN_STEP_MAX + 1]) {
        if (size < JOB_HEADER_SIZE + 4 || job_get_u32(record) != REPORT_FAILED)
                return 0;
        size_t n = MIN((size_t) size - JOB_HEADER_SIZE - 4, (size_t) RUN_STEP_MAX);
        for (size_t i = 0; i < n; i++) {
                uint8_t c = record[JOB_HEADER_SIZE + 4 + i];
                ret_step[i] = c >= ' ' && c < 0x7f ? (char) c : '?';
        }
        ret_step[n] = 0;
        *ret_error = -(int) MIN(job_get_u32(record + JOB_HEADER_SIZE), (uint32_t) ERRNO_MAX);
        return 1;
}

void run_give(struct Run *run, struct RunFds *ret) {
        for (size_t i = 0; i < run->fds.n; i++)
                give_fd(ret, run->fds.roles[i], run->fds.fds[i]);
        run->fds.n = 0;
}

int run_fd(const struct Run *run, Glovebox__Internal__Role role) {
        for (size_t i = 0; i < run->fds.n; i++)
                if (run->fds.roles[i] == role)
                        return run->fds.fds[i];
        return -EBADF;
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
                run->source = sd_event_source_disable_unref(run->source); /* or it would be told again and again */
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

static int read_of_main(const struct Run *run, const char *name, char *text, size_t size) {
        char path[48];
        snprintf(path, sizeof path, "/proc/%d/%s", run->pid, name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -errno : read_small(fd, text, size);
        return n < 0 ? (int) n : 0;
}

/* "12 (its name) S 1 ...", where the name may hold anything. */
static int parse_over(const char *stat, unsigned long *ret_faults_of_children) {
        const char *name = strchr(stat, '('), *end = strrchr(stat, ')');
        if (!name || !end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %lu", ret_faults_of_children) != 1)
                return -EPROTO;
        size_t size = (size_t) (end - name - 1);
        return size == strlen(OVER_NAME) && memcmp(name + 1, OVER_NAME, size) == 0;
}

int run_over(const struct Run *run, uint64_t *ret_peak_bytes) {
        char text[4096];
        unsigned long faults_of_children = 0;
        uint64_t kib = 0;
        if (run->pidfd < 0)
                return -ESRCH;
        int r = read_of_main(run, "stat", text, sizeof text);
        if (r >= 0)
                r = parse_over(text, &faults_of_children);
        if (r <= 0)
                return r;
        if (faults_of_children > 0)
                return -ECHILD;
        r = read_of_main(run, "status", text, sizeof text);
        const char *line = r < 0 ? NULL : strstr(text, "\nVmHWM:");
        if (!line || sscanf(line, "\nVmHWM: %" SCNu64, &kib) != 1)
                return r < 0 ? r : -ESRCH; /* it has let its memory go */
        *ret_peak_bytes = kib * KIB;
        return 1;
}

/* When init dies, the kernel kills all the cell's processes first and lets init's end be seen last: so ask whether it is dying. */
bool run_init_is_dying(pid_t pid, int pidfd) {
        char path[64], stat[512];
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        if (poll(&p, 1, 0) > 0)
                return true;
        int fd _cleanup_close_ = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read_small(fd, stat, sizeof stat) < 0)
                return true; /* its pid is gone */
        const char *end = strrchr(stat, ')');
        unsigned flags = 0;
        return !end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1 || (flags & PF_EXITING);
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
                pid_t pid = info.si_pid;
                waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG);
                world->strangers[world->n_strangers++ % STRANGERS_KEPT] = pid;
        }
}

void run_init(struct Run *run) {
        *run = (struct Run) {.pidfd = -EBADF, .leaf = {.dir = -EBADF, .events = -EBADF}};
        for (int i = 0; i < RUN_PIPES; i++)
                run->inside[i] = -EBADF;
}

void run_done(struct Run *run) {
        run->source = sd_event_source_disable_unref(run->source);
        run_forget_pid(run);
        run->pidfd = close_fd(run->pidfd);
        leaf_done(&run->leaf);
        run_close_inside(run);
        for (size_t i = 0; i < run->fds.n; i++)
                close_fd(run->fds.fds[i]);
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
