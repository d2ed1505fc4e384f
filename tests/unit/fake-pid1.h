/* A PID 1 of our own behind a bus of our own, for tests of the systemd driver: it makes real cgroups below the one that this process is in, and does
 * as it is told: late, never, with errors, or it drops the connection. Needs root and a cgroup2 hierarchy. */
#pragma once

#include "common/util.h"

/* Shared with the process that plays it: set the first part, read the second. */
struct FakePid1 {
        /* What it does from now on. */
        volatile unsigned delay_ms;     /* a job takes so long */
        volatile bool silent;           /* calls are taken and kept; answered once it is false again */
        volatile bool forgets;          /* an empty scope is not noticed */
        volatile bool stops_nothing;    /* StopUnit is answered, and that is all */
        char error[64];                 /* of StartTransientUnit for scopes; "": none */
        char result[16];                /* of a scope's job; "": "done" */
        volatile bool drop_at_call;     /* once: the connection goes when the next scope is asked for, which is not made */
        volatile bool drop_at_job;      /* once: the same, but it is made, and its job's end is told nobody */
        volatile bool reload;           /* once: a daemon-reload with its noise */
        volatile bool drop_slices;      /* once: slices without a scope go, as if somebody had stopped them */
        volatile bool refuse;           /* nobody may connect */
        /* What happened. */
        volatile unsigned n_starts, n_stops, n_connections;
        volatile unsigned in_flight, most_in_flight; /* scopes whose job is under way */
        volatile unsigned n_scopes, n_slices;        /* that are there, without the spawner's own */
        volatile unsigned n_sets;       /* of properties */
        volatile uint64_t last_memory;  /* the MemoryMax that came last */
        char last_slice[80];
        char bound[80];                 /* BindsTo of the last scope */
};

/* before: names of scopes that are there already, NULL-terminated. Sets DBUS_SYSTEM_BUS_ADDRESS. */
struct FakePid1 *fake_pid1_start(const char *const *before);
/* Brings this process back to where it was, and removes all that was made. */
void fake_pid1_stop(struct FakePid1 *f);
