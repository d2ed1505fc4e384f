/* Writes a list of byte pieces into a pipe as its reader takes them, from the event loop. The pieces' bytes stay the caller's and must
 * live until it is done. */
#pragma once

#include <systemd/sd-event.h>

#include "common/util.h"

struct Piece {
        const uint8_t *data;
        size_t size;
};

struct PipeWriter {
        int fd;
        sd_event_source *source;
        struct Piece *pieces;
        size_t n_pieces, n_allocated, next, offset;
        void (*on_done)(struct PipeWriter *w, int error, void *userdata);
        void *userdata;
};

#define PIPE_WRITER_NULL { .fd = -EBADF }

/* The bytes are referred to, not copied. */
int pipe_writer_add(struct PipeWriter *w, const void *data, size_t size);
/* Takes fd and closes it once everything is written or the reader has gone. What the pipe takes is written at once. 1 = that was all, or there is no
 * reader: on_done does not come. 0 = on_done comes from the event loop, once, with 0 or a negative errno (-EPIPE: the reader has gone). */
int pipe_writer_start(struct PipeWriter *w, sd_event *event, int fd, void (*on_done)(struct PipeWriter *w, int error, void *userdata),
                      void *userdata);
/* Stops without on_done. */
void pipe_writer_done(struct PipeWriter *w);
