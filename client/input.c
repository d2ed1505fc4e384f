/* Bounded reading. */
#include "client/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#define STEP (64 * KIB)

void bytes_done(struct Bytes *b) {
        free(b->data);
        *b = (struct Bytes) {};
}

static int grow(struct Bytes *b, size_t *capacity, size_t max) {
        size_t doubled = MAX(*capacity * 2, (size_t) STEP);
        size_t wanted = MIN(doubled, max + 1);
        char *data;

        if (b->size < *capacity)
                return 0;
        data = realloc(b->data, wanted + 1);
        if (!data)
                return -ENOMEM;
        b->data = data;
        *capacity = wanted;
        return 0;
}

int input_read_fd(int fd, size_t max, struct Bytes *ret) {
        struct Bytes b _cleanup_(bytes_done) = {};
        size_t capacity = 0;
        ssize_t n;
        int r;

        for (;;) {
                r = grow(&b, &capacity, max);
                if (r < 0)
                        return r;
                n = read(fd, b.data + b.size, capacity - b.size);
                if (n == 0)
                        break;
                if (n < 0 && errno == EAGAIN)
                        (void) input_is_ready(fd, USEC_INFINITY);
                else if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0)
                        b.size += (size_t) n;
                if (b.size > max)
                        return -EFBIG;
        }
        b.data[b.size] = '\0';
        *ret = b;
        b = (struct Bytes) {};
        return 0;
}

int input_read_file(const char *path, size_t max, struct Bytes *ret) {
        int fd _cleanup_close_ = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return input_read_fd(fd, max, ret);
}

bool input_is_passed(int fd) {
        struct stat st;

        return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

bool input_is_ready(int fd, usec_t timeout) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        return poll(&p, 1, timeout == USEC_INFINITY ? -1 : (int) (timeout / USEC_PER_MSEC)) != 0;
}
