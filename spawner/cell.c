/* One cell: its life, whatever its kind. What the server says moves it forward, what its kind reports too; every way ends in CLOSED.
 * A failure is told once, and then the cell closes by itself. */
#include "spawner/cell.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/log.h"
#include "spawner/trace.h"

#define END_TIME (10 * USEC_PER_SEC)

static const char *const state_names[CELL_STATE_MAX_] = {
        [CELL_OPENING] = "opening", [CELL_READY] = "ready",     [CELL_STARTING] = "starting", [CELL_RUNNING] = "running",
        [CELL_ENDING] = "ending",   [CELL_CLOSING] = "closing", [CELL_CLOSED] = "closed",
};

#define MAY(state) (1U << (state))

static const unsigned transitions[CELL_STATE_MAX_] = {
        [CELL_OPENING] = MAY(CELL_READY) | MAY(CELL_CLOSING),
        [CELL_READY] = MAY(CELL_STARTING) | MAY(CELL_CLOSING),
        [CELL_STARTING] = MAY(CELL_RUNNING) | MAY(CELL_CLOSING),
        [CELL_RUNNING] = MAY(CELL_ENDING) | MAY(CELL_CLOSING),
        [CELL_ENDING] = MAY(CELL_READY) | MAY(CELL_CLOSING),
        [CELL_CLOSING] = MAY(CELL_CLOSED),
};

const char *cell_state_name(enum CellState s) {
        return s < CELL_STATE_MAX_ ? state_names[s] : "?";
}

bool cell_state_may(enum CellState from, enum CellState to) {
        return from < CELL_STATE_MAX_ && to < CELL_STATE_MAX_ && (transitions[from] & MAY(to));
}

static const char *cell_tag(const struct Cell *c) {
        return isempty(c->tag) ? NULL : c->tag;
}

static void cell_set_state(struct Cell *c, enum CellState s) {
        if (!cell_state_may(c->state, s)) {
                log_full(LOG_CRIT, 0, cell_tag(c), "Cell %" PRIu64 " cannot go from %s to %s.", c->number, cell_state_name(c->state),
                         cell_state_name(s));
                abort(); /* a fault of ours: better no spawner than one that has lost count */
        }
        log_full(LOG_DEBUG, 0, cell_tag(c), "Cell %" PRIu64 " is %s.", c->number, cell_state_name(s));
        c->state = s;
}

static void cell_send(struct Cell *c, Glovebox__Internal__FromSpawner *m, const struct RunFds *fds) {
        if (!c->orphan)
                c->owner->send(c->owner->userdata, m, fds);
}

#define FROM_SPAWNER(case_, member_, value_)                                                            \
        &(Glovebox__Internal__FromSpawner) {                                                            \
                .base = PROTOBUF_C_MESSAGE_INIT(&glovebox__internal__from_spawner__descriptor),         \
                .message_case = GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_##case_, .member_ = (value_), \
        }

static void cell_begin_closing(struct Cell *c) {
        wait_stop(&c->ending);
        cell_set_state(c, CELL_CLOSING);
        c->kind->destroy(c);
}

static void cell_fail(struct Cell *c, int error, const char *step) {
        if (log_limit_pass(&c->world->complaints))
                log_event(LOG_WARNING, MESSAGE_CELL_FAILED, error, cell_tag(c), "Cell %" PRIu64 " failed at step \"%s\": %m", c->number, step);
        Glovebox__Internal__CellFailed m = GLOVEBOX__INTERNAL__CELL_FAILED__INIT;
        m.cell = c->id;
        m.step = (char *) step;
        m.error = -error;
        m.detail = strerror(-error);
        cell_send(c, FROM_SPAWNER(CELL_FAILED, cell_failed, &m), NULL);
        cell_begin_closing(c);
}

/* The numbers of glovebox.v1.Start. */
static uint32_t start_kind(const struct Cell *c, const struct RunFds *fds) {
        enum { COLD = 1, READY, WARM };
        bool runner = c->world->config->runtimes[c->runtime].runner; /* else only what becomes the program has waited */
        return fds->waited && runner ? WARM : c->pooled ? READY : COLD;
}

