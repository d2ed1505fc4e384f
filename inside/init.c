/* glovebox-init: PID 1 of a cell. It reaps what nobody else waits for, and nothing more: no descriptor, no file, no privilege. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int main(void) {
        prctl(PR_SET_DUMPABLE, 0);
        prctl(PR_SET_NAME, "glovebox-init");
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &child, NULL) < 0)
                return 1;
        for (;;) {
                int signal;
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        ;
                if (sigwait(&child, &signal) != 0)
                        return 1;
        }
}
