/* The ordered table of steps, and how it runs. */
#include "spawner/steps/steps.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "common/job.h"
#include "spawner/trace.h"

#define EXIT_NOT_STARTED 125

/* Keep in order: each needs what those before it did, and takes away what those before it needed. A step with a layer is left out where
 * that layer is waived. */
const struct Step steps_table[] = {
        {"priority", step_priority, LAYER_NONE},
        {"signals", step_signals, LAYER_NONE},
        {"namespaces", step_namespaces, LAYER_NONE},
        {"facts", step_facts, LAYER_MASKED_PROC},
        {"session", step_session, LAYER_NONE},
        {"core_scheduling", step_core_scheduling, LAYER_NONE},
        {"folder", step_folder, LAYER_NONE},
        {"bounding_set", step_bounding_set, LAYER_NO_CAPABILITIES},
        {"ids", step_ids, LAYER_NONE},
        {"descriptors", step_descriptors, LAYER_NONE}, /* before the limit on them: a spawner with many cells has more open than programs may */
        {"rlimits", step_rlimits, LAYER_NONE},
        {"no_new_privs", step_no_new_privs, LAYER_NO_NEW_PRIVS},
        {"keyring", step_keyring, LAYER_KEYRING},
        {"landlock", step_landlock, LAYER_LANDLOCK},
        {"verify", step_verify, LAYER_NONE},
        {"seccomp", step_seccomp, LAYER_SECCOMP},
        {NULL, NULL, LAYER_NONE},
};

_Noreturn static void report(int fd, int error, const char *step) {
        uint8_t record[JOB_HEADER_SIZE + 4 + 64];
        size_t length = MIN(strlen(step), (size_t) 64);
        uint32_t number = (uint32_t) -error;
        job_put_header(record, REPORT_FAILED, (uint32_t) (4 + length));
        for (int i = 0; i < 4; i++)
                record[JOB_HEADER_SIZE + i] = (uint8_t) (number >> (8 * i));
        memcpy(record + JOB_HEADER_SIZE + 4, step, length);
        ssize_t n = write(fd, record, JOB_HEADER_SIZE + 4 + length);
        _exit(n < 0 ? EXIT_NOT_STARTED + 1 : EXIT_NOT_STARTED);
}

void steps_apply(struct StepContext *c) {
        trace("");
        for (const struct Step *s = steps_table; s->name; s++) {
                if (s->layer && (c->without & LAYER_BIT(s->layer)))
                        continue;
                int r = s->run(c);
                if (r < 0)
                        report(c->fds[STEP_FD_REPORT], r, s->name);
                trace(s->name);
        }
}

_Noreturn void steps_run(struct StepContext *c) {
        steps_apply(c);
        char *argv[] = {(char *) "glovebox-start", NULL}, *envp[] = {NULL};
        syscall(SYS_execveat, c->program, "", argv, envp, AT_EMPTY_PATH);
        report(STEP_FD_REPORT, -errno, "start");
}
