/* Probing the wall: cells are built as users get them, and glovebox-probe attacks every layer from inside. */
#include "spawner/probing.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "common/job.h"
#include "spawner/builder.h"
#include "spawner/cell.h"
#include "spawner/limits/driver.h"
#include "spawner/machine.h"
#include "spawner/run.h"
#include "spawner/steps/steps.h"

#define PROBE_TIME (30 * USEC_PER_SEC)
#define FREEZE_TIME (1 * USEC_PER_SEC)

/* attack_limits expects these. */
static const struct Limits probe_limits = {
        .memory_bytes = 64 * MIB, .cpus = 1, .max_processes = 16, .workspace_bytes = 1 * MIB, .workspace_inodes = 64,
};

/* One cell with a probe in it. */
struct Probe {
        struct CellWorld *world;
        struct Layers *layers;
        const struct ProbeOrder *order;
        struct CellOwner owner;
        struct Cell *cell;
        int answers, report, freeze, events, usage;
        sd_event_source *source;
        struct ProbeAnswer answer;
        size_t answer_size;
        bool is_complete, has_exited, is_closed;
        int error;
        char step[RUN_STEP_MAX + 1]; /* what failed; empty = nothing */
};

/* Steps outside the table of steps whose failure is a layer's. The others concern no layer alone. */
static const struct {
        const char *step;
        enum Layer layer;
} step_layers[] = {
        {"join the user namespace", LAYER_USER_NAMESPACE}, {"namespaces", LAYER_USER_NAMESPACE}, {"join the template", LAYER_MOUNT_NAMESPACE},
        {"clone init", LAYER_PID_NAMESPACE},               {"init proc", LAYER_PRIVATE_PROC},    {"init tmpfs", LAYER_READ_ONLY_ROOT},
        {"init loopback", LAYER_NETWORK_NAMESPACE},        {"init hostname", LAYER_UTS_NAMESPACE}, {"init ids", LAYER_SEPARATE_UIDS},
        {"init keyring", LAYER_KEYRING},                   {"ids", LAYER_SEPARATE_UIDS},         {"rlimits", LAYER_CORE_LIMIT},
        {"descriptors", LAYER_CLOSED_DESCRIPTORS},         {"cgroup of the cell", LAYER_CGROUP}, {"cgroup of the run", LAYER_CGROUP},
        {"clone the main process", LAYER_CGROUP},
};

static enum Layer layer_of_step(const char *step) {
        for (const struct Step *s = steps_table; s->name; s++)
                if (s->layer && streq(s->name, step))
                        return s->layer;
        for (size_t i = 0; i < ELEMENTSOF(step_layers); i++)
                if (streq(step_layers[i].step, step))
                        return step_layers[i].layer;
        return LAYER_NONE;
}

bool probing_may_pass(int error) {
        static const int passing[] = {-EAGAIN, -EMFILE, -ENFILE, -ENOMEM, -ETIMEDOUT};
        for (size_t i = 0; i < ELEMENTSOF(passing); i++)
                if (passing[i] == error)
                        return true;
        return false;
}

static void take_answer(struct Probe *p) {
        p->answer_size = 0;
        p->answer.attack[PROBE_ATTACK_MAX - 1] = 0;
        if (p->answer.layer == LAYER_NONE)
                p->is_complete = true;
        else
                layers_note(p->layers, p->answer.layer, p->answer.result, p->answer.attack);
}

