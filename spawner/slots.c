/* Host uids of cells: each cell has a slot of two, one for its init and one for the user's code. */
#include "spawner/slots.h"

#include <stdio.h>

struct Slots {
        uint32_t start;
        unsigned count;
        bool used[];
};

int slots_new(const struct Config *config, struct Slots **ret) {
        if (config->uid_count < SLOT_UIDS_FIRST + 2)
                return -ERANGE;
        uint64_t count = MIN((uint64_t) (config->uid_count - SLOT_UIDS_FIRST) / 2, config->max_cells);
        struct Slots *s = calloc(1, sizeof *s + count);
        if (!s)
                return -ENOMEM;
        s->start = config->uid_start;
        s->count = (unsigned) count;
        *ret = s;
        return 0;
}

struct Slots *slots_free(struct Slots *s) {
        free(s);
        return NULL;
}

unsigned slots_count(const struct Slots *s) {
        return s->count;
}

int slots_acquire(struct Slots *s) {
        for (unsigned i = 0; i < s->count; i++)
                if (!s->used[i]) {
                        s->used[i] = true;
                        return (int) i;
                }
        return -EBUSY;
}

void slots_release(struct Slots *s, int slot) {
        if (slot >= 0 && (unsigned) slot < s->count)
                s->used[slot] = false;
}

uid_t slot_host_user(const struct Slots *s, int slot) {
        return s->start + SLOT_UIDS_FIRST + 2 * (uid_t) slot + 1;
}

bool slots_line_overlaps(const char *line, bool sub, uint32_t start, uint32_t count) {
        const char *field = strchr(line, ':');
        if (field && !sub)
                field = strchr(field + 1, ':');
        if (!field || field[1] < '0' || field[1] > '9')
                return false;
        char *end;
        errno = 0;
        uint64_t first = strtoull(field + 1, &end, 10), n = 1;
        if (errno || *end != ':')
                return false;
        if (sub)
                n = strtoull(end + 1, NULL, 10);
        if (n == 0 || first > UINT32_MAX)
                return false;
        uint64_t last = n > UINT32_MAX ? UINT32_MAX : first + n - 1;
        return first < (uint64_t) start + count && last >= start;
}

static int check_file(const char *path, bool sub, uint32_t start, uint32_t count, char **ret_error) {
        FILE *f = fopen(path, "re");
        if (!f)
                return errno == ENOENT ? 0 : -errno;
        char *line = NULL;
        size_t size = 0;
        int r = 0;
        for (int number = 1; r == 0 && getline(&line, &size, f) > 0; number++) {
                if (!slots_line_overlaps(line, sub, start, count))
                        continue;
                line[strcspn(line, "\n")] = 0;
                r = -EADDRINUSE;
                if (asprintf(ret_error, "uid-range %u:%u overlaps %s line %d (%.60s); set another uid-range in section [spawner]",
                             start, count, path, number, line) < 0)
                        *ret_error = NULL;
        }
        free(line);
        fclose(f);
        return r;
}

int slots_check_range(uint32_t start, uint32_t count, char **ret_error) {
        static const struct {
                const char *path;
                bool sub;
        } files[] = {{"/etc/passwd", false}, {"/etc/group", false}, {"/etc/subuid", true}, {"/etc/subgid", true}};
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                int r = check_file(files[i].path, files[i].sub, start, count, ret_error);
                if (r < 0)
                        return r;
        }
        return 0;
}
