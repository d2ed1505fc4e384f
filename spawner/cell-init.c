/* The part of a cell's making that its own PID 1 does, before it becomes glovebox-init. It begins with all capabilities in the runtime's
 * user namespace, none on the host, and ends with the two that let glovebox-init look at files as the user, which it gives up first of all. */
#include "spawner/cell-init.h"

#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/collect.h"
#include "common/probe.h"
#include "spawner/facts.h"
#include "spawner/masks.h"
#include "spawner/privileges.h"
#include "spawner/spare.h"
#include "spawner/trace.h"

#define COLLECT_DESCRIPTORS (COLLECT_DEPTH_MAX + 16) /* one for each folder on the way down, the pipes, and some */

/* What one init opens on its way. Closed by its exec, or given to glovebox-init. */
static struct {
        int facts, shared_facts; /* soon hidden by other mounts */
        int workspace;
} opened;

/* Each change of ids takes it away again. What holds the builder's socket must not outlive it. */
static int step_follow_builder(const struct InitPlan *p) {
        struct pollfd builder = {.fd = p->builder, .events = POLLIN};
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        return poll(&builder, 1, 0) == 0 ? 0 : -ESRCH; /* it died before */
}

/* Root of the user namespace first: only mapped ids may own mounts. */
static int step_root(const struct InitPlan *p) {
        if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
                return -errno;
        return step_follow_builder(p);
}

