/* The head of a job: what the spawner's own config says about the program, before what the server sends. */
#include "spawner/job.h"

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

int job_head(const struct Runtime *runtime, bool probe, uint8_t out[JOB_HEAD_MAX], size_t *ret_size) {
        struct Head h = {.bytes = out};
        put(&h, JOB_EXEC, runtime->exec);
        put_all(&h, JOB_RUNTIME_ARG, probe ? runtime->version_args : runtime->args);
        put_all(&h, JOB_ENV, runtime->env);
        if (!probe)
                put(&h, JOB_CODE_NAME, runtime->code_name);
        put(&h, JOB_HEAD_END, "");
        if (h.full)
                return -E2BIG;
        *ret_size = h.size;
        return 0;
}
