/* What the kernel says of a run: the cgroup files of its leaf, by descriptors that the spawner opened. */
#pragma once

#include "common/leaf-usage.h"
#include "server/event.h"

enum EvidenceFile {
        EVIDENCE_FREEZE,
        EVIDENCE_EVENTS,
        EVIDENCE_PROCS,
        EVIDENCE_CPU_STAT,
        EVIDENCE_MEMORY_CURRENT, /* from here on: only where the controller is there */
        EVIDENCE_MEMORY_PEAK,
        EVIDENCE_MEMORY_EVENTS,
        EVIDENCE_PIDS_CURRENT,
        EVIDENCE_PIDS_PEAK,
        EVIDENCE_PIDS_EVENTS,
        EVIDENCE_IO_STAT,
        EVIDENCE_CPU_PRESSURE, /* only where the kernel tells it */
        EVIDENCE_MEMORY_PRESSURE,
        EVIDENCE_IO_PRESSURE,
        EVIDENCE_FILES_,
};

struct EvidenceFiles {
        int fds[EVIDENCE_FILES_];
        struct LeafUsage before; /* what was used when the run began; not the run's */
        bool machine_oom; /* found by evidence_final: the kernel killed for memory, and not for the leaf's own limit */
};

void evidence_init(struct EvidenceFiles *e);
void evidence_done(struct EvidenceFiles *e);

/* Asks the kernel to freeze the leaf and looks for at most `patience` whether it is (notifications are far slower); at least once. 1 = nothing in
 * the leaf can run any more (frozen, or it is empty), 0 = not yet. */
int evidence_freeze(struct EvidenceFiles *e, usec_t patience);
int evidence_cpu(const struct EvidenceFiles *e, usec_t *ret_user, usec_t *ret_system);
/* cpu_time, memory, processes. */
void evidence_now(const struct EvidenceFiles *e, struct Heartbeat *ret);
/* Adds cpu, memory, processes and io to usage, and what the events files tell to limits_hit and machine_oom. */
void evidence_final(struct EvidenceFiles *e, struct Usage *usage, uint32_t *limits_hit);
