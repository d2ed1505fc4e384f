/* Connecting, and the pump: one thread that sits in the completion queue all the time. Without it nobody would answer the server's
 * pings while the main thread waits for a paused terminal, and the server would take the client for dead. */
#include "client/channel.h"

#include <fcntl.h>
#include <grp.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "client/console.h"
#include "client/input.h"
#include "client/options.h"
#include "client/tls-fault.h"

#define PEM_MAX (1 * MIB)
/* The server's largest message is 1 MiB; lists may be longer. */
#define MESSAGE_MAX (16 * MIB)

DEFINE_CLEANUP(grpc_channel_credentials *, grpc_channel_credentials_release)

int target_parse(const char *s, struct Target *ret) {
        struct Target t _cleanup_(target_done) = {};
        const char *colon;

        if (strncmp(s, "unix:", 5) == 0 || *s == '/' || strncmp(s, "./", 2) == 0) {
                const char *path = strncmp(s, "unix:", 5) == 0 ? s + 5 : s;
                /* The URL form unix:///run/x means the same as unix:/run/x. */
                if (strncmp(path, "///", 3) == 0)
                        path += 2;
                if (!*path)
                        return -EINVAL;
                t.path = strdup(path);
        } else {
                colon = strrchr(s, ':');
                if (!colon || colon == s || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1))
                        return -EINVAL;
                if (*s == '[' && colon[-1] == ']')
                        t.host = strndup(s + 1, (size_t) (colon - s) - 2);
                else if (strcspn(s, ":[]") != (size_t) (colon - s))
                        return -EINVAL; /* a bare IPv6 address, for one: where would the port begin? */
                else
                        t.host = strndup(s, (size_t) (colon - s));
                t.port = strdup(colon + 1);
                if (!t.host || !*t.host || !t.port)
                        return t.host && t.port ? -EINVAL : -ENOMEM;
        }
        if (!t.path && !t.host)
                return -ENOMEM;
        *ret = t;
        t = (struct Target) {};
        return 0;
}

void target_done(struct Target *t) {
        free(t->path);
        free(t->host);
        free(t->port);
        *t = (struct Target) {};
}

static void *pump_run(void *userdata) {
        struct Channel *c = userdata;

        for (;;) {
                grpc_event event = grpc_completion_queue_next(c->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
                struct Batch *batch = event.tag;
                if (event.type == GRPC_QUEUE_SHUTDOWN)
                        return NULL;
                if (event.type != GRPC_OP_COMPLETE)
                        continue;
                (void) pthread_mutex_lock(&c->lock);
                batch->pending = false;
                batch->ok = event.success;
                (void) pthread_cond_broadcast(&c->changed);
                (void) pthread_mutex_unlock(&c->lock);
        }
}

int channel_start(struct Channel *c, grpc_call *call, const grpc_op *ops, size_t n, struct Batch *batch) {
        (void) pthread_mutex_lock(&c->lock);
        *batch = (struct Batch) { .pending = true };
        (void) pthread_mutex_unlock(&c->lock);
        if (grpc_call_start_batch(call, ops, n, batch, NULL) == GRPC_CALL_OK)
                return 0;
        batch->pending = false; /* nothing was started: no one else looks at it */
        return -EIO;
}

int channel_wait(struct Channel *c, struct Batch *batch, usec_t until) {
        struct timespec t = { .tv_sec = (time_t) (until / USEC_PER_SEC), .tv_nsec = (long) (until % USEC_PER_SEC * NSEC_PER_USEC) };
        int r = 0;

        (void) pthread_mutex_lock(&c->lock);
        while (batch->pending && r == 0)
                r = until == USEC_INFINITY ? pthread_cond_wait(&c->changed, &c->lock)
                                           : pthread_cond_timedwait(&c->changed, &c->lock, &t);
        r = batch->pending ? -ETIME : 0;
        (void) pthread_mutex_unlock(&c->lock);
        return r;
}

bool channel_is_pending(struct Channel *c, struct Batch *batch) {
        bool pending;

        (void) pthread_mutex_lock(&c->lock);
        pending = batch->pending;
        (void) pthread_mutex_unlock(&c->lock);
        return pending;
}

static int unix_connect(const char *path, usec_t until, int *ret) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd _cleanup_close_ = -EBADF;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        /* EAGAIN: the server's backlog is full; there is nothing to poll for. */
        while (connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0) {
                if (errno == EAGAIN && now_monotonic() >= until)
                        return -ETIMEDOUT;
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                (void) usleep(20000);
        }
        *ret = TAKE_FD(fd);
        return 0;
}

