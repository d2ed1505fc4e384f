/* What a cell may do to the machine's disks, and how cells share what all of them want. */
#include "spawner/limits/io.h"

#include <stdio.h>

#include "spawner/limits/driver.h"

#define WEIGHT_OF_ONE_CPU 100 /* the kernel's default weight */
#define WEIGHT_MAX 10000
#define SPARE_MEMORY (16 * MIB) /* for init, and so that a run meets its own limit first */

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
