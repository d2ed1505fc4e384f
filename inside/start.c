/* glovebox-start: the first program of an execution. It runs as the cell's user with no right the code will not have too: reads the
 * job from descriptor 3, writes code and files into the workspace, sets environment and folder, and becomes the interpreter.
 * What fails is told on descriptor 4, and before that how the files were when it had written them; end of file there without a failure means that
 * the program runs. A runner keeps descriptor 3, with the rest of the job, and 5, for the value. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/collect.h"
#include "common/open-within.h"
#include "inside/read-only.h"
#include "inside/records.h"

#define FD_JOB 3
#define FD_REPORT 4
#define FD_VALUE 5
#define EXIT_NOT_STARTED 125
#define WORKSPACE "/workspace"
#define ZONES "/usr/share/zoneinfo"
#define ARENA_SIZE (1 * MIB) /* all strings together */
#define STRINGS_MAX 16384
#define FILES_MAX 1001 /* the code and as many files as a request may have; their records fit into the report pipe before anyone reads */
#define FILE_RECORD_SIZE (JOB_HEADER_SIZE + FILE_STAMP_SIZE)

#define BENEATH_WITHOUT_LINKS (WITHIN_NO_SYMLINKS | WITHIN_BENEATH)

struct Start {
        char *exec, *code_path, *working_dir;
        char *args[STRINGS_MAX + 1], *env[STRINGS_MAX + 1];
        size_t n_args, n_env;
        int workspace, code, file;
        bool runner, read_only;
        uint8_t files[FILES_MAX][FILE_RECORD_SIZE]; /* REPORT_FILE: of the code, if there is any, then of each file */
        size_t n_files;
        size_t used;
        char arena[ARENA_SIZE];
        const char *step;
};

static struct Start start;
static char record_buffer[RECORD_STRING_MAX + 1];

_Noreturn static void fail(int error) {
        uint8_t record[JOB_HEADER_SIZE + 4 + 64];
        size_t length = strnlen(start.step, 64);
        uint32_t number = (uint32_t) -error;
        job_put_header(record, REPORT_FAILED, (uint32_t) (4 + length));
        for (int i = 0; i < 4; i++)
                record[JOB_HEADER_SIZE + i] = (uint8_t) (number >> (8 * i));
        memcpy(record + JOB_HEADER_SIZE + 4, start.step, length);
        if (write(FD_REPORT, record, JOB_HEADER_SIZE + 4 + length) < 0)
                _exit(EXIT_NOT_STARTED + 1);
        _exit(EXIT_NOT_STARTED);
}

static char *keep(const char *prefix, const char *s, size_t length) {
        size_t before = strlen(prefix);
        if (ARENA_SIZE - start.used < before + length + 1)
                return NULL;
        char *copy = start.arena + start.used;
        memcpy(copy, prefix, before);
        memcpy(copy + before, s, length);
        copy[before + length] = 0;
        start.used += before + length + 1;
        return copy;
}

static int keep_into(char **slot, const char *prefix, const char *s, size_t length) {
        char *copy = keep(prefix, s, length);
        if (!copy)
                return -E2BIG;
        *slot = copy;
        return 0;
}

static int add_arg(const char *s, size_t length) {
        if (start.n_args >= STRINGS_MAX)
                return -E2BIG;
        return keep_into(&start.args[start.n_args++], "", s, length);
}

/* A later value replaces an earlier one of the same name. */
static int add_env(const char *prefix, const char *s, size_t length) {
        char *variable = keep(prefix, s, length);
        if (!variable)
                return -E2BIG;
        char *equals = strchr(variable, '=');
        if (!equals || equals == variable)
                return -EINVAL;
        size_t name = (size_t) (equals - variable) + 1;
        size_t i = 0;
        while (i < start.n_env && strncmp(start.env[i], variable, name) != 0)
                i++;
        if (i == STRINGS_MAX)
                return -E2BIG;
        start.env[i] = variable;
        if (i == start.n_env)
                start.n_env++;
        return 0;
}

