/* Layers: what probes and the machine say of them, and what the operator reads. */
#include <stdio.h>

#include "common/probe.h"
#include "spawner/layers.h"
#include "spawner/machine.h"
#include "tests/unit/unit.h"

#define ALL_CAPABILITIES (~UINT64_C(0))

/* A machine with everything. */
static struct Machine good_machine(void) {
        return (struct Machine) {
                .release = "6.12.0", .major = 6, .minor = 12, .is_root = true, .capabilities = ALL_CAPABILITIES, .cgroup = CGROUP_UNIFIED,
                .max_user_namespaces = 1000, .apparmor_userns = -1, .userns_clone = -1, .memfd_noexec = 0, .yama = 1, .landlock = 6,
                .has_seccomp = true, .has_keys = true,
        };
}

static void set_all(struct Layers *l, enum LayerState state) {
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++)
                l->reports[i].state = state;
}

static void every_layer_has_a_name(void **state) {
        for (enum Layer i = LAYER_NONE + 1; i < LAYER_MAX_; i++) {
                assert_non_null(layer_name(i));
                assert_true(strlen(layer_purpose(i)) > 0);
                assert_int_equal(layer_by_name(layer_name(i)), i);
        }
        assert_int_equal(layer_by_name("landlok"), LAYER_NONE);
        assert_int_equal(layer_by_name(""), LAYER_NONE);
        assert_false(layer_is_optional(LAYER_USER_NAMESPACE));
        assert_true(layer_is_optional(LAYER_LANDLOCK));
}

static void the_worst_result_stays(void **state) {
        struct Layers l = {};
        layers_note(&l, LAYER_LANDLOCK, 0, "do A");
        assert_int_equal(l.reports[LAYER_LANDLOCK].state, LAYER_IN_FORCE);
        layers_note(&l, LAYER_LANDLOCK, 1, "do B");
        layers_note(&l, LAYER_LANDLOCK, 0, "do C");
        layers_note(&l, LAYER_LANDLOCK, 1, "do D");
        assert_int_equal(l.reports[LAYER_LANDLOCK].state, LAYER_MISSING);
        assert_string_equal(l.reports[LAYER_LANDLOCK].cause, "code in a cell could do B");
        layers_note(&l, LAYER_SECCOMP, -EIO, "do E"); /* what cannot be tried is not proven */
        assert_int_equal(l.reports[LAYER_SECCOMP].state, LAYER_MISSING);
        layers_note(&l, LAYER_MAX_, 0, "");
        layers_note(&l, LAYER_NONE, 1, "");
        assert_int_equal(l.reports[LAYER_NONE].state, LAYER_UNKNOWN);
}

static void all_must_be_proven_or_waived(void **state) {
        struct Layers l = {};
        char *waive[] = {(char *) "landlock", (char *) "memory", NULL};
        char *error = NULL;
        assert_false(layers_are_complete(&l)); /* nothing probed is not complete */
        set_all(&l, LAYER_IN_FORCE);
        assert_int_equal(layers_require(&l, &error), 0);
        l.reports[LAYER_LANDLOCK].state = LAYER_MISSING;
        l.reports[LAYER_PID_NAMESPACE].state = LAYER_UNKNOWN;
        snprintf(l.reports[LAYER_LANDLOCK].cause, LAYER_TEXT_MAX, "CAUSE");
        snprintf(l.reports[LAYER_LANDLOCK].cure, LAYER_TEXT_MAX, "CURE");
        assert_error(layers_require(&l, &error), EOPNOTSUPP);
        assert_non_null(strstr(error, "landlock (CAUSE; cure: CURE)"));
        assert_non_null(strstr(error, "pid_namespace (not probed)"));
        assert_non_null(strstr(error, "--waive landlock."));
        assert_null(strchr(error, '\n'));
        free(error);
        l.reports[LAYER_PID_NAMESPACE].state = LAYER_IN_FORCE;
        layers_waive(&l, waive);
        assert_int_equal(layers_waived(&l), LAYER_BIT(LAYER_LANDLOCK)); /* a controller is used where it is there */
        assert_int_equal(layers_require(&l, &error), 0);
}

