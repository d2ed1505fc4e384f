/* Walks the workspace with the rights of whoever it is told to be, and tells what differs from what was there before.
 *
 * Nothing here may be led astray or held up by what a program left behind: every name is opened from its folder's descriptor, beneath it, without
 * links, on the same file system, and never in a way that could wait (FIFOs and devices are not opened at all, a leased file is busy). Each folder on
 * the way down costs one descriptor and its names a part of one buffer. */
#include "inside/collect.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/open-within.h"
#include "inside/question.h"

#define NAMES_MAX 4096             /* of one folder, to be sorted */
#define NAMES_BYTES_MAX (1 * MIB)  /* of all folders on the way down */
#define LIST_SIZE (32 * KIB)
#define SMALL_LIST_SIZE (1 * KIB)  /* for each folder on the way down that is too large to be sorted */
#define STOP 1                     /* the answer is full */

struct Entry64 {
        uint64_t inode;
        int64_t offset;
        uint16_t length;
        uint8_t type;
        char name[];
};

/* One question with its answer; mapped when it comes and unmapped when it is answered. */
struct Answer {
        const struct Collect *collect;
        struct Question question;
        uint64_t content_left;
        dev_t device;
        size_t n_entries, entry_bytes;
        bool more;                     /* than could be told */
        size_t path_length;
        char path[COLLECT_PATH_MAX + 1];
        size_t names_used;
        char names[NAMES_BYTES_MAX];
        char list[LIST_SIZE] __attribute__((aligned(8)));
        size_t out_used;
        uint8_t out[JOB_HEADER_SIZE + COLLECT_PIECE_MAX];
};

static void pause_collecting(const struct Collect *c) {
        if (c->on_pause)
                c->on_pause();
}

static int wait_for_pipe(const struct Collect *c, int fd, short events) {
        struct pollfd p = {.fd = fd, .events = events};
        while (ppoll(&p, 1, NULL, c->waiting) < 0) {
                if (errno != EINTR)
                        return -errno;
                pause_collecting(c);
        }
        return 0;
}

