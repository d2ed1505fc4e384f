/* Records out of a cell. */
#include "server/stream/records.h"

static int reserve(struct RecordReader *r) {
        size_t size = (size_t) r->length + 1;
        if (size <= r->allocated)
                return 0;
        uint8_t *larger = realloc(r->buffer, size);
        if (!larger)
                return -ENOMEM;
        r->buffer = larger;
        r->allocated = size;
        return 0;
}

static int on_header(struct RecordReader *r) {
        r->type = job_get_u32(r->header);
        r->length = job_get_u32(r->header + 4);
        r->taken = 0;
        if (r->type == 0 || r->type >= r->n_rules)
                return -EBADMSG;
        const struct RecordRuleOut *rule = &r->rules[r->type];
        if (r->length < rule->min || r->length > rule->max)
                return -EBADMSG;
        return rule->in_pieces ? 0 : reserve(r);
}

static int finish(struct RecordReader *r) {
        r->n_header = 0;
        if (r->rules[r->type].in_pieces)
                return 0;
        r->buffer[r->length] = 0;
        return r->on_record(r->userdata, r->type, r->buffer, r->length);
}

static int take(struct RecordReader *r, const uint8_t *bytes, size_t size) {
        r->taken += (uint32_t) size;
        if (r->rules[r->type].in_pieces)
                return r->on_record(r->userdata, r->type, bytes, size);
        memcpy(r->buffer + r->taken - size, bytes, size);
        return 0;
}

int record_reader_feed(struct RecordReader *r, const uint8_t *bytes, size_t size) {
        while (size > 0) {
                int e = 0;
                if (r->n_header < JOB_HEADER_SIZE) {
                        r->header[r->n_header++] = *bytes++;
                        size--;
                        if (r->n_header == JOB_HEADER_SIZE)
                                e = on_header(r);
                } else {
                        size_t n = MIN(size, (size_t) (r->length - r->taken));
                        e = take(r, bytes, n);
                        bytes += n;
                        size -= n;
                }
                if (e >= 0 && r->n_header == JOB_HEADER_SIZE && r->taken == r->length)
                        e = finish(r);
                if (e < 0)
                        return e;
        }
        return 0;
}

bool record_reader_is_idle(const struct RecordReader *r) {
        return r->n_header == 0;
}

void record_reader_done(struct RecordReader *r) {
        free(r->buffer);
        r->buffer = NULL;
        r->allocated = 0;
}
