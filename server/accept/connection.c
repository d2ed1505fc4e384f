/* Identity of connections: descriptor numbers of our own, a table by number, and quarantine before a number means someone else. */
#include "server/accept/connection.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "common/log.h"

#define QUARANTINE (2 * USEC_PER_SEC)
#define FIRST_CALL_DEADLINE (10 * USEC_PER_SEC)
#define SWEEP_INTERVAL USEC_PER_SEC
#define TRIM_INTERVAL (10 * USEC_PER_SEC)
#define COMPLAINT_INTERVAL (10 * USEC_PER_SEC)
#define TOP_NUMBER 65536

struct Connections {
        struct Accept *accept;
        grpc_server_credentials *credentials;
        struct Connection *first;
        struct Connection **by_number; /* of fd - base */
        int base;
        size_t n_numbers, next_number, n_open;
        sd_event_source *sweep; /* enabled while there are connections */
        usec_t swept_at, complained_at, trimmed_at;
        bool trim; /* a connection has closed since memory was given back */
        uint64_t n_complaints;
};

/* Upper half of what the process may open: everything else takes the lowest free number. */
static void connections_choose_numbers(struct Connections *cs) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                limit = (struct rlimit) {1024, 1024};
        if (limit.rlim_cur < limit.rlim_max) {
                rlim_t before = limit.rlim_cur;

                limit.rlim_cur = limit.rlim_max < TOP_NUMBER ? limit.rlim_max : MAX(before, (rlim_t) TOP_NUMBER);
                if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                        limit.rlim_cur = before;
        }
        /* Not the highest that is allowed: the kernel's table grows with the largest number in use. */
        limit.rlim_cur = MIN(limit.rlim_cur, (rlim_t) TOP_NUMBER);
        cs->n_numbers = (size_t) limit.rlim_cur / 2;
        cs->base = (int) (limit.rlim_cur - cs->n_numbers);
}

