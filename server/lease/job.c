/* The body of the job, as records down the job pipe. */
#include "server/lease/job.h"

#include <stdio.h>

#include "common/job.h"

static size_t pieces_of(size_t size) {
        return (size + JOB_RECORD_MAX - 1) / JOB_RECORD_MAX;
}

static size_t count_records(const struct Request *r, const struct JobRunner *runner) {
        size_t n = 4 + r->n_env + r->n_args + pieces_of(r->code.size);

        n += 5 + pieces_of(r->inputs.size) + pieces_of(r->variables.size) + r->n_import_allowed + strv_length(runner->import_default);

        for (size_t i = 0; i < r->n_files; i++)
                n += 1 + pieces_of(r->files[i].content.size);
        return n;
}

/* prefix: -1 = none, else one byte that comes before data. */
static int add_record(struct Job *j, enum JobType type, int prefix, const void *data, size_t size) {
        if (j->n_headers == j->n_allocated)
                return -ENOBUFS;
        uint8_t *header = j->headers[j->n_headers++];
        job_put_header(header, type, (uint32_t) (size + (prefix >= 0)));
        if (prefix >= 0)
                header[JOB_HEADER_SIZE] = (uint8_t) prefix;
        int r = pipe_writer_add(&j->writer, header, JOB_HEADER_SIZE + (prefix >= 0));
        return r < 0 ? r : pipe_writer_add(&j->writer, data, size);
}

static int add_string(struct Job *j, enum JobType type, const char *s) {
        return isempty(s) && type != JOB_ARG ? 0 : add_record(j, type, -1, s, strlen(s));
}

static int add_bytes(struct Job *j, enum JobType type, const struct Bytes *bytes) {
        for (size_t at = 0; at < bytes->size; at += JOB_RECORD_MAX) {
                int r = add_record(j, type, -1, bytes->data + at, MIN(bytes->size - at, (size_t) JOB_RECORD_MAX));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_env(struct Job *j, const struct Request *request) {
        for (size_t i = 0; i < request->n_env; i++) {
                char *s = NULL;
                if (asprintf(&s, "%s=%s", request->env[i].key, request->env[i].value) < 0)
                        return -ENOMEM;
                int r = strv_push(&j->strings, s);
                if (r < 0)
                        return r;
                r = add_string(j, JOB_ENV, s);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_files(struct Job *j, const struct Request *request) {
        for (size_t i = 0; i < request->n_files; i++) {
                const struct RequestFile *f = &request->files[i];
                int r = add_record(j, JOB_FILE, f->executable, f->path, strlen(f->path));
                if (r < 0)
                        return r;
                r = add_bytes(j, JOB_FILE_DATA, &f->content);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_args(struct Job *j, const struct Request *request) {
        for (size_t i = 0; i < request->n_args; i++) {
                int r = add_string(j, JOB_ARG, request->args[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_number(struct Job *j, enum JobType type, uint8_t to[8], uint64_t n) {
        job_put_u64(to, n);
        return add_record(j, type, -1, to, 8);
}

/* A request's own policy takes the place of the operator's default. */
static int add_imports(struct Job *j, const struct Request *request, char *const *by_default) {
        int r = request->import_restrict || by_default ? add_record(j, JOB_IMPORT_RESTRICT, -1, "", 0) : 0;
        for (size_t i = 0; r >= 0 && i < request->n_import_allowed; i++)
                r = add_string(j, JOB_IMPORT_ALLOWED, request->import_allowed[i]);
        for (size_t i = 0; r >= 0 && !request->import_restrict && by_default && by_default[i]; i++)
                r = add_string(j, JOB_IMPORT_ALLOWED, by_default[i]);
        return r;
}

static int add_runner(struct Job *j, const struct Request *request, const struct JobRunner *runner) {
        j->contract = (uint8_t) MAX(request->contract, 1u); /* AUTO */
        int r = add_record(j, JOB_CONTRACT, -1, &j->contract, 1);
        if (r >= 0)
                r = add_bytes(j, JOB_INPUTS, &request->inputs);
        if (r >= 0)
                r = add_bytes(j, JOB_VARIABLES, &request->variables);
        if (r >= 0)
                r = add_imports(j, request, runner->import_default);
        if (r >= 0)
                r = add_number(j, JOB_VALUE_MAX, j->numbers[0], runner->value_max);
        if (r >= 0)
                r = add_number(j, JOB_CONTENT_MAX, j->numbers[1], runner->content_max);
        return r < 0 ? r : add_record(j, JOB_RUNNER_END, -1, "", 0);
}

static int add_all(struct Job *j, const struct Request *request, const char *working_dir, const struct JobRunner *runner) {
        int r = add_env(j, request);
        if (r >= 0)
                r = add_args(j, request);
        if (r >= 0)
                r = add_bytes(j, JOB_CODE, &request->code);
        if (r >= 0)
                r = add_files(j, request);
        if (r >= 0)
                r = add_string(j, JOB_TIMEZONE, request->timezone);
        if (r >= 0)
                r = add_string(j, JOB_WORKING_DIR, working_dir);
        if (r >= 0)
                r = add_record(j, JOB_END, -1, "", 0);
        return r < 0 || !runner->wanted ? r : add_runner(j, request, runner);
}

int job_make(struct Job *j, const struct Request *request, const char *working_dir, const struct JobRunner *runner) {
        *j = (struct Job) { .writer = PIPE_WRITER_NULL };
        j->n_allocated = count_records(request, runner);
        j->headers = calloc(j->n_allocated, sizeof *j->headers);
        return j->headers ? add_all(j, request, working_dir, runner) : -ENOMEM;
}

size_t job_pack(const struct Job *j, uint8_t out[JOB_BODY_MAX]) {
        size_t size = 0;

        for (size_t i = 0; i < j->writer.n_pieces; i++) {
                const struct Piece *p = &j->writer.pieces[i];
                if (p->size > JOB_BODY_MAX - size)
                        return 0;
                memcpy(out + size, p->data, p->size);
                size += p->size;
        }
        return size;
}

int job_send(struct Job *j, sd_event *event, int fd, void (*on_done)(struct PipeWriter *w, int error, void *userdata), void *userdata) {
        return pipe_writer_start(&j->writer, event, fd, on_done, userdata);
}

void job_done(struct Job *j) {
        pipe_writer_done(&j->writer);
        free(j->headers);
        j->headers = NULL;
        j->strings = strv_free(j->strings);
}
