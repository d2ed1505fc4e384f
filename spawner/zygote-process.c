/* What becomes of a fork of the spawner that is to be a zygote, until the interpreter is executed: root of the runtime's user namespace and of
 * nothing else, in namespaces of its own, with the template's read-only tree, no /proc, no network, no descriptor but its socket. */
#include "spawner/zygote-process.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "common/probe.h"
#include "spawner/facts.h"
#include "spawner/privileges.h"
#include "spawner/steps/steps.h"

/* In the user namespace that owns the cells': joining a cell (SYS_ADMIN, SYS_CHROOT), and becoming its user without a way back. */
#define CAPABILITIES (PRIVILEGE(SYS_ADMIN) | PRIVILEGE(SYS_CHROOT) | PRIVILEGE(SETUID) | PRIVILEGE(SETGID) | PRIVILEGE(SETPCAP))
#define WORDS_BEFORE 2
#define OWN_FILES_MAX "size=64m,nr_inodes=4096"

static int step_rank(const struct ZygoteProcess *p) {
        struct sched_param parameter = {};
        if (sched_setscheduler(0, SCHED_OTHER, &parameter) < 0)
                return -errno;
        if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
                return -errno;
        /* Its children inherit it: a program is what goes first when the machine is out of memory. With CAP_SYS_RESOURCE it is a bound, too. */
        return write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
}

static int step_join(const struct ZygoteProcess *p) {
        if (setsid() < 0 || setns(p->template, CLONE_NEWNS) < 0 || setns(p->userns, CLONE_NEWUSER) < 0)
                return -errno;
        if (setgroups(0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
                return -errno;
        return chdir("/") < 0 ? -errno : 0;
}

static int step_unshare(const struct ZygoteProcess *p) {
        static const struct {
                enum Layer layer;
                int flag;
        } optional[] = {
                {LAYER_NETWORK_NAMESPACE, CLONE_NEWNET}, {LAYER_IPC_NAMESPACE, CLONE_NEWIPC}, {LAYER_UTS_NAMESPACE, CLONE_NEWUTS},
        };
        int flags = CLONE_NEWNS;
        for (size_t i = 0; i < ELEMENTSOF(optional); i++)
                if (!(p->without & LAYER_BIT(optional[i].layer)))
                        flags |= optional[i].flag;
        return unshare(flags) < 0 ? -errno : 0;
}

/* The user's change of ids has cleared the signal that ends us with our parent. */
static int step_privileges(const struct ZygoteProcess *p) {
        int r = privileges_leave_keyrings();
        if (r >= 0)
                r = privileges_keep(CAPABILITIES);
        if (r >= 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
                r = -errno;
        return r;
}

/* Modules may want to write when they are imported. What they leave is the zygote's own, as its mount namespace is, and no cell's. */
static int step_folders(const struct ZygoteProcess *p) {
        static const char *const folders[] = {"/tmp", "/dev/shm", FACT_HOME};
        for (size_t i = 0; i < ELEMENTSOF(folders); i++)
                if (mount("tmpfs", folders[i], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, OWN_FILES_MAX) < 0)
                        return -errno;
        return 0;
}

/* It sees the host's numbers of processes, since it has to join pid namespaces of cells, and may become whoever a cell belongs to: without this it
 * could stop or kill inits that are being made, and programs of other cells and runtimes. Its forks add their own of the same kind. */
static int step_scope(const struct ZygoteProcess *p) {
        return p->without & LAYER_BIT(LAYER_LANDLOCK) ? 0 : landlock_scope(p->landlock_abi); /* forks inherit it */
}

static int step_handlers(const struct ZygoteProcess *p) {
        sigset_t none;
        for (int s = 1; s < NSIG; s++)
                signal(s, SIG_DFL);
        sigemptyset(&none);
        return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int take_descriptors(int socket) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                return -errno;
        for (int i = 0; i < 3; i++)
                if (dup2(null, i) < 0)
                        return -errno;
        if (socket == ZYGOTE_SOCKET ? fcntl(socket, F_SETFD, 0) < 0 : dup2(socket, ZYGOTE_SOCKET) < 0)
                return -errno;
        return syscall(SYS_close_range, ZYGOTE_SOCKET + 1, ~0U, 0) < 0 ? -errno : 0;
}

int zygote_process_run(int socket, void *process) {
        const struct ZygoteProcess *p = process;
        static int (*const steps[])(const struct ZygoteProcess *p) = {
                step_rank, step_join, step_unshare, step_folders, step_privileges, step_scope, step_handlers,
        };
        static char *no_environment[] = {NULL};
        int r = 0;
        for (size_t i = 0; i < ELEMENTSOF(steps) && r >= 0; i++)
                r = steps[i](p);
        if (r >= 0)
                r = take_descriptors(socket);
        if (r < 0)
                return -r;
        execve(p->runtime->exec, p->args, p->runtime->env ? p->runtime->env : no_environment);
        return errno;
}

int zygote_process_args(const struct Runtime *runtime, char ***ret) {
        size_t modules = strv_length(runtime->preload), n = 0;
        char **args = calloc(strv_length(runtime->args) + modules + WORDS_BEFORE + 1, sizeof *args);
        if (!args)
                return -ENOMEM;
        args[n++] = strdup(runtime->exec);
        for (char **word = runtime->args; *word && args[n - 1]; word++) {
                bool is_code = streq(*word, "{code}");
                args[n++] = strdup(is_code ? "--zygote" : *word);
                for (size_t i = 0; is_code && i < modules && args[n - 1]; i++)
                        args[n++] = strdup(runtime->preload[i]);
        }
        if (!args[n - 1]) {
                strv_free(args);
                return -ENOMEM;
        }
        *ret = args;
        return 0;
}
