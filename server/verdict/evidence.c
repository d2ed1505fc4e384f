/* What the kernel says of a run. */
#include "server/verdict/evidence.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

#define FREEZE_PAUSE_NSEC (50 * 1000)

void evidence_init(struct EvidenceFiles *e) {
        *e = (struct EvidenceFiles) {};
        for (size_t i = 0; i < EVIDENCE_FILES_; i++)
                e->fds[i] = -EBADF;
}

void evidence_done(struct EvidenceFiles *e) {
        for (size_t i = 0; i < EVIDENCE_FILES_; i++)
                e->fds[i] = close_fd(e->fds[i]);
}

/* The kernel gives such a file in one piece, so the end is not looked for. */
static ssize_t read_piece(const struct EvidenceFiles *e, enum EvidenceFile file, char *text, size_t size) {
        ssize_t n = e->fds[file] < 0 ? -1 : pread(e->fds[file], text, size - 1, 0);
        if (n < 0)
                return e->fds[file] < 0 ? -ENOENT : -errno;
        text[n] = 0;
        return n;
}

static int keyed(const struct EvidenceFiles *e, enum EvidenceFile file, const char *key, uint64_t *ret) {
        char text[4096];
        ssize_t n = read_piece(e, file, text, sizeof text);
        return n < 0 ? (int) n : keyed_number(text, key, ret);
}

/* The number in a file that holds nothing else. */
static uint64_t single(const struct EvidenceFiles *e, enum EvidenceFile file) {
        char text[64];
        return read_piece(e, file, text, sizeof text) <= 0 ? 0 : strtoull(text, NULL, 10);
}

static bool is_still(const struct EvidenceFiles *e) {
        char text[256];
        uint64_t v;

        if (read_piece(e, EVIDENCE_EVENTS, text, sizeof text) < 0)
                return false;
        return (keyed_number(text, "populated", &v) == 0 && v == 0) || (keyed_number(text, "frozen", &v) == 0 && v == 1);
}

int evidence_freeze(struct EvidenceFiles *e, usec_t patience) {
        if (is_still(e))
                return 1;
        if (pwrite(e->fds[EVIDENCE_FREEZE], "1", 1, 0) != 1)
                return errno == ENODEV ? 1 : 0;
        /* What is to stand still may need this processor to do so: between looks it is left, and not for twice as long as is meant. */
        const struct timespec pause = {.tv_nsec = FREEZE_PAUSE_NSEC};
        int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), still = is_still(e);
        (void) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
        for (usec_t start = now_monotonic(); !still && now_monotonic() - start < patience; still = is_still(e))
                (void) nanosleep(&pause, NULL);
        (void) prctl(PR_SET_TIMERSLACK, slack > 0 ? (unsigned long) slack : 0, 0, 0, 0); /* 0: what it was at first */
        return still;
}

static uint64_t above(uint64_t now, uint64_t before) {
        return now - MIN(now, before);
}

int evidence_cpu(const struct EvidenceFiles *e, usec_t *ret_user, usec_t *ret_system) {
        char text[4096];
        struct LeafUsage now;
        ssize_t n = read_piece(e, EVIDENCE_CPU_STAT, text, sizeof text);

        int r = n < 0 ? (int) n : leaf_usage_parse_cpu(&now, text);
        if (r < 0)
                return r;
        *ret_user = above(now.cpu_user, e->before.cpu_user);
        *ret_system = above(now.cpu_system, e->before.cpu_system);
        return 0;
}

/* Without a pids controller: the lines of cgroup.procs, as many as one read gives. */
static uint64_t count_processes(const struct EvidenceFiles *e) {
        char text[16384];
        uint64_t n = 0;

        if (e->fds[EVIDENCE_PIDS_CURRENT] >= 0)
                return single(e, EVIDENCE_PIDS_CURRENT);
        if (e->fds[EVIDENCE_PROCS] < 0 || read_small(e->fds[EVIDENCE_PROCS], text, sizeof text) <= 0)
                return 0;
        for (const char *p = text; *p; p++)
                n += *p == '\n';
        return n;
}

void evidence_now(const struct EvidenceFiles *e, struct Heartbeat *ret) {
        usec_t user = 0, system = 0;

        (void) evidence_cpu(e, &user, &system);
        ret->cpu_time = user + system;
        ret->memory = single(e, EVIDENCE_MEMORY_CURRENT);
        ret->processes = count_processes(e);
}

/* A file that is gone when it is asked a second time takes nothing back. */
static void add_pressure(const struct EvidenceFiles *e, enum EvidenceFile file, usec_t before, usec_t *stalled) {
        char text[256];

        if (read_piece(e, file, text, sizeof text) > 0)
                *stalled = MAX(*stalled, above(leaf_usage_parse_pressure(text), before));
}

static void add_io(const struct EvidenceFiles *e, const char *text, struct Usage *usage) {
        struct LeafUsage now;

        leaf_usage_parse_io(&now, text);
        usage->read_bytes = above(now.read_bytes, e->before.read_bytes);
        usage->written_bytes = above(now.written_bytes, e->before.written_bytes);
}

/* `oom` counts how often the leaf itself was at its limit with nothing to free. Where only `oom_kill` rose, it was a limit above, or the
 * machine, that was full, and the kernel chose this run. */
static void look_for_oom(struct EvidenceFiles *e, uint32_t *limits_hit) {
        uint64_t killed, own;

        if (keyed(e, EVIDENCE_MEMORY_EVENTS, "oom_kill", &killed) < 0 || killed == 0)
                return;
        if (keyed(e, EVIDENCE_MEMORY_EVENTS, "oom", &own) == 0 && own == 0)
                e->machine_oom = true;
        else
                *limits_hit |= 1u << LIMIT_HIT_MEMORY;
}

void evidence_final(struct EvidenceFiles *e, struct Usage *usage, uint32_t *limits_hit) {
        char text[8192];
        uint64_t v;

        (void) evidence_cpu(e, &usage->cpu_user, &usage->cpu_system);
        usage->memory_peak = MAX(usage->memory_peak, single(e, EVIDENCE_MEMORY_PEAK));
        /* May be asked twice, the second time when the files are gone. */
        usage->processes_peak = MAX(usage->processes_peak, single(e, EVIDENCE_PIDS_PEAK));
        if (read_piece(e, EVIDENCE_IO_STAT, text, sizeof text) > 0)
                add_io(e, text, usage);
        add_pressure(e, EVIDENCE_CPU_PRESSURE, e->before.cpu_stalled, &usage->cpu_stalled);
        add_pressure(e, EVIDENCE_MEMORY_PRESSURE, e->before.memory_stalled, &usage->memory_stalled);
        add_pressure(e, EVIDENCE_IO_PRESSURE, e->before.io_stalled, &usage->io_stalled);
        look_for_oom(e, limits_hit);
        if (keyed(e, EVIDENCE_PIDS_EVENTS, "max", &v) == 0 && v > 0)
                *limits_hit |= 1u << LIMIT_HIT_PROCESSES;
}
