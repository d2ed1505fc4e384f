/* The spawner: listens for the server, and keeps cells for it.
 *
 * One connection at a time. Its messages are checked (message.c) and handed to cells (cell.c); cells answer through the connection. When it
 * ends, its cells are orphans: they are destroyed without a word, and a new server finds a clean spawner at once. */
#include "spawner/spawner.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/log.h"
#include "spawner/builder.h"
#include "spawner/cell.h"
#include "spawner/complain.h"
#include "spawner/connection.h"
#include "spawner/filter.h"
#include "spawner/facts.h"
#include "spawner/layers.h"
#include "spawner/limits/driver.h"
#include "spawner/limits/io.h"
#include "spawner/limits/tree.h"
#include "spawner/machine.h"
#include "spawner/message.h"
#include "spawner/observer.h"
#include "spawner/placer.h"
#include "spawner/pool.h"
#include "spawner/privileges.h"
#include "spawner/probing.h"
#include "spawner/program.h"
#include "spawner/slots.h"
#include "spawner/steps/steps.h"
#include "spawner/template.h"
#include "spawner/userns.h"
#include "spawner/zygote.h"

#define STOP_TIME (12 * USEC_PER_SEC)
#define LOOK_PAUSE (500 * USEC_PER_MSEC)
#define ACCEPTS_PER_SECOND 50
#define TEMPLATE_TIME (30 * USEC_PER_SEC)

/* What is needed once everything stands; tests/escape/test_compromised_server.py takes each away and sees what fails.
 * CHOWN: the pipes' owner. KILL: an init that no cgroup kills. SYS_CHROOT: joining a template. SYS_PTRACE: joining a cell, looking at what
 * its processes wait for. SYS_ADMIN: namespaces and mounts. Also DAC_OVERRIDE where we were started in the root of a cgroup2 hierarchy, which not
 * even its owner may write to: our folder there is removed at the end. */
#define CAPABILITIES \
        (PRIVILEGE(CHOWN) | PRIVILEGE(KILL) | PRIVILEGE(SYS_CHROOT) | PRIVILEGE(SYS_PTRACE) | PRIVILEGE(SYS_ADMIN))

struct Spawner {
        struct CellWorld world;
        struct CellOwner owner;
        struct MessageBounds bounds;
        struct Limits runtime_caps[RUNTIMES_MAX]; /* by the index in the config of the start; as the config that was read last has them */
        struct ConstructPlan plan;
        int usernses[RUNTIMES_MAX];
        char *runners;
        enum Layer stage; /* whose making has begun: what a failed start lacks */
        int listener;
        sd_event_source *accepting;
        struct Connection *connection;
        uid_t server_uid;
        uint64_t max_cells;
        struct Pool *pool;
        struct Zygote *zygotes[RUNTIMES_MAX];
        size_t n_cells;
        LIST_HEAD(, Cell) cells;
        bool stopping;
        sd_event_source *stop_deadline;
        sd_event_source *look; /* at the cells' file systems, while there are cells */
};

static struct Cell *find_cell(struct Spawner *s, uint64_t id) {
        struct Cell *c;
        LIST_FOREACH(c, &s->cells, entry)
                if (c->id == id && !c->orphan)
                        return c;
        return NULL;
}

/* What cells say. */

static void spawner_send(void *userdata, Glovebox__Internal__FromSpawner *message, const struct RunFds *fds) {
        struct Spawner *s = userdata;
        if (s->connection)
                connection_send(s->connection, message, fds);
}

static void drop_cell(struct Spawner *s, struct Cell *c) {
        LIST_REMOVE(c, entry);
        s->n_cells--;
        cell_free(c);
}

static bool has_cells(const struct Spawner *s) {
        return s->n_cells > 0 || (s->pool && !pool_is_empty(s->pool));
}

static void exit_if_empty(struct Spawner *s) {
        if (s->stopping && !has_cells(s))
                sd_event_exit(s->world.event, 0);
}

static void spawner_on_closed(void *userdata, struct Cell *c) {
        struct Spawner *s = userdata;
        drop_cell(s, c);
        exit_if_empty(s);
}

static void spawner_on_pool_closed(void *userdata) {
        exit_if_empty(userdata);
}

