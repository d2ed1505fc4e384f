/* The layers of the wall by name. */
#include "common/layer.h"

#include "common/util.h"

static const struct {
        const char *name;
        bool optional;
} layer_table[LAYER_MAX_] = {
        [LAYER_USER_NAMESPACE] = { "user_namespace", false },
        [LAYER_MOUNT_NAMESPACE] = { "mount_namespace", false },
        [LAYER_PID_NAMESPACE] = { "pid_namespace", false },
        [LAYER_IPC_NAMESPACE] = { "ipc_namespace", true },
        [LAYER_UTS_NAMESPACE] = { "uts_namespace", true },
        [LAYER_NETWORK_NAMESPACE] = { "network_namespace", true },
        [LAYER_CGROUP_NAMESPACE] = { "cgroup_namespace", true },
        [LAYER_READ_ONLY_ROOT] = { "read_only_root", false },
        [LAYER_PRIVATE_PROC] = { "private_proc", false },
        [LAYER_MASKED_PROC] = { "masked_proc", true },
        [LAYER_SEPARATE_UIDS] = { "separate_uids", false },
        [LAYER_NO_CAPABILITIES] = { "no_capabilities", true },
        [LAYER_NO_NEW_PRIVS] = { "no_new_privs", true },
        [LAYER_CLOSED_DESCRIPTORS] = { "closed_descriptors", false },
        [LAYER_CORE_LIMIT] = { "core_limit", false },
        [LAYER_KEYRING] = { "keyring", true },
        [LAYER_LANDLOCK] = { "landlock", true },
        [LAYER_SECCOMP] = { "seccomp", true },
        [LAYER_CGROUP] = { "cgroup", false },
        [LAYER_MEMORY] = { "memory", true },
        [LAYER_PIDS] = { "pids", true },
        [LAYER_CPU] = { "cpu", true },
        [LAYER_IO] = { "io", true },
};

const char *layer_name(enum Layer layer) {
        return layer_table[layer].name;
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

const char *layer_refuse_waiver(const char *name) {
        static char text[512];
        enum Layer layer = layer_by_name(name);
        const char *between = layer == LAYER_NONE ? "cannot be waived; possible are "
                                                  : "cannot be waived, since no cell can be made without it; possible are ";

        if (layer != LAYER_NONE && layer_is_optional(layer))
                return NULL;
        (void) snprintf(text, sizeof text, "%s", between);
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++) {
                size_t n = strlen(text);

                if (layer_is_optional(i))
                        (void) snprintf(text + n, sizeof text - n, "%s%s", n > strlen(between) ? ", " : "", layer_name(i));
        }
        return text;
}
