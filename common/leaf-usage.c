/* What the kernel has counted in the cgroup of a run. */
#include "common/leaf-usage.h"

#include <stdio.h>

int leaf_usage_parse_cpu(struct LeafUsage *u, const char *text) {
        uint64_t user, system;

        int r = keyed_number(text, "user_usec", &user);
        if (r >= 0)
                r = keyed_number(text, "system_usec", &system);
        if (r < 0)
                return r;
        u->cpu_user = user;
        u->cpu_system = system;
        return 0;
}

void leaf_usage_parse_io(struct LeafUsage *u, const char *text) {
        uint64_t value, r = 0, w = 0;

        for (const char *p = text; (p = strstr(p, "rbytes=")); p++)
                if (sscanf(p, "rbytes=%lu", &value) == 1)
                        r += value;
        for (const char *p = text; (p = strstr(p, "wbytes=")); p++)
                if (sscanf(p, "wbytes=%lu", &value) == 1)
                        w += value;
        u->read_bytes = r;
        u->written_bytes = w;
}

usec_t leaf_usage_parse_pressure(const char *text) {
        unsigned long long total;
        const char *at = strncmp(text, "some ", 5) == 0 ? strstr(text, " total=") : NULL;

        return at && at < strchrnul(text, '\n') && sscanf(at, " total=%20llu", &total) == 1 ? total : 0;
}
