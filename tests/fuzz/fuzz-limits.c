/* Numbers with units, and the figures the kernel prints: what is accepted is within bounds and can be said again. */
#include <stdio.h>

#include "common/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool held) {
        if (!held)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        char *text _cleanup_free_ = strndup((const char *) bytes, size), said[64];
        enum Evidence evidence;
        uint64_t number;

        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                double value;

                if (parse_limit(info, text, &value) < 0)
                        continue;
                check(value >= 0 && value <= 9007199254740992.0);
                check(strlen(limit_format(info, value, said, sizeof(said))) > 0);
        }
        (void) parse_evidence(text, &evidence);
        (void) keyed_number(text, "usage_usec", &number);
        (void) utf8_is_valid((const char *) bytes, size);
        return 0;
}
