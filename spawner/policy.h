/* A policy of system calls: parsed from text (spawner/policy/default.policy tells the form), changed as the operator wishes. Knows nothing of
 * libseccomp: steps/seccomp-program.c compiles it. */
#pragma once

#include "common/util.h"

#define POLICY_CONDITIONS_MAX 6
#define POLICY_IGNORED 0x10000 /* as the error of a rule: the call is not made, and its caller is told 0 */
#define POLICY_RULES_MAX 1024
#define POLICY_TEXT_MAX (256 * KIB)

enum PolicyOperator {
        POLICY_EQUAL,
        POLICY_NOT_EQUAL,
        POLICY_GREATER,
        POLICY_MASKED_EQUAL,
};

struct PolicyCondition {
        unsigned argument; /* 0 to 5 */
        enum PolicyOperator operator;
        uint64_t mask, value;
};

struct PolicyRule {
        char call[32];
        int error; /* errno of a denial, POLICY_IGNORED; 0 = allowed */
        struct PolicyCondition conditions[POLICY_CONDITIONS_MAX];
        size_t n_conditions;
        bool has_reason;
        unsigned line;
};

struct Policy {
        struct PolicyRule *rules;
        size_t n_rules;
};

/* name: the file's, for errors. On -EINVAL ret_error says line, fault and cure. */
int policy_parse(const char *text, const char *name, struct Policy **ret, char **ret_error);
int policy_load(const char *file, struct Policy **ret, char **ret_error);
struct Policy *policy_free(struct Policy *p);
DEFINE_CLEANUP(struct Policy *, policy_free)

/* What the operator adds and takes: an allowed call loses its unconditional denial, a denied one (EPERM) every rule. Denials with
 * conditions stay. A call that is in both lists: -EINVAL. */
int policy_change(struct Policy *p, char *const *allow, char *const *deny, char **ret_error);
