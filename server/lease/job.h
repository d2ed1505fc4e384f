/* The body of the job: what glovebox-start needs of a request, as records down the job pipe (common/job.h). */
#pragma once

#include "common/job.h"
#include "common/pipe-writer.h"
#include "server/request.h"

struct Job {
        struct PipeWriter writer;
        uint8_t (*headers)[9]; /* record headers (with the flags byte of JOB_FILE), referred to by the writer */
        size_t n_headers, n_allocated;
        char **strings;        /* NAME=VALUE */
        uint8_t contract, numbers[2][8];
};

/* What the runner of a request gets besides. */
struct JobRunner {
        bool wanted; /* the runtime has one */
        uint64_t value_max, content_max;
        char *const *import_default; /* allowed when the request has no policy; NULL = any. Must live until on_done */
};

/* What is to be sent. request must live until it has been. */
int job_make(struct Job *j, const struct Request *request, const char *working_dir, const struct JobRunner *runner);
/* All of it in one piece, if it is no larger than JOB_BODY_MAX: its size, or 0. */
size_t job_pack(const struct Job *j, uint8_t out[JOB_BODY_MAX]);
/* Takes fd. 1 = all was sent at once: on_done does not come. */
int job_send(struct Job *j, sd_event *event, int fd, void (*on_done)(struct PipeWriter *w, int error, void *userdata), void *userdata);
void job_done(struct Job *j);
