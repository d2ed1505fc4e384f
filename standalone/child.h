/* One of the two programs that standalone keeps running. */
#pragma once

#include "common/priority.h"
#include "common/util.h"

struct Child {
        const char *name;
        char *path;
        char **argv;
        int program;        /* opened as root: the server's user may not be able to reach it, as in root's home */
        int library;        /* ../lib/glovebox beside it, for the same reason */
        const int *fds; /* passed by LISTEN_FDS; stay the owner's */
        size_t n_fds;
        const char *fd_name;
        const char *notify; /* NOTIFY_SOCKET */
        enum Priority priority; /* of the server, which has no right to take it any more; it says what is wrong when it lacks it */
        uid_t uid;
        gid_t gid;
        int death_signal;   /* what it gets when standalone is killed */

        pid_t pid;          /* 0 = not running */
        bool first;         /* the first start: a wrong configuration then ends everything */
        usec_t started_at;
        usec_t restart_at;  /* while not running; USEC_INFINITY = never */
        usec_t back_off;
};

int child_start(struct Child *c);
/* It was reaped with this wait status. Sets when to start it again; 78 (configuration) or 127 when that would be pointless. */
int child_on_exit(struct Child *c, int status);
void child_signal(const struct Child *c, int signal);
void child_done(struct Child *c);
