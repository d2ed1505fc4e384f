/* glovebox.conf: one table of keys, shipped values, and the checks that need more than one key. */
#include "common/config.h"

#include <pwd.h>
#include <stdio.h>

#include "common/io-max.h"
#include "common/keyfile.h"
#include "common/layer.h"
#include "common/limit-keys.h"
#include "common/runtimes.h"

#define DEFAULT_FILE "/etc/glovebox/glovebox.conf"
#define PROFILES_MAX 64
#define CALLERS_MAX 4096
#define CALLER_NAME_MAX 256
#define DAYS(n) ((n) * 86400e6)
#define HOURS(n) ((n) * 3600e6)

/* Host uids of cells: far above what useradd, containers and directory services hand out, and below 2^31, which some file
 * systems and programs still take for the end. The server's spare uid is the first one behind them, so that no cell has it. */
#define UID_START 2130706432u /* 0x7f000000 */
#define UID_COUNT 65536u
#define SPARE_UID (UID_START + UID_COUNT)

/* What has no field of its own kind in struct Config. */
struct Loading {
        struct Config config;
        char *audit_code, *scope, *uid_range, *server_priority, *spawner_priority;
        bool profiles_in_file;
};

static const char node_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";

#define OFFSET(field) offsetof(struct Loading, config.field)

/* Keep sections in the order of the file, keys alphabetical. */
static const struct Key keys[] = {
        { "server", "audit-code", KEY_STRING, offsetof(struct Loading, audit_code) },
        { "server", "audit-file", KEY_PATH, OFFSET(audit_file) },
        { "server", "drain-deadline", KEY_TIME, OFFSET(drain_deadline), 0, HOURS(1) },
        { "server", "keep-finished", KEY_COUNT, OFFSET(keep_finished), 0, 100000 },
        { "server", "keep-finished-for", KEY_TIME, OFFSET(keep_finished_for), 0, DAYS(7) },
        { "server", "listen", KEY_WORDS, OFFSET(listen) },
        { "server", "max-connections", KEY_COUNT, OFFSET(max_connections), 1, 65536 },
        { "server", "max-connections-per-caller", KEY_COUNT, OFFSET(max_connections_per_caller), 1, 65536 },
        { "server", "max-executions", KEY_COUNT, OFFSET(max_executions), 0, 100000 },
        { "server", "max-executions-per-caller", KEY_COUNT, OFFSET(max_executions_per_caller), 0, 100000 },
        { "server", "max-message", KEY_BYTES, OFFSET(max_message), 64 * KIB, 1 * GIB },
        { "server", "max-waiting", KEY_COUNT, OFFSET(max_waiting), 0, 100000 },
        { "server", "node", KEY_STRING, OFFSET(node) },
        { "server", "operators", KEY_WORDS, OFFSET(operators) },
        { "server", "plain-tcp", KEY_BOOL, OFFSET(plain_tcp) },
        { "server", "priority", KEY_STRING, offsetof(struct Loading, server_priority) },
        { "server", "request-budget", KEY_BYTES, OFFSET(request_budget), 1 * MIB, 64 * GIB },
        { "server", "wait-deadline", KEY_TIME, OFFSET(wait_deadline), 0, HOURS(1) },
        { "tls", "certificate", KEY_STRING, OFFSET(tls_certificate) },
        { "tls", "client-ca", KEY_STRING, OFFSET(tls_client_ca) },
        { "tls", "key", KEY_STRING, OFFSET(tls_key) },
        { "spawner", "core-scheduling", KEY_BOOL, OFFSET(core_scheduling) },
        { "spawner", "debug-seccomp", KEY_BOOL, OFFSET(debug_seccomp) },
        { "spawner", "driver", KEY_STRING, OFFSET(driver) },
        { "spawner", "io-max", KEY_LINES, OFFSET(io_max) },
        { "spawner", "pool", KEY_BOOL, OFFSET(pool) },
        { "spawner", "max-cells", KEY_COUNT, OFFSET(max_cells), 1, 100000 },
        { "spawner", "priority", KEY_STRING, offsetof(struct Loading, spawner_priority) },
        { "spawner", "scope", KEY_STRING, offsetof(struct Loading, scope) },
        { "spawner", "seccomp-allow", KEY_WORDS, OFFSET(seccomp_allow) },
        { "spawner", "seccomp-deny", KEY_WORDS, OFFSET(seccomp_deny) },
        { "spawner", "seccomp-policy", KEY_PATH, OFFSET(seccomp_policy) },
        { "spawner", "spare-uid", KEY_ID, OFFSET(spare_uid), 1, UINT32_MAX - 2 },
        { "spawner", "uid-range", KEY_STRING, offsetof(struct Loading, uid_range) },
        { "spawner", "waive", KEY_WORDS, OFFSET(waive) },
        {},
};

