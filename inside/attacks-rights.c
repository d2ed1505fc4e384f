/* Attacks on what the process may do: ids, capabilities, descriptors, keys, and the system calls it may make. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/attacks.h"

#define DESCRIPTORS 6 /* 0, 1, 2, orders, report, value */
#define SEEN_BY_NAME 1024
#define LANDLOCK_DOMAINS 16 /* since Linux 5.13 */
#define LOCKED_BITS (SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static int is_root_or_mixed(const struct ProbeOrder *o) {
        uid_t u[3];
        gid_t g[3];
        if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
                return -errno;
        int same = u[0] == u[1] && u[1] == u[2] && g[0] == g[1] && g[1] == g[2];
        return !same || u[0] == 0 || g[0] == 0;
}

static int has_groups(const struct ProbeOrder *o) {
        return getgroups(0, NULL) != 0;
}

static int signal_init(const struct ProbeOrder *o) {
        return kill(1, 0) == 0;
}

static int become_root(const struct ProbeOrder *o) {
        return syscall(SYS_setresuid, 0, 0, 0) == 0 || syscall(SYS_setresgid, 0, 0, 0) == 0;
}

static int become_init(const struct ProbeOrder *o) {
        uid_t uid = getuid() - 1;
        return syscall(SYS_setresuid, uid, uid, uid) == 0;
}

static int has_capabilities(const struct ProbeOrder *o) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {};
        if (syscall(SYS_capget, &header, data) < 0)
                return -errno;
        for (int i = 0; i < 2; i++)
                if (data[i].effective || data[i].permitted || data[i].inheritable)
                        return 1;
        return 0;
}

static int could_regain_capabilities(const struct ProbeOrder *o) {
        for (unsigned c = 0; c < 64; c++) {
                int there = prctl(PR_CAPBSET_READ, c, 0, 0, 0);
                if (there < 0)
                        return c == 0 ? -errno : 0;
                if (there || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, c, 0, 0) > 0)
                        return 1;
        }
        return 0;
}

static int has_loose_securebits(const struct ProbeOrder *o) {
        int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
        return bits < 0 ? -errno : (bits & LOCKED_BITS) != LOCKED_BITS;
}

static int change_root(const struct ProbeOrder *o) {
        return chroot("/workspace") == 0;
}

static int make_device(const struct ProbeOrder *o) {
        return mknod("/workspace/glovebox-probe", S_IFCHR | 0600, 1 << 8 | 3) == 0;
}

static int open_raw_socket(const struct ProbeOrder *o) {
        return socket(AF_INET, SOCK_RAW, 1 /* ICMP */) >= 0;
}

static int could_gain_privileges(const struct ProbeOrder *o) {
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
}

static int take_back_no_new_privs(const struct ProbeOrder *o) {
        return prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
}

static int has_more_descriptors(const struct ProbeOrder *o) {
        for (int fd = DESCRIPTORS; fd < SEEN_BY_NAME; fd++)
                if (fcntl(fd, F_GETFD) >= 0)
                        return 1;
        DIR *dir = opendir("/proc/self/fd");
        if (!dir)
                return -errno;
        int found = 0;
        for (struct dirent *e; (e = readdir(dir));)
                found |= atoi(e->d_name) >= DESCRIPTORS && atoi(e->d_name) != dirfd(dir);
        closedir(dir);
        return found;
}

static int has_other_than_pipes(const struct ProbeOrder *o) {
        struct stat st;
        for (int fd = 0; fd < DESCRIPTORS; fd++)
                if (fstat(fd, &st) == 0 && !S_ISFIFO(st.st_mode))
                        return 1;
        return 0;
}

/* At 0 a piped core_pattern starts the host's helper for every crash; above 1 cores are written. A socket is told at any limit. */
static int dump_core(const struct ProbeOrder *o) {
        struct rlimit core;
        if (o->core_pattern == '@')
                return 1;
        if (getrlimit(RLIMIT_CORE, &core) < 0)
                return -errno;
        if (core.rlim_cur == 1 && core.rlim_max == 1)
                return 0;
        return core.rlim_max != 0 || o->core_pattern == '|';
}

static int share_session_keyring(const struct ProbeOrder *o) {
        long serial = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
        return o->keyring != 0 && serial == o->keyring;
}

/* The kernel stacks a fixed number of Landlock domains: whoever may add them all is in none yet. These forbid block devices alone. */
static int fill_landlock(const struct ProbeOrder *o) {
        const uint64_t block_devices = 1 << 11;
        int fd = (int) syscall(SYS_landlock_create_ruleset, &block_devices, sizeof block_devices, 0);
        if (fd < 0)
                return o->without & LAYER_BIT(LAYER_SECCOMP) ? -errno : 0; /* refused by the filter: the run without it finds out */
        int domains = 0;
        while (domains < LANDLOCK_DOMAINS && syscall(SYS_landlock_restrict_self, fd, 0) == 0)
                domains++;
        close(fd);
        return domains == LANDLOCK_DOMAINS;
}

