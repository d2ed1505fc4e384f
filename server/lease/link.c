/* The connection to the spawner. */
#include "server/lease/link.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/log.h"
#include "common/wire.h"
#include "server/lease/lease.h"

#define RETRY_MIN (50 * USEC_PER_MSEC)
#define RETRY_MAX (1 * USEC_PER_SEC)
#define HELLO_DEADLINE (5 * USEC_PER_SEC)
#define PENDING_MAX 16384

struct Pending {
        struct Pending *next;
        size_t size;
        uint8_t bytes[];
};

static int link_connect(struct Link *l);

static void info_done(struct SpawnerInfo *i) {
        free(i->driver);
        strv_free(i->limits_not_enforced);
        for (size_t k = 0; k < i->n_layers; k++) {
                free(i->layers[k].name);
                free(i->layers[k].detail);
        }
        for (size_t k = 0; k < i->n_runtimes; k++) {
                free(i->runtimes[k].name);
                free(i->runtimes[k].detail);
        }
        free(i->layers);
        free(i->runtimes);
        *i = (struct SpawnerInfo) {};
}

static void set_timer(struct Link *l, usec_t in) {
        (void) sd_event_source_set_time(l->timer, now_monotonic() + in);
        (void) sd_event_source_set_enabled(l->timer, SD_EVENT_ONESHOT);
}

static void drop_pending(struct Link *l) {
        while (l->pending) {
                struct Pending *p = l->pending;
                l->pending = p->next;
                free(p);
        }
        l->pending_end = &l->pending;
        l->n_pending = 0;
}

/* The connection is gone: every cell of it is, too. */
static void link_lost(struct Link *l, const char *why) {
        bool was_ready = l->ready;

        l->io = sd_event_source_disable_unref(l->io);
        l->fd = close_fd(l->fd);
        l->ready = l->broken = false;
        drop_pending(l);
        info_done(&l->info);
        if (was_ready)
                (void) log_event(LOG_WARNING, MESSAGE_SPAWNER_LOST, 0, NULL, "The connection to the spawner is gone (%s); trying to reach it again", why);
        set_timer(l, l->retry);
        l->retry = MIN(l->retry * 2, (usec_t) RETRY_MAX);
        for (size_t i = 0; i < LINK_BUCKETS; i++)
                while (l->leases[i])
                        lease_on_link_lost(l->leases[i]);
        if (was_ready)
                l->on_change(l->userdata);
}

static int info_take(struct SpawnerInfo *i, const Glovebox__Internal__HelloReply *m) {
        i->driver = strdup(m->cgroup_driver);
        i->layers = calloc(MAX(m->n_layers, (size_t) 1), sizeof *i->layers);
        i->runtimes = calloc(MAX(m->n_runtimes, (size_t) 1), sizeof *i->runtimes);
        i->max_cells = m->max_cells;
        if (!i->driver || !i->layers || !i->runtimes)
                return -ENOMEM;
        for (size_t k = 0; k < m->n_limits_not_enforced; k++) {
                int r = strv_extend(&i->limits_not_enforced, m->limits_not_enforced[k]);
                if (r < 0)
                        return r;
        }
        for (; i->n_layers < m->n_layers; i->n_layers++) {
                const Glovebox__Internal__Layer *layer = m->layers[i->n_layers];
                i->layers[i->n_layers] = (struct SpawnerLayer) { strdup(layer->name), strdup(layer->detail), layer->in_force };
        }
        for (; i->n_runtimes < m->n_runtimes; i->n_runtimes++) {
                const Glovebox__Internal__RuntimeState *r = m->runtimes[i->n_runtimes];
                i->runtimes[i->n_runtimes] = (struct SpawnerRuntime) { strdup(r->name), strdup(r->detail), r->available };
        }
        return 0;
}

static void link_on_hello(struct Link *l, const Glovebox__Internal__HelloReply *m) {
        if (l->ready)
                return;
        if (m->protocol != WIRE_PROTOCOL || info_take(&l->info, m) < 0) {
                link_lost(l, "it speaks another version of the protocol");
                return;
        }
        l->ready = true;
        l->retry = RETRY_MIN;
        (void) sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
        log_info("Connected to the spawner %s, cgroup driver %s", m->version, m->cgroup_driver);
        l->on_change(l->userdata);
}

static uint64_t cell_of(const Glovebox__Internal__FromSpawner *m) {
        switch (m->message_case) {
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_RUN_STARTED:
                return m->run_started->cell;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_FAILED:
                return m->cell_failed->cell;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_MAIN_EXITED:
                return m->main_exited->cell;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_WORKSPACE_FULL:
                return m->workspace_full->cell;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_WAITING_FOR:
                return m->waiting_for->cell;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_RUN_ENDED:
                return m->run_ended->cell;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_CLOSED:
                return m->cell_closed->cell;
        case GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_CELL_LOST:
                return m->cell_lost->cell;
        default:
                return 0;
        }
}

static void link_dispatch(struct Link *l, const Glovebox__Internal__FromSpawner *m, struct WirePacket *packet) {
        if (m->message_case == GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_HELLO_REPLY) {
                link_on_hello(l, m->hello_reply);
                return;
        }
        uint64_t cell = cell_of(m);
        for (struct Lease *lease = l->leases[cell % LINK_BUCKETS]; lease; lease = lease_next(lease))
                if (lease_cell(lease) == cell) {
                        lease_on_message(lease, m, packet);
                        return;
                }
}