static const struct {
        const char *name;
        struct Limits limits;
        struct IdlePolicy idle;
} shipped_profiles[] = {
        { "quick",
          { .timeout = 30 * USEC_PER_SEC, .memory_bytes = 512 * MIB, .cpus = 0.5 },
          { 10 * USEC_PER_SEC, 15 * USEC_PER_SEC, EVIDENCE_OUTPUT_AND_CPU } },
        { "data",
          { .timeout = 120 * USEC_PER_SEC, .memory_bytes = 2 * GIB, .cpus = 1 },
          { 10 * USEC_PER_SEC, 60 * USEC_PER_SEC, EVIDENCE_OUTPUT_AND_CPU } },
        { "heavy",
          { .timeout = 300 * USEC_PER_SEC, .memory_bytes = 4 * GIB, .cpus = 2 },
          { 10 * USEC_PER_SEC, 150 * USEC_PER_SEC, EVIDENCE_OUTPUT_AND_CPU } },
};

struct Config *config_free(struct Config *c) {
        if (!c)
                return NULL;
        strv_free(c->listen);
        strv_free(c->operators);
        free(c->audit_file);
        free(c->node);
        free(c->tls_certificate);
        free(c->tls_key);
        free(c->tls_client_ca);
        for (size_t i = 0; i < c->n_profiles; i++)
                free(c->profiles[i].name);
        free(c->profiles);
        for (size_t i = 0; i < c->n_callers; i++) {
                free(c->callers[i].name);
                free(c->callers[i].slice);
        }
        free(c->callers);
        free(c->driver);
        free(c->seccomp_policy);
        strv_free(c->seccomp_allow);
        strv_free(c->seccomp_deny);
        strv_free(c->io_max);
        strv_free(c->waive);
        for (size_t i = 0; i < c->n_runtimes; i++)
                runtime_done(&c->runtimes[i]);
        free(c->runtimes);
        free(c);
        return NULL;
}

/* config is the first field: freeing it frees the whole. */
static void loading_free(struct Loading *l) {
        free(l->audit_code);
        free(l->scope);
        free(l->server_priority);
        free(l->spawner_priority);
        free(l->uid_range);
        config_free(&l->config);
}

DEFINE_CLEANUP(struct Loading *, loading_free)

static struct Loading *loading_new(void) {
        struct Loading *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        l->config = (struct Config) {
                .max_waiting = 256,
                .wait_deadline = 10 * USEC_PER_SEC,
                .max_connections = 1024,
                .max_connections_per_caller = 256,
                .request_budget = 256 * MIB,
                .max_message = 96 * MIB,
                .keep_finished = 1000,
                .keep_finished_for = 3600 * USEC_PER_SEC,
                .drain_deadline = 10 * USEC_PER_SEC,
                .default_idle = { .evidence = EVIDENCE_OUTPUT_AND_CPU },
                .uid_start = UID_START,
                .uid_count = UID_COUNT,
                .spare_uid = SPARE_UID,
                .max_cells = 1024,
                .pool = true,
        };
        return l;
}

static int add_profile(struct Config *c, const char *name, struct Profile **ret) {
        struct Profile *grown = reallocarray(c->profiles, c->n_profiles + 1, sizeof(struct Profile));
        char *copy;

        if (!grown)
                return -ENOMEM;
        c->profiles = grown;
        copy = strdup(name);
        if (!copy)
                return -ENOMEM;
        c->profiles[c->n_profiles] = (struct Profile) { .name = copy, .idle.evidence = EVIDENCE_OUTPUT_AND_CPU };
        *ret = &c->profiles[c->n_profiles++];
        return 0;
}

