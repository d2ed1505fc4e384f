/* Reading the records of common/job.h with strict bounds: order and sizes are checked here, meaning is the handler's. */
#pragma once

#include "common/job.h"

#define RECORD_TEXT_MAX (4 * KIB)      /* paths and names */
#define RECORD_STRING_MAX (160 * KIB)  /* one argument or variable */

struct RecordHandler {
        /* Fills buffer completely: 0, or a negative errno (-ENODATA at the end of the pipe). */
        int (*read)(void *userdata, void *buffer, size_t size);
        /* A short record, whole, terminated by a NUL that length does not count. */
        int (*text)(void *userdata, enum JobType type, char *bytes, size_t length);
        /* A piece of code or of a file. */
        int (*data)(void *userdata, enum JobType type, const uint8_t *bytes, size_t length);
        void *userdata;
        char *buffer; /* RECORD_STRING_MAX + 1 bytes */
};

enum RecordPart {
        RECORD_HEAD = 1,
        RECORD_BODY = 2,
};

struct RecordRule {
        unsigned parts;
        uint32_t max;
        bool is_data;    /* bytes: given in pieces */
        bool binary;     /* may hold NUL */
};

static const struct RecordRule record_rules[JOB_TYPE_MAX_] = {
        [JOB_EXEC] = {RECORD_HEAD, RECORD_TEXT_MAX},
        [JOB_RUNTIME_ARG] = {RECORD_HEAD, RECORD_TEXT_MAX},
        [JOB_ENV] = {RECORD_HEAD | RECORD_BODY, RECORD_STRING_MAX},
        [JOB_CODE_NAME] = {RECORD_HEAD, 255},
        [JOB_RUNNER] = {RECORD_HEAD, 0},
        [JOB_READ_ONLY] = {RECORD_HEAD, 0},
        [JOB_WAIT] = {RECORD_HEAD, 0},
        [JOB_HEAD_END] = {RECORD_HEAD, 0},
        [JOB_ARG] = {RECORD_BODY, RECORD_STRING_MAX},
        [JOB_CODE] = {RECORD_BODY, JOB_RECORD_MAX, .is_data = true},
        [JOB_FILE] = {RECORD_BODY, RECORD_TEXT_MAX + 1, .binary = true},
        [JOB_FILE_DATA] = {RECORD_BODY, JOB_RECORD_MAX, .is_data = true},
        [JOB_WORKING_DIR] = {RECORD_BODY, RECORD_TEXT_MAX},
        [JOB_TIMEZONE] = {RECORD_BODY, 255},
        [JOB_MERGE_STREAMS] = {RECORD_BODY, 0},
        [JOB_END] = {RECORD_BODY, 0},
};

static inline int record_data(const struct RecordHandler *h, enum JobType type, uint32_t length) {
        while (length > 0) {
                size_t piece = MIN((size_t) length, (size_t) RECORD_STRING_MAX);
                int r = h->read(h->userdata, h->buffer, piece);
                if (r >= 0)
                        r = h->data(h->userdata, type, (uint8_t *) h->buffer, piece);
                if (r < 0)
                        return r;
                length -= (uint32_t) piece;
        }
        return 0;
}

static inline int record_text(const struct RecordHandler *h, enum JobType type, uint32_t length) {
        int r = h->read(h->userdata, h->buffer, length);
        if (r < 0)
                return r;
        h->buffer[length] = 0;
        if (!record_rules[type].binary && memchr(h->buffer, 0, length))
                return -EBADMSG;
        return h->text(h->userdata, type, h->buffer, length);
}

/* The head up to JOB_HEAD_END, or the body up to JOB_END. -EBADMSG: a record that has no place there or is too long. */
static inline int records_read_part(const struct RecordHandler *h, enum RecordPart part) {
        for (;;) {
                uint8_t header[JOB_HEADER_SIZE];
                int r = h->read(h->userdata, header, sizeof header);
                if (r < 0)
                        return r;
                uint32_t type = job_get_u32(header), length = job_get_u32(header + 4);
                if (type == 0 || type >= JOB_TYPE_MAX_ || !(record_rules[type].parts & part) || length > record_rules[type].max)
                        return -EBADMSG;
                r = record_rules[type].is_data ? record_data(h, (enum JobType) type, length) : record_text(h, (enum JobType) type, length);
                if (r < 0)
                        return r;
                if (type == (part == RECORD_HEAD ? JOB_HEAD_END : JOB_END))
                        return 0;
        }
}
