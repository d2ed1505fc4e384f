/* What a cell is told of its machine and of itself. Nothing here is a wall: programs that ask the kernel by sysinfo(2) or
 * sched_getaffinity(2) are told of the host all the same. */
#include "spawner/facts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define CPU_BLOCK_MAX (16 * KIB)
#define TICKS_PER_SECOND 100 /* USER_HZ, the same on every architecture that we run on */

/* The host's first processor as /proc/cpuinfo describes it, and how many there are. Learnt once: reading it asks every processor. */
static struct {
        char block[CPU_BLOCK_MAX];
        unsigned processors;
} host;

int facts_learn(void) {
        FILE *f = fopen("/proc/cpuinfo", "re");
        if (!f)
                return -errno;
        char line[CPU_BLOCK_MAX];
        size_t used = 0;
        bool first = true;
        host.processors = 0;
        while (fgets(line, sizeof line, f)) {
                size_t n = strlen(line);
                host.processors += strncmp(line, "processor", 9) == 0;
                first = first && line[0] != '\n';
                if (first && used + n < CPU_BLOCK_MAX) {
                        memcpy(host.block + used, line, n);
                        used += n;
                }
        }
        host.block[used] = 0;
        host.processors = MAX(host.processors, 1U);
        fclose(f);
        return 0;
}

unsigned facts_processors(double cpus) {
        cpus = MIN(cpus, 1e6); /* above that it may not fit */
        unsigned whole = (unsigned) cpus;
        whole = MAX(whole + ((double) whole < cpus), 1U);
        return host.processors ? MIN(whole, host.processors) : whole;
}

/* One line of the block; numbers that tell processors apart are those of processor `number` of `count` in one socket. */
static void put_cpu_line(FILE *f, const char *line, size_t length, unsigned number, unsigned count) {
        static const struct {
                const char *key;
                enum { NUMBER, COUNT, ZERO } value;
        } changed[] = {
                {"processor", NUMBER}, {"core id", NUMBER},  {"apicid", NUMBER},   {"initial apicid", NUMBER},
                {"siblings", COUNT},   {"cpu cores", COUNT}, {"physical id", ZERO},
        };
        for (size_t i = 0; i < ELEMENTSOF(changed); i++) {
                size_t n = strlen(changed[i].key);
                if (length <= n || strncmp(line, changed[i].key, n) != 0 || (line[n] != '\t' && line[n] != ' ' && line[n] != ':'))
                        continue;
                const char *colon = memchr(line, ':', length);
                size_t before = colon ? (size_t) (colon - line) : n;
                fprintf(f, "%.*s: %u\n", (int) before, line, changed[i].value == NUMBER ? number : changed[i].value == COUNT ? count : 0);
                return;
        }
        fprintf(f, "%.*s\n", (int) length, line);
}

static void put_cpuinfo(FILE *f, const struct FactSpec *s) {
        unsigned count = facts_processors(s->cpus);
        for (unsigned i = 0; i < count; i++) {
                for (const char *line = host.block; *line;) {
                        size_t length = strcspn(line, "\n");
                        put_cpu_line(f, line, length, i, count);
                        line += length + (line[length] == '\n');
                }
                fputc('\n', f);
        }
}

/* As when nothing was used yet; what is used is told by the execution's result, and to the program by its own allocations. */
static void put_meminfo(FILE *f, const struct FactSpec *s) {
        static const char *const none[] = {
                "Buffers", "Cached", "SwapCached", "Active", "Inactive", "Active(anon)", "Inactive(anon)", "Active(file)", "Inactive(file)",
                "Unevictable", "Mlocked", "SwapTotal", "SwapFree", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "KReclaimable", "Slab",
                "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "Committed_AS",
        };
        uint64_t all = s->memory_bytes / KIB;
        fprintf(f, "MemTotal:       %8" PRIu64 " kB\nMemFree:        %8" PRIu64 " kB\nMemAvailable:   %8" PRIu64 " kB\n", all, all, all);
        for (size_t i = 0; i < ELEMENTSOF(none); i++)
                fprintf(f, "%s:%*s %8u kB\n", none[i], (int) (14 - MIN(strlen(none[i]), (size_t) 14)), "", 0);
        fprintf(f, "CommitLimit:    %8" PRIu64 " kB\nHugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n", all);
}

static uint64_t seconds(clockid_t clock) {
        struct timespec t;
        return clock_gettime(clock, &t) < 0 ? 0 : (uint64_t) t.tv_sec;
}

static void put_stat(FILE *f, const struct FactSpec *s) {
        unsigned count = facts_processors(s->cpus);
        uint64_t up = seconds(CLOCK_BOOTTIME), ticks = up * TICKS_PER_SECOND;
        fprintf(f, "cpu  0 0 0 %" PRIu64 " 0 0 0 0 0 0\n", ticks * count);
        for (unsigned i = 0; i < count; i++)
                fprintf(f, "cpu%u 0 0 0 %" PRIu64 " 0 0 0 0 0 0\n", i, ticks);
        fprintf(f, "intr 0\nctxt 0\nbtime %" PRIu64 "\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n",
                seconds(CLOCK_REALTIME) - up);
}

static void put_loadavg(FILE *f, const struct FactSpec *s) {
        fputs("0.00 0.00 0.00 1/1 1\n", f);
}

