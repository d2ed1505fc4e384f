/* How fast a caller may make HTTP/2 work for it, counted where gRPC reads from its sockets. */
#pragma once

#include "common/util.h"

struct Account; /* one caller's, over all its connections */
struct Guard;   /* one connection's */

struct Account *account_new(void);
struct Account *account_ref(struct Account *a);
struct Account *account_unref(struct Account *a);

/* Watches what gRPC reads from this descriptor, until guard_free; that comes only after gRPC has closed it. */
int guard_new(int fd, struct Account *account, struct Guard **ret);
struct Guard *guard_free(struct Guard *g);
/* It went too fast, and gRPC was told that the connection is broken. */
bool guard_has_cut(const struct Guard *g);
/* Bytes were seen: false for a connection that has calls means that gRPC reads in a way we do not know. */
bool guard_has_seen(const struct Guard *g);
