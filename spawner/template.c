/* The mounts that every cell of a root begins with: a mount namespace with a read-only tree, built once and copied per cell.
 *
 * Nothing of the host is in it but /usr (and its like), five device nodes and a few files of /etc that programs look up; no /proc, /sys,
 * /run, /home. Everything is mounted at an own tmpfs, then that becomes the root and the host's tree is let go. */
#include "spawner/template.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/open-within.h"
#include "spawner/complain.h"
#include "spawner/facts.h"

#define COPY_MAX (4 * MIB)
#define RUNNER_DEPTH 6
#define EXTRA_DEPTH 4
#define LOCKED (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct Template {
        const struct TemplateSpec *spec;
        int source; /* the root that things are taken from */
        int root;   /* the tmpfs being filled */
};

/* By its links within the root: an image's links to absolute paths do not lead to the host's files. */
static int open_in_root(int root, const char *path, int flags) {
        return open_within(root, path, flags, 0, WITHIN_ROOT);
}

/* A detached read-only copy of source/from, following links only within the source. */
static int bind_from(int source, const char *from, unsigned attributes, const char *to, int root) {
        _cleanup_close_ int fd = open_in_root(source, from, O_PATH);
        if (fd < 0)
                return fd;
        _cleanup_close_ int tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
        if (tree < 0)
                return -errno;
        struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
        if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
                return -errno;
        return move_mount(tree, "", root, to, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int make_text(int root, const char *path, const char *text) {
        _cleanup_close_ int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        for (size_t left = strlen(text); left > 0;) {
                ssize_t n = write(fd, text, left);
                if (n < 0)
                        return -errno;
                text += n;
                left -= (size_t) n;
        }
        return 0;
}

static int make_folders(struct Template *t) {
        static const char *const folders[] = {
                "dev", "dev/shm", "etc", "etc/ssl", "glovebox", "home", "home/sandbox", "proc", "root", "run", "tmp", "usr", "var", "workspace",
        };
        for (size_t i = 0; i < ELEMENTSOF(folders); i++)
                if (mkdirat(t->root, folders[i], 0755) < 0)
                        return -errno;
        return 0;
}

/* /usr, and what is beside it: links on a merged-usr system, folders on others. */
static int make_usr(struct Template *t) {
        /* /opt is where images keep programs; the host's is not for cells. Last. */
        static const char *const beside[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"};
        size_t n = ELEMENTSOF(beside) - (streq(t->spec->root, "/") ? 1 : 0);
        int r = bind_from(t->source, "usr", LOCKED, "usr", t->root);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                char target[PATH_MAX];
                struct stat st;
                if (fstatat(t->source, beside[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (S_ISDIR(st.st_mode)) {
                        if (mkdirat(t->root, beside[i], 0755) < 0)
                                return -errno;
                        r = bind_from(t->source, beside[i], LOCKED, beside[i], t->root);
                        continue;
                }
                ssize_t length = readlinkat(t->source, beside[i], target, sizeof target - 1);
                if (length < 0)
                        continue;
                target[length] = 0;
                if (symlinkat(target, t->root, beside[i]) < 0)
                        return -errno;
        }
        return r;
}

static int make_devices(struct Template *t) {
        static const char *const nodes[] = {"null", "zero", "full", "random", "urandom"};
        static const struct {
                const char *name, *target;
        } links[] = {
                {"dev/fd", "/proc/self/fd"},
                {"dev/stdin", "/proc/self/fd/0"},
                {"dev/stdout", "/proc/self/fd/1"},
                {"dev/stderr", "/proc/self/fd/2"},
                {"var/tmp", "/tmp"},
        };
        _cleanup_close_ int host = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (host < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(nodes); i++) {
                char to[32];
                snprintf(to, sizeof to, "dev/%s", nodes[i]);
                int r = make_text(t->root, to, "");
                /* Read-only concerns the node, whose times and mode are the host's; its device is written all the same. */
                if (r >= 0)
                        r = bind_from(host, nodes[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, to, t->root);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < ELEMENTSOF(links); i++)
                if (symlinkat(links[i].target, t->root, links[i].name) < 0)
                        return -errno;
        return 0;
}

static int make_etc(struct Template *t) {
        static const struct {
                const char *path, *text;
        } files[] = {
                /* These two are covered in each cell by its own. */
                {"etc/passwd", ""},
                {"etc/group", ""},
                {"etc/hosts", "127.0.0.1 localhost glovebox\n::1 localhost\n"},
                {"etc/hostname", "glovebox\n"},
                {"etc/host.conf", "multi on\n"},
                {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
                {"etc/resolv.conf", ""},
                {"etc/timezone", "Etc/UTC\n"},
                {"etc/fstab", ""},
        };
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                int r = make_text(t->root, files[i].path, files[i].text);
                if (r < 0)
                        return r;
        }
        if (symlinkat("/usr/share/zoneinfo/Etc/UTC", t->root, "etc/localtime") < 0 || symlinkat("/proc/self/mounts", t->root, "etc/mtab") < 0)
                return -errno;
        return 0;
}

/* A regular file of at most COPY_MAX that everyone on the host may read, or nothing: links, secrets and what is too large are left out. */
static int copy_open_file(int in, int to_dir, const char *to) {
        struct stat st;
        if (fstat(in, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > (off_t) COPY_MAX)
                return 0;
        _cleanup_close_ int out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644 | (st.st_mode & 0111));
        if (out < 0)
                return -errno;
        char buffer[65536];
        ssize_t n;
        while ((n = read(in, buffer, sizeof buffer)) > 0)
                if (write(out, buffer, (size_t) n) != n)
                        return -EIO;
        return n < 0 ? -errno : 0;
}

static int copy_file(int from_dir, const char *name, int to_dir) {
        _cleanup_close_ int in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        return in >= 0 ? copy_open_file(in, to_dir, name) : errno == ENOENT || errno == ELOOP ? 0 : -errno;
}

static bool is_public_folder(int fd) {
        struct stat st;
        return fstat(fd, &st) == 0 && (st.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH);
}

/* Folders and files below `from`, into the folder `to`, as far as everyone on the host may read them. Copied and not bound, so that no path of
 * the host is seen in a cell. */
static int copy_tree(int from, int to, int depth) {
        DIR *dir = fdopendir(from);
        if (!dir) {
                close_fd(from);
                return -ENOMEM;
        }
        int r = 0;
        struct dirent *e;
        while (r >= 0 && (e = readdir(dir))) {
                if (e->d_name[0] == '.')
                        continue;
                int below = depth > 0 ? openat(from, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
                if (below < 0) {
                        r = copy_file(from, e->d_name, to);
                        continue;
                }
                if (!is_public_folder(below)) {
                        close_fd(below);
                        continue;
                }
                r = mkdirat(to, e->d_name, 0755) < 0 ? -errno : 0;
                _cleanup_close_ int into = openat(to, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (into < 0) {
                        close_fd(below);
                        r = -errno;
                } else
                        r = copy_tree(below, into, depth - 1);
        }
        closedir(dir);
        return r;
}

static bool is_absent(int error) {
        return error == -ENOENT || error == -ENOTDIR || error == -ELOOP;
}

static int copy_from_root(struct Template *t, const char *path) {
        _cleanup_close_ int in = open_in_root(t->source, path, O_RDONLY | O_NONBLOCK);
        return in >= 0 ? copy_open_file(in, t->root, path) : is_absent(in) ? 0 : in;
}

static int bind_folder(struct Template *t, int source, const char *path) {
        _cleanup_close_ int fd = open_in_root(source, path, O_PATH | O_DIRECTORY);
        if (fd < 0)
                return is_absent(fd) ? 0 : fd;
        if (mkdirat(t->root, path, 0755) < 0)
                return -errno;
        return bind_from(source, path, LOCKED | MOUNT_ATTR_NOEXEC, path, t->root);
}

static int copy_folder(struct Template *t, const char *path) {
        int from = open_in_root(t->source, path, O_RDONLY | O_DIRECTORY);
        if (from < 0)
                return is_absent(from) ? 0 : from;
        if (!is_public_folder(from)) {
                close_fd(from);
                return 0;
        }
        int r = mkdirat(t->root, path, 0755) < 0 ? -errno : 0;
        _cleanup_close_ int to = openat(t->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (r < 0 || to < 0) {
                close_fd(from);
                return r < 0 ? r : -errno;
        }
        return copy_tree(from, to, EXTRA_DEPTH);
}

/* Debian's Java has links from /usr into a folder named by its version. */
static int copy_java(struct Template *t) {
        int fd = open_in_root(t->source, "etc", O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return is_absent(fd) ? 0 : fd;
        DIR *dir = fdopendir(fd);
        if (!dir) {
                close_fd(fd);
                return -ENOMEM;
        }
        int r = 0;
        struct dirent *e;
        while (r >= 0 && (e = readdir(dir))) {
                char path[sizeof "etc/" + sizeof e->d_name];
                if (strncmp(e->d_name, "java-", 5) != 0 || e->d_type != DT_DIR)
                        continue;
                snprintf(path, sizeof path, "etc/%s", e->d_name);
                r = copy_folder(t, path);
        }
        closedir(dir);
        return r;
}

/* Whom programs trust: the root's own choice, else the host's, which is public too. */
static int make_certificates(struct Template *t) {
        if (faccessat(t->root, "etc/ssl/certs", F_OK, 0) == 0)
                return 0;
        _cleanup_close_ int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return host < 0 ? -errno : bind_folder(t, host, "etc/ssl/certs");
}

/* Public data that programs look up in /etc; where the root lacks one, the cell does. Nothing here may hold a secret of the host: no file of
 * package managers, git or network tools, which keep tokens and passwords there. */
static int make_extras(struct Template *t) {
        static const char *const files[] = {
                "etc/bash.bashrc",  "etc/debian_version", "etc/ethertypes", "etc/gai.conf",     "etc/inputrc",    "etc/ld.so.cache",
                "etc/ld.so.conf",   "etc/locale.alias",   "etc/magic",      "etc/magic.mime",   "etc/matplotlibrc", "etc/mime.types",
                "etc/networks",     "etc/os-release",     "etc/protocols",  "etc/rpc",          "etc/services",   "etc/ssl/openssl.cnf",
        };
        static const char *const copied[] = {"etc/ld.so.conf.d", "etc/perl", "etc/python3"};
        /* Full of links, which are not copied. */
        static const char *const bound[] = {"etc/alternatives", "etc/fonts", "etc/ssl/certs"};
        int r = 0;
        for (size_t i = 0; i < ELEMENTSOF(files) && r >= 0; i++)
                r = copy_from_root(t, files[i]);
        for (size_t i = 0; i < ELEMENTSOF(copied) && r >= 0; i++)
                r = copy_folder(t, copied[i]);
        for (size_t i = 0; i < ELEMENTSOF(bound) && r >= 0; i++)
                r = bind_folder(t, t->source, bound[i]);
        if (r >= 0)
                r = copy_java(t);
        return r < 0 ? r : make_certificates(t);
}

static int make_runners(struct Template *t) {
        int from = open(strempty(t->spec->runners), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (from < 0)
                return errno == ENOENT ? 0 : -errno; /* there are none */
        _cleanup_close_ int to = openat(t->root, "glovebox", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (to < 0) {
                close_fd(from);
                return -errno;
        }
        return copy_tree(from, to, RUNNER_DEPTH);
}

/* The tmpfs becomes the root; the host's tree goes. */
static int switch_root(struct Template *t) {
        if (fchdir(t->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
        return mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof attr) < 0 ? -errno : 0;
}

static int make_root(struct Template *t) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        t->source = open(t->spec->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (t->source < 0)
                return -errno;
        /* Over a folder that every host has; only this namespace sees it, and nothing more is needed from there. */
        if (mount("glovebox", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,nr_inodes=4096,mode=0755") < 0)
                return -errno;
        t->root = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return t->root < 0 ? -errno : 0;
}

/* What of the facts is the same for every cell. A cell's own /tmp hides the folder. */
static int make_facts(struct Template *t) {
        const char *path = &FACTS_SHARED[1];
        if (mkdirat(t->root, path, 0755) < 0)
                return -errno;
        _cleanup_close_ int dir = openat(t->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return dir < 0 ? -errno : facts_create_shared(dir);
}

int template_enter(const struct TemplateSpec *spec, const char **ret_step) {
        static const struct {
                const char *name;
                int (*run)(struct Template *t);
        } steps[] = {
                {"template root", make_root},         {"template folders", make_folders}, {"template usr", make_usr},
                {"template devices", make_devices},   {"template etc", make_etc},         {"template extras", make_extras},
                {"template runners", make_runners},   {"template facts", make_facts},     {"template switch", switch_root},
        };
        struct Template t = {.spec = spec, .source = -EBADF, .root = -EBADF};
        int r = 0;
        umask(022);
        for (size_t i = 0; i < ELEMENTSOF(steps) && r >= 0; i++) {
                r = steps[i].run(&t);
                *ret_step = steps[i].name;
        }
        close_fd(t.source);
        close_fd(t.root);
        return r;
}

int template_show_proc(void) {
        if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0 || mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return -errno;
        return 0;
}

static int check_folder(const char *root, const char *below, char **ret_error) {
        struct stat st;
        _cleanup_close_ int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return complain(ret_error, -errno, "root %s cannot be opened: %s", root, strerror(errno));
        int fd _cleanup_close_ = open_in_root(dir, below, O_PATH | O_DIRECTORY);
        if (fd < 0)
                return complain(ret_error, fd, "root %s has no folder %s (%s): it must hold a whole system, such as one that mmdebstrap made or an "
                                "image that was unpacked", root, below, strerror(-fd));
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != 0 || (st.st_mode & 0022))
                return complain(ret_error, -EPERM, "root %s: folder %s must belong to root and be writable by nobody else, or others decide what runs "
                                "in cells (chown root, chmod go-w)", root, below);
        return 0;
}

int template_check_root(const char *root, char **ret_error) {
        int r = check_folder(root, ".", ret_error);
        return r < 0 ? r : check_folder(root, "usr", ret_error);
}