static struct Profile *find_profile(const struct Config *c, const char *name) {
        for (size_t i = 0; i < c->n_profiles; i++)
                if (streq(c->profiles[i].name, name))
                        return &c->profiles[i];
        return NULL;
}

static const char *profile_name(const char *section) {
        return strncmp(section, "profile ", 8) == 0 ? section + 8 + strspn(section + 8, " ") : NULL;
}

static int on_profile_section(struct Place *place, struct Loading *l, const char *name) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
        struct Profile *profile;

        if (!*name || strlen(name) > 32 || name[strspn(name, allowed)])
                return place_fail(place, "a profile's name is 1 to 32 letters, digits, _ or -, as in [profile quick], not '%s'", name);
        if (l->config.n_profiles >= PROFILES_MAX)
                return place_fail(place, "more than %d profiles", PROFILES_MAX);
        l->profiles_in_file = true;
        if (find_profile(&l->config, name))
                return place_fail(place, "[profile %s] is there a second time; put its keys together", name);
        return add_profile(&l->config, name, &profile);
}

static struct CallerRule *find_caller(const struct Config *c, const char *name) {
        for (size_t i = 0; i < c->n_callers; i++)
                if (streq(c->callers[i].name, name))
                        return &c->callers[i];
        return NULL;
}

static const char *caller_name(const char *section) {
        return strncmp(section, "caller ", 7) == 0 ? section + 7 + strspn(section + 7, " ") : NULL;
}

static bool caller_is_valid(const char *name) {
        if (strncmp(name, "uid:", 4) == 0)
                return name[4] && !name[4 + strspn(name + 4, "0123456789")];
        return streq(name, "*") || (strncmp(name, "cert:", 5) == 0 && name[5]);
}

static int on_caller_section(struct Place *place, struct Config *c, const char *name) {
        if (!caller_is_valid(name) || strlen(name) > CALLER_NAME_MAX)
                return place_fail(place, "a caller is uid:NUMBER, cert:NAME or * (all others), as in [caller uid:1000], not '%s'", name);
        if (c->n_callers >= CALLERS_MAX)
                return place_fail(place, "more than %d callers", CALLERS_MAX);
        if (find_caller(c, name))
                return place_fail(place, "[caller %s] is there a second time; put its keys together", name);
        struct CallerRule *grown = reallocarray(c->callers, c->n_callers + 1, sizeof *grown);
        if (!grown)
                return -ENOMEM;
        c->callers = grown;
        c->callers[c->n_callers] = (struct CallerRule) { .name = strdup(name) };
        return c->callers[c->n_callers].name ? (int) (c->n_callers++, 0) : -ENOMEM;
}

static int on_section(struct Place *place, void *userdata) {
        static const char *const sections[] = { "server", "tls", "limits", "caps", "profile NAME", "caller NAME", "spawner", NULL };
        const char *profile = profile_name(place->section), *caller = caller_name(place->section);
        struct Loading *l = userdata;

        if (profile)
                return on_profile_section(place, l, profile);
        if (caller)
                return on_caller_section(place, &l->config, caller);
        if (streq(place->section, "profile") || streq(place->section, "caller"))
                return place_fail(place, "[%s] has no name; it must be [%s NAME], such as %s", place->section, place->section,
                                  streq(place->section, "caller") ? "[caller uid:1000]" : "[profile quick]");
        for (size_t i = 0; sections[i]; i++)
                if (streq(place->section, sections[i]))
                        return 0;
        return place_unknown(place, "section", place->section, (char *const *) sections);
}

