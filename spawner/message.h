/* What the server may say: each packet is unpacked and checked here before anything acts on it. */
#pragma once

#include "common/config.h"
#include "spawner/cell-kind.h"
#include "spawner/cell.h"

#define STEP_CAPS "caps of the spawner" /* what a cell above the caps fails with */

/* What a message leads to; the fuzz test has its own. A negative return ends the connection. */
struct MessageHandler {
        int (*hello)(void *userdata);
        int (*open_cell)(void *userdata, const struct CellSpec *spec);
        int (*start_run)(void *userdata, uint64_t cell, const struct RunSpec *run);
        int (*end_run)(void *userdata, uint64_t cell, uint64_t run);
        int (*ask_waiting)(void *userdata, uint64_t cell, uint64_t run);
        int (*main_over)(void *userdata, uint64_t cell, uint64_t run, uint8_t status);
        int (*close_cell)(void *userdata, uint64_t cell);
        /* What this spawner's config does not offer: server and spawner may have read different ones, so only that cell or run fails. */
        int (*refuse_cell)(void *userdata, uint64_t cell, int error, const char *step);
        int (*refuse_run)(void *userdata, uint64_t cell, int error, const char *step);
        void *userdata;
};

struct MessageBounds {
        const struct Config *config; /* runtimes */
        struct Limits caps;
        bool greeted; /* set by the first message, which must be Hello */
};

/* -EPROTO, -EBADMSG, ... : the server speaks another protocol; *ret_reason says what was wrong. */
int message_handle(struct MessageBounds *bounds, const uint8_t *bytes, size_t size, size_t n_fds, const struct MessageHandler *handler,
                   const char **ret_reason);
