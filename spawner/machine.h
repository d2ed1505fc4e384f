/* The machine as far as it decides which layers can be had: looked at once, and turned into causes and cures for people. */
#pragma once

#include "spawner/layers.h"

/* Which cgroup hierarchies there are. */
enum CgroupMode {
        CGROUP_NONE,
        CGROUP_V1,
        CGROUP_HYBRID,
        CGROUP_UNIFIED,
};

struct Machine {
        char release[65];           /* of the kernel */
        unsigned major, minor;
        bool is_root;
        uint64_t capabilities;      /* effective */
        bool in_user_namespace;     /* not the host's first */
        bool in_container;
        bool proc_is_masked;        /* something is mounted over parts of /proc, or it is read-only */
        bool cgroup_is_read_only;
        enum CgroupMode cgroup;
        long max_user_namespaces;   /* -1 = no such setting */
        long apparmor_userns;
        long userns_clone;          /* Debian's older switch */
        long memfd_noexec;
        long yama;
        int landlock;               /* ABI, or a negative errno */
        bool has_seccomp, has_filter, has_keys;
        char core_pattern;          /* its first character: | and @ are programs and sockets of the host */
};

struct Machine machine_look(void);
/* The first character of kernel.core_pattern: '|' = a program of the host is started for each crash, '@' (Linux 6.16) = its socket is told. */
char machine_core_pattern(void);
/* In the text of /proc/self/mountinfo, is something mounted below /proc, or is /proc itself read-only? */
bool machine_proc_is_masked(const char *mountinfo);
/* Does the text of a uid_map leave ids out, or map them to others? */
bool machine_is_mapped(const char *uid_map);

/* Adds causes and cures to what is missing. */
void machine_explain(const struct Machine *m, struct Layers *l);
/* What explains that nothing at all works, NULL when nothing known does; *ret_cure only then. */
const char *machine_obstacle(const struct Machine *m, const char **ret_cure);
/* One line that is true but concerns no layer, or NULL; i counts from 0. */
const char *machine_remark(const struct Machine *m, unsigned i);
