/* io-max of the config: its form, and the disks it names. */
#include "common/io-max.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/limits.h"

#define LINE_MAX_ 256

static int PRINTF_LIKE(3, 4) fault(char **ret_error, int error, const char *format, ...) {
        va_list ap;

        errno = -error;
        va_start(ap, format);
        if (vasprintf(ret_error, format, ap) < 0)
                *ret_error = NULL;
        va_end(ap);
        return error;
}

static bool is_key(const char *word, size_t length) {
        static const char *const keys[] = {"rbps", "wbps", "riops", "wiops"};
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (strlen(keys[i]) == length && memcmp(keys[i], word, length) == 0)
                        return true;
        return false;
}

/* " rbps=10485760" behind what is there. */
static int add_word(char *line, size_t size, const char *word) {
        const char *equal = strchr(word, '=');
        uint64_t value;
        if (!equal || !is_key(word, (size_t) (equal - word)) || parse_bytes(equal + 1, &value) < 0 || value == 0)
                return -EINVAL;
        size_t n = strlen(line);
        int k = snprintf(line + n, size - n, " %.*s=%llu", (int) (equal - word), word, (unsigned long long) value);
        return k < 0 || (size_t) k >= size - n ? -EINVAL : 0;
}

static int resolve_device(const char *device, char *line, size_t size, char **ret_error) {
        struct stat st;
        char path[96];
        if (stat(device, &st) < 0)
                return fault(ret_error, -errno, "io-max: %s: %m", device);
        if (!S_ISBLK(st.st_mode))
                return fault(ret_error, -ENOTBLK, "io-max: %s is no block device; name a disk such as /dev/sda", device);
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/partition", major(st.st_rdev), minor(st.st_rdev));
        if (access(path, F_OK) == 0)
                return fault(ret_error, -EINVAL, "io-max: %s is a partition, which the kernel cannot limit; name its disk", device);
        snprintf(line, size, "%u:%u", major(st.st_rdev), minor(st.st_rdev));
        return 0;
}

/* with_device: it must be a disk of this machine. */
static int resolve_line(const char *text, bool with_device, char *line, size_t size, char **ret_error) {
        _cleanup_free_ char *copy = strdup(text);
        char *save = NULL;
        if (!copy)
                return -ENOMEM;
        const char *device = strtok_r(copy, " \t", &save), *word = strtok_r(NULL, " \t", &save);
        if (!device || !word)
                return fault(ret_error, -EINVAL, "io-max must look like '/dev/sda rbps=10M wbps=10M riops=100 wiops=100', not '%.100s'", text);
        if (device[0] != '/')
                return fault(ret_error, -EINVAL, "io-max begins with the absolute path of a disk, such as /dev/sda, not with '%.40s'", device);
        int r = with_device ? resolve_device(device, line, size, ret_error) : 0;
        for (; r >= 0 && word; word = strtok_r(NULL, " \t", &save))
                if (add_word(line, size, word) < 0)
                        return fault(ret_error, -EINVAL,
                                     "io-max: '%.40s' is not one of rbps, wbps, riops, wiops with a number above 0, such as rbps=10M", word);
        return r;
}

int io_max_check(const char *line, char **ret_error) {
        char form[LINE_MAX_] = "";

        return resolve_line(line, false, form, sizeof form, ret_error);
}

int io_max_resolve(char *const *lines, char ***ret, char **ret_error) {
        char **resolved _cleanup_strv_ = NULL;
        for (size_t i = 0; lines && lines[i]; i++) {
                char line[LINE_MAX_] = "";
                int r = resolve_line(lines[i], true, line, sizeof line, ret_error);
                if (r >= 0)
                        r = strv_extend(&resolved, line);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(resolved);
        return 0;
}
