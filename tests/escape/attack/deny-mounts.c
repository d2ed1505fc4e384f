/* The tree of files by the old and the new interface of mount: nothing may be mounted, changed or taken away.
 * ATTEMPTS: 24 */
#include <linux/mount.h>
#include <sys/mount.h>

#include "attack.h"

/* linux/mount.h clashes with sys/mount.h in some versions; these never change. */
#define TREE_CLONE 1
#define CREATE_COMMAND 6

static int old_root(void *argument) {
        (void) argument;
        return outcome(syscall(SYS_pivot_root, ".", "."));
}

static int new_root(void *argument) {
        return outcome(chroot(argument));
}

int main(void) {
        mkdir("/workspace/x", 0755);
        attempt("mount tmpfs", mount("x", "/workspace/x", "tmpfs", 0, NULL));
        attempt("mount proc", mount("x", "/workspace/x", "proc", 0, NULL));
        attempt("mount sysfs", mount("x", "/workspace/x", "sysfs", 0, NULL));
        attempt("mount cgroup2", mount("x", "/workspace/x", "cgroup2", 0, NULL));
        attempt("mount overlay", mount("x", "/workspace/x", "overlay", 0, "lowerdir=/usr,upperdir=/workspace,workdir=/tmp"));
        attempt("bind", mount("/usr", "/workspace/x", NULL, MS_BIND, NULL));
        attempt("bind over proc", mount("/tmp", "/proc", NULL, MS_BIND, NULL));
        attempt("remount the root writable", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
        attempt("remount /usr writable", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
        attempt("remount /tmp with devices", mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND, NULL));
        attempt("make shared", mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL));
        attempt("move", mount("/tmp", "/workspace/x", NULL, MS_MOVE, NULL));
        attempt("umount /proc", umount2("/proc", MNT_DETACH));
        attempt("umount /usr", umount2("/usr", MNT_DETACH | UMOUNT_NOFOLLOW));
        attempt("umount the root", umount2("/", MNT_DETACH));
        attempt_apart("pivot_root", old_root, NULL);
        attempt_apart("chroot", new_root, "/tmp");
        attempt_apart("chroot to the root", new_root, "/");
        attempt("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", TREE_CLONE | O_CLOEXEC));
        attempt("open_tree without a copy", syscall(SYS_open_tree, AT_FDCWD, "/", O_CLOEXEC));
        attempt("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
        attempt("fsopen proc", syscall(SYS_fsopen, "proc", 0));
        attempt("fspick", syscall(SYS_fspick, AT_FDCWD, "/tmp", 0));
        attempt("fsconfig", syscall(SYS_fsconfig, 0, CREATE_COMMAND, NULL, NULL, 0));
        attempt("fsmount", syscall(SYS_fsmount, 0, 0, 0));
        attempt("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/workspace/x", 0));
        attempt("mount_setattr", syscall(442, AT_FDCWD, "/", 0, &(uint64_t[4]){0, MS_RDONLY, 0, 0}, 32));
        attempt("open_tree_attr", syscall(467, AT_FDCWD, "/", TREE_CLONE, &(uint64_t[4]){0, MS_RDONLY, 0, 0}, 32));
        return finish();
}
