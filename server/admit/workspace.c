/* Input files and the working folder. Decided on the names alone: a fresh cell holds nothing but what the request brings. */
#include "server/admit/workspace.h"

#include <stdio.h>

#define FILES_MAX 1000
#define FILES_BYTES_MAX (64 * MIB)
#define PATH_MAX_BYTES 4096
#define COMPONENT_MAX 255
#define DEPTH_MAX 64
#define PAGE 4096

/* NULL when it is a sound relative path, else what is wrong with it. */
static const char *path_fault(const char *path, size_t size) {
        size_t depth = 0;

        if (size == 0)
                return "is empty";
        if (size != strlen(path))
                return "holds a NUL byte";
        if (size > PATH_MAX_BYTES)
                return "is longer than 4096 bytes";
        if (*path == '/')
                return "must be relative to /workspace";
        for (const char *p = path;; p++) {
                size_t n = strcspn(p, "/");
                if (n == 0)
                        return "holds an empty component";
                if (n > COMPONENT_MAX)
                        return "holds a name longer than 255 bytes";
                if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return "holds a '.' or '..' component";
                if (++depth > DEPTH_MAX)
                        return "is more than 64 folders deep";
                p += n;
                if (!*p)
                        return NULL;
        }
}

static bool is_below(const char *path, const char *folder, size_t n) {
        return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* As strcmp, but '/' comes before every other character: what lies below a folder then follows it at once. The same path twice: in the
 * request's order. */
static int compare_paths(const void *a, const void *b) {
        const struct RequestFile *first = *(const struct RequestFile *const *) a, *second = *(const struct RequestFile *const *) b;
        const char *p = first->path, *q = second->path;

        while (*p && *p == *q) {
                p++;
                q++;
        }
        if (!*p && !*q)
                return first < second ? -1 : first > second;
        int x = *p == '/' ? 1 : *p ? (unsigned char) *p + 1 : 0, y = *q == '/' ? 1 : *q ? (unsigned char) *q + 1 : 0;
        return x - y;
}

/* Sorted, a path that is there twice or that lies below a file has its rival right before it. */
static int check_collisions(const struct Request *r, const struct RequestFile **sorted, struct Refusal *refusal) {
        char field[64];

        for (size_t i = 0; i + 1 < r->n_files; i++) {
                const char *path = sorted[i]->path, *next = sorted[i + 1]->path;
                bool same = streq(path, next);
                if (!same && !is_below(next, path, strlen(path)))
                        continue;
                (void) snprintf(field, sizeof field, "files[%zu].path", (size_t) (sorted[i + 1] - r->files));
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "'%.100s' %s files[%zu]", next,
                              same ? "is there already:" : "lies below a file:", (size_t) (sorted[i] - r->files));
        }
        return 0;
}

static int check_names(const struct Request *r, const char *code_name, struct Refusal *refusal) {
        char field[64];

        for (size_t i = 0; i < r->n_files; i++) {
                const char *path = r->files[i].path, *fault = path_fault(path, r->files[i].path_size);
                (void) snprintf(field, sizeof field, "files[%zu].path", i);
                if (fault)
                        return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "%s; use a path such as 'data/sales.csv'", fault);
                if (streq(path, code_name) || is_below(path, code_name, strlen(code_name)))
                        return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "'%.100s' is the place of the code itself; choose another name", path);
        }
        return 0;
}

static size_t count_folders(const char *path) {
        size_t n = 0;
        for (; *path; path++)
                n += *path == '/';
        return n;
}

static int check_fit(const struct Request *r, const struct Limits *limits, struct Refusal *refusal) {
        uint64_t bytes = 0, pages = 1 + (r->code.size + PAGE - 1) / PAGE, inodes = 2;

        for (size_t i = 0; i < r->n_files; i++) {
                bytes += r->files[i].content.size;
                pages += (r->files[i].content.size + PAGE - 1) / PAGE;
                inodes += 1 + count_folders(r->files[i].path);
        }
        if (bytes > FILES_BYTES_MAX)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "files", "together %llu bytes are more than the 67108864 allowed",
                              (unsigned long long) bytes);
        if (pages * PAGE > limits->workspace_bytes)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "files", "code and files need %llu bytes, limits.workspace_bytes is %llu; raise it",
                              (unsigned long long) (pages * PAGE), (unsigned long long) limits->workspace_bytes);
        if (inodes > limits->workspace_inodes)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "files", "need up to %llu inodes, limits.workspace_inodes is %llu; raise it",
                              (unsigned long long) inodes, (unsigned long long) limits->workspace_inodes);
        return 0;
}

int workspace_check(const struct Request *r, const char *code_name, const struct Limits *limits, struct Refusal *refusal) {
        if (r->n_files > FILES_MAX)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "files", "%zu files are more than the %d allowed; send an archive", r->n_files,
                              FILES_MAX);
        int e = check_names(r, code_name, refusal);
        if (e == 0)
                e = check_fit(r, limits, refusal);
        if (e != 0 || r->n_files < 2)
                return e;
        const struct RequestFile **sorted _cleanup_free_ = malloc(r->n_files * sizeof *sorted);
        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < r->n_files; i++)
                sorted[i] = &r->files[i];
        qsort(sorted, r->n_files, sizeof *sorted, compare_paths);
        return check_collisions(r, sorted, refusal);
}

static int refuse_dir(struct Refusal *refusal, const char *dir, const char *fault) {
        return refuse(refusal, REFUSE_INVALID_ARGUMENT, "working_dir", "'%.100s' %s; it must be a folder below /workspace that `files` makes, or /tmp",
                      dir, fault);
}

/* As people write folders: "sub/" is "sub". */
static char *without_last_slashes(const char *path) {
        size_t n = strlen(path);

        while (n > 1 && path[n - 1] == '/')
                n--;
        return strndup(path, n);
}

int workspace_working_dir(const struct Request *r, char **ret, struct Refusal *refusal) {
        char *dir _cleanup_free_ = without_last_slashes(strempty(r->working_dir));
        const char *below = dir;
        bool found = false;

        if (!dir)
                return -ENOMEM;
        if (!*dir || streq(dir, "/workspace") || streq(dir, ".")) {
                *ret = strdup("/workspace");
                return *ret ? 0 : -ENOMEM;
        }
        if (streq(dir, "/tmp")) {
                *ret = strdup(dir);
                return *ret ? 0 : -ENOMEM;
        }
        if (strncmp(dir, "/workspace/", 11) == 0)
                below = dir + 11;
        else if (*dir == '/')
                return refuse_dir(refusal, dir, "is outside");
        const char *fault = path_fault(below, strlen(below));
        if (fault)
                return refuse_dir(refusal, dir, fault);
        for (size_t i = 0; i < r->n_files && !found; i++) {
                if (streq(r->files[i].path, below))
                        return refuse_dir(refusal, dir, "is a file");
                found = is_below(r->files[i].path, below, strlen(below));
        }
        if (!found)
                return refuse_dir(refusal, dir, "does not exist");
        return asprintf(ret, "/workspace/%s", below) < 0 ? -ENOMEM : 0;
}