static void read_answers(struct Probe *p) {
        while (!p->is_complete) {
                ssize_t n = read(p->answers, (char *) &p->answer + p->answer_size, sizeof p->answer - p->answer_size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;
                if (n <= 0)
                        break;
                p->answer_size += (size_t) n;
                if (p->answer_size == sizeof p->answer)
                        take_answer(p);
        }
        p->source = sd_event_source_disable_unref(p->source);
}

static int probe_on_answers(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        read_answers(userdata);
        return 0;
}

static int take_fd(const struct RunFds *fds, Glovebox__Internal__Role role) {
        for (size_t i = 0; i < fds->n; i++)
                if (fds->roles[i] == role)
                        return fcntl(fds->fds[i], F_DUPFD_CLOEXEC, 3);
        return -EBADF;
}

static void probe_fail(struct Probe *p, int error, const char *step) {
        if (*p->step)
                return;
        p->error = error;
        snprintf(p->step, sizeof p->step, "%s", step);
}

static int begin_answers(struct Probe *p, const struct RunFds *fds) {
        _cleanup_close_ int job = take_fd(fds, GLOVEBOX__INTERNAL__ROLE__ROLE_JOB);
        p->answers = take_fd(fds, GLOVEBOX__INTERNAL__ROLE__ROLE_STDOUT);
        p->report = take_fd(fds, GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT);
        p->freeze = take_fd(fds, GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_FREEZE);
        p->events = take_fd(fds, GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_EVENTS);
        p->usage = take_fd(fds, GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_STAT);
        if (job < 0 || p->answers < 0 || p->report < 0)
                return -EMFILE;
        /* It fits into the pipe: nobody has to read for that. */
        ssize_t n = write(job, p->order, sizeof *p->order);
        if (n < 0 && errno != EPIPE) /* if it has gone, its report says why */
                return -errno;
        if (n >= 0 && n != (ssize_t) sizeof *p->order)
                return -EIO;
        int r = set_nonblock(p->answers, true);
        if (r >= 0)
                r = set_nonblock(p->report, true);
        return r < 0 ? r : sd_event_add_io(p->world->event, &p->source, p->answers, EPOLLIN, probe_on_answers, p);
}

/* A step that failed in the main process, as it says on its report pipe. */
static void read_report(struct Probe *p) {
        uint8_t record[JOB_HEADER_SIZE + 4 + RUN_STEP_MAX];
        char step[RUN_STEP_MAX + 1];
        int error;
        if (run_parse_failure(record, read(p->report, record, sizeof record), &error, step))
                probe_fail(p, error, step);
        else
                probe_fail(p, -ECHILD, "the probe ended before it was done");
}

static void probe_on_message(void *userdata, Glovebox__Internal__FromSpawner *m, const struct RunFds *fds) {
        struct Probe *p = userdata;
        switch (m->message_case) {
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_RUN_STARTED: {
                int r = begin_answers(p, fds);
                if (r < 0)
                        probe_fail(p, r, "talk to the probe");
                break;
        }
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_FAILED:
                probe_fail(p, -(int) m->cell_failed->error, m->cell_failed->step);
                break;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_MAIN_EXITED:
                p->has_exited = true;
                break;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_CLOSED:
                if (p->is_complete || !isempty(m->cell_closed->left))
                        layers_note(p->layers, LAYER_CGROUP, !isempty(m->cell_closed->left), "outlive the kill of its cell");
                break;
        default:
                break;
        }
}

static void probe_on_closed(void *userdata, struct Cell *c) {
        struct Probe *p = userdata;
        p->cell = cell_free(c);
        p->is_closed = true;
}

static bool is_answered(const struct Probe *p) {
        return p->is_complete || p->has_exited || *p->step || p->is_closed;
}

static bool is_closed(const struct Probe *p) {
        return p->is_closed;
}

static int probe_wait(struct Probe *p, bool (*is_over)(const struct Probe *p)) {
        usec_t now, deadline = now_monotonic() + PROBE_TIME;
        while (!is_over(p)) {
                now = now_monotonic();
                if (now >= deadline)
                        return -ETIMEDOUT;
                int r = sd_event_run(p->world->event, deadline - now);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int event_value(int fd, const char *key, uint64_t *ret) {
        char text[1024];
        ssize_t n = read_small(fd, text, sizeof text);
        return n < 0 ? (int) n : keyed_number(text, key, ret);
}

/* A file in the same cgroup folder as an open one. */
static int read_beside(int fd, const char *name, char *text, size_t size) {
        char self[64], path[PATH_MAX];
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(self, path, sizeof path - 1);
        if (n < 0)
                return -errno;
        path[n] = 0;
        char *slash = strrchr(path, '/');
        if (!slash || (size_t) (slash + 1 - path) + strlen(name) >= sizeof path)
                return -ENAMETOOLONG;
        strcpy(slash + 1, name);
        _cleanup_close_ int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0)
                return -errno;
        n = read_small(file, text, size);
        if (n > 0 && text[n - 1] == '\n')
                text[n - 1] = 0;
        return n < 0 ? (int) n : 0;
}

/* Of a limit is looked at what the kernel says it is: hitting it would fill the kernel's log at each start. */
static void attack_limits(struct Probe *p) {
        static const struct {
                unsigned controller;
                enum Layer layer;
                const char *file, *value; /* NULL = any */
                const char *attack;
                bool may_be_absent; /* a kernel without it has nothing to bound */
        } limits[] = {
                {CONTROLLER_MEMORY, LAYER_MEMORY, "memory.max", "67108864", "use more memory than its limit", false},
                {CONTROLLER_MEMORY, LAYER_MEMORY, "memory.oom.group", "1", "live on in part when memory is out", false},
                {CONTROLLER_MEMORY, LAYER_MEMORY, "memory.swap.max", "0", "use swap", true},
                {CONTROLLER_PIDS, LAYER_PIDS, "pids.max", "16", "make more processes than its limit", false},
                {CONTROLLER_CPU, LAYER_CPU, "cpu.max", "100000 100000", "use more processors than its limit", false},
                {CONTROLLER_IO, LAYER_IO, "io.stat", NULL, "read and write without being counted", false},
        };
        char text[1024];
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                if (!(p->world->cgroups->controllers & limits[i].controller))
                        continue;
                int r = p->freeze < 0 ? -EBADF : read_beside(p->freeze, limits[i].file, text, sizeof text);
                if (r == -ENOENT && limits[i].may_be_absent)
                        continue;
                layers_note(p->layers, limits[i].layer, r < 0 ? r : limits[i].value && !streq(text, limits[i].value), limits[i].attack);
        }
}

/* The last probe: the cell is frozen while the probe waits in it, and has used time that is counted. */
static void attack_cgroup(struct Probe *p) {
        uint64_t frozen = 0, used = 0;
        int r = p->freeze < 0 || p->events < 0 ? -EBADF : write(p->freeze, "1", 1) < 0 ? -errno : 0;
        for (usec_t deadline = now_monotonic() + FREEZE_TIME; r >= 0 && !frozen && now_monotonic() < deadline;) {
                r = event_value(p->events, "frozen", &frozen);
                if (!frozen)
                        usleep(50);
        }
        layers_note(p->layers, LAYER_CGROUP, r < 0 ? r : !frozen, "run on while its cell is frozen");
        r = p->usage < 0 ? -EBADF : event_value(p->usage, "usage_usec", &used);
        layers_note(p->layers, LAYER_CGROUP, r < 0 ? r : !used, "use cpu time that is not counted");
}

static void probe_done(struct Probe *p) {
        p->source = sd_event_source_disable_unref(p->source);
        close_fd(p->answers);
        close_fd(p->report);
        close_fd(p->freeze);
        close_fd(p->events);
        close_fd(p->usage);
}

/* One cell, one probe. A negative errno: the machinery broke, a failing step is in p. */
static int probe_run(struct Probe *p, unsigned runtime, uint32_t without) {
        static uint64_t last_id;
        const struct CellSpec spec = {.id = ++last_id, .runtime = runtime, .kind = &native_kind, .limits = probe_limits, .tag = ""};
        const struct RunSpec run = {.number = 1, .limits = probe_limits, .probe = true, .without = without};
        p->owner = (struct CellOwner) {.send = probe_on_message, .on_closed = probe_on_closed, .userdata = p};
        int r = cell_new(p->world, &spec, &p->owner, &p->cell);
        if (r < 0) {
                probe_fail(p, r, "begin");
                return 0;
        }
        cell_start_run(p->cell, &run);
        r = probe_wait(p, is_answered);
        if (r == -ETIMEDOUT)
                probe_fail(p, r, "the probe did not answer in time");
        else if (r < 0) {
                p->cell = cell_free(p->cell); /* the loop ends: what is left of it goes with its world */
                return r;
        }
        if (p->has_exited && p->answers >= 0) {
                read_answers(p);
                if (!p->is_complete)
                        read_report(p);
        } else if (p->is_complete) {
                attack_cgroup(p);
                attack_limits(p);
        }
        if (p->cell)
                cell_close(p->cell);
        r = probe_wait(p, is_closed);
        if (r < 0)
                p->cell = cell_free(p->cell);
        if (r == -ETIMEDOUT)
                layers_note(p->layers, LAYER_CGROUP, 1, "outlive the kill of its cell");
        return r;
}

/* Where a step of an optional layer fails, the others are probed without it. 1 = the cell was made. */
static int probe_root(struct CellWorld *world, struct Layers *l, struct ProbeOrder *order, unsigned runtime, uint32_t without) {
        for (;;) {
                struct Probe p _cleanup_(probe_done) = {
                        .world = world, .layers = l, .order = order, .answers = -EBADF, .report = -EBADF, .freeze = -EBADF, .events = -EBADF,
                        .usage = -EBADF,
                };
                order->without = layers_waived(l) | without;
                int r = probe_run(&p, runtime, without);
                if (r < 0)
                        return r;
                if (!*p.step)
                        return 1;
                if (probing_may_pass(p.error))
                        return p.error;
                enum Layer layer = layer_of_step(p.step);
                char text[LAYER_TEXT_MAX];
                snprintf(text, sizeof text, "a cell cannot be made, at step \"%s\": %s", p.step, strerror(-p.error));
                if (layer == LAYER_NONE || !layer_is_optional(layer) || (order->without & LAYER_BIT(layer))) {
                        layers_block(l, layer, text);
                        return 0;
                }
                layers_miss(l, layer, text);
                without |= LAYER_BIT(layer);
        }
}

/* What is to be looked for inside. */

static void order_namespaces(struct ProbeOrder *o) {
        char path[64];
        struct stat st;
        for (size_t i = 0; i < PROBE_NS_MAX_; i++) {
                snprintf(path, sizeof path, "/proc/self/ns/%s", probe_ns_names[i]);
                o->namespaces[i] = stat(path, &st) < 0 ? 0 : st.st_ino;
        }
        for (size_t i = 0; i < PROBE_FOLDERS; i++)
                if (stat(probe_folders[i], &st) == 0) {
                        o->folders[i].device = st.st_dev;
                        o->folders[i].inode = st.st_ino;
                }
}

/* An abstract socket: it belongs to the network namespace, not to the file tree. */
static int order_socket(struct ProbeOrder *o) {
        uint64_t random;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (getrandom(&random, sizeof random, 0) != (ssize_t) sizeof random)
                return -EIO;
        int length = snprintf(o->socket, sizeof o->socket, "glovebox-probe-%016" PRIx64, random);
        memcpy(address.sun_path + 1, o->socket, (size_t) length);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (bind(fd, (struct sockaddr *) &address, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) length)) < 0 ||
            listen(fd, 4) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int order_fill(const struct CellWorld *world, struct ProbeOrder *o) {
        long serial = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
        *o = (struct ProbeOrder) {
                .core_pattern = machine_core_pattern(),
                .pid = getpid(),
                .keyring = serial > 0 ? (int32_t) serial : 0,
                .workspace_bytes = probe_limits.workspace_bytes,
                .policy_refuses_more = world->config->seccomp_policy || world->config->seccomp_deny,
                .policy_is_changed = world->config->seccomp_policy || world->config->seccomp_allow,
        };
        order_namespaces(o);
        return order_socket(o);
}

static bool root_came_before(const struct Config *config, size_t runtime) {
        for (size_t i = 0; i < runtime; i++)
                if (streq(strempty(config->runtimes[i].root), strempty(config->runtimes[runtime].root)))
                        return true;
        return false;
}

/* Those that are there are in force as soon as a cell's limits have been looked at. */
static void note_controllers(const struct CellWorld *world, struct Layers *l) {
        for (size_t i = 0; controller_names[i]; i++)
                if (!(world->cgroups->controllers & (1U << i)))
                        l->reports[layer_by_name(controller_names[i])].state = LAYER_MISSING;
}

int probing_run(struct CellWorld *world, struct Layers *l) {
        struct ProbeOrder order;
        const struct Config *config = world->config;
        note_controllers(world, l);
        if (config->n_runtimes == 0) {
                layers_block(l, LAYER_NONE, "no runtime is configured, so no cell can be made");
                return 0;
        }
        _cleanup_close_ int listener = order_fill(world, &order);
        if (listener < 0)
                return listener;
        for (unsigned i = 0; i < config->n_runtimes; i++) {
                if (root_came_before(config, i))
                        continue;
                int r = probe_root(world, l, &order, i, 0);
                if (r > 0 && !(world->without & LAYER_BIT(LAYER_SECCOMP)))
                        r = probe_root(world, l, &order, i, LAYER_BIT(LAYER_SECCOMP));
                if (r < 0)
                        return r;
        }
        return 0;
}
