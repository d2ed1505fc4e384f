/* glovebox-init: PID 1 of a cell. It reaps what nobody else waits for, and tells the server what has become of the workspace's files.
 *
 * Arguments: the numbers of its ends of the collect pipe and of the files pipe, of the folder /workspace, and the user's id; none = it only reaps.
 * It looks at files with the user's rights (fsuid), while it belongs to a user of its own, whom nothing else in the cell can signal or trace. It
 * comes with the two capabilities that this takes, and gives them up first of all. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "inside/collect.h"

static void reap(void) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
}

/* Only so that it interrupts a wait. */
static void on_child(int signal) {
}

static int drop_capabilities(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        const struct __user_cap_data_struct none[2] = {};
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capset, &header, none) < 0)
                return -errno;
        return 0;
}

/* The calls tell the id before, never a failure; one with no id at all only asks. */
static int look_as(uid_t user) {
        setfsgid(user);
        setfsuid(user);
        if ((uid_t) setfsgid((gid_t) -1) != user || (uid_t) setfsuid((uid_t) -1) != user)
                return -EPERM;
        int r = drop_capabilities();
        if (r < 0)
                return r;
        /* A change of ids undoes both. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        return 0;
}

static int number(const char *s) {
        int64_t n = 0;
        for (const char *p = s; *p; p++) {
                if (*p < '0' || *p > '9' || p - s > 9)
                        return -EINVAL;
                n = 10 * n + (*p - '0');
        }
        return !*s || n > INT32_MAX ? -EINVAL : (int) n;
}

static int set_up(char **argv, struct Collect *ret) {
        int numbers[4];
        for (int i = 0; i < 4; i++) {
                numbers[i] = number(argv[1 + i]);
                if (numbers[i] < 0)
                        return numbers[i];
        }
        for (int i = 0; i < 3; i++)
                if (fcntl(numbers[i], F_SETFD, FD_CLOEXEC) < 0 || (i < 2 && fcntl(numbers[i], F_SETFL, O_NONBLOCK) < 0))
                        return -errno;
        ret->questions = numbers[0];
        ret->files = numbers[1];
        ret->workspace = numbers[2];
        return look_as((uid_t) numbers[3]);
}

int main(int argc, char **argv) {
        prctl(PR_SET_DUMPABLE, 0);
        prctl(PR_SET_NAME, "glovebox-init");
        sigset_t child, waiting;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &child, &waiting) < 0 || signal(SIGCHLD, on_child) == SIG_ERR || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
                return 1;
        sigdelset(&waiting, SIGCHLD);
        if (argc > 1) {
                struct Collect c = {.waiting = &waiting, .on_pause = reap};
                if (argc != 5 || set_up(argv, &c) < 0)
                        return 1;
                while (collect_answer(&c) >= 0)
                        ;
                close_fd(c.questions);
                close_fd(c.files);
                close_fd(c.workspace);
        }
        for (;;) {
                int got;
                reap();
                if (sigwait(&child, &got) != 0)
                        return 1;
        }
}
