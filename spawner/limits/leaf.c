/* A leaf of a cell's cgroup: where processes are, and what is read, frozen and killed. */
#include "spawner/limits/leaf.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define CPU_PERIOD_USEC 100000

/* glovebox-init needs a few pages and no child; its own pages are locked to nothing a cell can grow. */
static const struct Limits init_limits = {.memory_bytes = 8 * MIB, .cpus = 0.5, .max_processes = 4};

static int write_number(int dir, const char *file, uint64_t value) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64, value);
        return write_file_at(dir, file, text);
}

static int limit_memory(int dir, const struct Limits *l) {
        int r = write_number(dir, "memory.max", l->memory_bytes);
        if (r >= 0)
                r = write_file_at(dir, "memory.oom.group", "1");
        if (r < 0)
                return r;
        r = write_file_at(dir, "memory.swap.max", "0");
        return r == -ENOENT ? 0 : r; /* a kernel without swap accounting has no swap to limit */
}

static int limit_pids(int dir, const struct Limits *l) {
        return write_number(dir, "pids.max", l->max_processes);
}

static int limit_cpu(int dir, const struct Limits *l) {
        char text[64];
        uint64_t quota = (uint64_t) (l->cpus * CPU_PERIOD_USEC + 0.5);
        snprintf(text, sizeof text, "%" PRIu64 " %d", MAX(quota, (uint64_t) 1000), CPU_PERIOD_USEC);
        return write_file_at(dir, "cpu.max", text);
}

static const struct {
        unsigned controller;
        int (*apply)(int dir, const struct Limits *l);
} limit_writers[] = {
        {CONTROLLER_MEMORY, limit_memory},
        {CONTROLLER_PIDS, limit_pids},
        {CONTROLLER_CPU, limit_cpu},
};

static int leaf_limit(int dir, unsigned controllers, const struct Limits *limits) {
        for (size_t i = 0; i < ELEMENTSOF(limit_writers); i++) {
                if (!(controllers & limit_writers[i].controller))
                        continue;
                int r = limit_writers[i].apply(dir, limits);
                if (r < 0)
                        return r;
        }
        return 0;
}

int leaf_make(struct Leaf *l, int cell_dir, const char *name, unsigned controllers, const struct Limits *limits) {
        if (strlen(name) >= LEAF_NAME_MAX)
                return -ENAMETOOLONG;
        if (mkdirat(cell_dir, name, 0755) < 0)
                return -errno;
        _cleanup_close_ int dir = openat(cell_dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return -errno;
        int r = leaf_limit(dir, controllers, limits ? limits : &init_limits);
        if (r < 0)
                return r;
        _cleanup_close_ int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
        if (events < 0)
                return -errno;
        *l = (struct Leaf) {.dir = TAKE_FD(dir), .events = TAKE_FD(events)};
        strcpy(l->name, name);
        return 0;
}

int leaf_change(const struct Leaf *l, unsigned controllers, const struct Limits *limits) {
        return leaf_limit(l->dir, controllers, limits);
}

void leaf_done(struct Leaf *l) {
        l->dir = close_fd(l->dir);
        l->events = close_fd(l->events);
}

int cgroup_events_populated(const char *text) {
        uint64_t value;
        if (keyed_number(text, "populated", &value) < 0 || value > 1)
                return -EBADMSG;
        return (int) value;
}

int leaf_is_populated(const struct Leaf *l) {
        char text[256];
        ssize_t n = read_small(l->events, text, sizeof text);
        if (n == -ENODEV)
                return 0; /* systemd has removed it, which goes only without a process in it */
        return n < 0 ? (int) n : cgroup_events_populated(text);
}

/* A folder that systemd has removed in the meantime has no process in it: nothing is left to do. */
static int write_if_there(int dir, const char *file, const char *value) {
        int r = write_file_at(dir, file, value);
        return r == -ENOENT || r == -ENODEV ? 0 : r;
}

int cgroup_freeze(int dir, bool frozen) {
        return write_if_there(dir, "cgroup.freeze", frozen ? "1" : "0");
}

int cgroup_kill(int dir) {
        return write_if_there(dir, "cgroup.kill", "1");
}

int leaf_hurry(const struct Leaf *l, unsigned controllers) {
        return controllers & CONTROLLER_CPU ? write_if_there(l->dir, "cpu.max", "max") : 0;
}
