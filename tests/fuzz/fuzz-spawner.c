/* Packets from the server, as the spawner checks them before anything acts on them. What they lead to is only counted. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/wire.h"
#include "spawner/message.h"

static struct Runtime runtimes[] = {{.name = (char *) "bash", .version = (char *) ""}, {.name = (char *) "python", .version = (char *) "3.11"}};
static struct Config config = {.runtimes = runtimes, .n_runtimes = 2};
static struct Limits caps;

static void check_limits(const struct Limits *l) {
        if (l->memory_bytes > caps.memory_bytes || l->max_processes > caps.max_processes || !(l->cpus > 0 && l->cpus <= caps.cpus) ||
            l->workspace_bytes > caps.workspace_bytes || l->workspace_inodes > caps.workspace_inodes)
                abort();
}

static int on_hello(void *userdata) {
        return 0;
}

static int on_open_cell(void *userdata, const struct CellSpec *spec) {
        check_limits(&spec->limits);
        if (spec->runtime >= config.n_runtimes || !spec->kind || strlen(spec->tag) > CELL_TAG_MAX)
                abort();
        return 0;
}

static int on_start_run(void *userdata, uint64_t cell, const struct RunSpec *run) {
        check_limits(&run->limits);
        return 0;
}

static int on_two(void *userdata, uint64_t cell, uint64_t run) {
        return 0;
}

static int on_one(void *userdata, uint64_t cell) {
        return 0;
}

static int on_over(void *userdata, uint64_t cell, uint64_t run, uint8_t status) {
        return 0;
}

static int on_refusal(void *userdata, uint64_t cell, int error, const char *step) {
        if (error >= 0 || !step)
                abort();
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte: has Hello been said? */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct MessageHandler handler = {
                .hello = on_hello, .open_cell = on_open_cell, .start_run = on_start_run,
                .end_run = on_two, .ask_waiting = on_two, .main_over = on_over, .close_cell = on_one,
                .refuse_cell = on_refusal, .refuse_run = on_refusal,
        };
        const char *reason = NULL;
        caps = limits_caps();
        struct MessageBounds bounds = {.config = &config, .caps = caps, .greeted = size > 0 && (data[0] & 1)};
        if (size > 0 && message_handle(&bounds, data + 1, size - 1, data[0] >> 7, &handler, &reason) < 0 && !reason)
                abort();
        return 0;
}
