/* A PID 1 of our own behind a bus of our own. One process with an event loop; units are a small table. */
#include "tests/unit/fake-pid1.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>

#include "spawner/limits/leaf.h"
#include "spawner/limits/tree.h"

#define NAME "org.freedesktop.systemd1"
#define PATH "/org/freedesktop/systemd1"
#define INTERFACE NAME ".Manager"
#define TICK (2 * USEC_PER_MSEC)
#define UNITS_MAX 256
#define BUSES_MAX 8

struct Unit {
        char name[80], slice[80];
        pid_t pid;
        usec_t due; /* of its job; 0: none */
        bool is_up;
};

static struct {
        struct FakePid1 *shared;
        sd_event *event;
        int own; /* the cgroup that all is made in */
        sd_bus *buses[BUSES_MAX];
        struct Unit units[UNITS_MAX];
        sd_bus_message *kept[UNITS_MAX];
        size_t n_kept;
} fake;

static pid_t fake_pid;
static char fake_socket[108];

static bool is_scope(const struct Unit *u) {
        return strstr(u->name, ".scope");
}

static bool is_counted(const struct Unit *u) {
        return *u->name && !strstr(u->name, "glovebox-spawner-");
}

static void count_units(void) {
        unsigned scopes = 0, slices = 0, busy = 0;
        for (size_t i = 0; i < UNITS_MAX; i++) {
                scopes += is_counted(&fake.units[i]) && is_scope(&fake.units[i]);
                slices += is_counted(&fake.units[i]) && !is_scope(&fake.units[i]) && !streq(fake.units[i].name, "glovebox.slice");
                busy += is_counted(&fake.units[i]) && is_scope(&fake.units[i]) && fake.units[i].due;
        }
        fake.shared->n_scopes = scopes;
        fake.shared->n_slices = slices;
        fake.shared->in_flight = busy;
        fake.shared->most_in_flight = MAX(fake.shared->most_in_flight, busy);
}

static struct Unit *find(const char *name) {
        for (size_t i = 0; i < UNITS_MAX; i++)
                if (streq(fake.units[i].name, name))
                        return &fake.units[i];
        return NULL;
}

static void tell(const char *member, const char *types, ...) {
        for (size_t i = 0; i < BUSES_MAX; i++) {
                sd_bus_message *m = NULL;
                va_list args;
                if (!fake.buses[i] || sd_bus_message_new_signal(fake.buses[i], &m, PATH, INTERFACE, member) < 0)
                        continue;
                va_start(args, types);
                (void) sd_bus_message_appendv(m, types, args);
                va_end(args);
                (void) sd_bus_message_set_sender(m, NAME);
                (void) sd_bus_send(fake.buses[i], m, NULL);
                sd_bus_message_unref(m);
        }
}

static void drop_all(void) {
        for (size_t i = 0; i < BUSES_MAX; i++)
                if (fake.buses[i]) {
                        sd_bus_close(fake.buses[i]);
                        fake.buses[i] = sd_bus_unref(fake.buses[i]);
                }
}

/* cgroups: OWN/scope or OWN/slice/scope */

