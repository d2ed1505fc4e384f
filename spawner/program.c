/* A program held in sealed memory: what a cell executes cannot be changed, and needs no path in it. */
#include "spawner/program.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "common/util.h"

#define PROGRAM_MAX (16 * MIB)
#define MEMFD_EXEC 0x10U /* MFD_EXEC, Linux 6.3: without it a memfd may be refused execution */

int program_load(const char *path, const char *name, int *ret) {
        _cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC);
        if (in < 0)
                return -errno;
        struct stat st;
        if (fstat(in, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > (off_t) PROGRAM_MAX)
                return -ENOEXEC;
        int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MEMFD_EXEC);
        if (made < 0 && errno == EINVAL)
                made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        _cleanup_close_ int fd = made;
        if (fd < 0)
                return -errno;
        for (off_t left = st.st_size; left > 0;) {
                ssize_t n = sendfile(fd, in, NULL, (size_t) left);
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                left -= n;
        }
        if (fchmod(fd, 0511) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return -errno;
        /* A descriptor open for writing would make every execution of it fail (ETXTBSY). */
        char self[64];
        snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
        int reopened = open(self, O_RDONLY | O_CLOEXEC);
        if (reopened < 0)
                return -errno;
        *ret = reopened;
        return 0;
}
