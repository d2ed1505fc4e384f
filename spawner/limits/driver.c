/* Which driver makes cells' cgroups, and what is the same for all drivers. */
#include "spawner/limits/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "common/log.h"
#include "spawner/complain.h"
#include "spawner/limits/systemd.h"

const char *const controller_names[] = {"memory", "pids", "cpu", "io", NULL};

int cgroup_check_kernel(int dir, const char *path, char **ret_error) {
        static const char *const needed[] = {"cgroup.freeze", "cgroup.kill", "cpu.stat"};
        for (size_t i = 0; i < ELEMENTSOF(needed); i++)
                if (faccessat(dir, needed[i], F_OK, 0) < 0)
                        return complain(ret_error, -EOPNOTSUPP, "%s/%s is missing: the kernel is too old, Linux 6.1 is the oldest that works",
                                    path, needed[i]);
        return 0;
}

void controllers_missing(unsigned enabled, char *const *waive, char *out, size_t size) {
        *out = 0;
        for (size_t i = 0; controller_names[i]; i++) {
                if ((enabled & (1U << i)) || strv_contains(waive, controller_names[i]))
                        continue;
                size_t used = strlen(out);
                snprintf(out + used, size - used, "%s%s", used ? "," : "", controller_names[i]);
        }
}

unsigned controllers_waived(char *const *waive) {
        unsigned bits = 0;
        for (size_t i = 0; controller_names[i]; i++)
                if (strv_contains(waive, controller_names[i]))
                        bits |= 1U << i;
        return bits;
}

struct CellCgroup *cell_cgroup_free(struct CellCgroup *g) {
        if (!g)
                return NULL;
        if (g->owner->driver->forget)
                g->owner->driver->forget(g);
        close_fd(g->dir);
        free(g);
        return NULL;
}

/* Only this choice may fall back, and only before anything was begun: a systemd that is there and then does not do is an error. */
static const struct CgroupDriver *default_driver(void) {
        if (geteuid() != 0 || sd_booted() <= 0)
                return &cgroupfs_driver;
        int r = manager_probe();
        if (r >= 0)
                return &systemd_driver;
        log_notice("systemd is PID 1, but there is no system bus to ask it for scopes (%s): cells get cgroups below the spawner's own.", strerror(-r));
        return &cgroupfs_driver;
}

int cgroups_start(const char *name, const struct CgroupSetup *setup, struct Cgroups **ret, char **ret_error) {
        static const struct CgroupDriver *const drivers[] = {&cgroupfs_driver, &systemd_driver};
        const struct CgroupDriver *driver = NULL;
        for (size_t i = 0; i < ELEMENTSOF(drivers); i++)
                if (streq(drivers[i]->name, name))
                        driver = drivers[i];
        if (!driver && !isempty(name))
                return complain(ret_error, -EINVAL, "there is no cgroup driver \"%s\"; set driver = systemd or cgroupfs in section [spawner]", name);
        if (!driver)
                driver = default_driver();
        int r = driver->start(setup, ret, ret_error);
        if (r >= 0)
                log_info("Cgroups of cells are made by the driver %s%s.", driver->name, setup->shared && driver == &systemd_driver ? ", in shared scopes" : "");
        return r;
}
