/* Listening sockets: passed by systemd or standalone, or opened here; each connection is accepted, named and handed on. */
#include "server/accept/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "common/log.h"
#include "server/accept/connection.h"
#include "server/accept/tls.h"

#define BACKLOG 512
#define ACCEPTED_AT_ONCE 64
#define BACK_OFF (50 * USEC_PER_MSEC)
#define ERROR_LOG_INTERVAL (10 * USEC_PER_SEC)

enum ListenerKind {
        LISTENER_UNIX,
        LISTENER_TLS,
        LISTENER_PLAIN, /* TCP on loopback without TLS */
};

struct Listener {
        struct Listener *next;
        struct Listeners *all;
        enum ListenerKind kind;
        int fd;
        char *name;  /* as the operator wrote it */
        char *path;  /* of a Unix socket that we made, else NULL */
        uint64_t inode;
        sd_event_source *source, *back_off;
};

struct Listeners {
        struct Accept *accept;
        struct Listener *first;
        int reserve; /* given up for a moment when descriptors run out, so that a client is turned away instead of left hanging */
        usec_t error_logged_at;
};

/* One line for the operator; returns the error. */
#define listener_fail(ret_error, error, ...)                                              \
        ({                                                                                \
                if (asprintf(ret_error, __VA_ARGS__) < 0)                                 \
                        *(ret_error) = NULL;                                              \
                error;                                                                    \
        })

static int listener_hand_over_unix(struct Listener *l, int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);
        struct Caller caller = {};

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
                int r = -errno;

                (void) close_fd(fd);
                return r;
        }
        (void) snprintf(caller.name, sizeof(caller.name), "uid:%u", peer.uid);
        caller.pid = peer.pid;
        return connections_add(l->all->accept->connections, fd, &caller);
}

