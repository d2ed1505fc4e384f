/* The part of a Python zygote that cannot be Python: an extension module for the interpreter that a runtime names (limited API, so for each of its
 * versions from 3.7 on). It speaks with the spawner (spawner/zygote-wire.h), forks into cells, takes the child through the wall's steps before any
 * Python code runs in it, and takes its job. An interpreter that was started to wait for a job uses the last part alone.
 *
 * A fork here is the plain system call, since glibc's own cannot make a child of the spawner: what glibc does beside it and a child needs is done
 * here. That holds for one thread only, and so there may be only one. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03070000
#include <Python.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "inside/take-job.h"
#include "common/value.h"
#include "spawner/clone.h"
#include "spawner/facts.h"
#include "spawner/steps/seccomp-program.h"
#include "spawner/steps/steps.h"
#include "spawner/zygote-stream.h"
#include "spawner/zygote-wire.h"

#define NICE_WHILE_WARMING 10
#define EXIT_NOT_PLACED 125
#define OVER_PATIENCE_NSEC (100 * 1000 * 1000L) /* a server that is held back by a slow reader may not have read that all is over */

_Static_assert(sizeof(struct ZygoteReady) == 4 + ZYGOTE_DETAIL_MAX, "the runner makes this one in Python");

static struct {
        struct ZygoteSetup setup;
        struct SeccompProgram seccomp;
        pid_t *tid; /* where glibc keeps the number of this thread */
        void *robust;
        size_t robust_size;
        char name[16];
        int nice; /* of jobs; NICE_WHILE_WARMING: this one has no other */
} zygote;

static struct TakenJob job;

static PyObject *raise_error(int error, const char *what) {
        PyObject *args = Py_BuildValue("(is)", -error, what);
        if (args) {
                PyErr_SetObject(PyExc_OSError, args);
                Py_DECREF(args);
        }
        return NULL;
}

static void close_all(int *fds, size_t n) {
        for (size_t i = 0; i < n; i++)
                fds[i] = close_fd(fds[i]);
}

/* A message of exactly this size with exactly these descriptors; 0: the spawner is gone. */
static int receive(void *message, size_t size, int *fds, size_t n_fds) {
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(sizeof(int) * ZYGOTE_FDS_)];
        } control;
        struct iovec data = {.iov_base = message, .iov_len = size};
        struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t n;
        do
                n = recvmsg(ZYGOTE_SOCKET, &m, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return n < 0 ? -errno : 0;
        size_t got = 0;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                memcpy(fds, CMSG_DATA(c), MIN(got, n_fds) * sizeof(int));
        }
        if ((size_t) n == size && got == n_fds && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
                return 1;
        close_all(fds, MIN(got, n_fds));
        return -EPROTO;
}

/* A call that changes nothing, and is refused where there is more than one thread. /proc is not to be seen from here. */
static int check_single(void) {
        return unshare(CLONE_THREAD) < 0 ? -errno : 0;
}

static int take_filter(int fd) {
        size_t size = zygote.setup.instructions * sizeof(struct sock_filter);
        struct sock_filter *program = malloc(size);
        if (!program)
                return -ENOMEM;
        if (zygote.setup.instructions > BPF_MAXINSNS || pread(fd, program, size, 0) != (ssize_t) size) {
                free(program);
                return -EPROTO;
        }
        zygote.seccomp = (struct SeccompProgram) {
                .instructions = program,
                .n = (unsigned short) zygote.setup.instructions,
                .log = zygote.setup.seccomp_log,
        };
        return 0;
}

static int take_setup(void) {
        struct msghdr peek = {};
        struct iovec data = {.iov_base = &zygote.setup, .iov_len = sizeof zygote.setup};
        int fd = -EBADF, r;
        peek.msg_iov = &data;
        peek.msg_iovlen = 1;
        /* Whether there is a descriptor stands in the message. */
        if (recvmsg(ZYGOTE_SOCKET, &peek, MSG_PEEK) != sizeof zygote.setup)
                return -EPROTO;
        r = receive(&zygote.setup, sizeof zygote.setup, &fd, zygote.setup.instructions > 0);
        if (r <= 0)
                return r < 0 ? r : -ECONNRESET;
        if (zygote.setup.instructions > 0)
                r = take_filter(fd);
        close_fd(fd);
        return r;
}

