/* Reading the config again: what would be refused, and what the running spawner cannot take over, since user namespaces, templates and
 * filters are made of it. */
#include "spawner/reload.h"

#include "common/config-check.h"
#include "spawner/complain.h"
#include "spawner/filter.h"
#include "spawner/template.h"

static bool same_text(const char *a, const char *b) {
        return streq(strempty(a), strempty(b));
}

/* Endings and profile are the server's business. */
static bool same_runtime(const struct Runtime *a, const struct Runtime *b) {
        return same_text(a->key, b->key) && same_text(a->exec, b->exec) && same_text(a->root, b->root) && same_text(a->code_name, b->code_name) &&
               strv_equal(a->args, b->args) && strv_equal(a->version_args, b->version_args) && strv_equal(a->env, b->env) &&
               strv_equal(a->preload, b->preload) && a->zygote == b->zygote && a->warm == b->warm && a->runner == b->runner &&
               a->read_only_workspace == b->read_only_workspace;
}

/* Every slice of a caller is also one of the other config's. */
static bool has_slices(const struct Config *c, const struct Config *of) {
        for (size_t i = 0; i < of->n_callers; i++)
                if (of->callers[i].slice && !config_slice(c, of->callers[i].slice))
                        return false;
        return true;
}

static const struct Runtime *find(const struct Config *c, const char *key) {
        for (size_t i = 0; i < c->n_runtimes; i++)
                if (same_text(c->runtimes[i].key, key))
                        return &c->runtimes[i];
        return NULL;
}

static int add_file(char ***files, const struct Runtime *runtime) {
        return strv_contains(*files, runtime->file) ? 0 : strv_extend(files, runtime->file);
}

/* Files of runtimes that are new, other than they were, or gone. */
static int changed_runtimes(const struct Config *was, const struct Config *is, char ***files) {
        int r = 0;

        for (size_t i = 0; i < is->n_runtimes && r >= 0; i++) {
                const struct Runtime *before = find(was, is->runtimes[i].key);
                if (!before || !same_runtime(before, &is->runtimes[i]))
                        r = add_file(files, &is->runtimes[i]);
        }
        for (size_t i = 0; i < was->n_runtimes && r >= 0; i++)
                if (!find(is, was->runtimes[i].key))
                        r = add_file(files, &was->runtimes[i]);
        return r;
}

int reload_needs_restart(const struct Config *was, const struct Config *is, char **ret) {
        char **files _cleanup_strv_ = NULL;
        const struct ConfigChange keys[] = {
                {"core-scheduling", was->core_scheduling == is->core_scheduling},
                {"debug-seccomp", was->debug_seccomp == is->debug_seccomp},
                {"driver", same_text(was->driver, is->driver)},
                {"io-max", strv_equal(was->io_max, is->io_max)},
                {"pool", was->pool || !is->pool},
                {"max-cells", was->max_cells == is->max_cells},
                {"priority", was->spawner_priority == is->spawner_priority},
                {"scope", was->shared_scopes == is->shared_scopes},
                {"seccomp-allow", strv_equal(was->seccomp_allow, is->seccomp_allow)},
                {"seccomp-deny", strv_equal(was->seccomp_deny, is->seccomp_deny)},
                {"seccomp-policy", same_text(was->seccomp_policy, is->seccomp_policy)},
                {"slice", has_slices(was, is) && has_slices(is, was)},
                {"spare-uid", was->spare_uid == is->spare_uid},
                {"uid-range", was->uid_start == is->uid_start && was->uid_count == is->uid_count},
                {"waive", strv_equal(was->waive, is->waive)},
        };
        int r = changed_runtimes(was, is, &files);

        return r < 0 ? r : config_changes(keys, ELEMENTSOF(keys), files, ret);
}

static int check_roots(const struct Config *config, char **ret_error) {
        for (size_t i = 0; i < config->n_runtimes; i++) {
                const struct Runtime *runtime = &config->runtimes[i];
                _cleanup_free_ char *why = NULL;
                int r = isempty(runtime->root) ? 0 : template_check_root(runtime->root, &why);
                if (r < 0)
                        return complain(ret_error, r, "%s: %s", runtime->file, why ? why : strerror(-r));
        }
        return 0;
}

int reload_check(const struct Config *config, char *const *waive, char **ret_error) {
        int r = config_check_files(config, ret_error);
        if (r >= 0)
                r = config_check_machine(config, ret_error);
        if (r >= 0)
                r = check_roots(config, ret_error);
        return r < 0 || strv_contains(config->waive, "seccomp") ? r : filter_check(config, waive, ret_error);
}
