/* A sibling instead of a child: it would be a child of the spawner's, which knows nothing of it and would have to bury it.
 * ATTEMPTS: 3 */
#include "attack.h"

static long sibling(uint64_t flags) {
        long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);
        if (pid == 0)
                _exit(0);
        return pid;
}

int main(void) {
        attempt("a sibling", sibling(CLONE_PARENT | SIGCHLD));
        attempt("a sibling with high bits", sibling(0x100000000UL | CLONE_PARENT | SIGCHLD));
        attempt("a sibling by clone3", syscall(SYS_clone3, &(uint64_t[8]){CLONE_PARENT}, 64));
        return finish();
}
