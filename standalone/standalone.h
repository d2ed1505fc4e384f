/* The two programs, their sockets, and the loop that keeps them running where systemd does not. */
#pragma once

#include "standalone/child.h"
#include "standalone/listener.h"

struct Options {
        const char *state;
        const char *config; /* NULL = default */
        const char *waive;  /* NULL = none */
        bool debug_seccomp;
        char **listen;      /* NULL = the config's */
};

enum Phase {
        PHASE_RUNNING,
        PHASE_STOPPING_SERVER,  /* it drains; the spawner still serves it */
        PHASE_STOPPING_SPAWNER,
        PHASE_STOPPED,
};

struct Standalone {
        enum Phase phase;
        usec_t deadline;        /* when to send SIGKILL to what is being stopped */
        usec_t drain_deadline;  /* the server's own, from the config */
        int exit_status;
        int signal_fd, notify_fd, lock_fd, spawner_fd;
        char *notify_path, *spawner_path;
        bool ready, notify_is_shut;
        struct Listeners listeners;
        struct Child server, spawner;
};

/* Logs its errors; a positive value is an exit status (sysexits.h). */
int standalone_init(struct Standalone *s, const struct Options *options);
/* Returns the exit status once both programs have ended. */
int standalone_run(struct Standalone *s);
void standalone_done(struct Standalone *s);
