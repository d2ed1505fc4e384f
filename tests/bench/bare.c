/* The comparison of ./dev bench: a command without Glovebox, started by posix_spawn() again and again, its output read to the end.
 *
 *   bare [--callers N] [--count N] [--seconds S] [--rate R] [--samples] -- COMMAND [ARGUMENT...]
 *
 * A time is that from before posix_spawn() until the output's end was read and the process was waited for. Each caller is a thread; with --rate
 * (one caller) runs begin at fixed times, else each begins when the last one has ended. Its standard input is /dev/null; a run that prints nothing
 * or exits with another status than 0 is an error. Prints one JSON object. */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "common/util.h"

#define CALLERS_MAX 256
#define SAMPLES_MAX (1u << 18)

static struct {
        char **command;
        unsigned callers, count, rate;
        double seconds;
        bool samples;
} options = { .callers = 1 };

static uint64_t began, end; /* CLOCK_MONOTONIC, nanoseconds; end 0: no bound by time */
static uint64_t *samples;
static _Atomic unsigned n_begun, n_samples, n_errors;

__attribute__((noreturn)) static void fail(const char *what) {
        (void) fprintf(stderr, "bare: %s\n", what);
        exit(1);
}

static uint64_t now_ns(void) {
        struct timespec t;
        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Its standard output and error go into the pipe, which closes by itself in every other process that is started meanwhile. */
static pid_t start(int out) {
        posix_spawn_file_actions_t actions;
        pid_t pid;

        (void) posix_spawn_file_actions_init(&actions);
        (void) posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        (void) posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        (void) posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
        int r = posix_spawnp(&pid, options.command[0], &actions, NULL, options.command, environ);
        (void) posix_spawn_file_actions_destroy(&actions);
        if (r != 0) {
                errno = r;
                perror(options.command[0]);
                exit(1);
        }
        return pid;
}

static bool run_once(void) {
        char buffer[65536];
        ssize_t n, first = 0;
        int pipe_fds[2], status;

        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                fail("no pipe");
        pid_t pid = start(pipe_fds[1]);
        (void) close(pipe_fds[1]);
        while ((n = read(pipe_fds[0], buffer, sizeof buffer)) > 0)
                first = first ? first : n;
        (void) close(pipe_fds[0]);
        if (waitpid(pid, &status, 0) != pid)
                fail("waitpid failed");
        bool ok = status == 0 && first > 0;
        if (!ok && n_errors++ == 0)
                (void) fprintf(stderr, "first error: wait status %d: %.*s\n", status, (int) MIN(first, 200), buffer);
        return ok;
}

static void wait_for(uint64_t when) {
        struct timespec t = { .tv_sec = (time_t) (when / 1000000000u), .tv_nsec = (long) (when % 1000000000u) };
        (void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *caller(void *unused) {
        for (;;) {
                unsigned i = n_begun++;
                if ((options.count > 0 && i >= options.count) || (end > 0 && now_ns() >= end))
                        return NULL;
                if (options.rate > 0)
                        wait_for(began + (uint64_t) i * 1000000000u / options.rate);
                uint64_t from = now_ns();
                if (!run_once())
                        continue;
                uint64_t took = now_ns() - from;
                unsigned at = n_samples++;
                if (at < SAMPLES_MAX)
                        samples[at] = took;
        }
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
        return x < y ? -1 : x > y;
}

static double percentile_us(unsigned n, double p) {
        return n > 0 ? (double) samples[(size_t) (p * (double) (n - 1))] / 1000 : 0;
}

static double cpu_us(int who) {
        struct rusage u;
        (void) getrusage(who, &u);
        return (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void print(double seconds) {
        unsigned n = MIN(n_samples, SAMPLES_MAX);

        qsort(samples, n, sizeof *samples, compare);
        printf("{\"count\": %u, \"errors\": %u, \"seconds\": %.3f, \"cpu_us\": %.0f, \"starter_cpu_us\": %.0f, \"p50_us\": %.1f, \"p90_us\": %.1f, "
               "\"p99_us\": %.1f, \"max_us\": %.1f",
               n, n_errors, seconds, cpu_us(RUSAGE_CHILDREN), cpu_us(RUSAGE_SELF), percentile_us(n, .5), percentile_us(n, .9), percentile_us(n, .99),
               percentile_us(n, 1));
        if (options.samples) {
                printf(", \"samples_us\": [");
                for (unsigned i = 0; i < n; i++)
                        printf("%s%.1f", i > 0 ? ", " : "", (double) samples[i] / 1000);
                printf("]");
        }
        printf("}\n");
}

static double number(const char *s) {
        char *stop;
        double v = strtod(s, &stop);
        if (*stop || stop == s || !(v > 0))
                fail("an option's value is not a number above 0");
        return v;
}

static void parse(int argc, char **argv) {
        static const struct option table[] = {
                { "callers", required_argument, NULL, 'c' }, { "count", required_argument, NULL, 'n' }, { "seconds", required_argument, NULL, 's' },
                { "rate", required_argument, NULL, 'r' },    { "samples", no_argument, NULL, 'A' },     {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "+", table, NULL)) >= 0) {
                switch (c) {
                case 'c': options.callers = (unsigned) number(optarg); break;
                case 'n': options.count = (unsigned) number(optarg); break;
                case 's': options.seconds = number(optarg); break;
                case 'r': options.rate = (unsigned) number(optarg); break;
                case 'A': options.samples = true; break;
                default: exit(1);
                }
        }
        options.command = argv + optind;
        if (!options.command[0] || options.callers > CALLERS_MAX || (options.rate > 0 && options.callers > 1) ||
            (options.count == 0 && !(options.seconds > 0)))
                fail("usage: bare [--callers N] [--count N] [--seconds S] [--rate R] [--samples] -- COMMAND [ARGUMENT...]");
}

int main(int argc, char **argv) {
        pthread_t threads[CALLERS_MAX];

        parse(argc, argv);
        samples = calloc(SAMPLES_MAX, sizeof *samples);
        if (!samples)
                fail("out of memory");
        began = now_ns();
        end = options.seconds > 0 ? began + (uint64_t) (options.seconds * 1e9) : 0;
        for (unsigned i = 0; i < options.callers; i++)
                if (pthread_create(&threads[i], NULL, caller, NULL) != 0)
                        fail("no thread");
        for (unsigned i = 0; i < options.callers; i++)
                (void) pthread_join(threads[i], NULL);
        print((double) (now_ns() - began) / 1e9);
        free(samples);
        return n_errors > 0;
}
