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

/* What is bound from is mounted read-only, so what is bound is too. What has gone meanwhile needs no cover. In one call: dozens of these make up
 * much of a cell's making. */
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

static int cover_by_facts(bool shared) {
        for (int i = 0; i < FACT_MAX_; i++) {
                bool wanted = fact_is_shared(i) == shared && strncmp(fact_path(i), "/proc/", 6) == 0;
                int r = wanted ? cover(fact_path(i), fact_name(i)) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

enum Cover { BARE, BY_FILE, BY_FOLDER };

/* Links lead to a process's own. What only root may open is refused by its mode: nobody is root of the host here. */
static int look(int proc, const char *name, enum Cover *ret) {
        struct stat st;
        if (is_kept(name)) {
                *ret = BARE;
                return 0;
        }
        if (fstatat(proc, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        *ret = S_ISLNK(st.st_mode) || (st.st_mode & 0077) == 0 ? BARE : S_ISDIR(st.st_mode) ? BY_FOLDER : BY_FILE;
        return 0;
}

/* What the host's own /proc has beside the processes: every other has the same, with the same modes. To look at each file of each cell's anew would
 * make and remove dozens of inodes. */
static struct {
        char name[24];
        enum Cover cover;
} known[128];
static size_t n_known;

int masks_learn(void) {
        DIR *dir = opendir("/proc");
        if (!dir)
                return -errno;
        struct dirent *e;
        n_known = 0;
        while ((e = readdir(dir)) && n_known < ELEMENTSOF(known)) {
                size_t length = strlen(e->d_name);
                if (length >= sizeof known[0].name || (e->d_name[0] >= '0' && e->d_name[0] <= '9'))
                        continue;
                if (look(dirfd(dir), e->d_name, &known[n_known].cover) >= 0)
                        memcpy(known[n_known++].name, e->d_name, length + 1);
        }
        closedir(dir);
        return 0;
}

/* Names come in the same order each time, so the next one is mostly the next one. What is new was brought by a module. */
static int find(int proc, const char *name, size_t *next, enum Cover *ret) {
        for (size_t i = 0; i < n_known; i++) {
                size_t at = (*next + i) % n_known;
                if (streq(known[at].name, name)) {
                        *next = at + 1;
                        *ret = known[at].cover;
                        return 0;
                }
        }
        return look(proc, name, ret);
}

static int cover_rest(void) {
        DIR *dir = opendir("/proc");
        if (!dir)
                return -errno;
        int r = 0;
        size_t next = 0;
        struct dirent *e;
        while (r >= 0 && (e = readdir(dir))) {
                char path[sizeof "/proc/" + sizeof e->d_name];
                enum Cover how = BARE;
                r = find(dirfd(dir), e->d_name, &next, &how);
                if (r == -ENOENT)
                        r = 0;
                if (how == BARE)
                        continue;
                snprintf(path, sizeof path, "/proc/%s", e->d_name);
                r = cover(path, how == BY_FOLDER ? FACT_EMPTY : FACT_NOTHING);
        }
        closedir(dir);
        return r;
}

/* Names of what is bound are relative to the working folder. */
int masks_apply(int own, int shared) {
        int r = fchdir(shared) < 0 ? -errno : sys_read_only();
        if (r >= 0)
                r = cover_by_facts(true);
        if (r >= 0)
                r = cover_rest();
        if (r >= 0)
                r = fchdir(own) < 0 ? -errno : cover_by_facts(false);
        return r >= 0 && chdir("/") < 0 ? -errno : r;
}
