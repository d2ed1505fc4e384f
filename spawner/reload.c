/* Reading the config again: what the running spawner cannot take over, since user namespaces, templates and filters are made of it. */
#include "spawner/reload.h"

static bool same_text(const char *a, const char *b) {
        return streq(strempty(a), strempty(b));
}

/* Endings and profile are the server's business. */
static bool same_runtime(const struct Runtime *a, const struct Runtime *b) {
        return same_text(a->key, b->key) && same_text(a->exec, b->exec) && same_text(a->root, b->root) && same_text(a->code_name, b->code_name) &&
               strv_equal(a->args, b->args) && strv_equal(a->version_args, b->version_args) && strv_equal(a->env, b->env);
}

const char *reload_needs_restart(const struct Config *was, const struct Config *is) {
        const struct {
                const char *key;
                bool same;
        } keys[] = {
                {"driver", same_text(was->driver, is->driver)},
                {"scope", was->shared_scopes == is->shared_scopes},
                {"uid-range", was->uid_start == is->uid_start && was->uid_count == is->uid_count},
                {"spare-uid", was->spare_uid == is->spare_uid},
                {"seccomp-policy", same_text(was->seccomp_policy, is->seccomp_policy)},
                {"seccomp-allow", strv_equal(was->seccomp_allow, is->seccomp_allow)},
                {"seccomp-deny", strv_equal(was->seccomp_deny, is->seccomp_deny)},
                {"debug-seccomp", was->debug_seccomp == is->debug_seccomp},
                {"waive", strv_equal(was->waive, is->waive)},
                {"core-scheduling", was->core_scheduling == is->core_scheduling},
                {"max-cells", was->max_cells == is->max_cells},
                {"runtimes.d", was->n_runtimes == is->n_runtimes},
        };
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (!keys[i].same)
                        return keys[i].key;
        for (size_t i = 0; i < was->n_runtimes; i++)
                if (!same_runtime(&was->runtimes[i], &is->runtimes[i]))
                        return strempty(is->runtimes[i].file);
        return NULL;
}