/* What the server says. Cells that are not there have closed by themselves: the server learns of it in a moment. */

static int on_hello(void *userdata) {
        struct Spawner *s = userdata;
        Glovebox__Internal__HelloReply reply = GLOVEBOX__INTERNAL__HELLO_REPLY__INIT;
        reply.protocol = WIRE_PROTOCOL;
        reply.version = (char *) GLOVEBOX_VERSION;
        reply.cgroup_driver = (char *) s->world.cgroups->driver->name;
        reply.max_cells = (uint32_t) s->max_cells;
        int r = layers_fill(&s->world, &reply);
        if (r >= 0) {
                Glovebox__Internal__FromSpawner m = GLOVEBOX__INTERNAL__FROM_SPAWNER__INIT;
                m.message_case = GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_HELLO_REPLY;
                m.hello_reply = &reply;
                spawner_send(s, &m, NULL);
        }
        layers_done(&reply);
        return r;
}

static void refuse_cell(struct Spawner *s, uint64_t id, int error, const char *step) {
        Glovebox__Internal__CellFailed failed = GLOVEBOX__INTERNAL__CELL_FAILED__INIT;
        failed.cell = id;
        failed.step = (char *) step;
        failed.error = -error;
        failed.detail = strerror(-error);
        Glovebox__Internal__FromSpawner m = GLOVEBOX__INTERNAL__FROM_SPAWNER__INIT;
        m.message_case = GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_FAILED;
        m.cell_failed = &failed;
        spawner_send(s, &m, NULL);
        Glovebox__Internal__CellClosed closed = GLOVEBOX__INTERNAL__CELL_CLOSED__INIT;
        closed.cell = id;
        m.message_case = GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_CLOSED;
        m.cell_closed = &closed;
        spawner_send(s, &m, NULL);
}

static void look_later(struct Spawner *s) {
        if (sd_event_source_set_time_relative(s->look, LOOK_PAUSE) < 0 || sd_event_source_set_enabled(s->look, SD_EVENT_ONESHOT) < 0)
                log_error("Failed to set the timer that looks at the file systems of cells.");
}

static int spawner_on_look(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Spawner *s = userdata;
        struct Cell *c;
        LIST_FOREACH(c, &s->cells, entry)
                cell_look_for_room(c);
        if (s->n_cells > 0)
                look_later(s);
        return 0;
}

/* A runtime that this config has no longer keeps its own: the server does not ask for it any more. */
static void take_caps(struct Spawner *s, const struct Config *config) {
        const struct Config *own = s->world.config;
        s->bounds.caps = config->caps;
        for (size_t i = 0; i < own->n_runtimes; i++)
                for (size_t k = 0; k < config->n_runtimes; k++)
                        if (streq(own->runtimes[i].key, config->runtimes[k].key))
                                s->runtime_caps[i] = config->runtimes[k].caps;
}

/* A runtime may have caps of its own, below those that message.c has looked at. */
static bool is_above_caps(const struct Spawner *s, unsigned runtime, const struct Limits *limits) {
        const struct Limits *caps = &s->runtime_caps[runtime];
        for (const struct LimitInfo *i = limit_table; i->field; i++)
                if (limit_get(caps, i) > 0 && limit_get(limits, i) > limit_get(caps, i))
                        return true;
        return false;
}

static int on_open_cell(void *userdata, const struct CellSpec *spec) {
        struct Spawner *s = userdata;
        struct Cell *c = NULL;
        if (find_cell(s, spec->id))
                return -EPROTO;
        if (is_above_caps(s, spec->runtime, &spec->limits)) {
                refuse_cell(s, spec->id, -ERANGE, STEP_CAPS);
                return 0;
        }
        int r = s->n_cells >= s->max_cells ? -EBUSY : 0;
        if (r < 0) {
                refuse_cell(s, spec->id, r, "cells at once");
                return 0;
        }
        r = builder_state(s->world.builder, NULL) == 1 ? builder_exec_error(s->world.builder, spec->runtime) : 0;
        if (r < 0) {
                refuse_cell(s, spec->id, r, "interpreter");
                return 0;
        }
        c = pool_take(s->pool, spec, &s->owner);
        r = c ? 0 : cell_new(&s->world, spec, &s->owner, &c);
        if (r < 0) {
                if (log_limit_pass(&s->world.complaints))
                        log_event(LOG_ERR, MESSAGE_CELL_FAILED, r, spec->tag, "Failed to begin a cell: %m");
                refuse_cell(s, spec->id, r, "begin");
                return 0;
        }
        LIST_INSERT_HEAD(&s->cells, c, entry);
        if (s->n_cells++ == 0)
                look_later(s);
        return 0;
}

