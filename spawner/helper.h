/* A helper process: a fork of the spawner with a SEQPACKET socket to it, that dies with it. Helpers never log: the parent does. */
#pragma once

#include <systemd/sd-event.h>

#include "common/util.h"

#define HELPER_PACKET_MAX 4096
#define HELPER_FDS_MAX 12

struct HelperPlan {
        const char *name;
        /* Runs in the process; what it returns is its exit status. */
        int (*main)(int socket, void *userdata);
        void *main_userdata; /* for main; NULL = userdata */
        /* fd: a descriptor that came along, taken by the handler, or -EBADF. */
        void (*on_packet)(const void *bytes, size_t size, int fd, void *userdata);
        void (*on_death)(void *userdata);
        void *userdata;
        const int *keep; /* descriptors that stay open in it, besides its socket and 0, 1, 2 */
        size_t n_keep;
        int nice;
        uint64_t capabilities; /* what of ours it keeps */
        bool with_group; /* it leads a process group, which ends with it */
};

struct Helper {
        int socket;
        pid_t pid;
        sd_event_source *source;
        struct HelperPlan plan;
};

int helper_start(struct Helper *h, sd_event *event, const struct HelperPlan *plan);
/* Kills it and waits for it. */
void helper_stop(struct Helper *h);
/* Kills it, without waiting: what is large, or stuck in the kernel, takes its time to end. */
void helper_end(struct Helper *h);
/* Never blocks: -EAGAIN when it is busy. Descriptors stay the caller's. */
int helper_send(struct Helper *h, const void *bytes, size_t size, const int *fds, size_t n_fds);

/* In a child, and again after each change of ids or user namespace, which clears it: it ends with its parent. -ESRCH: that has ended. */
int follow_parent(pid_t parent);

/* One packet with up to n_fds descriptors (the rest are -EBADF); its size, 0 at the end, or a negative errno. */
ssize_t packet_receive(int socket, void *bytes, size_t size, int *fds, size_t n_fds, int flags);
int packet_send(int socket, const void *bytes, size_t size, const int *fds, size_t n_fds, int flags);
