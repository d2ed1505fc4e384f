/* The builder process: makes cells up to the point where their init waits for orders that never come.
 *
 * Each root has a template, held as a mount namespace. For a cell, a helper joins the template and the runtime's user namespace and
 * clones init with namespaces of its own, as a child of the builder. A proc of the cell's pid namespace may only be mounted from a
 * mount namespace of the host, so a second helper makes it detached and moves it in. One cell at a time; every wait has a deadline. */
#include "spawner/construct.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/probe.h"
#include "spawner/cell-init.h"
#include "spawner/clone.h"
#include "spawner/facts.h"
#include "spawner/helper.h"
#include "spawner/masks.h"
#include "spawner/template.h"
#include "spawner/trace.h"

#define STEP_TIME_MS 10000

struct Construct {
        const struct ConstructPlan *plan;
        int templates[RUNTIMES_MAX]; /* mount namespaces; runtimes of one root share a number */
        int own_pidns;
};

/* What one cell needs while it is being made. */
struct Work {
        struct Construct *construct;
        const struct ConstructRequest *request;
        const int *fds; /* CONSTRUCT_FDS_ */
        int status[2], go[2];
        int pidfd;
        pid_t pid;
        struct FactTexts facts;
        const char *step;
        char step_buffer[STEP_NAME_MAX];
};

static void work_done(struct Work *w) {
        for (int i = 0; i < 2; i++) {
                close_fd(w->status[i]);
                close_fd(w->go[i]);
        }
        close_fd(w->pidfd);
        facts_done(&w->facts);
}

static void reap_all(void) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
}