/* Whether a TCP connection can be made at all, to tell a wrong address from a failed TLS handshake. */
static int tcp_probe(const struct Target *t, usec_t until, const char **ret_why) {
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
        struct addrinfo *list = NULL;
        int r, error = 0;
        socklen_t size = sizeof(error);

        r = getaddrinfo(t->host, t->port, &hints, &list);
        if (r != 0) {
                *ret_why = gai_strerror(r);
                return -EHOSTUNREACH;
        }
        r = -ECONNREFUSED;
        for (struct addrinfo *a = list; a && r < 0; a = a->ai_next) {
                int fd _cleanup_close_ = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
                struct pollfd p = { .fd = fd, .events = POLLOUT };
                usec_t now = now_monotonic();

                r = connect(fd, a->ai_addr, a->ai_addrlen) < 0 ? -errno : 0;
                if (r != -EINPROGRESS)
                        continue;
                if (poll(&p, 1, now < until ? (int) ((until - now) / USEC_PER_MSEC) + 1 : 0) <= 0)
                        r = -ETIMEDOUT;
                else
                        r = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno : -error;
        }
        freeaddrinfo(list);
        *ret_why = strerror(-r);
        return r;
}

#define ANOTHER "--server or GLOVEBOX_SERVER choose another"

/* The server gives its socket to the group `glovebox`; where there is none, to a number that nobody can join. */
static int fault_denied(const char *server, const char *path) {
        struct stat st;
        const struct group *group;

        if (stat(path, &st) < 0)
                return console_fault("cannot reach %s: %s; you may not enter its folder", server, strerror(errno));
        group = st.st_gid != 0 ? getgrgid(st.st_gid) : NULL;
        if (group)
                return console_fault("cannot reach %s: Permission denied; you may not use this socket: join its group "
                                     "(`usermod -aG %s NAME`, then log in again)", server, group->gr_name);
        return console_fault("cannot reach %s: Permission denied; only root may use this socket, until the server is started where there "
                             "is a group for others (`useradd --system --user-group glovebox`, `usermod -aG glovebox NAME`)", server);
}

static int fault_unix(const char *server, const char *path, int error) {
        static const struct {
                int error;
                const char *cure;
        } cures[] = {
                { ENOENT, "is gloveboxd running? " ANOTHER },
                { ECONNREFUSED, "is gloveboxd running? " ANOTHER },
                { ENAMETOOLONG, "paths of Unix sockets have at most 107 bytes" },
        };

        if (error == -EACCES)
                return fault_denied(server, path);
        for (size_t i = 0; i < ELEMENTSOF(cures); i++)
                if (cures[i].error == -error)
                        return console_fault("cannot reach %s: %s; %s", server, strerror(-error), cures[i].cure);
        return console_fault("cannot reach %s: %s; " ANOTHER, server, strerror(-error));
}

static int fault_tcp(const struct Channel *c, const struct Options *o, const struct Target *t) {
        const char *why = "";

        if (tcp_probe(t, now_monotonic() + USEC_PER_SEC, &why) < 0)
                return console_fault("cannot reach %s: %s; is gloveboxd running? " ANOTHER, c->server, why);
        if (!c->tls)
                return console_fault("cannot reach %s: it answers, but not with gRPC in plain text; does it want TLS "
                                     "(--tls-ca, --tls-cert, --tls-key)?", c->server);
        return tls_fault_say(o, c->server, t->host);
}