static int open_folder(const struct Unit *u, bool make) {
        if (make && *u->slice)
                (void) mkdirat(fake.own, u->slice, 0755);
        _cleanup_close_ int slice = *u->slice ? openat(fake.own, u->slice, O_PATH | O_DIRECTORY | O_CLOEXEC) : fcntl(fake.own, F_DUPFD_CLOEXEC, 3);
        if (make)
                (void) mkdirat(slice, u->name, 0755);
        return openat(slice, u->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int remove_all(int parent, const char *name) {
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;
        while (dir && (e = readdir(dir)))
                if (e->d_type == DT_DIR && e->d_name[0] != '.')
                        (void) remove_all(fd, e->d_name);
        if (dir)
                closedir(dir);
        return unlinkat(parent, name, AT_REMOVEDIR);
}

static bool unit_populated(const struct Unit *u) {
        _cleanup_close_ int dir = open_folder(u, false);
        _cleanup_close_ int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
        char text[256];
        return events >= 0 && read_small(events, text, sizeof text) > 0 && cgroup_events_populated(text) == 1;
}

static void forget(struct Unit *u) {
        char name[80];
        memcpy(name, u->name, sizeof name);
        _cleanup_close_ int slice = *u->slice ? openat(fake.own, u->slice, O_PATH | O_DIRECTORY | O_CLOEXEC) : fcntl(fake.own, F_DUPFD_CLOEXEC, 3);
        (void) remove_all(slice, u->name);
        *u = (struct Unit) {};
        tell("UnitRemoved", "so", name, "/org/freedesktop/systemd1/unit/x");
}

/* Calls. */

static int reply_job(sd_bus_message *m) {
        return sd_bus_reply_method_return(m, "o", PATH "/job/1");
}

static int read_properties(sd_bus_message *m, struct Unit *u) {
        const char *key, *type;
        int r = sd_bus_message_enter_container(m, 'a', "(sv)");
        while (r > 0 && (r = sd_bus_message_enter_container(m, 'r', "sv")) > 0) {
                const char *text = NULL;
                r = sd_bus_message_read(m, "s", &key);
                if (r >= 0)
                        r = sd_bus_message_peek_type(m, NULL, &type);
                if (r >= 0 && streq(key, "MemoryMax"))
                        r = sd_bus_message_read(m, "v", "t", &fake.shared->last_memory);
                else if (r >= 0 && streq(key, "PIDs"))
                        r = sd_bus_message_read(m, "v", "au", 1, &u->pid);
                else if (r >= 0 && streq(key, "Slice"))
                        r = sd_bus_message_read(m, "v", "s", &text);
                else if (r >= 0 && streq(key, "BindsTo"))
                        r = sd_bus_message_read(m, "v", "as", 1, &text);
                else if (r >= 0)
                        r = sd_bus_message_skip(m, "v");
                if (r >= 0 && text && streq(key, "Slice"))
                        snprintf(u->slice, sizeof u->slice, "%s", text);
                else if (r >= 0 && text)
                        snprintf(fake.shared->bound, sizeof fake.shared->bound, "%s", text);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
                r = r < 0 ? r : 1;
        }
        return r;
}

static int on_start(sd_bus_message *m) {
        struct Unit u = {};
        const char *name;
        if (sd_bus_message_read(m, "ss", &name, NULL) < 0 || read_properties(m, &u) < 0)
                return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_INVALID_ARGS, "cannot be read");
        snprintf(u.name, sizeof u.name, "%s", name);
        bool counted = is_counted(&u) && is_scope(&u);
        fake.shared->n_starts += counted;
        if (counted && fake.shared->drop_at_call) {
                fake.shared->drop_at_call = false;
                drop_all();
                return 0;
        }
        if (counted && *fake.shared->error)
                return sd_bus_reply_method_errorf(m, fake.shared->error, "as the test wants it");
        if (find(name))
                return sd_bus_reply_method_errorf(m, NAME ".UnitExists", "Unit %s was already loaded or has a fragment file.", name);
        struct Unit *slot = find("");
        if (!slot)
                return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "too many units");
        if (counted)
                snprintf(fake.shared->last_slice, sizeof fake.shared->last_slice, "%s", u.slice);
        u.due = now_monotonic() + fake.shared->delay_ms * USEC_PER_MSEC + 1;
        *slot = u;
        count_units();
        return reply_job(m);
}

static void finish_job(struct Unit *u) {
        const char *result = is_scope(u) && *fake.shared->result ? fake.shared->result : "done";
        char name[80];
        memcpy(name, u->name, sizeof name);
        u->due = 0;
        if (is_scope(u) && streq(result, "done")) {
                _cleanup_close_ int dir = open_folder(u, true);
                char pid[16];
                snprintf(pid, sizeof pid, "%d", u->pid);
                if (write_file_at(dir, "cgroup.procs", pid) < 0)
                        result = "failed";
        }
        u->is_up = streq(result, "done");
        if (is_counted(u) && is_scope(u) && fake.shared->drop_at_job) {
                fake.shared->drop_at_job = false;
                drop_all();
        }
        tell("JobRemoved", "uoss", 1, PATH "/job/1", name, result);
        if (!u->is_up)
                forget(u);
}

static void kill_unit(struct Unit *u) {
        _cleanup_close_ int dir = open_folder(u, false);
        if (dir >= 0)
                (void) cgroup_kill(dir);
        for (int i = 0; i < 500 && unit_populated(u); i++)
                usleep(1000);
}

