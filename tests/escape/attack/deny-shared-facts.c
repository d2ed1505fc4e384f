/* What namespaces keep apart beside processes, files and sockets: the host's name, its shared memory, its cgroups.
 * Arguments: the host's name, the key of a piece of its shared memory that everybody may read and write.
 * CASES: ESC-18
 * ATTEMPTS: 4 */
#include <sys/shm.h>

#include "attack.h"

int main(int argc, char **argv) {
        char name[256] = "", cgroup[4096] = "";
        if (argc < 3)
                return 2;
        gethostname(name, sizeof name - 1);
        errno = ENOENT;
        attempt("the host's name", strcmp(name, argv[1]) == 0 ? 0 : -1);
        attempt("the host's shared memory", shmget((key_t) strtol(argv[2], NULL, 0), 0, 0));
        int fd = open("/proc/self/cgroup", O_RDONLY);
        if (fd < 0 || read(fd, cgroup, sizeof cgroup - 1) <= 0)
                return 2;
        char *own = strstr(cgroup, "0::/");
        errno = ENOENT;
        attempt("the cgroups above", !own || own[4] == '\n' || own[4] == 0 ? -1 : 0);
        attempt_open("/sys/fs/cgroup/cgroup.procs", O_RDONLY);
        return finish();
}
