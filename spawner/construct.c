/* The builder process: makes cells up to the point where their init is on its own.
 *
 * Each root has a template, held as a mount namespace. For a cell, a helper joins the template and the runtime's user namespace and clones init with
 * namespaces of its own, as a child of the builder; init makes itself at home (cell-init.c) and becomes glovebox-init. None of the two gets a copy
 * of our memory, and each stands still while the next one works: copying was half of a cell's cost. The cell's memory limit fails what init does
 * but kills none of us, since the kernel spares whoever is between vfork and exec. One cell at a time. We keep no bound of time: the
 * spawner does, and kills what is in the cell's leaf, or us. Then the kernel kills helper and init, which would otherwise hold our socket. */
#include "spawner/construct.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
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
#include "spawner/spare.h"
#include "spawner/template.h"
#include "spawner/trace.h"

/* What comes of the making of a cell. Mapped as shared. */
struct Outcome {
        struct InitResult result;
        pid_t init;
        int pidfd;
};

/* Mount namespaces; runtimes of one root share their numbers. */
enum TemplateUse {
        FOR_OTHERS, /* what waits outside of a cell */
        FOR_CELLS,  /* the kernel lets them mount their proc */
        TEMPLATE_USES,
};

struct Construct {
        const struct ConstructPlan *plan;
        int templates[RUNTIMES_MAX][TEMPLATE_USES];
        pid_t pid; /* our own */
        int self;  /* its pidfd */
        struct Outcome *outcome;
        struct SpareStock spares[RUNTIMES_MAX];
        struct CloneStack helper_stack, init_stack;
};

/* What one cell needs while it is being made. */
struct Work {
        struct Construct *construct;
        const struct ConstructRequest *request;
        const int *fds; /* CONSTRUCT_FDS_ */
        struct FactTexts facts;
        bool has_spare;
        struct SpareSet spare;
};

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
static int template_build(struct Construct *c, unsigned i, struct ConstructReady *result, int fds[TEMPLATE_USES]) {
        const struct TemplateSpec spec = {.root = c->plan->runtimes[i].root, .runners = c->plan->runners};
        _cleanup_close_ int namespaces = open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);
        const char *step = "";
        int r = namespaces < 0 ? -errno : follow_parent(c->pid);
        if (r >= 0)
                r = template_enter(&spec, &step);
        for (unsigned k = 0; k < c->plan->n_runtimes && r >= 0; k++)
                if (streq(c->plan->runtimes[k].root, spec.root))
                        result->exec_error[k] = access(c->plan->runtimes[k].exec, X_OK) < 0 ? -errno : 0;
        for (int use = 0; use < TEMPLATE_USES && r >= 0; use++) {
                if (use == FOR_CELLS) {
                        step = "template proc";
                        r = template_show_proc();
                }
                fds[use] = r < 0 ? -EBADF : openat(namespaces, "mnt", O_RDONLY | O_CLOEXEC);
                if (r >= 0 && fds[use] < 0)
                        r = -errno;
        }
        snprintf(result->step, sizeof result->step, "%s", step);
        return r;
}

static int template_make(struct Construct *c, unsigned i, struct ConstructReady *result) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        _cleanup_close_ int ours = pair[0], theirs = pair[1];
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                int fds[TEMPLATE_USES];
                result->error = template_build(c, i, result, fds);
                _exit(packet_send(theirs, result, sizeof *result, fds, result->error < 0 ? 0 : TEMPLATE_USES, 0) < 0);
        }
        theirs = close_fd(theirs);
        ssize_t n = packet_receive(ours, result, sizeof *result, c->templates[i], TEMPLATE_USES, 0);
        wait_for(pid);
        return n < 0 ? (int) n : n != (ssize_t) sizeof *result ? -EIO : result->error;
}

static int templates_make(struct Construct *c, struct ConstructReady *result) {
        for (unsigned i = 0; i < c->plan->n_runtimes; i++) {
                unsigned same = 0;
                while (!streq(c->plan->runtimes[same].root, c->plan->runtimes[i].root))
                        same++;
                if (same < i)
                        memcpy(c->templates[i], c->templates[same], sizeof c->templates[i]);
                int r = same < i ? 0 : template_make(c, i, result);
                if (r < 0)
                        return r;
        }
        return 0;
}

static uint64_t clone_flags(const struct Work *w) {
        uint32_t without = w->construct->plan->without;
        uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_PARENT | CLONE_INTO_CGROUP | CLONE_PIDFD;
        flags |= without & LAYER_BIT(LAYER_CGROUP_NAMESPACE) ? 0 : CLONE_NEWCGROUP;
        return w->has_spare ? flags : flags | spare_flags(without);
}

