/* One cell for one execution, from the spawner, given back exactly once. */
#pragma once

#include "server/lease/link.h"
#include "common/leaf-usage.h"
#include "common/limits.h"
#include "common/wire.h"

/* Descriptors of a run, by Role of the internal protocol. */
#define LEASE_ROLES (GLOVEBOX__INTERNAL__ROLE__ROLE_FILES + 1) /* the last one */

struct LeaseFailure {
        char step[64];
        int error; /* errno, 0 = none */
        char detail[256];
};

struct LeaseStart {
        unsigned kind;           /* number of glovebox.v1.Start */
        usec_t begun;            /* when the run was handed to the cell; not after now */
        struct LeafUsage before; /* what its leaf had used by then */
};

/* From the event loop. After on_closed (exactly once per lease) the lease is gone. */
struct LeaseCallbacks {
        void (*on_started)(const struct LeaseStart *start, void *userdata); /* descriptors are there: lease_take_fd */
        void (*on_failed)(const struct LeaseFailure *failure, void *userdata); /* the sandbox's fault; once, at any time before the run's end */
        void (*on_exited)(bool signaled, int status, uint64_t max_rss, void *userdata);
        void (*on_full)(void *userdata); /* a file system of the cell; before on_exited or while it runs */
        void (*on_waiting_for)(const char *what, void *userdata);            /* answer to lease_ask_waiting; "" = not known */
        void (*on_ended)(void *userdata);                                    /* answer to lease_end: nothing of the run lives */
        void (*on_closed)(const char *left, void *userdata);                 /* NULL or "" = verified that nothing is left */
};

struct LeaseRequest {
        const char *runtime, *tag, *slice; /* slice: NULL = the one for all */
        struct Limits limits;
        bool merge_streams, probe_version;
        bool fresh; /* no interpreter that waits will do */
        const uint8_t *job; /* the job's body, for the spawner to write; size 0 = comes down the pipe */
        size_t job_size;
};

/* Asks for a cell and starts the run in it. -ENOTCONN while there is no spawner. */
int lease_new(struct Link *link, const struct LeaseRequest *request, const struct LeaseCallbacks *callbacks, void *userdata, struct Lease **ret);
/* The run's descriptor of this role, now the caller's; -EBADF when there is none. */
int lease_take_fd(struct Lease *l, Glovebox__Internal__Role role);
int lease_ask_waiting(struct Lease *l);
/* The program says that it has ended, with this status: on_exited follows, unless it came before. */
int lease_main_over(struct Lease *l, uint8_t status);
/* Kills the run. */
int lease_end(struct Lease *l);
/* Gives the cell back. Callbacks other than on_closed come no more. */
void lease_close(struct Lease *l);

/* For link.c. */
struct Lease *lease_next(struct Lease *l);
uint64_t lease_cell(const struct Lease *l);
void lease_on_message(struct Lease *l, const Glovebox__Internal__FromSpawner *m, struct WirePacket *packet);
void lease_on_link_lost(struct Lease *l);
