/* What all attack programs share: each attempt prints one line, "refused NAME ERRNO" or "ESCAPED NAME", and the last line counts them. */
#pragma once

/* Compiled with -D_GNU_SOURCE. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int attempts, escapes;

static inline void escaped(const char *format, ...) {
        va_list arguments;
        attempts++;
        escapes++;
        printf("ESCAPED ");
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        printf("\n");
        fflush(stdout);
}

/* result: what the call gave; at least 0 means that it worked. */
static inline bool attempt(const char *name, long result) {
        int error = errno;
        if (result >= 0) {
                escaped("%s (%ld)", name, result);
                return true;
        }
        attempts++;
        printf("refused %s %s\n", name, strerrorname_np(error) ? strerrorname_np(error) : "?");
        fflush(stdout);
        return false;
}

/* For what some machines cannot do in any case: only the refusal with this errno counts. */
static inline bool attempt_because(const char *name, long result, int error) {
        if (result < 0 && errno != error) {
                escaped("%s (it was not refused, but failed: %s)", name, strerror(errno));
                return true;
        }
        return attempt(name, result);
}

/* For what may end the process or change it for good: run() in a child tells by its exit status, 0 = it worked, else an errno. */
static inline bool attempt_apart(const char *name, int (*run)(void *argument), void *argument) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
                _exit(run(argument));
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
                printf("broken %s: %s\n", name, strerror(errno));
                exit(2);
        }
        if (WIFSIGNALED(status)) {
                attempts++;
                printf("refused %s SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
                fflush(stdout);
                return false;
        }
        errno = WEXITSTATUS(status);
        return attempt(name, errno == 0 ? 0 : -1);
}

/* The exit status for attempt_apart. */
static inline int outcome(long result) {
        return result >= 0 ? 0 : errno ? errno : EPERM;
}

/* Opens for real, so that a path that cannot even be read is told apart from one that cannot be written. */
static inline bool attempt_open(const char *path, int flags) {
        char name[PATH_MAX + 32];
        snprintf(name, sizeof name, "open %s %s", path, (flags & O_ACCMODE) == O_RDONLY ? "to read" : "to write");
        int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        bool worked = attempt(name, fd);
        if (fd >= 0)
                close(fd);
        return worked;
}

static inline int finish(void) {
        printf("%d attempts\n", attempts);
        return escapes ? 1 : 0;
}