static int on_stop(sd_bus_message *m) {
        const char *name;
        if (sd_bus_message_read(m, "ss", &name, NULL) < 0)
                return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_INVALID_ARGS, "cannot be read");
        struct Unit *u = find(name);
        fake.shared->n_stops++;
        if (!u)
                return sd_bus_reply_method_errorf(m, NAME ".NoSuchUnit", "Unit %s not loaded.", name);
        int r = reply_job(m);
        if (fake.shared->stops_nothing)
                return r;
        if (is_scope(u))
                kill_unit(u);
        tell("JobRemoved", "uoss", 2, PATH "/job/2", name, "done");
        forget(u);
        return r;
}

static int on_list(sd_bus_message *m) {
        sd_bus_message *reply = NULL;
        int r = sd_bus_message_new_method_return(m, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(ssssssouso)");
        for (size_t i = 0; i < UNITS_MAX && r >= 0; i++)
                if (*fake.units[i].name)
                        r = sd_bus_message_append(reply, "(ssssssouso)", fake.units[i].name, "", "loaded",
                                                  fake.units[i].is_up ? "active" : "inactive", "", "", "/x", fake.units[i].due ? 1 : 0, "", "/");
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        if (r >= 0)
                r = sd_bus_send(NULL, reply, NULL);
        sd_bus_message_unref(reply);
        return r;
}

static int on_set(sd_bus_message *m) {
        struct Unit unused = {};
        const char *name;
        if (sd_bus_message_read(m, "sb", &name, NULL) < 0 || read_properties(m, &unused) < 0 || !find(name))
                return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_INVALID_ARGS, "cannot be read, or no such unit");
        fake.shared->n_sets++;
        return sd_bus_reply_method_return(m, "");
}

static int answer(sd_bus_message *m) {
        static const struct {
                const char *member;
                int (*handle)(sd_bus_message *m);
        } methods[] = {{"StartTransientUnit", on_start}, {"StopUnit", on_stop}, {"ListUnitsByPatterns", on_list}, {"SetUnitProperties", on_set}};
        for (size_t i = 0; i < ELEMENTSOF(methods); i++)
                if (sd_bus_message_is_method_call(m, INTERFACE, methods[i].member))
                        return methods[i].handle(m);
        if (sd_bus_message_is_method_call(m, "org.freedesktop.DBus", "Hello"))
                return sd_bus_reply_method_return(m, "s", ":1.7");
        return sd_bus_reply_method_return(m, "");
}

static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        if (!sd_bus_message_is_method_call(m, NULL, NULL))
                return 0;
        if (fake.shared->silent && sd_bus_message_is_method_call(m, INTERFACE, NULL) && fake.n_kept < UNITS_MAX)
                fake.kept[fake.n_kept++] = sd_bus_message_ref(m);
        else
                (void) answer(m);
        return 1;
}

static int on_connect(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        size_t i = 0;
        while (i < BUSES_MAX && fake.buses[i] && sd_bus_is_open(fake.buses[i]) > 0)
                i++;
        if (peer < 0 || i == BUSES_MAX || fake.shared->refuse) {
                close_fd(peer);
                return 0;
        }
        sd_bus_unref(fake.buses[i]);
        fake.shared->n_connections++;
        if (sd_bus_new(&fake.buses[i]) < 0 || sd_bus_set_fd(fake.buses[i], peer, peer) < 0 ||
            sd_bus_set_server(fake.buses[i], 1, (sd_id128_t) {.qwords = {1, 2}}) < 0 || sd_bus_start(fake.buses[i]) < 0 ||
            sd_bus_add_filter(fake.buses[i], NULL, on_message, NULL) < 0 || sd_bus_attach_event(fake.buses[i], fake.event, 0) < 0)
                _exit(3);
        return 0;
}

static void play_reload(void) {
        tell("Reloading", "b", 1);
        for (size_t i = 0; i < UNITS_MAX; i++)
                if (*fake.units[i].name)
                        tell("UnitRemoved", "so", fake.units[i].name, "/org/freedesktop/systemd1/unit/x");
        tell("Reloading", "b", 0);
}

static void drop_slices(void) {
        for (size_t i = 0; i < UNITS_MAX; i++)
                if (is_counted(&fake.units[i]) && strstr(fake.units[i].name, "pool"))
                        forget(&fake.units[i]);
}