static int on_start_run(void *userdata, uint64_t id, const struct RunSpec *run) {
        struct Cell *c = find_cell(userdata, id);
        if (c && is_above_caps(userdata, c->runtime, &run->limits))
                cell_refuse_run(c, -ERANGE, STEP_CAPS);
        else if (c)
                cell_start_run(c, run);
        return 0;
}

static int on_end_run(void *userdata, uint64_t id, uint64_t run) {
        struct Cell *c = find_cell(userdata, id);
        if (c)
                cell_end_run(c, run);
        return 0;
}

static int on_ask_waiting(void *userdata, uint64_t id, uint64_t run) {
        struct Cell *c = find_cell(userdata, id);
        if (c)
                cell_ask_waiting(c, run);
        return 0;
}

static int on_main_over(void *userdata, uint64_t id, uint64_t run, uint8_t status) {
        struct Cell *c = find_cell(userdata, id);
        if (c)
                cell_main_over(c, run, status);
        return 0;
}

static int on_close_cell(void *userdata, uint64_t id) {
        struct Cell *c = find_cell(userdata, id);
        if (c)
                cell_close(c);
        return 0;
}

static int on_refuse_cell(void *userdata, uint64_t id, int error, const char *step) {
        struct Spawner *s = userdata;
        if (find_cell(s, id))
                return -EPROTO;
        if (log_limit_pass(&s->world.complaints))
                log_warning_errno(error, "A cell is refused at \"%s\": %m; server and spawner may have read different configs, restart or reload both.", step);
        refuse_cell(s, id, error, step);
        return 0;
}

/* Without a cell: it was refused with its run. */
static int on_refuse_run(void *userdata, uint64_t id, int error, const char *step) {
        struct Cell *c = find_cell(userdata, id);
        if (c)
                cell_refuse_run(c, error, step);
        return 0;
}

static int spawner_on_packet(void *userdata, const struct WirePacket *packet) {
        struct Spawner *s = userdata;
        const struct MessageHandler handler = {
                .hello = on_hello, .open_cell = on_open_cell, .start_run = on_start_run, .end_run = on_end_run,
                .ask_waiting = on_ask_waiting, .main_over = on_main_over, .close_cell = on_close_cell,
                .refuse_cell = on_refuse_cell, .refuse_run = on_refuse_run, .userdata = s,
        };
        const char *reason = "";
        int r = message_handle(&s->bounds, packet->bytes, packet->size, packet->n_fds, &handler, &reason);
        if (r < 0 && log_limit_pass(&s->world.complaints))
                log_warning_errno(r, "A message of the server is refused (%s): %m", reason);
        return r;
}

static void orphan_cells(struct Spawner *s) {
        struct Cell *c, *next;
        for (c = LIST_FIRST(&s->cells); c; c = next) {
                next = LIST_NEXT(c, entry); /* closing frees at most c itself */
                c->orphan = true;
                cell_close(c);
        }
}

static void spawner_on_end(void *userdata, const char *why) {
        struct Spawner *s = userdata;
        if (log_limit_pass(&s->world.complaints))
                log_event(LOG_NOTICE, MESSAGE_SERVER_LOST, 0, NULL, "The connection with the server has ended (%s); %zu cells are destroyed.", why,
                          s->n_cells);
        s->connection = connection_free(s->connection);
        orphan_cells(s);
}

static bool peer_may(struct Spawner *s, int fd) {
        struct ucred peer;
        socklen_t size = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return false;
        if (peer.uid == 0 || peer.uid == s->server_uid)
                return true;
        if (log_limit_pass(&s->world.complaints))
                log_event(LOG_WARNING, MESSAGE_PEER_REFUSED, 0, NULL, "A connection of uid %u is refused: only uid %u and root may connect.",
                          peer.uid, s->server_uid);
        return false;
}