static int on_caller_entry(struct Place *place, struct CallerRule *caller) {
        static const struct Key own[] = {
                { NULL, "max-executions", KEY_COUNT, offsetof(struct CallerRule, max_executions), 0, 100000 },
                { NULL, "slice", KEY_STRING, offsetof(struct CallerRule, slice) },
        };
        char **known _cleanup_strv_ = NULL;
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(own) && r >= 0; i++) {
                struct Key key[] = { own[i], {} };
                key[0].section = place->section;
                if (streq(place->key, own[i].name))
                        return place_assign(place, key, caller);
                r = strv_extend(&known, own[i].name);
        }
        if (r >= 0)
                r = place_once(place);
        for (const struct LimitInfo *info = limit_table; info->field && r >= 0; info++) {
                if (!info->controller)
                        continue;
                if (streq(info->key, place->key))
                        return limit_key_assign(place, info, &caller->together);
                r = strv_extend(&known, info->key);
        }
        return r < 0 ? r : place_unknown(place, "key", place->key, known);
}

/* What one key may be. Called behind each line that sets it, so that an error names that line. */

static bool listen_is_valid(const char *address) {
        const char *colon = strrchr(address, ':'), *port = colon ? colon + 1 : "";

        if (strncmp(address, "unix:", 5) == 0)
                return address[5] == '/' && strlen(address + 5) < 108;
        return colon && colon > address && *port && strlen(port) <= 5 && port[strspn(port, "0123456789")] == '\0' && atoi(port) <= 65535;
}

static int check_listen(struct Place *place, struct Loading *l) {
        for (char **address = l->config.listen; address && *address; address++)
                if (!listen_is_valid(*address))
                        return place_fail(place, "'listen' must be unix:/PATH (at most 107 bytes), HOST:PORT or [ADDRESS]:PORT, not '%s'", *address);
        return 0;
}

static int check_operators(struct Place *place, struct Loading *l) {
        for (char **o = l->config.operators; o && *o; o++)
                if (streq(*o, "*") || !caller_is_valid(*o))
                        return place_fail(place, "'operators' must be uid:NUMBER or cert:NAME, not '%s'", *o);
        return 0;
}

static int check_node(struct Place *place, struct Loading *l) {
        const char *node = strempty(l->config.node);

        if (strlen(node) > 32 || node[strspn(node, node_letters)])
                return place_fail(place, "'node' must be 1 to 32 letters, digits or -, not '%s'", node);
        return 0;
}

/* One of two words, or empty: the default. */
static int check_word(struct Place *place, const char *a, const char *b) {
        if (isempty(place->value) || streq(place->value, a) || streq(place->value, b))
                return 0;
        return place_fail(place, "'%s' must be %s or %s, not '%s'", place->key, a, b, place->value);
}

static int check_audit_code(struct Place *place, struct Loading *l) {
        return check_word(place, "hash", "full");
}

static int check_driver(struct Place *place, struct Loading *l) {
        return check_word(place, "cgroupfs", "systemd");
}

static int check_scope(struct Place *place, struct Loading *l) {
        return check_word(place, "per-cell", "shared");
}

static int check_priority(struct Place *place, struct Loading *l) {
        enum Priority p;

        if (priority_from_string(place->value, &p) >= 0)
                return 0;
        return place_fail(place, "'priority' must be normal, high or realtime, not '%s'", place->value);
}

static int check_waive(struct Place *place, struct Loading *l) {
        for (char **word = l->config.waive; word && *word; word++) {
                const char *why = layer_refuse_waiver(*word);
                if (why)
                        return place_fail(place, "'waive': '%.40s' %s", *word, why);
        }
        return 0;
}

static int check_io_max(struct Place *place, struct Loading *l) {
        char *error _cleanup_free_ = NULL;
        int r = isempty(place->value) ? 0 : io_max_check(place->value, &error);

        return r < 0 && error ? place_fail(place, "%s", error) : r;
}

static int check_tls_file(struct Place *place, struct Loading *l) {
        const char *file = place->value;

        if (!isempty(file) && file[0] != '/' && (strchr(file, '/') || file[0] == '.'))
                return place_fail(place, "files of [tls] must be absolute paths, or names of credentials (LoadCredential=), not '%s'", file);
        return 0;
}

