/* The head of a job: what the spawner's own config says about the program, before what the server sends. */
#include "spawner/job.h"

#include <inttypes.h>
#include <stdio.h>

#include "spawner/facts.h"

#define RUNTIME_ARG_MAX 4096

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

/* With the numbers that stand for themselves. */
static void put_args(struct Head *h, const struct HeadSpec *s) {
        for (char *const *word = s->runtime->args; *word; word++) {
                char text[RUNTIME_ARG_MAX];
                const char *at = strstr(*word, JOB_MEMORY_WORD);
                if (!at) {
                        put(h, JOB_RUNTIME_ARG, *word);
                        continue;
                }
                size_t n = (size_t) snprintf(text, sizeof text, "%.*s%" PRIu64 "%s", (int) (at - *word), *word, s->limits->memory_bytes / MIB,
                                             at + strlen(JOB_MEMORY_WORD));
                if (n < sizeof text)
                        put(h, JOB_RUNTIME_ARG, text);
                else
                        h->full = true;
        }
}

static void put_env(struct Head *h, const struct HeadSpec *s) {
        put_threads(h, facts_processors(s->limits->cpus));
        put_all(h, JOB_ENV, s->runtime->env);
}

static int head_end(const struct Head *h, size_t *ret_size) {
        if (h->full)
                return -E2BIG;
        *ret_size = h->size;
        return 0;
}

int job_head(const struct HeadSpec *s, uint8_t out[JOB_HEAD_MAX], size_t *ret_size) {
        const struct Runtime *runtime = s->runtime;
        struct Head h = {.bytes = out};
        put(&h, JOB_EXEC, runtime->exec);
        if (s->probe_version)
                put_all(&h, JOB_RUNTIME_ARG, runtime->version_args);
        else
                put_args(&h, s);
        put_env(&h, s);
        if (!s->probe_version)
                put(&h, JOB_CODE_NAME, runtime->code_name);
        if (!s->probe_version && runtime->read_only_workspace)
                put(&h, JOB_READ_ONLY, "");
        if (!s->probe_version && runtime->runner)
                put(&h, JOB_RUNNER, "");
        if (s->wait)
                put(&h, JOB_WAIT, "");
        put(&h, JOB_HEAD_END, "");
        return head_end(&h, ret_size);
}

int job_late_head(const struct HeadSpec *s, uint8_t out[JOB_HEAD_MAX], size_t *ret_size) {
        struct Head h = {.bytes = out};
        if (s->merge_streams)
                put(&h, JOB_MERGE_STREAMS, "");
        put_env(&h, s);
        return head_end(&h, ret_size);
}

bool job_tells_memory(const struct Runtime *runtime) {
        for (char *const *word = runtime->args; *word; word++)
                if (strstr(*word, JOB_MEMORY_WORD))
                        return true;
        return false;
}
