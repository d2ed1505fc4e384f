/* What a program that does nothing waits for, from what the kernel tells of its threads. */
#include "spawner/waiting.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

#define THREADS_MAX 64

static const char *const words[WAITING_MAX_] = {
        [WAITING_UNKNOWN] = "waiting for something unknown",
        [WAITING_COMPUTING] = "computing",
        [WAITING_STDIN] = "reading standard input",
        [WAITING_NETWORK] = "waiting for the network",
        [WAITING_PIPE] = "reading from a pipe",
        [WAITING_OUTPUT] = "writing output that nobody reads",
        [WAITING_SLEEP] = "sleeping",
        [WAITING_EVENT] = "waiting for input or a timer",
        [WAITING_LOCK] = "waiting for a lock",
        [WAITING_CHILD] = "waiting for a child process",
        [WAITING_STOPPED] = "stopped by a signal",
};

static const struct {
        long number;
        enum Waiting waiting;
} calls[] = {
        {SYS_clock_nanosleep, WAITING_SLEEP}, {SYS_nanosleep, WAITING_SLEEP},
#ifdef SYS_pause
        {SYS_pause, WAITING_SLEEP},
#endif
        {SYS_rt_sigtimedwait, WAITING_SLEEP}, {SYS_rt_sigsuspend, WAITING_SLEEP},
        {SYS_futex, WAITING_LOCK},            {SYS_flock, WAITING_LOCK},
        {SYS_wait4, WAITING_CHILD},           {SYS_waitid, WAITING_CHILD},
        {SYS_recvfrom, WAITING_NETWORK},      {SYS_recvmsg, WAITING_NETWORK},
        {SYS_sendto, WAITING_NETWORK},        {SYS_sendmsg, WAITING_NETWORK},
        {SYS_connect, WAITING_NETWORK},       {SYS_accept, WAITING_NETWORK},
        {SYS_accept4, WAITING_NETWORK},
#ifdef SYS_poll
        {SYS_poll, WAITING_EVENT},            {SYS_select, WAITING_EVENT},
        {SYS_epoll_wait, WAITING_EVENT},
#endif
        {SYS_ppoll, WAITING_EVENT},           {SYS_pselect6, WAITING_EVENT},
        {SYS_epoll_pwait, WAITING_EVENT},     {SYS_epoll_pwait2, WAITING_EVENT},
        {SYS_write, WAITING_OUTPUT},          {SYS_writev, WAITING_OUTPUT},
};

/* Parts of the kernel functions that threads sleep in: for kernels without /proc/TID/syscall. */
static const struct {
        const char *part;
        enum Waiting waiting;
} places[] = {
        {"nanosleep", WAITING_SLEEP},  {"sigsuspend", WAITING_SLEEP}, {"futex", WAITING_LOCK},       {"do_wait", WAITING_CHILD},
        {"pipe_read", WAITING_PIPE},   {"pipe_write", WAITING_OUTPUT}, {"poll_schedule", WAITING_EVENT}, {"ep_poll", WAITING_EVENT},
};

static bool is_socket(const char *wchan) {
        static const char *const hints[] = {"unix_", "inet_", "tcp_", "udp_", "sk_wait", "skb_"};
        for (size_t i = 0; i < ELEMENTSOF(hints); i++)
                if (strstr(wchan, hints[i]))
                        return true;
        return false;
}

static enum Waiting classify_place(const char *wchan) {
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (strstr(wchan, places[i].part))
                        return places[i].waiting;
        return is_socket(wchan) ? WAITING_NETWORK : WAITING_UNKNOWN;
}

static enum Waiting classify_read(unsigned long fd, const char *wchan) {
        if (fd == 0)
                return WAITING_STDIN;
        return is_socket(wchan) ? WAITING_NETWORK : WAITING_PIPE;
}

enum Waiting waiting_classify(char state, const char *syscall_text, const char *wchan) {
        long number;
        unsigned long first;
        if (state == 'T' || state == 't')
                return WAITING_STOPPED;
        if (state == 'R')
                return WAITING_COMPUTING;
        /* "running" when it is not in a system call */
        if (sscanf(syscall_text, "%ld 0x%lx", &number, &first) != 2)
                return classify_place(wchan);
        if (number == SYS_read || number == SYS_readv)
                return classify_read(first, wchan);
        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                if (calls[i].number == number)
                        return calls[i].waiting;
        return WAITING_UNKNOWN;
}

void waiting_add(struct WaitingVote *v, enum Waiting w, bool leader) {
        v->has[w] = true;
        if (leader)
                v->leader_has[w] = true;
}

enum Waiting waiting_decide(const struct WaitingVote *v) {
        /* A shell that waits for its child is explained by the child; a first thread that waits for the others, by them. */
        static const enum Waiting telling[] = {
                WAITING_STDIN, WAITING_NETWORK, WAITING_PIPE, WAITING_OUTPUT, WAITING_SLEEP, WAITING_EVENT,
        };
        static const enum Waiting last[] = {WAITING_LOCK, WAITING_STOPPED, WAITING_CHILD};
        if (v->has[WAITING_COMPUTING])
                return WAITING_COMPUTING;
        for (size_t i = 0; i < ELEMENTSOF(telling); i++)
                if (v->leader_has[telling[i]])
                        return telling[i];
        for (size_t i = 0; i < ELEMENTSOF(telling); i++)
                if (v->has[telling[i]])
                        return telling[i];
        for (size_t i = 0; i < ELEMENTSOF(last); i++)
                if (v->has[last[i]])
                        return last[i];
        return WAITING_UNKNOWN;
}

const char *waiting_words(enum Waiting w) {
        return words[w < WAITING_MAX_ ? w : WAITING_UNKNOWN];
}

static void read_proc(long tid, const char *file, char *out, size_t size) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%ld/%s", tid, file);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read_small(fd, out, size) < 0)
                *out = 0;
}

/* The letter behind the name, which is in the cell's hands and may hold anything. */
static char stat_state(const char *stat) {
        const char *end = strrchr(stat, ')');
        return end && end[1] == ' ' ? end[2] : 0;
}

/* In status, since /proc/TID/stat has no thread group. */
static bool is_leader(long tid) {
        char status[1024];
        read_proc(tid, "status", status, sizeof status);
        const char *line = strstr(status, "\nTgid:\t");
        return line && strtol(line + 7, NULL, 10) == tid;
}

enum Waiting waiting_look(int cgroup_dir) {
        _cleanup_close_ int fd = openat(cgroup_dir, "cgroup.threads", O_RDONLY | O_CLOEXEC);
        char text[THREADS_MAX * 16] /* so the line that may be cut off is never reached */, *save = NULL;
        struct WaitingVote vote = {};
        if (fd < 0 || read_small(fd, text, sizeof text) < 0)
                return WAITING_UNKNOWN;
        int n = 0;
        for (char *line = strtok_r(text, "\n", &save); line && n < THREADS_MAX; line = strtok_r(NULL, "\n", &save), n++) {
                char stat[512], call[256], wchan[128];
                long tid = strtol(line, NULL, 10);
                read_proc(tid, "stat", stat, sizeof stat);
                read_proc(tid, "syscall", call, sizeof call);
                read_proc(tid, "wchan", wchan, sizeof wchan);
                if (stat_state(stat) && stat_state(stat) != 'Z' && stat_state(stat) != 'X')
                        waiting_add(&vote, waiting_classify(stat_state(stat), call, wchan), is_leader(tid));
        }
        return waiting_decide(&vote);
}