static void a_block_is_told(void **state) {
        struct Layers l = {};
        layers_block(&l, LAYER_NONE, "NOTHING");
        assert_string_equal(l.blocked, "NOTHING");
        layers_block(&l, LAYER_CGROUP, "GROUP");
        assert_int_equal(l.reports[LAYER_CGROUP].state, LAYER_MISSING);
        layers_miss(&l, LAYER_CGROUP, "LATER");
        assert_string_equal(l.reports[LAYER_CGROUP].cause, "GROUP");
}

/* One fact is wrong: which layer's cause and cure speak of it. */
static void causes_and_cures(void **state) {
        struct Machine m[] = {
                [0] = good_machine(), [1] = good_machine(), [2] = good_machine(), [3] = good_machine(), [4] = good_machine(),
                [5] = good_machine(), [6] = good_machine(), [7] = good_machine(), [8] = good_machine(), [9] = good_machine(),
                [10] = good_machine(), [11] = good_machine(), [12] = good_machine(), [13] = good_machine(),
        };
        m[0].max_user_namespaces = 0;
        m[1].apparmor_userns = 1;
        m[2].landlock = -EOPNOTSUPP;
        m[3].landlock = -ENOSYS;
        m[4].landlock = -ENOSYS, m[4].has_filter = true;
        m[5].has_seccomp = false;
        m[6].cgroup = CGROUP_HYBRID;
        m[7].cgroup = CGROUP_NONE;
        m[8].proc_is_masked = true;
        m[9].userns_clone = 0;
        m[10].core_pattern = '|';
        m[13].core_pattern = '@';
        m[11].has_keys = false;
        m[12].cgroup_is_read_only = true;
        static const struct {
                enum Layer layer;
                const char *cause, *cure;
        } expected[] = {
                [0] = {LAYER_USER_NAMESPACE, "max_user_namespaces is 0", "sysctl"},
                [1] = {LAYER_USER_NAMESPACE, "apparmor_restrict_unprivileged_userns", "userns,"},
                [2] = {LAYER_LANDLOCK, "not switched on at boot", "lsm="},
                [3] = {LAYER_LANDLOCK, "has no Landlock", "CONFIG_SECURITY_LANDLOCK"},
                [4] = {LAYER_LANDLOCK, "filter around this process", "seccomp=unconfined"},
                [5] = {LAYER_SECCOMP, "no seccomp", "CONFIG_SECCOMP_FILTER"},
                [6] = {LAYER_MEMORY, "hybrid", "unified_cgroup_hierarchy"},
                [7] = {LAYER_CGROUP, "no cgroup2", "mount -t cgroup2"},
                [8] = {LAYER_PRIVATE_PROC, "masked", "systempaths=unconfined"},
                [9] = {LAYER_USER_NAMESPACE, "unprivileged_userns_clone", "sysctl"},
                [10] = {LAYER_CORE_LIMIT, "core_pattern", "LimitCORE=1"},
                [11] = {LAYER_KEYRING, "no keyrings", "CONFIG_KEYS"},
                [12] = {LAYER_CGROUP, "read-only", "privileged"},
                [13] = {LAYER_CORE_LIMIT, "is a socket", "without @"},
        };
        for (size_t i = 0; i < ELEMENTSOF(expected); i++) {
                struct Layers l = {};
                const char *cure = NULL;
                set_all(&l, LAYER_IN_FORCE);
                l.reports[expected[i].layer].state = LAYER_MISSING;
                machine_explain(&m[i], &l);
                const struct LayerReport *report = &l.reports[expected[i].layer];
                if (!strstr(report->cause, expected[i].cause) || !strstr(report->cure, expected[i].cure))
                        fail_msg("%zu: cause \"%s\", cure \"%s\"", i, report->cause, report->cure);
                for (enum Layer k = LAYER_NONE + 1; k < LAYER_MAX_; k++)
                        assert_true(k == expected[i].layer || !*l.reports[k].cause); /* what is in force needs no cause */
                assert_null(machine_obstacle(&m[i], &cure));
        }
}

