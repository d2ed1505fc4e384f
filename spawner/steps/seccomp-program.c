/* From a policy to one program for the kernel's seccomp: a binary tree over ranges of call numbers, whose leaves answer or look at arguments.
 *
 * libseccomp knows the numbers of calls, but cannot say "allowed unless" of one call in one program, and its two programs took 206 us to
 * load where this one took 90 for the same policy (./dev bench prints today's): for each of several hundred call numbers the kernel walks a
 * program at every load, to learn which it can answer without running it. A tree keeps that walk short, and every call that looks at no
 * argument costs nothing later. */
#include "spawner/steps/seccomp-program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>

#include "spawner/policy.h"

#define UNKNOWN_CALL ENOSYS /* what no rule names */
#define CALLS_MAX 1024 /* numbers from here on are unknown; Linux 6.18 is at 470 */
/* x86 alone, Linux 6.11: not a call of programs, but the kernel's own where the host traces their functions. */
#ifdef __x86_64__
#define URETPROBE 335
#else
#define URETPROBE (__NR_SCMP_ERROR - 1)
#endif
#define FAIL 255 /* a jump to the end of the rule, until that is known */
#define ALLOW SECCOMP_RET_ALLOW
#define DENY(error) (SECCOMP_RET_ERRNO | ((uint32_t) (error) & SECCOMP_RET_DATA)) /* 0 for POLICY_IGNORED */

/* Newer than libseccomp 2.5; numbers that all architectures share (include/uapi/asm-generic/unistd.h), with the kernel that brought them. */
static const struct {
        const char *name;
        int number;
} newer_calls[] = {
        { "cachestat", 451 },     /* 6.5 */
        { "fchmodat2", 452 },     /* 6.6 */
        { "futex_wake", 454 },    /* 6.7 */
        { "futex_wait", 455 },    /* 6.7 */
        { "futex_requeue", 456 }, /* 6.7 */
        { "uretprobe", URETPROBE },
};

/* What one call number is answered. */
struct Answer {
        const char *call; /* to be looked up in the policy, for the sake of its conditions; NULL = action says all */
        uint32_t action;
};

/* Call numbers from first up to the next range's first. */
struct Range {
        uint32_t first;
        struct Answer answer;
};

struct Code {
        const struct Policy *policy;
        struct sock_filter at[BPF_MAXINSNS];
        size_t n;
        bool full;
};

static int call_number(const char *name) {
        int n = seccomp_syscall_resolve_name(name);

        if (n != __NR_SCMP_ERROR)
                return n;
        for (size_t i = 0; i < ELEMENTSOF(newer_calls); i++)
                if (streq(newer_calls[i].name, name))
                        return newer_calls[i].number;
        return __NR_SCMP_ERROR;
}

static void put(struct Code *c, unsigned code, uint32_t k, uint8_t if_true, uint8_t if_false) {
        if (c->n == ELEMENTSOF(c->at)) {
                c->full = true;
                return;
        }
        c->at[c->n++] = (struct sock_filter) { (uint16_t) code, if_true, if_false, k };
}

static void put_load(struct Code *c, size_t offset) {
        put(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t) offset, 0, 0);
}

static void put_load_half(struct Code *c, unsigned argument, bool high) {
        bool second = high == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
        put_load(c, offsetof(struct seccomp_data, args) + 8 * argument + (second ? 4 : 0));
}

static void put_jump(struct Code *c, unsigned how, uint32_t k, uint8_t if_true, uint8_t if_false) {
        put(c, BPF_JMP | how | BPF_K, k, if_true, if_false);
}

static void put_return(struct Code *c, uint32_t action) {
        put(c, BPF_RET | BPF_K, action, 0, 0);
}

