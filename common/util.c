/* Small things every program here uses: time, string arrays, small files, UTF-8. */
#include "common/util.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

static usec_t now(clockid_t clock) {
        struct timespec ts;

        (void) clock_gettime(clock, &ts);
        return (usec_t) ts.tv_sec * USEC_PER_SEC + (usec_t) ts.tv_nsec / NSEC_PER_USEC;
}

usec_t now_monotonic(void) {
        return now(CLOCK_MONOTONIC);
}

usec_t now_realtime(void) {
        return now(CLOCK_REALTIME);
}

size_t strv_length(char *const *v) {
        size_t n = 0;

        while (v && v[n])
                n++;
        return n;
}

char **strv_free(char **v) {
        for (size_t i = 0; v && v[i]; i++)
                free(v[i]);
        free(v);
        return NULL;
}

int strv_push(char ***v, char *s) {
        size_t n = strv_length(*v);
        char **grown;

        if (!s)
                return -ENOMEM;
        grown = reallocarray(*v, n + 2, sizeof(char *));
        if (!grown) {
                free(s);
                return -ENOMEM;
        }
        grown[n] = s;
        grown[n + 1] = NULL;
        *v = grown;
        return 0;
}

int strv_extend(char ***v, const char *s) {
        return strv_push(v, strdup(s));
}

bool strv_contains(char *const *v, const char *s) {
        for (size_t i = 0; v && v[i]; i++)
                if (streq(v[i], s))
                        return true;
        return false;
}

bool strv_equal(char *const *a, char *const *b) {
        size_t n = strv_length(a);

        if (strv_length(b) != n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (!streq(a[i], b[i]))
                        return false;
        return true;
}

char **strv_copy(char *const *v) {
        size_t n = strv_length(v);
        char **copy _cleanup_strv_ = calloc(n + 1, sizeof(char *));

        for (size_t i = 0; copy && i < n; i++) {
                copy[i] = strdup(v[i]);
                if (!copy[i])
                        return NULL;
        }
        return TAKE_PTR(copy);
}

ssize_t read_small(int fd, char *buffer, size_t size) {
        size_t length = 0;

        if (size == 0)
                return -EINVAL;
        while (length < size - 1) {
                ssize_t n = pread(fd, buffer + length, size - 1 - length, (off_t) length);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                length += (size_t) n;
        }
        buffer[length] = '\0';
        return (ssize_t) length;
}

int keyed_number(const char *text, const char *key, uint64_t *ret) {
        size_t length = strlen(key);

        for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
                unsigned long long value;
                char *end;

                if (strncmp(line, key, length) != 0 || line[length] != ' ')
                        continue;
                if (line[length + 1] < '0' || line[length + 1] > '9')
                        return -EBADMSG;
                errno = 0;
                value = strtoull(line + length + 1, &end, 10);
                if (errno != 0)
                        return -errno;
                if (*end && *end != '\n' && *end != ' ')
                        return -EBADMSG;
                *ret = value;
                return 0;
        }
        return -ENOENT;
}

int write_file_at(int dir, const char *name, const char *value) {
        size_t length = strlen(value);
        int fd _cleanup_close_ = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        ssize_t n;

        if (fd < 0)
                return -errno;
        do
                n = write(fd, value, length);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return (size_t) n == length ? 0 : -EIO;
}

int set_nonblock(int fd, bool nonblock) {
        int on = nonblock; /* one call, where F_SETFL would need to know the other flags */
        return ioctl(fd, FIONBIO, &on) < 0 ? -errno : 0;
}

/* Length of the character at s, 0 = not valid. The bounds of the second byte keep out overlong forms, surrogates and what is
 * above U+10FFFF. */