static void set_tcp_options(int fd) {
        static const struct {
                int level, name, value;
        } options[] = {
                {IPPROTO_TCP, TCP_NODELAY, 1},
                {SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, 60},
                {IPPROTO_TCP, TCP_KEEPINTVL, 20},
                {IPPROTO_TCP, TCP_KEEPCNT, 3},
        };

        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                (void) setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static int listener_hand_over(struct Listener *l, int fd) {
        struct Accept *a = l->all->accept;

        if (l->kind == LISTENER_UNIX)
                return listener_hand_over_unix(l, fd);
        set_tcp_options(fd);
        if (l->kind == LISTENER_PLAIN)
                return connections_add(a->connections, fd, &(struct Caller) {.name = "loopback:"});
        return tls_add(a->tls, fd);
}

static void listener_pause(struct Listener *l, int error) {
        struct Listeners *ls = l->all;
        usec_t now = now_monotonic();

        if (now - ls->error_logged_at > ERROR_LOG_INTERVAL) {
                ls->error_logged_at = now;
                log_warning_errno(error, "Cannot take a connection on %s: %m; trying again", l->name);
        }
        (void) sd_event_source_set_enabled(l->source, SD_EVENT_OFF);
        (void) sd_event_source_set_time_relative(l->back_off, BACK_OFF);
        (void) sd_event_source_set_enabled(l->back_off, SD_EVENT_ONESHOT);
}

/* Turns one client away with the descriptor kept for this. */
static void listener_shed(struct Listener *l) {
        struct Listeners *ls = l->all;
        int fd;

        if (ls->reserve < 0)
                return;
        ls->reserve = close_fd(ls->reserve);
        fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        (void) close_fd(fd);
        ls->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool accept_is_exhausted(int error) {
        return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static int listener_on_io(sd_event_source *source, int listening, uint32_t events, void *userdata) {
        struct Listener *l = userdata;

        if (l->all->reserve < 0)
                l->all->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
        for (unsigned i = 0; i < ACCEPTED_AT_ONCE; i++) {
                int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), r;

                r = fd < 0 ? -errno : listener_hand_over(l, fd);
                if (r == -EAGAIN)
                        return 0;
                if (accept_is_exhausted(-r)) {
                        if (fd < 0 && (r == -EMFILE || r == -ENFILE))
                                listener_shed(l);
                        listener_pause(l, r);
                        return 0;
                }
                /* Anything else (a client that left at once, a bound) is about that one connection. */
        }
        return 0;
}

static int listener_on_back_off(sd_event_source *source, uint64_t at, void *userdata) {
        struct Listener *l = userdata;

        return sd_event_source_set_enabled(l->source, SD_EVENT_ON);
}

static struct Listener *listener_free(struct Listener *l) {
        struct stat st;

        if (!l)
                return NULL;
        sd_event_source_disable_unref(l->source);
        sd_event_source_disable_unref(l->back_off);
        if (l->path && l->fd >= 0 && lstat(l->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == l->inode)
                (void) unlink(l->path);
        (void) close_fd(l->fd);
        free(l->name);
        free(l->path);
        free(l);
        return NULL;
}
DEFINE_CLEANUP(struct Listener *, listener_free)

static bool address_is_loopback(const struct sockaddr *address) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) address;

        if (address->sa_family == AF_INET)
                return ntohl(((const struct sockaddr_in *) address)->sin_addr.s_addr) >> 24 == 127;
        if (address->sa_family != AF_INET6)
                return false;
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) || (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

static int refuse_open_tcp(const struct Config *config, const char *name, bool loopback, char **ret_error) {
        if (config->plain_tcp)
                return listener_fail(ret_error, -EPERM, "%s: plain-tcp is for loopback addresses only; set certificate, key and client-ca "
                                     "in [tls], or listen on 127.0.0.1", name);
        return listener_fail(ret_error, -EPERM, "%s: TCP needs TLS: set certificate, key and client-ca in [tls]%s", name,
                             loopback ? ", or plain-tcp = yes in [server], since this is a loopback address" : "");
}

static bool has_tls(const struct Config *config) {
        return !isempty(config->tls_certificate) && !isempty(config->tls_key) && !isempty(config->tls_client_ca);
}

/* Says how this socket's clients prove who they are; refuses what would be open to anyone. */
static int listener_choose_kind(struct Listener *l, char **ret_error) {
        struct Accept *a = l->all->accept;
        struct sockaddr_storage address = {};
        socklen_t size = sizeof(address);
        bool loopback;

        if (getsockname(l->fd, (struct sockaddr *) &address, &size) < 0)
                return listener_fail(ret_error, -errno, "%s: not a socket that can be listened on: %s", l->name, strerror(errno));
        l->kind = LISTENER_UNIX;
        if (address.ss_family == AF_UNIX)
                return 0;
        if (address.ss_family != AF_INET && address.ss_family != AF_INET6)
                return listener_fail(ret_error, -EAFNOSUPPORT, "%s: neither a Unix nor a TCP socket", l->name);
        loopback = address_is_loopback((struct sockaddr *) &address);
        l->kind = a->config->plain_tcp && loopback ? LISTENER_PLAIN : LISTENER_TLS;
        if (l->kind == LISTENER_PLAIN || a->tls)
                return 0;
        if (!has_tls(a->config))
                return refuse_open_tcp(a->config, l->name, loopback, ret_error);
        return tls_new(a, &a->tls, ret_error);
}

/* Takes fd in any case. */
static int listener_add(struct Listeners *ls, int fd, const char *name, const char *path, char **ret_error) {
        struct Listener *l _cleanup_(listener_freep) = calloc(1, sizeof(*l));
        struct stat st;
        int r;

        if (!l) {
                (void) close_fd(fd);
                return -ENOMEM;
        }
        *l = (struct Listener) {.all = ls, .fd = fd, .name = strdup(name), .path = path ? strdup(path) : NULL};
        if (!l->name || (path && !l->path))
                return -ENOMEM;
        if (path && lstat(path, &st) == 0)
                l->inode = st.st_ino;
        r = listener_choose_kind(l, ret_error);
        if (r < 0)
                return r;
        (void) set_nonblock(fd, true);
        r = sd_event_add_io(ls->accept->event, &l->source, fd, EPOLLIN, listener_on_io, l);
        if (r >= 0)
                r = sd_event_add_time_relative(ls->accept->event, &l->back_off, CLOCK_MONOTONIC, BACK_OFF, USEC_PER_MSEC, listener_on_back_off, l);
        if (r >= 0)
                r = sd_event_source_set_enabled(l->back_off, SD_EVENT_OFF);
        if (r < 0)
                return r;
        log_info("Listening on %s (%s)", name, l->kind == LISTENER_UNIX ? "peer uid" : l->kind == LISTENER_TLS ? "mutual TLS" : "plain, loopback");
        l->next = ls->first;
        ls->first = TAKE_PTR(l);
        return 0;
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b) {
        if (a->sa_family != b->sa_family)
                return false;
        if (a->sa_family == AF_UNIX)
                return streq(((const struct sockaddr_un *) a)->sun_path, ((const struct sockaddr_un *) b)->sun_path);
        if (a->sa_family == AF_INET) {
                const struct sockaddr_in *x = (const struct sockaddr_in *) a, *y = (const struct sockaddr_in *) b;
                return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
        }
        const struct sockaddr_in6 *x = (const struct sockaddr_in6 *) a, *y = (const struct sockaddr_in6 *) b;
        return a->sa_family == AF_INET6 && x->sin6_port == y->sin6_port && IN6_ARE_ADDR_EQUAL(&x->sin6_addr, &y->sin6_addr);
}

/* What was passed is not opened again. */
static bool listeners_have(const struct Listeners *ls, const struct sockaddr *wanted) {
        for (const struct Listener *l = ls->first; l; l = l->next) {
                struct sockaddr_storage address = {};
                socklen_t size = sizeof(address);

                if (getsockname(l->fd, (struct sockaddr *) &address, &size) >= 0 && same_address((struct sockaddr *) &address, wanted))
                        return true;
        }
        return false;
}

/* A socket file that nobody listens on is left over from an earlier life: away with it. */
static int unix_remove_stale(const struct sockaddr_un *address, const char *name, char **ret_error) {
        int fd _cleanup_close_ = -EBADF;
        struct stat st;

        if (lstat(address->sun_path, &st) < 0)
                return errno == ENOENT ? 0 : listener_fail(ret_error, -errno, "%s: %s", name, strerror(errno));
        if (!S_ISSOCK(st.st_mode))
                return listener_fail(ret_error, -EEXIST, "%s: the file is there and is no socket; remove it or choose another path", name);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0 || errno != ECONNREFUSED)
                return listener_fail(ret_error, -EADDRINUSE, "%s: another program listens there; stop it or choose another path", name);
        if (unlink(address->sun_path) < 0)
                return listener_fail(ret_error, -errno, "%s: the socket file of an earlier run cannot be removed: %s", name, strerror(errno));
        return 0;
}

static int listen_unix(struct Listeners *ls, const char *name, char **ret_error) {
        const char *path = name + strlen("unix:");
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd _cleanup_close_ = -EBADF, r;
        const struct group *group;
        mode_t mask;

        if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path))
                return listener_fail(ret_error, -EINVAL, "%s: a socket's path is absolute and has at most %zu bytes", name,
                                     sizeof(address.sun_path) - 1);
        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        if (listeners_have(ls, (struct sockaddr *) &address))
                return 0;
        r = unix_remove_stale(&address, name, ret_error);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        mask = umask(0117); /* so that the file has mode 0660 from its first moment on */
        r = bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ? -errno : 0;
        (void) umask(mask);
        if (r < 0 || listen(fd, BACKLOG) < 0)
                return listener_fail(ret_error, r < 0 ? r : -errno, "%s: cannot listen: %s%s", name, strerror(r < 0 ? -r : errno),
                                     r == -EACCES ? "; the server, which is not root, must be able to write to its folder "
                                                    "(glovebox-standalone makes the socket for it)" : "");
        group = getgrnam("glovebox");
        if (group && chown(path, (uid_t) -1, group->gr_gid) < 0)
                log_warning_errno(errno, "%s: cannot give the socket to group glovebox: %m", name);
        return listener_add(ls, TAKE_FD(fd), name, path, ret_error);
}

