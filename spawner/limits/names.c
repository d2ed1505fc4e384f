/* Names of our units in systemd: which are ours, and which belong to another instance on this machine. */
#include "spawner/limits/names.h"

#include <inttypes.h>
#include <stdio.h>

#include "spawner/limits/tree.h"

#define SERVICE_STATE "/run/glovebox-spawner"

static uint32_t hash_texts(const char *a, const char *b) {
        uint32_t h = 2166136261u;
        for (; *a && *a != '\n'; a++)
                h = (h ^ (uint8_t) *a) * 16777619u;
        for (; *b; b++)
                h = (h ^ (uint8_t) *b) * 16777619u;
        return h;
}

void names_init(struct UnitNames *n, const char *boot_id, const char *state) {
        snprintf(n->id, sizeof n->id, "%08" PRIx32, hash_texts(boot_id, state));
        /* The names of the service's slices are for drop-ins of the operator, so they stay the same from boot to boot. */
        snprintf(n->slice_mark, sizeof n->slice_mark, "%s%s", streq(state, SERVICE_STATE) ? "" : "_", streq(state, SERVICE_STATE) ? "" : n->id);
}

void names_scope(const struct UnitNames *n, uint64_t number, char out[UNIT_NAME_LEN]) {
        snprintf(out, UNIT_NAME_LEN, "glovebox-%s-%" PRIu64 ".scope", n->id, number);
}

void names_own_scope(const struct UnitNames *n, uint64_t number, char out[UNIT_NAME_LEN]) {
        snprintf(out, UNIT_NAME_LEN, "glovebox-spawner-%s-%" PRIu64 ".scope", n->id, number);
}

void names_pool(const struct UnitNames *n, const char *group, unsigned k, char out[UNIT_NAME_LEN]) {
        snprintf(out, UNIT_NAME_LEN, "glovebox-%s%spool%u%s.slice", strempty(group), isempty(group) ? "" : "-", k, n->slice_mark);
}

static bool is_number_and(const char *s, const char *rest) {
        size_t digits = strspn(s, "0123456789");
        return digits > 0 && streq(s + digits, rest);
}

bool names_is_ours(const struct UnitNames *n, const char *unit) {
        char start[UNIT_NAME_LEN], end[UNIT_NAME_LEN];
        snprintf(start, sizeof start, "glovebox-%s-", n->id);
        if (strncmp(unit, start, strlen(start)) == 0)
                return is_number_and(unit + strlen(start), ".scope");
        snprintf(start, sizeof start, "glovebox-spawner-%s-", n->id);
        if (strncmp(unit, start, strlen(start)) == 0)
                return is_number_and(unit + strlen(start), ".scope");
        snprintf(end, sizeof end, "%s.slice", n->slice_mark);
        if (strncmp(unit, "glovebox-", 9) != 0)
                return false;
        const char *dash = strchr(unit + 9, '-'), *pool = dash ? dash + 1 : unit + 9; /* behind the group */
        return strncmp(pool, "pool", 4) == 0 && is_number_and(pool + 4, end);
}

uint64_t names_number(const struct UnitNames *n, const char *unit) {
        char start[UNIT_NAME_LEN];
        size_t length = (size_t) snprintf(start, sizeof start, "glovebox-%s-", n->id);
        if (strncmp(unit, start, length) != 0 || !is_number_and(unit + length, ".scope"))
                return 0;
        return strtoull(unit + length, NULL, 10);
}

int names_folder(const char *cgroup, const char *unit, char *out, size_t size) {
        _cleanup_free_ char *path = NULL;
        int r = tree_own_path(cgroup, &path);
        if (r < 0)
                return r;
        const char *last = strrchr(path, '/');
        if (!last || !streq(last + 1, unit))
                return -ENOENT;
        return (size_t) snprintf(out, size, "%s", path + 1) < size ? 0 : -ENAMETOOLONG;
}
