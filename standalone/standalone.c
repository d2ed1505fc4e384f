/* The two programs, their sockets, and the loop that keeps them running where systemd does not.
 *
 * All waiting is one poll() on a signalfd and the notify socket. The server stops first, because it drains its executions with
 * the spawner's help; a second signal does not wait for that. */
#include "standalone/standalone.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#include "common/config.h"
#include "common/log.h"
#include "common/wire.h"

#define STOP_MARGIN (10 * USEC_PER_SEC)

/* Root trusts what is in this folder: nobody else may put anything there. */
static int make_folder(const char *path, mode_t mode) {
        struct stat st;

        if (mkdir(path, mode) < 0 && errno != EEXIST)
                return log_error_errno(errno, "Cannot make the folder %s: %m", path);
        if (lstat(path, &st) < 0)
                return log_error_errno(errno, "Cannot look at %s: %m", path);
        if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0022)) {
                log_error("%s must be a folder of root's that nobody else may write: choose another --state", path);
                return -EPERM;
        }
        /* The umask may have taken away what the server's user needs: passing through. */
        return chmod(path, mode) < 0 ? log_error_errno(errno, "Cannot set the mode of %s: %m", path) : 0;
}

static int take_lock(struct Standalone *s, const char *state) {
        char *path _cleanup_free_ = NULL;

        if (asprintf(&path, "%s/standalone.lock", state) < 0)
                return -ENOMEM;
        s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (s->lock_fd < 0)
                return log_error_errno(errno, "Cannot open %s: %m", path);
        if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
                log_error("Another glovebox-standalone uses %s: stop it or choose another --state", state);
                return -EBUSY;
        }
        return 0;
}

static int open_notify(struct Standalone *s, const char *state, uid_t uid) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        const int on = 1;

        if (asprintf(&s->notify_path, "%s/notify.sock", state) < 0)
                return -ENOMEM;
        if (strlen(s->notify_path) >= sizeof(address.sun_path)) {
                log_error("The path %s is too long for a socket (107 bytes): choose a shorter --state", s->notify_path);
                return -ENAMETOOLONG;
        }
        strcpy(address.sun_path, s->notify_path);
        (void) unlink(s->notify_path);
        s->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s->notify_fd < 0 || setsockopt(s->notify_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
            bind(s->notify_fd, (const struct sockaddr *) &address, sizeof(address)) < 0 || chmod(s->notify_path, 0600) < 0 ||
            lchown(s->notify_path, uid, (gid_t) -1) < 0)
                return log_error_errno(errno, "Cannot make the socket %s: %m", s->notify_path);
        wire_refuse_descriptors(s->notify_fd);
        return 0;
}

static int open_signals(struct Standalone *s) {
        static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGCHLD };
        sigset_t mask;

        /* Ignored, SIGCHLD would take the wait statuses away, and the others would not come at all. */
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void) signal(signals[i], SIG_DFL);
        (void) sigemptyset(&mask);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void) sigaddset(&mask, signals[i]);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return log_error_errno(errno, "Cannot block signals: %m");
        s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        return s->signal_fd < 0 ? log_error_errno(errno, "Cannot make a signalfd: %m") : 0;
}

