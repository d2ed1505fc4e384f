/* The machine as far as it decides which layers can be had: looked at once, and turned into causes and cures for people. */
#include "spawner/machine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "spawner/steps/steps.h"

#define TEXT_MAX 65536
#define CAP_ADMIN 21

static ssize_t read_text(const char *path, char *text, size_t size) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t n = 0;
        text[0] = 0;
        if (fd < 0)
                return -errno;
        while (n < size - 1) {
                ssize_t r = read(fd, text + n, size - 1 - n);
                if (r < 0)
                        return -errno;
                if (r == 0)
                        break;
                n += (size_t) r;
        }
        text[n] = 0;
        return (ssize_t) n;
}

static long read_setting(const char *path) {
        char text[64], *end;
        if (read_text(path, text, sizeof text) <= 0)
                return -1;
        long value = strtol(text, &end, 10);
        return end == text ? -1 : value;
}

char machine_core_pattern(void) {
        char pattern[2] = "";
        return read_text("/proc/sys/kernel/core_pattern", pattern, sizeof pattern) > 0 ? pattern[0] : '\0';
}

bool machine_is_mapped(const char *uid_map) {
        unsigned long inside, outside, count;
        if (sscanf(uid_map, "%lu %lu %lu", &inside, &outside, &count) != 3)
                return true;
        return inside != 0 || outside != 0 || count != UINT32_MAX;
}

static bool has_word(const char *list, size_t length, const char *word) {
        size_t n = strlen(word);
        for (size_t i = 0; i + n <= length; i++)
                if ((i == 0 || list[i - 1] == ',') && strncmp(list + i, word, n) == 0 && (i + n == length || list[i + n] == ','))
                        return true;
        return false;
}

/* A line: id parent device root WHERE OPTIONS ... */
bool machine_proc_is_masked(const char *mountinfo) {
        for (const char *line = mountinfo; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                const char *field = line;
                for (int i = 0; i < 4; i++) {
                        field += strcspn(field, " \n");
                        field += *field == ' ';
                }
                size_t where = strcspn(field, " \n");
                const char *options = field + where + (field[where] == ' ');
                if (where > 6 && strncmp(field, "/proc/", 6) == 0 && strncmp(field, "/proc/sys/fs/binfmt_misc", 24) != 0)
                        return true;
                if (where == 5 && strncmp(field, "/proc", 5) == 0 && has_word(options, strcspn(options, " \n"), "ro"))
                        return true;
        }
        return false;
}

static void look_at_mounts(struct Machine *m) {
        _cleanup_free_ char *text = malloc(TEXT_MAX);
        if (!text || read_text("/proc/self/mountinfo", text, TEXT_MAX) <= 0)
                return;
        m->proc_is_masked = machine_proc_is_masked(text);
        bool v1 = strstr(text, " - cgroup ") != NULL, v2 = strstr(text, " - cgroup2 ") != NULL;
        m->cgroup = v1 ? (v2 ? CGROUP_HYBRID : CGROUP_V1) : v2 ? CGROUP_UNIFIED : CGROUP_NONE;
        const char *line = strstr(text, " - cgroup2 ");
        while (line && line > text && line[-1] != '\n')
                line--;
        m->cgroup_is_read_only = line && strstr(line, " ro,") && strstr(line, " ro,") < strstr(line, " - cgroup2 ");
}

static void look_at_capabilities(struct Machine *m) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {};
        if (syscall(SYS_capget, &header, data) == 0)
                m->capabilities = data[0].effective | (uint64_t) data[1].effective << 32;
}

