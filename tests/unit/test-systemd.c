/* The systemd driver against a PID 1 of our own, which is late, silent, forgetful, or gone; and the names of units. Needs root and cgroup2. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <systemd/sd-event.h>

#include "common/log.h"
#include "spawner/limits/driver.h"
#include "spawner/limits/leaf.h"
#include "spawner/limits/leaders.h"
#include "spawner/limits/names.h"
#include "spawner/limits/scope.h"
#include "tests/unit/fake-pid1.h"

#define STATE "/tmp/glovebox-test-state"

static struct FakePid1 *fake;
static sd_event *event;
static struct Cgroups *cgroups;
static char *error;
static struct Limits caps = {.memory_bytes = 64 * MIB, .cpus = 1, .max_processes = 10};

/* One cell's cgroup, as native.c has it. */
struct Cell {
        struct CellCgroup *g;
        int made, removed; /* 1: no answer yet */
};

static void on_made(struct CellCgroup *g, int r, void *userdata) {
        ((struct Cell *) userdata)->made = r;
}

static void on_removed(struct CellCgroup *g, int r, void *userdata) {
        ((struct Cell *) userdata)->removed = r;
}

static void turn(usec_t time) {
        assert_ok(sd_event_run(event, time));
}

/* Until *what is no longer 1; how long that took. */
static usec_t wait_for(const int *what, usec_t time) {
        usec_t began = now_monotonic();
        while (*what == 1 && now_monotonic() - began < time)
                turn(10 * USEC_PER_MSEC);
        assert_int_not_equal(*what, 1);
        return now_monotonic() - began;
}

#define EVENTUALLY(condition)                                                                  \
        do {                                                                                   \
                usec_t end_ = now_monotonic() + 10 * USEC_PER_SEC;                             \
                while (!(condition) && now_monotonic() < end_)                                 \
                        turn(10 * USEC_PER_MSEC);                                              \
                assert_true(condition);                                                        \
        } while (0)

static uint64_t last_number;

static void make(struct Cell *c) {
        *c = (struct Cell) {.made = 1, .removed = 1};
        int r = cgroups->driver->make(cgroups, ++last_number, NULL, on_made, c, &c->g);
        assert_ok(r);
        if (r > 0)
                c->made = 0;
}

static void remove_cell(struct Cell *c) {
        c->removed = 1;
        assert_ok(cgroups->driver->remove(c->g, on_removed, c));
}

/* As native.c does: whatever is in it is killed first. */
static void end_cell(struct Cell *c, usec_t time) {
        assert_ok(cgroup_kill(c->g->dir));
        remove_cell(c);
        wait_for(&c->removed, time);
        assert_int_equal(c->removed, 0);
        c->g = cell_cgroup_free(c->g);
}

static bool has_folder(const struct Cell *c, const char *name) {
        return faccessat(c->g->dir, name, F_OK, 0) == 0;
}

