/* What this spawner enforces and what it does not, as HelloReply tells it. */
#include "spawner/layers.h"

#include "spawner/builder.h"
#include "spawner/limits/driver.h"

/* A cell without one of the layers in force never comes to be: its making fails at the step of that layer. */
static const struct {
        const char *name;
        bool in_force;
        const char *detail;
} layer_table[] = {
        {"user_namespace", true, "one for each runtime; root in it is nobody on the host"},
        {"mount_namespace", true, "only /usr, a generated /etc and five devices are seen"},
        {"pid_namespace", true, ""},
        {"ipc_namespace", true, ""},
        {"uts_namespace", true, ""},
        {"network_namespace", true, "loopback alone"},
        {"cgroup_namespace", true, ""},
        {"read_only_root", true, "writable: /workspace, /tmp, /dev/shm, each with a cap"},
        {"private_proc", true, "processes of others are not seen"},
        {"separate_uids", true, "two of each cell's own"},
        {"no_capabilities", true, "bounding set empty, securebits locked"},
        {"no_new_privs", true, ""},
        {"closed_descriptors", true, ""},
        {"cgroup", true, "freeze, kill and accounting"},
        {"keyring", false, "not built yet"},
        {"landlock", false, "not built yet"},
        {"seccomp", false, "not built yet"},
};

static int fill_layers(Glovebox__Internal__HelloReply *reply) {
        reply->layers = calloc(ELEMENTSOF(layer_table), sizeof *reply->layers);
        if (!reply->layers)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(layer_table); i++) {
                Glovebox__Internal__Layer *l = malloc(sizeof *l);
                if (!l)
                        return -ENOMEM;
                glovebox__internal__layer__init(l);
                l->name = (char *) layer_table[i].name;
                l->in_force = layer_table[i].in_force;
                l->detail = (char *) layer_table[i].detail;
                reply->layers[reply->n_layers++] = l;
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
        int r = fill_layers(reply);
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