/* Container managers say so in one of these places. */
static bool is_in_container(void) {
        static const char *const marks[] = {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"};
        char environment[4096];
        if (getenv("container"))
                return true;
        for (size_t i = 0; i < ELEMENTSOF(marks); i++)
                if (access(marks[i], F_OK) == 0)
                        return true;
        ssize_t n = read_text("/proc/1/environ", environment, sizeof environment);
        for (ssize_t i = 0; i < n; i += (ssize_t) strlen(environment + i) + 1)
                if (strncmp(environment + i, "container=", 10) == 0)
                        return true;
        return false;
}

struct Machine machine_look(void) {
        struct utsname u;
        char text[256];
        struct Machine m = {
                .is_root = geteuid() == 0,
                .in_container = is_in_container(),
                .max_user_namespaces = read_setting("/proc/sys/user/max_user_namespaces"),
                .apparmor_userns = read_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
                .userns_clone = read_setting("/proc/sys/kernel/unprivileged_userns_clone"),
                .memfd_noexec = read_setting("/proc/sys/vm/memfd_noexec"),
                .yama = read_setting("/proc/sys/kernel/yama/ptrace_scope"),
                .landlock = landlock_abi(),
                .has_seccomp = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0,
                .has_filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2,
                .has_keys = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) >= 0 || errno != ENOSYS,
                .core_pattern = machine_core_pattern(),
        };
        if (uname(&u) == 0) {
                snprintf(m.release, sizeof m.release, "%s", u.release);
                if (sscanf(u.release, "%u.%u", &m.major, &m.minor) != 2)
                        m.major = m.minor = 0;
        }
        if (read_text("/proc/self/uid_map", text, sizeof text) > 0)
                m.in_user_namespace = machine_is_mapped(text);
        look_at_mounts(&m);
        look_at_capabilities(&m);
        return m;
}

/* Causes, from those that explain most to those of one layer. */

static bool is_not_root(const struct Machine *m) {
        return !m->is_root;
}

static bool is_old(const struct Machine *m) {
        return m->major < 6 || (m->major == 6 && m->minor < 1);
}

static bool is_mapped(const struct Machine *m) {
        return m->in_user_namespace;
}

static bool is_weak_container(const struct Machine *m) {
        return m->in_container && !(m->capabilities & (1ULL << CAP_ADMIN));
}

static bool lacks_admin(const struct Machine *m) {
        return !(m->capabilities & (1ULL << CAP_ADMIN));
}

static bool memfds_are_not_executed(const struct Machine *m) {
        return m->memfd_noexec == 2;
}

static bool has_no_user_namespaces(const struct Machine *m) {
        return m->max_user_namespaces == 0;
}

static bool apparmor_restricts(const struct Machine *m) {
        return m->apparmor_userns == 1;
}

static bool clone_is_restricted(const struct Machine *m) {
        return m->userns_clone == 0;
}

static bool proc_is_masked(const struct Machine *m) {
        return m->proc_is_masked;
}

static bool landlock_is_off(const struct Machine *m) {
        return m->landlock == -EOPNOTSUPP;
}

static bool landlock_is_absent(const struct Machine *m) {
        return m->landlock < 0 && m->landlock != -EOPNOTSUPP && !m->has_filter;
}

static bool landlock_is_filtered(const struct Machine *m) {
        return m->landlock < 0 && m->landlock != -EOPNOTSUPP && m->has_filter;
}

static bool seccomp_is_absent(const struct Machine *m) {
        return !m->has_seccomp;
}

static bool keys_are_absent(const struct Machine *m) {
        return !m->has_keys;
}

static bool core_is_piped(const struct Machine *m) {
        return m->core_pattern == '|';
}

static bool core_is_sent(const struct Machine *m) {
        return m->core_pattern == '@';
}

static bool yama_is_strict(const struct Machine *m) {
        return m->yama == 3;
}

static bool is_container(const struct Machine *m) {
        return m->in_container;
}

static bool cgroup_is_none(const struct Machine *m) {
        return m->cgroup == CGROUP_NONE || m->cgroup == CGROUP_V1;
}

static bool cgroup_is_read_only(const struct Machine *m) {
        return m->cgroup_is_read_only;
}

