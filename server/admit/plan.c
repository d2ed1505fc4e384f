/* Validation of a request, and its limits resolved. One function per group of fields, called from one table. */
#include "server/admit/plan.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "server/admit/code.h"
#include "server/admit/workspace.h"

#define REQUEST_ID_MAX 128
#define CODE_MAX (1 * MIB)
#define STDIN_MAX (16 * MIB)
#define STRINGS_MAX (128 * KIB) /* args and env together, as execve(2) counts them */
#define STRINGS_COUNT_MAX 1024
#define LABELS_MAX 32
#define LABEL_KEY_MAX 64
#define LABEL_VALUE_MAX 256
#define TIMEZONE_MAX 64
#define HEARTBEAT_DEFAULT (5 * USEC_PER_SEC)
#define HEARTBEAT_MIN (100 * USEC_PER_MSEC)
#define HEARTBEAT_MAX (60 * USEC_PER_SEC)
#define IDLE_MIN (50 * USEC_PER_MSEC)

struct Check {
        const struct Config *config;
        char *const *not_enforced;
        const struct Request *request;
        struct Plan *plan;
        struct Refusal *refusal;
};

void plan_done(struct Plan *p) {
        free(p->working_dir);
        p->working_dir = NULL;
}

static int check_request_id(struct Check *c) {
        const char *id = strempty(c->request->request_id);

        for (const char *p = id; *p; p++)
                if (*p < 0x20 || *p > 0x7e)
                        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "request_id", "only printable ASCII characters are allowed");
        if (strlen(id) > REQUEST_ID_MAX)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "request_id", "%zu bytes are more than the %d allowed", strlen(id),
                              REQUEST_ID_MAX);
        return 0;
}

static int check_runtime(struct Check *c) {
        const char *name = strempty(c->request->runtime);
        char known[256] = "";

        c->plan->runtime = config_runtime(c->config, name);
        if (c->plan->runtime)
                return 0;
        for (size_t i = 0; i < c->config->n_runtimes; i++) {
                size_t n = strlen(known);
                (void) snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", c->config->runtimes[i].name);
        }
        if (!*name)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "runtime", "is required; this server has: %s", known);
        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "runtime", "'%.64s' is not a runtime of this server, which has: %s", name, known);
}

static int check_code(struct Check *c) {
        if (c->request->code.size <= CODE_MAX)
                return 0;
        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "code",
                      "%zu bytes are more than the 1048576 allowed; send data in `files` or `stdin`", c->request->code.size);
}

static bool is_env_name(const char *s) {
        if (!isalpha((unsigned char) *s) && *s != '_')
                return false;
        for (; *s; s++)
                if (!isalnum((unsigned char) *s) && *s != '_')
                        return false;
        return true;
}

static int check_strings(struct Check *c) {
        const struct Request *r = c->request;
        size_t size = 0;

        if (r->n_args + r->n_env > STRINGS_COUNT_MAX)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, r->n_args > r->n_env ? "args" : "env",
                              "args and env hold %zu entries, more than the %d allowed together", r->n_args + r->n_env, STRINGS_COUNT_MAX);
        for (size_t i = 0; i < r->n_args; i++)
                size += strlen(r->args[i]) + 1;
        for (size_t i = 0; i < r->n_env; i++) {
                if (!is_env_name(r->env[i].key))
                        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "env",
                                      "'%.40s' is not a name of a variable: letters, digits and _ only, no digit first", r->env[i].key);
                size += strlen(r->env[i].key) + strlen(r->env[i].value) + 2;
        }
        if (size > STRINGS_MAX)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, r->n_args > r->n_env ? "args" : "env",
                              "args and env hold %zu bytes, more than the 131072 allowed together; send data in `files` or `stdin`", size);
        return 0;
}

static int check_stdin(struct Check *c) {
        if (c->request->stdin_bytes.size <= STDIN_MAX)
                return 0;
        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "stdin", "%zu bytes are more than the 16777216 allowed; send a file in `files`",
                      c->request->stdin_bytes.size);
}

static int check_profile(struct Check *c) {
        const char *name = strempty(c->request->profile);
        char known[256] = "";

        if (!*name)
                name = strempty(c->plan->runtime->profile);
        if (*name && !config_profile(c->config, name)) {
                for (size_t i = 0; i < c->config->n_profiles; i++) {
                        size_t n = strlen(known);
                        (void) snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", c->config->profiles[i].name);
                }
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "profile", "'%.64s' is not a profile of this server, which has: %s", name,
                              *known ? known : "none");
        }
        (void) snprintf(c->plan->profile, sizeof c->plan->profile, "%s", name);
        return 0;
}

static int check_limit(struct Check *c, const struct LimitInfo *info) {
        double asked = limit_get(&c->request->limits, info), cap = limit_get(&c->plan->runtime->caps, info);
        char field[64], a[32], b[32];

        if (asked == 0)
                return 0;
        (void) snprintf(field, sizeof field, "limits.%s", info->field);
        if (!(asked >= info->minimum))
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, field, "%s is below the minimum of %s (0 asks for the default)",
                              limit_format(info, asked, a, sizeof a), limit_format(info, info->minimum, b, sizeof b));
        if (!(asked <= cap))
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, field, "%s is above the cap of %s of this server and runtime; ask for at most that",
                              limit_format(info, asked, a, sizeof a), limit_format(info, cap, b, sizeof b));
        if (strv_contains(c->not_enforced, info->key))
                return refuse(c->refusal, REFUSE_FAILED_PRECONDITION, field,
                              "cannot be enforced on this machine: its operator waived the %s controller; leave the field out", info->controller);
        return 0;
}

