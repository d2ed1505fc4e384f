/* The files of a finished execution. */
#include "server/stream/files.h"

#include <stdio.h>
#include <sys/epoll.h>

#include "server/stream/mime.h"

#define READ_SIZE (64 * KIB)
#define READS_AT_ONCE 4
#define QUIET_DEADLINE (5 * USEC_PER_SEC) /* init says nothing for so long */
#define ANSWER_DEADLINE (60 * USEC_PER_SEC) /* all it says, as slowly as it likes */
#define ENTRY_HEAD (4 + FILE_STAMP_SIZE)

enum { /* glovebox.v1.Change and Skipped */
        CHANGE_LAST = 3, /* DELETED */
        SKIPPED_LAST = 7,
};

static const struct RecordRuleOut rules[FILES_RECORD_MAX_] = {
        [0] = {1, 0, false},
        [FILES_ENTRY] = {ENTRY_HEAD + 1, ENTRY_HEAD + COLLECT_PATH_MAX, false},
        [FILES_DATA] = {0, COLLECT_PIECE_MAX, true},
        [FILES_END] = {1, 1, false},
};

static int send_content(struct Files *f, const uint8_t *bytes, size_t size, bool last) {
        struct Event e = {
                .kind = EVENT_CONTENT,
                .content = {.id = f->list[f->n - 1].content_id, .offset = f->sent, .data = bytes, .size = size, .last = last},
        };
        f->sent += size;
        f->content_open = !last;
        return eventlog_add_copy(f->log, &e);
}

/* A file that shrank while it was read ends early. */
static int close_content(struct Files *f) {
        return f->content_open ? send_content(f, NULL, 0, true) : 0;
}

static int add_entry(struct Files *f, const struct ResultFile *file) {
        if (f->n == f->allocated) {
                size_t allocated = MAX(2 * f->allocated, (size_t) 16);
                struct ResultFile *larger = realloc(f->list, allocated * sizeof *larger);
                if (!larger)
                        return -ENOMEM;
                f->list = larger;
                f->allocated = allocated;
        }
        f->list[f->n++] = *file;
        return 0;
}

static int on_entry(struct Files *f, const uint8_t *bytes, size_t size) {
        size_t n = size - ENTRY_HEAD;
        const uint8_t *path = bytes + ENTRY_HEAD;
        struct ResultFile file = {.change = bytes[0], .skipped = bytes[1], .size = file_stamp_get(bytes + 4).size};
        bool has_content = bytes[2] && !file.skipped && file.change != CHANGE_LAST;

        if (file.change > CHANGE_LAST || file.skipped > SKIPPED_LAST || memchr(path, 0, n) || f->n == COLLECT_ENTRIES_MAX)
                return -EBADMSG;
        int r = close_content(f);
        f->passing_over = file.change == 0 && f->code_name && strlen(f->code_name) == n && memcmp(f->code_name, path, n) == 0;
        if (r < 0 || f->passing_over)
                return r;
        file.path = utf8_escape(path, n, &file.escaped);
        if (!file.path)
                return -ENOMEM;
        f->path_bytes += strlen(file.path);
        if (f->path_bytes > COLLECT_ENTRY_BYTES_MAX) {
                free(file.path);
                return -EBADMSG;
        }
        file.mime_type = mime_type_of(file.path);
        if (has_content)
                (void) snprintf(file.content_id, sizeof file.content_id, "file-%zu", f->n + 1);
        r = add_entry(f, &file);
        if (r < 0) {
                free(file.path);
                return r;
        }
        f->sent = 0;
        f->content_open = has_content;
        return has_content && file.size == 0 ? close_content(f) : 0;
}

static int on_data(struct Files *f, const uint8_t *bytes, size_t size) {
        if (f->passing_over)
                return 0;
        if (!f->content_open || size > f->content_left || f->sent + size > f->list[f->n - 1].size)
                return size == 0 ? 0 : -EBADMSG;
        f->content_left -= size;
        return send_content(f, bytes, size, f->sent + size == f->list[f->n - 1].size);
}

static int files_on_record(void *userdata, uint32_t type, const uint8_t *bytes, size_t size) {
        struct Files *f = userdata;

        if (f->ended)
                return -EBADMSG;
        if (type == FILES_ENTRY)
                return on_entry(f, bytes, size);
        if (type == FILES_DATA)
                return on_data(f, bytes, size);
        f->ended = true;
        f->truncated = bytes[0];
        return 0;
}

static void files_stop(struct Files *f) {
        f->source = sd_event_source_disable_unref(f->source);
        f->deadline = sd_event_source_disable_unref(f->deadline);
        f->fd = close_fd(f->fd);
        pipe_writer_done(&f->writer);
        free(f->question);
        f->question = NULL;
        f->waiting = false;
        record_reader_done(&f->reader);
}

/* The end of it: what came counts, and what did not is told as missing. */
static void files_end(struct Files *f) {
        if (!f->ended)
                f->truncated = true;
        (void) close_content(f);
        files_stop(f);
        f->on_done(f->userdata);
}

static int files_on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
        files_end(userdata);
        return 0;
}