static int spawner_on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct Spawner *s = userdata;
        int peer _cleanup_close_ = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer < 0 || !peer_may(s, peer))
                return 0;
        if (s->connection && !connection_is_hung_up(s->connection)) {
                if (log_limit_pass(&s->world.complaints))
                        log_warning("A second server is refused: the first is still connected.");
                return 0;
        }
        if (s->connection)
                spawner_on_end(s, "a new server is there");
        const struct ConnectionHandler handler = {.on_packet = spawner_on_packet, .on_end = spawner_on_end, .userdata = s};
        s->bounds.greeted = false;
        int r = connection_new(s->world.event, TAKE_FD(peer), &handler, &s->connection);
        if (r < 0)
                log_error_errno(r, "Failed to take the server's connection: %m");
        else if (log_limit_pass(&s->world.complaints))
                log_info("The server is connected.");
        return 0;
}

static int load_program(const char *library, const char *name, int *ret, char **ret_error) {
        _cleanup_free_ char *path = NULL;
        if (asprintf(&path, "%s/%s", library, name) < 0)
                return -ENOMEM;
        int r = program_load(path, name, ret);
        return r < 0 ? complain(ret_error, r, "cannot load %s: %s; is the installation complete?", path, strerror(-r)) : 0;
}

static int check_root(const struct Runtime *runtime, char **ret_error) {
        _cleanup_free_ char *why = NULL;
        int r = isempty(runtime->root) ? 0 : template_check_root(runtime->root, &why);
        return r < 0 ? complain(ret_error, r, "%s: %s", runtime->file, why ? why : strerror(-r)) : 0;
}

static int prepare_plan(struct Spawner *s, const struct Config *config, char **ret_error) {
        _cleanup_free_ char *library = NULL;
        int r = library_dir(&library);
        if (r < 0)
                return complain(ret_error, r, "cannot find the library folder beside this program: %s", strerror(-r));
        r = load_program(library, "glovebox-init", &s->plan.init_program, ret_error);
        if (r >= 0)
                r = load_program(library, "glovebox-start", &s->world.start_program, ret_error);
        if (r >= 0)
                r = load_program(library, "glovebox-probe", &s->world.probe_program, ret_error);
        if (r < 0)
                return r;
        if (asprintf(&s->runners, "%s/inside", library) < 0)
                return -ENOMEM;
        s->plan.runners = s->runners;
        s->plan.without = s->world.without;
        r = facts_learn();
        if (r < 0)
                return complain(ret_error, r, "cannot read /proc/cpuinfo: %s", strerror(-r));
        s->stage = LAYER_USER_NAMESPACE;
        if (userns_remark())
                log_notice("%c%s.", toupper(*userns_remark()), userns_remark() + 1);
        for (size_t i = 0; i < config->n_runtimes; i++) {
                r = check_root(&config->runtimes[i], ret_error);
                if (r < 0)
                        return r;
                r = userns_make(config, (unsigned) i, &s->usernses[i]);
                if (r < 0)
                        return complain(ret_error, r, "cannot make the user namespace of runtime %s: %s",
                                    config->runtimes[i].name, strerror(-r));
                s->plan.runtimes[i] = (struct ConstructRuntime) {
                        .root = isempty(config->runtimes[i].root) ? "/" : config->runtimes[i].root,
                        .exec = config->runtimes[i].exec,
                        .userns = s->usernses[i],
                };
                s->plan.n_runtimes++;
        }
        return 0;
}

static int wait_for_builder(struct Spawner *s, char **ret_error) {
        usec_t deadline = now_monotonic() + TEMPLATE_TIME;
        while (builder_state(s->world.builder, NULL) == 0) {
                if (now_monotonic() >= deadline)
                        return complain(ret_error, -ETIMEDOUT, "the template of the cells was not ready in time");
                int r = sd_event_run(s->world.event, USEC_PER_SEC);
                if (r < 0)
                        return r;
        }
        const char *step = "";
        int r = builder_state(s->world.builder, &step);
        return r < 0 ? complain(ret_error, r, "cannot make the template of the cells, at \"%s\": %s", step, strerror(-r)) : 0;
}

