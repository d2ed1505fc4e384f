/* What the kernel has counted in the cgroup of a run. An interpreter that waited has used something before its run began: the spawner looks at it
 * then, and the server takes it off. */
#pragma once

#include "common/util.h"

struct LeafUsage {
        usec_t cpu_user, cpu_system;
        uint64_t read_bytes, written_bytes;
        usec_t cpu_stalled, memory_stalled, io_stalled;
};

/* Of the text of cpu.stat; a negative errno leaves u as it was. */
int leaf_usage_parse_cpu(struct LeafUsage *u, const char *text);
/* Of the text of io.stat, all devices together. */
void leaf_usage_parse_io(struct LeafUsage *u, const char *text);
/* The total of the line "some", of the text of a *.pressure file; 0 when it is not there. */
usec_t leaf_usage_parse_pressure(const char *text);
