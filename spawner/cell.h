/* One cell: its life, whatever its kind. */
#pragma once

#include <sys/queue.h>

#include "spawner/cell-kind.h"
#include "spawner/wait.h"

#define CELL_TAG_MAX 128

enum CellState {
        CELL_OPENING,  /* being made; a run may wait for that */
        CELL_READY,    /* made, no run */
        CELL_STARTING, /* a main process is being started */
        CELL_RUNNING,  /* a main process was started; it may have ended */
        CELL_ENDING,   /* the run is being killed */
        CELL_CLOSING,  /* the cell is being destroyed */
        CELL_CLOSED,   /* nothing is left, or what is left has been told */
        CELL_STATE_MAX_,
};

/* Who hears of a cell. message is sent at once, with descriptors that stay the cell's. */
struct CellOwner {
        void (*send)(void *userdata, Glovebox__Internal__FromSpawner *message, const struct RunFds *fds);
        void (*on_closed)(void *userdata, struct Cell *c); /* frees it */
        void (*on_ready)(void *userdata, struct Cell *c);  /* made, and no run waits for that; may be NULL */
        void *userdata;
};

struct Cell {
        LIST_ENTRY(Cell) entry;
        struct CellWorld *world;
        const struct CellKind *kind;
        void *impl;                    /* the kind's own */
        const struct CellOwner *owner;
        bool orphan;                   /* the connection it belonged to is gone: nothing is sent */
        uint64_t id;                   /* the server's number */
        uint64_t number;               /* ours, never used twice */
        unsigned runtime;              /* index in the config */
        const char *slice;             /* of the config; NULL = the one for all */
        struct Limits limits;
        char tag[CELL_TAG_MAX + 1];
        enum CellState state;
        bool has_run, lost;
        bool pooled;                   /* it was made before anyone asked for it */
        bool warming;                  /* what is to wait in it has been started, and does not wait yet */
        bool told_full, told_exit;     /* of this run */
        struct RunSpec run;            /* the waiting or current one */
        uint8_t *job;                  /* of it, until it has started; NULL: the server writes it */
        struct Wait ending;
};

struct CellSpec {
        uint64_t id;
        unsigned runtime;
        const struct CellKind *kind;
        const char *slice;
        struct Limits limits;
        const char *tag;
        bool aside;                    /* for a question of the server's own: no demand that a pool has to meet */
};

/* Begins to make it. Whatever fails later is told by CellFailed and CellClosed. */
int cell_new(struct CellWorld *world, const struct CellSpec *spec, const struct CellOwner *owner, struct Cell **ret);
struct Cell *cell_free(struct Cell *c);
/* One that was made ahead, READY and without a run, becomes what spec asks for. On an error it closes by itself. */
int cell_adopt(struct Cell *c, const struct CellSpec *spec, const struct CellOwner *owner);

/* Tells the server once for each run when a file system of the cell is full. */
void cell_look_for_room(struct Cell *c);

/* Messages of the server; at a wrong time they fail the cell. It may be gone after any of them but cell_ask_waiting. */
void cell_start_run(struct Cell *c, const struct RunSpec *run);
void cell_end_run(struct Cell *c, uint64_t run);
void cell_ask_waiting(struct Cell *c, uint64_t run);
void cell_main_over(struct Cell *c, uint64_t run, uint8_t status);
void cell_close(struct Cell *c);
/* The run asked for is not allowed: the cell fails. */
void cell_refuse_run(struct Cell *c, int error, const char *step);

/* Called by the kind. */
void cell_on_prepared(struct Cell *c, int error, const char *step);
/* fds stay the kind's. */
void cell_on_started(struct Cell *c, int error, const char *step, const struct RunFds *fds);
/* What is to wait in it does. */
void cell_on_warm(struct Cell *c);
/* What waits in it has failed, or ended. */
void cell_on_spoiled(struct Cell *c, int error, const char *step);
void cell_on_main_exit(struct Cell *c, const struct MainExit *e);
void cell_on_lost(struct Cell *c);
/* words follow "was". */
void cell_on_waiting(struct Cell *c, const char *words);
void cell_on_destroyed(struct Cell *c, const char *left);

const char *cell_state_name(enum CellState s);
/* For tests: may a cell go from one state to the other? */
bool cell_state_may(enum CellState from, enum CellState to);
