/* What comes up the report pipe before the program runs. */
#include "server/lease/report.h"

#include "common/collect.h"
#include "common/job.h"

#define ERRNO_MAX 4095

static bool is_step_character(uint8_t c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

size_t report_take_stamps(const uint8_t *bytes, size_t size, struct FileStamp *stamps, size_t *n, size_t most) {
        size_t taken = 0;

        while (*n < most && size - taken >= JOB_HEADER_SIZE + FILE_STAMP_SIZE) {
                const uint8_t *p = bytes + taken;
                if (job_get_u32(p) != REPORT_FILE || job_get_u32(p + 4) != FILE_STAMP_SIZE)
                        break;
                stamps[(*n)++] = file_stamp_get(p + JOB_HEADER_SIZE);
                taken += JOB_HEADER_SIZE + FILE_STAMP_SIZE;
        }
        return taken;
}

int report_parse(const uint8_t *bytes, size_t size, struct Report *ret) {
        struct Report report = {};

        if (size == 0)
                return 0;
        if (size < JOB_HEADER_SIZE + 4 || job_get_u32(bytes) != REPORT_FAILED)
                return -EBADMSG;
        uint32_t length = job_get_u32(bytes + 4);
        if (length < 4 || length > REPORT_RECORD_MAX)
                return -EBADMSG;
        size_t n = MIN(MIN((size_t) length, size - JOB_HEADER_SIZE) - 4, sizeof report.step - 1);
        for (size_t i = 0; i < n; i++) {
                uint8_t c = bytes[JOB_HEADER_SIZE + 4 + i];
                report.step[i] = is_step_character(c) ? (char) c : '?';
        }
        uint32_t error = job_get_u32(bytes + JOB_HEADER_SIZE);
        report.error = (int) MIN(error, (uint32_t) ERRNO_MAX);
        *ret = report;
        return 1;
}
