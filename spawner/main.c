/* glovebox-spawner: arguments, configuration, the event loop and signals. */
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#include "common/log.h"
#include "spawner/check.h"
#include "spawner/layers.h"
#include "spawner/machine.h"
#include "spawner/probing.h"
#include "spawner/reload.h"

#define OPEN_FILES 65536

static const char *arg_config;
static const char *arg_state = "/run/glovebox-spawner";
static char **arg_waive;
static bool arg_check, arg_check_config, arg_json, arg_debug_seccomp;

struct Main {
        sd_event *event;
        struct Config *config;
        char **waive;
        struct Spawner *spawner;
        struct Layers layers;
        int lock;
};

static void help(void) {
        puts("glovebox-spawner [OPTIONS]\n\n"
             "Makes, keeps and destroys the cells of a Glovebox server. Needs root, serves nobody but the server.\n\n"
             "  --config FILE   configuration (default: /etc/glovebox/glovebox.conf, which may be missing)\n"
             "  --state DIR     folder for its lock and its socket (default: /run/glovebox-spawner)\n"
             "  --waive LIST    run without these layers of the wall, or where the machine has not these cgroup controllers: names as\n"
             "                  --check shows them, such as memory,pids,cpu,io\n"
             "  --debug-seccomp every system call that a cell is denied goes to the kernel's log (journalctl -k, audit type 1326)\n"
             "  --check         make cells, attack each layer from inside, print what holds, what does not, why and what helps;\n"
             "                  exit status 0: every layer that is not waived is in force; 1: not\n"
             "  --json          the same as JSON\n"
             "  --check-config  only read the configuration: files, disks and roots that it names are there, and the policy of system calls\n"
             "                  compiles; needs no privilege and starts nothing; exit status 78 and one line when it is wrong. What the\n"
             "                  server needs is looked at by gloveboxd --check-config: run both\n"
             "  --help, --version\n\n"
             "It takes its listening socket (SOCK_SEQPACKET) from LISTEN_FDS; without one it makes DIR/spawner.sock.");
}

/* A name that is not known must not pass for a waiver. Those of the configuration were looked at when it was read. */
static int add_waive(const char *word) {
        const char *why = layer_refuse_waiver(word);
        if (!why)
                return strv_contains(arg_waive, word) ? 0 : strv_extend(&arg_waive, word);
        fprintf(stderr, "glovebox-spawner: --waive: \"%s\" %s\n", word, why);
        return -EINVAL;
}

