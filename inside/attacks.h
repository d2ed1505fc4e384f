/* What glovebox-probe tries, in tables. */
#pragma once

#include <stdbool.h>

#include "common/probe.h"

struct Attack {
        enum Layer layer;
        const char *words;   /* what it could do, if it succeeded */
        /* 0 = it failed, as it should; 1 = it succeeded; negative errno = it could not be tried. */
        int (*run)(const struct ProbeOrder *o);
        bool in_child;       /* it would change the process that tries it; being killed for it is a failure */
};

/* The last of each has run = NULL. */
extern const struct Attack attacks_on_namespaces[], attacks_on_files[], attacks_on_rights[];

/* What exactly an attack that succeeded found: a path. Told with its words. */
extern const char *attack_found;

int attack_in_child(int (*attack)(const struct ProbeOrder *o), const struct ProbeOrder *o);
