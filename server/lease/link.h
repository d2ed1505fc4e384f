/* The connection to the spawner: made, kept and made again; messages go to the leases they belong to. */
#pragma once

#include <systemd/sd-event.h>

#include "common/util.h"
#include "spawner.pb-c.h"

struct Lease;

/* What the spawner said of itself. Empty while there is no connection. */
struct SpawnerInfo {
        char *driver;
        char **limits_not_enforced; /* keys of limit_table */
        struct SpawnerLayer {
                char *name, *detail;
                bool in_force;
        } *layers;
        size_t n_layers;
        struct SpawnerRuntime {
                char *name, *detail;
                bool available;
        } *runtimes;
        size_t n_runtimes;
        uint64_t max_cells;
};

#define LINK_BUCKETS 256

struct Link {
        sd_event *event;
        char *path;
        int fd;
        bool ready; /* HelloReply has come */
        bool broken; /* a message could not be sent: what the spawner knows is no longer what we know */
        sd_event_source *io, *timer;
        usec_t retry; /* the next pause */
        uint64_t last_cell;
        struct Lease *leases[LINK_BUCKETS]; /* by cell number */
        struct Pending *pending, **pending_end; /* messages the socket would not take yet */
        size_t n_pending;
        struct SpawnerInfo info;
        void (*on_change)(void *userdata); /* ready came or went */
        void *userdata;
};

int link_init(struct Link *l, sd_event *event, const char *path, void (*on_change)(void *userdata), void *userdata);
void link_done(struct Link *l);
/* Sends, or keeps until the socket takes it. -ENOTCONN. */
int link_send(struct Link *l, Glovebox__Internal__ToSpawner *message);