static size_t channel_arguments(grpc_arg *args) {
        static const struct {
                const char *key;
                int value;
        } numbers[] = {
                { GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MESSAGE_MAX },
                { GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1 },
                /* An execution must not be started twice in silence. */
                { GRPC_ARG_ENABLE_RETRIES, 0 },
                /* The server is where the user says, not behind what http_proxy names. */
                { GRPC_ARG_ENABLE_HTTP_PROXY, 0 },
                { GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1 },
                /* How much a paused terminal lets pile up: this, and no more. */
                { GRPC_ARG_HTTP2_BDP_PROBE, 0 },
                { GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 20 },
                /* A server that hangs is noticed even when it sends nothing. */
                { GRPC_ARG_KEEPALIVE_TIME_MS, 20000 },
                { GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000 },
                { GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                args[i] = (grpc_arg) { .type = GRPC_ARG_INTEGER, .key = (char *) numbers[i].key, .value.integer = numbers[i].value };
        return ELEMENTSOF(numbers);
}

static int open_unix(struct Channel *c, const struct Target *t) {
        grpc_channel_credentials *credentials _cleanup_(grpc_channel_credentials_releasep) = NULL;
        grpc_arg args[16];
        grpc_channel_args list = { .num_args = channel_arguments(args), .args = args };
        int fd = -EBADF;
        int r;

        r = unix_connect(t->path, now_monotonic() + CONNECT_DEADLINE, &fd);
        if (r < 0)
                return fault_unix(c->server, t->path, r);
        args[list.num_args++] = (grpc_arg) {
                .type = GRPC_ARG_STRING, .key = (char *) GRPC_ARG_DEFAULT_AUTHORITY, .value.string = (char *) "localhost" };
        credentials = grpc_insecure_credentials_create();
        c->channel = grpc_channel_create_from_fd("localhost", fd, credentials, &list);
        return c->channel ? 0 : console_fault("cannot use the connection to %s", c->server);
}

static int read_pem(const char *option, const char *path, struct Bytes *ret) {
        int r;

        if (!path)
                return 0;
        r = input_read_file(path, PEM_MAX, ret);
        if (r < 0)
                return console_fault("%s %s: %s", option, path, strerror(-r));
        return 0;
}

static int tls_credentials(const struct Options *o, grpc_channel_credentials **ret) {
        struct Bytes ca _cleanup_(bytes_done) = {};
        struct Bytes certificate _cleanup_(bytes_done) = {};
        struct Bytes key _cleanup_(bytes_done) = {};
        grpc_ssl_pem_key_cert_pair pair;

        if (!o->tls_cert != !o->tls_key)
                return console_fault("--tls-cert and --tls-key go together");
        if (read_pem("--tls-ca", o->tls_ca, &ca) != 0 || read_pem("--tls-cert", o->tls_cert, &certificate) != 0 ||
            read_pem("--tls-key", o->tls_key, &key) != 0)
                return STATUS_FAULT;
        pair = (grpc_ssl_pem_key_cert_pair) { .private_key = key.data, .cert_chain = certificate.data };
        *ret = grpc_ssl_credentials_create(ca.data, o->tls_cert ? &pair : NULL, NULL, NULL);
        if (!*ret)
                return console_fault("the certificates of --tls-ca, --tls-cert and --tls-key cannot be used: are they PEM files?");
        return 0;
}

/* In plain text a password-less service may only be asked on this machine. */
static bool is_loopback(const char *host) {
        bool is_ipv4 = strspn(host, "0123456789.") == strlen(host);

        return streq(host, "localhost") || streq(host, "::1") || (is_ipv4 && strncmp(host, "127.", 4) == 0);
}

static int await_ready(struct Channel *c, usec_t until) {
        grpc_connectivity_state state;

        for (;;) {
                struct Batch watch = { .pending = true };
                usec_t now = now_monotonic();

                state = grpc_channel_check_connectivity_state(c->channel, 1);
                if (state == GRPC_CHANNEL_READY)
                        return 0;
                if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN || now >= until)
                        return -ECONNREFUSED;
                grpc_channel_watch_connectivity_state(c->channel, state,
                                                      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                                                   gpr_time_from_micros((int64_t) (until - now), GPR_TIMESPAN)),
                                                      c->queue, &watch);
                (void) channel_wait(c, &watch, USEC_INFINITY);
        }
}

