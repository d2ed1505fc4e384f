/* What the host's /usr, whose files and memory all share, could tell of others, and what it could cost them.
 * ATTEMPTS: 13 */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "attack.h"

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

/* A call that is not made answers 0 whatever it is told. */
static void attempt_real(const char *name, long result) {
        errno = ENOSYS;
        attempt(name, result == 0 ? -1 : 0);
}

int main(void) {
        int usr = open("/usr", O_RDONLY | O_DIRECTORY), etc = open("/etc", O_RDONLY | O_DIRECTORY);
        attempt("a signal for each file of /usr that is opened", fcntl(usr, F_NOTIFY, DN_ACCESS | DN_MULTISHOT));
        attempt("the same in /etc", fcntl(etc, F_NOTIFY, DN_ACCESS | DN_MULTISHOT));
        attempt("the same with high bits", syscall(SYS_fcntl, usr, 0x100000000UL | F_NOTIFY, DN_ACCESS));
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        attempt("pages merged with others'", madvise(page, 4096, MADV_MERGEABLE));
        attempt("all pages merged with others'", prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0));
        attempt("a look through a hole without end", mincore((void *) 0x10000, 1UL << 40, (unsigned char *) page));
        attempt("an earlier turn at the disks", syscall(SYS_ioprio_set, 1, 0, 2 << 13));
        attempt("a say in who shares a core", prctl(62, 1, 0, 0, 0));
        attempt("counters of the machine's files", open("/proc/sys/fs/file-nr", O_RDONLY));
        attempt_real("flushing the host's disk by fsync", fsync(-1));
        attempt_real("flushing the host's disk by fdatasync", fdatasync(-1));
        attempt_real("flushing the host's disk by msync", msync((void *) 1, 4096, MS_SYNC));
        attempt_real("flushing the host's disk by syncfs", syncfs(-1));
        return finish();
}
