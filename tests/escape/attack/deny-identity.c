/* Another user, a capability, a security bit, an attribute that gives any of them: none can be had.
 * CASES: ESC-27 ESC-30
 * ATTEMPTS: 90 */
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/xattr.h>

#include "attack.h"

static int become_uid(void *argument) {
        uid_t uid = *(uid_t *) argument;
        return outcome(syscall(SYS_setresuid, uid, uid, uid));
}

static int become_gid(void *argument) {
        gid_t gid = *(gid_t *) argument;
        return outcome(syscall(SYS_setresgid, gid, gid, gid));
}

static int take_capability(void *argument) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {};
        int number = *(int *) argument;
        data[number / 32].effective = data[number / 32].permitted = data[number / 32].inheritable = 1U << (number % 32);
        return outcome(syscall(SYS_capset, &header, data));
}

static int supplementary(void *argument) {
        (void) argument;
        return outcome(syscall(SYS_setgroups, 1, &(gid_t){0}));
}

static void users(void) {
        uid_t uids[] = {0, 1, getuid() - 1, getuid() + 1, 65534};
        char name[64];
        for (size_t i = 0; i < COUNT(uids); i++) {
                snprintf(name, sizeof name, "uid %u", uids[i]);
                attempt_apart(name, become_uid, &uids[i]);
                snprintf(name, sizeof name, "gid %u", uids[i]);
                attempt_apart(name, become_gid, &uids[i]);
        }
        attempt_apart("supplementary group 0", supplementary, NULL);
        errno = EPERM;
        setfsuid(0);
        attempt("fsuid 0", setfsuid((uid_t) -1) == 0 ? 0 : -1);
        setfsgid(0);
        attempt("fsgid 0", setfsgid((gid_t) -1) == 0 ? 0 : -1);
        attempt("root already", getuid() == 0 || geteuid() == 0 || getgid() == 0 || getegid() == 0 ? 0 : -1);
        static const char *const maps[] = {"uid_map", "gid_map", "projid_map"};
        for (size_t i = 0; i < COUNT(maps); i++) {
                char path[64];
                snprintf(path, sizeof path, "/proc/self/%s", maps[i]);
                int fd = open(path, O_WRONLY);
                snprintf(name, sizeof name, "writing %s", maps[i]);
                attempt(name, fd < 0 ? fd : write(fd, "0 0 1\n", 6));
        }
}

static void outside(void) {
        char line[256];
        unsigned inside, there, count;
        FILE *f = fopen("/proc/self/uid_map", "re");
        bool root = false;
        while (f && fgets(line, sizeof line, f))
                if (sscanf(line, "%u %u %u", &inside, &there, &count) == 3 && (there == 0 || inside == there))
                        root = true;
        if (f)
                fclose(f);
        errno = EPERM;
        attempt("the host's users by their own numbers", root ? 0 : -1);
}

static void capabilities(void) {
        char name[64];
        for (int i = 0; i <= CAP_LAST_CAP; i++) {
                snprintf(name, sizeof name, "capability %d", i);
                attempt_apart(name, take_capability, &i);
                errno = EPERM;
                snprintf(name, sizeof name, "capability %d in the bounding set", i);
                attempt(name, prctl(PR_CAPBSET_READ, i) == 1 ? 0 : -1);
        }
        attempt("ambient capability", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0));
        attempt("securebits off", prctl(PR_SET_SECUREBITS, 0));
        attempt("keep capabilities", prctl(PR_SET_KEEPCAPS, 1));
        attempt("new privileges again", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
        errno = EPERM;
        attempt("new privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? -1 : 0);
        int locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED;
        attempt("unlocked securebits", (prctl(PR_GET_SECUREBITS) & locked) == locked ? -1 : 0);
}

static void attributes(void) {
        int fd = open("/workspace/file", O_RDWR | O_CREAT, 0777);
        struct vfs_cap_data all = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, .data = {{~0U, 0}, {~0U, 0}}};
        attempt("file capability", fsetxattr(fd, "security.capability", &all, XATTR_CAPS_SZ_2, 0));
        attempt("trusted attribute", fsetxattr(fd, "trusted.x", "x", 1, 0));
        attempt("overlay attribute", fsetxattr(fd, "trusted.overlay.redirect", "/etc", 4, 0));
        attempt("file of root", fchown(fd, 0, (gid_t) -1));
        attempt("file of group root", fchown(fd, (uid_t) -1, 0));
        close(fd);
}

int main(void) {
        users();
        outside();
        capabilities();
        attributes();
        return finish();
}
