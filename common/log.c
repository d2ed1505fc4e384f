/* Logging at the edge: to the journal with fields when standard error is the journal's, else a line on standard error. */
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* Where a journal record comes from is told by its fields; file and line of this wrapper would be noise. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

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

void log_set_max_level(int level) {
        log_max_level = level;
}

/* A message may hold what a caller sent: it must not look like a second line or move a terminal's cursor. */
static void clean(char *s) {
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        *s = '?';
}

static int to_journal(int level, const char *execution, const char *message) {
        char priority[32], text[2100], id[160], who[80];
        struct iovec fields[4];
        int n = 3;

        fields[0] = (struct iovec) { priority, (size_t) snprintf(priority, sizeof(priority), "PRIORITY=%d", level) };
        fields[1] = (struct iovec) { text, (size_t) snprintf(text, sizeof(text), "MESSAGE=%s", message) };
        fields[2] = (struct iovec) { who, MIN((size_t) snprintf(who, sizeof(who), "SYSLOG_IDENTIFIER=%s", log_name), sizeof(who) - 1) };
        if (execution) {
                int length = snprintf(id, sizeof(id), "GLOVEBOX_EXECUTION=%s", execution);
                fields[n++] = (struct iovec) { id, MIN((size_t) length, sizeof(id) - 1) };
        }
        return sd_journal_sendv(fields, n);
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

int log_full(int level, int error, const char *execution, const char *format, ...) {
        char message[2048];
        int saved = errno;
        va_list ap;

        error = abs(error);
        if (level > log_max_level)
                return -error;
        errno = error;
        va_start(ap, format);
        (void) vsnprintf(message, sizeof(message), format, ap);
        va_end(ap);
        clean(message);
        if (!log_journal || to_journal(level, execution, message) < 0)
                to_stderr(execution, message);
        errno = saved;
        return -error;
}