/* In the helper: clones init as the builder's child. Its descriptors are the builder's own, so it is not to outlive it. */
static void clone_init(void *userdata) {
        struct Work *w = userdata;
        struct Construct *c = w->construct;
        struct Outcome *o = c->outcome;
        uint32_t runtime = w->request->runtime;
        o->result.step = "join the template";
        int r = follow_parent(c->pid);
        if (r >= 0)
                r = setns(c->templates[runtime][FOR_CELLS], CLONE_NEWNS) < 0 ? -errno : 0;
        if (r >= 0) {
                o->result.step = "join the user namespace";
                r = setns(c->plan->runtimes[runtime].userns, CLONE_NEWUSER) < 0 ? -errno : follow_parent(c->pid);
        }
        if (r >= 0 && w->has_spare) {
                o->result.step = "join spare namespaces";
                r = spare_join(&w->spare);
        }
        if (r >= 0) {
                trace("helper: joined");
                struct InitPlan plan = {
                        .request = w->request,
                        .program = c->plan->init_program,
                        .without = c->plan->without,
                        .facts = &w->facts,
                        .collect = w->fds[CONSTRUCT_COLLECT],
                        .files = w->fds[CONSTRUCT_FILES],
                        .builder = c->self,
                        .has_spare = w->has_spare,
                        .result = &o->result,
                };
                struct clone_args args = {
                        .flags = clone_flags(w),
                        .cgroup = (uint64_t) w->fds[CONSTRUCT_LEAF],
                        .pidfd = (uint64_t) (uintptr_t) &o->pidfd,
                };
                o->result.step = "clone init";
                o->init = clone_and_wait(&args, &c->init_stack, cell_init_run, &plan);
                r = MIN(o->init, 0);
        }
        if (r < 0)
                o->result.error = r;
        _exit(0);
}

static int construct_cell(struct Work *w) {
        struct Construct *c = w->construct;
        const struct ConstructRequest *q = w->request;
        const struct FactSpec spec = {.cpus = q->cpus, .memory_bytes = q->memory_bytes, .user = slot_inside_user(q->slot)};
        trace("");
        c->outcome->result.step = "facts";
        int r = facts_render(&spec, true, &w->facts);
        if (r < 0)
                return r;
        trace("builder: facts");
        w->has_spare = spare_take(&c->spares[q->runtime], &w->spare);
        c->outcome->result = (struct InitResult) {.error = -ECHILD, .step = "clone init"}; /* what whoever is killed leaves */
        struct clone_args args = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
        pid_t helper = clone_and_wait(&args, &c->helper_stack, clone_init, w);
        if (helper < 0)
                return helper;
        r = wait_for(helper);
        trace("builder: clone, set up and exec of init");
        return r < 0 ? r : c->outcome->result.error;
}

static int answer(struct Construct *c, int socket, const struct ConstructRequest *request, const int fds[CONSTRUCT_FDS_]) {
        struct Work w = {.construct = c, .request = request, .fds = fds};
        struct Outcome *o = c->outcome;
        bool complete = request->runtime < c->plan->n_runtimes;
        for (int i = 0; i < CONSTRUCT_FDS_; i++)
                complete = complete && fds[i] >= 0;
        *o = (struct Outcome) {.result.step = "request", .pidfd = -EBADF};
        int r = complete ? construct_cell(&w) : -EINVAL;
        struct ConstructReply reply = {.number = request->number, .error = r, .pid = MAX(o->init, 0)};
        snprintf(reply.step, sizeof reply.step, "%s", o->result.step);
        if (r < 0 && o->init > 0) {
                kill(o->init, SIGKILL); /* our own child, not reaped yet */
                wait_for(o->init);
        }
        int q = packet_send(socket, &reply, sizeof reply, &o->pidfd, r < 0 ? 0 : 1, 0);
        close_fd(o->pidfd);
        if (w.has_spare)
                spare_done(&w.spare);
        facts_done(&w.facts);
        return q;
}

/* One thing at a time: a cell may be asked for meanwhile. */
static void use_quiet(struct Construct *c) {
        for (unsigned i = 0; i < c->plan->n_runtimes; i++)
                if (spare_do(&c->spares[i], c->plan->runtimes[i].userns, c->plan->without))
                        return;
}

static int quiet_before_use(const struct Construct *c) {
        int least = -1;
        for (unsigned i = 0; i < c->plan->n_runtimes; i++) {
                int pause = spare_pause(&c->spares[i]);
                if (pause >= 0 && (least < 0 || pause < least))
                        least = pause;
        }
        return least;
}

static int serve(struct Construct *c, int socket) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, NULL);
        int children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        struct pollfd p[] = {{.fd = socket, .events = POLLIN}, {.fd = children, .events = POLLIN}};
        for (;;) {
                int ready = poll(p, 2, quiet_before_use(c));
                if (ready < 0 && errno != EINTR)
                        return 1;
                if (ready == 0)
                        use_quiet(c);
                struct signalfd_siginfo info;
                if (read(children, &info, sizeof info) > 0)
                        reap_all();
                if (ready <= 0 || !p[0].revents)
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
                r = packet_send(socket, &t, sizeof t, &c->templates[i][FOR_OTHERS], 1, 0);
        }
        return r;
}

static int set_up(struct Construct *c, struct ConstructReady *ready) {
        c->pid = getpid();
        c->self = (int) syscall(SYS_pidfd_open, c->pid, 0);
        if (c->self < 0)
                return -errno;
        c->outcome = mmap(NULL, sizeof *c->outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (c->outcome == MAP_FAILED)
                return -errno;
        int r = masks_learn();
        return r < 0 ? r : templates_make(c, ready);
}

int construct_main(int socket, void *plan) {
        static struct Construct c; /* too large for a stack */
        struct ConstructReady ready = {};
        c.plan = plan;
        ready.error = set_up(&c, &ready);
        if (packet_send(socket, &ready, sizeof ready, NULL, 0, 0) < 0 || ready.error < 0 || templates_send(&c, socket) < 0)
                return 1;
        return serve(&c, socket);
}