static void obstacles(void **state) {
        struct Machine m[] = {good_machine(), good_machine(), good_machine(), good_machine(), good_machine(), good_machine()};
        const char *const words[] = {"root", "6.1", "user namespace", "container", "CAP_SYS_ADMIN", "memfd_noexec"};
        m[0].is_root = false;
        m[1].major = 5, m[1].minor = 15;
        m[2].in_user_namespace = true;
        m[3].in_container = true, m[3].capabilities = 0;
        m[4].capabilities = 0;
        m[5].memfd_noexec = 2;
        for (size_t i = 0; i < ELEMENTSOF(m); i++) {
                const char *cure = NULL, *obstacle = machine_obstacle(&m[i], &cure);
                assert_non_null(obstacle);
                assert_non_null(strstr(obstacle, words[i]));
                assert_true(strlen(cure) > 0);
        }
}

static void unprobed_layers_get_only_their_own_causes(void **state) {
        struct Machine m = good_machine();
        struct Layers l = {};
        m.is_root = false;
        m.landlock = -EOPNOTSUPP;
        machine_explain(&m, &l);
        assert_string_equal(l.reports[LAYER_PID_NAMESPACE].cause, "not probed, as no cell could be made");
        assert_string_equal(l.reports[LAYER_PID_NAMESPACE].cure, "");
        assert_non_null(strstr(l.reports[LAYER_LANDLOCK].cause, "not switched on"));
}

static void remarks(void **state) {
        struct Machine m = good_machine();
        assert_null(machine_remark(&m, 0));
        m.yama = 3;
        m.in_container = true;
        assert_non_null(strstr(machine_remark(&m, 0), "container"));
        assert_non_null(strstr(machine_remark(&m, 1), "ptrace_scope"));
        assert_null(machine_remark(&m, 2));
}

static void masked_proc_is_seen(void **state) {
        assert_false(machine_proc_is_masked(""));
        assert_false(machine_proc_is_masked("22 28 0:21 / /proc rw,nosuid - proc proc rw\n30 22 0:25 / /sys ro - sysfs sysfs ro\n"));
        assert_false(machine_proc_is_masked("22 28 0:21 / /proc rw,nosuid - proc proc rw\n"
                                            "40 22 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"));
        assert_true(machine_proc_is_masked("22 28 0:21 / /proc rw - proc proc rw\n41 22 0:5 /null /proc/kcore rw - devtmpfs udev rw\n"));
        assert_true(machine_proc_is_masked("22 28 0:21 / /proc ro,nosuid - proc proc rw"));
        assert_true(machine_proc_is_masked("22 28 0:21 / /proc nosuid,ro - proc proc rw"));
        assert_false(machine_proc_is_masked("22 28 0:21 / /proc errors=remount-ro - proc proc rw"));
        assert_false(machine_proc_is_masked("22\n22 28\n\n"));
}

static void mapped_ids_are_seen(void **state) {
        assert_false(machine_is_mapped("         0          0 4294967295\n"));
        assert_true(machine_is_mapped("         0       1000          1\n"));
        assert_true(machine_is_mapped("         0     100000      65536\n"));
        assert_true(machine_is_mapped("0 0 65536\n"));
        assert_true(machine_is_mapped(""));
}

RUN(T(every_layer_has_a_name), T(the_worst_result_stays), T(all_must_be_proven_or_waived), T(a_block_is_told), T(causes_and_cures), T(obstacles),
    T(unprobed_layers_get_only_their_own_causes), T(remarks), T(masked_proc_is_seen), T(mapped_ids_are_seen))
