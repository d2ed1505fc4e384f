/* The layers of the wall by number, and what the spawner and glovebox-probe say to each other about them. */
#pragma once

#include <stdint.h>

/* In the order in which they are shown. The names are in common/layer.c. */
enum Layer {
        LAYER_NONE,
        LAYER_USER_NAMESPACE,
        LAYER_MOUNT_NAMESPACE,
        LAYER_PID_NAMESPACE,
        LAYER_IPC_NAMESPACE,
        LAYER_UTS_NAMESPACE,
        LAYER_NETWORK_NAMESPACE,
        LAYER_CGROUP_NAMESPACE,
        LAYER_READ_ONLY_ROOT,
        LAYER_PRIVATE_PROC,
        LAYER_MASKED_PROC,
        LAYER_SEPARATE_UIDS,
        LAYER_NO_CAPABILITIES,
        LAYER_NO_NEW_PRIVS,
        LAYER_CLOSED_DESCRIPTORS,
        LAYER_CORE_LIMIT,
        LAYER_KEYRING,
        LAYER_LANDLOCK,
        LAYER_SECCOMP,
        LAYER_CGROUP,
        LAYER_MEMORY,
        LAYER_PIDS,
        LAYER_CPU,
        LAYER_IO,
        LAYER_MAX_,
};

#define LAYER_BIT(layer) (UINT32_C(1) << (layer))

/* Kinds of namespaces, as in /proc/self/ns. */
enum ProbeNamespace {
        PROBE_NS_USER,
        PROBE_NS_MNT,
        PROBE_NS_PID,
        PROBE_NS_IPC,
        PROBE_NS_UTS,
        PROBE_NS_NET,
        PROBE_NS_CGROUP,
        PROBE_NS_MAX_,
};

static const char *const probe_ns_names[PROBE_NS_MAX_] = {"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"};

/* Folders that a cell and the host both have, and that must not be the same ones. */
static const char *const probe_folders[] = {"/", "/dev", "/dev/shm", "/etc", "/home", "/proc", "/root", "/run", "/tmp", "/var"};

#define PROBE_FOLDERS (sizeof(probe_folders) / sizeof(probe_folders[0]))
#define PROBE_SOCKET_MAX 40
#define PROBE_ATTACK_MAX 96

/* What the host is like, down the job pipe: what to look for inside. */
struct ProbeOrder {
        uint32_t without;                      /* bits of the layers this run is started without, by intent */
        uint32_t core_pattern;                 /* its first character */
        uint64_t namespaces[PROBE_NS_MAX_];    /* inode numbers of the spawner's own; 0 = the kernel has none of the kind */
        struct {
                uint64_t device, inode;        /* 0, 0 = not there */
        } folders[PROBE_FOLDERS];
        int32_t pid;                           /* the spawner's */
        int32_t keyring;                       /* serial of its session keyring; 0 = none */
        uint64_t workspace_bytes;
        uint32_t policy_refuses_more;          /* the operator's filter may refuse what a probe needs: the run without it decides */
        uint32_t policy_is_changed;            /* the operator's own filter of system calls: only that there is one can be judged */
        char socket[PROBE_SOCKET_MAX];         /* the name behind the NUL of an abstract socket where the spawner listens */
};

/* One attack, up the standard output; the last answer has LAYER_NONE. */
struct ProbeAnswer {
        uint32_t layer;
        int32_t result;                        /* 0 = it failed, as it should; 1 = it succeeded; negative errno = it could not be tried */
        char attack[PROBE_ATTACK_MAX];         /* what was tried, in words that follow "could" */
};
