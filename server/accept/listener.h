/* The listening sockets, all accepted by ourselves. */
#pragma once

#include "server/accept/room.h"

/* On an error ret_error may hold one line for the operator. */
int listeners_new(struct Accept *a, struct Listeners **ret, char **ret_error);
/* Would an address of the config be refused, since clients there could not prove who they are? Names other than localhost are not looked up. */
int listeners_check(const struct Config *config, char **ret_error);
struct Listeners *listeners_free(struct Listeners *ls);
