/* The filter of system calls that all cells get. */
#include "spawner/filter.h"

#include <stdio.h>

#include "common/log.h"
#include "spawner/policy.h"

static int shipped_policy(char **ret) {
        char *library _cleanup_free_ = NULL;
        int r = library_dir(&library);

        if (r < 0)
                return r;
        return asprintf(ret, "%s/policy/default.policy", library) < 0 ? -ENOMEM : 0;
}

static int load_policy(const struct Config *config, struct Policy **ret, char **ret_error) {
        struct Policy *policy _cleanup_(policy_freep) = NULL;
        char *shipped _cleanup_free_ = NULL;
        int r = 0;

        if (!config->seccomp_policy)
                r = shipped_policy(&shipped);
        if (r >= 0)
                r = policy_load(config->seccomp_policy ? config->seccomp_policy : shipped, &policy, ret_error);
        if (r >= 0)
                r = policy_change(policy, config->seccomp_allow, config->seccomp_deny, ret_error);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(policy);
        return 0;
}

static int compile(const struct Config *config, char *const *waive, struct SeccompProgram **ret, char **ret_error) {
        struct SeccompProgram *program _cleanup_(filter_freep) = NULL;
        struct Policy *policy _cleanup_(policy_freep) = NULL;

        if (strv_contains(waive, "seccomp")) {
                *ret = NULL;
                return 0;
        }
        int r = load_policy(config, &policy, ret_error);
        if (r < 0)
                return r;
        program = calloc(1, sizeof *program);
        if (!program)
                return -ENOMEM;
        r = seccomp_program_compile(policy, config->debug_seccomp, program, ret_error);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(program);
        return 0;
}

int filter_new(const struct Config *config, char *const *waive, struct SeccompProgram **ret, char **ret_error) {
        int r = compile(config, waive, ret, ret_error);

        if (r >= 0 && *ret && (config->seccomp_policy || config->seccomp_allow || config->seccomp_deny || config->debug_seccomp))
                log_notice("The system calls of cells are not as shipped (seccomp-policy, seccomp-allow, seccomp-deny or debug-seccomp is set).");
        return r;
}

int filter_check(const struct Config *config, char *const *waive, char **ret_error) {
        struct SeccompProgram *program _cleanup_(filter_freep) = NULL;

        return compile(config, waive, &program, ret_error);
}

struct SeccompProgram *filter_free(struct SeccompProgram *p) {
        if (!p)
                return NULL;
        seccomp_program_done(p);
        free(p);
        return NULL;
}
