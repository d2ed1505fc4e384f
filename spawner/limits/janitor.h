/* A process of its own that removes cgroup folders: rmdir can block for long, and who kills cells must never block. */
#pragma once

#include <systemd/sd-event.h>

#include "common/util.h"

#define JANITOR_PATH_MAX 256

struct Janitor;

/* root: the folder below which everything is removed. */
int janitor_new(sd_event *event, int root, struct Janitor **ret);
struct Janitor *janitor_free(struct Janitor *j);
/* Removes the folder `path` below root and the folders right in it. on_removed may be NULL; it is never called from inside. */
int janitor_remove(struct Janitor *j, const char *path, void (*on_removed)(int error, void *userdata), void *userdata);

/* What the process does for one path; 0 also when it is not there. */
int janitor_remove_now(int root, const char *path);