static void put_masked_half(struct Code *c, const struct PolicyCondition *p, bool high) {
        uint32_t mask = (uint32_t) (high ? p->mask >> 32 : p->mask), value = (uint32_t) (high ? p->value >> 32 : p->value);

        if (mask == 0)
                return;
        put_load_half(c, p->argument, high);
        if (mask != UINT32_MAX)
                put(c, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
        put_jump(c, BPF_JEQ, value, 0, FAIL);
}

/* The program goes on behind it where the condition holds. */
static void put_condition(struct Code *c, const struct PolicyCondition *p) {
        uint32_t high = (uint32_t) (p->value >> 32), low = (uint32_t) p->value;
        struct PolicyCondition equal = *p;

        switch (p->operator) {
        case POLICY_EQUAL:
                equal.mask = UINT64_MAX;
                put_masked_half(c, &equal, true);
                put_masked_half(c, &equal, false);
                return;
        case POLICY_MASKED_EQUAL:
                put_masked_half(c, p, true);
                put_masked_half(c, p, false);
                return;
        case POLICY_NOT_EQUAL:
                put_load_half(c, p->argument, true);
                put_jump(c, BPF_JEQ, high, 0, 2);
                put_load_half(c, p->argument, false);
                put_jump(c, BPF_JEQ, low, FAIL, 0);
                return;
        case POLICY_GREATER:
                put_load_half(c, p->argument, true);
                put_jump(c, BPF_JGT, high, 3, 0);
                put_jump(c, BPF_JEQ, high, 0, FAIL);
                put_load_half(c, p->argument, false);
                put_jump(c, BPF_JGT, low, 0, FAIL);
                return;
        }
}

static void put_rule(struct Code *c, const struct PolicyRule *rule) {
        size_t start = c->n;

        for (size_t i = 0; i < rule->n_conditions; i++)
                put_condition(c, &rule->conditions[i]);
        put_return(c, rule->error ? DENY(rule->error) : ALLOW);
        for (size_t i = start; i < c->n; i++) {
                struct sock_filter *at = &c->at[i];
                uint8_t end = (uint8_t) (c->n - i - 1); /* a rule is far shorter than a jump's reach */
                if (BPF_CLASS(at->code) != BPF_JMP)
                        continue;
                at->jt = at->jt == FAIL ? end : at->jt;
                at->jf = at->jf == FAIL ? end : at->jf;
        }
}

static void put_rules(struct Code *c, const char *call, bool denials) {
        for (size_t i = 0; i < c->policy->n_rules; i++) {
                const struct PolicyRule *rule = &c->policy->rules[i];
                if (rule->n_conditions && !rule->error == !denials && streq(rule->call, call))
                        put_rule(c, rule);
        }
}

static void put_answer(struct Code *c, const struct Answer *answer) {
        if (answer->call) {
                put_rules(c, answer->call, true);
                put_rules(c, answer->call, false);
        }
        put_return(c, answer->action);
}

/* The second half of the ranges is farther away than a conditional jump reaches. */
static void put_far_jump(struct Code *c, size_t at, size_t distance) {
        if (c->n == ELEMENTSOF(c->at)) {
                c->full = true;
                return;
        }
        memmove(&c->at[at + 2], &c->at[at + 1], distance * sizeof *c->at);
        c->n++;
        c->at[at].jf = 1;
        c->at[at + 1] = (struct sock_filter) { .code = BPF_JMP | BPF_JA, .k = (uint32_t) distance };
}

/* The call's number is in the accumulator. */
static void put_tree(struct Code *c, const struct Range *ranges, size_t n) {
        if (n == 1) {
                put_answer(c, &ranges->answer);
                return;
        }
        size_t half = n / 2, at = c->n;
        put_jump(c, BPF_JGE, ranges[half].first, 0, 0);
        put_tree(c, ranges, half);
        size_t distance = c->n - at - 1;
        if (distance > UINT8_MAX)
                put_far_jump(c, at, distance);
        else if (!c->full)
                c->at[at].jt = (uint8_t) distance;
        put_tree(c, ranges + half, n - half);
}

/* Each call's rule without conditions, and whether it has others. */
static int find_answers(const struct Policy *policy, struct Answer answers[static CALLS_MAX], char **ret_error) {
        for (size_t i = 0; i < CALLS_MAX; i++)
                answers[i] = (struct Answer) { .action = DENY(UNKNOWN_CALL) };
        for (size_t i = 0; i < policy->n_rules; i++) {
                const struct PolicyRule *rule = &policy->rules[i];
                int number = call_number(rule->call);
                if (number == __NR_SCMP_ERROR || number >= CALLS_MAX) {
                        if (asprintf(ret_error, "seccomp: '%s' is not a system call that is known here; is it spelt right?", rule->call) < 0)
                                *ret_error = NULL;
                        return -EINVAL;
                }
                if (number < 0)
                        continue; /* a call of other architectures */
                if (rule->n_conditions)
                        answers[number].call = rule->call;
                else
                        answers[number].action = rule->error ? DENY(rule->error) : ALLOW;
        }
        return 0;
}

static bool is_same(const struct Answer *a, const struct Answer *b) {
        return !a->call && !b->call && a->action == b->action;
}

static size_t join_ranges(const struct Answer answers[static CALLS_MAX], struct Range *ranges) {
        size_t n = 0;

        for (uint32_t i = 0; i < CALLS_MAX; i++)
                if (n == 0 || !is_same(&ranges[n - 1].answer, &answers[i]))
                        ranges[n++] = (struct Range) { i, answers[i] };
        ranges[n++] = (struct Range) { CALLS_MAX, { .action = DENY(UNKNOWN_CALL) } };
        return n;
}

static int assemble(const struct Policy *policy, struct Code *c, char **ret_error) {
        struct Answer answers[CALLS_MAX];
        struct Range ranges[CALLS_MAX + 1];

        int r = find_answers(policy, answers, ret_error);
        if (r < 0)
                return r;
        c->policy = policy;
        put_load(c, offsetof(struct seccomp_data, arch));
        put_jump(c, BPF_JEQ, seccomp_arch_native(), 1, 0);
        put_return(c, DENY(UNKNOWN_CALL)); /* not killed: each kill is a line in the host's audit log */
        put_load(c, offsetof(struct seccomp_data, nr));
        put_tree(c, ranges, join_ranges(answers, ranges));
        return c->full ? -EFBIG : 0;
}

int seccomp_program_compile(const struct Policy *policy, bool debug, struct SeccompProgram *ret, char **ret_error) {
        struct Code *code _cleanup_free_ = calloc(1, sizeof *code);

        if (!code)
                return -ENOMEM;
        int r = assemble(policy, code, ret_error);
        if (r < 0)
                return r;
        *ret = (struct SeccompProgram) { .instructions = calloc(code->n, sizeof *code->at), .n = (unsigned short) code->n, .log = debug };
        if (!ret->instructions)
                return -ENOMEM;
        memcpy(ret->instructions, code->at, code->n * sizeof *code->at);
        return 0;
}

void seccomp_program_done(struct SeccompProgram *p) {
        free(p->instructions);
        *p = (struct SeccompProgram) {};
}
