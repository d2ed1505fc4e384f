/* The scheduler's priority of server and spawner, where the operator wants more than every program has. */
#pragma once

#include <stdbool.h>

enum Priority {
        PRIORITY_NORMAL,
        PRIORITY_HIGH,     /* nice -10 */
        PRIORITY_REALTIME, /* SCHED_RR, 1 */
};

/* "normal"; -EINVAL for what is none. Empty is normal. */
int priority_from_string(const char *s, enum Priority *ret);
const char *priority_to_string(enum Priority p);
/* For this thread and those that it starts, before there are others. What whoever started us has given already is not missing. alone: its
 * child processes are like any other program again. -EPERM: this process may not. */
int priority_take(enum Priority p, bool alone);
/* What the operator does about -EPERM, for a program and its section of the config; to be freed. */
char *priority_cure(enum Priority p, const char *section, const char *unit);
