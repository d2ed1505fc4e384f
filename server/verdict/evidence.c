/* What the kernel says of a run. */
#include "server/verdict/evidence.h"

#include <stdio.h>

#define FREEZE_LOOK 200 /* us; a freeze takes 31 to 45 us, a notification up to 10 ms */

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

int evidence_freeze(struct EvidenceFiles *e) {
        if (is_still(e))
                return 1;
        if (pwrite(e->fds[EVIDENCE_FREEZE], "1", 1, 0) != 1)
                return errno == ENODEV ? 1 : 0;
        for (usec_t start = now_monotonic(); now_monotonic() - start < FREEZE_LOOK;)
                if (is_still(e))
                        return 1;
        return 0;
}

int evidence_cpu(const struct EvidenceFiles *e, usec_t *ret_user, usec_t *ret_system) {
        char text[4096];
        uint64_t user, system;
        ssize_t n = read_piece(e, EVIDENCE_CPU_STAT, text, sizeof text);

        if (n < 0)
                return (int) n;
        int r = keyed_number(text, "user_usec", &user);
        if (r < 0)
                return r;
        r = keyed_number(text, "system_usec", &system);
        if (r < 0)
                return r;
        *ret_user = user;
        *ret_system = system;
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

void evidence_parse_io(const char *text, uint64_t *ret_read, uint64_t *ret_written) {
        uint64_t value, r = 0, w = 0;

        for (const char *p = text; (p = strstr(p, "rbytes=")); p++)
                if (sscanf(p, "rbytes=%lu", &value) == 1)
                        r += value;
        for (const char *p = text; (p = strstr(p, "wbytes=")); p++)
                if (sscanf(p, "wbytes=%lu", &value) == 1)
                        w += value;
        *ret_read = r;
        *ret_written = w;
}

usec_t evidence_parse_pressure(const char *text) {
        unsigned long long total;
        const char *at = strncmp(text, "some ", 5) == 0 ? strstr(text, " total=") : NULL;

        return at && at < strchrnul(text, '\n') && sscanf(at, " total=%20llu", &total) == 1 ? total : 0;
}

/* A file that is gone when it is asked a second time takes nothing back. */
static void add_pressure(const struct EvidenceFiles *e, enum EvidenceFile file, usec_t *stalled) {
        char text[256];

        if (read_piece(e, file, text, sizeof text) > 0)
                *stalled = MAX(*stalled, evidence_parse_pressure(text));
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
                evidence_parse_io(text, &usage->read_bytes, &usage->written_bytes);
        add_pressure(e, EVIDENCE_CPU_PRESSURE, &usage->cpu_stalled);
        add_pressure(e, EVIDENCE_MEMORY_PRESSURE, &usage->memory_stalled);
        add_pressure(e, EVIDENCE_IO_PRESSURE, &usage->io_stalled);
        look_for_oom(e, limits_hit);
        if (keyed(e, EVIDENCE_PIDS_EVENTS, "max", &v) == 0 && v > 0)
                *limits_hit |= 1u << LIMIT_HIT_PROCESSES;
}
