/* Reading what --file names. A folder is taken with everything below it, in order of names; links in it are not followed, since they may lead
 * anywhere. Bounds of the contract are checked here already, so that nobody uploads 64 MiB to be refused. */
#include "client/input-files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "client/console.h"

#define DEPTH_MAX 64
#define ENTRIES_MAX 20000 /* of one folder, links and folders included */
#define PATH_BYTES_MAX 4096
#define NAME_BYTES_MAX 255

static int out_of_memory(void) {
        return console_fault("out of memory");
}

/* Where SRC ends and DEST begins: a colon in SRC itself counts only when no such file exists. */
static int split(const char *argument, char **ret_source, char **ret_path) {
        const char *colon = access(argument, F_OK) == 0 ? NULL : strrchr(argument, ':');
        size_t n = colon ? (size_t) (colon - argument) : strlen(argument);

        while (n > 1 && argument[n - 1] == '/')
                n--; /* "data/" is "data" */
        *ret_source = strndup(argument, n);
        *ret_path = strdup(colon ? colon + 1 : "");
        return *ret_source && *ret_path ? 0 : -ENOMEM;
}

/* The last name of the source; "" where that is no name: ".", "..", "/". */
static const char *base_of(const char *source) {
        const char *slash = strrchr(source, '/');
        const char *base = slash ? slash + 1 : source;

        return streq(base, ".") || streq(base, "..") ? "" : base;
}

/* NULL: fine. Else what is wrong with a path in the workspace, as the server would see it. */
static const char *path_fault(const char *path) {
        if (path[0] == '/')
                return "it is absolute; it must be relative to /workspace";
        if (strlen(path) > PATH_BYTES_MAX)
                return "it is longer than 4096 bytes";
        if (!utf8_is_valid(path, strlen(path)))
                return "it is not UTF-8; name another with SRC:DEST";
        for (const char *p = path;; p++) {
                size_t n = strcspn(p, "/");

                if (n == 0)
                        return "it has an empty name; give the file one: SRC:DEST";
                if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return "it may not contain '.' or '..' as a name: files stay below /workspace";
                if (n > NAME_BYTES_MAX)
                        return "it has a name longer than 255 bytes";
                p += n;
                if (!*p)
                        return NULL;
        }
}

/* "./a" is a; DEST that is empty or ends in a slash is a folder for base. A folder's own DEST may be empty: the workspace itself. */
static char *destination(const char *path, const char *base, bool is_folder) {
        bool into;
        char *whole;

        while (path[0] == '.' && path[1] == '/')
                for (path += 2; *path == '/';)
                        path++;
        into = !*path || path[strlen(path) - 1] == '/';
        if (is_folder && streq(path, "."))
                return strdup("");
        return asprintf(&whole, "%s%s", path, into ? base : "") < 0 ? NULL : whole;
}

/* Takes path over. */
static int add(struct InputFiles *f, int fd, const struct stat *st, const char *source, char *path) {
        Glovebox__V1__InputFile *file = &f->files[f->n];
        const char *fault = path_fault(path);
        int r;

        if (strv_push(&f->paths, path) < 0)
                return out_of_memory();
        if (fault)
                return console_fault("cannot send %s as %s (-f, --file): %s", source, *path ? path : "\"\"", fault);
        if (f->n == INPUT_FILES_MAX)
                return console_fault("cannot send %s (-f, --file): at most %d files; pass an archive", source, INPUT_FILES_MAX);
        r = input_read_fd(fd, f->room, &f->contents[f->n]);
        if (r == -EFBIG)
                return console_fault("cannot send %s (-f, --file): input files may have at most 64 MiB together", source);
        if (r < 0)
                return console_fault("cannot read %s (-f, --file): %s", source, strerror(-r));
        f->room -= f->contents[f->n].size;
        glovebox__v1__input_file__init(file);
        file->path = path;
        file->content = (ProtobufCBinaryData) { .len = f->contents[f->n].size, .data = (uint8_t *) f->contents[f->n].data };
        file->executable = st->st_mode & 0111;
        f->list[f->n++] = file;
        return 0;
}

