/* Reading a question of the collect pipe (common/collect.h) with strict bounds. */
#pragma once

#include "common/collect.h"
#include "common/job.h"

struct BaseEntry {
        struct FileStamp stamp;
        uint32_t path, length; /* in base_paths */
        bool seen;             /* by the walk */
};

struct Pattern {
        uint16_t length;
        char bytes[COLLECT_PATTERN_MAX];
};

/* Several MiB, of which only what is used is ever touched; all zeros at first. */
struct Question {
        struct BaseEntry base[COLLECT_BASE_MAX];
        size_t n_base;
        char base_paths[COLLECT_BASE_BYTES_MAX];
        size_t base_used;
        struct Pattern patterns[COLLECT_PATTERNS_MAX];
        size_t n_patterns;
        uint64_t content_max;
};

struct QuestionReader {
        /* Fills buffer completely: 0, or a negative errno (-ENODATA at the end of the pipe). */
        int (*read)(void *userdata, void *buffer, size_t size);
        void *userdata;
};

static inline int question_base(struct Question *q, const struct QuestionReader *reader, uint32_t length) {
        uint8_t stamp[FILE_STAMP_SIZE];
        if (length <= FILE_STAMP_SIZE || length > FILE_STAMP_SIZE + COLLECT_PATH_MAX || q->n_base == COLLECT_BASE_MAX)
                return -EBADMSG;
        length -= FILE_STAMP_SIZE;
        if (length > sizeof q->base_paths - q->base_used)
                return -EBADMSG;
        int r = reader->read(reader->userdata, stamp, sizeof stamp);
        char *path = q->base_paths + q->base_used;
        if (r >= 0)
                r = reader->read(reader->userdata, path, length);
        if (r < 0)
                return r;
        if (path[0] == '/' || memchr(path, 0, length))
                return -EBADMSG;
        q->base[q->n_base++] = (struct BaseEntry) {
                .stamp = file_stamp_get(stamp),
                .path = (uint32_t) q->base_used,
                .length = length,
        };
        q->base_used += length;
        return 0;
}

static inline int question_pattern(struct Question *q, const struct QuestionReader *reader, uint32_t length) {
        if (length == 0 || length > COLLECT_PATTERN_MAX || q->n_patterns == COLLECT_PATTERNS_MAX)
                return -EBADMSG;
        struct Pattern *p = &q->patterns[q->n_patterns];
        int r = reader->read(reader->userdata, p->bytes, length);
        if (r < 0)
                return r;
        if (path_pattern_check(p->bytes, length))
                return -EBADMSG;
        p->length = (uint16_t) length;
        q->n_patterns++;
        return 0;
}

static inline int question_go(struct Question *q, const struct QuestionReader *reader, uint32_t length) {
        uint8_t most[8];
        if (length != sizeof most)
                return -EBADMSG;
        int r = reader->read(reader->userdata, most, sizeof most);
        if (r >= 0)
                q->content_max = job_get_u64(most);
        return r < 0 ? r : 1;
}

/* Until COLLECT_GO. -ENODATA: the pipe has ended; -EBADMSG: a record that has no place there or is too long. */
static inline int question_read(struct Question *q, const struct QuestionReader *reader) {
        for (;;) {
                uint8_t header[JOB_HEADER_SIZE];
                int r = reader->read(reader->userdata, header, sizeof header);
                if (r < 0)
                        return r;
                uint32_t length = job_get_u32(header + 4);
                switch (job_get_u32(header)) {
                case COLLECT_BASE:
                        r = question_base(q, reader, length);
                        break;
                case COLLECT_PATTERN:
                        r = question_pattern(q, reader, length);
                        break;
                case COLLECT_GO:
                        r = question_go(q, reader, length);
                        break;
                default:
                        r = -EBADMSG;
                }
                if (r != 0)
                        return r < 0 ? r : 0;
        }
}
