/* Writing to the terminal and making foreign text harmless. */
#include "client/console.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#define LINE_MAX_BYTES 4096

static void (*before_saying)(void);

int console_write(int fd, const void *data, size_t size) {
        const char *p = data;

        while (size > 0) {
                ssize_t n = write(fd, p, size);
                if (n >= 0) {
                        p += n;
                        size -= (size_t) n;
                } else if (errno == EAGAIN) {
                        /* Whoever shares the description made it non-blocking; we must not change it back. */
                        struct pollfd ready = { .fd = fd, .events = POLLOUT };
                        (void) poll(&ready, 1, -1);
                } else if (errno != EINTR)
                        return -errno;
        }
        return 0;
}

int console_end_by_sigpipe(void) {
        sigset_t set;

        (void) signal(SIGPIPE, SIG_DFL);
        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGPIPE);
        (void) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        (void) raise(SIGPIPE);
        return 128 + SIGPIPE;
}

/* Length of the well-formed character at s and its number; 0 when there is none. */
static size_t decode(const char *s, uint32_t *ret) {
        const uint8_t *b = (const uint8_t *) s;
        size_t n = b[0] < 0x80 ? 1 : b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
        uint32_t c = n == 1 ? b[0] : b[0] & (0x7fU >> n);

        for (size_t i = 1; i < n; i++) {
                if (b[i] == '\0')
                        return 0;
                c = c << 6 | (b[i] & 0x3fU);
        }
        if (!utf8_is_valid(s, n))
                return 0;
        *ret = c;
        return n;
}

/* Controls of both sets, and the invisible marks that turn the direction of text or break its lines. */
static bool is_harmful(uint32_t c) {
        return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
               (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

static void escape_one(FILE *out, uint32_t c) {
        if (c == '\n')
                fputs("\\n", out);
        else if (c == '\t')
                fputs("\\t", out);
        else if (c < 0x100)
                fprintf(out, "\\x%02x", c);
        else
                fprintf(out, "\\u{%x}", c);
}

char *console_escape(const char *s) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        if (!out)
                return NULL;
        for (s = strempty(s); *s;) {
                uint32_t c = 0;
                size_t n = decode(s, &c);
                if (n == 0)
                        fprintf(out, "\\x%02x", (uint8_t) *s);
                else if (is_harmful(c))
                        escape_one(out, c);
                else
                        (void) fwrite(s, 1, n, out);
                s += MAX(n, (size_t) 1);
        }
        if (fclose(out) != 0) {
                free(text);
                return NULL;
        }
        return text;
}

/* The blocks that terminals draw two columns wide: Chinese, Japanese, Korean, emoji. */
static bool is_wide(uint32_t c) {
        static const struct {
                uint32_t first, last;
        } blocks[] = {
                { 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xa960, 0xa97f }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f },
                { 0xff00, 0xff60 }, { 0xffe0, 0xffe6 }, { 0x1f000, 0x1faff }, { 0x20000, 0x3fffd },
        };

        for (size_t i = 0; i < ELEMENTSOF(blocks); i++)
                if (c >= blocks[i].first && c <= blocks[i].last)
                        return true;
        return false;
}

/* Bytes of s that fit; *ret_width: the columns they take. */
static size_t measure(const char *s, size_t columns, size_t *ret_width) {
        const char *begin = s;
        size_t width = 0;

        while (*s) {
                uint32_t c = 0;
                size_t n = decode(s, &c);
                size_t wanted = is_wide(c) ? 2 : 1;

                if (width + wanted > columns)
                        break;
                width += wanted;
                s += MAX(n, (size_t) 1);
        }
        *ret_width = width;
        return (size_t) (s - begin);
}

size_t console_width(const char *s) {
        size_t width;

        (void) measure(s, SIZE_MAX, &width);
        return width;
}

size_t console_fit(const char *s, size_t columns) {
        size_t width;

        return measure(s, columns, &width);
}

void console_set_before(void (*before)(void)) {
        before_saying = before;
}

void console_give_back(void) {
        if (before_saying)
                before_saying();
}

static void PRINTF_LIKE(1, 0) say(const char *format, va_list list) {
        char *raw _cleanup_free_ = NULL;
        char *safe _cleanup_free_ = NULL;
        char *line _cleanup_free_ = NULL;
        int n;

        if (vasprintf(&raw, format, list) < 0) {
                raw = NULL;
                return;
        }
        if (strlen(raw) > LINE_MAX_BYTES)
                raw[LINE_MAX_BYTES] = '\0';
        safe = console_escape(raw);
        n = asprintf(&line, "glovebox: %s\n", strempty(safe));
        if (n < 0) {
                line = NULL;
                return;
        }
        console_give_back();
        (void) console_write(STDERR_FILENO, line, (size_t) n);
}

int console_fault(const char *format, ...) {
        va_list list;

        va_start(list, format);
        say(format, list);
        va_end(list);
        return STATUS_FAULT;
}

void console_note(const char *format, ...) {
        va_list list;

        va_start(list, format);
        say(format, list);
        va_end(list);
}

const char *console_time(usec_t t, char *buffer, size_t size) {
        unsigned long long seconds = t / USEC_PER_SEC;

        if (t < USEC_PER_SEC)
                (void) snprintf(buffer, size, "%llu ms", (unsigned long long) (t / USEC_PER_MSEC));
        else if (seconds < 60)
                (void) snprintf(buffer, size, "%llu.%llu s", seconds, (unsigned long long) (t / (100 * USEC_PER_MSEC) % 10));
        else if (seconds < 3600)
                (void) snprintf(buffer, size, "%llu min %02llu s", seconds / 60, seconds % 60);
        else
                (void) snprintf(buffer, size, "%llu h %02llu min", seconds / 3600, seconds / 60 % 60);
        return buffer;
}

const char *console_period(usec_t t, char *buffer, size_t size) {
        unsigned long long hours = t / (3600 * USEC_PER_SEC), minutes = t / (60 * USEC_PER_SEC) % 60;
        double seconds = (double) (t % (60 * USEC_PER_SEC)) / (double) USEC_PER_SEC;
        int n = 0;

        if (t < USEC_PER_SEC) {
                (void) snprintf(buffer, size, "%.6g ms", (double) t / (double) USEC_PER_MSEC);
                return buffer;
        }
        if (hours > 0)
                n += snprintf(buffer, size, "%llu h", hours);
        if (minutes > 0)
                n += snprintf(buffer + n, size - (size_t) n, "%s%llu min", n ? " " : "", minutes);
        if (seconds > 0)
                (void) snprintf(buffer + n, size - (size_t) n, "%s%.8g s", n ? " " : "", seconds);
        return buffer;
}

const char *console_bytes(uint64_t bytes, char *buffer, size_t size) {
        static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
        double value = (double) bytes / (double) KIB;
        size_t unit = 0;

        if (bytes < KIB) {
                (void) snprintf(buffer, size, "%u B", (unsigned) bytes);
                return buffer;
        }
        for (; value >= 1024 && unit + 1 < ELEMENTSOF(units); unit++)
                value /= 1024;
        (void) snprintf(buffer, size, value < 10 && value != (double) (uint64_t) value ? "%.1f %s" : "%.0f %s", value, units[unit]);
        return buffer;
}
