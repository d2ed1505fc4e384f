/* The head of a job: what the spawner's own config says about the program, before what the server sends. */
#include "spawner/job.h"

#include <stdio.h>

struct Head {
        uint8_t *bytes;
        size_t size;
        bool full;
};

static void put(struct Head *h, enum JobType type, const char *text) {
        size_t length = strlen(text);
        if (h->full || length > JOB_HEAD_MAX || h->size + JOB_HEADER_SIZE + length > JOB_HEAD_MAX) {
                h->full = true;
                return;
        }
        job_put_header(h->bytes + h->size, type, (uint32_t) length);
        memcpy(h->bytes + h->size + JOB_HEADER_SIZE, text, length);
        h->size += JOB_HEADER_SIZE + length;
}

static void put_all(struct Head *h, enum JobType type, char *const *texts) {
        for (; texts && *texts; texts++)
                put(h, type, *texts);
}

/* Libraries that size themselves by the host's processors would start dozens of threads for one processor's worth of time. The runtime's
 * config and the caller may set them otherwise. */
static void put_threads(struct Head *h, unsigned processors) {
        static const struct {
                const char *name;
                unsigned minimum;
        } variables[] = {
                {"GOMAXPROCS", 1},         {"MKL_NUM_THREADS", 1}, {"NUMEXPR_NUM_THREADS", 1}, {"OMP_NUM_THREADS", 1}, {"OPENBLAS_NUM_THREADS", 1},
                {"RAYON_NUM_THREADS", 1},
                /* Its threads wait for files and names; below its own default one slow read would hold all others up. */
                {"UV_THREADPOOL_SIZE", 4},
        };
        for (size_t i = 0; i < ELEMENTSOF(variables); i++) {
                char text[48];
                snprintf(text, sizeof text, "%s=%u", variables[i].name, MAX(processors, variables[i].minimum));
                put(h, JOB_ENV, text);
        }
}

int job_head(const struct Runtime *runtime, bool probe, unsigned processors, uint8_t out[JOB_HEAD_MAX], size_t *ret_size) {
        struct Head h = {.bytes = out};
        put(&h, JOB_EXEC, runtime->exec);
        put_all(&h, JOB_RUNTIME_ARG, probe ? runtime->version_args : runtime->args);
        put_threads(&h, processors);
        put_all(&h, JOB_ENV, runtime->env);
        if (!probe)
                put(&h, JOB_CODE_NAME, runtime->code_name);
        if (!probe && runtime->read_only_workspace)
                put(&h, JOB_READ_ONLY, "");
        if (!probe && runtime->runner)
                put(&h, JOB_RUNNER, "");
        put(&h, JOB_HEAD_END, "");
        if (h.full)
                return -E2BIG;
        *ret_size = h.size;
        return 0;
}
