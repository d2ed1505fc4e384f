/* gloveboxd: the unprivileged process that speaks gRPC. Reads its arguments and config, gives up root, then serves. */
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sysexits.h>

#include "common/config-check.h"
#include "common/log.h"
#include "server/confine.h"
#include "server/server.h"

static const char help[] =
        "gloveboxd [OPTIONS]\n"
        "\n"
        "Serves Glovebox over gRPC: runs code in sealed cells, which glovebox-spawner makes.\n"
        "\n"
        "  --config FILE    configuration (default: /etc/glovebox/glovebox.conf)\n"
        "  --listen ADDR    unix:PATH, HOST:PORT or [ADDRESS]:PORT (TLS); may be repeated; replaces\n"
        "                   `listen` of the configuration. Sockets that systemd passes are served, too\n"
        "  --passed-only    serve no other sockets than those that were passed (LISTEN_FDS)\n"
        "  --spawner PATH   socket of the spawner (default: spawner.sock in the state folder)\n"
        "  --state DIR      the spawner's state folder (default: /run/glovebox-spawner)\n"
        "  --check-config   only read the configuration and look for the files that it names; as root also disks and\n"
        "                   roots, and whether certificates and audit file open for the server's user; exit status 78\n"
        "                   and one line when it is wrong. Run glovebox-spawner --check-config, too\n"
        "  --help           this text\n"
        "  --version        the version\n"
        "\n"
        "SIGHUP reads configuration and certificates again; SIGTERM lets running executions end first.\n"
        "Started as root it becomes the user `glovebox`, or the configured spare-uid, before anything else.\n"
        "To start server and spawner together by hand, use glovebox-standalone.\n";

struct Arguments {
        char *config, *spawner, *state;
        char **listen;
        bool passed_only, check_config;
};

static void arguments_done(struct Arguments *a) {
        free(a->config);
        free(a->spawner);
        free(a->state);
        strv_free(a->listen);
}

static int set_string(char **s, const char *value) {
        char *copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        free(*s);
        *s = copy;
        return 0;
}

/* 1 = go on, 0 = done, negative = wrong. */
static int parse_arguments(int argc, char **argv, struct Arguments *a) {
        static const struct option options[] = {
                { "config", required_argument, NULL, 'c' },  { "listen", required_argument, NULL, 'l' },
                { "spawner", required_argument, NULL, 's' }, { "state", required_argument, NULL, 'd' },
                { "passed-only", no_argument, NULL, 'p' },   { "check-config", no_argument, NULL, 'C' },
                { "help", no_argument, NULL, 'h' },          { "version", no_argument, NULL, 'v' },
                {},
        };
        int r = 0;

        for (int c; r >= 0 && (c = getopt_long(argc, argv, "hc:", options, NULL)) >= 0;)
                switch (c) {
                case 'c':
                        r = set_string(&a->config, optarg);
                        break;
                case 'l':
                        r = strv_extend(&a->listen, optarg);
                        break;
                case 's':
                        r = set_string(&a->spawner, optarg);
                        break;
                case 'd':
                        r = set_string(&a->state, optarg);
                        break;
                case 'p':
                        a->passed_only = true;
                        break;
                case 'C':
                        a->check_config = true;
                        break;
                case 'h':
                        fputs(help, stdout);
                        return 0;
                case 'v':
                        puts("gloveboxd " GLOVEBOX_VERSION);
                        return 0;
                default: /* getopt has said what is wrong */
                        fputs("See gloveboxd --help.\n", stderr);
                        return -EINVAL;
                }
        if (r >= 0 && optind < argc) {
                fprintf(stderr, "gloveboxd: '%s' is not an option; see gloveboxd --help\n", argv[optind]);
                return -EINVAL;
        }
        if (r >= 0 && !a->spawner && asprintf(&a->spawner, "%s/spawner.sock", a->state ? a->state : "/run/glovebox-spawner") < 0)
                return -ENOMEM;
        return r < 0 ? r : 1;
}

/* Root is given up for good: ids, groups, and no way to get anything back by exec. */
static int drop_privileges(const struct Config *config) {
        uid_t uid;
        gid_t gid;

        if (getuid() == 0 || geteuid() == 0) {
                config_server_ids(config, &uid, &gid);
                if (uid == 0 || gid == 0)
                        return -EINVAL;
                if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                        return -errno;
                if (setuid(0) == 0)
                        return -EPERM;
        }
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -errno;
        return 0;
}