static usec_t time_left(const struct Files *f, usec_t now) {
        return f->time_left - MIN(f->time_left, now - f->reading_since);
}

static int set_deadline(struct Files *f) {
        usec_t now = now_monotonic();
        int r = sd_event_source_set_time(f->deadline, now + MIN(QUIET_DEADLINE, time_left(f, now)));
        return r < 0 ? r : sd_event_source_set_enabled(f->deadline, SD_EVENT_ONESHOT);
}

static int files_on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        static uint8_t buffer[READ_SIZE]; /* one thread reads */
        struct Files *f = userdata;

        for (int i = 0; i < READS_AT_ONCE; i++) {
                if (eventlog_room(f->log) == 0) {
                        f->waiting = true;
                        f->time_left = time_left(f, now_monotonic());
                        (void) sd_event_source_set_enabled(f->source, SD_EVENT_OFF);
                        (void) sd_event_source_set_enabled(f->deadline, SD_EVENT_OFF);
                        return 0;
                }
                ssize_t n = read(f->fd, buffer, sizeof buffer);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return set_deadline(f);
                if (n <= 0 || record_reader_feed(&f->reader, buffer, (size_t) n) < 0 || f->ended) {
                        files_end(f);
                        return 0;
                }
        }
        return set_deadline(f);
}

static void files_on_written(struct PipeWriter *w, int error, void *userdata) {
        /* A reader that has gone ends the answer too. */
}

static size_t question_size(const struct FilesQuestion *q) {
        size_t size = JOB_HEADER_SIZE + 8;
        for (size_t i = 0; i < q->n_base; i++)
                size += JOB_HEADER_SIZE + FILE_STAMP_SIZE + strlen(q->base[i].path);
        for (size_t i = 0; i < q->n_patterns; i++)
                size += JOB_HEADER_SIZE + strlen(q->patterns[i]);
        return size;
}

static uint8_t *put_record(uint8_t *to, uint32_t type, const void *bytes, size_t size) {
        job_put_header(to, type, (uint32_t) size);
        memcpy(to + JOB_HEADER_SIZE, bytes, size);
        return to + JOB_HEADER_SIZE + size;
}

static int write_question(struct Files *f, const struct FilesQuestion *q) {
        size_t size = question_size(q);
        uint8_t *to, go[8];

        to = f->question = malloc(size);
        if (!to)
                return -ENOMEM;
        for (size_t i = 0; i < q->n_base; i++) {
                uint8_t entry[FILE_STAMP_SIZE + COLLECT_PATH_MAX];
                size_t n = strlen(q->base[i].path);
                memcpy(file_stamp_put(entry, &q->base[i].stamp), q->base[i].path, MIN(n, (size_t) COLLECT_PATH_MAX));
                to = put_record(to, COLLECT_BASE, entry, FILE_STAMP_SIZE + MIN(n, (size_t) COLLECT_PATH_MAX));
        }
        for (size_t i = 0; i < q->n_patterns; i++)
                to = put_record(to, COLLECT_PATTERN, q->patterns[i], strlen(q->patterns[i]));
        job_put_u64(go, q->content_max);
        to = put_record(to, COLLECT_GO, go, sizeof go);
        return pipe_writer_add(&f->writer, f->question, (size_t) (to - f->question));
}

void files_init(struct Files *f, struct EventLog *log) {
        *f = (struct Files) {.log = log, .fd = -EBADF, .writer = PIPE_WRITER_NULL};
        f->reader = (struct RecordReader) {.rules = rules, .n_rules = FILES_RECORD_MAX_, .on_record = files_on_record, .userdata = f};
}

static int start_reading(struct Files *f, sd_event *event) {
        int r = set_nonblock(f->fd, true);
        if (r >= 0)
                r = sd_event_add_io(event, &f->source, f->fd, EPOLLIN, files_on_readable, f);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &f->deadline, CLOCK_MONOTONIC, QUIET_DEADLINE, 0, files_on_deadline, f);
        return r;
}

int files_ask(struct Files *f, sd_event *event, int collect, int files, const struct FilesQuestion *q) {
        int owned _cleanup_close_ = collect;

        f->fd = files;
        f->content_left = q->content_max;
        f->code_name = q->code_name;
        f->time_left = ANSWER_DEADLINE;
        f->reading_since = now_monotonic();
        int r = owned < 0 || files < 0 ? -EBADF : write_question(f, q);
        if (r >= 0)
                r = start_reading(f, event);
        if (r >= 0)
                r = pipe_writer_start(&f->writer, event, TAKE_FD(owned), files_on_written, f);
        if (r < 0)
                files_stop(f);
        return MIN(r, 0);
}

void files_resume(struct Files *f) {
        if (!f->waiting)
                return;
        f->waiting = false;
        f->reading_since = now_monotonic();
        (void) sd_event_source_set_enabled(f->source, SD_EVENT_ON);
        (void) set_deadline(f);
}

void files_done(struct Files *f) {
        if (!f->log)
                return;
        files_stop(f);
        for (size_t i = 0; i < f->n; i++)
                free(f->list[i].path);
        free(f->list);
        f->list = NULL;
        f->n = 0;
        f->log = NULL;
}
