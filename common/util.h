/* Small things every program here uses: cleanup attributes, time, strings.
 *
 * Errors are negative errno ("broke": pass it on) or positive ("an answer": handle it). Out-parameters are written only on
 * success. Free functions take NULL and return NULL. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef uint64_t usec_t;

#define USEC_INFINITY UINT64_MAX
#define USEC_PER_MSEC ((usec_t) 1000)
#define USEC_PER_SEC ((usec_t) 1000000)
#define NSEC_PER_USEC ((uint64_t) 1000)

#define KIB ((uint64_t) 1024)
#define MIB (KIB * KIB)
#define GIB (MIB * KIB)

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))
/* Each use has variables of its own, so that they nest. */
#define UNIQUE__(name, n) name##n
#define UNIQUE_(name, n) UNIQUE__(name, n)
#define MINMAX_(op, a, b, x, y) ({ typeof(a) x = (a); typeof(b) y = (b); x op y ? x : y; })
#define MIN_(a, b, n) MINMAX_(<, a, b, UNIQUE_(x_, n), UNIQUE_(y_, n))
#define MAX_(a, b, n) MINMAX_(>, a, b, UNIQUE_(x_, n), UNIQUE_(y_, n))
#define MIN(a, b) MIN_(a, b, __COUNTER__)
#define MAX(a, b) MAX_(a, b, __COUNTER__)
#define CLAMP(x, low, high) MIN(MAX(x, low), high)
#define CONTAINER_OF(ptr, type, member) ((type *) ((char *) (ptr) - offsetof(type, member)))

#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

/* char *p _cleanup_(freep) = strdup(...);  the function is called with the variable's address when it leaves its scope. */
/* unused: clang would otherwise warn of a variable that is only there to be cleaned up. */
#define _cleanup_(f) __attribute__((cleanup(f), unused))
#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_strv_ _cleanup_(strv_freep)

/* Gives the value away: the variable no longer owns it. */
#define TAKE_PTR(p) ({ typeof(p) *take_ = &(p); typeof(p) taken_ = *take_; *take_ = NULL; taken_; })
#define TAKE_FD(fd) ({ int *take_ = &(fd); int taken_ = *take_; *take_ = -EBADF; taken_; })

#define DEFINE_CLEANUP(type, function)                   \
        static inline void function##p(type *p) {        \
                if (*p)                                  \
                        function(*p);                    \
        }

static inline void freep(void *p) {
        free(*(void **) p);
}

/* Closes and keeps errno; negative values are nothing. Returns -EBADF, so: fd = close_fd(fd). */
static inline int close_fd(int fd) {
        if (fd >= 0) {
                int saved = errno;
                (void) close(fd);
                errno = saved;
        }
        return -EBADF;
}

static inline void closep(int *fd) {
        *fd = close_fd(*fd);
}

static inline bool streq(const char *a, const char *b) {
        return a == b || (a && b && strcmp(a, b) == 0);
}

static inline const char *strempty(const char *s) {
        return s ? s : "";
}

static inline bool isempty(const char *s) {
        return !s || !*s;
}

/* CLOCK_MONOTONIC and CLOCK_REALTIME in microseconds. */
usec_t now_monotonic(void);
usec_t now_realtime(void);

/* NULL-terminated arrays of strings. strv_push takes s, also on failure. */
size_t strv_length(char *const *v);
char **strv_free(char **v);
int strv_push(char ***v, char *s);
int strv_extend(char ***v, const char *s);
bool strv_contains(char *const *v, const char *s);
bool strv_equal(char *const *a, char *const *b);
char **strv_copy(char *const *v);
static inline void strv_freep(char ***v) {
        strv_free(*v);
}

/* Reads at most size - 1 bytes of a small file (from its start, with pread) and terminates them; returns the length. */
ssize_t read_small(int fd, char *buffer, size_t size);
/* The number behind "key " at the start of a line, as in cpu.stat and memory.events. -ENOENT when there is none. */
int keyed_number(const char *text, const char *key, uint64_t *ret);
int write_file_at(int dir, const char *name, const char *value);
int set_nonblock(int fd, bool nonblock);

/* Valid UTF-8 without NUL (and, for strings, of this length). */
bool utf8_is_valid(const char *s, size_t length);
/* A copy in which every byte that is not UTF-8 (NUL included) became U+FFFD. */
char *utf8_mend(const void *bytes, size_t size);
/* A copy in which every such byte became \xNN, and every backslash two; *ret_escaped: it had such bytes. Without any it is a plain copy. */
char *utf8_escape(const void *bytes, size_t size, bool *ret_escaped);
/* How many bytes of a valid text may stay so that they are at most this many and no character is cut. */
size_t utf8_fit(const char *s, size_t most);

/* Lower-case hexadecimal; out has room for 2 * n + 1. */
void hex_encode(const uint8_t *bytes, size_t n, char *out);

/* The folder with the parts a program needs (glovebox-init, runtimes.d, javascript/...): ../lib/glovebox beside the folder of
 * the running program, which holds both in the build folder and once installed. Where the caller may not go there (a build in root's
 * home): what glovebox-standalone has opened and names in GLOVEBOX_LIBRARY. */
int library_dir(char **ret);
