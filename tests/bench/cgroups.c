/* What a cell's cgroup costs, by driver: making it, its leaf for a run, removing it, one after the other and four at a time. Prints one JSON
 * object, times in microseconds.
 *
 *   cgroups DRIVER SCOPE STATE LIVE COUNT [WAIVE...]
 *
 * SCOPE: per-cell or shared. LIVE cells stay while COUNT others are made and removed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "common/log.h"
#include "spawner/limits/driver.h"
#include "spawner/limits/leaf.h"

#define AT_ONCE 4
#define CELLS_MAX 20000
#define STOP_AFTER (300 * USEC_PER_SEC)

struct Bench {
        sd_event *event;
        struct Cgroups *cgroups;
        struct Limits limits;
        uint64_t number;
        size_t wanted, begun, ended, under_way, at_once, n_made, n_removed;
        double *made, *leaf, *removed; /* NULL: nothing is measured, and what is made stays */
};

struct One {
        struct Bench *bench;
        struct CellCgroup *cgroup;
        struct Leaf init, run;
        double began;
        bool stays;
};

static double now_us(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static _Noreturn void fail(const char *what, int error) {
        (void) fprintf(stderr, "cgroups: %s: %s\n", what, strerror(abs(error)));
        exit(1);
}

static void begin_more(struct Bench *b);

static void over(struct One *o) {
        struct Bench *b = o->bench;

        if (!o->stays)
                free(o);
        b->under_way--;
        b->ended++;
        begin_more(b);
}

static void on_removed(struct CellCgroup *g, int error, void *userdata) {
        struct One *o = userdata;

        if (error < 0)
                fail("remove", error);
        o->bench->removed[o->bench->n_removed++] = now_us() - o->began;
        (void) cell_cgroup_free(g);
        over(o);
}

static void on_made(struct CellCgroup *g, int error, void *userdata) {
        struct One *o = userdata;
        struct Bench *b = o->bench;

        if (error < 0)
                fail("make", error);
        double made = now_us();
        int r = leaf_make(&o->init, g->dir, "init", b->cgroups->controllers, NULL);
        if (r >= 0)
                r = leaf_make(&o->run, g->dir, "run-1", b->cgroups->controllers, &b->limits);
        if (r < 0)
                fail("leaf", r);
        if (b->made) {
                b->made[b->n_made] = made - o->began;
                b->leaf[b->n_made++] = (now_us() - made) / 2;
        }
        if (o->stays) {
                over(o);
                return;
        }
        leaf_done(&o->init);
        leaf_done(&o->run);
        o->began = now_us();
        r = b->cgroups->driver->remove(g, on_removed, o);
        if (r < 0)
                fail("remove", r);
}

static void begin(struct Bench *b) {
        struct One *o = calloc(1, sizeof *o);

        if (!o)
                fail("begin", ENOMEM);
        *o = (struct One) { .bench = b, .began = now_us(), .stays = !b->made };
        b->begun++;
        b->under_way++;
        int r = b->cgroups->driver->make(b->cgroups, ++b->number, NULL, on_made, o, &o->cgroup);
        if (r < 0)
                fail("make", r);
        if (r > 0)
                on_made(o->cgroup, 0, o);
}

static void begin_more(struct Bench *b) {
        while (b->under_way < b->at_once && b->begun < b->wanted)
                begin(b);
}

/* Seconds for n cells, at_once at a time. */
static double run(struct Bench *b, size_t n, size_t at_once) {
        double began = now_us();
        usec_t end = now_monotonic() + STOP_AFTER;

        b->wanted = n;
        b->at_once = at_once;
        b->begun = b->ended = b->under_way = b->n_made = b->n_removed = 0;
        begin_more(b);
        while (b->ended < b->wanted) {
                int r = sd_event_run(b->event, USEC_PER_SEC);
                if (r < 0 || now_monotonic() > end)
                        fail("the loop", r < 0 ? r : ETIMEDOUT);
        }
        return (now_us() - began) / 1e6;
}

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

static void print(const char *name, double *values, size_t n) {
        qsort(values, n, sizeof *values, compare);
        printf("\"%s\": {\"p50\": %.1f, \"p99\": %.1f}, ", name, values[n / 2], values[n * 99 / 100]);
}

static void start(struct Bench *b, char **argv, const struct Limits *caps) {
        const struct CgroupSetup setup = {
                .event = b->event, .state = argv[3], .waive = argv + 6, .caps = caps, .shared = streq(argv[2], "shared"),
        };
        char *error = NULL;

        (void) mkdir(argv[3], 0700);
        int r = cgroups_start(argv[1], &setup, &b->cgroups, &error);
        if (r < 0)
                fail(error ? error : "start", r);
}

int main(int argc, char **argv) {
        struct Bench b = { .limits = limits_standard() };
        struct Limits caps = limits_caps();

        struct rlimit files;

        log_open("cgroups");
        /* Each cell that stays holds a handful of descriptors. */
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &files);
        }
        if (argc < 6)
                fail("cgroups DRIVER per-cell|shared STATE LIVE COUNT [WAIVE...]", EINVAL);
        size_t live = (size_t) atol(argv[4]), count = (size_t) atol(argv[5]);
        if (count == 0 || count > CELLS_MAX || live > CELLS_MAX)
                fail("LIVE and COUNT", ERANGE);
        int r = sd_event_new(&b.event);
        if (r < 0)
                fail("sd_event_new", r);
        start(&b, argv, &caps);
        (void) run(&b, live, AT_ONCE);
        b.made = calloc(count, sizeof *b.made);
        b.leaf = calloc(count, sizeof *b.leaf);
        b.removed = calloc(count, sizeof *b.removed);
        if (!b.made || !b.leaf || !b.removed)
                fail("memory", ENOMEM);
        printf("{\"live\": %zu, ", live);
        (void) run(&b, count, 1);
        print("make", b.made, count);
        print("leaf", b.leaf, count);
        print("remove", b.removed, count);
        printf("\"per_second\": %.0f}\n", (double) count / run(&b, count, AT_ONCE));
        /* What stays goes with this process, or with the next that has this state folder. */
        b.cgroups->driver->stop(b.cgroups);
        return 0;
}