static int check_entry(struct Place *place, struct Loading *l) {
        static const struct {
                const char *section, *key;
                int (*check)(struct Place *place, struct Loading *l);
        } checks[] = {
                { "server", "audit-code", check_audit_code },
                { "server", "listen", check_listen },
                { "server", "node", check_node },
                { "server", "operators", check_operators },
                { "server", "priority", check_priority },
                { "tls", "certificate", check_tls_file },
                { "tls", "client-ca", check_tls_file },
                { "tls", "key", check_tls_file },
                { "spawner", "driver", check_driver },
                { "spawner", "io-max", check_io_max },
                { "spawner", "priority", check_priority },
                { "spawner", "scope", check_scope },
                { "spawner", "waive", check_waive },
        };

        for (size_t i = 0; i < ELEMENTSOF(checks); i++)
                if (streq(checks[i].section, place->section) && streq(checks[i].key, place->key))
                        return checks[i].check(place, l);
        return 0;
}

static bool is_limit(const char *key) {
        for (const struct LimitInfo *info = limit_table; info->field; info++)
                if (streq(info->key, key))
                        return true;
        return false;
}

static int on_entry(struct Place *place, void *userdata) {
        struct Loading *l = userdata;
        const char *name = profile_name(place->section);
        struct Profile *profile = name ? find_profile(&l->config, name) : NULL;

        if (profile)
                return limit_keys_assign(place, &profile->limits, &profile->idle);
        if (caller_name(place->section))
                return on_caller_entry(place, find_caller(&l->config, caller_name(place->section)));
        if (streq(place->section, "limits"))
                return limit_keys_assign(place, &l->config.defaults, &l->config.default_idle);
        if (streq(place->section, "caps"))
                return limit_keys_assign(place, &l->config.caps, NULL);
        if (isempty(place->section))
                return place_fail(place, "'%s' stands before the first [section]", place->key);
        if (is_limit(place->key))
                return place_fail(place, "'%s' is a limit: it belongs into [limits], [caps] or a [profile NAME]", place->key);
        int r = place_assign(place, keys, l);
        return r < 0 ? r : check_entry(place, l);
}

static int settle_idle(struct Place *place, const char *section, const struct IdlePolicy *idle, const struct Limits *caps) {
        if (idle->timeout > caps->timeout || idle->grace > caps->timeout)
                return place_fail(place, "'idle-timeout' and 'idle-grace' of [%s] must not be above the timeout's cap", section);
        return 0;
}

static int add_shipped_profiles(struct Config *c) {
        for (size_t i = 0; i < ELEMENTSOF(shipped_profiles); i++) {
                struct Profile *profile;
                int r = add_profile(c, shipped_profiles[i].name, &profile);

                if (r < 0)
                        return r;
                profile->limits = shipped_profiles[i].limits;
                profile->idle = shipped_profiles[i].idle;
                limits_clamp(&profile->limits, &c->caps);
                profile->idle.timeout = MIN(profile->idle.timeout, c->caps.timeout);
                profile->idle.grace = MIN(profile->idle.grace, profile->limits.timeout / 2);
        }
        return 0;
}

static int settle_all_limits(struct Place *place, struct Loading *l) {
        struct Config *c = &l->config;
        struct Limits caps = limits_caps(), defaults = limits_standard();
        int r;

        limits_overlay(&caps, &c->caps);
        c->caps = caps;
        r = limit_keys_check(place, "limits", &c->defaults, &caps);
        if (r >= 0)
                r = settle_idle(place, "limits", &c->default_idle, &caps);
        limits_clamp(&defaults, &caps);
        limits_overlay(&defaults, &c->defaults);
        c->defaults = defaults;
        for (size_t i = 0; i < c->n_profiles && r >= 0; i++) {
                char section[64];

                (void) snprintf(section, sizeof(section), "profile %s", c->profiles[i].name);
                r = limit_keys_check(place, section, &c->profiles[i].limits, &caps);
                if (r >= 0)
                        r = settle_idle(place, section, &c->profiles[i].idle, &caps);
        }
        if (r >= 0 && !l->profiles_in_file)
                r = add_shipped_profiles(c);
        return r;
}

