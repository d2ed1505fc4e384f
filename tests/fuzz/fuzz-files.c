/* The files pipe, through a real pipe and a real log: whatever the cell's init says, the list and the contents keep their bounds, every name is
 * text, and an end comes once. The first byte chooses how much content is allowed; then come bytes as they are, or words of four
 * bytes that each make a record. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "server/stream/files.h"

struct Look {
        struct Files *files;
        struct LogCursor cursor;
        unsigned done;
        uint64_t content, allowed;
        char open[CONTENT_ID_MAX]; /* content that still lacks its last piece */
        uint64_t at;
};

static void expect(bool good) {
        if (!good)
                abort();
}

static void look(struct Look *l) {
        struct Event e;

        while (log_cursor_next(&l->cursor, &e) > 0) {
                expect(e.kind == EVENT_CONTENT && e.content.size <= COLLECT_PIECE_MAX);
                if (!*l->open) {
                        memcpy(l->open, e.content.id, strlen(e.content.id) + 1);
                        l->at = 0;
                }
                expect(strcmp(l->open, e.content.id) == 0 && e.content.offset == l->at);
                l->at += e.content.size;
                l->content += e.content.size;
                if (e.content.last)
                        *l->open = 0;
        }
        expect(l->content <= l->allowed);
}

static void on_wake(void *userdata) {
        look(userdata);
}

static void on_room(void *userdata) {
        files_resume(((struct Look *) userdata)->files);
}

static void on_done(void *userdata) {
        struct Look *l = userdata;
        expect(++l->done == 1 && l->files->fd < 0);
}

static void check(const struct Files *f) {
        size_t paths = 0;

        expect(f->n <= COLLECT_ENTRIES_MAX && f->n <= f->allocated);
        for (size_t i = 0; i < f->n; i++) {
                const struct ResultFile *file = &f->list[i];
                expect(*file->path && utf8_is_valid(file->path, strlen(file->path)) && file->change <= FILE_DELETED);
                expect(file->skipped <= FILE_VANISHED && strchr(file->mime_type, '/') && (!file->skipped || !*file->content_id));
                paths += strlen(file->path);
        }
        expect(paths <= COLLECT_ENTRY_BYTES_MAX);
}

static void run(sd_event *event) {
        while (sd_event_run(event, 0) > 0)
                ;
}

static void feed(struct Look *l, sd_event *event, int fd, const uint8_t *bytes, size_t size) {
        while (size > 0 && l->files->fd >= 0) {
                ssize_t n = write(fd, bytes, size);
                if (n > 0) {
                        bytes += n;
                        size -= (size_t) n;
                }
                run(event);
        }
}

/* Type, size, size, a byte that everything is made of. */
static void feed_word(struct Look *l, sd_event *event, int fd, const uint8_t word[4]) {
        static uint8_t record[JOB_HEADER_SIZE + 65536];
        uint32_t type = word[0] % FILES_RECORD_MAX_, size = (uint32_t) word[1] << 8 | word[2];

        memset(record + JOB_HEADER_SIZE, word[3], size);
        if (type == FILES_ENTRY && size > 4 + FILE_STAMP_SIZE) {
                uint8_t *p = record + JOB_HEADER_SIZE;
                size = MIN(size, (uint32_t) (4 + FILE_STAMP_SIZE + COLLECT_PATH_MAX));
                memset(p, 0, 4 + FILE_STAMP_SIZE);
                p[0] = word[3] & 3;
                p[1] = word[0] & 128 ? word[3] & 7 : 0;
                p[2] = word[0] & 64;
                memset(p + 12, word[2], 3);
        }
        if (type == FILES_END)
                size = 1;
        job_put_header(record, type, size);
        feed(l, event, fd, record, JOB_HEADER_SIZE + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const uint64_t limits[] = {0, 1, 100, 64 * KIB, 1 * MIB, 64 * MIB, UINT64_MAX};
        static sd_event *event;
        struct Files files;
        struct EventLog log;
        struct Look l = {.files = &files};
        int question[2], answer[2];

        if (size < 1)
                return 0;
        (void) signal(SIGPIPE, SIG_IGN);
        if ((!event && sd_event_new(&event) < 0) || pipe2(question, O_CLOEXEC) < 0 || pipe2(answer, O_CLOEXEC | O_NONBLOCK) < 0 ||
            eventlog_init(&log, event, now_monotonic()) < 0)
                abort();
        l.allowed = limits[(data[0] >> 1) % ELEMENTSOF(limits)];
        log.on_room = on_room;
        log.userdata = &l;
        log_cursor_start(&l.cursor, &log, true, on_wake, &l);
        look(&l);
        files_init(&files, &log);
        files.on_done = on_done;
        files.userdata = &l;
        if (files_ask(&files, event, question[1], answer[0], &(struct FilesQuestion) {.content_max = l.allowed, .code_name = "A"}) < 0)
                abort();
        if (data[0] & 1)
                feed(&l, event, answer[1], data + 1, size - 1);
        else
                for (size_t at = 1; at + 4 <= size; at += 4)
                        feed_word(&l, event, answer[1], data + at);
        (void) close(answer[1]);
        run(event);
        look(&l);
        expect(l.done == 1 && !*l.open && files.truncated + files.ended > 0);
        check(&files);
        files_done(&files);
        log_cursor_stop(&l.cursor);
        eventlog_done(&log);
        (void) close(question[0]);
        return 0;
}