static int check_limits(struct Check *c) {
        const struct Profile *profile = config_profile(c->config, c->plan->profile);
        struct Limits *l = &c->plan->limits;

        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                int r = check_limit(c, info);
                if (r != 0)
                        return r;
        }
        config_limits(c->config, c->plan->runtime, profile, l);
        limits_overlay(l, &c->request->limits);
        /* An operator's default above the operator's cap: the cap holds. */
        limits_clamp(l, &c->plan->runtime->caps);
        return 0;
}

static int check_idle(struct Check *c) {
        const struct Profile *profile = config_profile(c->config, c->plan->profile);
        struct IdlePolicy *i = &c->plan->idle;
        usec_t cap = c->config->caps.timeout;

        *i = profile && profile->idle.timeout ? profile->idle : c->config->default_idle;
        if (c->request->idle.timeout) {
                if (c->request->idle.timeout < IDLE_MIN)
                        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "idle.timeout", "is below the minimum of 50 ms");
                if (c->request->idle.timeout > cap)
                        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "idle.timeout", "is above this server's cap of %llu s for limits.timeout",
                                      (unsigned long long) (cap / USEC_PER_SEC));
                i->timeout = c->request->idle.timeout;
                i->grace = 0;
        }
        if (c->request->idle.grace > cap)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "idle.grace", "is above this server's cap of %llu s for limits.timeout",
                              (unsigned long long) (cap / USEC_PER_SEC));
        if (c->request->idle.grace)
                i->grace = c->request->idle.grace;
        if (c->request->idle.evidence)
                i->evidence = c->request->idle.evidence;
        if (i->evidence == EVIDENCE_UNSET)
                i->evidence = EVIDENCE_OUTPUT_AND_CPU;
        if (c->request->idle_set && i->timeout == 0)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "idle.timeout",
                              "must be set for the policy to act, since neither profile nor server has one");
        return 0;
}

static int check_heartbeat(struct Check *c) {
        usec_t interval = c->request->heartbeat_interval;

        if (interval == 0)
                interval = HEARTBEAT_DEFAULT;
        if (interval < HEARTBEAT_MIN || interval > HEARTBEAT_MAX)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "heartbeat_interval", "must be between 100 ms and 60 s");
        c->plan->heartbeat_interval = interval;
        return 0;
}

static int check_timezone(struct Check *c) {
        const char *zone = strempty(c->request->timezone);
        struct stat st;
        char path[128];

        if (!*zone)
                return 0;
        if (strlen(zone) > TIMEZONE_MAX)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "timezone", "%zu bytes are more than the %d allowed", strlen(zone), TIMEZONE_MAX);
        if (strspn(zone, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/") != strlen(zone) || *zone == '/' || strstr(zone, "//"))
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "timezone", "is not an IANA name such as 'Asia/Shanghai'");
        /* A runtime with a root of its own has its own list: glovebox-start looks there. */
        if (c->plan->runtime->root)
                return 0;
        (void) snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", zone);
        if (access("/usr/share/zoneinfo", F_OK) == 0 && (stat(path, &st) < 0 || !S_ISREG(st.st_mode)))
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "timezone", "'%s' is not known here; use an IANA name such as 'Asia/Shanghai'", zone);
        return 0;
}

static int check_labels(struct Check *c) {
        const struct Request *r = c->request;

        if (r->n_labels > LABELS_MAX)
                return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "labels", "%zu labels are more than the %d allowed", r->n_labels, LABELS_MAX);
        for (size_t i = 0; i < r->n_labels; i++) {
                size_t key = strlen(r->labels[i].key), value = strlen(r->labels[i].value);
                if (key == 0 || key > LABEL_KEY_MAX)
                        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "labels", "a key has %zu bytes; 1 to %d are allowed", key, LABEL_KEY_MAX);
                if (value > LABEL_VALUE_MAX)
                        return refuse(c->refusal, REFUSE_INVALID_ARGUMENT, "labels", "the value of '%s' has %zu bytes; at most %d are allowed",
                                      r->labels[i].key, value, LABEL_VALUE_MAX);
        }
        return 0;
}

static int check_workspace(struct Check *c) {
        int r = workspace_check(c->request, c->plan->runtime->code_name, &c->plan->limits, c->refusal);
        if (r != 0)
                return r;
        return workspace_working_dir(c->request, &c->plan->working_dir, c->refusal);
}

static int check_contract(struct Check *c) {
        return code_check(c->request, c->plan->runtime, c->refusal);
}

/* A final * of the word stands for any rest. */
static bool is_named_by(const char *name, const char *word) {
        size_t n = strlen(word);

        return n > 0 && word[n - 1] == '*' ? strncmp(name, word, n - 1) == 0 : streq(name, word);
}

static int look_at_start(struct Check *c) {
        char *const *words = c->plan->runtime->env_at_start;

        for (; words && *words; words++)
                for (size_t i = 0; i < c->request->n_env; i++)
                        c->plan->fresh |= is_named_by(c->request->env[i].key, *words);
        return 0;
}

/* In this order: later ones need what earlier ones found. */
static int (*const checks[])(struct Check *c) = {
        check_request_id, check_runtime, check_code,     check_strings,  check_stdin,  check_profile,
        check_limits,     check_idle,    check_heartbeat, check_timezone, check_labels, check_workspace,
        check_contract,   look_at_start,
};

int plan_make(const struct Config *config, char *const *not_enforced, const struct Request *request, struct Plan *ret, struct Refusal *refusal) {
        struct Plan plan _cleanup_(plan_done) = {};
        struct Check c = { config, not_enforced, request, &plan, refusal };

        for (size_t i = 0; i < ELEMENTSOF(checks); i++) {
                int r = checks[i](&c);
                if (r != 0)
                        return r;
        }
        *ret = plan;
        plan = (struct Plan) {};
        return 0;
}