static int open_sockets(struct Standalone *s, const struct Options *options, const struct Config *config, gid_t gid) {
        char **addresses = options->listen ? options->listen : config->listen;
        int r;

        if (asprintf(&s->spawner_path, "%s/spawner.sock", options->state) < 0)
                return -ENOMEM;
        s->spawner_fd = listener_open_seqpacket(s->spawner_path, gid);
        if (s->spawner_fd < 0)
                return log_error_errno(s->spawner_fd, "Cannot listen on %s: %m", s->spawner_path);
        for (size_t i = 0; addresses[i]; i++) {
                r = listeners_add(&s->listeners, addresses[i], gid);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The programs are beside this one. */
static int set_program(struct Child *c, const char *name) {
        char *library _cleanup_free_ = NULL;
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        char *slash;
        int r;

        if (n < 0)
                return log_error_errno(errno, "Cannot read /proc/self/exe: %m");
        self[n] = '\0';
        slash = strrchr(self, '/');
        if (asprintf(&c->path, "%.*s/%s", (int) (slash - self), self, name) < 0)
                return -ENOMEM;
        c->name = name;
        c->first = true;
        r = library_dir(&library);
        if (r < 0)
                return log_error_errno(r, "There is no lib/glovebox beside %.*s: %m; install or build Glovebox again", (int) (slash - self), self);
        c->program = open(c->path, O_PATH | O_CLOEXEC);
        c->library = open(library, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->program < 0 || c->library < 0 || access(c->path, X_OK) < 0)
                return log_error_errno(errno, "Cannot start %s: %m", c->path);
        return strv_extend(&c->argv, name);
}

static int add_option(struct Child *c, const char *option, const char *value) {
        int r;

        if (!value)
                return 0;
        r = strv_extend(&c->argv, option);
        return r < 0 ? r : strv_extend(&c->argv, value);
}

static int set_spawner(struct Standalone *s, const struct Options *options) {
        struct Child *c = &s->spawner;
        char *state _cleanup_free_ = NULL;
        int r;

        if (asprintf(&state, "%s/spawner", options->state) < 0)
                return -ENOMEM;
        r = make_folder(state, 0700);
        if (r >= 0)
                r = set_program(c, "glovebox-spawner");
        if (r >= 0)
                r = add_option(c, "--state", state);
        if (r >= 0)
                r = add_option(c, "--config", options->config);
        if (r >= 0)
                r = add_option(c, "--waive", options->waive);
        if (r >= 0 && options->debug_seccomp)
                r = strv_extend(&c->argv, "--debug-seccomp");
        c->fds = &s->spawner_fd;
        c->n_fds = 1;
        c->fd_name = "spawner";
        c->notify = s->notify_path;
        c->uid = geteuid();
        c->gid = getegid();
        /* It has cells to take down. */
        c->death_signal = SIGTERM;
        return r;
}

static int set_server(struct Standalone *s, const struct Options *options, const struct Config *config, uid_t uid, gid_t gid) {
        struct Child *c = &s->server;
        int r;

        r = set_program(c, "gloveboxd");
        if (r >= 0)
                r = add_option(c, "--state", options->state);
        if (r >= 0)
                r = add_option(c, "--spawner", s->spawner_path);
        if (r >= 0)
                r = add_option(c, "--config", options->config);
        if (r >= 0)
                r = strv_extend(&c->argv, "--passed-only");
        c->priority = config->server_priority;
        c->fds = s->listeners.fds;
        c->n_fds = s->listeners.n;
        c->fd_name = "client";
        c->notify = s->notify_path;
        c->uid = uid;
        c->gid = gid;
        c->death_signal = SIGKILL;
        return r;
}

int standalone_init(struct Standalone *s, const struct Options *options) {
        struct Config *config _cleanup_(config_freep) = NULL;
        char *error _cleanup_free_ = NULL;
        uid_t uid;
        gid_t gid;
        int r;

        *s = (struct Standalone) {
                .signal_fd = -EBADF, .notify_fd = -EBADF, .lock_fd = -EBADF, .spawner_fd = -EBADF,
                .server = { .program = -EBADF, .library = -EBADF }, .spawner = { .program = -EBADF, .library = -EBADF },
        };
        r = config_load(options->config, &config, &error);
        if (r < 0) {
                log_error("%s", error ? error : strerror(-r));
                return EX_CONFIG;
        }
        config_server_ids(config, &uid, &gid);
        s->drain_deadline = config->drain_deadline;
        r = make_folder(options->state, 0755);
        if (r >= 0)
                r = take_lock(s, options->state);
        if (r >= 0)
                r = open_notify(s, options->state, uid);
        if (r >= 0)
                r = open_signals(s);
        if (r >= 0)
                r = open_sockets(s, options, config, gid);
        if (r >= 0)
                r = set_spawner(s, options);
        if (r >= 0)
                r = set_server(s, options, config, uid, gid);
        return r;
}

static void enter_phase(struct Standalone *s, enum Phase phase) {
        usec_t now = now_monotonic();

        s->phase = phase;
        switch (phase) {
        case PHASE_STOPPING_SERVER:
                s->server.restart_at = s->spawner.restart_at = USEC_INFINITY;
                s->deadline = now + s->drain_deadline + STOP_MARGIN;
                child_signal(&s->server, SIGTERM);
                break;
        case PHASE_STOPPING_SPAWNER:
                s->deadline = now + STOP_MARGIN;
                child_signal(&s->spawner, SIGTERM);
                break;
        case PHASE_RUNNING:
        case PHASE_STOPPED:
                break;
        }
}

/* Goes on as far as the two have ended. */
static void advance(struct Standalone *s) {
        if (s->phase == PHASE_STOPPING_SERVER && s->server.pid == 0)
                enter_phase(s, PHASE_STOPPING_SPAWNER);
        if (s->phase == PHASE_STOPPING_SPAWNER && s->spawner.pid == 0)
                enter_phase(s, PHASE_STOPPED);
}

static void stop(struct Standalone *s, int exit_status) {
        s->exit_status = MAX(s->exit_status, exit_status);
        if (s->phase == PHASE_RUNNING) {
                (void) sd_notify(false, "STOPPING=1");
                enter_phase(s, PHASE_STOPPING_SERVER);
        } else if (s->phase == PHASE_STOPPING_SERVER && exit_status == 0) {
                log_notice("Stopping at once, as asked a second time");
                child_signal(&s->server, SIGKILL);
        }
}

static void reap(struct Standalone *s) {
        struct Child *children[] = { &s->spawner, &s->server };
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                for (size_t i = 0; i < ELEMENTSOF(children); i++) {
                        if (children[i]->pid != pid)
                                continue;
                        if (s->phase != PHASE_RUNNING) {
                                children[i]->pid = 0;
                                continue;
                        }
                        int fatal = child_on_exit(children[i], status);
                        if (fatal > 0)
                                stop(s, fatal);
                }
        advance(s);
}

static void on_signal(struct Standalone *s) {
        struct signalfd_siginfo info;

        while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
                if (info.ssi_signo == SIGCHLD)
                        reap(s);
                else if (info.ssi_signo == SIGHUP) {
                        child_signal(&s->server, SIGHUP);
                        child_signal(&s->spawner, SIGHUP);
                } else
                        stop(s, 0);
        }
        advance(s);
}

/* From now on a caller may have taken the server over: it could send a socket along whose closing blocks us (SO_LINGER). What it says later is
 * of no interest, so nothing is received any more; and nobody who tells us something waits in vain. */
static void stop_listening(struct Standalone *s) {
        if (shutdown(s->notify_fd, SHUT_RD) < 0)
                (void) log_warning_errno(errno, "Cannot shut the notify socket: %m");
        s->notify_is_shut = true;
}

static void say_ready(struct Standalone *s) {
        s->ready = true;
        stop_listening(s);
        (void) printf("ready:");
        for (size_t i = 0; i < s->listeners.n; i++)
                (void) printf(" %s", s->listeners.addresses[i]);
        (void) printf("\n");
        (void) fflush(stdout);
        (void) sd_notify(false, "READY=1");
}

/* READY=1 alone would say that clients can connect, perhaps to hear that the spawner is missing. */
static bool says_serving(const char *message) {
        static const char word[] = "STATUS=Serving";

        for (const char *line = message; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
                if (strncmp(line, word, sizeof(word) - 1) == 0 && (line[sizeof(word) - 1] == '\n' || line[sizeof(word) - 1] == '\0'))
                        return true;
        return false;
}

static void on_notify(struct Standalone *s) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(struct ucred))];
        } control;
        char message[4096];
        struct iovec part = { message, sizeof(message) - 1 };
        struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(s->notify_fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&packet);
        struct ucred peer;

        if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS || c->cmsg_len != CMSG_LEN(sizeof(peer)))
                return;
        memcpy(&peer, CMSG_DATA(c), sizeof(peer));
        message[n] = '\0';
        if (peer.pid == s->server.pid && s->phase == PHASE_RUNNING && !s->ready && says_serving(message))
                say_ready(s);
}

