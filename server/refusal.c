/* Filling a refusal. */
#include "server/refusal.h"

#include <stdarg.h>
#include <stdio.h>

/* Ends the text at the last whole UTF-8 character; what was cut in the middle of one goes. */
static void cut_utf8(char *s) {
        size_t n = strlen(s);
        while (n > 0 && !utf8_is_valid(s, n))
                n--;
        s[n] = 0;
}

int refuse(struct Refusal *r, enum RefusalCode code, const char *field, const char *format, ...) {
        va_list ap;

        *r = (struct Refusal) { .code = code };
        if (field)
                (void) snprintf(r->field, sizeof r->field, "%s", field);
        va_start(ap, format);
        (void) vsnprintf(r->message, sizeof r->message, format, ap);
        va_end(ap);
        cut_utf8(r->field);
        cut_utf8(r->message);
        return (int) code;
}
