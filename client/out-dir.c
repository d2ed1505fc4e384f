/* Every folder is opened by the kernel's own rules for staying below another (openat2), and a file is made under a name of ours and then
 * renamed: an old file stays whole until the new one is, and a link in its place is never followed. */
#include "client/out-dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "client/console.h"
#include "common/open-within.h"

#define NAME_BYTES_MAX 4096
#define TRIES 16

int out_dir_open(struct OutDir *d, const char *path) {
        char *parents _cleanup_free_ = strdup(path);

        if (!parents)
                return console_fault("out of memory");
        /* Those that are there already, or cannot be made, are told by opening the last. */
        for (char *slash = strchr(parents + (*parents == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                (void) mkdir(parents, 0777);
                *slash = '/';
        }
        (void) mkdir(path, 0777);
        d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (d->fd < 0)
                return console_fault("--out %s: %s", path, errno == ENOTDIR ? "it is no folder" : strerror(errno));
        if (faccessat(d->fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
                return console_fault("--out %s: it cannot be written to: %m", path);
        d->path = path;
        return 0;
}

void out_dir_done(struct OutDir *d) {
        (void) close_fd(d->fd);
        *d = OUT_DIR_NULL;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Only what the contract escapes: "\\" and bytes that are no ASCII. "\x2f" would be a slash that nobody has seen. */
static char *unescape(const char *path) {
        char *name = malloc(strlen(path) + 1), *to = name;

        for (; name && *path; path++) {
                int high, low;

                if (*path != '\\') {
                        *to++ = *path;
                        continue;
                }
                if (*++path == '\\') {
                        *to++ = '\\';
                        continue;
                }
                high = *path == 'x' ? hex_digit(path[1]) : -1;
                low = high >= 8 ? hex_digit(path[2]) : -1;
                if (low < 0) {
                        free(name);
                        return NULL;
                }
                *to++ = (char) (high << 4 | low);
                path += 2;
        }
        if (name)
                *to = '\0';
        return name;
}

static const char *name_fault(const char *name) {
        if (*name == '\0')
                return "its name is empty";
        if (*name == '/')
                return "its name is absolute";
        if (strlen(name) > NAME_BYTES_MAX)
                return "its name is longer than 4096 bytes";
        for (const char *p = name;; p++) {
                size_t n = strcspn(p, "/");

                if (n == 0)
                        return "its name has an empty part";
                if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return "its name has a part '.' or '..'";
                p += n;
                if (!*p)
                        return NULL;
        }
}

char *out_dir_name(const char *path, bool escaped, const char **ret_fault) {
        char *name = escaped ? unescape(path) : strdup(path);

        *ret_fault = name ? name_fault(name) : "its name is escaped in a way that is not in the contract";
        if (*ret_fault) {
                free(name);
                name = NULL;
        }
        return name;
}

/* part is one name, and not "..": where the kernel is older than openat2, O_NOFOLLOW holds as well. */
static int open_folder(int parent, const char *part) {
        int fd = open_within(parent, part, O_RDONLY | O_DIRECTORY, 0, WITHIN_BENEATH | WITHIN_NO_SYMLINKS);

        if (fd != -ENOSYS)
                return fd;
        fd = openat(parent, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* The folder that a name is in, made where it is missing. */
static int open_parent(const struct OutDir *d, const char *name, const char **ret_base) {
        int parent = fcntl(d->fd, F_DUPFD_CLOEXEC, 3);
        const char *slash;

        for (; parent >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
                char *part _cleanup_free_ = strndup(name, (size_t) (slash - name));
                int next;

                if (part && mkdirat(parent, part, 0777) < 0 && errno != EEXIST) {
                        int r = -errno;
                        (void) close_fd(parent);
                        return r;
                }
                next = part ? open_folder(parent, part) : -ENOMEM;
                (void) close_fd(parent);
                parent = next;
        }
        *ret_base = name;
        return parent;
}

/* What is there may be replaced when it is a plain file. */
static int check_place(int parent, const char *base) {
        struct stat st;

        if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : S_ISLNK(st.st_mode) ? -ELOOP : -EEXIST;
}

static int open_new(int parent, char *name, size_t size) {
        for (int i = 0; i < TRIES; i++) {
                uint64_t number;
                int fd;

                if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                        return -EIO;
                (void) snprintf(name, size, ".glovebox-%016llx", (unsigned long long) number);
                fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
                if (fd >= 0 || errno != EEXIST)
                        return fd < 0 ? -errno : fd;
        }
        return -EEXIST;
}

static int write_into(int parent, const char *base, const struct Spool *spool, const struct SpoolItem *item) {
        char temporary[40];
        int fd, r;

        r = check_place(parent, base);
        if (r < 0)
                return r;
        fd = open_new(parent, temporary, sizeof(temporary));
        if (fd < 0)
                return fd;
        r = spool_copy(spool, item, fd);
        /* Some file systems tell a full disk or quota only here. */
        if (close(fd) < 0 && r == 0)
                r = -errno;
        if (r == 0 && renameat(parent, temporary, parent, base) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(parent, temporary, 0);
        return r;
}

static const char *reason(int error) {
        switch (error) {
        case -ELOOP:
                return "a symbolic link is in its place, and links are not followed";
        case -ENOTDIR:
                return "something that is no folder is in the place of one of its folders";
        case -EISDIR:
                return "a folder is in its place";
        case -EEXIST:
                return "something that is no plain file is in its place";
        default:
                return strerror(-error);
        }
}

int out_dir_write(const struct OutDir *d, const char *name, const struct Spool *spool, const struct SpoolItem *item) {
        const char *slash = d->path[strlen(d->path) - 1] == '/' ? "" : "/";
        const char *base = NULL;
        char size[32];
        int parent _cleanup_close_ = open_parent(d, name, &base);
        int r = MIN(parent, 0);

        if (r == 0)
                r = write_into(parent, base, spool, item);
        if (r < 0)
                return console_fault("cannot write %s%s%s: %s", d->path, slash, name, reason(r));
        console_note("wrote %s%s%s (%s)", d->path, slash, name, console_bytes(item->size, size, sizeof(size)));
        return 0;
}
