/* Drawing the status line. It is drawn only where the cursor is known to stand at the start of a line, so that it never covers
 * what the program has printed without a newline. */
#include "client/status-line.h"

#include <stdio.h>
#include <sys/ioctl.h>

#include "client/console.h"
#include "client/text.h"

#define FIRST (1 * USEC_PER_SEC)
#define EVERY (USEC_PER_SEC / 2)

void status_line_init(struct StatusLine *s, bool wanted) {
        const char *term = getenv("TERM");

        *s = (struct StatusLine) {
                .out_is_terminal = isatty(STDOUT_FILENO),
                .err_is_terminal = isatty(STDERR_FILENO),
                .at_line_start = true,
                .phase = "starting",
                .since = now_monotonic(),
        };
        s->enabled = wanted && s->err_is_terminal && !isempty(term) && !streq(term, "dumb");
        s->next = s->since + FIRST;
}

void status_line_set_phase(struct StatusLine *s, const char *phase) {
        s->phase = phase;
        s->since = now_monotonic();
}

void status_line_set_heartbeat(struct StatusLine *s, const Glovebox__V1__Heartbeat *heartbeat) {
        s->measured = true;
        s->cpu_time = duration_usec(heartbeat->cpu_time);
        s->idle_for = duration_usec(heartbeat->idle_for);
        s->memory = heartbeat->memory_bytes;
        s->processes = heartbeat->processes;
}

usec_t status_line_next(const struct StatusLine *s) {
        return s->enabled ? s->next : USEC_INFINITY;
}

static size_t columns(void) {
        struct winsize size = {};

        if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
                return 80;
        return size.ws_col;
}

static int compose(const struct StatusLine *s, char *line, size_t size) {
        char elapsed[32], cpu[32], memory[32], idle[32];
        int n;

        (void) console_time(now_monotonic() - s->since, elapsed, sizeof(elapsed));
        if (s->phase)
                return snprintf(line, size, "%s, %s", s->phase, elapsed);
        n = snprintf(line, size, "%s", elapsed);
        if (s->measured)
                n += snprintf(line + n, size - (size_t) n, ", cpu %s", console_time(s->cpu_time, cpu, sizeof(cpu)));
        if (s->memory > 0)
                n += snprintf(line + n, size - (size_t) n, ", memory %s", console_bytes(s->memory, memory, sizeof(memory)));
        if (s->processes > 1)
                n += snprintf(line + n, size - (size_t) n, ", %u processes", s->processes);
        if (s->measured && s->idle_for >= 2 * USEC_PER_SEC)
                n += snprintf(line + n, size - (size_t) n, ", idle for %s", console_time(s->idle_for, idle, sizeof(idle)));
        return n;
}

void status_line_tick(struct StatusLine *s) {
        char line[320] = "\r[";
        size_t room;
        int n;

        if (!s->enabled || now_monotonic() < s->next)
                return;
        s->next = now_monotonic() + EVERY;
        if (!s->at_line_start)
                return;
        n = 2 + compose(s, line + 2, 256);
        if (s->cancelling)
                n += snprintf(line + n, sizeof(line) - (size_t) n, ", cancelling (Ctrl-C again: leave)");
        /* The last column stays free: a line that wraps could not be taken back. */
        room = MAX(columns(), (size_t) 8) - 2;
        if ((size_t) n - 1 > room)
                n = (int) room + 1;
        n += snprintf(line + n, sizeof(line) - (size_t) n, "]\033[K");
        if (console_write(STDERR_FILENO, line, (size_t) n) < 0)
                s->enabled = false;
        s->visible = true;
}

void status_line_clear(struct StatusLine *s) {
        static const char clear[] = "\r\033[K";

        if (!s->visible)
                return;
        (void) console_write(STDERR_FILENO, clear, sizeof(clear) - 1);
        s->visible = false;
}

void status_line_saw(struct StatusLine *s, int fd, const char *data, size_t size) {
        if (size > 0 && (fd == STDOUT_FILENO ? s->out_is_terminal : s->err_is_terminal))
                s->at_line_start = data[size - 1] == '\n';
}

void status_line_done(struct StatusLine *s) {
        status_line_clear(s);
        if (!s->at_line_start && s->err_is_terminal)
                (void) console_write(STDERR_FILENO, "\n", 1);
        s->at_line_start = true;
}
