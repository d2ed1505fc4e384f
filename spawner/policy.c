/* A policy of system calls, parsed from text. */
#include "spawner/policy.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/util.h"

static const struct {
        const char *name;
        uint64_t value;
} constants[] = {
        { "AF_INET", AF_INET },
        { "AF_INET6", AF_INET6 },
        { "AF_UNIX", AF_UNIX },
        { "CLONE_NEWCGROUP", CLONE_NEWCGROUP },
        { "CLONE_NEWIPC", CLONE_NEWIPC },
        { "CLONE_NEWNET", CLONE_NEWNET },
        { "CLONE_NEWNS", CLONE_NEWNS },
        { "CLONE_NEWPID", CLONE_NEWPID },
        { "CLONE_NEWUSER", CLONE_NEWUSER },
        { "CLONE_NEWUTS", CLONE_NEWUTS },
        { "CLONE_PARENT", CLONE_PARENT },
        { "F_NOTIFY", F_NOTIFY },
        { "PR_SET_MM", PR_SET_MM },
        { "PR_SET_SECCOMP", PR_SET_SECCOMP },
        { "RLIMIT_CORE", RLIMIT_CORE },
        { "TIOCCONS", TIOCCONS },
        { "TIOCLINUX", TIOCLINUX },
        { "TIOCSETD", TIOCSETD },
        { "TIOCSTI", TIOCSTI },
};

static const struct {
        const char *name;
        int value;
} errors[] = {
        { "E2BIG", E2BIG },   { "EACCES", EACCES }, { "EAFNOSUPPORT", EAFNOSUPPORT }, { "EINVAL", EINVAL }, { "ENOMEM", ENOMEM },
        { "ENOSYS", ENOSYS }, { "ENOTTY", ENOTTY }, { "EPERM", EPERM },
        { "ESOCKTNOSUPPORT", ESOCKTNOSUPPORT },
        { "EOPNOTSUPP", EOPNOTSUPP }, { "EPROTONOSUPPORT", EPROTONOSUPPORT },
};

struct Parser {
        const char *name;
        unsigned line;
        char *words[32];
        size_t n_words, next;
        bool has_reason;
        char **ret_error;
};

static int PRINTF_LIKE(2, 3) fault(struct Parser *p, const char *format, ...) {
        char text[256];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof text, format, ap);
        va_end(ap);
        if (asprintf(p->ret_error, "%s:%u: %s", p->name, p->line, text) < 0)
                *p->ret_error = NULL;
        return -EINVAL;
}

static const char *take(struct Parser *p) {
        return p->next < p->n_words ? p->words[p->next++] : NULL;
}

static int parse_value(struct Parser *p, const char *word, uint64_t *ret) {
        char *end;

        if (!word)
                return fault(p, "a value is missing at the end");
        for (size_t i = 0; i < ELEMENTSOF(constants); i++)
                if (streq(constants[i].name, word)) {
                        *ret = constants[i].value;
                        return 0;
                }
        errno = 0;
        *ret = strtoull(word, &end, 0);
        if (errno || *end || !isdigit((unsigned char) *word))
                return fault(p, "'%.40s' is neither a number nor a name that policies know", word);
        return 0;
}

/* argN OP VALUE, or argN & MASK == VALUE */
static int parse_condition(struct Parser *p, struct PolicyCondition *ret) {
        const char *argument = take(p), *operator = take(p);
        struct PolicyCondition c = {};

        if (!argument || strncmp(argument, "arg", 3) != 0 || argument[3] < '0' || argument[3] > '5' || argument[4])
                return fault(p, "a condition begins with arg0 to arg5");
        c.argument = (unsigned) (argument[3] - '0');
        if (streq(operator, "&")) {
                int r = parse_value(p, take(p), &c.mask);
                if (r < 0)
                        return r;
                if (!streq(take(p), "=="))
                        return fault(p, "a mask is followed by ==");
                c.operator = POLICY_MASKED_EQUAL;
        } else if (streq(operator, "=="))
                c.operator = POLICY_EQUAL;
        else if (streq(operator, "!="))
                c.operator = POLICY_NOT_EQUAL;
        else if (streq(operator, ">"))
                c.operator = POLICY_GREATER;
        else
                return fault(p, "'%.20s' is not one of == != > &", strempty(operator));
        int r = parse_value(p, take(p), &c.value);
        if (r < 0)
                return r;
        if (c.operator == POLICY_MASKED_EQUAL && (c.value & ~c.mask))
                return fault(p, "the value has bits outside the mask, so it can never be equal");
        *ret = c;
        return 0;
}

