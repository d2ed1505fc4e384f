/* What has become of the files of the workspace: glovebox-init's answers to the server's questions (common/collect.h). */
#pragma once

#include <signal.h>

#include "common/util.h"

struct Collect {
        int questions;           /* the collect pipe's end for reading; non-blocking */
        int files;               /* the files pipe's end for writing; non-blocking */
        int workspace;           /* the folder, opened with O_PATH */
        const sigset_t *waiting; /* signals that stay blocked while it waits for a pipe; NULL = no change */
        void (*on_pause)(void);  /* called after a signal, and before each folder; may be NULL */
};

/* Waits for a question, without a deadline, and answers it. -ENODATA: no more will come; another negative errno: pipes and question are no
 * longer to be trusted. Both mean that this was the last call. */
int collect_answer(const struct Collect *c);
