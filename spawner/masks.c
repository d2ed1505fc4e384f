/* A cell's /proc shows its processes; what is beside them is the host's. So all of it is covered but what is named here, whatever the kernel
 * puts there. The processes of the cell's own pid namespace need no cover. */
#include "spawner/masks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "spawner/facts.h"

/* The kernel's answers that hold for every cell alike, or for this cell alone. */
static const char *const kept[] = {
        "cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "sysvipc", "uptime", "version", "vmstat",
};

static bool is_kept(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                if (streq(kept[i], name))
                        return true;
        return name[0] == '.' || (name[0] >= '0' && name[0] <= '9');
}

/* The facts are mounted read-only, so what is bound from there is too. What has gone meanwhile needs no cover. In one call: dozens of these
 * make up much of a cell's making. */
static int cover(const char *path, const char *name) {
        return mount(name, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT ? -errno : 0;
}

static int sys_read_only(void) {
        if (mount("/proc/sys", "/proc/sys", NULL, MS_BIND, NULL) < 0)
                return errno == ENOENT ? 0 : -errno;
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
        if (mount_setattr(AT_FDCWD, "/proc/sys", 0, &attr, sizeof attr) < 0)
                return -errno;
        /* Counters of the whole machine's files, which two cells could signal by. */
        return cover("/proc/sys/fs", FACT_EMPTY);
}

static int cover_by_facts(void) {
        for (int i = 0; i < FACT_MAX_; i++) {
                int r = strncmp(fact_path(i), "/proc/", 6) == 0 ? cover(fact_path(i), fact_name(i)) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Links lead to a process's own. What only root may open is refused by its mode: nobody is root of the host here. */
static int cover_entry(int proc, const struct dirent *e) {
        struct stat st;
        char path[sizeof "/proc/" + sizeof e->d_name];
        if (is_kept(e->d_name) || e->d_type == DT_LNK)
                return 0;
        if (fstatat(proc, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if ((st.st_mode & 0077) == 0)
                return 0;
        snprintf(path, sizeof path, "/proc/%s", e->d_name);
        return cover(path, S_ISDIR(st.st_mode) ? FACT_EMPTY : FACT_NOTHING);
}

static int cover_rest(void) {
        DIR *dir = opendir("/proc");
        if (!dir)
                return -errno;
        int r = 0;
        struct dirent *e;
        while (r >= 0 && (e = readdir(dir)))
                r = cover_entry(dirfd(dir), e);
        closedir(dir);
        return r;
}

int masks_apply(int facts) {
        if (fchdir(facts) < 0) /* names there are relative; there is no other way, since it is below /proc now */
                return -errno;
        int r = sys_read_only();
        if (r >= 0)
                r = cover_by_facts();
        return r < 0 ? r : cover_rest();
}