static int read_question(void *userdata, void *buffer, size_t size) {
        const struct Collect *c = userdata;
        uint8_t *p = buffer;
        while (size > 0) {
                ssize_t n = read(c->questions, p, size);
                if (n == 0)
                        return -ENODATA;
                if (n > 0) {
                        p += n;
                        size -= (size_t) n;
                        continue;
                }
                int r = errno == EAGAIN ? wait_for_pipe(c, c->questions, POLLIN) : errno == EINTR ? 0 : -errno;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int flush(struct Answer *a) {
        const struct Collect *c = a->collect;
        for (size_t at = 0; at < a->out_used;) {
                ssize_t n = write(c->files, a->out + at, a->out_used - at);
                int r = n >= 0 || errno == EINTR ? 0 : errno == EAGAIN ? wait_for_pipe(c, c->files, POLLOUT) : -errno;
                if (r < 0)
                        return r;
                at += n > 0 ? (size_t) n : 0;
        }
        a->out_used = 0;
        return 0;
}

static bool stamp_equal(const struct FileStamp *a, const struct FileStamp *b) {
        return a->inode == b->inode && a->size == b->size && a->mtime == b->mtime && a->ctime == b->ctime;
}

struct Told {
        enum FileChange change;
        enum FileSkipped skipped;
        bool matched;
        struct FileStamp stamp;
};

static int tell(struct Answer *a, const char *path, size_t length, const struct Told *t) {
        size_t size = 4 + FILE_STAMP_SIZE + length;
        if (a->n_entries == COLLECT_ENTRIES_MAX || length > COLLECT_ENTRY_BYTES_MAX - a->entry_bytes) {
                a->more = true;
                return STOP;
        }
        int r = JOB_HEADER_SIZE + size > sizeof a->out - a->out_used ? flush(a) : 0;
        if (r < 0)
                return r;
        uint8_t *out = a->out + a->out_used;
        a->out_used += JOB_HEADER_SIZE + size;
        a->n_entries++;
        a->entry_bytes += length;
        job_put_header(out, FILES_ENTRY, (uint32_t) size);
        out += JOB_HEADER_SIZE;
        *out++ = (uint8_t) t->change;
        *out++ = (uint8_t) t->skipped;
        *out++ = t->matched;
        *out++ = 0;
        out = file_stamp_put(out, &t->stamp);
        memcpy(out, path, length);
        return 0;
}

static bool is_matched(const struct Answer *a, const char *path, size_t length) {
        for (size_t i = 0; i < a->question.n_patterns; i++)
                if (path_pattern_matches(a->question.patterns[i].bytes, a->question.patterns[i].length, path, length))
                        return true;
        return false;
}

static int tell_skipped(struct Answer *a, enum FileSkipped why, const struct stat *st) {
        const struct Told t = {
                .skipped = why,
                .matched = is_matched(a, a->path, a->path_length),
                .stamp = st ? file_stamp_of(st) : (struct FileStamp) {},
        };
        return tell(a, a->path, a->path_length, &t);
}

static int compare_bytes(const char *a, size_t n, const char *b, size_t m) {
        int r = memcmp(a, b, MIN(n, m));
        return r ? r : n < m ? -1 : n > m;
}

static int compare_base(const void *x, const void *y, void *userdata) {
        const struct BaseEntry *a = x, *b = y;
        const char *paths = userdata;
        return compare_bytes(paths + a->path, a->length, paths + b->path, b->length);
}

static struct BaseEntry *find_base(struct Answer *a) {
        struct Question *q = &a->question;
        for (size_t low = 0, high = q->n_base; low < high;) {
                struct BaseEntry *b = &q->base[low + (high - low) / 2];
                int r = compare_bytes(a->path, a->path_length, q->base_paths + b->path, b->length);
                if (r == 0)
                        return b;
                if (r < 0)
                        high = (size_t) (b - q->base);
                else
                        low = (size_t) (b - q->base) + 1;
        }
        return NULL;
}

/* Once: no name here has a "..", so EAGAIN is a lease. */
static int open_beneath(int folder, const char *name, int flags) {
        return open_within_once(folder, name, flags | O_NOFOLLOW, 0, WITHIN_BENEATH | WITHIN_NO_SYMLINKS | WITHIN_NO_MAGICLINKS | WITHIN_SAME_MOUNT);
}

static int open_to_read(int folder, const char *name, int flags) {
        return open_beneath(folder, name, flags | O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

static enum FileSkipped why_not_opened(int error) {
        switch (-error) {
        case EAGAIN:
                return FILE_BUSY;
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
                return FILE_VANISHED;
        case ENXIO:
        case ENODEV:
                return FILE_SPECIAL;
        default:
                return FILE_UNREADABLE;
        }
}

/* Never more than was allowed when it was opened, however the file grows meanwhile. */
static int send_content(struct Answer *a, int fd, uint64_t size) {
        int r = flush(a);
        while (r >= 0 && size > 0) {
                ssize_t n = read(fd, a->out + JOB_HEADER_SIZE, MIN(size, COLLECT_PIECE_MAX));
                if (n <= 0)
                        return 0; /* it shrank */
                job_put_header(a->out, FILES_DATA, (uint32_t) n);
                a->out_used = JOB_HEADER_SIZE + (size_t) n;
                a->content_left -= (uint64_t) n;
                size -= (uint64_t) n;
                r = flush(a);
        }
        return r;
}

/* A file whose content is wanted. What is told of it and what is sent is then of the one file that was opened. */
static int open_matched(struct Answer *a, int folder, const char *name, struct stat *st, enum FileSkipped *ret) {
        if ((uint64_t) st->st_size > a->content_left) {
                *ret = FILE_TOO_LARGE;
                return -EBADF;
        }
        int fd = open_to_read(folder, name, 0);
        if (fd < 0 || fstat(fd, st) < 0)
                *ret = why_not_opened(fd < 0 ? fd : -errno);
        else if (!S_ISREG(st->st_mode))
                *ret = FILE_SPECIAL;
        else if ((uint64_t) st->st_size > a->content_left)
                *ret = FILE_TOO_LARGE;
        else
                return fd;
        return close_fd(fd);
}

static int visit_file(struct Answer *a, int folder, const char *name, struct stat *st) {
        struct BaseEntry *b = find_base(a);
        struct Told t = {.change = FILE_ADDED, .matched = is_matched(a, a->path, a->path_length)};
        int fd _cleanup_close_ = -EBADF;
        if (b)
                b->seen = true;
        t.stamp = file_stamp_of(st);
        if (!t.matched && b && stamp_equal(&b->stamp, &t.stamp))
                return 0;
        if (!S_ISREG(st->st_mode))
                t.skipped = S_ISLNK(st->st_mode) ? FILE_SYMLINK : FILE_SPECIAL;
        else if (t.matched)
                fd = open_matched(a, folder, name, st, &t.skipped);
        t.stamp = file_stamp_of(st);
        if (b)
                t.change = stamp_equal(&b->stamp, &t.stamp) ? FILE_UNCHANGED : FILE_MODIFIED;
        int r = tell(a, a->path, a->path_length, &t);
        return r == 0 && fd >= 0 ? send_content(a, fd, t.stamp.size) : r;
}

static int walk(struct Answer *a, int fd, unsigned depth);

static int visit_folder(struct Answer *a, int folder, const char *name, const struct stat *st, unsigned depth) {
        if (depth == COLLECT_DEPTH_MAX)
                return tell_skipped(a, FILE_TOO_MANY, st);
        int fd _cleanup_close_ = open_to_read(folder, name, O_DIRECTORY);
        if (fd == -EXDEV)
                return 0; /* something of the operator's that is mounted there */
        if (fd < 0)
                return tell_skipped(a, why_not_opened(fd), st);
        return walk(a, fd, depth + 1);
}

static int visit(struct Answer *a, int folder, const char *name, unsigned depth) {
        size_t before = a->path_length, length = strlen(name);
        struct stat st;
        int r = 0;
        if (before + (before > 0) + length > COLLECT_PATH_MAX) {
                a->more = true;
                return 0;
        }
        if (before > 0)
                a->path[a->path_length++] = '/';
        memcpy(a->path + a->path_length, name, length);
        a->path_length += length;
        if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
                r = errno == ENOENT ? 0 : tell_skipped(a, FILE_UNREADABLE, NULL);
        else if (st.st_dev == a->device)
                r = S_ISDIR(st.st_mode) ? visit_folder(a, folder, name, &st, depth) : visit_file(a, folder, name, &st);
        a->path_length = before;
        return r;
}

/* The names of a folder, piece by piece, until on_name returns something else than 0. */
static int list(struct Answer *a, int fd, char *buffer, size_t size, int (*on_name)(void *userdata, const char *name), void *userdata) {
        for (;;) {
                long n = syscall(SYS_getdents64, fd, buffer, size);
                if (n < 0 && errno != ENOENT)
                        a->more = true; /* it cannot be listed to its end */
                if (n <= 0)
                        return 0;
                for (long at = 0; at < n;) {
                        const struct Entry64 *e = (const struct Entry64 *) (buffer + at);
                        at += e->length;
                        if (streq(e->name, ".") || streq(e->name, ".."))
                                continue;
                        int r = on_name(userdata, e->name);
                        if (r != 0)
                                return r;
                }
        }
}

/* Names of one folder as they lie in the answer's buffer: each with its NUL, then an aligned table of where they begin. */
struct Names {
        struct Answer *answer;
        size_t count;
};

static int keep_name(void *userdata, const char *name) {
        struct Names *names = userdata;
        struct Answer *a = names->answer;
        size_t size = strlen(name) + 1;
        /* Room for the table too. */
        if (names->count == NAMES_MAX || a->names_used + size + (names->count + 2) * sizeof(uint32_t) > sizeof a->names)
                return STOP;
        memcpy(a->names + a->names_used, name, size);
        a->names_used += size;
        names->count++;
        return 0;
}

static int compare_names(const void *x, const void *y, void *userdata) {
        const char *names = userdata;
        return strcmp(names + *(const uint32_t *) x, names + *(const uint32_t *) y);
}

static int walk_sorted(struct Answer *a, int fd, size_t first, size_t count, unsigned depth) {
        size_t aligned = (a->names_used + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
        uint32_t *table = (uint32_t *) (a->names + aligned);
        for (size_t i = 0, at = first; i < count; i++, at += strlen(a->names + at) + 1)
                table[i] = (uint32_t) at;
        a->names_used = aligned + count * sizeof(uint32_t);
        qsort_r(table, count, sizeof(uint32_t), compare_names, a->names);
        for (size_t i = 0; i < count; i++) {
                int r = visit(a, fd, a->names + table[i], depth);
                if (r != 0)
                        return r;
        }
        return 0;
}

struct Visit {
        struct Answer *answer;
        int fd;
        unsigned depth;
};

static int visit_listed(void *userdata, const char *name) {
        const struct Visit *v = userdata;
        return visit(v->answer, v->fd, name, v->depth);
}

static int walk_unsorted(struct Answer *a, int fd, unsigned depth) {
        char buffer[SMALL_LIST_SIZE] __attribute__((aligned(8)));
        struct Visit v = {a, fd, depth};
        if (lseek(fd, 0, SEEK_SET) < 0) {
                a->more = true;
                return 0;
        }
        return list(a, fd, buffer, sizeof buffer, visit_listed, &v);
}

/* 0, STOP, or a negative errno: the files pipe is broken. */
static int walk(struct Answer *a, int fd, unsigned depth) {
        struct Names names = {.answer = a};
        size_t first = (a->names_used + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
        pause_collecting(a->collect);
        a->names_used = first;
        int r = list(a, fd, a->list, sizeof a->list, keep_name, &names);
        if (r == 0) {
                r = walk_sorted(a, fd, first, names.count, depth);
        } else {
                a->names_used = first;
                r = walk_unsorted(a, fd, depth);
        }
        a->names_used = first;
        return r;
}

/* Not seen is not gone: it may lie where we could not look. */
static bool is_gone(const struct Answer *a, const struct BaseEntry *b) {
        char path[COLLECT_PATH_MAX + 1];
        struct stat st;
        memcpy(path, a->question.base_paths + b->path, b->length);
        path[b->length] = 0;
        int fd _cleanup_close_ = open_beneath(a->collect->workspace, path, O_PATH);
        if (fd < 0)
                return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP;
        return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static int tell_gone(struct Answer *a) {
        struct Question *q = &a->question;
        for (size_t i = 0; i < q->n_base; i++) {
                const char *path = q->base_paths + q->base[i].path;
                size_t length = q->base[i].length;
                if (q->base[i].seen || !is_gone(a, &q->base[i]))
                        continue;
                const struct Told t = {.change = FILE_DELETED, .matched = is_matched(a, path, length), .stamp = q->base[i].stamp};
                int r = tell(a, path, length, &t);
                if (r != 0)
                        return r;
        }
        return 0;
}

static int tell_end(struct Answer *a) {
        int r = sizeof a->out - a->out_used < JOB_HEADER_SIZE + 1 ? flush(a) : 0;
        if (r < 0)
                return r;
        job_put_header(a->out + a->out_used, FILES_END, 1);
        a->out[a->out_used + JOB_HEADER_SIZE] = a->more;
        a->out_used += JOB_HEADER_SIZE + 1;
        return flush(a);
}

static int answer(struct Answer *a) {
        struct stat st;
        a->content_left = a->question.content_max;
        qsort_r(a->question.base, a->question.n_base, sizeof(struct BaseEntry), compare_base, a->question.base_paths);
        int fd _cleanup_close_ = open_to_read(a->collect->workspace, ".", O_DIRECTORY);
        int r = 0;
        if (fd < 0 || fstat(fd, &st) < 0) {
                a->more = true; /* the program has forbidden its own user to look */
        } else {
                a->device = st.st_dev;
                r = walk(a, fd, 0);
        }
        if (r == 0)
                r = tell_gone(a);
        return r < 0 ? r : tell_end(a);
}

int collect_answer(const struct Collect *c) {
        /* Nothing is kept for a question that has not begun. */
        int r = wait_for_pipe(c, c->questions, POLLIN);
        if (r < 0)
                return r;
        struct Answer *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (a == MAP_FAILED)
                return -errno;
        const struct QuestionReader reader = {.read = read_question, .userdata = (void *) c};
        a->collect = c;
        r = question_read(&a->question, &reader);
        if (r >= 0)
                r = answer(a);
        munmap(a, sizeof *a);
        return r;
}