static int start_helpers(struct Spawner *s, char **ret_error) {
        int r = observer_new(s->world.event, &s->world.observer);
        if (r < 0)
                return complain(ret_error, r, "cannot start the process that looks at runs: %s", strerror(-r));
        r = placer_new(s->world.event, &s->world.placer);
        if (r < 0)
                return complain(ret_error, r, "cannot start the process that moves others into cgroups: %s", strerror(-r));
        r = builder_new(s->world.event, &s->plan, &s->world.builder);
        return r < 0 ? complain(ret_error, r, "cannot start the builder: %s", strerror(-r)) : wait_for_builder(s, ret_error);
}

static int start_io_max(struct Spawner *s, const struct SpawnerSetup *setup, char **ret_error) {
        int r = io_max_resolve(setup->config->io_max, &s->world.io_max, ret_error);
        if (r >= 0 && s->world.io_max && !(s->world.cgroups->controllers & CONTROLLER_IO) && !setup->check)
                return complain(ret_error, -EOPNOTSUPP, "[spawner] io-max is set, but no io controller could hold cells to it; take it out");
        return r;
}

static int start_drivers(struct Spawner *s, const struct SpawnerSetup *setup, char **ret_error) {
        const char *driver = setup->config->driver;
        struct CgroupSetup cgroups = {
                .event = setup->event, .state = setup->state, .waive = setup->waive, .caps = &setup->config->caps,
                .shared = setup->config->shared_scopes,
        };
        int r = cgroups_start(driver, &cgroups, &s->world.cgroups, ret_error);
        if (!setup->check || (r != -EOPNOTSUPP && r != -EBUSY))
                return r;
        /* A check goes on without the controllers, and tells of each that it is not there. */
        free(*ret_error);
        *ret_error = NULL;
        cgroups.waive = (char *const *) controller_names;
        return cgroups_start(driver, &cgroups, &s->world.cgroups, ret_error);
}

static int check_slices(const struct Spawner *s, const struct Config *config, char **ret_error) {
        for (size_t i = 0; i < config->n_callers; i++)
                if (config->callers[i].slice && !s->world.cgroups->driver->has_slices)
                        return complain(ret_error, -EOPNOTSUPP, "[caller %s] has a slice, which the cgroup driver %s does not make; set driver = systemd in "
                                        "[spawner], or take it out", config->callers[i].name, s->world.cgroups->driver->name);
        return 0;
}

static int start_cgroups(struct Spawner *s, const struct SpawnerSetup *setup, char **ret_error) {
        int r = start_drivers(s, setup, ret_error);
        if (r >= 0 && !setup->check)
                r = check_slices(s, setup->config, ret_error);
        return r < 0 ? r : start_io_max(s, setup, ret_error);
}

/* Descriptors of one cell while it runs: cgroup folders, their events, pidfds, file systems, pipes of init; and for a moment all those that go to
 * the server. */
#define DESCRIPTORS_PER_CELL 14
#define DESCRIPTORS_WAITING (2 * DESCRIPTORS_PER_CELL) /* more of one whose interpreter waits: what the server will get */
#define DESCRIPTORS_ASIDE 256

static uint64_t cells_by_descriptors(uint64_t waiting) {
        struct rlimit files;
        uint64_t aside = DESCRIPTORS_ASIDE + waiting * DESCRIPTORS_WAITING;
        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur <= aside)
                return 1;
        return MAX((uint64_t) 1, (uint64_t) (files.rlim_cur - aside) / DESCRIPTORS_PER_CELL);
}

/* Wanted by the operator, so never left out in silence. */
static int start_core_scheduling(struct Spawner *s, const struct Config *config, char **ret_error) {
        int r = config->core_scheduling ? core_scheduling_probe() : -ENODEV;
        s->world.core_scheduling = r >= 0;
        if (r < 0 && r != -ENODEV)
                return complain(ret_error, r, "core-scheduling = yes in section [spawner], but this kernel cannot (%s): set it to no, or boot a "
                                "kernel with CONFIG_SCHED_CORE", strerror(-r));
        if (r < 0 && config->core_scheduling)
                log_notice("core-scheduling has nothing to do: the cores of this machine run one thread each.");
        return 0;
}

