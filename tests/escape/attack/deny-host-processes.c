/* A process of the host by its number, and all that /proc would tell of it. The argument is such a number.
 * CASES: ESC-19 ESC-22
 * ATTEMPTS: 12 */
#include <sys/resource.h>

#include "attack.h"

int main(int argc, char **argv) {
        static const char *const files[] = {"cmdline", "environ", "status", "stat", "fd", "root/", "cwd/", "exe", "ns/net", "mountinfo"};
        char name[PATH_MAX];
        if (argc < 2)
                return 2;
        pid_t pid = (pid_t) strtol(argv[1], NULL, 10);
        /* "Not permitted" would tell that it exists. */
        int r = kill(pid, 0);
        attempt("knowing of it", r < 0 && errno == ESRCH ? -1 : 0);
        attempt("its session", getsid(pid));
        attempt("its process group", getpgid(pid));
        attempt("its processors", sched_getaffinity(pid, sizeof(cpu_set_t), &(cpu_set_t){}));
        errno = 0;
        r = getpriority(PRIO_PROCESS, (id_t) pid);
        attempt("its priority", errno ? -1 : r);
        attempt("a descriptor of it", syscall(SYS_pidfd_open, pid, 0));
        for (size_t i = 0; i < COUNT(files); i++) {
                snprintf(name, sizeof name, "/proc/%d/%s", pid, files[i]);
                attempt_open(name, O_RDONLY);
        }
        return finish();
}
