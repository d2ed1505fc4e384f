/* glovebox-standalone: starts and restarts server and spawner where systemd does not. */
#include <getopt.h>
#include <stdio.h>
#include <sysexits.h>

#include "common/log.h"
#include "standalone/standalone.h"

static const char help_text[] =
        "Usage: glovebox-standalone [--listen ADDRESS]... [--state DIR] [--config FILE] [--waive LIST]\n"
        "\n"
        "Runs Glovebox without systemd: starts gloveboxd (as an unprivileged user) and\n"
        "glovebox-spawner, restarts them when they fail, and stops them in order on\n"
        "SIGTERM or Ctrl-C. Must be started as root. Prints \"ready: ADDRESS\" on standard\n"
        "output once clients can connect; everything else goes to standard error.\n"
        "\n"
        "  --listen ADDRESS  unix:/PATH, HOST:PORT or [ADDRESS]:PORT; may be repeated.\n"
        "                    Default: the config's, unix:/run/glovebox/glovebox.sock\n"
        "  --state DIR       folder for sockets and locks, made when missing.\n"
        "                    Default: /run/glovebox\n"
        "  --config FILE     default: /etc/glovebox/glovebox.conf, which may be missing\n"
        "  --waive LIST      cgroup controllers that may be missing on this machine, such as\n"
        "                    memory,pids,cpu,io: code then runs without those limits. Also\n"
        "                    layers of the wall, as glovebox-spawner --check names them\n"
        "  --debug-seccomp   system calls that code is denied go to the kernel's log\n"
        "  --help, --version\n"
        "\n"
        "Signals: SIGHUP reloads the configuration; a second SIGTERM does not wait for\n"
        "running executions.\n"
        "\n"
        "Example: glovebox-standalone --listen unix:/tmp/gb/api.sock --state /tmp/gb\n"
        "         glovebox --server unix:/tmp/gb/api.sock run -c 'print(1)' --runtime python\n";

/* 0 = go on, 1 = done, -EINVAL = wrong. */
static int parse_arguments(int argc, char **argv, struct Options *o) {
        enum {
                LISTEN = 256,
                STATE,
                CONFIG,
                WAIVE,
                DEBUG_SECCOMP,
        };
        static const struct option options[] = {
                { "config", required_argument, NULL, CONFIG },
                { "debug-seccomp", no_argument, NULL, DEBUG_SECCOMP },
                { "help", no_argument, NULL, 'h' },
                { "listen", required_argument, NULL, LISTEN },
                { "state", required_argument, NULL, STATE },
                { "version", no_argument, NULL, 'V' },
                { "waive", required_argument, NULL, WAIVE },
                {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "hV", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        (void) fputs(help_text, stdout);
                        return 1;
                case 'V':
                        (void) puts("glovebox-standalone " GLOVEBOX_VERSION);
                        return 1;
                case LISTEN:
                        if (strv_extend(&o->listen, optarg) < 0)
                                return -ENOMEM;
                        break;
                case STATE:
                        o->state = optarg;
                        break;
                case CONFIG:
                        o->config = optarg;
                        break;
                case WAIVE:
                        o->waive = optarg;
                        break;
                case DEBUG_SECCOMP:
                        o->debug_seccomp = true;
                        break;
                default: /* getopt has said what is wrong */
                        (void) fputs("See glovebox-standalone --help.\n", stderr);
                        return -EINVAL;
                }
        if (optind < argc) {
                log_error("'%s' is not an option; see --help", argv[optind]);
                return -EINVAL;
        }
        if (o->state[0] != '/') {
                log_error("--state must be an absolute path, not '%s'", o->state);
                return -EINVAL;
        }
        return 0;
}

static int run(const struct Options *options) {
        struct Standalone standalone;
        int r;

        if (geteuid() != 0) {
                log_error("Must be started as root, to make namespaces and cgroups; the server itself then runs as an unprivileged user");
                return EX_NOPERM;
        }
        r = standalone_init(&standalone, options);
        if (r == 0)
                r = standalone_run(&standalone);
        standalone_done(&standalone);
        return r < 0 ? EXIT_FAILURE : r;
}

int main(int argc, char **argv) {
        struct Options options = { .state = "/run/glovebox" };
        int r;

        log_open("glovebox-standalone");
        r = parse_arguments(argc, argv, &options);
        if (r == 0)
                r = run(&options);
        else
                r = r < 0 ? EX_USAGE : EXIT_SUCCESS;
        strv_free(options.listen);
        return r;
}
