/* The spawner: listens for the server, and keeps cells for it. */
#pragma once

#include <systemd/sd-event.h>

#include "common/config.h"

struct Layers;
struct Spawner;

struct SpawnerSetup {
        sd_event *event;
        const struct Config *config;
        const char *state;   /* locked */
        char *const *waive;
        struct Layers *layers; /* what is found of them, also when the start fails; outlives the spawner */
        uint32_t broken;     /* tests only: bits of layers that cells are made without and that must be found out */
        bool check;          /* only probes: takes no listener, and goes on without what a start would refuse */
        int listener;        /* SOCK_SEQPACKET, listening; taken. -EBADF for a check */
};

/* On an error *ret_error is one line for the operator. -EOPNOTSUPP, -EADDRINUSE, -ERANGE, ...: the machine or the config must change. */
int spawner_new(const struct SpawnerSetup *setup, struct Spawner **ret, char **ret_error);
/* No server and no cells any more; the event loop exits once they are gone, or after a deadline. */
void spawner_stop(struct Spawner *s);
struct Spawner *spawner_free(struct Spawner *s);
DEFINE_CLEANUP(struct Spawner *, spawner_free)
/* Takes over the caps and the pools of a config that was read again, and lets zygotes be replaced; what
 * shapes user namespaces and templates stays as it was. */
void spawner_reload_caps(struct Spawner *s, const struct Config *config);
