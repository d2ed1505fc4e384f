/* Taking a job from its pipe. What comes is believed in nothing: it is the server's and the spawner's, but what it names lies in a folder that user
 * code of the same session may have changed. */
#include "inside/take-job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/open-within.h"
#include "inside/read-only.h"
#include "inside/records.h"

#define WORKSPACE "/workspace"
#define ZONES "/usr/share/zoneinfo"
#define EXIT_NOT_STARTED 125

#define BENEATH_WITHOUT_LINKS (WITHIN_NO_SYMLINKS | WITHIN_BENEATH)

static char record_buffer[RECORD_STRING_MAX + 1];

_Noreturn void take_job_fail(const char *step, int error) {
        uint8_t record[JOB_HEADER_SIZE + 4 + 64];
        size_t length = strnlen(step, 64);
        uint32_t number = (uint32_t) -error;
        job_put_header(record, REPORT_FAILED, (uint32_t) (4 + length));
        for (int i = 0; i < 4; i++)
                record[JOB_HEADER_SIZE + i] = (uint8_t) (number >> (8 * i));
        memcpy(record + JOB_HEADER_SIZE + 4, step, length);
        if (write(JOB_REPORT_FD, record, JOB_HEADER_SIZE + 4 + length) < 0)
                _exit(EXIT_NOT_STARTED + 1);
        _exit(EXIT_NOT_STARTED);
}

static char *keep(struct TakenJob *j, const char *prefix, const char *s, size_t length) {
        size_t before = strlen(prefix);
        if (TAKEN_ARENA_SIZE - j->used < before + length + 1)
                return NULL;
        char *copy = j->arena + j->used;
        memcpy(copy, prefix, before);
        memcpy(copy + before, s, length);
        copy[before + length] = 0;
        j->used += before + length + 1;
        return copy;
}

static int keep_into(struct TakenJob *j, char **slot, const char *prefix, const char *s, size_t length) {
        char *copy = keep(j, prefix, s, length);
        if (!copy)
                return -E2BIG;
        *slot = copy;
        return 0;
}

static int add_arg(struct TakenJob *j, const char *s, size_t length) {
        if (j->n_args >= TAKEN_STRINGS_MAX)
                return -E2BIG;
        return keep_into(j, &j->args[j->n_args++], "", s, length);
}

/* A later value replaces an earlier one of the same name. */
static int add_env(struct TakenJob *j, const char *prefix, const char *s, size_t length) {
        char *variable = keep(j, prefix, s, length);
        if (!variable)
                return -E2BIG;
        char *equals = strchr(variable, '=');
        if (!equals || equals == variable)
                return -EINVAL;
        size_t name = (size_t) (equals - variable) + 1;
        size_t i = 0;
        while (i < j->n_env && strncmp(j->env[i], variable, name) != 0)
                i++;
        if (i == TAKEN_STRINGS_MAX)
                return -E2BIG;
        j->env[i] = variable;
        if (i == j->n_env)
                j->n_env++;
        return 0;
}

static int open_new(struct TakenJob *j, const char *path, mode_t mode) {
        return open_within(j->workspace, path, O_WRONLY | O_CREAT | O_EXCL, mode, BENEATH_WITHOUT_LINKS);
}

/* The folders that a path needs; openat2 checks that none of them leads out. */
static int make_folders(struct TakenJob *j, char *path) {
        for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                int r = mkdirat(j->workspace, path, 0755) < 0 && errno != EEXIST ? -errno : 0;
                int fd = r < 0 ? r : open_within(j->workspace, path, O_PATH | O_DIRECTORY, 0, BENEATH_WITHOUT_LINKS);
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
static int seal(struct TakenJob *j, int *fd, size_t number) {
        struct stat st;
        if (*fd < 0)
                return 0;
        if (fstat(*fd, &st) < 0)
                return -errno;
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = st.st_mtim.tv_sec, .tv_nsec = st.st_mtim.tv_nsec ^ 1}};
        if (futimens(*fd, times) < 0 || fstat(*fd, &st) < 0)
                return -errno;
        uint8_t *record = j->files[number];
        job_put_header(record, REPORT_FILE, FILE_STAMP_SIZE);
        const struct FileStamp stamp = file_stamp_of(&st);
        file_stamp_put(record + JOB_HEADER_SIZE, &stamp);
        *fd = close_fd(*fd);
        return 0;
}