static bool is_populated(const struct Cell *c) {
        _cleanup_close_ int fd = openat(c->g->dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
        char text[256];
        return fd >= 0 && read_small(fd, text, sizeof text) > 0 && cgroup_events_populated(text) == 1;
}

static int start_driver(bool shared) {
        const struct CgroupSetup setup = {.event = event, .state = STATE, .waive = (char *const *) controller_names, .caps = &caps, .shared = shared};
        return cgroups_start("systemd", &setup, &cgroups, &error);
}

static void begin(bool shared, const char *const *before) {
        fake = fake_pid1_start(before);
        assert_ok(sd_event_new(&event));
        if (start_driver(shared) < 0)
                fail_msg("the driver does not start: %s", error);
}

static int setup(void **state) {
        begin(false, NULL);
        return 0;
}

static int setup_shared(void **state) {
        begin(true, NULL);
        return 0;
}

static int teardown(void **state) {
        if (cgroups)
                cgroups->driver->stop(cgroups);
        cgroups = NULL;
        fake_pid1_stop(fake);
        event = sd_event_unref(event);
        free(error);
        error = NULL;
        return 0;
}

static void test_a_cell(void **state) {
        struct Cell c;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_int_equal(c.made, 0);
        assert_true(has_folder(&c, LEADER_LEAF) && is_populated(&c));
        assert_int_equal(fake->n_scopes, 1);
        assert_non_null(strstr(fake->last_slice, "glovebox-pool0_"));
        assert_non_null(strstr(fake->bound, "glovebox-spawner-"));
        struct Leaf leaf = {};
        assert_ok(leaf_make(&leaf, c.g->dir, "init", 0, NULL)); /* no process is in the folder itself */
        pid_t pid = fork();
        if (pid == 0)
                for (;;)
                        pause();
        char text[16];
        snprintf(text, sizeof text, "%d", pid);
        assert_ok(write_file_at(leaf.dir, "cgroup.procs", text));
        cgroups->driver->settled(c.g);
        EVENTUALLY(!has_folder(&c, LEADER_LEAF));
        assert_true(is_populated(&c));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        end_cell(&c, 2 * USEC_PER_SEC);
        assert_int_equal(leaf_is_populated(&leaf), 0); /* also once it has been removed */
        leaf_done(&leaf);
        EVENTUALLY(fake->n_scopes == 0);
        assert_int_equal(fake->n_stops, 0); /* it went by itself */
}

/* A reload of the config: ceilings of what is there, and of what comes. */
static void test_caps(void **state) {
        struct Cell c, later;
        struct Limits more = caps;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_int_equal(fake->last_memory, (64 + 64) * MIB);
        more.memory_bytes = 1 * GIB;
        cgroups->driver->set_caps(cgroups, &more);
        EVENTUALLY(fake->n_sets == 2); /* the slice and the scope */
        assert_int_equal(fake->last_memory, GIB + 64 * MIB);
        make(&later);
        wait_for(&later.made, 5 * USEC_PER_SEC);
        assert_int_equal(fake->last_memory, GIB + 64 * MIB);
        /* An answer that is still awaited is no hindrance to a stop. */
        fake->forgets = true;
        cgroups->driver->set_caps(cgroups, &caps);
        end_cell(&c, 5 * USEC_PER_SEC);
        end_cell(&later, 5 * USEC_PER_SEC);
        EVENTUALLY(fake->n_scopes == 0);
}

static void test_four_at_a_time(void **state) {
        struct Cell cells[80];
        fake->delay_ms = 15;
        fake->most_in_flight = 0;
        for (size_t i = 0; i < ELEMENTSOF(cells); i++)
                make(&cells[i]);
        for (size_t i = 0; i < ELEMENTSOF(cells); i++) {
                wait_for(&cells[i].made, 10 * USEC_PER_SEC);
                assert_int_equal(cells[i].made, 0);
        }
        assert_in_range(fake->most_in_flight, 2, 4);
        assert_int_equal(fake->n_slices, 2); /* at most 64 in one */
        for (size_t i = 0; i < ELEMENTSOF(cells); i++)
                end_cell(&cells[i], 5 * USEC_PER_SEC);
        EVENTUALLY(fake->n_scopes == 0);
}

static void assert_refused(int expected) {
        struct Cell c;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_int_equal(c.made, expected);
        remove_cell(&c);
        wait_for(&c.removed, USEC_PER_SEC);
        assert_int_equal(c.removed, 0);
        cell_cgroup_free(c.g);
        EVENTUALLY(fake->n_scopes == 0);
}

static void assert_works(void) {
        struct Cell c;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_int_equal(c.made, 0);
        end_cell(&c, 5 * USEC_PER_SEC);
}

static void test_errors(void **state) {
        strcpy(fake->error, "org.freedesktop.DBus.Error.AccessDenied");
        assert_refused(-EACCES);
        strcpy(fake->error, "org.freedesktop.DBus.Error.UnixProcessIdUnknown");
        assert_refused(-ESRCH);
        strcpy(fake->error, "org.freedesktop.systemd1.UnitExists");
        assert_refused(-EEXIST);
        strcpy(fake->error, "");
        assert_works();
}

/* A slice that goes while its ceilings are being changed is asked for again; the answer to the change is nobody's. */
static void test_slice_that_goes(void **state) {
        struct Cell c;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        end_cell(&c, 5 * USEC_PER_SEC);
        EVENTUALLY(fake->n_scopes == 0);
        fake->silent = true;
        cgroups->driver->set_caps(cgroups, &caps);
        turn(50 * USEC_PER_MSEC);
        fake->drop_slices = true;
        EVENTUALLY(fake->n_slices == 0);
        turn(50 * USEC_PER_MSEC);
        make(&c);
        for (usec_t end = now_monotonic() + 300 * USEC_PER_MSEC; now_monotonic() < end;)
                turn(10 * USEC_PER_MSEC);
        fake->silent = false;
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_int_equal(c.made, 0);
        end_cell(&c, 5 * USEC_PER_SEC);
}

/* The process that holds leaders, a child of this one. */
static pid_t leaders_pid(void) {
        char file[64], text[64];
        snprintf(file, sizeof file, "/proc/self/task/%d/children", getpid());
        _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
        char children[512];
        char *save = NULL;
        if (fd < 0 || read_small(fd, children, sizeof children) < 0)
                return 0;
        for (char *pid = strtok_r(children, " ", &save); pid; pid = strtok_r(NULL, " ", &save)) {
                snprintf(file, sizeof file, "/proc/%s/comm", pid);
                _cleanup_close_ int comm = open(file, O_RDONLY | O_CLOEXEC);
                if (comm >= 0 && read_small(comm, text, sizeof text) > 0 && streq(text, "gb-leaders\n"))
                        return (pid_t) strtol(pid, NULL, 10);
        }
        return 0;
}

/* SYS-11: PID 1 is never told a number whose process has gone and which may be another's by now. */
static void test_leader_that_died(void **state) {
        struct Cell cells[6];
        fake->silent = true;
        unsigned before = fake->n_starts;
        for (size_t i = 0; i < ELEMENTSOF(cells); i++)
                make(&cells[i]);
        for (usec_t end = now_monotonic() + 500 * USEC_PER_MSEC; now_monotonic() < end;)
                turn(10 * USEC_PER_MSEC);
        pid_t pid = leaders_pid();
        assert_true(pid > 0);
        assert_ok(kill(pid, SIGKILL));
        for (usec_t end = now_monotonic() + 300 * USEC_PER_MSEC; now_monotonic() < end;)
                turn(10 * USEC_PER_MSEC);
        fake->silent = false;
        for (size_t i = 0; i < ELEMENTSOF(cells); i++) {
                wait_for(&cells[i].made, 5 * USEC_PER_SEC);
                assert_true(cells[i].made < 0);
                remove_cell(&cells[i]);
                wait_for(&cells[i].removed, 2 * USEC_PER_SEC);
                cell_cgroup_free(cells[i].g);
        }
        assert_in_range(fake->n_starts - before, 0, 4); /* those that were under way */
        EVENTUALLY(fake->n_scopes == 0);
        assert_works();
}

static void test_failed_jobs(void **state) {
        static const char *const results[] = {"failed", "timeout", "dependency", "canceled"};
        for (size_t i = 0; i < ELEMENTSOF(results); i++) {
                strcpy(fake->result, results[i]);
                assert_refused(-EIO);
        }
        strcpy(fake->result, "");
        assert_works();
}

/* SYS-04, SYS-05: fails within its time, and what comes late is stopped. */
static void test_never(void **state) {
        struct Cell cells[10];
        fake->silent = true;
        for (size_t i = 0; i < ELEMENTSOF(cells); i++)
                make(&cells[i]);
        usec_t took = wait_for(&cells[0].made, 15 * USEC_PER_SEC);
        assert_in_range(took, 8 * USEC_PER_SEC, 12 * USEC_PER_SEC);
        for (size_t i = 0; i < ELEMENTSOF(cells); i++) {
                wait_for(&cells[i].made, 2 * USEC_PER_SEC);
                assert_int_equal(cells[i].made, -ETIMEDOUT);
                remove_cell(&cells[i]);
                wait_for(&cells[i].removed, USEC_PER_SEC);
                assert_int_equal(cells[i].removed, 0);
                cell_cgroup_free(cells[i].g);
        }
        assert_int_equal(fake->n_scopes, 0);
        unsigned before = fake->n_starts;
        fake->silent = false;
        EVENTUALLY(fake->n_starts > before);
        assert_in_range(fake->n_starts - before, 1, 4); /* the others were never asked for */
        EVENTUALLY(fake->n_scopes == 0);
        assert_works();
}

/* SYS-04: the job ends after the deadline. Its leader is gone by then, so that even PID 1 sees no point in it. */
static void test_late(void **state) {
        struct Cell c;
        fake->delay_ms = 11500;
        make(&c);
        wait_for(&c.made, 15 * USEC_PER_SEC);
        assert_int_equal(c.made, -ETIMEDOUT);
        assert_int_equal(fake->n_scopes, 1);
        cell_cgroup_free(c.g);
        fake->delay_ms = 0;
        EVENTUALLY(fake->n_scopes == 0);
        assert_works();
}

/* SYS-08 */
static void test_lost_connection(void **state) {
        struct Cell c, standing;
        make(&standing);
        wait_for(&standing.made, 5 * USEC_PER_SEC);
        unsigned connections = fake->n_connections, starts = fake->n_starts;
        fake->drop_at_call = true;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_int_equal(c.made, 0);
        assert_int_equal(fake->n_connections, connections + 1);
        assert_int_equal(fake->n_starts, starts + 2); /* asked again under the same name */
        assert_int_equal(fake->n_scopes, 2);
        end_cell(&c, 5 * USEC_PER_SEC);
        fake->drop_at_job = true;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_int_equal(c.made, 0);
        assert_int_equal(fake->n_connections, connections + 2);
        assert_int_equal(fake->n_starts, starts + 3); /* the list told of it */
        end_cell(&c, 5 * USEC_PER_SEC);
        assert_true(is_populated(&standing));
        end_cell(&standing, 5 * USEC_PER_SEC);
        EVENTUALLY(fake->n_scopes == 0);
}

/* While the connection closes its calls are answered one by one, and each answer is a turn for the next. */
static void test_lost_connection_with_many(void **state) {
        struct Cell cells[20];
        for (int round = 0; round < 2; round++) {
                fake->delay_ms = 20;
                for (size_t i = 0; i < ELEMENTSOF(cells); i++)
                        make(&cells[i]);
                EVENTUALLY(fake->n_scopes == 8);
                if (round == 0)
                        fake->drop_at_call = true;
                else
                        fake->drop_at_job = true;
                for (size_t i = 0; i < ELEMENTSOF(cells); i++) {
                        wait_for(&cells[i].made, 10 * USEC_PER_SEC);
                        assert_int_equal(cells[i].made, 0);
                }
                for (size_t i = 0; i < ELEMENTSOF(cells); i++)
                        end_cell(&cells[i], 5 * USEC_PER_SEC);
                EVENTUALLY(fake->n_scopes == 0);
        }
}

/* A bus that refuses for a while; a cell that waits for it meanwhile; one that ends meanwhile. */
static void test_no_connection(void **state) {
        struct Cell standing, c;
        make(&standing);
        wait_for(&standing.made, 5 * USEC_PER_SEC);
        fake->refuse = fake->drop_at_call = true;
        make(&c);
        usec_t end = now_monotonic() + USEC_PER_SEC;
        while (now_monotonic() < end)
                turn(50 * USEC_PER_MSEC);
        assert_int_equal(c.made, 1);
        end_cell(&standing, USEC_PER_SEC); /* the folder tells */
        fake->refuse = false;
        wait_for(&c.made, 6 * USEC_PER_SEC);
        assert_int_equal(c.made, 0);
        end_cell(&c, 5 * USEC_PER_SEC);
        EVENTUALLY(fake->n_scopes == 0);
}

static void test_noise_of_a_reload(void **state) {
        struct Cell c;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        fake->reload = true;
        EVENTUALLY(!fake->reload);
        turn(300 * USEC_PER_MSEC);
        assert_true(is_populated(&c));
        assert_int_equal(fake->n_scopes, 1);
        /* The noise in the middle of an end. */
        fake->forgets = true;
        assert_ok(cgroup_kill(c.g->dir));
        remove_cell(&c);
        fake->reload = true;
        wait_for(&c.removed, 5 * USEC_PER_SEC);
        assert_int_equal(c.removed, 0);
        cell_cgroup_free(c.g);
        EVENTUALLY(fake->n_scopes == 0);
        fake->forgets = false;
        assert_works();
}

/* A scope that PID 1 does not see to be empty is stopped; one that it does not stop loses its folder all the same. */
static void test_leaked_scope(void **state) {
        struct Cell c;
        fake->forgets = true;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_ok(cgroup_kill(c.g->dir));
        remove_cell(&c);
        usec_t took = wait_for(&c.removed, 5 * USEC_PER_SEC);
        assert_in_range(took, 200 * USEC_PER_MSEC, 2 * USEC_PER_SEC);
        assert_int_equal(c.removed, 0);
        assert_int_equal(fake->n_stops, 1);
        cell_cgroup_free(c.g);
        fake->stops_nothing = true;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        assert_ok(cgroup_kill(c.g->dir));
        remove_cell(&c);
        took = wait_for(&c.removed, 8 * USEC_PER_SEC);
        assert_in_range(took, 2 * USEC_PER_SEC, 6 * USEC_PER_SEC);
        while (c.removed == -EBUSY) {
                remove_cell(&c);
                wait_for(&c.removed, 2 * USEC_PER_SEC);
        }
        assert_int_equal(c.removed, 0);
        cell_cgroup_free(c.g);
        assert_int_equal(fake->n_scopes, 1); /* it is told again and again */
        fake->stops_nothing = fake->forgets = false;
        EVENTUALLY(fake->n_scopes == 0);
}

/* Its owner frees it whenever it likes. */
static void test_forgotten_cells(void **state) {
        struct Cell a, b, c;
        make(&a);
        cell_cgroup_free(a.g);
        fake->delay_ms = 100;
        make(&b);
        EVENTUALLY(fake->n_scopes == 1);
        cell_cgroup_free(b.g);
        fake->delay_ms = 0;
        make(&c);
        wait_for(&c.made, 5 * USEC_PER_SEC);
        cell_cgroup_free(c.g);
        EVENTUALLY(fake->n_scopes == 0);
        assert_works();
}

/* SYS-14: by name, never those of others. */
static void test_sweep(void **state) {
        struct UnitNames names, other;
        char boot[64] = "", own[UNIT_NAME_LEN], old[UNIT_NAME_LEN], foreign[UNIT_NAME_LEN];
        _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        assert_true(read_small(fd, boot, sizeof boot) > 0);
        names_init(&names, boot, STATE);
        names_init(&other, boot, "/another/state");
        names_scope(&names, 7, own);
        names_own_scope(&names, 3, old);
        names_scope(&other, 7, foreign);
        const char *const before[] = {own, old, foreign, NULL};
        begin(false, before);
        EVENTUALLY(fake->n_scopes == 1);
        assert_int_equal(fake->n_stops, 2);
        assert_works();
        EVENTUALLY(fake->n_scopes == 1);
}

static void test_shared(void **state) {
        struct Cell a, b;
        unsigned before = fake->n_starts;
        make(&a);
        make(&b);
        wait_for(&a.made, 5 * USEC_PER_SEC);
        wait_for(&b.made, 5 * USEC_PER_SEC);
        assert_int_equal(a.made, 0);
        assert_int_equal(b.made, 0);
        assert_int_equal(fake->n_starts, before + 1);
        assert_int_equal(fake->n_scopes, 1);
        struct Cell c;
        make(&c);
        assert_int_equal(c.made, 0); /* at once */
        end_cell(&a, 2 * USEC_PER_SEC);
        end_cell(&b, 2 * USEC_PER_SEC);
        assert_true(has_folder(&c, "cgroup.procs"));
        end_cell(&c, 2 * USEC_PER_SEC);
        assert_int_equal(fake->n_scopes, 1); /* stays, by its keeper */
        assert_works();
        assert_int_equal(fake->n_starts, before + 1);
}

static void test_no_bus(void **state) {
        setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/at/all", 1);
        assert_ok(sd_event_new(&event));
        assert_true(start_driver(false) < 0);
        assert_non_null(strstr(error, "driver = cgroupfs"));
        event = sd_event_unref(event);
        free(error);
        error = NULL;
}

static void test_names(void **state) {
        struct UnitNames service, other;
        char unit[UNIT_NAME_LEN], path[SCOPE_PATH_MAX];
        names_init(&service, "0c1d2e3f-0000-0000-0000-000000000000\n", "/run/glovebox-spawner");
        names_init(&other, "0c1d2e3f-0000-0000-0000-000000000000\n", "/tmp/x");
        assert_string_not_equal(service.id, other.id);
        names_pool(&service, NULL, 3, unit);
        assert_string_equal(unit, "glovebox-pool3.slice");
        assert_true(names_is_ours(&service, unit));
        assert_false(names_is_ours(&other, unit));
        names_pool(&other, NULL, 3, unit);
        assert_false(names_is_ours(&service, unit));
        assert_true(names_is_ours(&other, unit));
        names_pool(&service, "acme", 0, unit);
        assert_string_equal(unit, "glovebox-acme-pool0.slice");
        assert_true(names_is_ours(&service, unit));
        assert_false(names_is_ours(&other, unit));
        names_scope(&other, 12, unit);
        assert_int_equal(names_number(&other, unit), 12);
        assert_int_equal(names_number(&service, unit), 0);
        assert_true(names_is_ours(&other, unit));
        static const char *const foreign[] = {"glovebox.slice",           "glovebox-control.slice", "glovebox-pool.slice",    "glovebox-pool1x.slice",
                                              "glovebox-spawner.service", "glovebox-spawner.scope", "glovebox-spawner.socket",
                                              "glovebox-acme.slice",      "glovebox-a-b-pool1.slice"};
        for (size_t i = 0; i < ELEMENTSOF(foreign); i++)
                assert_false(names_is_ours(&service, foreign[i]));
        assert_int_equal(names_folder("1:cpu:/y\n0::/a.slice/b.scope\n", "b.scope", path, sizeof path), 0);
        assert_string_equal(path, "a.slice/b.scope");
        assert_int_equal(names_folder("0::/a.slice/b.scope/init\n", "b.scope", path, sizeof path), -ENOENT);
        assert_int_equal(names_folder("0::/a.slice/b.scope\n", "b.scope", path, 5), -ENAMETOOLONG);
}

static void test_states(void **state) {
        assert_true(scope_state_may(SCOPE_ASKED, SCOPE_WAITING));
        assert_false(scope_state_may(SCOPE_UP, SCOPE_ASKED));
        assert_false(scope_state_may(SCOPE_WAITING, SCOPE_UP)); /* never before its job has ended */
        for (enum ScopeState to = 0; to < SCOPE_STATE_MAX_; to++)
                assert_false(scope_state_may(SCOPE_GONE, to));
}

#define WITH(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                T(test_names), T(test_states), T(test_no_bus), WITH(test_a_cell), WITH(test_caps), WITH(test_slice_that_goes),
                WITH(test_leader_that_died), WITH(test_four_at_a_time), WITH(test_errors),
                WITH(test_failed_jobs), WITH(test_lost_connection), WITH(test_lost_connection_with_many),
                WITH(test_no_connection), WITH(test_noise_of_a_reload),
                WITH(test_leaked_scope), WITH(test_forgotten_cells), cmocka_unit_test_teardown(test_sweep, teardown),
                cmocka_unit_test_setup_teardown(test_shared, setup_shared, teardown), WITH(test_late), WITH(test_never),
        };
        log_open("test-systemd");
        log_set_max_level(LOG_ERR);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