static int start_filter(struct Spawner *s, const struct SpawnerSetup *setup, char **ret_error) {
        s->stage = LAYER_SECCOMP;
        int r = filter_new(setup->config, setup->waive, &s->world.seccomp, ret_error);
        if (r >= 0 || !setup->check)
                return r;
        /* A check goes on without it. */
        layers_miss(setup->layers, LAYER_SECCOMP, *ret_error ? *ret_error : strerror(-r));
        free(*ret_error);
        *ret_error = NULL;
        s->world.without |= LAYER_BIT(LAYER_SECCOMP);
        return 0;
}

/* Nobody is served before code in a cell has attacked every layer in vain, or the operator has waived it. */
static int probe_wall(struct Spawner *s, const struct SpawnerSetup *setup, char **ret_error) {
        struct Layers *l = setup->layers;
        int r = probing_run(&s->world, l);
        s->world.probe_program = close_fd(s->world.probe_program);
        if (r < 0)
                return complain(ret_error, r, "cannot probe the wall of the cells: %s", strerror(-r));
        const struct Machine m = machine_look();
        machine_explain(&m, l);
        if (setup->check)
                return 0;
        if (*l->blocked)
                return complain(ret_error, -EOPNOTSUPP, "%s. See `glovebox-spawner --check`.", l->blocked);
        r = layers_require(l, ret_error);
        if (r >= 0)
                layers_log(l);
        return r;
}

static long own_oom_score(void) {
        char text[16];
        int fd _cleanup_close_ = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
        return fd >= 0 && read_small(fd, text, sizeof text) > 0 ? strtol(text, NULL, 10) : 0;
}

/* Whoever inherits a score below 0 may go back to it, unless it is raised with the right to set bounds. */
static int check_oom_score(char **ret_error) {
        if (own_oom_score() >= 0 || privileges_have(PRIVILEGE(SYS_RESOURCE)))
                return 0;
        return complain(ret_error, -EPERM, "started with the OOM score %ld and without CAP_SYS_RESOURCE, so that programs in cells could take that score "
                        "and the machine's other programs would be killed first; leave OOMScoreAdjust= out (MemoryMin= protects a service)",
                        own_oom_score());
}

/* For tests alone: a capability, by its number, to do without. */
static uint64_t capabilities(void) {
        const char *without = getenv("GLOVEBOX_TEST_WITHOUT_CAPABILITY");
        /* With a protected OOM score of ours, only this keeps programs in cells from taking it back. */
        uint64_t all = CAPABILITIES | (tree_own_is_ours() ? 0 : PRIVILEGE(DAC_OVERRIDE)) | (own_oom_score() < 0 ? PRIVILEGE(SYS_RESOURCE) : 0);
        return without ? all & ~(UINT64_C(1) << (strtoul(without, NULL, 10) & 63)) : all;
}

static int give_up_rights(struct Spawner *s, char **ret_error) {
        int r = privileges_leave_keyrings();
        /* No network but an empty one; nobody here needs any. Where cells are to share ours it has to be the host's. */
        if (r >= 0 && !(s->world.without & LAYER_BIT(LAYER_NETWORK_NAMESPACE)) && unshare(CLONE_NEWNET) < 0)
                r = -errno;
        if (r >= 0)
                r = privileges_keep(capabilities());
        return r < 0 ? complain(ret_error, r, "cannot give up rights (must be started as root): %s", strerror(-r)) : 0;
}

