/* The files of a finished execution: asks the cell's init (common/collect.h), puts contents into the log as they come, and keeps the list for
 * the result. */
#pragma once

#include "common/collect.h"
#include "common/pipe-writer.h"
#include "server/stream/eventlog.h"
#include "server/stream/records.h"

struct FileBase {
        const char *path; /* relative to /workspace; must live until files_done */
        struct FileStamp stamp;
};

struct FilesQuestion {
        const struct FileBase *base;
        size_t n_base;
        const char *const *patterns;
        size_t n_patterns;
        uint64_t content_max; /* bytes of all contents together */
        const char *code_name; /* a file that is told only when it was changed: patterns mean the caller's files. Must live until files_done */
};

struct Files {
        struct EventLog *log;
        int fd; /* -EBADF: closed or ended */
        sd_event_source *source, *deadline;
        struct PipeWriter writer;
        uint8_t *question;
        struct RecordReader reader;
        bool waiting, ended;
        usec_t time_left, reading_since; /* for the answer, without what was waited for a slow reader */
        uint64_t content_left;
        const char *code_name;
        bool passing_over; /* the content of an entry that is not told */
        size_t path_bytes; /* as the result carries them */
        struct ResultFile *list; /* until somebody takes it */
        size_t n, allocated;
        bool truncated;
        uint64_t sent;     /* of the last entry's content */
        bool content_open; /* its last piece has not been sent */
        void (*on_done)(void *userdata); /* once, from the event loop, whatever happened */
        void *userdata;
};

void files_init(struct Files *f, struct EventLog *log);
/* Takes both descriptors. On an error nothing is asked and on_done does not come. */
int files_ask(struct Files *f, sd_event *event, int collect, int files, const struct FilesQuestion *q);
void files_resume(struct Files *f);
void files_done(struct Files *f);