/* A place in the report, to be filled when the file is complete. */
static int add_file(struct TakenJob *j) {
        if (j->n_files == TAKEN_FILES_MAX)
                return -E2BIG;
        j->n_files++;
        return 0;
}

static int seal_last_file(struct TakenJob *j) {
        j->step = "files";
        return seal(j, &j->file, j->n_files - 1);
}

static int on_file(struct TakenJob *j, char *bytes, size_t length) {
        j->step = "files";
        if (length < 2 || (bytes[0] & ~1) || memchr(bytes + 1, 0, length - 1) || !path_is_plain(bytes + 1))
                return -EINVAL;
        int r = seal_last_file(j);
        if (r >= 0)
                r = make_folders(j, bytes + 1);
        if (r >= 0)
                r = add_file(j);
        if (r >= 0)
                r = open_new(j, bytes + 1, bytes[0] & 1 ? 0755 : 0644);
        if (r < 0)
                return r;
        j->file = r;
        return 0;
}

static int on_code_name(struct TakenJob *j, const char *name, size_t length) {
        if (j->code_path || !path_is_plain(name) || strchr(name, '/'))
                return -EINVAL;
        return keep_into(j, &j->code_path, WORKSPACE "/", name, length);
}

static const char *last_part(const char *path) {
        const char *part = path;
        for (; *path; path++)
                if (*path == '/')
                        part = path + 1;
        return part;
}

/* The first of the files. Not before there is a body: until then the workspace is to be empty. */
static int open_code(struct TakenJob *j) {
        if (!j->is_body || !j->code_path || j->n_files > 0)
                return 0;
        j->step = "code";
        int r = add_file(j);
        if (r >= 0)
                r = open_new(j, last_part(j->code_path), 0644);
        if (r < 0)
                return r;
        j->code = r;
        return 0;
}

/* Only a name that the cell has data for: a wrong TZ would silently be UTC. */
static int on_timezone(struct TakenJob *j, const char *name, size_t length) {
        j->step = "timezone";
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
        return good ? add_env(j, "TZ=", name, length) : -ENOENT;
}

/* Only in the runtime's own arguments: the caller's are nobody's to change. */
static int on_head_end(struct TakenJob *j) {
        if (!j->exec)
                return -EINVAL;
        char *code = j->code_path;
        if (code && j->waits && j->runner && keep_into(j, &code, "--wait=", code, strlen(code)) < 0)
                return -E2BIG;
        for (size_t i = 1; i < j->n_args; i++)
                if (code && streq(j->args[i], "{code}"))
                        j->args[i] = code;
        return 0;
}

static int on_text(void *userdata, enum JobType type, char *bytes, size_t length) {
        struct TakenJob *j = userdata;
        int r = open_code(j);
        if (r < 0)
                return r;
        j->step = "job";
        switch (type) {
        case JOB_EXEC:
                return bytes[0] == '/' ? keep_into(j, &j->exec, "", bytes, length) : -EINVAL;
        case JOB_RUNTIME_ARG:
        case JOB_ARG:
                return add_arg(j, bytes, length);
        case JOB_ENV:
                return add_env(j, "", bytes, length);
        case JOB_CODE_NAME:
                return on_code_name(j, bytes, length);
        case JOB_FILE:
                return on_file(j, bytes, length);
        case JOB_WORKING_DIR:
                return keep_into(j, &j->working_dir, "", bytes, length);
        case JOB_TIMEZONE:
                return on_timezone(j, bytes, length);
        case JOB_RUNNER:
                j->runner = true;
                return 0;
        case JOB_READ_ONLY:
                j->read_only = true;
                return 0;
        case JOB_WAIT:
                j->waits = !j->forked;
                return 0;
        case JOB_MERGE_STREAMS:
                return dup2(STDOUT_FILENO, STDERR_FILENO) < 0 ? -errno : 0;
        case JOB_HEAD_END:
                return on_head_end(j);
        default:
                return 0;
        }
}

