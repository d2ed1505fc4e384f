/* One transient scope: from its leader to the moment when PID 1 has forgotten it.
 *
 * Rules that were paid for: a scope whose leader dies while PID 1 starts it can stay for ever, so the leader waits until the job has ended
 * and is looked for in the scope's folder; a folder that is gone is the only proof that a scope is empty, since signals of PID 1 get lost and
 * repeat; whatever PID 1 does not do in time is done without it, and it is told to stop the unit all the same. */
#include "spawner/limits/scope.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "common/log.h"
#include "spawner/limits/leaf.h"

/* Below the time that a server waits for its cell; above what PID 1 takes in a reload. */
#define MAKE_TIME (10 * USEC_PER_SEC)
/* PID 1 takes less than a millisecond to see that a scope is empty. */
#define LEAVE_TIME (250 * USEC_PER_MSEC)
#define STOP_TIME (2 * USEC_PER_SEC)
#define STOPS_MAX 30
#define REMOVE_PAUSE (100 * USEC_PER_MSEC)
#define REMOVALS_MAX 50

#define MAY(state) (1U << (state))

static const unsigned transitions[SCOPE_STATE_MAX_] = {
        [SCOPE_NEW] = MAY(SCOPE_WAITING) | MAY(SCOPE_GONE),
        [SCOPE_WAITING] = MAY(SCOPE_ASKED) | MAY(SCOPE_GONE),
        [SCOPE_ASKED] = MAY(SCOPE_WAITING) | MAY(SCOPE_SETTLING) | MAY(SCOPE_LEAVING) | MAY(SCOPE_STOPPING) | MAY(SCOPE_GONE),
        [SCOPE_SETTLING] = MAY(SCOPE_UP) | MAY(SCOPE_LEAVING),
        [SCOPE_UP] = MAY(SCOPE_LEAVING),
        [SCOPE_LEAVING] = MAY(SCOPE_STOPPING) | MAY(SCOPE_GONE),
        [SCOPE_STOPPING] = MAY(SCOPE_GONE),
};

bool scope_state_may(enum ScopeState from, enum ScopeState to) {
        return from < SCOPE_STATE_MAX_ && to < SCOPE_STATE_MAX_ && (transitions[from] & MAY(to));
}

static void scope_set_state(struct Scope *c, enum ScopeState state) {
        if (!scope_state_may(c->state, state)) {
                log_full(LOG_CRIT, 0, NULL, "Scope %s cannot go from state %d to %d.", c->name, c->state, state);
                abort(); /* a fault of ours: better no spawner than one that has lost count */
        }
        c->state = state;
}

static int scope_on_timer(sd_event_source *s, uint64_t usec, void *userdata);

static void scope_time(struct Scope *c, usec_t time) {
        c->timer = sd_event_source_disable_unref(c->timer);
        int r = sd_event_add_time_relative(c->owner->setup.event, &c->timer, CLOCK_MONOTONIC, time, 0, scope_on_timer, c);
        if (r < 0)
                sd_event_exit(c->owner->setup.event, log_error_errno(r, "Failed to set the deadline of a scope, giving up: %m"));
}

