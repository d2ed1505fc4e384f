/* The layers of the wall: their names, what is known of each, and how that is told. */
#include "spawner/layers.h"

#include <stdio.h>

#include "common/log.h"
#include "spawner/builder.h"
#include "spawner/complain.h"
#include "spawner/limits/driver.h"

static const struct {
        const char *name, *purpose;
        bool optional;
} layer_table[LAYER_MAX_] = {
        [LAYER_USER_NAMESPACE] = {"user_namespace", "one for each runtime; root in it is nobody on the host", false},
        [LAYER_MOUNT_NAMESPACE] = {"mount_namespace", "only /usr, a generated /etc and five devices are seen", false},
        [LAYER_PID_NAMESPACE] = {"pid_namespace", "processes outside have no number inside", false},
        [LAYER_IPC_NAMESPACE] = {"ipc_namespace", "shared memory and queues of its own", true},
        [LAYER_UTS_NAMESPACE] = {"uts_namespace", "a host name of its own", true},
        [LAYER_NETWORK_NAMESPACE] = {"network_namespace", "loopback alone", true},
        [LAYER_CGROUP_NAMESPACE] = {"cgroup_namespace", "the cgroups above are not seen", true},
        [LAYER_READ_ONLY_ROOT] = {"read_only_root", "what is writable has a cap; no set-uid files, no devices", false},
        [LAYER_PRIVATE_PROC] = {"private_proc", "processes of others are not seen", false},
        [LAYER_MASKED_PROC] = {"masked_proc", "the kernel's own facts and settings are hidden", true},
        [LAYER_SEPARATE_UIDS] = {"separate_uids", "two of each cell's own", false},
        [LAYER_NO_CAPABILITIES] = {"no_capabilities", "bounding set empty, securebits locked", true},
        [LAYER_NO_NEW_PRIVS] = {"no_new_privs", "no program gives privileges", true},
        [LAYER_CLOSED_DESCRIPTORS] = {"closed_descriptors", "three pipes and nothing else", false},
        [LAYER_CORE_LIMIT] = {"core_limit", "a crash writes nothing and starts no helper of the host", false},
        [LAYER_KEYRING] = {"keyring", "a session keyring of its own", true},
        [LAYER_LANDLOCK] = {"landlock", "a second wall around files, signals and sockets", true},
        [LAYER_SECCOMP] = {"seccomp", "system calls by an allowlist", true},
        [LAYER_CGROUP] = {"cgroup", "freeze, kill and accounting", false},
        [LAYER_MEMORY] = {"memory", "limit memory is enforced, swap is none", true},
        [LAYER_PIDS] = {"pids", "limit max-processes is enforced", true},
        [LAYER_CPU] = {"cpu", "limit cpus is enforced", true},
        [LAYER_IO] = {"io", "bytes read and written are counted", true},
};

const char *layer_name(enum Layer layer) {
        return layer_table[layer].name;
}

const char *layer_purpose(enum Layer layer) {
        return layer_table[layer].purpose;
}

enum Layer layer_by_name(const char *name) {
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++)
                if (streq(layer_table[i].name, name))
                        return i;
        return LAYER_NONE;
}

bool layer_is_optional(enum Layer layer) {
        return layer_table[layer].optional;
}

bool layer_is_controller(enum Layer layer) {
        return layer >= LAYER_MEMORY && layer <= LAYER_IO;
}

void layers_waive(struct Layers *l, char *const *names) {
        for (; names && *names; names++) {
                enum Layer layer = layer_by_name(*names);
                if (layer != LAYER_NONE)
                        l->reports[layer].waived = true;
        }
}

uint32_t layers_waived(const struct Layers *l) {
        uint32_t without = 0;
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++)
                if (l->reports[i].waived && !layer_is_controller(i))
                        without |= LAYER_BIT(i);
        return without;
}

void layers_note(struct Layers *l, enum Layer layer, int result, const char *attack) {
        if (layer <= LAYER_NONE || layer >= LAYER_MAX_)
                return;
        struct LayerReport *report = &l->reports[layer];
        if (report->state == LAYER_MISSING)
                return; /* the first cause is told */
        report->state = result == 0 ? LAYER_IN_FORCE : LAYER_MISSING;
        if (result > 0)
                snprintf(report->cause, sizeof report->cause, "code in a cell could %s", attack);
        else if (result < 0)
                snprintf(report->cause, sizeof report->cause, "cannot be probed (could code in a cell %s?): %s", attack, strerror(-result));
}

void layers_miss(struct Layers *l, enum Layer layer, const char *why) {
        struct LayerReport *report = &l->reports[layer];
        if (report->state == LAYER_MISSING)
                return;
        report->state = LAYER_MISSING;
        snprintf(report->cause, sizeof report->cause, "%s", why);
}

void layers_block(struct Layers *l, enum Layer layer, const char *why) {
        snprintf(l->blocked, sizeof l->blocked, "%s", why);
        if (layer != LAYER_NONE)
                layers_miss(l, layer, why);
}

static bool is_missing(const struct LayerReport *report) {
        return report->state != LAYER_IN_FORCE && !report->waived;
}

bool layers_are_complete(const struct Layers *l) {
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++)
                if (is_missing(&l->reports[i]))
                        return false;
        return true;
}