/* Behind the head the pipe has room for it. Never waiting all the same, since whoever reads is in the cell. */
static int write_job(struct Cell *c, const struct RunFds *fds) {
        uint8_t *job _cleanup_free_ = TAKE_PTR(c->job);
        int fd = -EBADF;
        for (size_t i = 0; i < fds->n; i++)
                if (fds->roles[i] == GLOVEBOX__INTERNAL__ROLE__ROLE_JOB)
                        fd = fds->fds[i];
        int r = job ? set_nonblock(fd, true) : 0;
        if (r < 0 || !job)
                return r;
        ssize_t n = write(fd, job, c->run.job_size);
        if (n < 0 && errno == EPIPE)
                return 0; /* it has ended, which is told */
        return n == (ssize_t) c->run.job_size ? 0 : n < 0 ? -errno : -EIO;
}

void cell_on_started(struct Cell *c, int error, const char *step, const struct RunFds *fds) {
        if (c->state != CELL_STARTING)
                return;
        if (error < 0) {
                cell_fail(c, error, step);
                return;
        }
        cell_set_state(c, CELL_RUNNING);
        Glovebox__Internal__RunStarted m = GLOVEBOX__INTERNAL__RUN_STARTED__INIT;
        m.cell = c->id;
        m.run = c->run.number;
        m.start = start_kind(c, fds);
        m.begun_usec = fds->begun;
        Glovebox__Internal__LeafUsage before = GLOVEBOX__INTERNAL__LEAF_USAGE__INIT;
        if (fds->waited) {
                const struct LeafUsage *u = &fds->before;
                before.cpu_user_usec = u->cpu_user;
                before.cpu_system_usec = u->cpu_system;
                before.read_bytes = u->read_bytes;
                before.written_bytes = u->written_bytes;
                before.cpu_stalled_usec = u->cpu_stalled;
                before.memory_stalled_usec = u->memory_stalled;
                before.io_stalled_usec = u->io_stalled;
                m.before = &before;
        }
        cell_send(c, FROM_SPAWNER(RUN_STARTED, run_started, &m), fds);
        trace("spawner: RunStarted");
        /* After it: who reads the job may be woken in our place. */
        error = write_job(c, fds);
        if (error < 0)
                cell_fail(c, error, "job");
}

static void cell_run_now(struct Cell *c) {
        struct RunFds fds = {};
        const char *step = "";
        trace("spawner: builder's answer");
        cell_set_state(c, CELL_STARTING);
        int r = c->kind->start(c, &c->run, &fds, &step);
        if (r <= 0)
                cell_on_started(c, r, step, &fds);
        for (size_t i = 0; i < fds.n; i++)
                close_fd(fds.fds[i]);
}

void cell_on_warm(struct Cell *c) {
        if (c->state == CELL_READY && c->owner->on_ready)
                c->owner->on_ready(c->owner->userdata, c);
}

void cell_on_spoiled(struct Cell *c, int error, const char *step) {
        if (c->state < CELL_CLOSING)
                cell_fail(c, error, step);
}

static bool ending_is_over(void *userdata) {
        struct Cell *c = userdata;
        return c->kind->is_over(c);
}

static void ending_on_over(int error, void *userdata) {
        struct Cell *c = userdata;
        if (error < 0) {
                cell_fail(c, error, "end the run");
                return;
        }
        struct CellUsage usage;
        if (c->kind->usage(c, &usage) >= 0)
                log_full(LOG_DEBUG, 0, cell_tag(c), "Run %" PRIu64 " of cell %" PRIu64 " used %" PRIu64 " us of cpu time.", c->run.number, c->number,
                         usage.cpu);
        c->kind->finish(c);
        c->has_run = false;
        cell_set_state(c, CELL_READY);
        Glovebox__Internal__RunEnded m = GLOVEBOX__INTERNAL__RUN_ENDED__INIT;
        m.cell = c->id;
        m.run = c->run.number;
        cell_send(c, FROM_SPAWNER(RUN_ENDED, run_ended, &m), NULL);
}