static int parse_waive(const char *list) {
        _cleanup_free_ char *copy = strdup(list);
        char *save = NULL;
        if (!copy)
                return -ENOMEM;
        for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
                int r = add_waive(word);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* For the tests of --check alone: layers that cells are made without while nothing says so, which the probes have to find out. It can
 * only make the start fail. */
static uint32_t broken_layers(void) {
        _cleanup_free_ char *copy = strdup(strempty(getenv("GLOVEBOX_TEST_BREAK")));
        uint32_t broken = 0;
        char *save = NULL;
        for (char *word = copy ? strtok_r(copy, ",", &save) : NULL; word; word = strtok_r(NULL, ",", &save)) {
                enum Layer layer = layer_by_name(word);
                if (layer != LAYER_NONE && layer_is_optional(layer) && !layer_is_controller(layer))
                        broken |= LAYER_BIT(layer);
        }
        return broken;
}

/* 1 = go on, 0 = done, negative: wrong. */
static int parse_args(int argc, char **argv) {
        enum { CONFIG = 256, STATE, WAIVE, DEBUG_SECCOMP, CHECK, CHECK_CONFIG, JSON, HELP, VERSION };
        static const struct option options[] = {
                {"config", required_argument, NULL, CONFIG}, {"state", required_argument, NULL, STATE}, {"waive", required_argument, NULL, WAIVE},
                {"check", no_argument, NULL, CHECK},         {"json", no_argument, NULL, JSON},         {"help", no_argument, NULL, HELP},
                {"version", no_argument, NULL, VERSION},     {"debug-seccomp", no_argument, NULL, DEBUG_SECCOMP},
                {"check-config", no_argument, NULL, CHECK_CONFIG},          {},
        };
        int o;
        while ((o = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (o) {
                case CONFIG:
                        arg_config = optarg;
                        break;
                case STATE:
                        arg_state = optarg;
                        break;
                case WAIVE:
                        if (parse_waive(optarg) < 0)
                                return -EINVAL;
                        break;
                case DEBUG_SECCOMP:
                        arg_debug_seccomp = true;
                        break;
                case CHECK:
                        arg_check = true;
                        break;
                case CHECK_CONFIG:
                        arg_check_config = true;
                        break;
                case JSON:
                        arg_json = true;
                        break;
                case 'h':
                case HELP:
                        help();
                        return 0;
                case VERSION:
                        puts("glovebox-spawner " GLOVEBOX_VERSION);
                        return 0;
                default:
                        return -EINVAL;
                }
        if (arg_json && !arg_check) {
                fputs("glovebox-spawner: --json goes with --check; see --help\n", stderr);
                return -EINVAL;
        }
        if (arg_check && arg_check_config) {
                fputs("glovebox-spawner: --check and --check-config are two things; see --help\n", stderr);
                return -EINVAL;
        }
        if (optind < argc) {
                fprintf(stderr, "glovebox-spawner: unexpected argument \"%s\"; see --help\n", argv[optind]);
                return -EINVAL;
        }
        return 1;
}

/* Numbers below 3 must not be given to anything else: they become a helper's and a cell's first descriptors. */
static int ensure_standard_fds(void) {
        int fd;
        do
                fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        while (fd >= 0 && fd < 3 && fcntl(fd, F_SETFD, 0) == 0);
        if (fd < 0)
                return -errno;
        close_fd(fd);
        return 0;
}

/* What main processes inherit and cannot raise: a core limit of exactly 1. At 0 a piped core_pattern starts the host's helper as root for
 * every crash in a cell. */
static int set_core_limit(void) {
        struct rlimit one = {1, 1};
        if (setrlimit(RLIMIT_CORE, &one) >= 0)
                return 0;
        if (machine_core_pattern() != '|')
                return 0; /* 0 is as good then */
        log_error("The hard limit for core files is 0 and cannot be raised, and kernel.core_pattern is a pipe: crashes in cells would start "
                  "the host's crash helper. Set LimitCORE=1 (ulimit -Hc 1), or a core_pattern without a pipe.");
        return -EPERM;
}

static int raise_limits(void) {
        struct rlimit now, files = {OPEN_FILES, OPEN_FILES};
        if (getrlimit(RLIMIT_NOFILE, &now) < 0)
                return -errno;
        if (now.rlim_max < OPEN_FILES && setrlimit(RLIMIT_NOFILE, &files) < 0)
                files.rlim_max = now.rlim_max; /* not ours to raise */
        files.rlim_max = files.rlim_cur = MAX(files.rlim_max, now.rlim_max);
        if (setrlimit(RLIMIT_NOFILE, &files) < 0)
                return log_error_errno(errno, "Failed to raise the limit of open files: %m");
        return set_core_limit();
}

/* Only ours: neither children nor, by the limits that allowed it, programs in cells get it. Down to the nice value 0 a limit may stay. */
static int take_priority(const struct Config *config) {
        static const struct {
                int resource;
                rlim_t most;
        } limits[] = {{RLIMIT_NICE, 20}, {RLIMIT_RTPRIO, 0}};
        enum Priority p = config->spawner_priority;
        int r = priority_take(p, true);
        if (r == -EPERM) {
                _cleanup_free_ char *cure = priority_cure(p, "spawner", "glovebox-spawner");
                return log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "%s", strempty(cure));
        }
        if (r < 0)
                return log_error_errno(r, "Failed to take the priority %s: %m", priority_to_string(p));
        if (p != PRIORITY_NORMAL)
                log_info("Runs with priority %s.", priority_to_string(p));
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                struct rlimit now;
                if (getrlimit((__rlimit_resource_t) limits[i].resource, &now) < 0)
                        return -errno;
                now.rlim_max = MIN(now.rlim_max, limits[i].most);
                now.rlim_cur = MIN(now.rlim_cur, now.rlim_max);
                if (setrlimit((__rlimit_resource_t) limits[i].resource, &now) < 0)
                        return -errno;
        }
        return 0;
}

static int lock_state(void) {
        if (mkdir(arg_state, 0755) < 0 && errno != EEXIST)
                return log_error_errno(errno, "Failed to make the state folder %s: %m", arg_state);
        _cleanup_free_ char *path = NULL;
        if (asprintf(&path, "%s/spawner.lock", arg_state) < 0)
                return -ENOMEM;
        int fd _cleanup_close_ = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return log_error_errno(errno, "Failed to open %s: %m", path);
        if (flock(fd, LOCK_EX | LOCK_NB) >= 0)
                return TAKE_FD(fd);
        if (errno != EWOULDBLOCK)
                return log_error_errno(errno, "Failed to lock %s: %m", path);
        log_error("Another spawner runs with the state folder %s; stop it, or give this one a folder of its own with --state.", arg_state);
        return -EWOULDBLOCK;
}

static int bind_listener(const struct Config *config) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        uid_t uid;
        gid_t gid;
        if ((size_t) snprintf(address.sun_path, sizeof address.sun_path, "%s/spawner.sock", arg_state) >= sizeof address.sun_path)
                return log_error_errno(ENAMETOOLONG, "The state folder's path is too long for a socket: %m");
        int fd _cleanup_close_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        config_server_ids(config, &uid, &gid);
        (void) unlink(address.sun_path); /* the lock says that nobody listens there any more */
        mode_t mask = umask(0117);
        int r = bind(fd, (struct sockaddr *) &address, sizeof address) < 0 ? -errno : 0;
        umask(mask);
        if (r >= 0 && (chown(address.sun_path, 0, gid) < 0 || listen(fd, 16) < 0))
                r = -errno;
        return r < 0 ? log_error_errno(r, "Failed to listen on %s: %m", address.sun_path) : TAKE_FD(fd);
}

