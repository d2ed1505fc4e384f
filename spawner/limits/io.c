/* What a cell may do to the machine's disks, and how cells share what all of them want. */
#include "spawner/limits/io.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "spawner/complain.h"
#include "spawner/limits/driver.h"

#define WEIGHT_OF_ONE_CPU 100 /* the kernel's default weight */
#define WEIGHT_MAX 10000
#define LINE_MAX_ 256
#define SPARE_MEMORY (16 * MIB) /* for init, and so that a run meets its own limit first */

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
                return complain(ret_error, -errno, "[spawner] io-max: %s: %m", device);
        if (!S_ISBLK(st.st_mode))
                return complain(ret_error, -ENOTBLK, "[spawner] io-max: %s is no block device; name a disk such as /dev/sda", device);
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/partition", major(st.st_rdev), minor(st.st_rdev));
        if (access(path, F_OK) == 0)
                return complain(ret_error, -EINVAL, "[spawner] io-max: %s is a partition, which the kernel cannot limit; name its disk", device);
        snprintf(line, size, "%u:%u", major(st.st_rdev), minor(st.st_rdev));
        return 0;
}

static int resolve_line(const char *text, char *line, size_t size, char **ret_error) {
        _cleanup_free_ char *copy = strdup(text);
        char *save = NULL;
        if (!copy)
                return -ENOMEM;
        const char *device = strtok_r(copy, " \t", &save), *word = strtok_r(NULL, " \t", &save);
        if (!device || !word)
                return complain(ret_error, -EINVAL, "[spawner] io-max must look like '/dev/sda rbps=10M wbps=10M riops=100 wiops=100', not '%.100s'", text);
        int r = resolve_device(device, line, size, ret_error);
        for (; r >= 0 && word; word = strtok_r(NULL, " \t", &save))
                if (add_word(line, size, word) < 0)
                        return complain(ret_error, -EINVAL, "[spawner] io-max: '%.40s' is not one of rbps, wbps, riops, wiops with a number above 0, such as rbps=10M", word);
        return r;
}

int io_max_resolve(char *const *lines, char ***ret, char **ret_error) {
        char **resolved _cleanup_strv_ = NULL;
        for (size_t i = 0; lines && lines[i]; i++) {
                char line[LINE_MAX_] = "";
                int r = resolve_line(lines[i], line, sizeof line, ret_error);
                if (r >= 0)
                        r = strv_extend(&resolved, line);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(resolved);
        return 0;
}

int io_max_apply(int leaf, char *const *resolved) {
        for (size_t i = 0; resolved && resolved[i]; i++) {
                int r = write_file_at(leaf, "io.max", resolved[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int write_weight(int cell, const char *file, unsigned weight) {
        char text[16];
        snprintf(text, sizeof text, "%u", weight);
        int r = write_file_at(cell, file, text);
        return r == -ENOENT || r == -EOPNOTSUPP ? 0 : r; /* io.weight needs iocost or BFQ in the kernel */
}

int cell_bound(int cell, unsigned controllers, const struct Limits *limits) {
        char text[32];
        if (!(controllers & CONTROLLER_MEMORY))
                return 0;
        snprintf(text, sizeof text, "%llu", (unsigned long long) (limits->memory_bytes + SPARE_MEMORY));
        int r = write_file_at(cell, "memory.max", text);
        int q = r >= 0 ? write_file_at(cell, "memory.swap.max", "0") : 0;
        return r < 0 ? r : q == -ENOENT ? 0 : q;
}

int cell_share(int cell, unsigned controllers, const struct Limits *limits) {
        unsigned weight = (unsigned) MIN(MAX(limits->cpus * WEIGHT_OF_ONE_CPU, 1.0), (double) WEIGHT_MAX);
        int r = controllers & CONTROLLER_CPU ? write_weight(cell, "cpu.weight", weight) : 0;
        return r >= 0 && (controllers & CONTROLLER_IO) ? write_weight(cell, "io.weight", weight) : r;
}
