/* The relay thread: one epoll for all TLS connections, bounded buffers both ways, no blocking anywhere but in epoll_wait.
 *
 * A link is HANDSHAKING until its peer has proved who it is, RELAYING while both ends live, and CLOSING while the last bytes
 * travel to the peer. Interest in a socket is dropped when nothing can be done with it: a hang-up would wake us again and again. */
#include "server/accept/relay.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "common/log.h"
#include "server/accept/tls-name.h"

#define HANDSHAKE_DEADLINE (10 * USEC_PER_SEC)
#define CLOSING_DEADLINE (2 * USEC_PER_SEC)
#define HALF_CLOSED_DEADLINE (10 * USEC_PER_SEC)
#define SWEEP_MS 500
#define EVENTS_AT_ONCE 64
#define ROUNDS_AT_ONCE 8

enum LinkState {
        LINK_HANDSHAKING,
        LINK_RELAYING,
        LINK_CLOSING,
        LINK_DEAD,
};

struct Buffers {
        uint8_t in[16 * 1024];  /* from the peer: one TLS record */
        uint8_t out[32 * 1024]; /* to the peer */
};

struct Watched {
        int fd;
        uint32_t interest; /* what epoll was told */
};

struct Link {
        struct Link *next; /* in the inbox, then in the list */
        enum LinkState state;
        SSL *ssl;
        struct Watched tcp, pair;
        usec_t deadline; /* 0 = none */
        struct Buffers *buffers;
        size_t in_at, in_end, out_at, out_end; /* bytes that wait in the buffers */
        bool in_over, out_over;                /* no more will come from that side */
        bool read_wants_out, write_wants_out;  /* TLS must send before it can go on */
        bool again;                            /* stopped to let others have their turn */
        bool told;                             /* how the handshake ended */
};

struct Relay {
        relay_on_handshake_t on_handshake;
        void *userdata;
        pthread_t thread;
        bool started;
        int epoll, wake;
        struct Link *links; /* the thread's own */
        usec_t complained_at;     /* the thread's own: of failed handshakes, one line a second */
        unsigned uncomplained;
        pthread_mutex_t lock;
        struct Link *inbox; /* under the lock */
        unsigned n_drop;    /* under the lock: handshakes to give up for newer ones */
        bool stopping;      /* under the lock */
};

static void watched_set(const struct Relay *r, struct Link *l, struct Watched *w, uint32_t interest) {
        struct epoll_event e = {.events = interest, .data.ptr = l};

        if (interest == w->interest || w->fd < 0)
                return;
        if (epoll_ctl(r->epoll, interest == 0 ? EPOLL_CTL_DEL : w->interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, w->fd, &e) < 0)
                l->state = LINK_DEAD;
        w->interest = interest;
}

static void link_free(const struct Relay *r, struct Link *l) {
        if (!l->told)
                r->on_handshake(r->userdata, -ECONNABORTED, NULL);
        SSL_free(l->ssl);
        (void) close_fd(l->tcp.fd);
        (void) close_fd(l->pair.fd);
        free(l->buffers);
        free(l);
}

/* The handshake is done: is it someone, and do both speak HTTP/2? */
static int link_identify(struct Link *l, struct Caller *ret) {
        X509 *certificate = SSL_get1_peer_certificate(l->ssl);
        const unsigned char *protocol = NULL;
        unsigned length = 0;
        int r;

        SSL_get0_alpn_selected(l->ssl, &protocol, &length);
        if (!certificate || length != 2 || memcmp(protocol, "h2", 2) != 0)
                r = -EPROTO;
        else
                r = tls_caller_from_certificate(certificate, ret);
        X509_free(certificate);
        return r;
}

static void link_start_relaying(const struct Relay *r, struct Link *l) {
        struct Caller caller;
        int pair[2];

        if (link_identify(l, &caller) < 0) {
                log_debug("A TLS client gave no usable name or does not speak HTTP/2");
                l->state = LINK_DEAD;
                return;
        }
        l->buffers = malloc(sizeof(*l->buffers));
        if (!l->buffers || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
                l->state = LINK_DEAD;
                return;
        }
        l->pair.fd = pair[0];
        l->deadline = 0;
        l->state = LINK_RELAYING;
        l->told = true;
        r->on_handshake(r->userdata, pair[1], &caller);
}