static int poll_timeout(const struct Standalone *s) {
        usec_t now = now_monotonic(), next = USEC_INFINITY;

        if (s->phase == PHASE_RUNNING)
                next = MIN(s->server.restart_at, s->spawner.restart_at);
        else
                next = s->deadline;
        if (next == USEC_INFINITY)
                return -1;
        return next <= now ? 0 : (int) MIN((next - now) / USEC_PER_MSEC + 1, (usec_t) 3600000);
}

static void start_due(struct Standalone *s, struct Child *c) {
        int r;

        if (c->pid != 0 || c->restart_at > now_monotonic())
                return;
        r = child_start(c);
        if (r < 0) {
                (void) log_error_errno(r, "Cannot start %s: %m", c->name);
                c->restart_at = now_monotonic() + USEC_PER_SEC;
        }
}

static void on_time(struct Standalone *s) {
        if (s->phase == PHASE_RUNNING) {
                start_due(s, &s->spawner);
                start_due(s, &s->server);
        } else if (now_monotonic() >= s->deadline) {
                struct Child *c = s->phase == PHASE_STOPPING_SERVER ? &s->server : &s->spawner;

                log_warning("%s does not stop: killing it", c->name);
                child_signal(c, SIGKILL);
                s->deadline = now_monotonic() + STOP_MARGIN;
        }
}

int standalone_run(struct Standalone *s) {
        while (s->phase != PHASE_STOPPED) {
                struct pollfd fds[] = { { s->signal_fd, POLLIN, 0 }, { s->notify_is_shut ? -1 : s->notify_fd, POLLIN, 0 } };

                on_time(s);
                if (poll(fds, ELEMENTSOF(fds), poll_timeout(s)) < 0 && errno != EINTR)
                        return log_error_errno(errno, "Cannot wait for events: %m");
                if (fds[1].revents)
                        on_notify(s);
                if (fds[0].revents)
                        on_signal(s);
        }
        return s->exit_status;
}

void standalone_done(struct Standalone *s) {
        listeners_done(&s->listeners);
        s->spawner_fd = close_fd(s->spawner_fd);
        /* What lies unread in the notify socket may be made to block its closing, but not our exit, which closes it. */
        s->signal_fd = close_fd(s->signal_fd);
        if (s->lock_fd >= 0 && s->spawner_path)
                (void) unlink(s->spawner_path);
        if (s->lock_fd >= 0 && s->notify_path)
                (void) unlink(s->notify_path);
        free(s->spawner_path);
        free(s->notify_path);
        child_done(&s->server);
        child_done(&s->spawner);
        s->lock_fd = close_fd(s->lock_fd);
}