static int wait_for(pid_t pid) {
        int status;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/* In a child: the template of runtime i, and whether the interpreters of this root are in it. */
static void template_child(struct Construct *c, unsigned i, struct ConstructReady *result, int report, int release) {
        const struct TemplateSpec spec = {.root = c->plan->runtimes[i].root, .runners = c->plan->runners};
        const char *step = "";
        result->error = template_enter(&spec, &step);
        snprintf(result->step, sizeof result->step, "%s", step);
        for (unsigned k = 0; k < c->plan->n_runtimes && result->error == 0; k++)
                if (streq(c->plan->runtimes[k].root, spec.root))
                        result->exec_error[k] = access(c->plan->runtimes[k].exec, X_OK) < 0 ? -errno : 0;
        char go;
        if (write(report, result, sizeof *result) != (ssize_t) sizeof *result || read(release, &go, 1) < 0)
                _exit(1);
        _exit(0);
}

static int template_make(struct Construct *c, unsigned i, struct ConstructReady *result) {
        int report[2], release[2];
        if (pipe2(report, O_CLOEXEC) < 0)
                return -errno;
        if (pipe2(release, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                close_fd(release[1]);
                template_child(c, i, result, report[1], release[0]);
        }
        int r = pid < 0 ? -errno : 0;
        close_fd(report[1]);
        close_fd(release[0]);
        if (r >= 0 && read(report[0], result, sizeof *result) != (ssize_t) sizeof *result)
                r = -EIO;
        if (r >= 0 && result->error == 0) {
                char path[64];
                snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
                c->templates[i] = open(path, O_RDONLY | O_CLOEXEC);
                r = c->templates[i] < 0 ? -errno : 0;
        }
        close_fd(report[0]);
        close_fd(release[1]);
        if (pid > 0)
                wait_for(pid);
        return r < 0 ? r : result->error;
}

static int templates_make(struct Construct *c, struct ConstructReady *result) {
        for (unsigned i = 0; i < c->plan->n_runtimes; i++) {
                c->templates[i] = -EBADF;
                for (unsigned k = 0; k < i; k++)
                        if (streq(c->plan->runtimes[k].root, c->plan->runtimes[i].root))
                                c->templates[i] = c->templates[k];
                if (c->templates[i] >= 0)
                        continue;
                int r = template_make(c, i, result);
                if (r < 0)
                        return r;
        }
        return 0;
}

static uint64_t clone_flags(uint32_t without) {
        static const struct {
                enum Layer layer;
                uint64_t flag;
        } optional[] = {
                {LAYER_IPC_NAMESPACE, CLONE_NEWIPC},
                {LAYER_UTS_NAMESPACE, CLONE_NEWUTS},
                {LAYER_CGROUP_NAMESPACE, CLONE_NEWCGROUP},
                {LAYER_NETWORK_NAMESPACE, CLONE_NEWNET},
        };
        uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_PARENT | CLONE_INTO_CGROUP;
        for (size_t i = 0; i < ELEMENTSOF(optional); i++)
                if (!(without & LAYER_BIT(optional[i].layer)))
                        flags |= optional[i].flag;
        return flags;
}

/* In the helper: clones init as the builder's child and tells its pid. */
static void clone_helper(struct Work *w) {
        const struct Construct *c = w->construct;
        uint32_t runtime = w->request->runtime;
        struct InitStatus status = {};
        /* Or init would hold its own end of file back. */
        w->go[1] = close_fd(w->go[1]);
        w->status[0] = close_fd(w->status[0]);
        const char *step = "join the template";
        int r = setns(c->templates[runtime], CLONE_NEWNS) < 0 ? -errno : 0;
        if (r >= 0) {
                step = "join the user namespace";
                r = setns(c->plan->runtimes[runtime].userns, CLONE_NEWUSER) < 0 ? -errno : 0;
        }
        if (r >= 0) {
                struct clone_args args = {
                        .flags = clone_flags(c->plan->without),
                        .cgroup = (uint64_t) w->fds[CONSTRUCT_LEAF],
                };
                step = "clone init";
                pid_t pid = clone_process(&args);
                if (pid == 0)
                        cell_init_run(&(struct InitPlan) {
                                .request = w->request,
                                .program = c->plan->init_program,
                                .without = c->plan->without,
                                .facts = &w->facts,
                                .collect = w->fds[CONSTRUCT_COLLECT],
                                .files = w->fds[CONSTRUCT_FILES],
                                .status = w->status[1],
                                .go = w->go[0],
                        });
                r = pid < 0 ? -errno : 0;
                status.pid = pid;
        }
        status.error = r;
        snprintf(status.step, sizeof status.step, "%s", step);
        if (write(w->status[1], &status, sizeof status) != (ssize_t) sizeof status)
                _exit(1);
        _exit(0);
}

/* One record of the status pipe: 1 = read, 0 = end of file. */
static int status_read(struct Work *w, struct InitStatus *ret) {
        struct pollfd p = {.fd = w->status[0], .events = POLLIN};
        int r;
        do
                r = poll(&p, 1, STEP_TIME_MS);
        while (r < 0 && errno == EINTR);
        if (r == 0)
                return -ETIMEDOUT;
        ssize_t n = r < 0 ? -1 : read(w->status[0], ret, sizeof *ret);
        if (n < 0)
                return -errno;
        if (n == 0)
                return 0;
        if (n != (ssize_t) sizeof *ret)
                return -EBADMSG;
        if (ret->error < 0) {
                snprintf(w->step_buffer, sizeof w->step_buffer, "%.*s", STEP_NAME_MAX - 1, ret->step);
                w->step = w->step_buffer;
        }
        return ret->error < 0 ? ret->error : 1;
}

/* Both say one thing, in either order: the helper the pid, init that it is set up. */
static int clone_init(struct Work *w) {
        w->step = "fork";
        pid_t helper = fork();
        if (helper < 0)
                return -errno;
        if (helper == 0)
                clone_helper(w);
        w->status[1] = close_fd(w->status[1]);
        w->go[0] = close_fd(w->go[0]);
        int r = 0;
        bool told = false;
        while (r >= 0 && !(told && w->pid)) {
                struct InitStatus status;
                w->step = "set up init";
                r = status_read(w, &status);
                if (r == 0)
                        r = -ECHILD;
                if (r > 0 && status.pid)
                        w->pid = status.pid;
                else if (r > 0)
                        told = true;
        }
        int q = wait_for(helper);
        if (r < 0)
                return r;
        w->step = "open init";
        w->pidfd = q < 0 ? q : (int) syscall(SYS_pidfd_open, w->pid, 0);
        return w->pidfd < 0 ? -errno : 0;
}

/* In the helper, which is in the cell's pid namespace and the host's mounts. Exit status = errno. */
static void proc_helper(int pidfd, bool masked) {
        int fs = fsopen("proc", FSOPEN_CLOEXEC);
        if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "invisible", 0) < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                _exit(errno);
        int tree = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (tree < 0 || setns(pidfd, CLONE_NEWNS) < 0)
                _exit(errno);
        int facts = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC); /* soon hidden below */
        if (facts < 0 || move_mount(tree, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
                _exit(errno);
        _exit(masked ? -masks_apply(facts) : 0);
}

static int mount_proc(struct Work *w) {
        w->step = "mount proc";
        if (setns(w->pidfd, CLONE_NEWPID) < 0)
                return -errno;
        pid_t helper = fork();
        if (helper == 0)
                proc_helper(w->pidfd, !(w->construct->plan->without & LAYER_BIT(LAYER_MASKED_PROC)));
        int r = helper < 0 ? -errno : 0;
        /* Without the way back the next helper would be born in a cell. */
        if (setns(w->construct->own_pidns, CLONE_NEWPID) < 0)
                abort();
        return r < 0 ? r : wait_for(helper);
}

static int release_init(struct Work *w) {
        w->step = "start init";
        if (write(w->go[1], "g", 1) != 1)
                return -errno;
        struct InitStatus status;
        int r = status_read(w, &status);
        return r > 0 ? -EBADMSG : r;
}

static int construct_cell(struct Work *w) {
        const struct ConstructRequest *q = w->request;
        const struct FactSpec spec = {.cpus = q->cpus, .memory_bytes = q->memory_bytes, .user = slot_inside_user(q->slot)};
        trace("");
        w->step = "facts";
        int r = facts_render(&spec, true, &w->facts);
        if (r < 0)
                return r;
        trace("builder: facts");
        w->step = "pipe";
        if (pipe2(w->status, O_CLOEXEC) < 0 || pipe2(w->go, O_CLOEXEC) < 0)
                return -errno;
        r = clone_init(w);
        trace("builder: clone and set up init");
        if (r >= 0)
                r = mount_proc(w);
        trace("builder: mount proc, cover it");
        if (r >= 0)
                r = release_init(w);
        trace("builder: exec of init");
        return r;
}

static int answer(struct Construct *c, int socket, const struct ConstructRequest *request, const int fds[CONSTRUCT_FDS_]) {
        struct Work w = {
                .construct = c, .request = request, .fds = fds, .status = {-EBADF, -EBADF}, .go = {-EBADF, -EBADF}, .pidfd = -EBADF, .step = "",
        };
        bool complete = request->runtime < c->plan->n_runtimes;
        for (int i = 0; i < CONSTRUCT_FDS_; i++)
                complete = complete && fds[i] >= 0;
        int r = complete ? construct_cell(&w) : -EINVAL;
        struct ConstructReply reply = {.number = request->number, .error = r, .pid = w.pid};
        snprintf(reply.step, sizeof reply.step, "%s", w.step);
        if (r < 0 && w.pid > 0) {
                kill(w.pid, SIGKILL); /* our own child, not reaped yet */
                wait_for(w.pid);
        }
        int q = packet_send(socket, &reply, sizeof reply, &w.pidfd, r < 0 ? 0 : 1, 0);
        work_done(&w);
        return q;
}

static int serve(struct Construct *c, int socket) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, NULL);
        int children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        struct pollfd p[] = {{.fd = socket, .events = POLLIN}, {.fd = children, .events = POLLIN}};
        for (;;) {
                if (poll(p, 2, -1) < 0 && errno != EINTR)
                        return 1;
                struct signalfd_siginfo info;
                if (read(children, &info, sizeof info) > 0)
                        reap_all();
                if (!p[0].revents)
                        continue;
                struct ConstructRequest request;
                int fds[CONSTRUCT_FDS_];
                ssize_t n = packet_receive(socket, &request, sizeof request, fds, CONSTRUCT_FDS_, 0);
                if (n != (ssize_t) sizeof request)
                        return n == 0 ? 0 : 1;
                int r = answer(c, socket, &request, fds);
                for (int i = 0; i < CONSTRUCT_FDS_; i++)
                        close_fd(fds[i]); /* or init would not see the ends of its pipes */
                if (r < 0)
                        return 1;
        }
}

static int templates_send(const struct Construct *c, int socket) {
        int r = 0;
        for (unsigned i = 0; i < c->plan->n_runtimes && r >= 0; i++) {
                struct ConstructTemplate t = {.runtime = i};
                r = packet_send(socket, &t, sizeof t, &c->templates[i], 1, 0);
        }
        return r;
}

int construct_main(int socket, void *plan) {
        struct Construct c = {.plan = plan};
        struct ConstructReady ready = {};
        c.own_pidns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        ready.error = c.own_pidns < 0 ? -errno : templates_make(&c, &ready);
        if (packet_send(socket, &ready, sizeof ready, NULL, 0, 0) < 0 || ready.error < 0 || templates_send(&c, socket) < 0)
                return 1;
        return serve(&c, socket);
}