static int on_tick(sd_event_source *s, uint64_t usec, void *userdata) {
        for (size_t i = 0; i < UNITS_MAX; i++) {
                struct Unit *u = &fake.units[i];
                if (*u->name && u->due && u->due <= now_monotonic())
                        finish_job(u);
                else if (is_counted(u) && is_scope(u) && u->is_up && !fake.shared->forgets && !unit_populated(u))
                        forget(u);
        }
        if (fake.shared->reload) {
                fake.shared->reload = false;
                play_reload();
        }
        if (fake.shared->drop_slices) {
                fake.shared->drop_slices = false;
                drop_slices();
        }
        for (size_t i = 0; i < fake.n_kept && !fake.shared->silent; i++) {
                (void) answer(fake.kept[i]);
                sd_bus_message_unref(fake.kept[i]);
        }
        fake.n_kept = fake.shared->silent ? fake.n_kept : 0;
        count_units();
        (void) sd_event_source_set_time_relative(s, TICK);
        return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

/* Whoever it moved goes back, so that the folders can go. */
static int on_end(sd_event_source *s, const struct signalfd_siginfo *info, void *userdata) {
        for (size_t i = 0; i < UNITS_MAX; i++) {
                struct Unit *u = &fake.units[i];
                if (!*u->name || !is_scope(u))
                        continue;
                char pid[16];
                snprintf(pid, sizeof pid, "%d", u->pid);
                if (!is_counted(u) && write_file_at(fake.own, "cgroup.procs", pid) < 0)
                        _exit(4);
                kill_unit(u);
                forget(u);
        }
        for (size_t i = 0; i < UNITS_MAX; i++)
                if (*fake.units[i].name)
                        (void) remove_all(fake.own, fake.units[i].name);
        (void) unlinkat(fake.own, "glovebox-pool0.slice", AT_REMOVEDIR);
        _exit(0);
}

static void fake_run(int listener, const char *const *before) {
        _cleanup_free_ char *own = NULL;
        sigset_t set;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL);
        for (size_t i = 0; before && before[i]; i++) {
                struct Unit u = {.is_up = true};
                snprintf(u.name, sizeof u.name, "%s", before[i]);
                u.pid = fork();
                if (u.pid == 0) {
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        for (;;)
                                pause();
                }
                fake.units[i] = u;
        }
        if (sd_event_new(&fake.event) < 0 || tree_own_folder(&own) < 0 || (fake.own = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 ||
            sd_event_add_io(fake.event, NULL, listener, EPOLLIN, on_connect, NULL) < 0 ||
            sd_event_add_signal(fake.event, NULL, SIGTERM, on_end, NULL) < 0 ||
            sd_event_add_time_relative(fake.event, NULL, CLOCK_MONOTONIC, TICK, 1, on_tick, NULL) < 0)
                _exit(2);
        for (size_t i = 0; i < UNITS_MAX && fake.units[i].pid; i++) {
                char pid[16];
                _cleanup_close_ int dir = open_folder(&fake.units[i], true);
                snprintf(pid, sizeof pid, "%d", fake.units[i].pid);
                if (write_file_at(dir, "cgroup.procs", pid) < 0)
                        _exit(5);
        }
        signal(SIGCHLD, SIG_IGN);
        count_units();
        (void) sd_event_loop(fake.event);
        _exit(1);
}

struct FakePid1 *fake_pid1_start(const char *const *before) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        char where[160];
        struct FakePid1 *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(fake_socket, sizeof fake_socket, "/tmp/glovebox-fake-pid1-%d", getpid());
        snprintf(address.sun_path, sizeof address.sun_path, "%s", fake_socket);
        (void) unlink(fake_socket);
        if (f == MAP_FAILED || listener < 0 || bind(listener, (struct sockaddr *) &address, sizeof address) < 0 || listen(listener, 16) < 0)
                abort();
        snprintf(where, sizeof where, "unix:path=%s", fake_socket);
        setenv("DBUS_SYSTEM_BUS_ADDRESS", where, 1);
        fake.shared = f;
        fake_pid = fork();
        if (fake_pid == 0)
                fake_run(listener, before);
        close_fd(listener);
        return f;
}

void fake_pid1_stop(struct FakePid1 *f) {
        int status;
        kill(fake_pid, SIGTERM);
        if (waitpid(fake_pid, &status, 0) != fake_pid || status != 0)
                abort();
        (void) unlink(fake_socket);
        (void) munmap(f, sizeof *f);
}
