/* Filling a refusal. */
#include "server/refusal.h"

#include <stdarg.h>
#include <stdio.h>

/* A %.64s may have cut a character in the middle: what is no UTF-8 is shown as ?, and what stands behind stays. */
static void mend_utf8(char *s) {
        while (*s) {
                size_t n = 1, left = strnlen(s, 4);
                while (n <= left && !utf8_is_valid(s, n))
                        n++;
                if (n > left) {
                        *s = '?';
                        n = 1;
                }
                s += n;
        }
}

int refuse(struct Refusal *r, enum RefusalCode code, const char *field, const char *format, ...) {
        va_list ap;

        *r = (struct Refusal) { .code = code };
        if (field)
                (void) snprintf(r->field, sizeof r->field, "%s", field);
        va_start(ap, format);
        (void) vsnprintf(r->message, sizeof r->message, format, ap);
        va_end(ap);
        mend_utf8(r->field);
        mend_utf8(r->message);
        return (int) code;
}
