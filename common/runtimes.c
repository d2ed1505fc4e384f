/* The files runtimes.d/NAME.conf: read, defaulted, checked. */
#include "common/runtimes.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/job.h"
#include "common/keyfile.h"
#include "common/limit-keys.h"

#define RUNTIMES_MAX 64
#define NAME_MAX_ 64
#define POOL_MAX 256

#define OFFSET(field) offsetof(struct Runtime, field)

static const struct Key runtime_keys[] = {
        { "runtime", "args", KEY_WORDS, OFFSET(args) },
        { "runtime", "code-name", KEY_STRING, OFFSET(code_name) },
        { "runtime", "endings", KEY_WORDS, OFFSET(endings) },
        { "runtime", "env", KEY_LINES, OFFSET(env) },
        { "runtime", "env-at-start", KEY_WORDS, OFFSET(env_at_start) },
        { "runtime", "exec", KEY_PATH, OFFSET(exec) },
        { "runtime", "import-allowed", KEY_WORDS, OFFSET(import_allowed) },
        { "runtime", "name", KEY_STRING, OFFSET(name) },
        { "runtime", "pool-max", KEY_COUNT, OFFSET(pool_max), 0, POOL_MAX },
        { "runtime", "pool-min", KEY_COUNT, OFFSET(pool_min), 0, POOL_MAX },
        { "runtime", "preload", KEY_WORDS, OFFSET(preload) },
        { "runtime", "profile", KEY_STRING, OFFSET(profile) },
        { "runtime", "read-only-workspace", KEY_BOOL, OFFSET(read_only_workspace) },
        { "runtime", "root", KEY_PATH, OFFSET(root) },
        { "runtime", "runner", KEY_BOOL, OFFSET(runner) },
        { "runtime", "version", KEY_STRING, OFFSET(version) },
        { "runtime", "version-args", KEY_WORDS, OFFSET(version_args) },
        { "runtime", "warm", KEY_BOOL, OFFSET(warm) },
        { "runtime", "zygote", KEY_BOOL, OFFSET(zygote) },
        {},
};

void runtime_done(struct Runtime *r) {
        free(r->name);
        free(r->version);
        free(r->key);
        free(r->exec);
        strv_free(r->args);
        strv_free(r->version_args);
        strv_free(r->env);
        strv_free(r->import_allowed);
        free(r->root);
        strv_free(r->endings);
        strv_free(r->preload);
        strv_free(r->env_at_start);
        free(r->code_name);
        free(r->profile);
        free(r->file);
        *r = (struct Runtime) {};
}

/* One file while it is read. */
struct Reading {
        struct Runtime *runtime;
        bool something; /* it holds more than comments and blank lines */
};

static int on_section(struct Place *place, void *userdata) {
        struct Reading *reading = userdata;
        static char *const sections[] = { (char *) "runtime", (char *) "limits", (char *) "caps", NULL };

        reading->something = true;
        if (isempty(place->section) && place->key)
                return place_fail(place, "'%s' stands before the first [section], which is [runtime]", place->key);
        return strv_contains(sections, place->section) ? 0 : place_unknown(place, "section", place->section, sections);
}

static bool env_is_valid(const char *entry) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

        return strspn(entry, letters) > 0 && entry[strspn(entry, digits)] == '=';
}

/* Behind each line, so that an error names it. */
static int check_entry(struct Place *place, const struct Runtime *r) {
        if (streq(place->key, "code-name") && r->code_name && (strchr(r->code_name, '/') || strlen(r->code_name) > 255 || r->code_name[0] == '.'))
                return place_fail(place, "'code-name' must be a plain file name that does not begin with a dot, not '%s'", r->code_name);
        if (streq(place->key, "env") && r->env)
                for (char **entry = r->env; *entry; entry++)
                        if (!env_is_valid(*entry))
                                return place_fail(place, "'env' must be NAME=VALUE (one in each line), not '%s'", *entry);
        if (streq(place->key, "endings"))
                for (char **ending = r->endings; *ending; ending++)
                        if ((*ending)[0] != '.' || !(*ending)[1] || strchr(*ending, '/'))
                                return place_fail(place, "'endings' must look like .py, not '%s'", *ending);
        return 0;
}

static int on_entry(struct Place *place, void *userdata) {
        struct Runtime *runtime = ((struct Reading *) userdata)->runtime;
        int r = on_section(place, userdata);

        if (r < 0)
                return r;
        if (streq(place->section, "limits"))
                return limit_keys_assign(place, &runtime->defaults, NULL);
        if (streq(place->section, "caps"))
                return limit_keys_assign(place, &runtime->caps, NULL);
        r = place_assign(place, runtime_keys, runtime);
        return r < 0 ? r : check_entry(place, runtime);
}