/* Before the first thread: all threads inherit the mask, and the event loop gets the signals. */
static int block_signals(void) {
        sigset_t set;

        (void) signal(SIGPIPE, SIG_IGN);
        if (sigemptyset(&set) < 0 || sigaddset(&set, SIGTERM) < 0 || sigaddset(&set, SIGINT) < 0 || sigaddset(&set, SIGHUP) < 0)
                return -errno;
        return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

/* Disks and roots by root alone: the service, which checks before it reloads, has a /dev of its own. Then what the server's user must be able
 * to open; of other users that would say nothing. */
static int check_config(const struct ServerOptions *options, struct Config *config) {
        char *error _cleanup_free_ = NULL;
        int r = geteuid() == 0 ? config_check_machine(config, &error) : 0;
        uid_t uid;
        gid_t gid;

        config_server_ids(config, &uid, &gid);
        if (r >= 0)
                r = drop_privileges(config);
        if (r >= 0)
                r = server_check(options, config, geteuid() == uid, &error);
        if (r < 0)
                (void) log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "%s", error ? error : strerrordesc_np(-r));
        return r < 0 ? EX_CONFIG : EXIT_SUCCESS;
}

/* Before root is given up and before there are threads. */
static int take_priority(const struct Config *config) {
        enum Priority p = config->server_priority;
        int r = priority_take(p, false);

        if (r == -EPERM) {
                char *cure _cleanup_free_ = priority_cure(p, "server", "gloveboxd");
                return log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "%s", strempty(cure));
        }
        if (r < 0)
                return log_error_errno(r, "Failed to take the priority %s: %m", priority_to_string(p));
        if (p != PRIORITY_NORMAL)
                log_info("Runs with priority %s", priority_to_string(p));
        return 0;
}

static int run(const struct Arguments *a) {
        struct ServerOptions options = { .config_file = a->config, .spawner = a->spawner, .listen = a->listen, .passed_only = a->passed_only };
        struct Config *config _cleanup_(config_freep) = NULL;
        struct Server *server _cleanup_(server_freep) = NULL;
        char *error _cleanup_free_ = NULL;

        int r = config_load(a->config, &config, &error);
        if (r < 0) {
                (void) log_event(LOG_ERR, MESSAGE_CONFIG_REFUSED, r, NULL, "%s", error ? error : strerrordesc_np(-r));
                return EX_CONFIG;
        }
        if (a->check_config)
                return check_config(&options, config);
        if (take_priority(config) < 0)
                return EX_CONFIG;
        r = drop_privileges(config);
        if (r < 0) {
                log_error_errno(r, "Failed to give up root: %m");
                return EXIT_FAILURE;
        }
        r = confine_self();
        if (r < 0) {
                log_error_errno(r, "Failed to confine the server by seccomp (the kernel needs CONFIG_SECCOMP_FILTER): %m");
                return EXIT_FAILURE;
        }
        r = block_signals();
        if (r >= 0)
                r = server_new(&options, TAKE_PTR(config), &server, &error);
        if (r < 0) {
                log_error("Failed to start: %s", error ? error : strerrordesc_np(-r));
                return error ? EX_CONFIG : EXIT_FAILURE;
        }
        r = server_run(server);
        if (r < 0)
                log_error_errno(r, "The event loop failed: %m");
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* One heap for all threads: they take turns, and what one has freed is what the other needs next. A heap of a thread's own would grow by a page and a
 * system call each, for executions that are kept. */
static void set_up_memory(void) {
        (void) mallopt(M_ARENA_MAX, 1);
        (void) mallopt(M_TOP_PAD, 1 << 20);
}

int main(int argc, char **argv) {
        struct Arguments arguments _cleanup_(arguments_done) = {};

        set_up_memory();

        log_open("gloveboxd");
        int r = parse_arguments(argc, argv, &arguments);
        if (r < 0)
                return EX_USAGE;
        if (r == 0)
                return EXIT_SUCCESS;
        r = run(&arguments);
        if (r != EXIT_SUCCESS)
                log_settle();
        return r;
}