static uint64_t inode_of(int fd) {
        struct stat st;

        return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

/* Not for each: whoever makes trouble could fill the log. */
static void connections_complain(struct Connections *cs, const struct Caller *caller, const char *why) {
        usec_t now = now_monotonic();

        cs->n_complaints++;
        if (now - cs->complained_at < COMPLAINT_INTERVAL)
                return;
        cs->complained_at = now;
        (void) log_event(LOG_WARNING, MESSAGE_CONNECTION_CLOSED, 0, NULL, "Closed a connection of %s: %s (%llu closed like this so far)", caller->name,
                         why, (unsigned long long) cs->n_complaints);
}

static void connection_free(struct Connection *c) {
        guard_free(c->guard);
        account_unref(c->account);
        free(c);
}

/* Notices that gRPC has closed it; puts an end to one that never calls. */
static void connections_look_after(struct Connections *cs, struct Connection *c) {
        if (c->closed)
                return;
        if (inode_of(c->fd) != c->inode) {
                c->closed = true;
                c->reusable = cs->swept_at + QUARANTINE;
                cs->n_open--;
                cs->trim = true;
                if (guard_has_cut(c->guard))
                        connections_complain(cs, &c->caller, "it opened calls or sent frames faster than any honest client");
        } else if (!c->called && cs->swept_at - c->since > FIRST_CALL_DEADLINE)
                connection_shut(c);
}

static void connections_sweep(struct Connections *cs) {
        usec_t now = now_monotonic();

        cs->swept_at = now;
        for (struct Connection **at = &cs->first; *at;) {
                struct Connection *c = *at;

                connections_look_after(cs, c);
                if (c->closed && c->n_calls == 0 && now >= c->reusable) {
                        *at = c->next;
                        cs->by_number[c->fd - cs->base] = NULL;
                        connection_free(c);
                } else
                        at = &c->next;
        }
}

/* What a peer made gRPC allocate shall not stay with us after the peer has gone. */
static void connections_trim(struct Connections *cs) {
        if (!cs->trim || (cs->first && cs->swept_at - cs->trimmed_at < TRIM_INTERVAL))
                return;
        cs->trim = false;
        cs->trimmed_at = cs->swept_at;
        (void) malloc_trim(0);
}

static int connections_on_sweep(sd_event_source *source, uint64_t at, void *userdata) {
        struct Connections *cs = userdata;

        connections_sweep(cs);
        connections_trim(cs);
        if (!cs->first)
                return 0;
        (void) sd_event_source_set_time_relative(source, SWEEP_INTERVAL);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int connections_new(struct Accept *a, struct Connections **ret) {
        struct Connections *cs = calloc(1, sizeof(*cs));
        int r;

        if (!cs)
                return -ENOMEM;
        cs->accept = a;
        connections_choose_numbers(cs);
        cs->by_number = calloc(cs->n_numbers, sizeof(struct Connection *));
        r = cs->by_number ? 0 : -ENOMEM;
        if (r == 0)
                r = sd_event_add_time_relative(a->event, &cs->sweep, CLOCK_MONOTONIC, SWEEP_INTERVAL, 100 * USEC_PER_MSEC,
                                               connections_on_sweep, cs);
        if (r >= 0)
                r = sd_event_source_set_enabled(cs->sweep, SD_EVENT_OFF);
        if (r < 0) {
                connections_free(cs);
                return r;
        }
        cs->credentials = grpc_insecure_server_credentials_create();
        *ret = cs;
        return 0;
}

struct Connections *connections_free(struct Connections *cs) {
        if (!cs)
                return NULL;
        while (cs->first) {
                struct Connection *c = cs->first;

                cs->first = c->next;
                connection_free(c);
        }
        sd_event_source_disable_unref(cs->sweep);
        if (cs->credentials)
                grpc_server_credentials_release(cs->credentials);
        free(cs->by_number);
        free(cs);
        return NULL;
}

bool connections_full(struct Connections *cs, size_t others) {
        uint64_t max = cs->accept->config->max_connections;

        if (cs->n_open + others >= max && now_monotonic() - cs->swept_at > 100 * USEC_PER_MSEC)
                connections_sweep(cs);
        return cs->n_open + others >= max;
}

static size_t connections_of(const struct Connections *cs, const struct Caller *caller) {
        size_t n = 0;

        for (const struct Connection *c = cs->first; c; c = c->next)
                n += !c->closed && streq(c->caller.name, caller->name);
        return n;
}

static int connections_turn_away(struct Connections *cs, const struct Caller *caller, const char *bound) {
        connections_complain(cs, caller, bound);
        return -EBUSY;
}

static int connections_check_bounds(struct Connections *cs, const struct Caller *caller) {
        uint64_t max = cs->accept->config->max_connections_per_caller;

        if (connections_full(cs, 0))
                return connections_turn_away(cs, caller, "max-connections is reached");
        if (connections_of(cs, caller) >= max) {
                connections_sweep(cs);
                if (connections_of(cs, caller) >= max)
                        return connections_turn_away(cs, caller, "max-connections-per-caller is reached");
        }
        return 0;
}

/* The next number that is nobody's; a number that some other part of the process holds is passed over. */
static int connections_take_number(struct Connections *cs, int fd) {
        for (size_t tries = 0; tries < cs->n_numbers; tries++) {
                size_t number = cs->next_number;
                int copy;

                cs->next_number = (cs->next_number + 1) % cs->n_numbers;
                if (cs->by_number[number])
                        continue;
                copy = fcntl(fd, F_DUPFD_CLOEXEC, cs->base + (int) number);
                if (copy < 0) /* EINVAL: the limit was lowered below our numbers */
                        return errno == EINVAL ? -EMFILE : -errno;
                if (copy == cs->base + (int) number)
                        return copy;
                (void) close_fd(copy);
        }
        return -EMFILE;
}

static struct Account *connections_account_of(const struct Connections *cs, const struct Caller *caller) {
        for (const struct Connection *c = cs->first; c; c = c->next)
                if (streq(c->caller.name, caller->name))
                        return account_ref(c->account);
        return account_new();
}

static int connection_new(struct Connections *cs, int fd, const struct Caller *caller, struct Connection **ret) {
        struct Connection *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        c->account = connections_account_of(cs, caller);
        c->fd = r = c->account ? connections_take_number(cs, fd) : -ENOMEM;
        if (r >= 0)
                r = guard_new(c->fd, c->account, &c->guard);
        if (r < 0) {
                (void) close_fd(c->fd);
                connection_free(c);
                return r;
        }
        c->inode = inode_of(c->fd);
        c->caller = *caller;
        c->since = now_monotonic();
        *ret = c;
        return 0;
}

int connections_add(struct Connections *cs, int fd, const struct Caller *caller) {
        int low _cleanup_close_ = fd, r;
        struct Connection *c;

        if (cs->accept->stopping)
                return -ESHUTDOWN;
        r = connections_check_bounds(cs, caller);
        if (r < 0)
                return r;
        r = connection_new(cs, low, caller, &c);
        if (r < 0)
                return r;
        c->next = cs->first;
        cs->first = c;
        cs->by_number[c->fd - cs->base] = c;
        cs->n_open++;
        (void) set_nonblock(c->fd, true);
        grpc_server_add_channel_from_fd(cs->accept->server, c->fd, cs->credentials);
        if (sd_event_source_get_enabled(cs->sweep, NULL) <= 0) {
                (void) sd_event_source_set_time_relative(cs->sweep, SWEEP_INTERVAL);
                (void) sd_event_source_set_enabled(cs->sweep, SD_EVENT_ONESHOT);
        }
        return 0;
}

struct Connection *connections_enter(struct Connections *cs, grpc_call *call) {
        char *peer = grpc_call_get_peer(call);
        struct Connection *c = NULL;
        int fd;

        if (peer && sscanf(peer, "fd:%d", &fd) == 1 && fd >= cs->base && (size_t) (fd - cs->base) < cs->n_numbers)
                c = cs->by_number[fd - cs->base];
        gpr_free(peer);
        /* A library that reads in another way would leave us without guard: then better without calls. */
        if (c && !guard_has_seen(c->guard)) {
                log_error("gRPC does not read by recvmsg(): this build of the library is not supported");
                return NULL;
        }
        if (c) {
                c->n_calls++;
                c->called = true;
        }
        return c;
}

void connection_leave(struct Connection *c) {
        c->n_calls--;
        if (c->closed)
                c->reusable = MAX(c->reusable, now_monotonic() + QUARANTINE);
}

/* The number can be nobody else's meanwhile: we alone give out numbers of this range. */
void connection_shut(struct Connection *c) {
        if (!c->closed && inode_of(c->fd) == c->inode)
                (void) shutdown(c->fd, SHUT_RDWR);
}