static void put_vmstat(FILE *f, const struct FactSpec *s) {
        fputs("nr_free_pages 0\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\n", f);
}

/* The host's own would tell that two cells were on one machine, and which. */
static void put_boot_id(FILE *f, const struct FactSpec *s) {
        uint8_t b[16] = {};
        char hex[33];
        if (getrandom(b, sizeof b, 0) != sizeof b)
                memset(b, 0, sizeof b);
        b[6] = (uint8_t) ((b[6] & 0x0f) | 0x40);
        b[8] = (uint8_t) ((b[8] & 0x3f) | 0x80);
        hex_encode(b, sizeof b, hex);
        fprintf(f, "%.8s-%.4s-%.4s-%.4s-%.12s\n", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static void put_passwd(FILE *f, const struct FactSpec *s) {
        fprintf(f, "root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:%u:%u:sandbox:" FACT_HOME ":/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", s->user, s->user);
}

static void put_group(FILE *f, const struct FactSpec *s) {
        fprintf(f, "root:x:0:\nsandbox:x:%u:\nnogroup:x:65534:\n", s->user);
}

static const struct {
        const char *name, *path;
        void (*put)(FILE *f, const struct FactSpec *s);
        bool shared; /* the same for every cell */
} table[FACT_MAX_] = {
        [FACT_CPUINFO] = {"cpuinfo", "/proc/cpuinfo", put_cpuinfo},
        [FACT_MEMINFO] = {"meminfo", "/proc/meminfo", put_meminfo},
        [FACT_STAT] = {"stat", "/proc/stat", put_stat},
        [FACT_LOADAVG] = {"loadavg", "/proc/loadavg", put_loadavg, true},
        [FACT_VMSTAT] = {"vmstat", "/proc/vmstat", put_vmstat, true},
        [FACT_BOOT_ID] = {"boot_id", "/proc/sys/kernel/random/boot_id", put_boot_id},
        [FACT_PASSWD] = {"passwd", "/etc/passwd", put_passwd},
        [FACT_GROUP] = {"group", "/etc/group", put_group},
};

bool fact_is_shared(enum FactName f) {
        return table[f].shared;
}

const char *fact_name(enum FactName f) {
        return table[f].name;
}

const char *fact_path(enum FactName f) {
        return table[f].path;
}

static int render(enum FactName name, const struct FactSpec *spec, char **ret) {
        size_t size;
        FILE *f = open_memstream(ret, &size);
        if (!f)
                return -ENOMEM;
        table[name].put(f, spec);
        return fclose(f) == 0 ? 0 : -ENOMEM;
}

int facts_render(const struct FactSpec *spec, bool all, struct FactTexts *ret) {
        struct FactTexts t _cleanup_(facts_done) = {};
        for (int i = 0; i < (all ? FACT_MAX_ : FACT_LIMITED_); i++) {
                int r = table[i].shared ? 0 : render(i, spec, &t.texts[i]);
                if (r < 0)
                        return r;
        }
        *ret = t;
        t = (struct FactTexts) {};
        return 0;
}

void facts_done(struct FactTexts *t) {
        for (int i = 0; i < FACT_MAX_; i++)
                free(t->texts[i]);
        *t = (struct FactTexts) {};
}

static int write_all(int fd, const char *text) {
        for (size_t left = strlen(text); left > 0;) {
                ssize_t n = write(fd, text, left);
                if (n < 0)
                        return -errno;
                text += n;
                left -= (size_t) n;
        }
        return 0;
}

static int create(int dir, const char *name, const char *text) {
        _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        return fd < 0 ? -errno : write_all(fd, text);
}

int facts_create(const struct FactTexts *t, int dir) {
        for (int i = 0; i < FACT_MAX_; i++) {
                int r = table[i].shared ? 0 : create(dir, table[i].name, t->texts[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

int facts_create_shared(int dir) {
        const struct FactSpec none = {};
        for (int i = 0; i < FACT_MAX_; i++) {
                _cleanup_free_ char *text = NULL;
                int r = table[i].shared ? render(i, &none, &text) : 0;
                if (r >= 0 && table[i].shared)
                        r = create(dir, table[i].name, text);
                if (r < 0)
                        return r;
        }
        _cleanup_close_ int nothing = openat(dir, FACT_NOTHING, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
        if (nothing < 0 || mkdirat(dir, FACT_EMPTY, 0) < 0)
                return -errno;
        return 0;
}

static int set_read_only(const char *path, bool read_only) {
        struct mount_attr attr = {.attr_set = read_only ? MOUNT_ATTR_RDONLY : 0, .attr_clr = read_only ? 0 : MOUNT_ATTR_RDONLY};
        return mount_setattr(AT_FDCWD, path, 0, &attr, sizeof attr) < 0 ? -errno : 0;
}

static int rewrite(const char *path, const char *text) {
        int r = set_read_only(path, false);
        if (r < 0)
                return r;
        int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        r = fd < 0 ? -errno : write_all(fd, text);
        close_fd(fd); /* with a writer it could not be read-only again */
        int q = set_read_only(path, true);
        return r < 0 ? r : q;
}

int facts_rewrite(const struct FactTexts *t) {
        for (int i = 0; i < FACT_LIMITED_; i++) {
                int r = rewrite(table[i].path, t->texts[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}
