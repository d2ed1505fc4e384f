/* The listening sockets that standalone opens while it is root and passes on. */
#include "standalone/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/log.h"

#define BACKLOG 512

/* Removes the socket of a server that is gone. -EADDRINUSE: somebody listens; -EEXIST: it is no socket. */
static int remove_stale(const struct sockaddr_un *address, int type) {
        int fd _cleanup_close_ = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct stat st;

        if (fd < 0)
                return -errno;
        if (lstat(address->sun_path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISSOCK(st.st_mode))
                return -EEXIST;
        if (connect(fd, (const struct sockaddr *) address, sizeof(*address)) >= 0 || errno != ECONNREFUSED)
                return -EADDRINUSE;
        return unlink(address->sun_path) < 0 ? -errno : 0;
}

/* The socket is born with its group and its mode (the kernel takes it from fd): nothing is changed by its path afterwards, which whoever may
 * write to the folder could have swapped for another file's. */
static int bind_as(int fd, const struct sockaddr_un *address, gid_t gid) {
        mode_t mask;
        gid_t own;
        int r;

        if (fchmod(fd, 0660) < 0)
                return -errno;
        mask = umask(0);
        own = (gid_t) setfsgid(gid);
        if ((gid_t) setfsgid(gid) == gid)
                r = bind(fd, (const struct sockaddr *) address, sizeof(*address)) < 0 ? -errno : 0;
        else
                r = -EPERM;
        (void) setfsgid(own);
        (void) umask(mask);
        return r;
}

static int open_unix(const char *path, int type, gid_t gid) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd _cleanup_close_ = -EBADF;
        int r;

        if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path))
                return -EINVAL;
        strcpy(address.sun_path, path);
        r = remove_stale(&address, type);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        r = bind_as(fd, &address, gid);
        if (r < 0)
                return r;
        if (listen(fd, BACKLOG) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int listener_open_seqpacket(const char *path, gid_t gid) {
        return open_unix(path, SOCK_SEQPACKET, gid);
}

static int push(struct Listeners *l, int fd, char *address) {
        if (!address || l->n >= LISTENERS_MAX) {
                free(address);
                (void) close(fd);
                return address ? -E2BIG : -ENOMEM;
        }
        l->fds[l->n] = fd;
        l->addresses[l->n++] = address;
        return 0;
}

static int open_tcp(const struct addrinfo *info) {
        int fd _cleanup_close_ = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const int on = 1;

        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
                return -errno;
        /* Else "[::]:PORT" would take the IPv4 port, too. */
        if (info->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
                return -errno;
        if (bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static char *tcp_name(int fd) {
        char host[NI_MAXHOST], port[NI_MAXSERV], *name;
        struct sockaddr_storage address;
        socklen_t length = sizeof(address);

        if (getsockname(fd, (struct sockaddr *) &address, &length) < 0 ||
            getnameinfo((struct sockaddr *) &address, length, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                return NULL;
        if (asprintf(&name, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port) < 0)
                return NULL;
        return name;
}

/* "HOST:PORT" into its two parts; host is empty for all addresses. getaddrinfo() would take 99999 for the port 34463. */
static int split_tcp(const char *address, char host[256], char port[8]) {
        const char *colon = strrchr(address, ':'), *start = address, *end = colon;

        if (!colon || strlen(colon + 1) >= 8 || strspn(colon + 1, "0123456789") != strlen(colon + 1) || strtoul(colon + 1, NULL, 10) > UINT16_MAX)
                return -EINVAL;
        if (*address == '[') {
                start++;
                if (--end < start || *end != ']')
                        return -EINVAL;
        }
        if (end - start >= 256)
                return -EINVAL;
        memcpy(host, start, (size_t) (end - start));
        host[end - start] = '\0';
        strcpy(port, colon + 1);
        return 0;
}

/* A name such as localhost may stand for several addresses: all that this machine has. */
static int add_tcp(struct Listeners *l, const char *address) {
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
        struct addrinfo *found;
        char host[256], port[8];
        size_t before = l->n;
        int r, last = -EADDRNOTAVAIL;

        r = split_tcp(address, host, port);
        if (r < 0)
                return r;
        if (getaddrinfo(host[0] ? host : NULL, port, &hints, &found) != 0)
                return -EADDRNOTAVAIL;
        for (const struct addrinfo *info = found; info; info = info->ai_next) {
                int fd = open_tcp(info);

                last = fd < 0 ? fd : push(l, fd, tcp_name(fd));
                if (last < 0 && last != -EAFNOSUPPORT && last != -EADDRNOTAVAIL)
                        break;
        }
        freeaddrinfo(found);
        return l->n > before && (last >= 0 || last == -EAFNOSUPPORT || last == -EADDRNOTAVAIL) ? 0 : last;
}

static int add(struct Listeners *l, const char *address, gid_t gid) {
        int fd;

        if (strncmp(address, "unix:", 5) != 0)
                return add_tcp(l, address);
        fd = open_unix(address + 5, SOCK_STREAM, gid);
        return fd < 0 ? fd : push(l, fd, strdup(address));
}

int listeners_add(struct Listeners *l, const char *address, gid_t gid) {
        int r = add(l, address, gid);

        if (r == -EINVAL)
                log_error("'%s' is no address to listen on: give unix:/PATH (absolute, at most 107 bytes), HOST:PORT or [ADDRESS]:PORT", address);
        else if (r == -EADDRINUSE)
                log_error("%s is in use by a running program: stop it or choose another address", address);
        else if (r == -E2BIG)
                log_error("More than %d listening sockets", LISTENERS_MAX);
        else if (r < 0)
                (void) log_error_errno(r, "Cannot listen on %s: %m", address);
        return r;
}

void listeners_done(struct Listeners *l) {
        for (size_t i = 0; i < l->n; i++) {
                l->fds[i] = close_fd(l->fds[i]);
                /* Only ours: nobody else could bind there while we held it. */
                if (strncmp(l->addresses[i], "unix:", 5) == 0)
                        (void) unlink(l->addresses[i] + 5);
                free(l->addresses[i]);
        }
        l->n = 0;
}