/* "HOST:PORT" or "[ADDRESS]:PORT" in two strings. */
static int split_host_port(const char *name, char **ret_host, char **ret_port) {
        const char *colon = strrchr(name, ':'), *from = name;
        size_t length;
        char *host, *port;

        if (!colon || !colon[1])
                return -EINVAL;
        length = (size_t) (colon - name);
        if (length >= 2 && from[0] == '[' && from[length - 1] == ']') {
                from++;
                length -= 2;
        } else if (memchr(from, ':', length))
                return -EINVAL;
        if (length == 0)
                return -EINVAL;
        host = strndup(from, length);
        port = strdup(colon + 1);
        if (port && (strspn(port, "0123456789") != strlen(port) || strtoul(port, NULL, 10) > UINT16_MAX)) {
                free(host);
                free(port);
                return -ERANGE;
        }
        if (!host || !port) {
                free(host);
                free(port);
                return -ENOMEM;
        }
        *ret_host = host;
        *ret_port = port;
        return 0;
}

static int listen_address(struct Listeners *ls, const char *name, const struct addrinfo *ai, char **ret_error) {
        int fd _cleanup_close_ = -EBADF, one = 1, r;

        if (listeners_have(ls, ai->ai_addr))
                return 0;
        fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return listener_fail(ret_error, -errno, "%s: no socket: %s", name, strerror(errno));
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (ai->ai_family == AF_INET6)
                (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
                r = -errno;
                return listener_fail(ret_error, r, "%s: cannot listen: %s", name, strerror(-r));
        }
        return listener_add(ls, TAKE_FD(fd), name, NULL, ret_error);
}