/* What glibc told the kernel when this thread began, and a fork of glibc's tells again. A kernel without CONFIG_CHECKPOINT_RESTORE does not say where
 * the number is: glibc has it two words before the list of locks. Either way it must stand there. */
static int find_thread(void) {
        if (syscall(SYS_get_robust_list, 0, &zygote.robust, &zygote.robust_size) < 0)
                return -errno;
        if (prctl(PR_GET_TID_ADDRESS, &zygote.tid, 0, 0, 0) < 0)
                zygote.tid = zygote.robust ? (pid_t *) ((uint64_t *) zygote.robust - 2) : NULL;
        if (!zygote.tid || *zygote.tid != (pid_t) syscall(SYS_gettid))
                return -ENXIO;
        return prctl(PR_GET_NAME, zygote.name, 0, 0, 0) < 0 || prctl(PR_SET_NAME, "glovebox-zygote", 0, 0, 0) < 0 ? -errno : 0;
}

/* A process that its parent has left behind is then found by has_children(). */
static int take_orphans(void) {
        return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static PyObject *zygote_setup(PyObject *self, PyObject *unused) {
        static const struct {
                const char *what;
                int (*run)(void);
        } parts[] = {
                {"the spawner's setup", take_setup},
                {"where the C library keeps a thread's number", find_thread},
                {"processes without a parent", take_orphans},
        };
        for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
                int r = parts[i].run();
                if (r < 0)
                        return raise_error(r, parts[i].what);
        }
        Py_RETURN_NONE;
}

/* Those that have ended are nobody's any more. */
static PyObject *zygote_has_children(PyObject *self, PyObject *unused) {
        siginfo_t info;
        do
                info.si_pid = 0;
        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0);
        return PyBool_FromLong(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0);
}

static PyObject *zygote_is_single(PyObject *self, PyObject *unused) {
        return PyBool_FromLong(check_single() == 0);
}

/* While it warms up it takes no time from jobs, if there is a way back after that. Returns where that leads. */
static int step_back(void) {
        int now = getpriority(PRIO_PROCESS, 0);
        struct rlimit limit = {};
        bool is_way = getrlimit(RLIMIT_NICE, &limit) == 0 && (int) MIN(limit.rlim_cur, (rlim_t) 40) >= 20 - now; /* as it counts */
        if (now >= NICE_WHILE_WARMING || !is_way || setpriority(PRIO_PROCESS, 0, NICE_WHILE_WARMING) < 0)
                return NICE_WHILE_WARMING;
        return now;
}

/* In the child: until it is the cell's user and behind the wall. */
static void go_inside(const struct ZygoteRequest *request, const int *fds) {
        struct StepContext context = {
                .init = -EBADF,
                .namespaces = fds + ZYGOTE_NAMESPACES,
                .user = request->user,
                .max_processes = request->max_processes,
                .program = -EBADF,
                .seccomp = zygote.setup.instructions > 0 ? &zygote.seccomp : NULL,
                .landlock_abi = zygote.setup.landlock_abi,
                .core_scheduling = zygote.setup.core_scheduling,
                .without = zygote.setup.without,
                .forked = true,
                .waits = request->warm,
        };
        char placed;
        ssize_t n;
        memcpy(context.fds, fds + ZYGOTE_PIPES, sizeof context.fds);
        syscall(SYS_set_robust_list, zygote.robust, zygote.robust_size);
        do
                n = read(context.fds[STEP_FD_JOB], &placed, 1);
        while (n < 0 && errno == EINTR);
        if (n != 1 || placed != ZYGOTE_PLACED)
                _exit(EXIT_NOT_PLACED);
        zygote.nice = request->warm ? step_back() : NICE_WHILE_WARMING;
        steps_apply(&context);
        /* Nothing is left to protect; without it /proc/self and /dev/stderr could not be opened. */
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || prctl(PR_SET_NAME, zygote.name, 0, 0, 0) < 0)
                take_job_fail("dumpable", -errno);
}

