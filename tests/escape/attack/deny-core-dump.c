/* Where core_pattern names a program, a crash starts it on the host as root, unless the limit is exactly 1: it is, and it must stay so.
 * ATTEMPTS: 13 */
#include <sys/prctl.h>
#include <sys/resource.h>

#include "attack.h"

#define HIGH 0x100000000UL

static int crash(void *argument) {
        (void) argument;
        abort();
}

/* The filter lets programs believe that it worked, since those that keep secrets insist on it: so look at what is in force. */
static void try_change(const char *name, long result) {
        (void) result;
        struct rlimit now;
        bool kept = getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_cur == 1 && now.rlim_max == 1;
        errno = EPERM;
        attempt(name, kept ? -1 : 0);
}

int main(void) {
        const struct rlimit zero = {0, 0}, soft = {0, 1}, more = {RLIM_INFINITY, RLIM_INFINITY};
        struct rlimit now;
        try_change("limit is not 1 at first", 0);
        try_change("setrlimit to 0", syscall(SYS_setrlimit, RLIMIT_CORE, &zero));
        try_change("setrlimit to soft 0", syscall(SYS_setrlimit, RLIMIT_CORE, &soft));
        try_change("setrlimit to infinite", syscall(SYS_setrlimit, RLIMIT_CORE, &more));
        try_change("setrlimit with high bits", syscall(SYS_setrlimit, HIGH | RLIMIT_CORE, &zero));
        try_change("prlimit to 0", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &zero, NULL));
        try_change("prlimit of oneself by number", syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &soft, NULL));
        try_change("prlimit with high bits", syscall(SYS_prlimit64, 0, HIGH | RLIMIT_CORE, &zero, NULL));
        try_change("prlimit with a negative half", syscall(SYS_prlimit64, HIGH, 0xffffffff00000000UL | RLIMIT_CORE, &zero, &now));
        pid_t child = fork();
        if (child == 0) {
                pause();
                _exit(0);
        }
        syscall(SYS_prlimit64, child, RLIMIT_CORE, &zero, NULL);
        errno = EPERM;
        attempt("prlimit of a child", prlimit(child, RLIMIT_CORE, NULL, &now) == 0 && now.rlim_cur == 1 && now.rlim_max == 1 ? -1 : 0);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        attempt("dumpable for root alone", prctl(PR_SET_DUMPABLE, 2));
        attempt_apart("crash", crash, NULL);
        errno = ENOENT;
        attempt("a core file", access("core", F_OK));
        return finish();
}
