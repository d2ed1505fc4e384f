/* Pieces go to the end of the file in the order in which they come; an item knows its parts. Those of one item mostly come in a row, and
 * are one part then. */
#include "client/spool.h"

#include <fcntl.h>
#include <stdio.h>

#include "client/console.h"

#define PARTS_MAX 65536 /* of all items: a server that mixes tiny pieces does not fill our memory */
#define ID_MAX 256
#define COPY_SIZE (256 * KIB)

static int open_unnamed(const char *folder) {
        int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        char *path _cleanup_free_ = NULL;

        if (fd >= 0)
                return fd;
        /* Not every file system has unnamed files. */
        if (asprintf(&path, "%s/.glovebox-XXXXXX", folder) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
                return -errno;
        (void) unlink(path);
        return fd;
}

/* /var/tmp before /tmp: the latter is often in memory. */
static int open_temporary(void) {
        const char *const folders[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
        int r = -ENOENT;

        for (size_t i = 0; i < ELEMENTSOF(folders) && r < 0; i++)
                if (!isempty(folders[i]))
                        r = open_unnamed(folders[i]);
        return r;
}

static int spool_open(struct Spool *s, int folder) {
        char path[64];

        if (s->fd >= 0)
                return 0;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", folder);
        s->fd = folder >= 0 ? open_unnamed(path) : open_temporary();
        if (s->fd < 0 && folder >= 0)
                s->fd = open_temporary();
        return MIN(s->fd, 0);
}

static struct SpoolItem *find(const struct Spool *s, const char *id) {
        /* Mostly it is the last one. */
        for (size_t i = s->n_items; i > 0; i--)
                if (streq(s->items[i - 1].id, id))
                        return &s->items[i - 1];
        return NULL;
}

static int new_item(struct Spool *s, const char *id, struct SpoolItem **ret) {
        if (s->n_items == SPOOL_ITEMS_MAX || strlen(id) > ID_MAX)
                return -E2BIG;
        if (!s->items)
                s->items = calloc(SPOOL_ITEMS_MAX, sizeof(*s->items));
        if (!s->items)
                return -ENOMEM;
        s->items[s->n_items].id = strdup(id);
        if (!s->items[s->n_items].id)
                return -ENOMEM;
        *ret = &s->items[s->n_items++];
        return 0;
}

static int note_part(struct Spool *s, struct SpoolItem *item, size_t size) {
        struct SpoolPart *last = item->n_parts > 0 ? &item->parts[item->n_parts - 1] : NULL;
        struct SpoolPart *parts;

        if (last && last->at + last->size == s->size) {
                last->size += size;
                return 0;
        }
        if (s->n_parts == PARTS_MAX)
                return -E2BIG;
        parts = reallocarray(item->parts, item->n_parts + 1, sizeof(*parts));
        if (!parts)
                return -ENOMEM;
        item->parts = parts;
        item->parts[item->n_parts++] = (struct SpoolPart) { .at = s->size, .size = size };
        s->n_parts++;
        return 0;
}

static int append(struct Spool *s, int folder, struct SpoolItem *item, const void *data, size_t size) {
        const char *p = data;
        int r;

        if (size > SPOOL_BYTES_MAX - s->size)
                return -E2BIG;
        if (s->only_counts) {
                s->size += size;
                item->size += size;
                return 0;
        }
        r = spool_open(s, folder);
        for (size_t done = 0; r == 0 && done < size;) {
                ssize_t n = pwrite(s->fd, p + done, size - done, (off_t) (s->size + done));

                if (n >= 0)
                        done += (size_t) n;
                else if (errno != EINTR)
                        r = -errno;
        }
        if (r == 0 && size > 0)
                r = note_part(s, item, size);
        if (r < 0)
                return r;
        s->size += size;
        item->size += size;
        return 0;
}

int spool_add(struct Spool *s, int folder, const Glovebox__V1__Content *piece) {
        struct SpoolItem *item = find(s, piece->content_id);
        int r = 0;

        if (!item)
                r = new_item(s, piece->content_id, &item);
        if (r < 0)
                return r;
        if (item->whole || piece->offset != item->size)
                return -EBADMSG;
        r = append(s, folder, item, piece->data.data, piece->data.len);
        if (r == 0)
                item->whole = piece->last;
        return r;
}

int spool_put(struct Spool *s, int folder, const char *id, const void *data, size_t size) {
        struct SpoolItem *item;
        int r;

        r = new_item(s, id, &item);
        if (r == 0)
                r = append(s, folder, item, data, size);
        if (r == 0)
                item->whole = true;
        return r;
}

const struct SpoolItem *spool_find(const struct Spool *s, const char *id) {
        return find(s, id);
}

/* Whole or not at all: the file is ours alone. */
static int read_at(int fd, char *buffer, size_t size, uint64_t at) {
        for (size_t done = 0; done < size;) {
                ssize_t n = pread(fd, buffer + done, size - done, (off_t) (at + done));

                if (n == 0)
                        return -EIO;
                if (n > 0)
                        done += (size_t) n;
                else if (errno != EINTR)
                        return -errno;
        }
        return 0;
}

int spool_copy(const struct Spool *s, const struct SpoolItem *item, int to) {
        char *buffer _cleanup_free_ = malloc(COPY_SIZE);
        int r = buffer ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < item->n_parts; i++)
                for (uint64_t done = 0; r == 0 && done < item->parts[i].size;) {
                        size_t n = (size_t) MIN((uint64_t) COPY_SIZE, item->parts[i].size - done);

                        r = read_at(s->fd, buffer, n, item->parts[i].at + done);
                        if (r == 0)
                                r = console_write(to, buffer, n);
                        done += n;
                }
        return r;
}

int spool_read(const struct Spool *s, const struct SpoolItem *item, size_t max, struct Bytes *ret) {
        struct Bytes b _cleanup_(bytes_done) = {};
        int r = 0;

        if (item->size > max)
                return -EFBIG;
        b.data = malloc(item->size + 1);
        if (!b.data)
                return -ENOMEM;
        for (size_t i = 0; r == 0 && i < item->n_parts; i++) {
                r = read_at(s->fd, b.data + b.size, item->parts[i].size, item->parts[i].at);
                b.size += item->parts[i].size;
        }
        if (r < 0)
                return r;
        b.data[b.size] = '\0';
        *ret = b;
        b = (struct Bytes) {};
        return 0;
}

void spool_done(struct Spool *s) {
        for (size_t i = 0; i < s->n_items; i++) {
                free(s->items[i].id);
                free(s->items[i].parts);
        }
        free(s->items);
        (void) close_fd(s->fd);
        *s = SPOOL_NULL;
}