/* All addresses of the name: "localhost" is two. */
static int listen_tcp(struct Listeners *ls, const char *name, char **ret_error) {
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
        char *host _cleanup_free_ = NULL, *port _cleanup_free_ = NULL;
        struct addrinfo *found;
        int r;

        r = split_host_port(name, &host, &port);
        if (r == -ERANGE)
                return listener_fail(ret_error, r, "%s: a port is a number from 0 to 65535", name);
        if (r < 0)
                return listener_fail(ret_error, -EINVAL, "%s: not an address; write unix:/PATH, HOST:PORT or [ADDRESS]:PORT", name);
        r = getaddrinfo(host, port, &hints, &found);
        if (r != 0)
                return listener_fail(ret_error, -EADDRNOTAVAIL, "%s: the host is not known: %s", name, gai_strerror(r));
        r = 0;
        for (const struct addrinfo *ai = found; ai && r == 0; ai = ai->ai_next)
                r = listen_address(ls, name, ai, ret_error);
        freeaddrinfo(found);
        return r;
}

/* One address without TLS. A name may turn out to be a loopback address when it is listened on. */
static int check_open_tcp(const struct Config *config, const char *name, char **ret_error) {
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST};
        char *host _cleanup_free_ = NULL, *port _cleanup_free_ = NULL;
        struct addrinfo *found;

        if (split_host_port(name, &host, &port) < 0)
                return listener_fail(ret_error, -EINVAL, "%s: not an address; write unix:/PATH, HOST:PORT or [ADDRESS]:PORT", name);
        bool known = getaddrinfo(host, port, &hints, &found) == 0, loopback = streq(host, "localhost");
        if (known) {
                loopback = address_is_loopback(found->ai_addr);
                freeaddrinfo(found);
        }
        return config->plain_tcp && (loopback || !known) ? 0 : refuse_open_tcp(config, name, loopback, ret_error);
}