static int parse_action(struct Parser *p, struct PolicyRule *rule) {
        const char *action = take(p), *error;

        if (streq(action, "allow"))
                return 0;
        if (streq(action, "ignore")) {
                rule->error = POLICY_IGNORED;
                return p->has_reason ? 0 : fault(p, "what is ignored needs its reason, after #");
        }
        if (!streq(action, "deny"))
                return fault(p, "a line begins with 'allow', 'deny' or 'ignore', not '%.20s'", strempty(action));
        error = take(p);
        for (size_t i = 0; i < ELEMENTSOF(errors); i++)
                if (streq(errors[i].name, error)) {
                        rule->error = errors[i].value;
                        return p->has_reason ? 0 : fault(p, "a denial needs its reason, after #");
                }
        return fault(p, "'%.20s' is not an errno that policies know (EPERM, ENOSYS, ...)", strempty(error));
}

static int parse_rule(struct Parser *p, struct PolicyRule *ret) {
        struct PolicyRule rule = { .line = p->line, .has_reason = p->has_reason };

        int r = parse_action(p, &rule);
        if (r < 0)
                return r;
        const char *call = take(p), *word;
        if (!call || strlen(call) >= sizeof rule.call || strspn(call, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(call))
                return fault(p, "the name of a system call is missing");
        memcpy(rule.call, call, strlen(call) + 1);
        for (bool first = true; (word = take(p)); first = false) {
                if (!streq(word, first ? "if" : "and"))
                        return fault(p, "'%.20s' is not expected here, '%s' is", word, first ? "if" : "and");
                if (rule.n_conditions == POLICY_CONDITIONS_MAX)
                        return fault(p, "more than %d conditions", POLICY_CONDITIONS_MAX);
                r = parse_condition(p, &rule.conditions[rule.n_conditions++]);
                if (r < 0)
                        return r;
        }
        *ret = rule;
        return 0;
}

/* Each call has unconditional rules of one kind only, so that the order of lines means nothing. */
static int check_conflict(struct Parser *p, const struct Policy *policy, const struct PolicyRule *rule) {
        for (size_t i = 0; i < policy->n_rules; i++) {
                const struct PolicyRule *other = &policy->rules[i];
                if (!streq(other->call, rule->call))
                        continue;
                bool same_kind = !other->error == !rule->error;
                if (!other->n_conditions && !rule->n_conditions)
                        return fault(p, "%s is there already, in line %u", rule->call, other->line);
                if (!same_kind && (other->error ? !other->n_conditions : !rule->n_conditions && rule->error))
                        return fault(p, "%s is allowed and denied at once; see line %u", rule->call, other->line);
                if (same_kind && !rule->error && (!other->n_conditions || !rule->n_conditions))
                        return fault(p, "%s is allowed with and without conditions; see line %u", rule->call, other->line);
        }
        return 0;
}

static int policy_add(struct Policy *p, const struct PolicyRule *rule) {
        if (p->n_rules >= POLICY_RULES_MAX)
                return -E2BIG;
        p->rules[p->n_rules++] = *rule;
        return 0;
}

static struct Policy *policy_new(void) {
        struct Policy *p _cleanup_(policy_freep) = calloc(1, sizeof *p);

        if (!p)
                return NULL;
        p->rules = calloc(POLICY_RULES_MAX, sizeof *p->rules);
        return p->rules ? TAKE_PTR(p) : NULL;
}

/* Splits at blanks; a # begins the reason. */
static int split(struct Parser *p, char *line) {
        char *save = NULL, *reason = strchr(line, '#');

        p->n_words = p->next = 0;
        p->has_reason = reason && reason[1 + strspn(reason + 1, " \t")];
        if (reason)
                *reason = 0;
        for (char *word = strtok_r(line, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
                if (p->n_words == ELEMENTSOF(p->words))
                        return fault(p, "the line has too many words");
                p->words[p->n_words++] = word;
        }
        return 0;
}

static int parse_line(struct Parser *p, struct Policy *policy, char *line) {
        struct PolicyRule rule;

        int r = split(p, line);
        if (r < 0 || p->n_words == 0)
                return r;
        r = parse_rule(p, &rule);
        if (r >= 0)
                r = check_conflict(p, policy, &rule);
        return r < 0 ? r : policy_add(policy, &rule);
}

int policy_parse(const char *text, const char *name, struct Policy **ret, char **ret_error) {
        struct Policy *policy _cleanup_(policy_freep) = policy_new();
        char *copy _cleanup_free_ = strdup(text), *rest = copy, *line;
        struct Parser p = { .name = name, .ret_error = ret_error };

        if (!policy || !copy)
                return -ENOMEM;
        while ((line = strsep(&rest, "\n"))) {
                p.line++;
                int r = parse_line(&p, policy, line);
                if (r < 0)
                        return r;
        }
        if (policy->n_rules == 0)
                return fault(&p, "the policy allows nothing");
        *ret = TAKE_PTR(policy);
        return 0;
}

int policy_load(const char *file, struct Policy **ret, char **ret_error) {
        int fd _cleanup_close_ = open(file, O_RDONLY | O_CLOEXEC);
        char *text _cleanup_free_ = malloc(POLICY_TEXT_MAX);

        if (!text)
                return -ENOMEM;
        ssize_t n = fd < 0 ? -errno : read_small(fd, text, POLICY_TEXT_MAX);
        if (n >= 0 && (size_t) n < POLICY_TEXT_MAX - 1)
                return policy_parse(text, file, ret, ret_error);
        if (asprintf(ret_error, "%s: %s", file, n < 0 ? strerrordesc_np((int) -n) : "is too large for a policy") < 0)
                *ret_error = NULL;
        return n < 0 ? (int) n : -EFBIG;
}

struct Policy *policy_free(struct Policy *p) {
        if (!p)
                return NULL;
        free(p->rules);
        free(p);
        return NULL;
}

static bool goes(const struct PolicyRule *rule, const char *call, bool denied) {
        return streq(rule->call, call) && (denied || !rule->n_conditions || !rule->error);
}

static int change_one(struct Policy *p, const char *call, bool denied) {
        struct PolicyRule rule = { .error = denied ? EPERM : 0, .has_reason = true };
        size_t n = 0;

        for (size_t i = 0; i < p->n_rules; i++)
                if (!goes(&p->rules[i], call, denied))
                        p->rules[n++] = p->rules[i];
        p->n_rules = n;
        (void) snprintf(rule.call, sizeof rule.call, "%s", call);
        return policy_add(p, &rule);
}

int policy_change(struct Policy *p, char *const *allow, char *const *deny, char **ret_error) {
        for (char *const *call = allow; call && *call; call++) {
                if (strv_contains(deny, *call)) {
                        if (asprintf(ret_error, "glovebox.conf: %s is both in seccomp-allow and in seccomp-deny; take it out of one", *call) < 0)
                                *ret_error = NULL;
                        return -EINVAL;
                }
                int r = change_one(p, *call, false);
                if (r < 0)
                        return r;
        }
        for (char *const *call = deny; call && *call; call++) {
                int r = change_one(p, *call, true);
                if (r < 0)
                        return r;
        }
        return 0;
}
