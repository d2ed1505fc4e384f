/* The listening sockets that standalone opens while it is root and passes on. */
#pragma once

#include "common/util.h"

#define LISTENERS_MAX 32

struct Listeners {
        int fds[LISTENERS_MAX];
        char *addresses[LISTENERS_MAX]; /* as clients may name them: the real port where 0 was asked for */
        size_t n;
};

/* address: "unix:/PATH", "HOST:PORT", "[ADDRESS]:PORT". A Unix socket gets this group and mode 0660. What a dead server left at
 * PATH is replaced, a living one's socket is not. Logs its errors. */
int listeners_add(struct Listeners *l, const char *address, gid_t gid);
/* The spawner's socket: SOCK_SEQPACKET, for the server's group. */
int listener_open_seqpacket(const char *path, gid_t gid);
void listeners_done(struct Listeners *l);
