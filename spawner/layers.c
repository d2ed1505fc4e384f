/* The layers of the wall: what is known of each, and how that is told. */
#include "spawner/layers.h"

#include <stdio.h>

#include "common/log.h"
#include "spawner/builder.h"
#include "spawner/complain.h"
#include "spawner/limits/driver.h"

static const char *const purposes[LAYER_MAX_] = {
        [LAYER_USER_NAMESPACE] = "one for each runtime; root in it is nobody on the host",
        [LAYER_MOUNT_NAMESPACE] = "only /usr, a generated /etc and five devices are seen",
        [LAYER_PID_NAMESPACE] = "processes outside have no number inside",
        [LAYER_IPC_NAMESPACE] = "shared memory and queues of its own",
        [LAYER_UTS_NAMESPACE] = "a host name of its own",
        [LAYER_NETWORK_NAMESPACE] = "loopback alone",
        [LAYER_CGROUP_NAMESPACE] = "the cgroups above are not seen",
        [LAYER_READ_ONLY_ROOT] = "what is writable has a cap; no set-uid files, no devices",
        [LAYER_PRIVATE_PROC] = "processes of others are not seen",
        [LAYER_MASKED_PROC] = "the kernel's own facts and settings are hidden",
        [LAYER_SEPARATE_UIDS] = "two of each cell's own",
        [LAYER_NO_CAPABILITIES] = "bounding set empty, securebits locked",
        [LAYER_NO_NEW_PRIVS] = "no program gives privileges",
        [LAYER_CLOSED_DESCRIPTORS] = "three pipes and nothing else",
        [LAYER_CORE_LIMIT] = "a crash writes nothing and starts no helper of the host",
        [LAYER_KEYRING] = "a session keyring of its own",
        [LAYER_LANDLOCK] = "a second wall around files, signals and sockets",
        [LAYER_SECCOMP] = "system calls by an allowlist",
        [LAYER_CGROUP] = "freeze, kill and accounting",
        [LAYER_MEMORY] = "limit memory is enforced, swap is none",
        [LAYER_PIDS] = "limit max-processes is enforced",
        [LAYER_CPU] = "limit cpus is enforced",
        [LAYER_IO] = "bytes read and written are counted",
};

const char *layer_purpose(enum Layer layer) {
        return purposes[layer];
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

char *layers_runtime_trouble(const struct CellWorld *world, size_t i) {
        const struct Runtime *runtime = &world->config->runtimes[i];
        int error = builder_exec_error(world->builder, (unsigned) i);
        char *text = NULL;
        if (error == 0)
                return strdup("");
        const char *where = runtime->root ? "in its root" : "in a cell, which has the host's /usr";
        int n = error == -ENOENT ? asprintf(&text, "the interpreter is not installed: there is no %s %s", runtime->exec, where)
                                 : asprintf(&text, "%s, %s, cannot be run: %s", runtime->exec, where, strerror(-error));
        return n < 0 ? NULL : text;
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
                reply->runtimes[reply->n_runtimes++] = s;
                s->name = config->runtimes[i].key;
                s->available = builder_exec_error(world->builder, (unsigned) i) == 0;
                s->detail = layers_runtime_trouble(world, i);
                if (!s->detail)
                        return -ENOMEM;
        }
        return 0;
}

int layers_fill(const struct CellWorld *world, Glovebox__Internal__HelloReply *reply) {
        int r = fill_layers(world->layers, reply);
        if (r >= 0)
                r = fill_limits(world->cgroups->controllers, reply);
        return r < 0 ? r : fill_runtimes(world, reply);
}

static void runtime_done(Glovebox__Internal__RuntimeState *s) {
        if (s->detail != protobuf_c_empty_string)
                free(s->detail);
        free(s);
}

void layers_done(Glovebox__Internal__HelloReply *reply) {
        for (size_t i = 0; i < reply->n_layers; i++)
                free(reply->layers[i]);
        for (size_t i = 0; i < reply->n_runtimes; i++)
                runtime_done(reply->runtimes[i]);
        free(reply->layers);
        free(reply->runtimes);
        free(reply->limits_not_enforced);
}
