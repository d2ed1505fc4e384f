/* Where this process is in the cgroup2 tree, what is there, and what a killed life left behind. */
#include "spawner/limits/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "spawner/limits/driver.h"
#include "spawner/limits/leaf.h"

#define FILE_MAX (1 * MIB)
#define DEPTH_MAX 4 /* glovebox-X / cell-N / run-N, and one to spare */

/* mountinfo escapes space, tab, newline and backslash as \ooo. */
static void unescape(char *s) {
        char *out = s;
        while (*s) {
                if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
                        *out++ = (char) ((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
                        s += 4;
                } else
                        *out++ = *s++;
        }
        *out = 0;
}

int tree_mount_point(const char *mountinfo, char **ret) {
        for (const char *line = mountinfo; line && *line;) {
                const char *end = strchrnul(line, '\n');
                const char *kind = memmem(line, (size_t) (end - line), " - cgroup2 ", 11);
                char root[256], point[1024];
                /* Only a mount of the hierarchy's root: paths in /proc/self/cgroup count from there. */
                if (kind && sscanf(line, "%*d %*d %*s %255s %1023s", root, point) == 2 && streq(root, "/")) {
                        unescape(point);
                        *ret = strdup(point);
                        return *ret ? 0 : -ENOMEM;
                }
                line = *end ? end + 1 : end;
        }
        return -ENOENT;
}

int tree_own_path(const char *cgroup, char **ret) {
        const char *line = cgroup;
        while (line && strncmp(line, "0::", 3) != 0) {
                line = strchr(line, '\n');
                line = line ? line + 1 : NULL;
        }
        if (!line || line[3] != '/')
                return -ENOENT;
        *ret = strndup(line + 3, strcspn(line + 3, "\n"));
        return *ret ? 0 : -ENOMEM;
}

static int read_whole(const char *path, char **ret) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        char *text = malloc(FILE_MAX);
        if (!text)
                return -ENOMEM;
        size_t used = 0;
        ssize_t n;
        while ((n = read(fd, text + used, FILE_MAX - 1 - used)) > 0)
                used += (size_t) n;
        text[used] = 0;
        *ret = text;
        return 0;
}

int tree_root(char **ret) {
        _cleanup_free_ char *mountinfo = NULL;
        int r = read_whole("/proc/self/mountinfo", &mountinfo);
        return r < 0 ? r : tree_mount_point(mountinfo, ret);
}

int tree_own_folder(char **ret) {
        _cleanup_free_ char *cgroup = NULL, *point = NULL, *path = NULL;
        int r = tree_root(&point);
        if (r >= 0)
                r = read_whole("/proc/self/cgroup", &cgroup);
        if (r >= 0)
                r = tree_own_path(cgroup, &path);
        if (r < 0)
                return r;
        size_t length = strlen(path), suffix = strlen("/supervisor");
        if (length >= suffix && streq(path + length - suffix, "/supervisor"))
                path[length - suffix] = 0;
        if (streq(path, "/"))
                path[0] = 0;
        return asprintf(ret, "%s%s", point, path) < 0 ? -ENOMEM : 0;
}

int tree_controllers(int dir, const char *file, unsigned *ret) {
        _cleanup_close_ int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
        char text[512];
        if (fd < 0)
                return -errno;
        ssize_t n = read_small(fd, text, sizeof text);
        if (n < 0)
                return (int) n;
        unsigned found = 0;
        char *save = NULL;
        for (char *word = strtok_r(text, " \n", &save); word; word = strtok_r(NULL, " \n", &save))
                for (size_t i = 0; controller_names[i]; i++)
                        if (streq(word, controller_names[i]))
                                found |= 1U << i;
        *ret = found;
        return 0;
}

unsigned tree_enable(int dir, unsigned wanted) {
        unsigned enabled = 0;
        for (size_t i = 0; controller_names[i]; i++) {
                char word[16];
                snprintf(word, sizeof word, "+%s", controller_names[i]);
                if ((wanted & (1U << i)) && write_file_at(dir, "cgroup.subtree_control", word) >= 0)
                        enabled |= 1U << i;
        }
        return enabled;
}

/* systemd marks what it delegated; then everything in this cgroup was started for us. */
static bool is_delegated(int dir) {
        char path[64], value[8];
        snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
        return getxattr(path, "trusted.delegate", value, sizeof value) > 0 || getxattr(path, "user.delegate", value, sizeof value) > 0;
}

static int move_all(int dir, int leaf) {
        _cleanup_free_ char *text = NULL;
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d/cgroup.procs", dir);
        int r = read_whole(path, &text);
        if (r < 0)
                return r;
        char *save = NULL;
        for (char *pid = strtok_r(text, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save)) {
                r = write_file_at(leaf, "cgroup.procs", pid);
                if (r < 0 && r != -ESRCH)
                        return r;
        }
        return 0;
}

static int has_processes(int dir) {
        _cleanup_close_ int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
        char text[64];
        if (fd < 0)
                return -errno;
        ssize_t n = read_small(fd, text, sizeof text);
        return n < 0 ? (int) n : n > 0;
}

int tree_make_room(int dir) {
        /* The root of the hierarchy has no type: processes are no hindrance there. */
        if (faccessat(dir, "cgroup.type", F_OK, 0) < 0)
                return 1;
        if (mkdirat(dir, "supervisor", 0755) < 0 && errno != EEXIST)
                return -errno;
        _cleanup_close_ int leaf = openat(dir, "supervisor", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (leaf < 0)
                return -errno;
        char self[32];
        snprintf(self, sizeof self, "%d", getpid());
        int r = is_delegated(dir) ? move_all(dir, leaf) : write_file_at(leaf, "cgroup.procs", self);
        if (r >= 0)
                r = has_processes(dir);
        return r < 0 ? r : !r;
}

static int wait_empty(int dir, usec_t deadline) {
        _cleanup_close_ int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
        if (events < 0)
                return -errno;
        for (;;) {
                char text[256];
                ssize_t n = read_small(events, text, sizeof text);
                int r = n < 0 ? (int) n : cgroup_events_populated(text);
                if (r <= 0)
                        return r;
                if (now_monotonic() >= deadline)
                        return -ETIMEDOUT;
                poll(NULL, 0, 2);
        }
}

static int remove_tree(int parent, const char *name, int depth) {
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        DIR *dir = fdopendir(fd);
        if (!dir) {
                close_fd(fd);
                return -ENOMEM;
        }
        int r = 0;
        struct dirent *e;
        while (depth > 0 && (e = readdir(dir)))
                if (e->d_type == DT_DIR && e->d_name[0] != '.') {
                        int q = remove_tree(fd, e->d_name, depth - 1);
                        r = q < 0 ? q : r;
                }
        closedir(dir);
        if (r >= 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                r = -errno;
        return r;
}

int tree_sweep(int dir, const char *name, usec_t deadline) {
        _cleanup_close_ int old = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (old < 0)
                return errno == ENOENT ? 0 : -errno;
        int r = cgroup_kill(old);
        if (r >= 0)
                r = wait_empty(old, deadline);
        return r < 0 ? r : remove_tree(dir, name, DEPTH_MAX);
}

bool tree_own_is_ours(void) {
        _cleanup_free_ char *path = NULL;
        struct stat st;
        return tree_own_folder(&path) >= 0 && stat(path, &st) >= 0 && st.st_uid == geteuid() && (st.st_mode & S_IWUSR);
}
