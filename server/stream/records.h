/* Records out of a cell (header of common/job.h), taken apart as their bytes come. Nothing is believed: a type that is not in the table, or a
 * length above its bound, ends it. */
#pragma once

#include "common/job.h"

struct RecordRuleOut {
        uint32_t min, max;
        bool in_pieces; /* given as it comes, not kept */
};

struct RecordReader {
        const struct RecordRuleOut *rules; /* by type; max = 0 and min = 1: there is none */
        uint32_t n_rules;
        /* bytes: the whole record, a NUL behind it; or the next piece of it. Negative: it has no place here. */
        int (*on_record)(void *userdata, uint32_t type, const uint8_t *bytes, size_t size);
        void *userdata;
        uint8_t header[JOB_HEADER_SIZE];
        size_t n_header;
        uint32_t type, length, taken;
        uint8_t *buffer;
        size_t allocated;
};

/* -EBADMSG, -ENOMEM or what on_record said. */
int record_reader_feed(struct RecordReader *r, const uint8_t *bytes, size_t size);
/* Between two records. */
bool record_reader_is_idle(const struct RecordReader *r);
void record_reader_done(struct RecordReader *r);