/* Names appear in requests, in execution records and in cgroup names. */
static bool name_is_valid(const char *name) {
        static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";

        return name[0] != '.' && name[0] != '-' && strlen(name) <= NAME_MAX_ && name[strspn(name, allowed)] == '\0';
}

/* The head of a job must fit into a pipe that nobody reads yet. */
static size_t head_size(const struct Runtime *r) {
        size_t size = 2 * JOB_HEADER_SIZE + strlen(r->exec) + JOB_HEADER_SIZE + strlen(r->code_name);

        for (size_t i = 0; r->args[i]; i++)
                size += JOB_HEADER_SIZE + strlen(r->args[i]);
        for (size_t i = 0; r->env && r->env[i]; i++)
                size += JOB_HEADER_SIZE + strlen(r->env[i]);
        return size;
}

static int check_names(const struct Runtime *r, struct Place *place) {
        if (!name_is_valid(r->name))
                return place_fail(place, "'name' must be 1 to %d of a-z 0-9 . _ - and not begin with . or -, not '%s'", NAME_MAX_, r->name);
        if (r->version[0] && !name_is_valid(r->version))
                return place_fail(place, "'version' must be at most %d of a-z 0-9 . _ -, not '%s'", NAME_MAX_, r->version);
        if (!r->exec)
                return place_fail(place, "'exec' is missing: the interpreter's absolute path inside the cell, such as /usr/bin/python3");
        if (!r->code_name)
                return place_fail(place, "'code-name' is missing: the name of the code's file in /workspace, such as main.py");
        return 0;
}

static int check_lists(const struct Runtime *r, struct Place *place) {
        if (r->import_allowed && !r->runner)
                return place_fail(place, "'import-allowed' needs a runner, which checks imports, and this runtime has none (runner = yes)");
        if (r->zygote && !r->runner)
                return place_fail(place, "'zygote' needs a runner that can be forked (the library's python/runner.py), and this runtime has none (runner = yes)");
        /* glovebox-start takes the right to write away behind the job's files, and a runner that waits has taken its place by then; a fork can
         * do it itself. */
        if (r->warm && r->runner && r->read_only_workspace && !r->zygote)
                return place_fail(place, "'warm' with read-only-workspace = yes needs a zygote: zygote = yes if the runner can (Python), else warm = no");
        if (r->preload && *r->preload && !r->zygote)
                return place_fail(place, "'preload' needs a zygote, which imports the modules (zygote = yes)");
        if (r->pool_max > 0 && r->pool_max < r->pool_min)
                return place_fail(place, "'pool-max' is below 'pool-min': %d is less than %d; raise it, or leave it out: it is then pool-min", (int) r->pool_max,
                                  (int) r->pool_min);
        if (!strv_contains(r->args, "{code}"))
                return place_fail(place, "'args' has no word {code}, so that the code would never run; add it where its path belongs, as in: args = -u {code}");
        if (head_size(r) > JOB_HEAD_CONFIG_MAX)
                return place_fail(place, "exec, args and env together have more than %d KiB", (int) (JOB_HEAD_CONFIG_MAX / KIB));
        return 0;
}

static int set_default(char **field, const char *value) {
        if (!*field)
                *field = strdup(value);
        return *field ? 0 : -ENOMEM;
}

static int set_default_list(char ***field, const char *value) {
        return *field ? 0 : strv_extend(field, value);
}

/* The file's name without ".conf". */
static char *stem(const char *file) {
        const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

        return strndup(name, strlen(name) - strlen(".conf"));
}

/* 1 = nothing is in the file. */
static int runtime_read(struct Runtime *r, const char *file, char **ret_error) {
        struct Reading reading = { .runtime = r };
        struct Place place = { .file = file };
        char *name _cleanup_free_ = stem(file);
        int k;

        k = keyfile_read(file, on_section, on_entry, &reading, ret_error);
        if (k < 0 || !reading.something)
                return k < 0 ? k : 1;
        if (!name || set_default(&r->name, name) < 0 || set_default(&r->version, "") < 0 || set_default(&r->profile, "") < 0 ||
            set_default(&r->file, file) < 0 || set_default_list(&r->args, "{code}") < 0 ||
            set_default_list(&r->version_args, "--version") < 0)
                return -ENOMEM;
        if (asprintf(&r->key, "%s%s%s", r->name, r->version[0] ? ":" : "", r->version) < 0) {
                r->key = NULL;
                return -ENOMEM;
        }
        k = check_names(r, &place);
        if (k >= 0)
                k = check_lists(r, &place);
        r->pool_max = MAX(r->pool_max, r->pool_min);
        if (k < 0)
                *ret_error = place.error;
        return k;
}

