/* Logging at the edge: to the journal with fields when standard error is the journal's, else a line on standard error. */
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/journal.h"

static const char *log_name = "glovebox";
static int log_max_level = LOG_INFO;
static bool log_journal;

/* systemd tells in JOURNAL_STREAM which file standard error was connected to; a redirection later makes it another one. */
static bool stderr_is_journal(void) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long dev, ino;
        struct stat st;

        return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
               st.st_dev == (dev_t) dev && st.st_ino == (ino_t) ino;
}

void log_open(const char *name) {
        log_name = name;
        log_journal = stderr_is_journal();
}

void log_settle(void) {
        if (log_journal)
                journal_settle();
}

void log_set_max_level(int level) {
        log_max_level = level;
}

/* A message may hold what a caller sent: it must not look like a second line or move a terminal's cursor. */
static void clean(char *s) {
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        *s = '?';
}

struct Record {
        int level, error;
        const char *id, *execution; /* or NULL */
        char message[2048];
};

static int to_journal(const struct Record *r) {
        char level[4], number[16] = "";

        (void) snprintf(level, sizeof(level), "%d", r->level);
        if (r->error)
                (void) snprintf(number, sizeof(number), "%d", r->error);
        const struct JournalField fields[] = {
                { "PRIORITY", level }, { "MESSAGE", r->message }, { "SYSLOG_IDENTIFIER", log_name }, { "GLOVEBOX_EXECUTION_ID", r->execution },
                { "MESSAGE_ID", r->id }, { "ERRNO", number },
        };
        return journal_send(fields, ELEMENTSOF(fields));
}

static void to_stderr(const char *execution, const char *message) {
        char line[2400];
        int n;

        if (execution)
                n = snprintf(line, sizeof(line), "%s[%.128s]: %s\n", log_name, execution, message);
        else
                n = snprintf(line, sizeof(line), "%s: %s\n", log_name, message);
        /* One write, so that lines of several processes do not mix. Nothing can be done when it fails. */
        if (write(STDERR_FILENO, line, MIN((size_t) n, sizeof(line) - 1)) < 0)
                return;
}

static void log_valist(int level, const char *id, int error, const char *execution, bool journal_only, const char *format, va_list ap)
        __attribute__((format(printf, 6, 0)));
static void log_valist(int level, const char *id, int error, const char *execution, bool journal_only, const char *format, va_list ap) {
        struct Record r = { .level = level, .error = error, .id = id, .execution = execution };
        int saved = errno;

        if (level > log_max_level || (journal_only && !log_journal))
                return;
        errno = error;
        (void) vsnprintf(r.message, sizeof(r.message), format, ap);
        clean(r.message);
        int sent = log_journal ? to_journal(&r) : -ENOENT;
        /* A journal that does not read does not read our standard error either. */
        if (sent < 0 && sent != -EAGAIN && !journal_only)
                to_stderr(execution, r.message);
        errno = saved;
}

int log_full(int level, int error, const char *execution, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        log_valist(level, NULL, abs(error), execution, false, format, ap);
        va_end(ap);
        return -abs(error);
}

int log_event(int level, const char *id, int error, const char *execution, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        log_valist(level, id, abs(error), execution, false, format, ap);
        va_end(ap);
        return -abs(error);
}

void log_step(const char *id, const char *execution, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        log_valist(LOG_INFO, id, 0, execution, true, format, ap);
        va_end(ap);
}
