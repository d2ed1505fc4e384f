/* The connection with the server: packets in, packets out in order, a bounded queue when the server is slow to read. */
#include "spawner/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define QUEUE_MAX 4096
#define HELLO_TIME (5 * USEC_PER_SEC)
#define PACKETS_PER_WAKE 16

struct Queued {
        TAILQ_ENTRY(Queued) entry;
        struct RunFds fds;
        size_t size;
        uint8_t bytes[];
};

struct Connection {
        int fd;
        sd_event_source *source;
        sd_event_source *death;   /* of the process that connected */
        sd_event_source *silence; /* until the first message, which is Hello or the last one */
        sd_event_source *failure; /* tells from the loop that sending failed */
        struct ConnectionHandler handler;
        size_t n_queued;
        TAILQ_HEAD(, Queued) queue;
        struct WirePacket packet;
};

static struct Queued *queued_free(struct Queued *q) {
        if (!q)
                return NULL;
        for (size_t i = 0; i < q->fds.n; i++)
                close_fd(q->fds.fds[i]);
        free(q);
        return NULL;
}

static int queued_new(const Glovebox__Internal__FromSpawner *m, const struct RunFds *fds, struct Queued **ret) {
        size_t size = glovebox__internal__from_spawner__get_packed_size(m);
        struct Queued *q = calloc(1, sizeof *q + size);
        if (!q)
                return -ENOMEM;
        q->size = glovebox__internal__from_spawner__pack(m, q->bytes);
        for (size_t i = 0; fds && i < fds->n; i++) {
                q->fds.fds[i] = fcntl(fds->fds[i], F_DUPFD_CLOEXEC, 3);
                if (q->fds.fds[i] < 0) {
                        int error = errno;
                        queued_free(q);
                        return -error;
                }
                q->fds.n++;
        }
        *ret = q;
        return 0;
}

static int connection_on_failure(sd_event_source *s, void *userdata) {
        struct Connection *c = userdata;
        c->handler.on_end(c->handler.userdata, "the server does not read its messages");
        return 0;
}

static void connection_fail(struct Connection *c) {
        sd_event_source_set_io_events(c->source, 0);
        if (c->failure)
                return;
        if (sd_event_add_defer(sd_event_source_get_event(c->source), &c->failure, connection_on_failure, c) < 0)
                abort(); /* no memory even for that: the next life sweeps */
}

static int connection_flush(struct Connection *c) {
        struct Queued *q;
        while ((q = TAILQ_FIRST(&c->queue))) {
                Glovebox__Internal__FromSpawner *m = glovebox__internal__from_spawner__unpack(NULL, q->size, q->bytes);
                if (!m)
                        return -ENOMEM;
                int r = wire_send(c->fd, &m->base, q->fds.fds, q->fds.n);
                glovebox__internal__from_spawner__free_unpacked(m, NULL);
                if (r < 0)
                        return r == -EAGAIN ? 0 : r;
                TAILQ_REMOVE(&c->queue, q, entry);
                c->n_queued--;
                queued_free(q);
        }
        return sd_event_source_set_io_events(c->source, EPOLLIN);
}

static int connection_read(struct Connection *c, const char **ret_why) {
        for (int i = 0; i < PACKETS_PER_WAKE; i++) {
                int r = wire_receive(c->fd, &c->packet);
                if (r == -EAGAIN)
                        return 0;
                if (r <= 0) {
                        *ret_why = r == 0 ? "the server closed it" : strerror(-r);
                        return r == 0 ? -ECONNRESET : r;
                }
                r = c->handler.on_packet(c->handler.userdata, &c->packet);
                wire_packet_done(&c->packet);
                if (r < 0) {
                        *ret_why = "the server broke the protocol";
                        return r;
                }
                c->silence = sd_event_source_disable_unref(c->silence);
                if (c->failure)
                        return 0;
        }
        return 0;
}

static int connection_on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct Connection *c = userdata;
        const char *why = "sending failed";
        int r = 0;
        if (revents & EPOLLOUT)
                r = connection_flush(c);
        if (r >= 0 && (revents & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                r = connection_read(c, &why);
        if (r < 0)
                c->handler.on_end(c->handler.userdata, why);
        return 0;
}

static int connection_on_silence(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Connection *c = userdata;
        c->handler.on_end(c->handler.userdata, "the server did not say Hello in time");
        return 0;
}

/* A child that it left behind may hold the socket, which must not keep its successor out. */
static int connection_on_death(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct Connection *c = userdata;
        c->handler.on_end(c->handler.userdata, "the server has died");
        return 0;
}

static int connection_watch_peer(struct Connection *c, sd_event *event) {
        struct ucred peer;
        socklen_t size = sizeof peer;
        int pidfd, r;
        if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return -errno;
        size = sizeof pidfd;
        if (getsockopt(c->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0)
                pidfd = (int) syscall(SYS_pidfd_open, peer.pid, 0);
        if (pidfd < 0)
                return 0; /* one of a pid namespace that we do not see: its socket alone tells */
        r = sd_event_add_io(event, &c->death, pidfd, EPOLLIN, connection_on_death, c);
        if (r >= 0)
                r = sd_event_source_set_io_fd_own(c->death, true);
        else
                close_fd(pidfd);
        return r;
}

int connection_new(sd_event *event, int fd, const struct ConnectionHandler *handler, struct Connection **ret) {
        struct Connection *c = calloc(1, sizeof *c);
        if (!c) {
                close_fd(fd);
                return -ENOMEM;
        }
        c->fd = fd;
        c->handler = *handler;
        TAILQ_INIT(&c->queue);
        int r = sd_event_add_io(event, &c->source, fd, EPOLLIN, connection_on_io, c);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &c->silence, CLOCK_MONOTONIC, HELLO_TIME, 0, connection_on_silence, c);
        if (r >= 0)
                r = connection_watch_peer(c, event);
        if (r < 0) {
                connection_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

struct Connection *connection_free(struct Connection *c) {
        if (!c)
                return NULL;
        struct Queued *q;
        while ((q = TAILQ_FIRST(&c->queue))) {
                TAILQ_REMOVE(&c->queue, q, entry);
                queued_free(q);
        }
        sd_event_source_disable_unref(c->source);
        sd_event_source_disable_unref(c->failure);
        sd_event_source_disable_unref(c->silence);
        sd_event_source_disable_unref(c->death);
        wire_packet_done(&c->packet);
        close_fd(c->fd);
        free(c);
        return NULL;
}

void connection_send(struct Connection *c, Glovebox__Internal__FromSpawner *m, const struct RunFds *fds) {
        if (c->failure)
                return;
        if (fds) {
                m->roles = (Glovebox__Internal__Role *) fds->roles;
                m->n_roles = fds->n;
        }
        int r = c->n_queued ? -EAGAIN : wire_send(c->fd, &m->base, fds ? fds->fds : NULL, fds ? fds->n : 0);
        if (r == -EPIPE || r == -ECONNRESET)
                return; /* the read side tells */
        if (r == -EAGAIN && c->n_queued < QUEUE_MAX) {
                struct Queued *q = NULL;
                r = queued_new(m, fds, &q);
                if (r >= 0) {
                        TAILQ_INSERT_TAIL(&c->queue, q, entry);
                        c->n_queued++;
                        r = sd_event_source_set_io_events(c->source, EPOLLIN | EPOLLOUT);
                }
        }
        if (r < 0)
                connection_fail(c);
}

bool connection_is_hung_up(const struct Connection *c) {
        struct pollfd p = {.fd = c->fd};
        return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}