static int take_listener(const struct Config *config) {
        int n = sd_listen_fds(1);
        if (n < 0)
                return log_error_errno(n, "Failed to look for sockets passed to us: %m");
        if (n == 0)
                return bind_listener(config);
        if (n > 1 || sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 1) <= 0) {
                log_error("LISTEN_FDS must pass exactly one listening Unix socket of type SOCK_SEQPACKET.");
                return -EINVAL;
        }
        int r = set_nonblock(SD_LISTEN_FDS_START, true);
        return r < 0 ? r : SD_LISTEN_FDS_START;
}

static int on_hup(sd_event_source *s, const struct signalfd_siginfo *info, void *userdata) {
        struct Main *m = userdata;
        _cleanup_free_ char *error = NULL;
        struct Config *config = NULL;
        if (!m->spawner)
                return 0; /* still starting */
        _cleanup_free_ char *changes = NULL;
        int r = config_load(arg_config, &config, &error);
        if (r >= 0) {
                config->debug_seccomp |= arg_debug_seccomp;
                r = reload_check(config, arg_waive, &error);
        }
        if (r >= 0)
                r = reload_needs_restart(m->config, config, &changes);
        if (r < 0)
                log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "Failed to reload, all that the spawner has stays as it was: %s",
                          error ? error : strerror(-r));
        else {
                spawner_reload_caps(m->spawner, config);
                if (changes)
                        log_event(LOG_NOTICE, MESSAGE_CONFIG_RESTART, 0, NULL, "Changed, and taken over when the spawner is started again: %s", changes);
                log_event(LOG_INFO, MESSAGE_CONFIG_READ, 0, NULL, "Caps were read again.");
        }
        config_free(config);
        return 0;
}

static int on_term(sd_event_source *s, const struct signalfd_siginfo *info, void *userdata) {
        struct Main *m = userdata;
        (void) sd_notify(0, "STOPPING=1");
        if (m->spawner)
                spawner_stop(m->spawner);
        else
                sd_event_exit(m->event, 0);
        return 0;
}

static int watch_signals(struct Main *m) {
        sigset_t set;
        signal(SIGPIPE, SIG_IGN);
        signal(SIGCHLD, SIG_DFL); /* ignored, it would take the wait statuses away */
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        int r = sd_event_add_signal(m->event, NULL, SIGTERM, on_term, m);
        if (r >= 0)
                r = sd_event_add_signal(m->event, NULL, SIGINT, on_term, m);
        return r < 0 ? r : sd_event_add_signal(m->event, NULL, SIGHUP, on_hup, m);
}