static int mount_tmpfs(const char *where, mode_t mode, uid_t owner, uint64_t bytes, uint64_t inodes) {
        char options[160];
        snprintf(options, sizeof options, "size=%" PRIu64 ",nr_inodes=%" PRIu64 ",mode=%o,uid=%u,gid=%u", bytes, inodes, mode, owner, owner);
        return mount("tmpfs", where, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

static int set_read_only(const char *where) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
        return mount_setattr(AT_FDCWD, where, 0, &attr, sizeof attr) < 0 ? -errno : 0;
}

static int open_folder(const char *path, int *ret) {
        *ret = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return *ret < 0 ? -errno : 0;
}

/* At the place of /proc, which will cover it. From there come the cell's own /etc/passwd and /etc/group. */
static int step_facts(const struct InitPlan *p) {
        if (mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4m,nr_inodes=16,mode=0711") < 0)
                return -errno;
        int r = open_folder("/proc", &opened.facts);
        if (r >= 0)
                r = open_folder(FACTS_SHARED, &opened.shared_facts);
        if (r >= 0)
                r = facts_create(p->facts, opened.facts);
        if (r >= 0)
                r = set_read_only("/proc");
        for (enum FactName f = FACT_PASSWD; f <= FACT_GROUP && r >= 0; f++) {
                char from[32];
                snprintf(from, sizeof from, "/proc/%s", fact_name(f));
                r = mount(from, fact_path(f), NULL, MS_BIND, NULL) < 0 ? -errno : 0;
        }
        return r;
}

/* A folder of the file system that is mounted at /tmp for now. */
static int bind_folder(const char *from, const char *where, uid_t owner) {
        if (mkdir(from, 0700) < 0 || chown(from, owner, owner) < 0)
                return -errno;
        return mount(from, where, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

/* The workspace and the user's home are two folders of one file system, so that one cap holds for both; what programs leave at home is not
 * among the workspace's files. The file system's own root ends below /tmp. */
static int step_tmpfs(const struct InitPlan *p) {
        uint64_t bytes = p->request->workspace_bytes, inodes = p->request->workspace_inodes;
        uid_t user = slot_inside_user(p->request->slot);
        int r = mount_tmpfs("/tmp", 0700, 0, bytes, inodes + 2);
        if (r >= 0)
                r = bind_folder("/tmp/workspace", "/workspace", user);
        if (r >= 0)
                r = bind_folder("/tmp/home", FACT_HOME, user);
        if (r >= 0)
                r = set_read_only("/tmp");
        if (r >= 0)
                r = mount_tmpfs("/tmp", 01777, user, bytes, inodes);
        if (r >= 0)
                r = mount_tmpfs("/dev/shm", 01777, user, MAX(bytes / 4, 64 * KIB), MAX(inodes / 4, (uint64_t) 16));
        return r;
}

static int step_proc(const struct InitPlan *p) {
        return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible") < 0 ? -errno : 0;
}

static int step_masks(const struct InitPlan *p) {
        return masks_apply(opened.facts, opened.shared_facts);
}

static int step_hostname(const struct InitPlan *p) {
        return p->has_spare ? 0 : spare_set_hostname();
}

static int step_loopback(const struct InitPlan *p) {
        return p->has_spare ? 0 : spare_set_loopback();
}

static int step_session(const struct InitPlan *p) {
        return setsid() < 0 ? -errno : 0;
}

static int step_descriptors(const struct InitPlan *p) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                return -errno;
        for (int i = 0; i < 3; i++)
                if (dup2(null, i) < 0)
                        return -errno;
        return open_folder("/workspace", &opened.workspace); /* the others are close-on-exec */
}

static int step_ids(const struct InitPlan *p) {
        return privileges_lend(slot_inside_init(p->request->slot), PRIVILEGE(SETUID) | PRIVILEGE(SETGID));
}

static int step_keyring(const struct InitPlan *p) {
        return privileges_leave_keyrings();
}

static int step_rlimits(const struct InitPlan *p) {
        struct rlimit one = {1, 1}, few = {COLLECT_DESCRIPTORS, COLLECT_DESCRIPTORS};
        /* 1 and not 0: at 0 a piped core_pattern starts the host's helper. */
        return setrlimit(RLIMIT_CORE, &one) < 0 || setrlimit(RLIMIT_NOFILE, &few) < 0 ? -errno : 0;
}

/* After the last change of ids, which would reset both. */
static int step_close_up(const struct InitPlan *p) {
        if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return step_follow_builder(p);
}

/* The builder has no handlers. */
static int step_signals(const struct InitPlan *p) {
        static const int ignored[] = {SIGINT, SIGTERM, SIGHUP};
        for (size_t i = 0; i < ELEMENTSOF(ignored); i++)
                if (signal(ignored[i], SIG_DFL) == SIG_ERR)
                        return -errno;
        return 0;
}

static const struct {
        const char *name;
        int (*run)(const struct InitPlan *p);
        enum Layer layer;
} steps[] = {
        /* in order */
        {"init life", step_follow_builder, LAYER_NONE},
        {"init root", step_root, LAYER_NONE},
        {"init facts", step_facts, LAYER_NONE},
        {"init tmpfs", step_tmpfs, LAYER_NONE},
        {"init proc", step_proc, LAYER_NONE},
        {"init masks", step_masks, LAYER_MASKED_PROC},
        {"init hostname", step_hostname, LAYER_UTS_NAMESPACE},
        {"init loopback", step_loopback, LAYER_NETWORK_NAMESPACE},
        {"init session", step_session, LAYER_NONE},
        {"init signals", step_signals, LAYER_NONE},
        {"init descriptors", step_descriptors, LAYER_NONE},
        {"init ids", step_ids, LAYER_NONE},
        {"init death", step_close_up, LAYER_NONE},
        {"init keyring", step_keyring, LAYER_KEYRING},
        {"init rlimits", step_rlimits, LAYER_NONE},
};

/* Comes back only with an error. */
static int become_init(const struct InitPlan *p) {
        const int fds[] = {p->collect, p->files, opened.workspace};
        char numbers[ELEMENTSOF(fds)][16], user[16];
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                if (fcntl(fds[i], F_SETFD, 0) < 0)
                        return -errno;
                snprintf(numbers[i], sizeof numbers[i], "%d", fds[i]);
        }
        snprintf(user, sizeof user, "%u", slot_inside_user(p->request->slot));
        char *argv[] = {(char *) "glovebox-init", numbers[0], numbers[1], numbers[2], user, NULL}, *envp[] = {NULL};
        syscall(SYS_execveat, p->program, "", argv, envp, AT_EMPTY_PATH);
        return -errno;
}

void cell_init_run(void *plan) {
        const struct InitPlan *p = plan;
        struct InitResult *result = p->result;
        int r = 0;
        trace("");
        for (size_t i = 0; i < ELEMENTSOF(steps) && r >= 0; i++) {
                if (steps[i].layer && (p->without & LAYER_BIT(steps[i].layer)))
                        continue;
                result->step = steps[i].name;
                r = steps[i].run(p);
                trace(steps[i].name);
        }
        if (r >= 0) {
                result->step = "init exec";
                result->error = 0;
                r = become_init(p);
        }
        result->error = r;
        _exit(1);
}
