/* Giving up privileges, in the pieces that init and the user's process share. All async-signal-safe. */
#include "spawner/privileges.h"

#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define SECUREBITS                                                                                                             \
        (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | \
         SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static int drop_bounding(uint64_t keep) {
        for (unsigned c = 0; c < 64; c++) {
                if (keep & (1ULL << c))
                        continue;
                int there = prctl(PR_CAPBSET_READ, c, 0, 0, 0);
                if (there < 0)
                        return 0; /* past the last capability of this kernel */
                if (there && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
                        return -errno;
        }
        return 0;
}

static int set_inheriting(uint64_t set, uint64_t inheritable) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {
                {.effective = (uint32_t) set, .permitted = (uint32_t) set, .inheritable = (uint32_t) inheritable},
                {.effective = (uint32_t) (set >> 32), .permitted = (uint32_t) (set >> 32), .inheritable = (uint32_t) (inheritable >> 32)},
        };
        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int set_capabilities(uint64_t set) {
        return set_inheriting(set, 0);
}

static int get_permitted(uint64_t *ret) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {};
        if (syscall(SYS_capget, &header, data) < 0)
                return -errno;
        *ret = data[0].permitted | (uint64_t) data[1].permitted << 32;
        return 0;
}

int privileges_drop_bounding(void) {
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        int r = drop_bounding(0);
        if (r < 0)
                return r;
        return prctl(PR_SET_SECUREBITS, SECUREBITS) < 0 ? -errno : 0;
}

static int set_ids(uid_t id) {
        return syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0 ? -errno : 0;
}

int privileges_become(uid_t id) {
        int r = set_ids(id);
        return r < 0 ? r : set_capabilities(0);
}

static int raise_ambient(uint64_t capabilities) {
        for (unsigned c = 0; c < 64; c++)
                if ((capabilities & (1ULL << c)) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0) < 0)
                        return -errno;
        return 0;
}

/* In this order: only what the bounding set has may become inheritable, only what is inheritable ambient, and locked securebits forbid that. The
 * ambient set alone makes a capability survive an exec whose file has none; it is not bound by the bounding set, and with
 * SECBIT_NO_SETUID_FIXUP it stays when the uid changes. */
int privileges_lend(uid_t id, uint64_t capabilities) {
        uint64_t permitted = 0;
        int r = get_permitted(&permitted);
        if (r >= 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                r = -errno;
        if (r >= 0)
                r = set_inheriting(permitted, capabilities);
        if (r >= 0)
                r = drop_bounding(0);
        if (r >= 0)
                r = raise_ambient(capabilities);
        if (r >= 0 && prctl(PR_SET_SECUREBITS, SECUREBITS) < 0)
                r = -errno;
        if (r >= 0)
                r = set_ids(id);
        return r < 0 ? r : set_inheriting(capabilities, capabilities);
}

int privileges_verify_none(void) {
        if (prctl(PR_GET_SECUREBITS) != SECUREBITS)
                return -EPERM;
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {};
        if (syscall(SYS_capget, &header, data) < 0)
                return -errno;
        for (int i = 0; i < 2; i++)
                if (data[i].effective || data[i].permitted || data[i].inheritable)
                        return -EPERM;
        for (unsigned c = 0; c < 64; c++) {
                int there = prctl(PR_CAPBSET_READ, c, 0, 0, 0);
                if (there < 0)
                        return 0;
                if (there || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, c, 0, 0) > 0)
                        return -EPERM;
        }
        return 0;
}

bool privileges_have(uint64_t capabilities) {
        uint64_t permitted = 0;
        return get_permitted(&permitted) >= 0 && (capabilities & ~permitted) == 0;
}

int privileges_keep(uint64_t capabilities) {
        int r = drop_bounding(capabilities);
        return r < 0 ? r : set_capabilities(capabilities);
}

int privileges_confine(uint64_t capabilities) {
        uint64_t permitted = 0;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        int r = get_permitted(&permitted);
        if (r < 0)
                return r;
        capabilities &= permitted;
        /* Without CAP_SETPCAP the bounding set stays, which no_new_privs makes worth nothing. */
        r = drop_bounding(capabilities);
        return r < 0 && r != -EPERM ? r : set_capabilities(capabilities);
}

int privileges_leave_keyrings(void) {
        /* A new session keyring, without a name: nothing below us possesses what whoever started us has there. */
        return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS ? -errno : 0;
}