static int open_tcp(struct Channel *c, const struct Options *o, const struct Target *t) {
        grpc_channel_credentials *credentials _cleanup_(grpc_channel_credentials_releasep) = NULL;
        char *target _cleanup_free_ = NULL;
        grpc_arg args[16];
        grpc_channel_args list = { .num_args = channel_arguments(args), .args = args };
        int r;

        if (o->plaintext && !is_loopback(t->host))
                return console_fault("--plaintext is for this machine only (127.0.0.1, [::1], localhost); %s needs TLS", c->server);
        if (o->plaintext)
                credentials = grpc_insecure_credentials_create();
        else {
                r = tls_credentials(o, &credentials);
                if (r != 0)
                        return r;
        }
        c->tls = !o->plaintext;
        if (c->tls)
                tls_fault_listen();
        if (asprintf(&target, strchr(t->host, ':') ? "dns:///[%s]:%s" : "dns:///%s:%s", t->host, t->port) < 0) {
                target = NULL;
                return console_fault("out of memory");
        }
        c->channel = grpc_channel_create(target, credentials, &list);
        if (!c->channel || await_ready(c, now_monotonic() + CONNECT_DEADLINE) < 0)
                return fault_tcp(c, o, t);
        return 0;
}

static int channel_init(struct Channel *c, const char *server) {
        pthread_condattr_t attributes;

        (void) pthread_mutex_init(&c->lock, NULL);
        (void) pthread_condattr_init(&attributes);
        (void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void) pthread_cond_init(&c->changed, &attributes);
        (void) pthread_condattr_destroy(&attributes);
        c->server = strdup(server);
        if (!c->server)
                return -ENOMEM;
        tls_fault_init();
        /* Names mean what they mean to every other program here: nsswitch.conf, the hosts file. */
        (void) setenv("GRPC_DNS_RESOLVER", "native", 0);
        grpc_init();
        c->queue = grpc_completion_queue_create_for_next(NULL);
        if (pthread_create(&c->pump, NULL, pump_run, c) != 0)
                return -EAGAIN;
        c->pump_runs = true;
        return 0;
}

int channel_open(const struct Options *o, struct Channel **ret) {
        struct Channel *c _cleanup_(channel_closep) = NULL;
        struct Target target _cleanup_(target_done) = {};
        const char *server = o->server ? o->server : SERVER_DEFAULT;
        int r;

        if (target_parse(server, &target) < 0)
                return console_fault("--server %s: say unix:PATH or HOST:PORT ([V6]:PORT for an IPv6 address)", server);
        if (o->tls_flag && (target.path || o->plaintext))
                return console_fault("%s is for TLS, which is not used %s; leave it out, or say --server HOST:PORT%s", o->tls_flag,
                                     target.path ? "over a Unix socket" : "with --plaintext", target.path ? "" : " without --plaintext");
        if (o->plaintext && target.path)
                return console_fault("--plaintext is for TCP, and %s is a Unix socket, which needs none; leave it out", server);
        c = calloc(1, sizeof(*c));
        if (!c)
                return console_fault("out of memory");
        r = channel_init(c, server);
        if (r < 0)
                return console_fault("cannot start: %s", strerror(-r));
        r = target.path ? open_unix(c, &target) : open_tcp(c, o, &target);
        if (r != 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

struct Channel *channel_close(struct Channel *c) {
        if (!c)
                return NULL;
        if (c->channel)
                grpc_channel_destroy(c->channel);
        if (c->queue) {
                grpc_completion_queue_shutdown(c->queue);
                if (c->pump_runs)
                        (void) pthread_join(c->pump, NULL);
                grpc_completion_queue_destroy(c->queue);
                grpc_shutdown();
        }
        (void) pthread_cond_destroy(&c->changed);
        (void) pthread_mutex_destroy(&c->lock);
        free(c->server);
        free(c);
        return NULL;
}