static bool folder_is_gone(const struct Scope *c) {
        return !*c->path || (faccessat(c->owner->setup.mount, c->path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT);
}

/* The leader. */

static void leader_signal(struct Scope *c) {
        if (c->leader_fd >= 0 && syscall(SYS_pidfd_send_signal, c->leader_fd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
                log_warning_errno(errno, "Failed to end the leader of %s: %m", c->name);
}

static bool leader_is_alive(const struct Scope *c) {
        struct pollfd p = {.fd = c->leader_fd, .events = POLLIN};
        return c->leader_fd >= 0 && poll(&p, 1, 0) == 0;
}

static void leader_end(struct Scope *c) {
        leader_signal(c);
        c->leader_source = sd_event_source_disable_unref(c->leader_source);
        c->leader_fd = close_fd(c->leader_fd);
}

static int scope_on_leader_exit(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct Scope *c = userdata;
        char leaf[JANITOR_PATH_MAX];
        leader_end(c);
        snprintf(leaf, sizeof leaf, "%s/%s", c->path, LEADER_LEAF);
        int r = janitor_remove(c->owner->setup.janitor, leaf, NULL, NULL);
        if (r < 0)
                log_warning_errno(r, "Failed to have the cgroup %s removed, it goes with its scope: %m", leaf);
        return 0;
}

void scope_settled(struct Scope *c) {
        if (c->state != SCOPE_UP || c->leader_source)
                return;
        leader_signal(c);
        /* The leaf can be removed once it has really gone. */
        if (sd_event_add_io(c->owner->setup.event, &c->leader_source, c->leader_fd, EPOLLIN, scope_on_leader_exit, c) < 0)
                leader_end(c); /* the leaf goes with the scope */
}

/* Its end. */

static void scope_free_if_over(struct Scope *c) {
        if (c->state == SCOPE_GONE && !c->userdata && !c->removing)
                scope_free(c);
}

static int scope_on_tell(sd_event_source *s, void *userdata) {
        struct Scope *c = userdata;
        scope_handler_t on_left = c->on_left;
        void *user = c->userdata;
        int left = c->left;
        c->tell = sd_event_source_disable_unref(c->tell);
        c->on_left = NULL;
        if (left >= 0)
                c->userdata = NULL;
        if (on_left && user)
                on_left(c, left, user);
        if (left >= 0)
                scope_free_if_over(c);
        return 0;
}

/* Later, since whoever waits may be the one who calls now. */
static void scope_tell_left(struct Scope *c, int error) {
        if (!c->on_left || c->tell)
                return;
        c->left = error;
        int r = sd_event_add_defer(c->owner->setup.event, &c->tell, scope_on_tell, c);
        if (r < 0)
                sd_event_exit(c->owner->setup.event, log_error_errno(r, "Failed to plan an answer, giving up: %m"));
}

static void scope_on_janitor(int error, void *userdata) {
        struct Scope *c = userdata;
        if (error < 0 && !c->userdata && c->state == SCOPE_GONE && c->removals++ < REMOVALS_MAX) {
                scope_time(c, REMOVE_PAUSE); /* nobody else asks again */
                return;
        }
        if (error < 0 && !c->userdata && c->state == SCOPE_GONE)
                log_warning_errno(error, "Failed to remove the cgroup %s, which is left behind: %m", c->path);
        c->removing = false;
        scope_tell_left(c, error);
        scope_free_if_over(c);
}

/* Without PID 1. */
static void scope_remove_folder(struct Scope *c) {
        if (c->removing)
                return;
        if (folder_is_gone(c)) {
                scope_tell_left(c, 0);
                return;
        }
        int r = c->dir >= 0 ? cgroup_kill(c->dir) : 0;
        if (r >= 0)
                r = janitor_remove(c->owner->setup.janitor, c->path, scope_on_janitor, c);
        c->removing = r >= 0;
        if (r < 0)
                scope_tell_left(c, r);
}

static void scope_gone(struct Scope *c) {
        c->timer = sd_event_source_disable_unref(c->timer);
        scopes_queue(c, QUEUED_NOWHERE);
        manager_forget(&c->call);
        scopes_landed(c->owner, &c->in_flight);
        scope_set_state(c, SCOPE_GONE);
        leader_end(c);
        scope_remove_folder(c);
        scope_free_if_over(c);
}

static void scope_stop(struct Scope *c) {
        if (c->state != SCOPE_STOPPING)
                scope_set_state(c, SCOPE_STOPPING);
        scope_time(c, STOP_TIME);
        scopes_queue(c, QUEUED_STOP);
        scopes_pump(c->owner);
}

static void scope_begin_leaving(struct Scope *c) {
        scope_set_state(c, SCOPE_LEAVING);
        leader_end(c);
        if (c->is_removed && folder_is_gone(c)) {
                scope_gone(c);
                return;
        }
        scope_time(c, LEAVE_TIME);
        if (folder_is_gone(c))
                scope_tell_left(c, 0);
}

int scope_leave(struct Scope *c, scope_handler_t on_left) {
        c->on_left = on_left;
        if (c->state == SCOPE_UP) {
                scope_begin_leaving(c);
        } else if (!*c->path || folder_is_gone(c)) {
                scope_tell_left(c, 0); /* no cell has ever been in it, or it has gone in the meantime */
        } else if (c->state == SCOPE_GONE || c->state == SCOPE_STOPPING) {
                scope_remove_folder(c); /* asked again */
        }
        return 0;
}

/* Whatever it is doing, it is not wanted. */
void scope_fail(struct Scope *c, int error, const char *why) {
        scope_handler_t on_up = c->on_up;
        void *user = c->userdata;
        if (c->given_up)
                return;
        c->given_up = true;
        c->on_up = NULL;
        if (error != -ECANCELED && log_limit_pass(&c->owner->complaints))
                log_warning_errno(error, "There is no scope %s (%s): %m", c->name, why);
        leaders_withdraw(c->owner->leaders, &c->wish);
        leader_end(c);
        if (c->state == SCOPE_NEW || c->state == SCOPE_WAITING)
                scope_gone(c);
        else if (c->state == SCOPE_SETTLING)
                scope_begin_leaving(c);
        else if (c->state == SCOPE_ASKED && c->answered)
                scopes_look_again(c->owner); /* PID 1 has it, and has not said what became of it */
        if (on_up && user)
                on_up(c, error, user);
}

void scope_forget(struct Scope *c) {
        c->on_up = c->on_left = NULL;
        c->tell = sd_event_source_disable_unref(c->tell);
        if (c->state < SCOPE_UP)
                scope_fail(c, -ECANCELED, "its cell has gone");
        else if (c->state == SCOPE_UP)
                scope_begin_leaving(c);
        c->userdata = NULL;
        scope_free_if_over(c);
}

struct Scope *scope_free(struct Scope *c) {
        if (!c)
                return NULL;
        LIST_REMOVE(c, entry);
        scopes_queue(c, QUEUED_NOWHERE);
        manager_forget(&c->call);
        scopes_landed(c->owner, &c->in_flight);
        leaders_withdraw(c->owner->leaders, &c->wish);
        leader_end(c);
        sd_event_source_disable_unref(c->timer);
        sd_event_source_disable_unref(c->tell);
        close_fd(c->dir);
        if (c->pool)
                c->pool->n_live--;
        free(c);
        return NULL;
}

/* Its beginning. */

static int scope_folder(struct Scope *c) {
        char file[64], text[4096];
        snprintf(file, sizeof file, "/proc/%d/cgroup", c->leader);
        _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = read_small(fd, text, sizeof text);
        int r = n < 0 ? (int) n : names_folder(text, c->name, c->path, sizeof c->path);
        if (r < 0)
                return r;
        /* Read before this question, so it was its folder and no other process's. */
        if (!leader_is_alive(c))
                return -ESRCH;
        c->dir = openat(c->owner->setup.mount, c->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return c->dir < 0 ? -errno : 0;
}

static void scope_on_wish(struct LeaderWish *w, int error, pid_t pid, int pidfd, unsigned controllers) {
        struct Scope *c = CONTAINER_OF(w, struct Scope, wish);
        if (error < 0) {
                scope_fail(c, error, c->state == SCOPE_NEW ? "its leader could not be made" : "its leader could not be moved");
                return;
        }
        if (c->state == SCOPE_NEW) {
                c->leader = pid;
                c->leader_fd = pidfd;
                scope_set_state(c, SCOPE_WAITING);
                scopes_queue(c, QUEUED_START);
                scopes_pump(c->owner);
                return;
        }
        scope_handler_t on_up = c->on_up;
        c->controllers = controllers;
        c->timer = sd_event_source_disable_unref(c->timer);
        scope_set_state(c, SCOPE_UP);
        c->on_up = NULL;
        on_up(c, 0, c->userdata);
}

static void scope_settle(struct Scope *c) {
        scopes_landed(c->owner, &c->in_flight);
        scope_set_state(c, SCOPE_SETTLING);
        int r = scope_folder(c);
        if (r < 0) {
                scope_fail(c, r, "its leader is not in it");
                return;
        }
        c->wish.pid = c->leader;
        c->wish.dir = c->dir;
        c->wish.controllers = c->owner->setup.controllers;
        leaders_ask(c->owner->leaders, &c->wish);
}

static void scope_on_start_answer(struct Scope *c, int answer, const char *words) {
        if (answer == 0) {
                c->answered = true; /* its job's end comes as a signal */
                if (c->given_up)
                        scopes_look_again(c->owner);
                return;
        }
        scopes_landed(c->owner, &c->in_flight);
        if (answer == MANAGER_LOST || (answer == MANAGER_EXISTS && c->retried)) {
                scopes_look_again(c->owner); /* scope_on_seen or scope_on_missing goes on */
                return;
        }
        if (log_limit_pass(&c->owner->complaints))
                log_warning("PID 1 refuses to start %s: %s", c->name, words);
        snprintf(c->owner->refusal, sizeof c->owner->refusal, "%s", words);
        scope_fail(c, answer > 0 ? -EEXIST : answer, "PID 1 refuses");
        scope_gone(c);
}

static void scope_on_stop_answer(struct Scope *c, int answer, const char *words) {
        scopes_landed(c->owner, &c->in_flight);
        if (answer == MANAGER_NOT_THERE) {
                scope_gone(c);
        } else if (answer != 0) {
                if (answer < 0)
                        log_warning_errno(answer, "PID 1 does not stop %s (%s): %m", c->name, words);
                scopes_look_again(c->owner);
        }
}

static void scope_on_answer(struct ManagerCall *call, int answer, const char *words) {
        struct Scope *c = CONTAINER_OF(call, struct Scope, call);
        struct Scopes *owner = c->owner;
        if (c->state == SCOPE_ASKED)
                scope_on_start_answer(c, answer, words);
        else if (c->state == SCOPE_STOPPING)
                scope_on_stop_answer(c, answer, words);
        scopes_pump(owner);
}

static int scope_ask(struct Scope *c) {
        const struct ScopesSetup *setup = &c->owner->setup;
        const struct UnitPlan plan = {
                .name = c->name,
                .description = c->description,
                .slice = c->pool->slice,
                .bound = c->owner->bound,
                .pid = c->leader,
                .is_delegated = true,
                .is_at_once = true,
                .ceilings = setup->ceilings,
        };
        /* Its number may be another process's by now, which PID 1 would move and in the end kill. */
        if (!leader_is_alive(c))
                return -ESRCH;
        c->asked_list = c->owner->lists;
        c->answered = false;
        return manager_start_unit(c->owner->manager, &c->call, &plan);
}

void scope_send(struct Scope *c) {
        bool starts = c->state == SCOPE_WAITING;
        scopes_queue(c, QUEUED_NOWHERE);
        manager_forget(&c->call); /* of its ceilings */
        c->call.on_answer = scope_on_answer;
        int r = starts ? scope_ask(c) : manager_stop_unit(c->owner->manager, &c->call, c->name);
        if (r == -ENOTCONN) {
                scopes_queue(c, starts ? QUEUED_START : QUEUED_STOP); /* until the connection is back */
        } else if (r >= 0) {
                c->in_flight = true;
                c->owner->in_flight++;
                c->stops += !starts;
                if (starts)
                        scope_set_state(c, SCOPE_ASKED);
        } else if (starts) {
                scope_fail(c, r, "PID 1 could not be asked");
        } /* else its timer has it asked again */
}

void scope_on_job(struct Scope *c, const char *result) {
        if (c->state != SCOPE_ASKED)
                return;
        manager_forget(&c->call); /* the job's end says more than the answer, in whatever order they come */
        scopes_landed(c->owner, &c->in_flight);
        if (c->given_up) {
                scope_stop(c); /* too late: its cell has failed */
        } else if (streq(result, "done")) {
                scope_settle(c);
        } else {
                if (log_limit_pass(&c->owner->complaints))
                        log_warning("The job that starts %s ended with \"%s\".", c->name, result);
                scope_fail(c, -EIO, "its job failed");
                scope_begin_leaving(c);
        }
}

void scope_on_removed(struct Scope *c) {
        /* One that is up has had its processes killed, by us or by others: whoever has it learns so from them. */
        if (c->state == SCOPE_LEAVING || c->state == SCOPE_STOPPING)
                scope_gone(c);
        else if (c->state == SCOPE_UP)
                c->is_removed = true;
}

void scope_on_seen(struct Scope *c, bool is_active, bool is_settled) {
        if (c->state == SCOPE_STOPPING && is_settled && !c->in_flight && !c->queued)
                scope_stop(c);
        if (c->state != SCOPE_ASKED || c->call.slot || !is_settled)
                return;
        scope_on_job(c, is_active ? "done" : "lost");
}

void scope_on_missing(struct Scope *c) {
        if (c->state == SCOPE_LEAVING || c->state == SCOPE_STOPPING) {
                scope_gone(c);
        } else if (c->state == SCOPE_UP) {
                c->is_removed = true;
        } else if (c->state == SCOPE_ASKED && !c->call.slot) {
                scopes_landed(c->owner, &c->in_flight);
                if (c->given_up || c->answered) {
                        scope_fail(c, -EIO, "it came and went");
                        scope_gone(c);
                        return;
                }
                /* The call was lost before PID 1 had it. Names are unique, so asking twice cannot make two. */
                c->retried = true;
                scope_set_state(c, SCOPE_WAITING);
                scopes_queue(c, QUEUED_START);
        }
}

static int scope_on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Scope *c = userdata;
        if (c->state < SCOPE_UP) {
                scope_fail(c, -ETIMEDOUT, manager_is_ready(c->owner->manager) ? "PID 1 is late" : "no connection with the system bus");
        } else if (c->state == SCOPE_LEAVING) {
                if (folder_is_gone(c))
                        scope_tell_left(c, 0);
                if (manager_is_reloading(c->owner->manager))
                        scope_time(c, LEAVE_TIME);
                else
                        scope_stop(c);
        } else if (c->state == SCOPE_STOPPING) {
                scope_remove_folder(c);
                if (c->stops >= STOPS_MAX) {
                        log_error("PID 1 does not stop %s, which is empty; it is left to it.", c->name);
                        scope_gone(c);
                        return 0;
                }
                scope_time(c, STOP_TIME);
                scopes_look_again(c->owner);
        } else if (c->state == SCOPE_GONE) {
                c->removing = false;
                scope_remove_folder(c);
                scope_free_if_over(c);
        }
        return 0;
}

static struct Scope *scope_alloc(struct Scopes *s, enum ScopeState state) {
        struct Scope *c = calloc(1, sizeof *c);
        if (!c)
                return NULL;
        *c = (struct Scope) {.owner = s, .state = state, .dir = -EBADF, .leader_fd = -EBADF, .wish.on_done = scope_on_wish, .asked_list = s->lists};
        LIST_INSERT_HEAD(&s->all, c, entry);
        return c;
}

int scope_new(struct Scopes *s, const char *group, const char *description, scope_handler_t on_up, void *userdata, struct Scope **ret) {
        struct Pool *pool;
        int r = scopes_pool(s, group, &pool);
        if (r < 0)
                return r;
        struct Scope *c = scope_alloc(s, SCOPE_NEW);
        if (!c)
                return -ENOMEM;
        c->pool = pool;
        pool->n_live++;
        c->number = ++s->last_number;
        c->on_up = on_up;
        c->userdata = userdata;
        names_scope(s->setup.names, c->number, c->name);
        snprintf(c->description, sizeof c->description, "%s", description);
        scope_time(c, MAKE_TIME);
        leaders_ask(s->leaders, &c->wish);
        *ret = c;
        return 0;
}

int scope_adopt(struct Scopes *s, const char *name) {
        struct Scope *c = scope_alloc(s, SCOPE_LEAVING);
        if (!c)
                return -ENOMEM;
        snprintf(c->name, sizeof c->name, "%s", name);
        c->number = names_number(s->setup.names, name);
        c->given_up = true;
        c->seen = true;
        scope_stop(c);
        return 0;
}