/* 1 = one message was handled. */
static int link_receive(struct Link *l) {
        static struct WirePacket packet; /* 64 KiB; one thread receives */
        int r = wire_receive(l->fd, &packet);

        if (r == -EAGAIN || r == -EINTR)
                return 0;
        if (r <= 0) {
                link_lost(l, r == 0 ? "it has closed it" : strerror(-r));
                return 0;
        }
        ProtobufCMessage *m = wire_unpack(&glovebox__internal__from_spawner__descriptor, packet.bytes, packet.size);
        if (!m) {
                wire_packet_done(&packet);
                link_lost(l, "it sent a malformed message");
                return 0;
        }
        link_dispatch(l, (const Glovebox__Internal__FromSpawner *) m, &packet);
        wire_packet_done(&packet);
        protobuf_c_message_free_unpacked(m, NULL);
        return 1;
}

static void link_flush(struct Link *l) {
        while (l->pending) {
                struct Pending *p = l->pending;
                ssize_t n = send(l->fd, p->bytes, p->size, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0)
                        return; /* full, or gone: then reading tells */
                l->pending = p->next;
                if (!l->pending)
                        l->pending_end = &l->pending;
                l->n_pending--;
                free(p);
        }
        (void) sd_event_source_set_io_events(l->io, EPOLLIN);
}

static int link_on_io(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct Link *l = userdata;

        if (events & EPOLLOUT)
                link_flush(l);
        for (int i = 0; i < 64 && l->fd >= 0; i++)
                if (link_receive(l) == 0)
                        break;
        return 0;
}

static int link_on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct Link *l = userdata;

        if (l->fd >= 0)
                link_lost(l, l->broken ? "a message could not be sent" : "it did not answer the greeting");
        else if (link_connect(l) < 0) {
                set_timer(l, l->retry);
                l->retry = MIN(l->retry * 2, (usec_t) RETRY_MAX);
        }
        return 0;
}

/* What is sent holds what callers entrusted to us: only to root's process (or, for tests, one of our own user). */
static bool is_spawner(int fd) {
        struct ucred peer;
        socklen_t size = sizeof peer;

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static int link_connect(struct Link *l) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd _cleanup_close_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        if (snprintf(address.sun_path, sizeof address.sun_path, "%s", l->path) >= (int) sizeof address.sun_path)
                return -ENAMETOOLONG;
        if (connect(fd, (struct sockaddr *) &address, sizeof address) < 0)
                return -errno;
        if (!is_spawner(fd)) {
                if (l->retry < RETRY_MAX) /* not each time */
                        log_error("%s belongs to neither root nor this server's user; not connecting", l->path);
                return -EPERM;
        }
        int r = sd_event_add_io(l->event, &l->io, fd, EPOLLIN, link_on_io, l);
        if (r < 0)
                return r;
        l->fd = TAKE_FD(fd);
        set_timer(l, HELLO_DEADLINE);
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__Hello hello = GLOVEBOX__INTERNAL__HELLO__INIT;
        hello.protocol = WIRE_PROTOCOL;
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_HELLO;
        m.hello = &hello;
        return link_send(l, &m);
}

static int link_keep(struct Link *l, const Glovebox__Internal__ToSpawner *message) {
        if (l->n_pending >= PENDING_MAX)
                return -ENOBUFS;
        size_t size = protobuf_c_message_get_packed_size(&message->base);
        struct Pending *p = malloc(sizeof *p + size);
        if (!p)
                return -ENOMEM;
        p->next = NULL;
        p->size = protobuf_c_message_pack(&message->base, p->bytes);
        *l->pending_end = p;
        l->pending_end = &p->next;
        l->n_pending++;
        return sd_event_source_set_io_events(l->io, EPOLLIN | EPOLLOUT);
}

int link_send(struct Link *l, Glovebox__Internal__ToSpawner *message) {
        if (l->fd < 0 || l->broken)
                return -ENOTCONN;
        int r = l->pending ? -EAGAIN : wire_send(l->fd, &message->base, NULL, 0);
        if (r == -EAGAIN)
                r = link_keep(l, message);
        if (r < 0) {
                /* A cell nobody closes must not stay: without the connection the spawner destroys all of them. From the event loop, since
                 * callers do not expect to lose their leases here. */
                l->broken = true;
                set_timer(l, 0);
        }
        return r;
}

int link_init(struct Link *l, sd_event *event, const char *path, void (*on_change)(void *userdata), void *userdata) {
        *l = (struct Link) { .event = event, .fd = -EBADF, .retry = RETRY_MIN, .on_change = on_change, .userdata = userdata };
        l->pending_end = &l->pending;
        l->path = strdup(path);
        if (!l->path)
                return -ENOMEM;
        return sd_event_add_time(event, &l->timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, link_on_timer, l);
}

void link_done(struct Link *l) {
        l->io = sd_event_source_disable_unref(l->io);
        l->timer = sd_event_source_disable_unref(l->timer);
        l->fd = close_fd(l->fd);
        l->ready = false; /* nothing more is asked of it */
        for (size_t i = 0; i < LINK_BUCKETS; i++)
                while (l->leases[i])
                        lease_on_link_lost(l->leases[i]);
        if (l->pending_end)
                drop_pending(l);
        info_done(&l->info);
        free(l->path);
        l->path = NULL;
}
