/* The trace points of spawner/trace.h: records in a file that GLOVEBOX_TRACE names and that all processes of the spawner map. Without it, nothing. */
#include "spawner/trace.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "common/util.h"

#define RECORDS_MAX (1u << 18)

struct TraceRecord {
        uint64_t nanoseconds; /* CLOCK_MONOTONIC */
        int32_t pid;
        char what[36];
};

struct TraceFile {
        _Atomic uint32_t n;
        char padding[44];
        struct TraceRecord records[RECORDS_MAX];
};

static struct TraceFile *trace_file;

__attribute__((constructor)) static void trace_open(void) {
        const char *path = getenv("GLOVEBOX_TRACE");
        int fd _cleanup_close_ = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -EBADF;

        if (fd < 0 || ftruncate(fd, sizeof(struct TraceFile)) < 0)
                return;
        void *map = mmap(NULL, sizeof(struct TraceFile), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        trace_file = map == MAP_FAILED ? NULL : map;
}

void trace(const char *what) {
        struct timespec now;

        if (!trace_file)
                return;
        uint32_t i = atomic_fetch_add(&trace_file->n, 1);
        if (i >= RECORDS_MAX)
                return;
        struct TraceRecord *r = &trace_file->records[i];
        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        r->nanoseconds = (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
        r->pid = getpid();
        strncpy(r->what, what, sizeof(r->what) - 1);
}
