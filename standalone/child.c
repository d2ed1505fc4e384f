/* One of the two programs that standalone keeps running. */
#include "standalone/child.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "common/log.h"

#define BACK_OFF_FIRST (100 * USEC_PER_MSEC)
#define BACK_OFF_LAST (5 * USEC_PER_SEC)
#define STABLE_AFTER (10 * USEC_PER_SEC)
#define EXEC_FAILED 127
#define FIRST_FD 3

/* Moves the descriptors, the library last, to 3, 4, ...: first out of the way, so that none is overwritten before it was copied. */
static int place_fds(const struct Child *c) {
        size_t n = c->n_fds + 1;
        int moved[64];

        if (n > ELEMENTSOF(moved))
                return -E2BIG;
        for (size_t i = 0; i < n; i++) {
                moved[i] = fcntl(i < c->n_fds ? c->fds[i] : c->library, F_DUPFD_CLOEXEC, FIRST_FD + (int) n);
                if (moved[i] < 0)
                        return -errno;
        }
        for (size_t i = 0; i < n; i++)
                if (dup2(moved[i], FIRST_FD + (int) i) < 0)
                        return -errno;
        /* Neither program gets what somebody left open when standalone was started. */
        return close_range(FIRST_FD + (unsigned) n, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

static int set_environment(const struct Child *c) {
        char pid[24], count[24], names[LINE_MAX] = "";

        for (size_t i = 0, at = 0; i < c->n_fds; i++)
                at += (size_t) snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? ":" : "", c->fd_name);
        (void) snprintf(pid, sizeof(pid), "%d", (int) getpid());
        (void) snprintf(count, sizeof(count), "%zu", c->n_fds);
        if (setenv("LISTEN_PID", pid, 1) < 0 || setenv("LISTEN_FDS", count, 1) < 0 || setenv("LISTEN_FDNAMES", names, 1) < 0 ||
            setenv("NOTIFY_SOCKET", c->notify, 1) < 0)
                return -errno;
        return 0;
}

static int become(const struct Child *c) {
        if (c->uid == geteuid())
                return 0;
        if (setgroups(0, NULL) < 0 || setresgid(c->gid, c->gid, c->gid) < 0 || setresuid(c->uid, c->uid, c->uid) < 0)
                return -errno;
        return 0;
}

/* What was ignored when standalone was started (a shell's background job: SIGINT) is not for its children. */
static int reset_signals(void) {
        sigset_t none;

        for (int s = 1; s < NSIG; s++)
                if (s != SIGKILL && s != SIGSTOP)
                        (void) signal(s, SIG_DFL);
        (void) sigemptyset(&none);
        return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* As the child's user, who usually can go there by himself. */
static int pass_library(const struct Child *c) {
        char *path _cleanup_free_ = NULL, fd[40];
        int number = FIRST_FD + (int) c->n_fds;

        (void) unsetenv("GLOVEBOX_LIBRARY");
        if (library_dir(&path) >= 0)
                return close(number) < 0 ? -errno : 0;
        (void) snprintf(fd, sizeof(fd), "/proc/self/fd/%d", number);
        return setenv("GLOVEBOX_LIBRARY", fd, 1) < 0 ? -errno : 0;
}

static int prepare(const struct Child *c, pid_t parent) {
        int r;

        /* A Ctrl-C at the terminal is for standalone alone, which stops the two in order. */
        if (setpgid(0, 0) < 0)
                return -errno;
        r = place_fds(c);
        if (r >= 0)
                r = set_environment(c);
        (void) priority_take(c->priority, false);
        if (r >= 0)
                r = become(c);
        if (r >= 0)
                r = pass_library(c);
        if (r < 0)
                return r;
        /* After the change of user, which clears it; and the parent may be gone by now. */
        if (prctl(PR_SET_PDEATHSIG, c->death_signal) < 0)
                return -errno;
        if (getppid() != parent)
                return -ESRCH;
        /* Standard output is for the one line that says "ready". */
        if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
                return -errno;
        return reset_signals();
}

/* Returns only when it fails. */
static int execute(const struct Child *c) {
        (void) execv(c->path, c->argv);
        if (errno != EACCES)
                return -errno;
        (void) execveat(c->program, "", c->argv, environ, AT_EMPTY_PATH);
        return -errno;
}

int child_start(struct Child *c) {
        pid_t parent = getpid(), pid = fork();
        int r;

        if (pid < 0)
                return -errno;
        if (pid == 0) {
                r = prepare(c, parent);
                if (r >= 0) {
                        r = execute(c);
                }
                (void) log_error_errno(r, "Cannot start %s: %m", c->path);
                _exit(EXEC_FAILED);
        }
        c->pid = pid;
        c->started_at = now_monotonic();
        c->restart_at = USEC_INFINITY;
        return 0;
}

static void describe(int status, char *buffer, size_t size) {
        if (WIFSIGNALED(status))
                (void) snprintf(buffer, size, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        else
                (void) snprintf(buffer, size, "exited with status %d", WEXITSTATUS(status));
}

int child_on_exit(struct Child *c, int status) {
        usec_t now = now_monotonic(), up = now - c->started_at;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        bool first = c->first;
        char how[96];

        c->pid = 0;
        c->first = false;
        describe(status, how, sizeof(how));
        if (first && (code == EX_CONFIG || code == EX_USAGE || code == EXEC_FAILED)) {
                log_error("%s %s at its first start: see its message above", c->name, how);
                return code == EXEC_FAILED ? EXEC_FAILED : EX_CONFIG;
        }
        if (up >= STABLE_AFTER || c->back_off == 0)
                c->back_off = BACK_OFF_FIRST;
        else
                c->back_off = MIN(c->back_off * 2, BACK_OFF_LAST);
        c->restart_at = now + c->back_off;
        log_warning("%s %s; starting it again in %u ms", c->name, how, (unsigned) (c->back_off / USEC_PER_MSEC));
        return 0;
}

void child_signal(const struct Child *c, int signal) {
        if (c->pid > 0)
                (void) kill(c->pid, signal);
}

void child_done(struct Child *c) {
        c->program = close_fd(c->program);
        c->library = close_fd(c->library);
        free(c->path);
        strv_free(c->argv);
}