int cell_new(struct CellWorld *world, const struct CellSpec *spec, const struct CellOwner *owner, struct Cell **ret) {
        trace("");
        struct Cell *c = calloc(1, sizeof *c);
        if (!c)
                return -ENOMEM;
        *c = (struct Cell) {
                .world = world, .kind = spec->kind, .owner = owner, .id = spec->id, .number = ++world->last_number,
                .runtime = spec->runtime, .slice = spec->slice, .limits = spec->limits, .state = CELL_OPENING,
                .ending = {.is_over = ending_is_over, .on_over = ending_on_over, .userdata = c},
        };
        snprintf(c->tag, sizeof c->tag, "%s", spec->tag);
        int r = c->kind->prepare(c);
        if (r < 0) {
                cell_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

struct Cell *cell_free(struct Cell *c) {
        if (!c)
                return NULL;
        wait_stop(&c->ending);
        c->kind->done(c);
        free(c->job);
        free(c);
        return NULL;
}

void cell_on_prepared(struct Cell *c, int error, const char *step) {
        if (c->state != CELL_OPENING)
                return; /* closed in the meantime */
        if (error < 0) {
                cell_fail(c, error, step);
                return;
        }
        cell_set_state(c, CELL_READY);
        if (c->has_run)
                cell_run_now(c);
        else if (c->owner->on_ready)
                c->owner->on_ready(c->owner->userdata, c);
}

int cell_adopt(struct Cell *c, const struct CellSpec *spec, const struct CellOwner *owner) {
        int r = c->kind->adopt(c, &spec->limits);
        if (r < 0) {
                cell_fail(c, r, "limits of a ready cell");
                return r;
        }
        c->owner = owner;
        c->id = spec->id;
        c->limits = spec->limits;
        c->pooled = true;
        snprintf(c->tag, sizeof c->tag, "%s", spec->tag);
        if (cell_tag(c))
                log_step(MESSAGE_CELL_BEGUN, cell_tag(c), "Cell %" PRIu64 " was ready and is taken.", c->number);
        return 0;
}

/* The server has lost count of this cell: it fails alone, and the others go on. */
static void cell_confused(struct Cell *c, const char *message) {
        if (log_limit_pass(&c->world->complaints))
                log_full(LOG_ERR, 0, cell_tag(c), "The server sent %s for cell %" PRIu64 ", which is %s.", message, c->number,
                         cell_state_name(c->state));
        cell_fail(c, -EPROTO, message);
}

void cell_refuse_run(struct Cell *c, int error, const char *step) {
        if (c->state < CELL_CLOSING)
                cell_fail(c, error, step);
}

void cell_start_run(struct Cell *c, const struct RunSpec *run) {
        if (c->state >= CELL_CLOSING)
                return; /* the server does not know yet */
        if (c->has_run || (c->state != CELL_OPENING && c->state != CELL_READY)) {
                cell_confused(c, "StartRun");
                return;
        }
        c->has_run = true;
        c->told_full = c->told_exit = false;
        c->run = *run;
        c->run.job = NULL;
        free(c->job);
        c->job = run->job_size > 0 ? malloc(run->job_size) : NULL;
        if (run->job_size > 0 && !c->job) {
                cell_fail(c, -ENOMEM, "job");
                return;
        }
        if (c->job)
                memcpy(c->job, run->job, run->job_size);
        if (c->state == CELL_READY)
                cell_run_now(c);
}

void cell_end_run(struct Cell *c, uint64_t run) {
        if (c->state >= CELL_CLOSING)
                return;
        if (c->state != CELL_RUNNING || run != c->run.number) {
                cell_confused(c, "EndRun");
                return;
        }
        cell_set_state(c, CELL_ENDING);
        int r = 0;
        if (!c->kind->is_over(c)) {
                /* Frozen, a fork bomb dies at once instead of racing its killer. */
                r = c->kind->freeze(c, true);
                int q = c->kind->kill(c);
                r = q < 0 ? q : r;
        }
        if (r >= 0)
                r = wait_start(&c->ending, c->world->event, END_TIME);
        if (r < 0)
                cell_fail(c, r, "end the run");
}

static void tell_waiting(struct Cell *c, uint64_t run, const char *words) {
        Glovebox__Internal__WaitingFor m = GLOVEBOX__INTERNAL__WAITING_FOR__INIT;
        m.cell = c->id;
        m.run = run;
        m.what = (char *) words;
        cell_send(c, FROM_SPAWNER(WAITING_FOR, waiting_for, &m), NULL);
}

void cell_ask_waiting(struct Cell *c, uint64_t run) {
        if (c->state >= CELL_CLOSING)
                return;
        if (c->state == CELL_RUNNING && run == c->run.number)
                c->kind->ask_waiting(c);
        else
                tell_waiting(c, run, "");
}

void cell_on_waiting(struct Cell *c, const char *words) {
        if (c->state < CELL_CLOSING)
                tell_waiting(c, c->run.number, words);
}

void cell_main_over(struct Cell *c, uint64_t run, uint8_t status) {
        if (c->state >= CELL_CLOSING)
                return;
        if (c->state != CELL_RUNNING || run != c->run.number) {
                cell_confused(c, "MainOver");
                return;
        }
        int r = c->told_exit ? 0 : c->kind->main_over(c, status);
        if (r < 0)
                cell_fail(c, r, "end of the main process");
}

void cell_close(struct Cell *c) {
        if (c->state < CELL_CLOSING)
                cell_begin_closing(c);
}

void cell_on_main_exit(struct Cell *c, const struct MainExit *e) {
        if (e->init_died)
                cell_on_lost(c);
        if (c->told_exit || (c->state != CELL_RUNNING && c->state != CELL_ENDING))
                return;
        c->told_exit = true;
        Glovebox__Internal__MainExited m = GLOVEBOX__INTERNAL__MAIN_EXITED__INIT;
        m.cell = c->id;
        m.run = c->run.number;
        m.signaled = e->signaled;
        m.status = e->status;
        m.max_rss_bytes = e->max_rss_bytes;
        m.workspace_full = c->kind->is_full(c);
        cell_send(c, FROM_SPAWNER(MAIN_EXITED, main_exited, &m), NULL);
}

void cell_look_for_room(struct Cell *c) {
        if (c->state != CELL_RUNNING || c->told_full || !c->kind->is_full(c))
                return;
        c->told_full = true;
        Glovebox__Internal__WorkspaceFull m = GLOVEBOX__INTERNAL__WORKSPACE_FULL__INIT;
        m.cell = c->id;
        m.run = c->run.number;
        cell_send(c, FROM_SPAWNER(WORKSPACE_FULL, workspace_full, &m), NULL);
}

/* It stays until the server closes it: its run can still be ended in good order. */
void cell_on_lost(struct Cell *c) {
        if (c->lost || c->state >= CELL_CLOSING)
                return;
        c->lost = true;
        log_event(LOG_WARNING, MESSAGE_CELL_LOST, 0, cell_tag(c), "Cell %" PRIu64 " lost its init, which nobody here ended.", c->number);
        Glovebox__Internal__CellLost m = GLOVEBOX__INTERNAL__CELL_LOST__INIT;
        m.cell = c->id;
        cell_send(c, FROM_SPAWNER(CELL_LOST, cell_lost, &m), NULL);
}

void cell_on_destroyed(struct Cell *c, const char *left) {
        cell_set_state(c, CELL_CLOSED);
        if (!isempty(left))
                log_event(LOG_ERR, MESSAGE_CELL_LEFT, 0, cell_tag(c), "Cell %" PRIu64 " could not be removed, its uids stay unused: %s", c->number,
                          left);
        else if (cell_tag(c))
                log_step(MESSAGE_CELL_REMOVED, cell_tag(c), "Cell %" PRIu64 " is removed, with all its processes, cgroups and mounts.", c->number);
        Glovebox__Internal__CellClosed m = GLOVEBOX__INTERNAL__CELL_CLOSED__INIT;
        m.cell = c->id;
        m.left = (char *) left;
        cell_send(c, FROM_SPAWNER(CELL_CLOSED, cell_closed, &m), NULL);
        c->owner->on_closed(c->owner->userdata, c);
}