static int open_new(const char *path, mode_t mode) {
        return open_within(start.workspace, path, O_WRONLY | O_CREAT | O_EXCL, mode, BENEATH_WITHOUT_LINKS);
}

/* The folders that a path needs; openat2 checks that none of them leads out. */
static int make_folders(char *path) {
        for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                int r = mkdirat(start.workspace, path, 0755) < 0 && errno != EEXIST ? -errno : 0;
                int fd = r < 0 ? r : open_within(start.workspace, path, O_PATH | O_DIRECTORY, 0, BENEATH_WITHOUT_LINKS);
                *slash = '/';
                if (fd < 0)
                        return r < 0 ? r : -errno;
                close_fd(fd);
        }
        return 0;
}

/* Every part must be a plain name: "a//b", "/a", "a/", "." and ".." are refused, so mkdirat and openat2 see the same. */
static bool path_is_plain(const char *path) {
        for (const char *p = path;;) {
                size_t n = strcspn(p, "/");
                if (n == 0 || n > 255 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
                if (!p[n])
                        return true;
                p += n + 1;
        }
}

/* Notes how a file is now that it is complete, and closes it. Before Linux 6.13 all writes within one tick of the clock leave the same time: so it
 * gets a time that no tick has, and each write after this one shows. */
static int seal(int *fd, size_t number) {
        struct stat st;
        if (*fd < 0)
                return 0;
        if (fstat(*fd, &st) < 0)
                return -errno;
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = st.st_mtim.tv_sec, .tv_nsec = st.st_mtim.tv_nsec ^ 1}};
        if (futimens(*fd, times) < 0 || fstat(*fd, &st) < 0)
                return -errno;
        uint8_t *record = start.files[number];
        job_put_header(record, REPORT_FILE, FILE_STAMP_SIZE);
        const struct FileStamp stamp = file_stamp_of(&st);
        file_stamp_put(record + JOB_HEADER_SIZE, &stamp);
        *fd = close_fd(*fd);
        return 0;
}

/* A place in the report, to be filled when the file is complete. */
static int add_file(void) {
        if (start.n_files == FILES_MAX)
                return -E2BIG;
        start.n_files++;
        return 0;
}

static int seal_last_file(void) {
        start.step = "files";
        return seal(&start.file, start.n_files - 1);
}

static int on_file(char *bytes, size_t length) {
        start.step = "files";
        if (length < 2 || (bytes[0] & ~1) || memchr(bytes + 1, 0, length - 1) || !path_is_plain(bytes + 1))
                return -EINVAL;
        int r = seal_last_file();
        if (r >= 0)
                r = make_folders(bytes + 1);
        if (r >= 0)
                r = add_file();
        if (r >= 0)
                r = open_new(bytes + 1, bytes[0] & 1 ? 0755 : 0644);
        if (r < 0)
                return r;
        start.file = r;
        return 0;
}

static int on_code_name(const char *name, size_t length) {
        if (start.code_path || !path_is_plain(name) || strchr(name, '/'))
                return -EINVAL;
        start.step = "code";
        int fd = open_new(name, 0644);
        if (fd < 0)
                return fd;
        start.code = fd;
        int r = add_file(); /* in the head, so it is the first */
        if (r < 0)
                return r;
        return keep_into(&start.code_path, WORKSPACE "/", name, length);
}