/* START:COUNT. 65534 is "nobody", 2^32 - 1 is "no change" to the kernel: neither may be in the range. */
static int settle_uids(struct Place *place, struct Loading *l) {
        struct Config *c = &l->config;
        unsigned long long start = c->uid_start, count = c->uid_count;
        int end = 0;

        if (l->uid_range) {
                if (l->uid_range[0] < '0' || l->uid_range[0] > '9' || sscanf(l->uid_range, "%10llu:%10llu%n", &start, &count, &end) != 2 ||
                    l->uid_range[end])
                        return place_fail(place, "'uid-range' must be START:COUNT, such as %u:%u, not '%s'", UID_START, UID_COUNT, l->uid_range);
                if (start < 65536 || count < 16 || start + count > UINT32_MAX)
                        return place_fail(place, "'uid-range' must start at 65536 or above, have at least 16 and end below %u, not '%s'",
                                          UINT32_MAX, l->uid_range);
                c->uid_start = (uint32_t) start;
                c->uid_count = (uint32_t) count;
        }
        if (c->spare_uid >= start && c->spare_uid < start + count)
                return place_fail(place, "'spare-uid' %u is in 'uid-range' %llu:%llu: a cell could then act as the server; choose one outside",
                                  c->spare_uid, start, count);
        if (c->spare_uid == 65534)
                return place_fail(place, "'spare-uid' must not be 65534: nobody's uid is shared with other programs");
        return 0;
}

static int settle_lists(struct Config *c) {
        c->listen_is_default = !c->listen;
        if (!c->listen && strv_extend(&c->listen, "unix:/run/glovebox/glovebox.sock") < 0)
                return -ENOMEM;
        return c->operators || strv_extend(&c->operators, "uid:0") >= 0 ? 0 : -ENOMEM;
}

/* A dash would nest it deeper, and systemd's names are no place for more. */
static int settle_slices(struct Place *place, const struct Config *c) {
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

        for (size_t i = 0; i < c->n_callers; i++) {
                const char *slice = c->callers[i].slice;
                bool taken = streq(slice, "control") || strncmp(strempty(slice), "pool", 4) == 0;
                if (slice && (taken || !*slice || strlen(slice) > 24 || slice[strspn(slice, allowed)]))
                        return place_fail(place, "'slice' of [caller %s] must be 1 to 24 of a-z 0-9 _, and neither control nor begin with pool, not '%s'",
                                          c->callers[i].name, slice);
                if (slice && streq(c->driver, "cgroupfs"))
                        return place_fail(place, "'slice' of [caller %s] is for driver = systemd; with cgroupfs there are no slices", c->callers[i].name);
        }
        return 0;
}

/* The node's name is part of every execution's id. */
static int settle_node(struct Config *c) {
        char host[33] = "";

        if (c->node)
                return 0;
        if (gethostname(host, sizeof(host) - 1) < 0 && errno != ENAMETOOLONG)
                return -errno;
        host[strcspn(host, ".")] = '\0';
        for (char *s = host; *s; s++)
                if (!strchr(node_letters, *s))
                        *s = '-';
        c->node = strdup(host[0] ? host : "localhost");
        return c->node ? 0 : -ENOMEM;
}

static int settle_words(struct Place *place, struct Loading *l) {
        struct Config *c = &l->config;

        c->audit_code = streq(l->audit_code, "full") ? AUDIT_CODE_FULL : AUDIT_CODE_HASH;
        c->shared_scopes = streq(l->scope, "shared");
        (void) priority_from_string(l->server_priority, &c->server_priority); /* checked when it was read */
        (void) priority_from_string(l->spawner_priority, &c->spawner_priority);
        if (c->shared_scopes && streq(c->driver, "cgroupfs"))
                return place_fail(place, "'scope' = shared is for driver = systemd; with cgroupfs there are no scopes");
        if ((c->tls_certificate || c->tls_key || c->tls_client_ca) && !(c->tls_certificate && c->tls_key && c->tls_client_ca))
                return place_fail(place, "[tls] needs all of 'certificate', 'key' and 'client-ca'");
        if (c->request_budget < c->max_message)
                return place_fail(place, "'request-budget' must not be below 'max-message': the largest request would never get in");
        return 0;
}

static int settle(struct Loading *l, const char *file, char **ret_error) {
        struct Place place = { .file = file };
        int r = settle_all_limits(&place, l);

        if (r >= 0)
                r = settle_uids(&place, l);
        if (r >= 0)
                r = settle_lists(&l->config);
        if (r >= 0)
                r = settle_slices(&place, &l->config);
        if (r >= 0)
                r = settle_node(&l->config);
        if (r >= 0)
                r = settle_words(&place, l);
        if (r < 0)
                *ret_error = place.error;
        return r;
}