static size_t utf8_character(const uint8_t *s, size_t left) {
        static const struct {
                uint8_t first, last, length, low, high;
        } forms[] = {
                { 0x01, 0x7f, 1, 0, 0 },       { 0xc2, 0xdf, 2, 0x80, 0xbf }, { 0xe0, 0xe0, 3, 0xa0, 0xbf },
                { 0xe1, 0xec, 3, 0x80, 0xbf }, { 0xed, 0xed, 3, 0x80, 0x9f }, { 0xee, 0xef, 3, 0x80, 0xbf },
                { 0xf0, 0xf0, 4, 0x90, 0xbf }, { 0xf1, 0xf3, 4, 0x80, 0xbf }, { 0xf4, 0xf4, 4, 0x80, 0x8f },
        };

        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                if (s[0] < forms[i].first || s[0] > forms[i].last)
                        continue;
                if (forms[i].length > left)
                        return 0;
                if (forms[i].length > 1 && (s[1] < forms[i].low || s[1] > forms[i].high))
                        return 0;
                for (size_t k = 2; k < forms[i].length; k++)
                        if ((s[k] & 0xc0) != 0x80)
                                return 0;
                return forms[i].length;
        }
        return 0;
}

bool utf8_is_valid(const char *s, size_t length) {
        const uint8_t *bytes = (const uint8_t *) s;

        for (size_t i = 0; i < length;) {
                size_t n = utf8_character(bytes + i, length - i);
                if (n == 0)
                        return false;
                i += n;
        }
        return true;
}

/* Texts are kept for long: without the room that was reserved for the worst case. */
static char *fitting(char *text, const char *end) {
        char *smaller = realloc(text, (size_t) (end - text) + 1);
        return smaller ? smaller : text;
}

char *utf8_mend(const void *bytes, size_t size) {
        static const char mark[] = "\xef\xbf\xbd";
        const uint8_t *in = bytes;
        char *out = malloc(size * 3 + 1), *to = out;

        if (!out)
                return NULL;
        for (size_t i = 0; i < size;) {
                size_t n = utf8_character(in + i, size - i);
                memcpy(to, n ? (const char *) in + i : mark, n ? n : 3);
                to += n ? n : 3;
                i += n ? n : 1;
        }
        *to = 0;
        return fitting(out, to);
}

char *utf8_escape(const void *bytes, size_t size, bool *ret_escaped) {
        static const char digits[] = "0123456789abcdef";
        const uint8_t *in = bytes;
        bool escape = !utf8_is_valid(bytes, size);
        char *out = malloc(size * 4 + 1), *to = out;

        if (!out)
                return NULL;
        for (size_t i = 0; i < size;) {
                size_t n = utf8_character(in + i, size - i);
                if (n == 0) {
                        const char code[] = {'\\', 'x', digits[in[i] >> 4], digits[in[i] & 15]};
                        memcpy(to, code, sizeof code);
                        to += sizeof code;
                        i++;
                        continue;
                }
                if (escape && in[i] == '\\')
                        *to++ = '\\';
                memcpy(to, in + i, n);
                to += n;
                i += n;
        }
        *to = 0;
        *ret_escaped = escape;
        return fitting(out, to);
}

size_t utf8_fit(const char *s, size_t most) {
        size_t n = strnlen(s, most);

        while (n > 0 && ((uint8_t) s[n] & 0xc0) == 0x80)
                n--;
        return n;
}

void hex_encode(const uint8_t *bytes, size_t n, char *out) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                out[2 * i] = digits[bytes[i] >> 4];
                out[2 * i + 1] = digits[bytes[i] & 15];
        }
        out[2 * n] = '\0';
}

/* Strips program and folder from the running program's path and adds what is beside. */
static int library_path(char path[PATH_MAX]) {
        static const char below[] = "/lib/glovebox";
        ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof(below));

        if (n < 0)
                return -errno;
        path[n] = '\0';
        for (int i = 0; i < 2; i++) {
                char *slash = strrchr(path, '/');
                if (!slash)
                        return -ENOENT;
                *slash = '\0';
        }
        strcat(path, below);
        return 0;
}

int library_dir(char **ret) {
        const char *passed = getenv("GLOVEBOX_LIBRARY"), *path;
        char beside[PATH_MAX];
        struct stat st;
        char *copy;
        int r;

        r = library_path(beside);
        if (r < 0)
                return r;
        path = beside;
        r = stat(path, &st) < 0 ? -errno : 0;
        /* Only for who may not go there, so never for root: an environment must not choose what root trusts. */
        if (r == -EACCES && passed && geteuid() != 0) {
                path = passed;
                r = stat(path, &st) < 0 ? -errno : 0;
        }
        if (r < 0)
                return r;
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        copy = strdup(path);
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 0;
}