/* Only a name that the cell has data for: a wrong TZ would silently be UTC. */
static int on_timezone(const char *name, size_t length) {
        start.step = "timezone";
        int root = open(ZONES, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return -errno;
        struct stat st;
        int fd = path_is_plain(name) ? open_within(root, name, O_RDONLY | O_NONBLOCK, 0, WITHIN_BENEATH) : -1;
        bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
        char magic[4];
        good = good && read(fd, magic, 4) == 4 && memcmp(magic, "TZif", 4) == 0;
        close_fd(fd);
        close_fd(root);
        return good ? add_env("TZ=", name, length) : -ENOENT;
}

/* Only in the runtime's own arguments: the caller's are nobody's to change. */
static int on_head_end(void) {
        if (!start.exec)
                return -EINVAL;
        for (size_t i = 1; i < start.n_args; i++)
                if (start.code_path && streq(start.args[i], "{code}"))
                        start.args[i] = start.code_path;
        return 0;
}

static int on_text(void *userdata, enum JobType type, char *bytes, size_t length) {
        start.step = "job";
        switch (type) {
        case JOB_EXEC:
                return bytes[0] == '/' ? keep_into(&start.exec, "", bytes, length) : -EINVAL;
        case JOB_RUNTIME_ARG:
        case JOB_ARG:
                return add_arg(bytes, length);
        case JOB_ENV:
                return add_env("", bytes, length);
        case JOB_CODE_NAME:
                return on_code_name(bytes, length);
        case JOB_FILE:
                return on_file(bytes, length);
        case JOB_WORKING_DIR:
                return keep_into(&start.working_dir, "", bytes, length);
        case JOB_TIMEZONE:
                return on_timezone(bytes, length);
        case JOB_RUNNER:
                start.runner = true;
                return 0;
        case JOB_READ_ONLY:
                start.read_only = true;
                return 0;
        case JOB_HEAD_END:
                return on_head_end();
        default:
                return 0;
        }
}

static int on_data(void *userdata, enum JobType type, const uint8_t *bytes, size_t length) {
        int fd = type == JOB_CODE ? start.code : start.file;
        start.step = type == JOB_CODE ? "code" : "files";
        if (fd < 0)
                return -EINVAL;
        while (length > 0) {
                ssize_t n = write(fd, bytes, length);
                if (n < 0)
                        return -errno;
                bytes += n;
                length -= (size_t) n;
        }
        start.step = "job";
        return 0;
}

static int read_full(void *userdata, void *buffer, size_t size) {
        char *p = buffer;
        while (size > 0) {
                ssize_t n = read(FD_JOB, p, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ENODATA;
                p += n;
                size -= (size_t) n;
        }
        return 0;
}

static int enter_folder(void) {
        char path[RECORD_TEXT_MAX + 1];
        start.step = "working_dir";
        if (chdir(start.working_dir ? start.working_dir : WORKSPACE) < 0)
                return -errno;
        /* The kernel marks a folder that cannot be reached from the cell's root. */
        if (syscall(SYS_getcwd, path, sizeof path) < 0)
                return -errno;
        return path[0] == '/' ? 0 : -EPERM;
}

static int report_files(void) {
        const uint8_t *p = start.files[0];
        size_t left = start.n_files * FILE_RECORD_SIZE;
        while (left > 0) {
                ssize_t n = write(FD_REPORT, p, left);
                if (n < 0)
                        return -errno;
                p += n;
                left -= (size_t) n;
        }
        return 0;
}

static int become_program(void) {
        start.step = "read_only_workspace";
        int r = start.read_only ? read_only_enter() : 0;
        if (r < 0)
                return r;
        start.step = "exec";
        close_fd(start.workspace);
        if (!start.runner) {
                close_fd(FD_JOB);
                close_fd(FD_VALUE); /* nobody may have given one */
        }
        if (fcntl(FD_REPORT, F_SETFD, FD_CLOEXEC) < 0)
                return -errno;
        execve(start.exec, start.args, start.env);
        return -errno;
}

static int run(void) {
        const struct RecordHandler handler = {.read = read_full, .text = on_text, .data = on_data, .buffer = record_buffer};
        start.step = "job";
        start.workspace = open(WORKSPACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (start.workspace < 0)
                return -errno;
        start.n_args = 1; /* the interpreter's own name comes later */
        int r = records_read(&handler);
        if (r < 0)
                return r;
        start.args[0] = start.exec;
        r = enter_folder();
        if (r < 0)
                return r;
        r = seal_last_file();
        if (r < 0)
                return r;
        start.step = "code";
        r = seal(&start.code, 0);
        if (r >= 0)
                r = report_files();
        return r < 0 ? r : become_program();
}

int main(void) {
        start.workspace = start.code = start.file = -EBADF;
        fail(run());
}