/* "landlock: not in the kernel's lsm= list; add it": what the operator reads first. */
static void put_missing(FILE *f, const struct Layers *l, enum Layer layer, bool first) {
        const struct LayerReport *report = &l->reports[layer];
        fprintf(f, "%s%s (%s%s%s)", first ? "" : "; ", layer_name(layer), isempty(report->cause) ? "not probed" : report->cause,
                isempty(report->cure) ? "" : "; cure: ", report->cure);
}

int layers_require(const struct Layers *l, char **ret_error) {
        _cleanup_free_ char *text = NULL, *flags = NULL;
        size_t size, flags_size, n = 0, n_flags = 0;
        if (layers_are_complete(l))
                return 0;
        FILE *f = open_memstream(&text, &size), *g = open_memstream(&flags, &flags_size);
        for (enum Layer i = LAYER_NONE + 1; f && g && i < LAYER_MAX_; i++) {
                if (!is_missing(&l->reports[i]))
                        continue;
                put_missing(f, l, i, n++ == 0);
                if (layer_is_optional(i))
                        fprintf(g, "%s%s", n_flags++ ? "," : "", layer_name(i));
        }
        bool failed = !f || !g;
        if (f && fclose(f) != 0)
                failed = true;
        if (g && fclose(g) != 0)
                failed = true;
        if (failed)
                return -ENOMEM;
        return complain(ret_error, -EOPNOTSUPP, "%s of the wall not in force: %s%s%s. See `glovebox-spawner --check`.",
                        n == 1 ? "a layer is" : "layers are", text, n_flags ? "; to run without: --waive " : "", flags);
}

void layers_log(const struct Layers *l) {
        size_t n = 0;
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++) {
                const struct LayerReport *report = &l->reports[i];
                n += report->state == LAYER_IN_FORCE;
                if (report->state != LAYER_IN_FORCE)
                        log_event(LOG_WARNING, MESSAGE_LAYER_WAIVED, 0, NULL, "Layer %s is waived: cells run without it%s%s.", layer_name(i),
                                  isempty(report->cause) ? "" : ": ", report->cause);
        }
        log_info("%zu of %d layers of the wall were attacked from inside a cell and are in force.", n, LAYER_MAX_ - 1);
}

static void describe(enum Layer layer, struct LayerReport *report) {
        if (report->state == LAYER_IN_FORCE)
                snprintf(report->detail, sizeof report->detail, "%s", layer_purpose(layer));
        else
                snprintf(report->detail, sizeof report->detail, "%s%s%s", report->waived ? "waived by the operator" : "",
                         report->waived && *report->cause ? ": " : "", report->cause);
}

static int fill_layers(struct Layers *l, Glovebox__Internal__HelloReply *reply) {
        reply->layers = calloc(LAYER_MAX_, sizeof *reply->layers);
        if (!reply->layers)
                return -ENOMEM;
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++) {
                if (layer_is_controller(i))
                        continue; /* limits_not_enforced tells */
                struct LayerReport *report = &l->reports[i];
                Glovebox__Internal__Layer *m = malloc(sizeof *m);
                if (!m)
                        return -ENOMEM;
                glovebox__internal__layer__init(m);
                m->name = (char *) layer_name(i);
                m->in_force = report->state == LAYER_IN_FORCE;
                describe(i, report);
                m->detail = report->detail;
                reply->layers[reply->n_layers++] = m;
        }
        return 0;
}

static bool is_enforced(const char *controller, unsigned controllers) {
        for (size_t i = 0; controller && controller_names[i]; i++)
                if (streq(controller_names[i], controller))
                        return controllers & (1U << i);
        return true;
}

static int fill_limits(unsigned controllers, Glovebox__Internal__HelloReply *reply) {
        size_t n = 0;
        while (limit_table[n].field)
                n++;
        reply->limits_not_enforced = calloc(n + 1, sizeof *reply->limits_not_enforced);
        if (!reply->limits_not_enforced)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (!is_enforced(limit_table[i].controller, controllers))
                        reply->limits_not_enforced[reply->n_limits_not_enforced++] = (char *) limit_table[i].key;
        return 0;
}

static int fill_runtimes(const struct CellWorld *world, Glovebox__Internal__HelloReply *reply) {
        const struct Config *config = world->config;
        reply->runtimes = calloc(config->n_runtimes + 1, sizeof *reply->runtimes);
        if (!reply->runtimes)
                return -ENOMEM;
        for (size_t i = 0; i < config->n_runtimes; i++) {
                Glovebox__Internal__RuntimeState *s = malloc(sizeof *s);
                if (!s)
                        return -ENOMEM;
                glovebox__internal__runtime_state__init(s);
                int error = builder_exec_error(world->builder, (unsigned) i);
                s->name = config->runtimes[i].key;
                s->available = error == 0;
                s->detail = error == 0 ? (char *) "" : error == -ENOENT ? (char *) "the interpreter is not installed" : strerror(-error);
                reply->runtimes[reply->n_runtimes++] = s;
        }
        return 0;
}

int layers_fill(const struct CellWorld *world, Glovebox__Internal__HelloReply *reply) {
        int r = fill_layers(world->layers, reply);
        if (r >= 0)
                r = fill_limits(world->cgroups->controllers, reply);
        return r < 0 ? r : fill_runtimes(world, reply);
}

void layers_done(Glovebox__Internal__HelloReply *reply) {
        for (size_t i = 0; i < reply->n_layers; i++)
                free(reply->layers[i]);
        for (size_t i = 0; i < reply->n_runtimes; i++)
                free(reply->runtimes[i]);
        free(reply->layers);
        free(reply->runtimes);
        free(reply->limits_not_enforced);
}
