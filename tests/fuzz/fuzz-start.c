/* The job pipe, as glovebox-start reads it: whatever comes, order and sizes hold. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "inside/records.h"

struct Input {
        const uint8_t *bytes;
        size_t size;
        bool head_ended, ended;
};

static int on_read(void *userdata, void *buffer, size_t size) {
        struct Input *in = userdata;
        if (in->ended)
                abort(); /* it stops at the end */
        if (size > in->size)
                return -ENODATA;
        memcpy(buffer, in->bytes, size);
        in->bytes += size;
        in->size -= size;
        return 0;
}

static int on_text(void *userdata, enum JobType type, char *bytes, size_t length) {
        struct Input *in = userdata;
        bool head_only = type == JOB_EXEC || type == JOB_RUNTIME_ARG || type == JOB_CODE_NAME || type == JOB_RUNNER || type == JOB_READ_ONLY ||
                         type == JOB_WAIT || type == JOB_HEAD_END;
        if (in->head_ended && head_only)
                abort();
        if (!in->head_ended && !head_only && type != JOB_ENV)
                abort();
        if (length > RECORD_STRING_MAX || bytes[length] != 0 || (type != JOB_FILE && strlen(bytes) != length))
                abort();
        in->head_ended |= type == JOB_HEAD_END;
        in->ended |= type == JOB_END;
        return 0;
}

static int on_data(void *userdata, enum JobType type, const uint8_t *bytes, size_t length) {
        struct Input *in = userdata;
        if (!in->head_ended || length == 0 || length > RECORD_STRING_MAX || (type != JOB_CODE && type != JOB_FILE_DATA))
                abort();
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static char buffer[RECORD_STRING_MAX + 1];
        struct Input in = {.bytes = data, .size = size};
        const struct RecordHandler h = {.read = on_read, .text = on_text, .data = on_data, .userdata = &in, .buffer = buffer};
        if (records_read_part(&h, RECORD_HEAD) == 0 && records_read_part(&h, RECORD_BODY) == 0 && !in.ended)
                abort();
        return 0;
}
