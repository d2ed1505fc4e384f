/* server/confine.c: threads start, processes and programs do not. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "server/confine.h"

extern char **environ;

static void *thread(void *argument) {
        return fork() < 0 && errno == EPERM ? argument : NULL;
}

static int expect(int step, long result, int error) {
        return result < 0 && errno == error ? 0 : step;
}

/* In a child, since it is for good: 0, or the number of the step that went wrong. */
static int confined(void) {
        char *argv[] = { (char *) "/bin/true", NULL };
        pthread_t t;
        void *got = NULL;
        pid_t pid;
        int r, told = 0;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || confine_self() < 0)
                return 1;
        if (pthread_create(&t, NULL, thread, &told) != 0 || pthread_join(t, &got) != 0 || got != &told)
                return 2;
        if ((r = expect(3, fork(), EPERM)) || (r = expect(4, syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM)))
                return r;
        if ((r = expect(5, syscall(SYS_clone, 0x100000000UL | SIGCHLD, 0, 0, 0, 0), EPERM)) || (r = expect(6, syscall(SYS_clone3, 0, 0), ENOSYS)))
                return r;
        if ((r = expect(7, execv(argv[0], argv), EPERM)) || (r = expect(8, syscall(SYS_io_uring_setup, 1, 0), ENOSYS)))
                return r;
        if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) == 0)
                return 9;
#ifdef __x86_64__
        if ((r = expect(10, syscall(0x40000000 | SYS_getpid), ENOSYS)))
                return r;
#endif
        return 0;
}

static void no_process_and_no_program(void **state) {
#ifdef __SANITIZE_ADDRESS__
        assert_int_equal(confine_self(), 0); /* and nothing changes: the next tests fork */
        (void) confined;
#else
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
                _exit(confined());
        assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        assert_int_equal(status, 0);
#endif
}

RUN(T(no_process_and_no_program))