static void remove_same_file(struct Config *c, const char *file) {
        const char *name = strrchr(file, '/');

        for (size_t i = 0; i < c->n_runtimes; i++) {
                if (!streq(strrchr(c->runtimes[i].file, '/'), name))
                        continue;
                runtime_done(&c->runtimes[i]);
                c->n_runtimes--;
                memmove(&c->runtimes[i], &c->runtimes[i + 1], (c->n_runtimes - i) * sizeof(struct Runtime));
                return;
        }
}

static int add_file(struct Config *c, const char *file, char **ret_error) {
        struct Runtime runtime = {}, *grown;
        struct stat st;
        int r;

        remove_same_file(c, file);
        if (stat(file, &st) == 0 && st.st_size == 0 && S_ISCHR(st.st_mode))
                return 0; /* a link to /dev/null, as systemd has it */
        r = runtime_read(&runtime, file, ret_error);
        if (r != 0) {
                runtime_done(&runtime);
                return MIN(r, 0);
        }
        grown = reallocarray(c->runtimes, c->n_runtimes + 1, sizeof(struct Runtime));
        if (!grown) {
                runtime_done(&runtime);
                return -ENOMEM;
        }
        c->runtimes = grown;
        c->runtimes[c->n_runtimes++] = runtime;
        return 0;
}

static int is_conf(const struct dirent *entry) {
        size_t length = strlen(entry->d_name);

        return entry->d_name[0] != '.' && length > 5 && streq(entry->d_name + length - 5, ".conf");
}

static int add_entries(struct Config *c, const char *folder, struct dirent **entries, int n, char **ret_error) {
        int r = 0;

        for (int i = 0; i < n && r >= 0; i++) {
                char *file _cleanup_free_ = NULL;

                if (asprintf(&file, "%s/%s", folder, entries[i]->d_name) < 0)
                        return -ENOMEM;
                r = add_file(c, file, ret_error);
        }
        if (r >= 0 && c->n_runtimes > RUNTIMES_MAX) {
                struct Place place = { .file = folder };
                r = place_fail(&place, "more than %d runtimes", RUNTIMES_MAX);
                *ret_error = place.error;
        }
        return r;
}

int runtimes_load(struct Config *c, const char *folder, bool optional, char **ret_error) {
        struct dirent **entries;
        int n, r;

        n = scandir(folder, &entries, is_conf, alphasort);
        if (n < 0) {
                struct Place place = { .file = folder };

                r = -errno;
                if (optional && r == -ENOENT)
                        return 0;
                (void) place_fail(&place, "cannot be read: %s", strerror(-r));
                *ret_error = place.error;
                return r;
        }
        r = add_entries(c, folder, entries, n, ret_error);
        for (int i = 0; i < n; i++)
                free(entries[i]);
        free(entries);
        return r;
}

/* A runtime may be narrower than the server, never wider. What it leaves out is the server's. */
static int check_limits(struct Place *place, const struct Config *c, struct Runtime *runtime) {
        struct Limits caps = c->caps;

        int r = limit_keys_check(place, "caps", &runtime->caps, &c->caps);
        limits_overlay(&caps, &runtime->caps);
        runtime->caps = caps;
        return r < 0 ? r : limit_keys_check(place, "limits", &runtime->defaults, &caps);
}

/* The client takes a file's runtime from its ending: there must be one answer. */
static int check_endings(struct Place *place, const struct Runtime *a, const struct Runtime *b) {
        for (char **ending = a->endings; ending && *ending; ending++)
                if (strv_contains(b->endings, *ending))
                        return place_fail(place, "'endings' has '%s', and so has %s; a file would have two runtimes: take it out of one of them", *ending, b->file);
        return 0;
}

int runtimes_check(const struct Config *c, char **ret_error) {
        int r = 0;

        for (size_t i = 0; i < c->n_runtimes && r >= 0; i++) {
                const struct Runtime *a = &c->runtimes[i];
                struct Place place = { .file = a->file };

                if (a->profile[0] && !config_profile(c, a->profile))
                        r = place_fail(&place, "there is no [profile %s] in glovebox.conf", a->profile);
                if (r >= 0)
                        r = check_limits(&place, c, &c->runtimes[i]);
                for (size_t k = 0; k < i && r >= 0; k++) {
                        r = check_endings(&place, a, &c->runtimes[k]);
                        if (streq(a->name, c->runtimes[k].name) && streq(a->version, c->runtimes[k].version))
                                r = place_fail(&place, "runtime '%s' with version '%s' is also in %s; give one of them another version", a->name,
                                               a->version, c->runtimes[k].file);
                }
                if (r < 0)
                        *ret_error = place.error;
        }
        return r;
}