static int compare(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Takes fd over. *ret: names in order, without "." and "..", and NULL at the end. */
static int list_folder(int fd, char ***ret) {
        char **names = calloc(ENTRIES_MAX + 1, sizeof(*names));
        DIR *d = fdopendir(fd);
        size_t n = 0;
        int r = names && d ? 0 : -ENOMEM;

        if (!d)
                (void) close_fd(fd);
        while (r == 0) {
                struct dirent *e;

                errno = 0;
                e = readdir(d);
                if (!e) {
                        r = errno ? -errno : 1;
                        break;
                }
                if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                        continue;
                if (n == ENTRIES_MAX)
                        r = -E2BIG;
                else if (!(names[n++] = strdup(e->d_name)))
                        r = -ENOMEM;
        }
        if (d)
                (void) closedir(d);
        if (r < 0) {
                strv_free(names);
                return r;
        }
        qsort(names, n, sizeof(*names), compare);
        *ret = names;
        return 0;
}

static int add_folder(struct InputFiles *f, int fd, const char *source, const char *path, int depth);

/* One name of an open folder. */
static int add_entry(struct InputFiles *f, int folder, const char *name, const char *source, const char *path, int depth) {
        char *its_source _cleanup_free_ = NULL, *its_path _cleanup_free_ = NULL;
        int fd _cleanup_close_ = -EBADF;
        struct stat st;

        if (asprintf(&its_source, "%s/%s", source, name) < 0 || asprintf(&its_path, "%s%s%s", path, *path ? "/" : "", name) < 0)
                return out_of_memory();
        /* Looked at before it is opened: opening a device may do something. It may be another afterwards, so the descriptor is asked again. */
        if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return console_fault("cannot read %s (-f, --file): %m", its_source);
        if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
                fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
                if (fd < 0 || fstat(fd, &st) < 0)
                        return console_fault("cannot read %s (-f, --file): %m", its_source);
        }
        if (S_ISREG(st.st_mode))
                return add(f, fd, &st, its_source, TAKE_PTR(its_path));
        if (S_ISDIR(st.st_mode))
                return add_folder(f, TAKE_FD(fd), its_source, its_path, depth + 1);
        f->left_out++;
        return 0;
}

/* Takes fd over. path: where it is in the workspace. */
static int add_folder(struct InputFiles *f, int fd, const char *source, const char *path, int depth) {
        char **names _cleanup_strv_ = NULL;
        int folder _cleanup_close_ = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        int r;

        if (depth > DEPTH_MAX) {
                (void) close_fd(fd);
                return console_fault("cannot send %s (-f, --file): folders may be %d deep; pass an archive", source, DEPTH_MAX);
        }
        r = list_folder(fd, &names);
        if (r == -E2BIG)
                return console_fault("cannot send %s (-f, --file): it holds more than %d entries, and at most %d files can be sent; pass an archive",
                                     source, ENTRIES_MAX, INPUT_FILES_MAX);
        if (r < 0 || folder < 0)
                return console_fault("cannot read %s (-f, --file): %s", source, strerror(r < 0 ? -r : EMFILE));
        for (size_t i = 0; r == 0 && names[i]; i++)
                r = add_entry(f, folder, names[i], source, path, depth);
        return r;
}

static int add_argument(struct InputFiles *f, const char *argument) {
        char *source _cleanup_free_ = NULL, *given _cleanup_free_ = NULL, *path _cleanup_free_ = NULL;
        int fd _cleanup_close_ = -EBADF;
        struct stat st;

        if (split(argument, &source, &given) < 0)
                return out_of_memory();
        /* Waits for a FIFO that the user names: that may be a process substitution. */
        fd = open(source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return console_fault("cannot read %s (-f, --file): %m", source);
        path = destination(given, base_of(source), S_ISDIR(st.st_mode));
        if (!path)
                return out_of_memory();
        if (!S_ISDIR(st.st_mode))
                return add(f, fd, &st, source, TAKE_PTR(path));
        if (*path) {
                const char *fault = path_fault(path);

                if (fault)
                        return console_fault("cannot send %s as %s (-f, --file): %s", source, path, fault);
        }
        return add_folder(f, TAKE_FD(fd), source, path, 1);
}

int input_files_read(struct InputFiles *f, char *const *arguments) {
        int r = 0;

        *f = (struct InputFiles) { .room = INPUT_FILES_BYTES_MAX };
        if (strv_length(arguments) == 0)
                return 0;
        f->files = calloc(INPUT_FILES_MAX + 1, sizeof(*f->files));
        f->contents = calloc(INPUT_FILES_MAX + 1, sizeof(*f->contents));
        f->list = calloc(INPUT_FILES_MAX + 1, sizeof(*f->list));
        if (!f->files || !f->contents || !f->list)
                return out_of_memory();
        for (size_t i = 0; r == 0 && arguments[i]; i++)
                r = add_argument(f, arguments[i]);
        if (r == 0 && f->left_out > 0)
                console_note("--file: left out of folders: %zu links, FIFOs, sockets or devices; name a link itself to send what it leads to", f->left_out);
        return r;
}

void input_files_done(struct InputFiles *f) {
        for (size_t i = 0; f->contents && i < INPUT_FILES_MAX; i++)
                bytes_done(&f->contents[i]);
        free(f->contents);
        free(f->files);
        free(f->list);
        strv_free(f->paths);
        *f = (struct InputFiles) {};
}