/* Of the flag and of the configuration. */
static int take_waive(struct Main *m) {
        int r = arg_waive && !(m->waive = strv_copy(arg_waive)) ? -ENOMEM : 0;
        for (char *const *w = m->config->waive; w && *w && r >= 0; w++)
                if (!strv_contains(m->waive, *w))
                        r = strv_extend(&m->waive, *w);
        return r;
}

static int run_check(struct Main *m) {
        log_set_max_level(LOG_ERR);
        (void) raise_limits(); /* the probes tell what comes of it */
        int r = sd_event_default(&m->event);
        if (r >= 0)
                r = watch_signals(m);
        if (r >= 0)
                r = check_run(m->config, m->event, m->waive, broken_layers(), arg_json);
        return r > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int check_config(const struct Config *config) {
        _cleanup_free_ char *error = NULL;
        int r = reload_check(config, arg_waive, &error);
        if (r < 0)
                log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "%s", error ? error : strerror(-r));
        return r < 0 ? EX_CONFIG : EXIT_SUCCESS;
}

/* Exit statuses: 78 = the config or the machine must change first, 1 = anything else. */
static int run(struct Main *m) {
        _cleanup_free_ char *error = NULL;
        int r = config_load(arg_config, &m->config, &error);
        if (r < 0) {
                log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "%s", error ? error : strerror(-r));
                return EX_CONFIG;
        }
        m->config->debug_seccomp |= arg_debug_seccomp;
        if (take_waive(m) < 0)
                return EXIT_FAILURE;
        if (arg_check_config)
                return check_config(m->config);
        if (arg_check)
                return run_check(m);
        m->lock = lock_state();
        if (m->lock < 0)
                return m->lock == -EWOULDBLOCK ? EX_CONFIG : EXIT_FAILURE;
        if (raise_limits() < 0 || take_priority(m->config) < 0)
                return EX_CONFIG;
        r = sd_event_default(&m->event);
        if (r >= 0)
                r = watch_signals(m);
        if (r < 0)
                return log_error_errno(r, "Failed to set up the event loop (must be started as root): %m"), EXIT_FAILURE;
        int listener = take_listener(m->config);
        if (listener < 0)
                return EXIT_FAILURE;
        char state[PATH_MAX];
        const struct SpawnerSetup setup = {
                .event = m->event, .config = m->config, .state = realpath(arg_state, state) ? state : arg_state,
                .waive = m->waive, .layers = &m->layers, .broken = broken_layers(), .listener = listener,
        };
        r = spawner_new(&setup, &m->spawner, &error);
        if (r < 0 && sd_event_get_state(m->event) == SD_EVENT_FINISHED) {
                log_info("Stopped before it was ready.");
                return EXIT_SUCCESS;
        }
        if (r < 0) {
                log_event(LOG_ERR, MESSAGE_SPAWNER_REFUSES, r, NULL, "%s", error ? error : strerror(-r));
                return probing_may_pass(r) ? EXIT_FAILURE : EX_CONFIG;
        }
        r = sd_event_set_watchdog(m->event, true);
        if (r < 0)
                return log_error_errno(r, "Failed to serve the watchdog: %m"), EXIT_FAILURE;
#ifdef __GLIBC__
        malloc_trim(0); /* compiling filters took most of the heap: each fork would copy its tables */
#endif
        (void) sd_notify(0, "READY=1\nSTATUS=Making cells");
        log_event(LOG_INFO, MESSAGE_SPAWNER_READY, 0, NULL, "Ready.");
        r = sd_event_loop(m->event);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        struct Main m = {.lock = -EBADF};
        int r = parse_args(argc, argv);
        if (r <= 0)
                return r < 0 ? EX_USAGE : EXIT_SUCCESS;
        if (ensure_standard_fds() < 0)
                return EXIT_FAILURE;
        log_open("glovebox-spawner");
        r = run(&m);
        if (r != EXIT_SUCCESS)
                log_settle();
        spawner_free(m.spawner);
        sd_event_unref(m.event);
        config_free(m.config);
        close_fd(m.lock);
        strv_free(m.waive);
        strv_free(arg_waive);
        return r;
}