/* Who tries to get in is the operator's business, and must not fill the log. */
static void complain_of_handshake(struct Relay *r, const struct Link *l) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        char host[64] = "an unknown address";
        usec_t now = now_monotonic();

        if (r->complained_at && now - r->complained_at < USEC_PER_SEC) {
                r->uncomplained++;
                return;
        }
        if (getpeername(l->tcp.fd, (struct sockaddr *) &peer, &size) == 0)
                (void) getnameinfo((struct sockaddr *) &peer, size, host, sizeof host, NULL, 0, NI_NUMERICHOST);
        const char *why = ERR_reason_error_string(ERR_peek_error());
        log_notice("A TLS handshake with %s failed: %s (%u more since the last line like this).", host, why ? why : "the connection was closed", r->uncomplained);
        r->complained_at = now;
        r->uncomplained = 0;
}

static void link_shake_hands(struct Relay *r, struct Link *l) {
        int n, why;

        ERR_clear_error();
        n = SSL_accept(l->ssl);
        if (n == 1) {
                link_start_relaying(r, l);
                return;
        }
        why = SSL_get_error(l->ssl, n);
        if (why == SSL_ERROR_WANT_READ)
                watched_set(r, l, &l->tcp, EPOLLIN);
        else if (why == SSL_ERROR_WANT_WRITE)
                watched_set(r, l, &l->tcp, EPOLLOUT);
        else {
                complain_of_handshake(r, l);
                l->state = LINK_DEAD;
        }
}

/* Takes from the peer. True = something has moved. */
static bool link_read_peer(struct Link *l) {
        int n, why;

        if (l->in_over || l->in_end > 0)
                return false;
        ERR_clear_error();
        n = SSL_read(l->ssl, l->buffers->in, sizeof(l->buffers->in));
        l->read_wants_out = false;
        if (n > 0) {
                l->in_end = (size_t) n;
                return true;
        }
        why = SSL_get_error(l->ssl, n);
        if (why == SSL_ERROR_WANT_READ)
                return false;
        if (why == SSL_ERROR_WANT_WRITE) {
                l->read_wants_out = true;
                return false;
        }
        l->in_over = true;
        if (why != SSL_ERROR_ZERO_RETURN)
                l->state = LINK_DEAD;
        return true;
}

static bool link_write_server(struct Link *l) {
        ssize_t n;

        if (l->in_end == 0)
                return false;
        n = send(l->pair.fd, l->buffers->in + l->in_at, l->in_end - l->in_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
                if (errno != EAGAIN && errno != EINTR) { /* gRPC has closed: nobody wants these bytes */
                        l->in_over = true;
                        l->in_at = l->in_end = 0;
                        return true;
                }
                return false;
        }
        l->in_at += (size_t) n;
        if (l->in_at == l->in_end)
                l->in_at = l->in_end = 0;
        return n > 0;
}

