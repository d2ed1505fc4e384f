/* One cell for one execution, from the spawner. */
#include "server/lease/lease.h"

#include <stdio.h>

#include "common/log.h"

#define CLOSE_DEADLINE (20 * USEC_PER_SEC)
#define THE_RUN 1 /* a cell serves one run; sessions will count on */

struct Lease {
        struct Link *link;
        struct Lease *next;
        uint64_t cell;
        usec_t asked; /* CLOCK_MONOTONIC: no run of it began before */
        bool closing, failed;
        int fds[LEASE_ROLES];
        sd_event_source *deadline; /* of closing */
        struct LeaseCallbacks callbacks;
        void *userdata;
};

struct Lease *lease_next(struct Lease *l) {
        return l->next;
}

uint64_t lease_cell(const struct Lease *l) {
        return l->cell;
}

static void lease_unlink(struct Lease *l) {
        for (struct Lease **p = &l->link->leases[l->cell % LINK_BUCKETS]; *p; p = &(*p)->next)
                if (*p == l) {
                        *p = l->next;
                        return;
                }
}

static struct Lease *lease_free(struct Lease *l) {
        if (!l)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(l->fds); i++)
                l->fds[i] = close_fd(l->fds[i]);
        sd_event_source_disable_unref(l->deadline);
        free(l);
        return NULL;
}
DEFINE_CLEANUP(struct Lease *, lease_free)

/* The end of every lease. */
static void lease_closed(struct Lease *l, const char *left) {
        struct LeaseCallbacks callbacks = l->callbacks;
        void *userdata = l->userdata;

        lease_unlink(l);
        lease_free(l);
        callbacks.on_closed(left, userdata);
}

static void lease_failed(struct Lease *l, const char *step, int error, const char *detail) {
        struct LeaseFailure failure = { .error = error };

        if (l->failed || l->closing)
                return;
        l->failed = true;
        (void) snprintf(failure.step, sizeof failure.step, "%s", step);
        (void) snprintf(failure.detail, sizeof failure.detail, "%s", strempty(detail));
        l->callbacks.on_failed(&failure, l->userdata);
}

static void fill_limits(Glovebox__Internal__CellLimits *m, const struct Limits *limits) {
        m->memory_bytes = limits->memory_bytes;
        m->cpus = limits->cpus;
        m->max_processes = (uint32_t) limits->max_processes;
        m->workspace_bytes = limits->workspace_bytes;
        m->workspace_inodes = (uint32_t) limits->workspace_inodes;
}

static int send_open(struct Lease *l, const struct LeaseRequest *request) {
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__OpenCell open = GLOVEBOX__INTERNAL__OPEN_CELL__INIT;
        Glovebox__Internal__StartRun start = GLOVEBOX__INTERNAL__START_RUN__INIT;
        Glovebox__Internal__CellLimits limits = GLOVEBOX__INTERNAL__CELL_LIMITS__INIT;

        fill_limits(&limits, &request->limits);
        open.cell = start.cell = l->cell;
        open.runtime = (char *) request->runtime;
        open.tag = (char *) request->tag;
        open.slice = (char *) strempty(request->slice);
        open.limits = start.limits = &limits;
        start.run = THE_RUN;
        start.merge_streams = request->merge_streams;
        start.probe_version = request->probe_version;
        start.fresh = request->fresh;
        start.job = (ProtobufCBinaryData) { .data = (uint8_t *) request->job, .len = request->job_size };
        open.run = &start;
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_OPEN_CELL;
        m.open_cell = &open;
        return link_send(l->link, &m);
}

int lease_new(struct Link *link, const struct LeaseRequest *request, const struct LeaseCallbacks *callbacks, void *userdata, struct Lease **ret) {
        struct Lease *l _cleanup_(lease_freep) = NULL;

        if (!link->ready)
                return -ENOTCONN;
        l = calloc(1, sizeof *l);
        if (!l)
                return -ENOMEM;
        *l = (struct Lease) { .link = link, .cell = ++link->last_cell, .asked = now_monotonic(), .callbacks = *callbacks, .userdata = userdata };
        for (size_t i = 0; i < ELEMENTSOF(l->fds); i++)
                l->fds[i] = -EBADF;
        int r = send_open(l, request);
        if (r < 0)
                return r;
        l->next = link->leases[l->cell % LINK_BUCKETS];
        link->leases[l->cell % LINK_BUCKETS] = l;
        *ret = TAKE_PTR(l);
        return 0;
}

int lease_take_fd(struct Lease *l, Glovebox__Internal__Role role) {
        return TAKE_FD(l->fds[role]);
}

static void take_fds(struct Lease *l, const Glovebox__Internal__FromSpawner *m, struct WirePacket *packet) {
        for (size_t i = 0; i < m->n_roles && i < packet->n_fds; i++) {
                unsigned role = (unsigned) m->roles[i];
                if (role < LEASE_ROLES && l->fds[role] < 0)
                        l->fds[role] = TAKE_FD(packet->fds[i]);
        }
}