static int has_no_filter(const struct ProbeOrder *o) {
        return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2;
}

/* Calls whose answer differs from a refusal where nothing filters them, with arguments that would do no harm. */
static int is_answered(long result) {
        return result >= 0 || (errno != ENOSYS && errno != EPERM && errno != EACCES && errno != EAFNOSUPPORT);
}

static int use_keys(const struct ProbeOrder *o) {
        return !o->policy_is_changed && is_answered(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0));
}

static int use_io_uring(const struct ProbeOrder *o) {
        return !o->policy_is_changed && is_answered(syscall(SYS_io_uring_setup, 0, NULL));
}

static int use_clone3(const struct ProbeOrder *o) {
        return !o->policy_is_changed && is_answered(syscall(SYS_clone3, NULL, 0));
}

static int use_netlink(const struct ProbeOrder *o) {
        return !o->policy_is_changed && is_answered(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
}

static int use_userfaultfd(const struct ProbeOrder *o) {
        return !o->policy_is_changed && is_answered(syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */));
}

static int read_others(const struct ProbeOrder *o) {
        return !o->policy_is_changed && is_answered(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0));
}

static int lower_core_limit(const struct ProbeOrder *o) {
        struct rlimit before, after, zero = {};
        if (getrlimit(RLIMIT_CORE, &before) < 0)
                return -errno;
        (void) setrlimit(RLIMIT_CORE, &zero); /* the filter says that it worked, so look */
        if (getrlimit(RLIMIT_CORE, &after) < 0)
                return -errno;
        return !o->policy_is_changed && (before.rlim_cur != after.rlim_cur || before.rlim_max != after.rlim_max);
}

/* Other ABIs of the processor have numbers of their own, which a filter for one does not know. */
static int use_foreign_calls(const struct ProbeOrder *o) {
#ifdef __x86_64__
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(20 /* getpid */) : "memory", "r8", "r9", "r10", "r11");
        return result > 0;
#else
        return 0;
#endif
}

static int use_x32_calls(const struct ProbeOrder *o) {
#ifdef __x86_64__
        return syscall(0x40000000 | SYS_getpid) > 0;
#else
        return 0;
#endif
}

const struct Attack attacks_on_rights[] = {
        {LAYER_SEPARATE_UIDS, "be root, or more than one user", is_root_or_mixed, false},
        {LAYER_SEPARATE_UIDS, "be in a group of the host", has_groups, false},
        {LAYER_SEPARATE_UIDS, "signal init", signal_init, false},
        {LAYER_SEPARATE_UIDS, "become root", become_root, true},
        {LAYER_SEPARATE_UIDS, "become init's user", become_init, true},
        {LAYER_NO_CAPABILITIES, "use a capability", has_capabilities, false},
        {LAYER_NO_CAPABILITIES, "get a capability back by a program's file", could_regain_capabilities, false},
        {LAYER_NO_CAPABILITIES, "change its securebits", has_loose_securebits, false},
        {LAYER_NO_CAPABILITIES, "change its root", change_root, true},
        {LAYER_NO_CAPABILITIES, "make a device node", make_device, true},
        {LAYER_NO_CAPABILITIES, "open a raw socket", open_raw_socket, true},
        {LAYER_NO_NEW_PRIVS, "gain privileges by a set-uid program", could_gain_privileges, false},
        {LAYER_NO_NEW_PRIVS, "take no_new_privs back", take_back_no_new_privs, false},
        {LAYER_CLOSED_DESCRIPTORS, "find a descriptor that is not its own", has_more_descriptors, false},
        {LAYER_CLOSED_DESCRIPTORS, "find anything but pipes in its descriptors", has_other_than_pipes, false},
        {LAYER_CORE_LIMIT, "have a core written, or the host's helper started", dump_core, false},
        {LAYER_KEYRING, "reach the session keyring of whoever started the service", share_session_keyring, false},
        {LAYER_LANDLOCK, "enter as many Landlock domains as one that is in none", fill_landlock, true},
        {LAYER_SECCOMP, "make every system call there is", has_no_filter, false},
        {LAYER_SECCOMP, "use the kernel's keys", use_keys, false},
        {LAYER_SECCOMP, "use io_uring", use_io_uring, false},
        {LAYER_SECCOMP, "use clone3", use_clone3, true},
        {LAYER_SECCOMP, "open a netlink socket", use_netlink, true},
        {LAYER_SECCOMP, "use userfaultfd", use_userfaultfd, true},
        {LAYER_SECCOMP, "read another process's memory", read_others, false},
        {LAYER_SECCOMP, "lower the core limit, so that a crash starts the host's helper", lower_core_limit, true},
        {LAYER_SECCOMP, "make 32-bit system calls", use_foreign_calls, true},
        {LAYER_SECCOMP, "make x32 system calls", use_x32_calls, true},
        {LAYER_NONE, NULL, NULL, false},
};
