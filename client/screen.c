/* Taking the terminal and giving it back. The signal handlers do the latter themselves, so that a client that is stuck in a call or
 * in a write to a paused terminal can still be ended with Ctrl-C. */
#include "client/screen.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "client/console.h"

#define ENTER_ALTERNATE "\033[?1049h"
#define LEAVE_ALTERNATE "\033[?1049l"
#define HIDE_CURSOR "\033[?25l"
#define SHOW_CURSOR "\033[?25h"

/* One process has one terminal, and the handlers must find it. */
static struct {
        atomic_bool taken;
        bool alternate;         /* the terminal has a second screen, which leaves the first one as it was */
        bool keys;              /* standard input is a terminal: keys come one by one, and are not shown */
        struct termios before;
        atomic_bool changed;
} screen;

/* Terminals that are known to have a second screen, by the start of their name. Others are cleared and drawn on. */
static bool has_alternate(const char *term) {
        static const char *const names[] = {
                "alacritty", "contour", "eterm", "foot", "ghostty", "gnome", "iterm", "kitty", "konsole", "mlterm", "putty",
                "rxvt", "screen", "st-", "terminator", "tmux", "vte", "wezterm", "xterm",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strncmp(term, names[i], strlen(names[i])) == 0)
                        return true;
        return false;
}

bool screen_is_possible(void) {
        const char *term = getenv("TERM");

        return isatty(STDOUT_FILENO) && !isempty(term) && !streq(term, "dumb");
}

/* Only what a signal handler may do. A terminal that is paused takes nothing: then leaving is more important than tidiness. */
static void put(const char *text) {
        struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

        if (poll(&p, 1, 0) > 0)
                (void) !write(STDOUT_FILENO, text, strlen(text));
}

static void enter(void) {
        struct termios raw = screen.before;

        raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        if (screen.keys)
                (void) tcsetattr(STDIN_FILENO, TCSANOW, &raw);
        atomic_store(&screen.taken, true);
        put(screen.alternate ? ENTER_ALTERNATE HIDE_CURSOR "\033[2J" : HIDE_CURSOR "\033[2J");
}

void screen_close(void) {
        if (!atomic_exchange(&screen.taken, false))
                return;
        put(screen.alternate ? LEAVE_ALTERNATE SHOW_CURSOR : "\033[999;1H\r\n" SHOW_CURSOR);
        if (screen.keys)
                (void) tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

/* Ends us as the signal would have, so that our parent sees what it was. */
static void on_end(int signal_number) {
        screen_close();
        (void) signal(signal_number, SIG_DFL);
        (void) raise(signal_number);
}

static void on_stop(int signal_number) {
        int saved = errno;
        bool taken = atomic_load(&screen.taken);

        screen_close();
        (void) raise(SIGSTOP);
        /* `bg` continues us, but the terminal is another's then. */
        while (taken && screen.keys && tcgetpgrp(STDIN_FILENO) > 0 && tcgetpgrp(STDIN_FILENO) != getpgrp())
                (void) raise(SIGSTOP);
        if (taken)
                enter();
        atomic_store(&screen.changed, true);
        errno = saved;
}

static void on_size(int signal_number) {
        atomic_store(&screen.changed, true);
}

/* One that our parent made us ignore stays ignored. Without SA_RESTART: what waits for keys has to look up. */
static void handle(int signal_number, void (*handler)(int)) {
        struct sigaction action = { .sa_handler = handler };
        struct sigaction old;

        if (sigaction(signal_number, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
                return;
        (void) sigfillset(&action.sa_mask);
        (void) sigaction(signal_number, &action, NULL);
}

void screen_open(void) {
        screen.alternate = has_alternate(strempty(getenv("TERM")));
        screen.keys = tcgetattr(STDIN_FILENO, &screen.before) == 0;
        handle(SIGINT, on_end);
        handle(SIGTERM, on_end);
        handle(SIGHUP, on_end);
        handle(SIGQUIT, on_end);
        handle(SIGTSTP, on_stop);
        handle(SIGWINCH, on_size);
        console_set_before(screen_close);
        enter();
}

static void get_size(size_t *ret_rows, size_t *ret_columns) {
        struct winsize size = {};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
                size = (struct winsize) {};
        *ret_rows = size.ws_row > 0 ? size.ws_row : 24;
        *ret_columns = size.ws_col > 0 ? size.ws_col : 80;
}

size_t screen_columns(void) {
        size_t rows, columns;

        get_size(&rows, &columns);
        return columns - 1;
}

static size_t count_lines(const char *lines) {
        size_t n = 0;

        for (; *lines; n++)
                lines = strchrnul(lines, '\n') + 1;
        return n;
}

/* The last column stays free: some terminals wrap when it is written, others erase it with what follows. */
static void draw_line(FILE *out, size_t row, const char *text, size_t length, size_t columns) {
        char *line _cleanup_free_ = strndup(text, length);

        if (line)
                fprintf(out, "%s%.*s\033[K", row > 0 ? "\r\n" : "", (int) console_fit(line, columns - 1), line);
}

int screen_draw(const char *lines) {
        char *text _cleanup_free_ = NULL;
        size_t rows, columns, size = 0, n = count_lines(lines);
        FILE *out = open_memstream(&text, &size);

        if (!out)
                return -ENOMEM;
        get_size(&rows, &columns);
        fputs("\033[H", out);
        for (size_t row = 0; row < MIN(n, rows); row++) {
                size_t length = strcspn(lines, "\n");
                char more[48];

                if (row + 1 == rows && n > rows) {
                        length = (size_t) snprintf(more, sizeof(more), "(%zu more)", n - rows + 1);
                        lines = more;
                }
                draw_line(out, row, lines, length, columns);
                lines += length + 1;
        }
        fputs("\033[J", out);
        if (fclose(out) != 0)
                return -ENOMEM;
        return console_write(STDOUT_FILENO, text, size);
}

/* A signal that comes just before we begin to wait interrupts nothing: so we look up again after a while. */
#define LOOK_UP (200 * USEC_PER_MSEC)

int screen_wait(usec_t until) {
        struct pollfd p = { .fd = screen.keys ? STDIN_FILENO : -1, .events = POLLIN };
        char key;

        for (;;) {
                usec_t now = now_monotonic();
                usec_t left = now < until ? until - now : 0;
                int r;

                if (atomic_exchange(&screen.changed, false))
                        return SCREEN_CHANGED;
                r = poll(&p, 1, left > 0 ? (int) (MIN(left, LOOK_UP) / USEC_PER_MSEC) + 1 : 0);
                if (r > 0)
                        break;
                if (r < 0 && errno != EINTR)
                        return SCREEN_GONE;
                if (r == 0 && left == 0)
                        return 0;
        }
        /* Nothing to read although something is there: the other side of the terminal is closed. */
        if (read(STDIN_FILENO, &key, 1) <= 0)
                return SCREEN_GONE;
        return (unsigned char) key > ' ' ? (unsigned char) key : SCREEN_CHANGED;
}