/* Returns 0 in the child. The number of a pid namespace stays that of the last cell: the way back to the host's own would need a right there, and
 * nothing but this function makes children. */
static pid_t fork_into(const struct ZygoteRequest *request, const int *fds, const char **ret_step) {
        struct clone_args args = {
                .flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
                .child_tid = (uint64_t) (uintptr_t) zygote.tid,
        };
        *ret_step = "zygote: one thread";
        int r = check_single();
        if (r < 0)
                return r;
        *ret_step = "zygote: join the cell";
        if (setns(fds[ZYGOTE_PID_NAMESPACE], CLONE_NEWPID) < 0)
                return -errno;
        *ret_step = "zygote: clone";
        pid_t pid = clone_process(&args);
        return pid < 0 ? -errno : pid;
}

static PyObject *zygote_serve(PyObject *self, PyObject *unused) {
        for (;;) {
                struct ZygoteRequest request;
                int fds[ZYGOTE_FDS_];
                const char *step = "";
                int r = receive(&request, sizeof request, fds, ZYGOTE_FDS_);
                if (r <= 0)
                        return r < 0 ? raise_error(r, "a request of the spawner") : Py_BuildValue("");
                PyOS_BeforeFork();
                pid_t pid = fork_into(&request, fds, &step);
                if (pid == 0) {
                        go_inside(&request, fds);
                        PyOS_AfterFork_Child();
                        return PyBool_FromLong(request.warm);
                }
                PyOS_AfterFork_Parent();
                close_all(fds, ELEMENTSOF(fds));
                struct ZygoteReply reply = {.number = request.number, .error = MIN(pid, 0), .pid = MAX(pid, 0)};
                if (pid < 0)
                        strncpy(reply.step, step, sizeof reply.step - 1);
                if (send(ZYGOTE_SOCKET, &reply, sizeof reply, MSG_NOSIGNAL) != (ssize_t) sizeof reply)
                        return raise_error(-errno, "the answer to the spawner");
        }
}

/* The way back to what every program has; then nobody waits any more for this process to be warm. */
static PyObject *zygote_settle(PyObject *self, PyObject *unused) {
        const struct rlimit none = {0, 0};
        if (job.forked && zygote.nice < NICE_WHILE_WARMING && setpriority(PRIO_PROCESS, 0, zygote.nice) < 0)
                take_job_fail("priority", -errno);
        if (setrlimit(RLIMIT_NICE, &none) < 0)
                take_job_fail("rlimits", -errno);
        int r = take_job_ready();
        if (r < 0)
                take_job_fail("ready", r);
        Py_RETURN_NONE;
}

static PyObject *list_of(char *const *texts, size_t n) {
        PyObject *list = PyList_New((Py_ssize_t) n);
        for (size_t i = 0; i < n && list; i++) {
                PyObject *text = PyUnicode_DecodeFSDefault(texts[i]);
                if (!text || PyList_SetItem(list, (Py_ssize_t) i, text) < 0) {
                        Py_DECREF(list);
                        list = NULL;
                }
        }
        return list;
}

/* Words and environment, as they have come since the last time. */
static PyObject *words_and_environment(void) {
        PyObject *words = list_of(job.args, job.n_args), *environment = list_of(job.env, job.n_env);
        job.n_args = job.n_env = 0;
        if (words && environment)
                return Py_BuildValue("(NN)", words, environment);
        Py_XDECREF(words);
        Py_XDECREF(environment);
        return NULL;
}

