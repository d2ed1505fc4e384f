/* No signal ignored, handled or blocked: programs inherit that across exec. Where there is none, the interpreter's own handlers stay. */
#include <signal.h>
#include <sys/stat.h>

#include "spawner/steps/steps.h"

int step_signals(struct StepContext *c) {
        sigset_t none;
        for (int s = 1; s < NSIG && !c->forked; s++)
                signal(s, SIG_DFL); /* fails for KILL, STOP and libc's own: they have no handler of ours */
        sigemptyset(&none);
        umask(022);
        return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}