int listeners_check(const struct Config *config, char **ret_error) {
        int r = 0;

        for (char **name = config->listen; name && *name && r >= 0 && !has_tls(config); name++)
                if (strncmp(*name, "unix:", strlen("unix:")) != 0)
                        r = check_open_tcp(config, *name, ret_error);
        return r;
}

/* passed: some are there already. They stand for the default, which nobody asked for, and not for what the operator named. */
static int listeners_open(struct Listeners *ls, bool passed, char **ret_error) {
        char **names = ls->accept->config->listen;

        if (passed && (strv_length(names) == 0 || ls->accept->config->listen_is_default))
                return 0;
        if (strv_length(names) == 0)
                return listener_fail(ret_error, -EINVAL, "nothing to listen on: set listen in [server], or use --listen");
        for (size_t i = 0; names[i]; i++) {
                bool is_unix = strncmp(names[i], "unix:", strlen("unix:")) == 0;
                int r = is_unix ? listen_unix(ls, names[i], ret_error) : listen_tcp(ls, names[i], ret_error);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* "127.0.0.1:443 (passed as descriptor 3)" */
static void name_passed(int fd, char *out, size_t size) {
        struct sockaddr_storage address = {};
        socklen_t length = sizeof(address);
        char host[64], port[16];

        if (getsockname(fd, (struct sockaddr *) &address, &length) < 0)
                address.ss_family = AF_UNSPEC;
        if (address.ss_family == AF_UNIX)
                (void) snprintf(out, size, "unix:%.107s (passed as descriptor %d)", ((struct sockaddr_un *) &address)->sun_path, fd);
        else if (getnameinfo((struct sockaddr *) &address, length, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
                (void) snprintf(out, size, address.ss_family == AF_INET6 ? "[%s]:%s (passed as descriptor %d)" : "%s:%s (passed as descriptor %d)",
                                host, port, fd);
        else
                (void) snprintf(out, size, "passed descriptor %d", fd);
}

/* Sockets that came with LISTEN_FDS: their number, without the one that is the spawner's. */
static int listeners_take_passed(struct Listeners *ls, char **ret_error) {
        char **names _cleanup_strv_ = NULL;
        int n = sd_listen_fds_with_names(0, &names), taken = 0;

        for (int i = 0; i < n; i++) {
                int fd = SD_LISTEN_FDS_START + i, r;
                char name[160];

                if (streq(names[i], "spawner"))
                        continue;
                name_passed(fd, name, sizeof(name));
                if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
                        return listener_fail(ret_error, -ENOTSOCK, "%s: not a listening stream socket", name);
                r = listener_add(ls, fd, name, NULL, ret_error);
                if (r < 0)
                        return r;
                taken++;
        }
        return n < 0 ? n : taken;
}

int listeners_new(struct Accept *a, struct Listeners **ret, char **ret_error) {
        struct Listeners *ls = calloc(1, sizeof(*ls));
        int r;

        if (!ls)
                return -ENOMEM;
        *ls = (struct Listeners) {.accept = a, .reserve = open("/dev/null", O_RDONLY | O_CLOEXEC)};
        r = listeners_take_passed(ls, ret_error);
        if (r >= 0)
                r = listeners_open(ls, r > 0, ret_error);
        if (r < 0) {
                listeners_free(ls);
                return r;
        }
        *ret = ls;
        return 0;
}

struct Listeners *listeners_free(struct Listeners *ls) {
        if (!ls)
                return NULL;
        while (ls->first) {
                struct Listener *l = ls->first;

                ls->first = l->next;
                listener_free(l);
        }
        (void) close_fd(ls->reserve);
        free(ls);
        return NULL;
}