/* Main processes inherit it, so only once the probes have been without it, and not where it is waived. */
static int give_up_exec(struct Spawner *s) {
        if (s->world.without & LAYER_BIT(LAYER_NO_NEW_PRIVS))
                return 0;
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static void spawner_on_zygote(void *userdata, unsigned runtime) {
        struct Spawner *s = userdata;
        pool_on_zygote(s->pool, runtime);
}

static int start_zygotes(struct Spawner *s, const struct Config *config) {
        for (size_t i = 0; i < config->n_runtimes; i++) {
                const struct Runtime *runtime = &config->runtimes[i];
                const struct ZygotePlan plan = {
                        .world = &s->world, .runtime = runtime, .index = (unsigned) i, .userns = s->usernses[i],
                        .on_ready = spawner_on_zygote, .userdata = s, .lazy = runtime->pool_min == 0 || !config->pool,
                };
                bool wanted = runtime->zygote && builder_exec_error(s->world.builder, (unsigned) i) == 0;
                int r = wanted ? zygote_new(s->world.event, &plan, &s->zygotes[i]) : 0;
                if (r < 0)
                        return r;
        }
        s->world.zygotes = s->zygotes;
        return 0;
}

static void tell_unusable(const struct Spawner *s, const struct Config *config) {
        for (size_t i = 0; i < config->n_runtimes; i++) {
                _cleanup_free_ char *trouble = layers_runtime_trouble(&s->world, i);
                if (!isempty(trouble))
                        log_notice("Runtime %s cannot run anything: %s.", config->runtimes[i].key, trouble);
        }
}

/* After the wall has been attacked, and with what it is. */
static int start_pool(struct Spawner *s, const struct Config *config, char **ret_error) {
        tell_unusable(s, config);
        int r = start_zygotes(s, config);
        if (r >= 0)
                r = pool_new(&s->world, s->max_cells, spawner_on_pool_closed, s, &s->pool);
        if (r >= 0)
                s->max_cells = MIN(slots_count(s->world.slots) - pool_max(s->pool), cells_by_descriptors(pool_max(s->pool)));
        return r < 0 ? complain(ret_error, r, "cannot begin to make cells ahead: %s", strerror(-r)) : 0;
}

static int spawner_start(struct Spawner *s, const struct SpawnerSetup *setup, char **ret_error) {
        const struct Config *config = setup->config;
        if (config->n_runtimes > RUNTIMES_MAX)
                return complain(ret_error, -E2BIG, "%zu runtimes are configured, at most %d are possible", config->n_runtimes, RUNTIMES_MAX);
        take_caps(s, config);
        int r = check_oom_score(ret_error);
        if (r >= 0)
                r = slots_check_range(config->uid_start, config->uid_count, ret_error);
        if (r < 0)
                return r;
        r = slots_new(config, &s->world.slots);
        if (r < 0)
                return complain(ret_error, r, "uid-range must hold at least %d uids", SLOT_UIDS_FIRST + 2);
        s->max_cells = MIN((uint64_t) slots_count(s->world.slots), cells_by_descriptors(0));
        if (s->max_cells < config->max_cells)
                log_notice("At most %" PRIu64 " cells at once, by the uid-range and the limit of open files.", s->max_cells);
        r = start_core_scheduling(s, config, ret_error);
        if (r < 0)
                return r;
        s->stage = LAYER_CGROUP;
        r = start_cgroups(s, setup, ret_error);
        s->stage = r >= 0 ? LAYER_NONE : s->stage;
        if (r >= 0)
                r = prepare_plan(s, config, ret_error);
        if (r >= 0)
                r = start_filter(s, setup, ret_error);
        if (r < 0)
                return r;
        s->stage = LAYER_NONE;
        r = give_up_rights(s, ret_error);
        if (r < 0)
                return r;
        s->stage = LAYER_MOUNT_NAMESPACE;
        r = start_helpers(s, ret_error);
        s->stage = r >= 0 ? LAYER_NONE : s->stage;
        if (r >= 0)
                r = probe_wall(s, setup, ret_error);
        if (r >= 0)
                r = give_up_exec(s);
        if (r < 0 || setup->check)
                return r;
        r = start_pool(s, config, ret_error);
        if (r < 0)
                return r;
        r = sd_event_add_io(setup->event, &s->accepting, s->listener, EPOLLIN, spawner_on_accept, s);
        /* Without descriptors accept fails again and again: at a bearable pace. */
        return r < 0 ? r : sd_event_source_set_ratelimit(s->accepting, USEC_PER_SEC, ACCEPTS_PER_SECOND);
}

int spawner_new(const struct SpawnerSetup *setup, struct Spawner **ret, char **ret_error) {
        struct Spawner *s _cleanup_(spawner_freep) = calloc(1, sizeof *s);
        gid_t gid;
        if (!s) {
                close_fd(setup->listener);
                return -ENOMEM;
        }
        s->listener = setup->listener;
        wire_refuse_descriptors(s->listener);
        s->plan.init_program = s->world.start_program = s->world.probe_program = -EBADF;
        for (size_t i = 0; i < RUNTIMES_MAX; i++)
                s->usernses[i] = -EBADF;
        s->world.event = setup->event;
        s->world.config = s->bounds.config = setup->config;
        s->world.own_pidns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        s->world.landlock_abi = landlock_abi();
        s->world.layers = setup->layers;
        layers_waive(setup->layers, setup->waive);
        s->world.without = layers_waived(setup->layers) | setup->broken;
        s->owner = (struct CellOwner) {.send = spawner_send, .on_closed = spawner_on_closed, .userdata = s};
        LIST_INIT(&s->cells);
        LIST_INIT(&s->world.runs);
        config_server_ids(setup->config, &s->server_uid, &gid);
        if (s->world.own_pidns < 0)
                return complain(ret_error, -errno, "cannot open /proc/self/ns/pid: %m");
        int r = sd_event_add_time(s->world.event, &s->look, CLOCK_MONOTONIC, USEC_INFINITY, LOOK_PAUSE / 10, spawner_on_look, s);
        if (r >= 0)
                r = spawner_start(s, setup, ret_error);
        if (r < 0 && !*setup->layers->blocked)
                layers_block(setup->layers, s->stage, *ret_error ? *ret_error : strerror(-r));
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

static int spawner_on_stop_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Spawner *s = userdata;
        log_warning("%zu cells are still there; the next start removes what is left of them.", s->n_cells);
        return sd_event_exit(s->world.event, 0);
}

void spawner_stop(struct Spawner *s) {
        if (s->stopping)
                return;
        s->stopping = true;
        s->accepting = sd_event_source_disable_unref(s->accepting);
        s->connection = connection_free(s->connection);
        orphan_cells(s);
        if (s->pool)
                pool_stop(s->pool);
        if (!has_cells(s) ||
            sd_event_add_time_relative(s->world.event, &s->stop_deadline, CLOCK_MONOTONIC, STOP_TIME, 0, spawner_on_stop_deadline, s) < 0)
                sd_event_exit(s->world.event, 0);
}

struct Spawner *spawner_free(struct Spawner *s) {
        if (!s)
                return NULL;
        s->accepting = sd_event_source_disable_unref(s->accepting);
        s->stop_deadline = sd_event_source_disable_unref(s->stop_deadline);
        s->look = sd_event_source_disable_unref(s->look);
        s->connection = connection_free(s->connection);
        struct Cell *c;
        while ((c = LIST_FIRST(&s->cells)))
                drop_cell(s, c);
        pool_free(s->pool);
        for (size_t i = 0; i < RUNTIMES_MAX; i++)
                zygote_free(s->zygotes[i]);
        builder_free(s->world.builder);
        observer_free(s->world.observer);
        placer_free(s->world.placer);
        if (s->world.cgroups)
                s->world.cgroups->driver->stop(s->world.cgroups);
        slots_free(s->world.slots);
        for (size_t i = 0; i < RUNTIMES_MAX; i++)
                close_fd(s->usernses[i]);
        close_fd(s->plan.init_program);
        close_fd(s->world.start_program);
        close_fd(s->world.probe_program);
        close_fd(s->world.own_pidns);
        filter_free(s->world.seccomp);
        strv_free(s->world.io_max);
        close_fd(s->listener);
        free(s->runners);
        free(s);
        return NULL;
}

void spawner_reload_caps(struct Spawner *s, const struct Config *config) {
        take_caps(s, config);
        if (s->pool)
                pool_reload(s->pool, config);
        for (size_t i = 0; i < RUNTIMES_MAX; i++)
                if (s->zygotes[i])
                        zygote_renew(s->zygotes[i]);
        if (s->world.cgroups->driver->set_caps)
                s->world.cgroups->driver->set_caps(s->world.cgroups, &config->caps);
}
