/* Connections that were handed to gRPC, and whose they are. */
#pragma once

#include "server/accept/guard.h"
#include "server/accept/room.h"
#include "server/caller.h"

/* gRPC owns the descriptor and names the peer of a call by its number alone. So numbers come from a range of their own, one after the
 * other, and one is used again only when gRPC has closed it, its calls have ended and a while has passed. */
struct Connection {
        struct Connection *next;
        int fd; /* gRPC's; only its number is ours */
        uint64_t inode;
        struct Caller caller;
        struct Account *account; /* shared by all connections of the caller */
        struct Guard *guard;
        usec_t since;     /* accepted */
        usec_t reusable;  /* once closed */
        size_t n_calls;
        bool called;      /* at least once */
        bool closed;
};

int connections_new(struct Accept *a, struct Connections **ret);
struct Connections *connections_free(struct Connections *cs);

/* Takes fd in any case. -EBUSY: over a bound (told to the log, not too often); -EMFILE: no number is free for now. */
int connections_add(struct Connections *cs, int fd, const struct Caller *caller);
/* May this many connections be opened right now? Looks for closed ones when it seems not. */
bool connections_full(struct Connections *cs, size_t others);

/* The connection of a new call; NULL when it is not known. Counts the call until connection_leave. */
struct Connection *connections_enter(struct Connections *cs, grpc_call *call);
void connection_leave(struct Connection *c);
/* Ends the connection under the peer's feet; its calls then end by themselves. */
void connection_shut(struct Connection *c);
