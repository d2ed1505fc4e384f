/* Devices: none can be made, none but the five harmless ones is there, and those cannot be changed.
 * CASES: FIL-12
 * ATTEMPTS: 110 */
#include <linux/random.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "attack.h"

static void make(void) {
        static const struct {
                const char *name;
                mode_t type;
                unsigned major, minor;
        } nodes[] = {{"sda", S_IFBLK, 8, 0}, {"vda", S_IFBLK, 254, 0}, {"loop0", S_IFBLK, 7, 0}, {"mem", S_IFCHR, 1, 1},    {"kmsg", S_IFCHR, 1, 11},
                     {"null", S_IFCHR, 1, 3}, {"tty", S_IFCHR, 5, 0},   {"tun", S_IFCHR, 10, 200}, {"fuse", S_IFCHR, 10, 229},
                     {"kvm", S_IFCHR, 10, 232},
                     /* which the kernel itself lets everybody make, for overlays */
                     {"whiteout", S_IFCHR, 0, 0}};
        static const char *const folders[] = {"/workspace", "/tmp", "/dev/shm", "/dev"};
        char path[64], name[96];
        for (size_t f = 0; f < COUNT(folders); f++)
                for (size_t i = 0; i < COUNT(nodes); i++) {
                        snprintf(path, sizeof path, "%s/x%s", folders[f], nodes[i].name);
                        snprintf(name, sizeof name, "making %s", path);
                        if (attempt(name, mknod(path, nodes[i].type | 0666, makedev(nodes[i].major, nodes[i].minor))))
                                attempt_open(path, O_RDONLY);
                }
}

static void find(void) {
        static const char *const names[] = {"mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "sda", "vda", "nvme0n1", "loop-control", "loop0",
                                            "mapper/control", "vhost-vsock", "vsock", "vhost-net", "dri/card0", "uinput", "userfaultfd", "hwrng",
                                            "cuse", "btrfs-control", "mqueue", "hugepages", "cpu/0/msr", "rtc0", "watchdog", "snapshot", "bus/usb",
                                            "input/event0", "tpm0", "sgx_enclave", "udmabuf", "dma_heap", "log", "initctl", "core"};
        char path[64];
        for (size_t i = 0; i < COUNT(names); i++) {
                snprintf(path, sizeof path, "/dev/%s", names[i]);
                attempt_open(path, O_RDONLY);
        }
}

static void change(void) {
        static const char *const names[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
        char name[96];
        for (size_t i = 0; i < COUNT(names); i++) {
                snprintf(name, sizeof name, "mode of %s", names[i]);
                attempt(name, chmod(names[i], 0));
                snprintf(name, sizeof name, "removing %s", names[i]);
                attempt(name, unlink(names[i]));
                snprintf(name, sizeof name, "renaming %s", names[i]);
                attempt(name, rename(names[i], "/tmp/x"));
                snprintf(name, sizeof name, "owner of %s", names[i]);
                attempt(name, chown(names[i], getuid(), getgid()));
                snprintf(name, sizeof name, "time of %s", names[i]);
                attempt(name, utimensat(AT_FDCWD, names[i], (struct timespec[2]){{1, 0}, {1, 0}}, 0));
                snprintf(name, sizeof name, "touching %s", names[i]);
                attempt(name, utimensat(AT_FDCWD, names[i], NULL, 0));
                snprintf(name, sizeof name, "attribute of %s", names[i]);
                attempt(name, setxattr(names[i], "user.x", "x", 1, 0));
        }
        int fd = open("/dev/urandom", O_RDWR);
        attempt("adding entropy", ioctl(fd, RNDADDENTROPY, (int[4]){8, 4, 0, 0}));
        attempt("counting entropy", ioctl(fd, RNDADDTOENTCNT, &(int){8}));
        attempt("clearing the pool", ioctl(fd, RNDCLEARPOOL, 0));
        attempt("seeding again", ioctl(fd, RNDRESEEDCRNG, 0));
}

int main(void) {
        make();
        find();
        change();
        return finish();
}