static bool has_required_fds(const struct Lease *l) {
        static const Glovebox__Internal__Role required[] = {
                GLOVEBOX__INTERNAL__ROLE__ROLE_JOB,           GLOVEBOX__INTERNAL__ROLE__ROLE_STDIN,         GLOVEBOX__INTERNAL__ROLE__ROLE_STDOUT,
                GLOVEBOX__INTERNAL__ROLE__ROLE_REPORT,
                GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_FREEZE, GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_EVENTS,
                GLOVEBOX__INTERNAL__ROLE__ROLE_CGROUP_PROCS, GLOVEBOX__INTERNAL__ROLE__ROLE_CPU_STAT,
        };
        for (size_t i = 0; i < ELEMENTSOF(required); i++)
                if (l->fds[required[i]] < 0)
                        return false;
        return true;
}

static void lease_started(struct Lease *l, const Glovebox__Internal__RunStarted *m) {
        const Glovebox__Internal__LeafUsage *b = m->before;
        /* What is not between is no time at all. */
        usec_t now = now_monotonic();
        struct LeaseStart start = {.kind = m->start, .begun = m->begun_usec >= l->asked ? MIN(m->begun_usec, now) : now};

        if (b)
                start.before = (struct LeafUsage) {
                        .cpu_user = b->cpu_user_usec, .cpu_system = b->cpu_system_usec, .read_bytes = b->read_bytes,
                        .written_bytes = b->written_bytes,
                        .cpu_stalled = b->cpu_stalled_usec, .memory_stalled = b->memory_stalled_usec, .io_stalled = b->io_stalled_usec,
                };
        l->callbacks.on_started(&start, l->userdata);
}

void lease_on_message(struct Lease *l, const Glovebox__Internal__FromSpawner *m, struct WirePacket *packet) {
        if (m->message_case == GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_CLOSED) {
                if (!l->closing)
                        lease_failed(l, "cell", 0, "the spawner closed the cell");
                l->closing = true;
                lease_closed(l, m->cell_closed->left);
                return;
        }
        if (l->closing)
                return;
        switch (m->message_case) {
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_RUN_STARTED:
                take_fds(l, m, packet);
                if (!has_required_fds(l))
                        lease_failed(l, "descriptors", 0, "some did not arrive; the server may have too few left: raise its limit of open files");
                else
                        lease_started(l, m->run_started);
                return;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_FAILED:
                lease_failed(l, m->cell_failed->step, m->cell_failed->error, m->cell_failed->detail);
                return;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_WORKSPACE_FULL:
                l->callbacks.on_full(l->userdata);
                return;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_MAIN_EXITED:
                if (m->main_exited->workspace_full)
                        l->callbacks.on_full(l->userdata);
                l->callbacks.on_exited(m->main_exited->signaled, m->main_exited->status, m->main_exited->max_rss_bytes, l->userdata);
                return;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_WAITING_FOR:
                l->callbacks.on_waiting_for(m->waiting_for->what, l->userdata);
                return;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_RUN_ENDED:
                l->callbacks.on_ended(l->userdata);
                return;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_LOST:
                lease_failed(l, "init", 0, "the first process of the cell was killed from outside");
                return;
        default:
                return;
        }
}

void lease_on_link_lost(struct Lease *l) {
        lease_failed(l, "spawner", 0, "the spawner ended");
        lease_closed(l, NULL);
}

int lease_ask_waiting(struct Lease *l) {
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__AskWaiting ask = GLOVEBOX__INTERNAL__ASK_WAITING__INIT;

        ask.cell = l->cell;
        ask.run = THE_RUN;
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_ASK_WAITING;
        m.ask_waiting = &ask;
        return link_send(l->link, &m);
}

int lease_main_over(struct Lease *l, uint8_t status) {
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__MainOver over = GLOVEBOX__INTERNAL__MAIN_OVER__INIT;

        over.cell = l->cell;
        over.run = THE_RUN;
        over.status = status;
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_MAIN_OVER;
        m.main_over = &over;
        return link_send(l->link, &m);
}

int lease_end(struct Lease *l) {
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__EndRun end = GLOVEBOX__INTERNAL__END_RUN__INIT;

        end.cell = l->cell;
        end.run = THE_RUN;
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_END_RUN;
        m.end_run = &end;
        return link_send(l->link, &m);
}

static int lease_on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        lease_closed(userdata, "the spawner did not say that the cell is gone");
        return 0;
}

void lease_close(struct Lease *l) {
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__CloseCell close_cell = GLOVEBOX__INTERNAL__CLOSE_CELL__INIT;

        if (l->closing)
                return;
        l->closing = true;
        close_cell.cell = l->cell;
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_CLOSE_CELL;
        m.close_cell = &close_cell;
        int r = link_send(l->link, &m);
        if (r < 0 && r != -ENOTCONN)
                log_warning_errno(r, "Failed to give a cell back: %m");
        r = sd_event_add_time_relative(l->link->event, &l->deadline, CLOCK_MONOTONIC, CLOSE_DEADLINE, 0, lease_on_deadline, l);
        if (r < 0 && r != -ESTALE) /* the loop is over: nobody waits any more */
                log_error_errno(r, "Failed to set a deadline: %m");
}
