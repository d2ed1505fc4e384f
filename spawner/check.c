/* glovebox-spawner --check: what of the wall this machine gives, why not, and what helps. */
#include "spawner/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/log.h"
#include "spawner/layers.h"
#include "spawner/machine.h"
#include "spawner/slots.h"

#define OWN_UIDS (SLOT_UIDS_FIRST + 16)

/* The state and the words for it; a waived layer that is in force all the same (a controller) is in force. */
static const char *state_word(const struct LayerReport *report) {
        if (report->state == LAYER_IN_FORCE)
                return "in force";
        if (report->waived)
                return "waived";
        return report->state == LAYER_MISSING ? "MISSING" : "unknown";
}

static const char *state_key(const struct LayerReport *report) {
        if (report->state == LAYER_IN_FORCE)
                return "in_force";
        if (report->waived)
                return "waived";
        return report->state == LAYER_MISSING ? "missing" : "unknown";
}

static void print_table(const struct Layers *l, const struct Machine *m) {
        unsigned n_in_force = 0, n_waived = 0;
        printf("glovebox-spawner %s on Linux %s: each layer of the wall, attacked from inside a cell\n\n", GLOVEBOX_VERSION, m->release);
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++) {
                const struct LayerReport *report = &l->reports[i];
                bool in_force = report->state == LAYER_IN_FORCE;
                n_in_force += in_force;
                n_waived += !in_force && report->waived;
                printf("  %-18s  %-8s  %s\n", layer_name(i), state_word(report), in_force ? layer_purpose(i) : report->cause);
                if (!in_force && !isempty(report->cure))
                        printf("  %-18s  %-8s  cure: %s\n", "", "", report->cure);
        }
        putchar('\n');
        const char *cure = NULL, *obstacle = machine_obstacle(m, &cure);
        if (!isempty(l->blocked))
                printf("No cell can be made as configured: %s.\n", l->blocked);
        if (!isempty(l->blocked) && obstacle)
                printf("The reason: %s. The cure: %s.\n", obstacle, cure);
        for (unsigned i = 0; machine_remark(m, i); i++)
                printf("Note: %s.\n", machine_remark(m, i));
        printf("%u of %d layers are in force, %u waived. ", n_in_force, LAYER_MAX_ - 1, n_waived);
        puts(layers_are_complete(l) && isempty(l->blocked) ? "The spawner starts." : "The spawner refuses to start.");
}

static void put_json(const char *key, const char *text, const char *end) {
        printf("\"%s\": \"", key);
        for (; *text; text++) {
                unsigned char c = (unsigned char) *text;
                if (c == '"' || c == '\\')
                        printf("\\%c", c);
                else if (c < 0x20)
                        printf("\\u%04x", c);
                else
                        putchar(c);
        }
        printf("\"%s", end);
}

static void print_json(const struct Layers *l, const struct Machine *m) {
        printf("{");
        put_json("version", GLOVEBOX_VERSION, ", ");
        put_json("kernel", m->release, ", ");
        printf("\"complete\": %s, ", layers_are_complete(l) && isempty(l->blocked) ? "true" : "false");
        const char *cure = "", *obstacle = isempty(l->blocked) ? NULL : machine_obstacle(m, &cure);
        put_json("blocked", l->blocked, ", ");
        put_json("obstacle", strempty(obstacle), ", ");
        put_json("cure", cure, ", \"layers\": [\n");
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++) {
                const struct LayerReport *report = &l->reports[i];
                printf("  {");
                put_json("name", layer_name(i), ", ");
                put_json("state", state_key(report), ", ");
                printf("\"waived\": %s, \"may_be_waived\": %s, ", report->waived ? "true" : "false", layer_is_optional(i) ? "true" : "false");
                put_json("purpose", layer_purpose(i), ", ");
                put_json("cause", report->cause, ", ");
                put_json("cure", report->cure, i + 1 < LAYER_MAX_ ? "},\n" : "}\n");
        }
        printf("], \"remarks\": [");
        for (unsigned i = 0; machine_remark(m, i); i++) {
                printf("%s{", i ? ", " : "");
                put_json("text", machine_remark(m, i), "}");
        }
        puts("]}");
}

/* Checks in different cgroups have nothing in common. */
static uint32_t own_cgroup(void) {
        char text[4096] = "";
        uint32_t hash = 2166136261u;
        int fd _cleanup_close_ = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);

        if (fd >= 0)
                (void) read_small(fd, text, sizeof text);
        for (const char *p = text; *p; p++)
                hash = (hash ^ (uint8_t) *p) * 16777619u;
        return hash;
}

/* What names the check's part of the cgroup tree: always the same in one cgroup, so that the next one sweeps what a killed one left. While
 * one runs the name is taken, and a second has another. Returns the descriptor that keeps it. */
static int take_name(char *out, size_t size) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "glovebox-check-%08x", own_cgroup());
        bool is_ours = fd >= 0 && bind(fd, (const struct sockaddr *) &address, sizeof address) == 0;
        if (is_ours)
                snprintf(out, size, "check");
        else
                snprintf(out, size, "check-%d", getpid());
        return TAKE_FD(fd);
}

int check_run(struct Config *config, sd_event *event, char *const *waive, uint32_t broken, bool json) {
        struct Layers layers = {};
        struct Spawner *spawner = NULL;
        _cleanup_free_ char *error = NULL;
        char state[64];
        _cleanup_close_ int name = take_name(state, sizeof state);
        if (config->uid_count > 2 * OWN_UIDS) {
                config->uid_start += config->uid_count - OWN_UIDS;
                config->uid_count = OWN_UIDS;
        }
        const struct SpawnerSetup setup = {
                .event = event, .config = config, .state = state, .waive = waive, .layers = &layers, .broken = broken, .check = true,
                .listener = -EBADF,
        };
        int r = spawner_new(&setup, &spawner, &error);
        spawner_free(spawner);
        const struct Machine machine = machine_look();
        if (r < 0)
                machine_explain(&machine, &layers);
        if (json)
                print_json(&layers, &machine);
        else
                print_table(&layers, &machine);
        if (fflush(stdout) != 0)
                return log_error_errno(errno, "Failed to print: %m");
        return layers_are_complete(&layers) && isempty(layers.blocked);
}
