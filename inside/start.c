/* glovebox-start: the first program of an execution. It runs as the cell's user with no right the code will not have too: reads the
 * job from descriptor 3, writes code and files into the workspace, sets environment and folder, and becomes the interpreter.
 * What fails is told on descriptor 4, and before that how the files were when it had written them; end of file there without a failure means that
 * the program runs. A runner keeps descriptor 3, with the rest of the job, and 5, for the value.
 *
 * Where the job is to be waited for, only its head has come. A runner is started at once, to wait itself and do the rest, and keeps 4 as well. For a
 * program without one it is this process that waits. */
#include <fcntl.h>

#include "inside/take-job.h"

static struct TakenJob job;

static int become_program(void) {
        job.step = "exec";
        if (!job.runner) {
                close_fd(JOB_FD);
                close_fd(JOB_VALUE_FD); /* nobody may have given one */
        }
        if (!job.waits && fcntl(JOB_REPORT_FD, F_SETFD, FD_CLOEXEC) < 0)
                return -errno;
        execve(job.exec, job.args, job.env);
        return -errno;
}

static int run(void) {
        int r = take_job_head(&job);
        if (r < 0)
                return r;
        /* A runner cannot be told of a read-only workspace, in which it has yet to write the code. */
        if (job.waits && job.runner)
                return job.read_only ? -EINVAL : become_program();
        if (job.waits) {
                job.step = "wait for a job";
                r = take_job_ready();
                if (r >= 0)
                        r = take_job_await();
                job.waits = false;
        }
        if (r >= 0)
                r = take_job_body(&job);
        return r < 0 ? r : become_program();
}

int main(void) {
        int r = run();
        take_job_fail(job.step, r);
}