static bool link_read_server(struct Link *l) {
        ssize_t n;

        if (l->out_over || l->out_end > 0)
                return false;
        n = recv(l->pair.fd, l->buffers->out, sizeof(l->buffers->out), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (n <= 0) {
                l->out_over = true;
                return true;
        }
        l->out_end = (size_t) n;
        return true;
}

static bool link_write_peer(struct Link *l) {
        int n, why;

        if (l->out_end == 0)
                return false;
        ERR_clear_error();
        n = SSL_write(l->ssl, l->buffers->out + l->out_at, (int) (l->out_end - l->out_at));
        l->write_wants_out = false;
        if (n > 0) {
                l->out_at += (size_t) n;
                if (l->out_at == l->out_end)
                        l->out_at = l->out_end = 0;
                return true;
        }
        why = SSL_get_error(l->ssl, n);
        if (why == SSL_ERROR_WANT_WRITE)
                l->write_wants_out = true;
        else if (why != SSL_ERROR_WANT_READ)
                l->state = LINK_DEAD;
        return false;
}

/* gRPC has closed and all it said is sent: says goodbye, and waits for the peer to have read it. */
static void link_start_closing(struct Link *l) {
        l->state = LINK_CLOSING;
        l->deadline = now_monotonic() + CLOSING_DEADLINE;
        ERR_clear_error();
        (void) SSL_shutdown(l->ssl);
        (void) shutdown(l->tcp.fd, SHUT_WR);
        l->pair.interest = 0; /* closing takes it out of epoll */
        l->pair.fd = close_fd(l->pair.fd);
}

static void link_close(const struct Relay *r, struct Link *l) {
        uint8_t nothing[4096];
        ssize_t n = 1;

        for (unsigned i = 0; n > 0 && i < ROUNDS_AT_ONCE; i++)
                n = recv(l->tcp.fd, nothing, sizeof(nothing), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                l->state = LINK_DEAD;
        else
                watched_set(r, l, &l->tcp, EPOLLIN);
}

static void link_update_interest(const struct Relay *r, struct Link *l) {
        uint32_t tcp = 0, pair = 0;

        if (!l->in_over && l->in_end == 0)
                tcp |= l->read_wants_out ? EPOLLOUT : EPOLLIN;
        if (l->out_end > 0)
                tcp |= l->write_wants_out ? EPOLLOUT : EPOLLIN;
        if (l->in_end > 0)
                pair |= EPOLLOUT;
        if (!l->out_over && l->out_end == 0)
                pair |= EPOLLIN;
        watched_set(r, l, &l->tcp, tcp);
        watched_set(r, l, &l->pair, pair);
}

/* Moves bytes both ways until nothing moves, or until it is the others' turn. */
static void link_relay(const struct Relay *r, struct Link *l) {
        bool moved = true;

        for (unsigned i = 0; moved && i < ROUNDS_AT_ONCE && l->state == LINK_RELAYING; i++) {
                bool in_was_over = l->in_over;

                moved = link_read_peer(l);
                moved = link_write_server(l) || moved;
                moved = link_read_server(l) || moved;
                moved = link_write_peer(l) || moved;
                if (l->in_over && !in_was_over)
                        l->deadline = now_monotonic() + HALF_CLOSED_DEADLINE;
                if (l->in_over && l->in_end == 0)
                        (void) shutdown(l->pair.fd, SHUT_WR);
        }
        if (l->state != LINK_RELAYING)
                return;
        if (l->out_over && l->out_end == 0) {
                link_start_closing(l);
                link_close(r, l);
                return;
        }
        l->again = moved;
        link_update_interest(r, l);
}

static void link_go_on(struct Relay *r, struct Link *l) {
        l->again = false;
        if (l->state == LINK_HANDSHAKING)
                link_shake_hands(r, l);
        if (l->state == LINK_RELAYING)
                link_relay(r, l);
        else if (l->state == LINK_CLOSING)
                link_close(r, l);
}

/* The list begins with the newest. */
static void relay_drop_oldest(struct Relay *r) {
        struct Link *oldest = NULL;

        for (struct Link *l = r->links; l; l = l->next)
                if (l->state == LINK_HANDSHAKING)
                        oldest = l;
        if (oldest)
                oldest->state = LINK_DEAD;
}

/* Takes in new links; true = the end is near. */
static bool relay_take_inbox(struct Relay *r) {
        struct Link *in;
        unsigned n_drop;
        bool stopping;
        uint64_t count;

        (void) !read(r->wake, &count, sizeof(count));
        (void) pthread_mutex_lock(&r->lock);
        in = r->inbox;
        r->inbox = NULL;
        n_drop = r->n_drop;
        r->n_drop = 0;
        stopping = r->stopping;
        (void) pthread_mutex_unlock(&r->lock);
        for (; n_drop > 0; n_drop--)
                relay_drop_oldest(r);
        while (in) {
                struct Link *l = in;

                in = l->next;
                l->next = r->links;
                r->links = l;
                l->again = true;
        }
        return stopping;
}

/* At the end, what gRPC has written still goes out, but not for long. */
static void link_hurry(struct Link *l, usec_t now) {
        if (l->state == LINK_HANDSHAKING)
                l->state = LINK_DEAD;
        else if (l->deadline == 0)
                l->deadline = now + CLOSING_DEADLINE;
}

/* Gives those that were stopped their turn, buries the dead; returns how long to wait for more, in ms. */
static int relay_sweep(struct Relay *r, bool stopping) {
        usec_t now = now_monotonic();
        int timeout = -1;

        for (struct Link **at = &r->links; *at;) {
                struct Link *l = *at;

                if (stopping)
                        link_hurry(l, now);
                if (l->deadline > 0 && now > l->deadline)
                        l->state = LINK_DEAD;
                else if (l->again)
                        link_go_on(r, l);
                if (l->state == LINK_DEAD) {
                        *at = l->next;
                        link_free(r, l);
                        continue;
                }
                if (l->again)
                        timeout = 0;
                else if (l->deadline > 0 && timeout != 0)
                        timeout = SWEEP_MS;
                at = &l->next;
        }
        return timeout;
}

static void *relay_run(void *userdata) {
        struct Relay *r = userdata;
        struct epoll_event events[EVENTS_AT_ONCE];
        bool stopping = false;
        int timeout = -1;

        while (!stopping || r->links) {
                int n = epoll_wait(r->epoll, events, EVENTS_AT_ONCE, timeout);

                for (int i = 0; i < n; i++) {
                        if (events[i].data.ptr)
                                link_go_on(r, events[i].data.ptr);
                        else
                                stopping = relay_take_inbox(r) || stopping;
                }
                timeout = relay_sweep(r, stopping);
        }
        return NULL;
}

/* Signals belong to the event loop; a write to a closed socket shall fail, not kill. */
static int relay_start(struct Relay *r) {
        sigset_t all, before;
        int k;

        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_BLOCK, &all, &before);
        k = pthread_create(&r->thread, NULL, relay_run, r);
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        r->started = k == 0;
        return -k;
}

int relay_new(relay_on_handshake_t on_handshake, void *userdata, struct Relay **ret) {
        struct Relay *r = calloc(1, sizeof(*r));
        struct epoll_event wake = {.events = EPOLLIN};
        int k;

        if (!r)
                return -ENOMEM;
        *r = (struct Relay) {.on_handshake = on_handshake, .userdata = userdata, .lock = PTHREAD_MUTEX_INITIALIZER};
        r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r->epoll = epoll_create1(EPOLL_CLOEXEC);
        k = r->wake < 0 || r->epoll < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->wake, &wake) < 0 ? -errno : relay_start(r);
        if (k < 0) {
                relay_free(r);
                return k;
        }
        *ret = r;
        return 0;
}

