/* What the wall costs a program: loading the filter of system calls, and calls with and without it. Prints one JSON object, times in nanoseconds.
 *
 *   wall POLICY ROUNDS */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "spawner/policy.h"
#include "spawner/steps/seccomp-program.h"
#include "spawner/steps/steps.h"

#define CALLS 200000

struct Measures {
        double load, getpid, read, ioctl;
};

static uint64_t nanoseconds(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

#define PER_CALL(call)                                                    \
        ({                                                                \
                uint64_t began = nanoseconds();                           \
                for (int i = 0; i < CALLS; i++)                           \
                        (void) (call);                                    \
                (double) (nanoseconds() - began) / CALLS;                 \
        })

/* In a process of its own: what is loaded stays. */
static int measure_here(struct StepContext *c, bool walled, struct Measures *ret) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC), pipe_fds[2], n;
        char byte;

        if (null < 0 || pipe(pipe_fds) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        if (walled) {
                int r = step_landlock(c);
                uint64_t began = nanoseconds();
                if (r >= 0)
                        r = step_seccomp(c);
                if (r < 0)
                        return r;
                ret->load = (double) (nanoseconds() - began);
        }
        ret->getpid = PER_CALL(syscall(SYS_getpid));
        ret->read = PER_CALL(syscall(SYS_read, null, &byte, 1));
        ret->ioctl = PER_CALL(syscall(SYS_ioctl, pipe_fds[0], FIONREAD, &n));
        return 0;
}

static int measure(struct StepContext *c, bool walled, struct Measures *ret) {
        int fds[2], status;

        if (pipe(fds) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                struct Measures m = {};
                int r = measure_here(c, walled, &m);
                if (r >= 0 && write(fds[1], &m, sizeof(m)) != (ssize_t) sizeof(m))
                        r = -EIO;
                _exit(r < 0 ? -r : 0);
        }
        close_fd(fds[1]);
        ssize_t n = read(fds[0], ret, sizeof(*ret));
        close_fd(fds[0]);
        if (waitpid(pid, &status, 0) < 0 || n != (ssize_t) sizeof(*ret))
                return WIFEXITED(status) && WEXITSTATUS(status) ? -WEXITSTATUS(status) : -EIO;
        return 0;
}

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

static double part(double *values, size_t n, size_t percent) {
        qsort(values, n, sizeof(*values), compare);
        return values[MIN(n - 1, n * percent / 100)];
}

static int run(struct StepContext *c, size_t rounds, bool walled, const char *name) {
        double *values[4] = {};
        struct Measures m;
        int r = 0;

        for (size_t k = 0; k < ELEMENTSOF(values); k++)
                values[k] = calloc(rounds, sizeof(double));
        for (size_t i = 0; i < rounds && r >= 0; i++) {
                r = measure(c, walled, &m);
                const double all[] = { m.load, m.getpid, m.read, m.ioctl };
                for (size_t k = 0; k < ELEMENTSOF(values); k++)
                        values[k][i] = all[k];
        }
        if (r >= 0)
                printf("\"%s\": {\"load_p50\": %.0f, \"load_p99\": %.0f, \"getpid\": %.1f, \"read\": %.1f, \"ioctl\": %.1f}", name,
                       part(values[0], rounds, 50), part(values[0], rounds, 99), part(values[1], rounds, 50), part(values[2], rounds, 50),
                       part(values[3], rounds, 50));
        for (size_t k = 0; k < ELEMENTSOF(values); k++)
                free(values[k]);
        return r;
}

int main(int argc, char **argv) {
        struct Policy *policy _cleanup_(policy_freep) = NULL;
        struct SeccompProgram program _cleanup_(seccomp_program_done) = {};
        struct StepContext c = { .seccomp = &program, .landlock_abi = landlock_abi() };
        char *error _cleanup_free_ = NULL;

        if (argc != 3 || atoi(argv[2]) < 1) {
                fputs("wall POLICY ROUNDS\n", stderr);
                return 2;
        }
        uint64_t began = nanoseconds();
        int r = policy_load(argv[1], &policy, &error);
        if (r >= 0)
                r = seccomp_program_compile(policy, false, &program, &error);
        if (r < 0) {
                fprintf(stderr, "wall: %s\n", error ? error : strerror(-r));
                return 1;
        }
        printf("{\"compile\": %.0f, \"instructions\": %u, ", (double) (nanoseconds() - began), program.n);
        r = run(&c, (size_t) atoi(argv[2]), false, "without");
        printf(", ");
        if (r >= 0)
                r = run(&c, (size_t) atoi(argv[2]), true, "with");
        puts("}");
        if (r < 0)
                fprintf(stderr, "wall: %s\n", strerror(-r));
        return r < 0 ? 1 : 0;
}