static PyObject *zygote_take_head(PyObject *self, PyObject *unused) {
        job.forked = true;
        int r = take_job_head(&job);
        if (r >= 0 && (!job.runner || !job.code_path))
                r = -EINVAL;
        if (r < 0)
                take_job_fail(job.step, r);
        return words_and_environment();
}

static PyObject *zygote_take_job(PyObject *self, PyObject *args) {
        const char *path = NULL;
        if (!PyArg_ParseTuple(args, "|z", &path))
                return NULL;
        int r = take_job_await();
        if (r >= 0 && path)
                r = take_job_waiting(&job, path);
        if (r >= 0)
                r = take_job_body(&job);
        if (r < 0)
                take_job_fail(job.step, r);
        (void) close(JOB_REPORT_FD); /* the program runs */
        return words_and_environment();
}

/* As the interpreter calls what it calls at its end. */
static PyObject *zygote_attempt(PyObject *self, PyObject *args) {
        PyObject *function, *told, *answer;
        if (!PyArg_ParseTuple(args, "OO", &function, &told))
                return NULL;
        answer = PyObject_CallObject(function, NULL);
        if (!answer)
                PyErr_WriteUnraisable(told);
        Py_XDECREF(answer);
        Py_RETURN_NONE;
}

/* From here on nothing of the program's runs any more. */
static PyObject *zygote_over(PyObject *self, PyObject *unused) {
        sigset_t all;
        (void) fflush(NULL);
        if (sigfillset(&all) < 0 || sigprocmask(SIG_SETMASK, &all, NULL) < 0 || prctl(PR_SET_NAME, OVER_NAME, 0, 0, 0) < 0)
                return PyBool_FromLong(0);
        return PyBool_FromLong(1);
}

static PyObject *zygote_end(PyObject *self, PyObject *args) {
        const struct timespec patience = {.tv_nsec = OVER_PATIENCE_NSEC};
        int status, told;
        if (!PyArg_ParseTuple(args, "ip", &status, &told))
                return NULL;
        if (told)
                (void) nanosleep(&patience, NULL);
        _exit(status);
}

static PyMethodDef methods[] = {
        {"attempt", zygote_attempt, METH_VARARGS, "attempt(function, object): calls it. An error is told as one that is ignored in the object."},
        {"end", zygote_end, METH_VARARGS,
         "end(status, told): the end of the process. told: whoever was told is about to kill it."},
        {"over", zygote_over, METH_NOARGS,
         "over() -> whether the process says of itself that it is over. What the C library holds back of its streams is written; signals are blocked."},
        {"setup", zygote_setup, METH_NOARGS, "setup(): takes the spawner's first message, and gets ready for all that can be got ready for."},
        {"has_children", zygote_has_children, METH_NOARGS, "has_children() -> whether there are processes that were started here."},
        {"is_single", zygote_is_single, METH_NOARGS, "is_single() -> whether there is one thread."},
        {"serve", zygote_serve, METH_NOARGS,
         "serve() -> forks for the spawner. Returns None when the spawner is gone; in a child, behind the wall: whether it is to warm up."},
        {"settle", zygote_settle, METH_NOARGS, "settle(): it is warm. Back to the usual priority, and tell."},
        {"stream_type", zygote_stream_type, METH_O, "stream_type(FileIO) -> a type of its own, whose write() loses nothing."},
        {"take_head", zygote_take_head, METH_NOARGS, "take_head() -> (words, environment): of a child of the zygote."},
        {"take_job", zygote_take_job, METH_VARARGS,
         "take_job(code_path=None) -> (words, environment): the caller's, when the job has come. The path: of one that has no head to take."},
        {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
        {0, NULL},
};

static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "glovebox_zygote",
        .m_methods = methods,
        .m_slots = slots,
};

PyMODINIT_FUNC PyInit_glovebox_zygote(void);

PyMODINIT_FUNC PyInit_glovebox_zygote(void) {
        return PyModuleDef_Init(&definition);
}
