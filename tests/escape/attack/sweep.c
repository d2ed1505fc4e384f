/* Makes every system call that it is told of, with arguments that no call can do anything with, and prints "NUMBER ERRNO" for each.
 * A call that ends the process is "NUMBER -SIGNAL". */
#include "attack.h"

int main(int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                long number = strtol(argv[i], NULL, 0), bad = -1;
                fflush(stdout);
                int p[2], answer = 0;
                if (pipe(p) < 0)
                        return 1;
                pid_t pid = fork();
                if (pid == 0) {
                        errno = 0;
                        long result = syscall(number, bad, bad, bad, bad, bad, bad);
                        answer = result == -1 ? errno : 0;
                        _exit(write(p[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
                }
                int status = 0;
                waitpid(pid, &status, 0);
                if (WIFSIGNALED(status))
                        answer = -WTERMSIG(status);
                else if (read(p[0], &answer, sizeof answer) != sizeof answer)
                        answer = 0;
                close(p[0]);
                close(p[1]);
                printf("%ld %d\n", number, answer);
        }
        return 0;
}