static int on_data(void *userdata, enum JobType type, const uint8_t *bytes, size_t length) {
        struct TakenJob *j = userdata;
        int r = open_code(j);
        if (r < 0)
                return r;
        int fd = type == JOB_CODE ? j->code : j->file;
        j->step = type == JOB_CODE ? "code" : "files";
        if (fd < 0)
                return -EINVAL;
        while (length > 0) {
                ssize_t n = write(fd, bytes, length);
                if (n < 0)
                        return -errno;
                bytes += n;
                length -= (size_t) n;
        }
        j->step = "job";
        return 0;
}

static int read_full(void *userdata, void *buffer, size_t size) {
        char *p = buffer;
        while (size > 0) {
                ssize_t n = read(JOB_FD, p, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ENODATA;
                p += n;
                size -= (size_t) n;
        }
        return 0;
}

static int enter_folder(struct TakenJob *j) {
        char path[RECORD_TEXT_MAX + 1];
        j->step = "working_dir";
        if (chdir(j->working_dir ? j->working_dir : j->folder ? j->folder : WORKSPACE) < 0)
                return -errno;
        /* The kernel marks a folder that cannot be reached from the cell's root. */
        if (syscall(SYS_getcwd, path, sizeof path) < 0)
                return -errno;
        return path[0] == '/' ? 0 : -EPERM;
}

static int report_files(struct TakenJob *j) {
        const uint8_t *p = j->files[0];
        size_t left = j->n_files * TAKEN_FILE_SIZE;
        while (left > 0) {
                ssize_t n = write(JOB_REPORT_FD, p, left);
                if (n < 0)
                        return -errno;
                p += n;
                left -= (size_t) n;
        }
        return 0;
}

int take_job_ready(void) {
        uint8_t record[JOB_HEADER_SIZE];
        job_put_header(record, REPORT_READY, 0);
        ssize_t n = write(JOB_REPORT_FD, record, sizeof record);
        return n == (ssize_t) sizeof record ? 0 : n < 0 ? -errno : -EIO;
}

int take_job_await(void) {
        struct pollfd p = {.fd = JOB_FD, .events = POLLIN};
        int r;
        do
                r = ppoll(&p, 1, NULL, NULL);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : 0;
}

static int read_part(struct TakenJob *j, enum RecordPart part) {
        const struct RecordHandler handler = {.read = read_full, .text = on_text, .data = on_data, .userdata = j, .buffer = record_buffer};
        j->step = "job";
        return records_read_part(&handler, part);
}

int take_job_head(struct TakenJob *j) {
        j->n_args = 1; /* the interpreter's own name comes later */
        int r = read_part(j, RECORD_HEAD);
        if (r >= 0)
                j->args[0] = j->exec;
        return r;
}

int take_job_waiting(struct TakenJob *j, const char *code_path) {
        const char *name = last_part(code_path);
        j->step = "job";
        if (name - code_path < 2 || j->code_path || !path_is_plain(name))
                return -EINVAL;
        int r = keep_into(j, &j->code_path, "", code_path, strlen(code_path));
        return r < 0 ? r : keep_into(j, &j->folder, "", code_path, (size_t) (name - 1 - code_path));
}

/* The code is sealed last: its place in the report is the first all the same. */
static int finish_files(struct TakenJob *j) {
        int r = seal_last_file(j);
        if (r < 0)
                return r;
        j->step = "code";
        r = seal(j, &j->code, 0);
        return r < 0 ? r : report_files(j);
}

int take_job_body(struct TakenJob *j) {
        j->step = "job";
        j->workspace = open(j->folder ? j->folder : WORKSPACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
        j->code = j->file = -EBADF;
        if (j->workspace < 0)
                return -errno;
        j->is_body = true;
        int r = read_part(j, RECORD_BODY);
        if (r >= 0)
                r = enter_folder(j);
        if (r >= 0)
                r = finish_files(j);
        if (r < 0)
                return r;
        j->workspace = close_fd(j->workspace);
        j->step = "read_only_workspace";
        return j->read_only ? read_only_enter() : 0;
}