static int load_runtimes(struct Config *c, const char *file, char **ret_error) {
        char *library _cleanup_free_ = NULL, *shipped _cleanup_free_ = NULL, *own _cleanup_free_ = NULL;
        const char *slash = strrchr(file, '/');
        int r;

        r = library_dir(&library);
        if (r < 0) {
                struct Place place = { .file = "lib/glovebox" };

                (void) place_fail(&place, "not found beside the program's folder (%s); install or build Glovebox again", strerror(-r));
                *ret_error = place.error;
                return r;
        }
        if (asprintf(&shipped, "%s/runtimes.d", library) < 0 ||
            asprintf(&own, "%.*s/runtimes.d", slash ? (int) (slash - file) : 1, slash ? file : ".") < 0)
                return -ENOMEM;
        r = runtimes_load(c, shipped, false, ret_error);
        if (r >= 0)
                r = runtimes_load(c, own, true, ret_error);
        if (r >= 0)
                r = runtimes_check(c, ret_error);
        return r;
}

int config_load(const char *file, struct Config **ret, char **ret_error) {
        struct Loading *l _cleanup_(loading_freep) = loading_new();
        struct Config *config;
        int r;

        if (!l)
                return -ENOMEM;
        *ret_error = NULL;
        r = keyfile_read(file ? file : DEFAULT_FILE, on_section, on_entry, l, ret_error);
        if (r == -ENOENT && !file) {
                free(*ret_error);
                *ret_error = NULL;
                r = 0;
        }
        if (r >= 0)
                r = settle(l, file ? file : DEFAULT_FILE, ret_error);
        if (r >= 0)
                r = load_runtimes(&l->config, file ? file : DEFAULT_FILE, ret_error);
        if (r < 0) {
                if (!*ret_error && asprintf(ret_error, "%s: %s", file ? file : DEFAULT_FILE, strerror(-r)) < 0)
                        *ret_error = NULL;
                return r;
        }
        config = malloc(sizeof(*config));
        if (!config)
                return -ENOMEM;
        *config = l->config;
        l->config = (struct Config) {};
        *ret = config;
        return 0;
}

const char *config_slice(const struct Config *c, const char *slice) {
        for (size_t i = 0; i < c->n_callers; i++)
                if (streq(c->callers[i].slice, slice))
                        return c->callers[i].slice;
        return NULL;
}

const struct CallerRule *config_caller(const struct Config *c, const char *name) {
        const struct CallerRule *rule = find_caller(c, name);

        return rule ? rule : find_caller(c, "*");
}

void config_limits(const struct Config *c, const struct Runtime *runtime, const struct Profile *profile, struct Limits *ret) {
        *ret = c->defaults;
        limits_overlay(ret, &runtime->defaults);
        if (profile)
                limits_overlay(ret, &profile->limits);
}

const struct Profile *config_profile(const struct Config *c, const char *name) {
        return find_profile(c, name);
}

const struct Runtime *config_runtime(const struct Config *c, const char *name) {
        const char *colon = strchr(name, ':');
        size_t length = colon ? (size_t) (colon - name) : strlen(name);
        const struct Runtime *first = NULL;

        for (size_t i = 0; i < c->n_runtimes; i++) {
                const struct Runtime *r = &c->runtimes[i];
                if (strlen(r->name) != length || memcmp(r->name, name, length) != 0)
                        continue;
                if (streq(strempty(r->version), colon ? colon + 1 : ""))
                        return r;
                if (!first && !colon)
                        first = r;
        }
        return first;
}

void config_server_ids(const struct Config *c, uid_t *ret_uid, gid_t *ret_gid) {
        const struct passwd *user = getpwnam("glovebox");
        /* A "glovebox" with root's rights would undo the separation. */
        bool usable = user && user->pw_uid != 0 && user->pw_gid != 0;

        *ret_uid = usable ? user->pw_uid : c->spare_uid;
        *ret_gid = usable ? user->pw_gid : c->spare_uid;
}
