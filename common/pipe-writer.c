/* Writes a list of byte pieces into a pipe from the event loop. */
#include "common/pipe-writer.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/uio.h>

int pipe_writer_add(struct PipeWriter *w, const void *data, size_t size) {
        if (size == 0)
                return 0;
        if (w->n_pieces == w->n_allocated) {
                size_t n = w->n_allocated ? w->n_allocated * 2 : 16;
                struct Piece *p = reallocarray(w->pieces, n, sizeof *p);
                if (!p)
                        return -ENOMEM;
                w->pieces = p;
                w->n_allocated = n;
        }
        w->pieces[w->n_pieces++] = (struct Piece) { data, size };
        return 0;
}

static ssize_t write_some(struct PipeWriter *w) {
        struct iovec iov[64];
        int n = 0;

        for (size_t i = w->next; i < w->n_pieces && n < (int) ELEMENTSOF(iov); i++) {
                size_t skip = i == w->next ? w->offset : 0;
                iov[n++] = (struct iovec) { (void *) (w->pieces[i].data + skip), w->pieces[i].size - skip };
        }
        ssize_t r = writev(w->fd, iov, n);
        return r < 0 ? -errno : r;
}

static void advance(struct PipeWriter *w, size_t written) {
        while (written > 0) {
                size_t left = w->pieces[w->next].size - w->offset;
                if (written < left) {
                        w->offset += written;
                        return;
                }
                written -= left;
                w->next++;
                w->offset = 0;
        }
}

/* 1 = everything is written, 0 = not yet. */
static int go_on(struct PipeWriter *w) {
        if (w->next < w->n_pieces) {
                ssize_t r = write_some(w);
                if (r == -EAGAIN || r == -EINTR)
                        return 0;
                if (r < 0)
                        return (int) r;
                advance(w, (size_t) r);
        }
        return w->next == w->n_pieces;
}

static int pipe_writer_on_writable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct PipeWriter *w = userdata;
        int r = go_on(w);

        if (r != 0) {
                pipe_writer_done(w);
                w->on_done(w, MIN(r, 0), w->userdata);
        }
        return 0;
}

int pipe_writer_start(struct PipeWriter *w, sd_event *event, int fd, void (*on_done)(struct PipeWriter *w, int error, void *userdata),
                      void *userdata) {
        w->on_done = on_done;
        w->userdata = userdata;
        w->fd = fd;
        int r = w->next < w->n_pieces ? set_nonblock(fd, true) : 0;
        if (r >= 0)
                r = go_on(w);
        if (r > 0 || r == -EPIPE) {
                pipe_writer_done(w);
                return 1;
        }
        return r < 0 ? r : sd_event_add_io(event, &w->source, fd, EPOLLOUT, pipe_writer_on_writable, w);
}

void pipe_writer_done(struct PipeWriter *w) {
        w->source = sd_event_source_disable_unref(w->source);
        w->fd = close_fd(w->fd);
        free(w->pieces);
        w->pieces = NULL;
        w->n_pieces = w->n_allocated = w->next = w->offset = 0;
}
