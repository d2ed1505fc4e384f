/* From a policy to one program for the kernel's seccomp: which range of numbers a call is in, a few numbers of it one by one, and then its
 * arguments; decisions.c makes the program of that.
 *
 * libseccomp knows the numbers of calls, but cannot say "allowed unless" of one call in one program, and makes longer ones: its two took 206 us to
 * load for what a plain tree of 346 instructions did in 90 (./dev bench prints today's). A call that looks at no argument costs next to
 * nothing later, since the kernel finds out when it loads the program that it need not be run for it; that works only for what it can follow
 * (linux/kernel/seccomp.c, seccomp_is_const_allow): loads of the number, masks and jumps, no arithmetic. */
#include "spawner/steps/seccomp-program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>

#include "spawner/policy.h"
#include "spawner/steps/decisions.h"

#define UNKNOWN_CALL ENOSYS /* what no rule names */
#define CALLS_MAX 1024 /* numbers from here on are unknown; Linux 6.18 is at 470 */
/* x86 alone, Linux 6.11: not a call of programs, but the kernel's own where the host traces their functions. */
#ifdef __x86_64__
#define URETPROBE 335
#else
#define URETPROBE (__NR_SCMP_ERROR - 1)
#endif
#define OTHERS_MAX 4 /* numbers of a range that are asked for one by one: each makes the way of the rest longer */
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

/* Call numbers from first up to the next range's first; a few of them are answered otherwise than the rest. */
struct Range {
        uint32_t first, last;
        unsigned answer;
};

