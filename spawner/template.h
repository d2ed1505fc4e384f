/* The mounts that every cell of a root begins with: a mount namespace with a read-only tree, built once and copied per cell. */
#pragma once

#include "common/util.h"

struct TemplateSpec {
        const char *root;    /* where /usr and the like come from: "/" or a runtime's root */
        const char *runners; /* folder shown as /glovebox; "" = none there */
};

/* Can this folder of the config be a root? Its own user's choice of programs is what cells run. */
int template_check_root(const char *root, char **ret_error);
/* Turns the calling process's mounts into the template, and leaves it in there. On an error *ret_step is what failed. */
int template_enter(const struct TemplateSpec *spec, const char **ret_step);
/* In the template: goes on to a copy of it where the kernel lets cells mount a proc of their own, which it does only if one that hides nothing is to
 * be seen. This one is of a pid namespace that never has a process, and the cells' own lies over it. */
int template_show_proc(void);