static void relay_wake(struct Relay *r) {
        (void) !write(r->wake, &(uint64_t) {1}, sizeof(uint64_t));
}

void relay_give_up_oldest(struct Relay *r) {
        (void) pthread_mutex_lock(&r->lock);
        r->n_drop++;
        (void) pthread_mutex_unlock(&r->lock);
        relay_wake(r);
}

struct Relay *relay_free(struct Relay *r) {
        if (!r)
                return NULL;
        if (r->started) {
                (void) pthread_mutex_lock(&r->lock);
                r->stopping = true;
                (void) pthread_mutex_unlock(&r->lock);
                relay_wake(r);
                (void) pthread_join(r->thread, NULL);
        }
        (void) close_fd(r->epoll);
        (void) close_fd(r->wake);
        (void) pthread_mutex_destroy(&r->lock);
        free(r);
        return NULL;
}

int relay_add(struct Relay *r, SSL *ssl, int tcp) {
        struct Link *l = calloc(1, sizeof(*l));

        if (!l || SSL_set_fd(ssl, tcp) != 1) {
                SSL_free(ssl);
                (void) close_fd(tcp);
                free(l);
                return -ENOMEM;
        }
        *l = (struct Link) {.ssl = ssl, .tcp.fd = tcp, .pair.fd = -EBADF, .deadline = now_monotonic() + HANDSHAKE_DEADLINE};
        (void) pthread_mutex_lock(&r->lock);
        l->next = r->inbox;
        r->inbox = l;
        (void) pthread_mutex_unlock(&r->lock);
        relay_wake(r);
        return 0;
}
