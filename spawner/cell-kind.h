/* The kinds of cells behind one vtable: native ones (namespaces) now; other runtimes and virtual machines come as others. */
#pragma once

#include <sys/queue.h>
#include <systemd/sd-event.h>

#include "common/config.h"
#include "common/leaf-usage.h"
#include "spawner.pb-c.h"
#include "spawner/log-limit.h"

struct Cell;
struct CellKind;
struct Run;
struct Observer;
struct Placer;

struct Layers;
struct SeccompProgram;

#define STRANGERS_KEPT 64

/* What cells of all kinds share; one per spawner. */
struct CellWorld {
        sd_event *event;
        const struct Config *config;
        struct Slots *slots;
        struct Builder *builder;
        struct Observer *observer;
        struct Placer *placer;
        struct Cgroups *cgroups;
        struct Zygote **zygotes; /* by the runtime's index in the config; NULL = none */
        char **io_max;          /* of each run leaf, as the kernel wants it */
        int start_program;      /* sealed memfd of glovebox-start */
        int own_pidns;
        struct SeccompProgram *seccomp; /* NULL = waived */
        bool core_scheduling;   /* wanted, and of use */
        int landlock_abi;       /* below 1: the kernel has none */
        int probe_program;      /* sealed memfd of glovebox-probe, while the wall is being probed */
        struct Layers *layers;  /* what probing found */
        uint32_t without;       /* bits of enum Layer: waived, so cells are made without them */
        struct LogLimit complaints; /* of all that the server can cause */
        LIST_HEAD(Runs, Run) runs; /* whose main process has not been reaped */
        pid_t strangers[STRANGERS_KEPT]; /* the last ones reaped, in a ring: a zygote may name one later */
        unsigned n_strangers;
        uint64_t last_number;   /* of cells, in this life */
};

struct RunSpec {
        uint64_t number;
        struct Limits limits;
        bool merge_streams, probe_version;
        bool fresh;             /* no interpreter that waits, none that is forked */
        const uint8_t *job;     /* its body, or NULL: the server writes it; good only while the run is asked for */
        size_t job_size;
        bool probe;             /* glovebox-probe instead of a job's program */
        uint32_t without;       /* bits of enum Layer: left out of this run as well; only for probes */
};

/* Descriptors for the server, by role. Closed by who asked for them. */
struct RunFds {
        size_t n;
        int fds[24];
        Glovebox__Internal__Role roles[24];
        bool waited; /* they are of a main process that was there before, */
        struct LeafUsage before; /* and that has used this by then */
        usec_t begun; /* when the cell got what made it start */
};

struct MainExit {
        bool signaled;
        int status;
        uint64_t max_rss_bytes;
        bool init_died; /* the cell is lost: its init went first, and took the main process along */
};

struct CellUsage {
        usec_t cpu;
        uint64_t memory_peak; /* 0 = unknown */
};

struct CellKind {
        const char *name;
        /* Begins making the cell; cell_on_prepared is called once, later. */
        int (*prepare)(struct Cell *c);
        /* For a runtime with a process that waits: it is started, and cell_on_warm follows, or cell_on_spoiled. -EAGAIN: not now. */
        int (*warm)(struct Cell *c);
        bool (*is_warm)(struct Cell *c);
        /* The cell was made with other limits: now these. */
        int (*adopt)(struct Cell *c, const struct Limits *limits);
        /* 0 = it is started; 1 = cell_on_started comes later. On an error *ret_step is what failed; what was begun goes with the run or the cell. */
        int (*start)(struct Cell *c, const struct RunSpec *run, struct RunFds *ret, const char **ret_step);
        /* The run's processes: stop and go on. */
        int (*freeze)(struct Cell *c, bool frozen);
        int (*usage)(struct Cell *c, struct CellUsage *ret);
        /* Kills the run's processes, and only begins to. */
        int (*kill)(struct Cell *c);
        /* The main process is reaped and no other of the run is left. May call cell_on_main_exit. */
        bool (*is_over)(struct Cell *c);
        /* Forgets a run that is over. */
        void (*finish)(struct Cell *c);
        /* One of the cell's file systems has no block or no inode left. */
        bool (*is_full)(struct Cell *c);
        /* Finds out what the run's processes wait for; cell_on_waiting is called once, later or from inside. */
        void (*ask_waiting)(struct Cell *c);
        /* The main process says that it is over, with this status, and waits to be killed. cell_on_main_exit is called once, later or from inside. */
        int (*main_over)(struct Cell *c, uint8_t status);
        /* Ends everything; cell_on_destroyed is called once, later or from inside. */
        void (*destroy)(struct Cell *c);
        /* Frees what it keeps for the cell; the last call. */
        void (*done)(struct Cell *c);
};

extern const struct CellKind native_kind;