struct Compiler {
        const struct Policy *policy;
        struct Decisions *decisions;
        unsigned answers[CALLS_MAX]; /* of each call number: a node of the decisions */
        unsigned unknown;            /* the answer of what no rule names */
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

static uint32_t word_of(unsigned argument, bool high) {
        bool second = high == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
        return (uint32_t) offsetof(struct seccomp_data, args) + 8 * argument + (second ? 4 : 0);
}

static unsigned ask_is(struct Compiler *c, uint32_t word, uint32_t mask, uint32_t value, unsigned yes, unsigned no) {
        return decisions_ask(c->decisions, (struct Question) { QUESTION_IS, word, mask, value }, yes, no);
}

static unsigned ask_above(struct Compiler *c, uint32_t word, uint32_t value, unsigned yes, unsigned no) {
        return decisions_ask(c->decisions, (struct Question) { QUESTION_ABOVE, word, UINT32_MAX, value }, yes, no);
}

/* The kernel's programs know 32 bits at a time. */
static unsigned ask_condition(struct Compiler *c, const struct PolicyCondition *p, unsigned yes, unsigned no) {
        uint32_t high = word_of(p->argument, true), low = word_of(p->argument, false);
        uint32_t high_value = (uint32_t) (p->value >> 32), low_value = (uint32_t) p->value;
        uint64_t mask = p->operator == POLICY_MASKED_EQUAL ? p->mask : UINT64_MAX;
        unsigned next;

        switch (p->operator) {
        case POLICY_EQUAL:
        case POLICY_MASKED_EQUAL:
                next = ask_is(c, low, (uint32_t) mask, low_value, yes, no);
                return ask_is(c, high, (uint32_t) (mask >> 32), high_value, next, no);
        case POLICY_NOT_EQUAL:
                next = ask_is(c, low, UINT32_MAX, low_value, no, yes);
                return ask_is(c, high, UINT32_MAX, high_value, next, yes);
        case POLICY_GREATER:
                next = ask_above(c, low, low_value, yes, no);
                next = ask_is(c, high, UINT32_MAX, high_value, next, no);
                return ask_above(c, high, high_value, yes, next);
        }
        return no;
}

static unsigned answer(struct Compiler *c, const struct PolicyRule *rule) {
        return decisions_answer(c->decisions, rule->error ? DENY(rule->error) : ALLOW);
}

/* In front of what the call is answered so far, its rules of one kind: the last one is put there first. */
static unsigned ask_rules(struct Compiler *c, const char *call, bool denials, unsigned next) {
        for (size_t i = c->policy->n_rules; i-- > 0;) {
                const struct PolicyRule *rule = &c->policy->rules[i];
                if (!rule->n_conditions || !rule->error != !denials || !streq(rule->call, call))
                        continue;
                unsigned otherwise = next;
                next = answer(c, rule);
                for (size_t k = rule->n_conditions; k-- > 0;)
                        next = ask_condition(c, &rule->conditions[k], next, otherwise);
        }
        return next;
}

static int find_number(const struct PolicyRule *rule, char **ret_error) {
        int number = call_number(rule->call);

        if (number != __NR_SCMP_ERROR && number < CALLS_MAX)
                return number;
        if (asprintf(ret_error, "seccomp: '%s' is not a system call that is known here; is it spelt right?", rule->call) < 0)
                *ret_error = NULL;
        return __NR_SCMP_ERROR;
}

/* First each call's rule without conditions, then what those with conditions change. */
static int find_answers(struct Compiler *c, char **ret_error) {
        bool is_asked[CALLS_MAX] = {};

        for (size_t i = 0; i < CALLS_MAX; i++)
                c->answers[i] = c->unknown;
        for (size_t i = 0; i < c->policy->n_rules; i++) {
                const struct PolicyRule *rule = &c->policy->rules[i];
                int number = find_number(rule, ret_error);
                if (number == __NR_SCMP_ERROR)
                        return -EINVAL;
                if (number >= 0 && !rule->n_conditions) /* below 0: a call of other architectures */
                        c->answers[number] = answer(c, rule);
        }
        for (size_t i = 0; i < c->policy->n_rules; i++) {
                const struct PolicyRule *rule = &c->policy->rules[i];
                int number = call_number(rule->call);
                if (number < 0 || !rule->n_conditions || is_asked[number])
                        continue;
                unsigned root = ask_rules(c, rule->call, true, ask_rules(c, rule->call, false, c->answers[number]));
                c->answers[number] = decisions_shorten(c->decisions, root);
                is_asked[number] = true;
        }
        return 0;
}

/* Where the best ranges begin: the fewest questions, of which each border is one, and each number that differs from its range's answer. */
static size_t find_ranges(const struct Compiler *c, struct Range *ranges) {
        struct {
                uint32_t questions, first; /* for the numbers below this one; where their last range begins */
        } best[CALLS_MAX + 1];
        size_t n = 0;

        for (size_t i = 1; i <= CALLS_MAX; i++)
                best[i].questions = UINT32_MAX;
        best[0].questions = 0;
        for (uint32_t first = 0; first < CALLS_MAX; first++) {
                uint32_t others = 0;
                for (uint32_t last = first; last < CALLS_MAX; last++) {
                        others += c->answers[last] != c->answers[first];
                        if (others > OTHERS_MAX)
                                break;
                        uint32_t questions = best[first].questions + others + 1;
                        if (questions < best[last + 1].questions) {
                                best[last + 1].questions = questions;
                                best[last + 1].first = first;
                        }
                }
        }
        for (uint32_t end = CALLS_MAX; end > 0; end = best[end].first) {
                uint32_t first = best[end].first;
                ranges[n++] = (struct Range) { first, end - 1, c->answers[first] };
        }
        return n;
}

/* Of ranges in falling order. */
static unsigned ask_number(struct Compiler *c, const struct Range *ranges, size_t n) {
        uint32_t word = offsetof(struct seccomp_data, nr);

        if (n > 1) {
                size_t half = n / 2;
                unsigned below = ask_number(c, ranges + half, n - half);
                return ask_above(c, word, ranges[half].last, ask_number(c, ranges, half), below);
        }
        unsigned next = ranges->answer;
        for (uint32_t i = ranges->first; i <= ranges->last; i++)
                if (c->answers[i] != ranges->answer)
                        next = ask_is(c, word, UINT32_MAX, i, c->answers[i], next);
        return next;
}

static int assemble(struct Compiler *c, struct sock_filter *ret, size_t max, char **ret_error) {
        struct Range ranges[CALLS_MAX];

        c->unknown = decisions_answer(c->decisions, DENY(UNKNOWN_CALL));
        int r = find_answers(c, ret_error);
        if (r < 0)
                return r;
        size_t n = find_ranges(c, ranges);
        unsigned root = ask_number(c, ranges, n);
        root = ask_above(c, offsetof(struct seccomp_data, nr), CALLS_MAX - 1, c->unknown, root);
        /* Other architectures' calls are not killed: each kill is a line in the host's audit log. */
        root = ask_is(c, offsetof(struct seccomp_data, arch), UINT32_MAX, seccomp_arch_native(), root, c->unknown);
        return decisions_write(c->decisions, root, ret, max);
}

int seccomp_program_compile(const struct Policy *policy, bool debug, struct SeccompProgram *ret, char **ret_error) {
        struct Decisions *decisions _cleanup_(decisions_freep) = decisions_new();
        struct sock_filter *code _cleanup_free_ = calloc(BPF_MAXINSNS, sizeof *code);
        struct Compiler c = { .policy = policy, .decisions = decisions };

        if (!decisions || !code)
                return -ENOMEM;
        int n = assemble(&c, code, BPF_MAXINSNS, ret_error);
        if (n < 0)
                return n;
        *ret = (struct SeccompProgram) { .instructions = calloc((size_t) n, sizeof *code), .n = (unsigned short) n, .log = debug };
        if (!ret->instructions)
                return -ENOMEM;
        memcpy(ret->instructions, code, (size_t) n * sizeof *code);
        return 0;
}

void seccomp_program_done(struct SeccompProgram *p) {
        free(p->instructions);
        *p = (struct SeccompProgram) {};
}