static bool cgroup_is_mixed(const struct Machine *m) {
        return m->cgroup == CGROUP_HYBRID || m->cgroup == CGROUP_V1;
}

static bool cgroup_is_unified(const struct Machine *m) {
        return m->cgroup == CGROUP_UNIFIED;
}

#define CONTROLLERS (LAYER_BIT(LAYER_MEMORY) | LAYER_BIT(LAYER_PIDS) | LAYER_BIT(LAYER_CPU) | LAYER_BIT(LAYER_IO))
#define ALL_LAYERS (~CONTROLLERS)
#define IN_CONTAINER_CURE                                                                                                    \
        "run it on the host; or give the container its rights back (docker, podman: --privileged --cgroupns=private), which " \
        "makes the container no boundary any more"

#define PROC_CURE "docker: --security-opt systempaths=unconfined; podman: --security-opt unmask=ALL; or run it on the host"

static const struct Explanation {
        uint32_t layers;
        bool (*applies)(const struct Machine *m);
        const char *cause, *cure;
} explanations[] = {
        {ALL_LAYERS, is_not_root, "the spawner was not started as root", "start it as root, or as the service glovebox-spawner"},
        {ALL_LAYERS, is_old, "the kernel is older than Linux 6.1", "use Linux 6.1 or newer"},
        {ALL_LAYERS, is_mapped, "the spawner runs in a user namespace (a rootless container, unshare -r), where root is not the host's",
         "run it as the host's root; in a container, without a mapping of users"},
        {ALL_LAYERS, is_weak_container, "the spawner runs inside a container that has no CAP_SYS_ADMIN", IN_CONTAINER_CURE},
        {ALL_LAYERS, lacks_admin, "the spawner lacks CAP_SYS_ADMIN", "start it with root's full capabilities (CapabilityBoundingSet= of its service)"},
        {ALL_LAYERS, memfds_are_not_executed, "vm.memfd_noexec is 2: programs in sealed memory may not be executed",
         "sysctl vm.memfd_noexec=1, also in this pid namespace"},
        {LAYER_BIT(LAYER_USER_NAMESPACE), has_no_user_namespaces, "user.max_user_namespaces is 0", "sysctl user.max_user_namespaces=16384"},
        {LAYER_BIT(LAYER_USER_NAMESPACE), apparmor_restricts,
         "AppArmor's kernel.apparmor_restrict_unprivileged_userns is 1 (Ubuntu 23.10 and newer)",
         "give glovebox-spawner an AppArmor profile with the line \"userns,\"; or sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
        {LAYER_BIT(LAYER_USER_NAMESPACE), clone_is_restricted, "kernel.unprivileged_userns_clone is 0", "sysctl kernel.unprivileged_userns_clone=1"},
        {LAYER_BIT(LAYER_USER_NAMESPACE), proc_is_masked, "parts of /proc are masked or read-only, as container managers do", PROC_CURE},
        {LAYER_BIT(LAYER_PRIVATE_PROC), proc_is_masked, "parts of /proc are masked, as container managers do, and then the kernel refuses a new proc",
         PROC_CURE},
        {LAYER_BIT(LAYER_LANDLOCK), landlock_is_off, "Landlock is built into the kernel and not switched on at boot",
         "add landlock to the kernel's parameter lsm= (its present value is in /sys/kernel/security/lsm) and boot again"},
        {LAYER_BIT(LAYER_LANDLOCK), landlock_is_filtered, "a seccomp filter around this process refuses Landlock's calls, as a container's may",
         "docker, podman: --security-opt seccomp=unconfined; or run it on the host"},
        {LAYER_BIT(LAYER_LANDLOCK), landlock_is_absent, "the kernel has no Landlock", "use a kernel with CONFIG_SECURITY_LANDLOCK=y"},
        {LAYER_BIT(LAYER_SECCOMP), seccomp_is_absent, "the kernel has no seccomp", "use a kernel with CONFIG_SECCOMP_FILTER=y"},
        {LAYER_BIT(LAYER_KEYRING), keys_are_absent, "the kernel has no keyrings", "use a kernel with CONFIG_KEYS=y"},
        {LAYER_BIT(LAYER_CORE_LIMIT), core_is_sent,
         "kernel.core_pattern is a socket, to which the kernel sends every crash in a cell whatever the core limit is",
         "set a core_pattern without @; systemd-coredump's own is a pipe, which the limit holds back"},
        {LAYER_BIT(LAYER_CORE_LIMIT), core_is_piped, "kernel.core_pattern is a pipe, and the core limit is not exactly 1",
         "start it with LimitCORE=1 (ulimit -Hc 1), or set a core_pattern without a pipe"},
        {LAYER_BIT(LAYER_CGROUP), cgroup_is_none, "no cgroup2 hierarchy is mounted", "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with "
         "systemd.unified_cgroup_hierarchy=1"},
        {LAYER_BIT(LAYER_CGROUP), cgroup_is_read_only, "the cgroup tree is mounted read-only, as in a container", IN_CONTAINER_CURE},
        {CONTROLLERS, cgroup_is_mixed, "cgroup v1 or a hybrid machine: the controller is not available in cgroup2",
         "boot with systemd.unified_cgroup_hierarchy=1 (and cgroup_no_v1=all)"},
        {CONTROLLERS, cgroup_is_unified, "the controller is not delegated to the cgroup it was started in",
         "run it as the service glovebox-spawner, or by hand: systemd-run --scope -p Delegate=yes glovebox-spawner ..."},
};

const char *machine_obstacle(const struct Machine *m, const char **ret_cure) {
        for (size_t i = 0; i < ELEMENTSOF(explanations); i++) {
                if (explanations[i].layers != ALL_LAYERS || !explanations[i].applies(m))
                        continue;
                *ret_cure = explanations[i].cure;
                return explanations[i].cause;
        }
        return NULL;
}

static void put_cause(char *out, size_t size, const char *cause) {
        size_t n = strlen(out);
        snprintf(out + n, size - n, "%s%s", n ? ": " : "", cause);
}

/* What explains everything is told once; of_all: also here. */
static void explain_layer(const struct Machine *m, struct LayerReport *report, enum Layer layer, bool of_all) {
        for (size_t i = 0; i < ELEMENTSOF(explanations); i++) {
                const struct Explanation *e = &explanations[i];
                if (!(e->layers & LAYER_BIT(layer)) || (e->layers == ALL_LAYERS && !of_all) || !e->applies(m))
                        continue;
                put_cause(report->cause, sizeof report->cause, e->cause);
                snprintf(report->cure, sizeof report->cure, "%s", e->cure);
                return;
        }
}

void machine_explain(const struct Machine *m, struct Layers *l) {
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++) {
                struct LayerReport *report = &l->reports[i];
                bool not_probed = report->state == LAYER_UNKNOWN && !report->waived;
                if (report->state == LAYER_IN_FORCE)
                        continue;
                if (not_probed)
                        snprintf(report->cause, sizeof report->cause, "not probed, as no cell could be made");
                explain_layer(m, report, i, !not_probed);
        }
}

const char *machine_remark(const struct Machine *m, unsigned i) {
        static const struct {
                bool (*applies)(const struct Machine *m);
                const char *text;
        } remarks[] = {
                {is_container, "this is a container: what bounds it bounds every cell, too"},
                {yama_is_strict, "kernel.yama.ptrace_scope is 3: what a stuck program waits for cannot be told"},
                {core_is_piped, "kernel.core_pattern is a pipe: every crash on this machine starts a program as root; cells keep their core limit at 1"},
        };
        for (size_t k = 0; k < ELEMENTSOF(remarks); k++)
                if (remarks[k].applies(m) && i-- == 0)
                        return remarks[k].text;
        return NULL;
}
