/* The output pipes of one execution. */
#include "server/stream/output.h"

#include <sys/epoll.h>

#define READS_AT_ONCE 4 /* then others have their turn */

static void summary_add(struct OutputSummary *s, const uint8_t *data, size_t size) {
        if (s->size < OUTPUT_EDGE)
                memcpy(s->head + s->size, data, MIN(size, (size_t) (OUTPUT_EDGE - s->size)));
        size_t n = MIN(size, (size_t) OUTPUT_EDGE);
        for (size_t i = 0; i < n; i++)
                s->tail[(s->size + size - n + i) % OUTPUT_EDGE] = data[size - n + i];
        s->size += size;
        if (s->hash)
                (void) EVP_DigestUpdate(s->hash, data, size);
}

static bool pipes_ended(const struct Output *o) {
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++)
                if (o->pipes[s].fd >= 0)
                        return false;
        return true;
}

static void pipe_end(struct OutputPipe *p) {
        p->source = sd_event_source_disable_unref(p->source);
        p->fd = close_fd(p->fd);
        p->waiting = false;
}

/* The cap is reached: one byte more, and the stream is over it. */
static ssize_t read_beyond_cap(struct OutputPipe *p) {
        uint8_t byte;
        ssize_t n = read(p->fd, &byte, 1);

        if (n == 1) {
                bool first = !output_is_over(p->output, STREAM_STDOUT) && !output_is_over(p->output, STREAM_STDERR);
                struct Output *o = p->output;
                p->over = true;
                pipe_end(p);
                if (first && o->on_over)
                        o->on_over(o->userdata);
        }
        return n;
}

/* Not returned to the event loop, which would only stop to call us: the end would never come. */
static int pipe_broken(struct OutputPipe *p, int error) {
        struct Output *o = p->output;

        pipe_end(p);
        if (o->on_broken)
                o->on_broken(error, o->userdata);
        return 0;
}

/* One read. 1 = there may be more, 0 = nothing now, end or no room. */
static int pipe_read(struct OutputPipe *p) {
        static uint8_t buffer[OUTPUT_RECORD_MAX]; /* one thread reads */
        struct Output *o = p->output;
        size_t room = eventlog_room(o->log), left = (size_t) (o->cap - p->summary.size);
        ssize_t n;

        if (room == 0) {
                p->waiting = true;
                (void) sd_event_source_set_enabled(p->source, SD_EVENT_OFF);
                return 0;
        }
        if (left == 0)
                n = read_beyond_cap(p);
        else {
                n = read(p->fd, buffer, MIN(MIN(sizeof buffer, room), left));
                if (n > 0) {
                        o->last_at = now_monotonic();
                        summary_add(&p->summary, buffer, (size_t) n);
                        int r = eventlog_add_output(o->log, p->stream, buffer, (size_t) n);
                        if (r < 0)
                                return pipe_broken(p, r);
                }
        }
        if (n < 0 && errno == EINTR)
                return 1;
        if (n == 0 || (n < 0 && (errno != EAGAIN || o->draining)))
                pipe_end(p);
        return n > 0 && p->fd >= 0;
}

static int pipe_on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        int r = 1;
        for (int i = 0; i < READS_AT_ONCE && r > 0; i++)
                r = pipe_read(userdata);
        return 0;
}

static int output_on_drain(sd_event_source *source, void *userdata) {
        struct Output *o = userdata;

        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++) {
                struct OutputPipe *p = &o->pipes[s];
                int r = 1;
                while (p->fd >= 0 && !p->waiting && r > 0)
                        r = pipe_read(p);
        }
        if (pipes_ended(o))
                o->on_drained(o->userdata);
        return 0;
}

static int pipe_start(struct OutputPipe *p, sd_event *event, int fd) {
        p->fd = fd;
        if (fd < 0)
                return 0;
        int r = set_nonblock(fd, true);
        if (r < 0)
                return r;
        return sd_event_add_io(event, &p->source, fd, EPOLLIN, pipe_on_readable, p);
}

int output_start(struct Output *o, sd_event *event, int out, int err) {
        int r1 = pipe_start(&o->pipes[STREAM_STDOUT], event, out);
        int r2 = pipe_start(&o->pipes[STREAM_STDERR], event, err);
        return r1 < 0 ? r1 : r2;
}

int output_init(struct Output *o, sd_event *event, struct EventLog *log, uint64_t cap, bool hash) {
        o->log = log;
        o->cap = cap;
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++) {
                struct OutputPipe *p = &o->pipes[s];
                *p = (struct OutputPipe) { .output = o, .stream = s, .fd = -EBADF };
                if (!hash)
                        continue;
                p->summary.hash = EVP_MD_CTX_new();
                if (!p->summary.hash || EVP_DigestInit_ex(p->summary.hash, EVP_sha256(), NULL) != 1)
                        return -ENOMEM;
        }
        int r = sd_event_add_defer(event, &o->drain, output_on_drain, o);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(o->drain, SD_EVENT_OFF);
}

void output_done(struct Output *o) {
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++) {
                struct OutputPipe *p = &o->pipes[s];
                if (!p->output)
                        continue;
                p->source = sd_event_source_disable_unref(p->source);
                p->fd = close_fd(p->fd);
                EVP_MD_CTX_free(p->summary.hash);
                p->summary.hash = NULL;
        }
        o->drain = sd_event_source_disable_unref(o->drain);
}

void output_resume(struct Output *o) {
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++) {
                struct OutputPipe *p = &o->pipes[s];
                if (!p->waiting)
                        continue;
                p->waiting = false;
                /* What nobody writes to any more never becomes readable when it is empty: draining reads without being asked. */
                if (o->draining)
                        (void) sd_event_source_set_enabled(o->drain, SD_EVENT_ONESHOT);
                else
                        (void) sd_event_source_set_enabled(p->source, SD_EVENT_ON);
        }
}

void output_drain(struct Output *o, bool at_once) {
        o->draining = true;
        for (enum Stream s = STREAM_STDOUT; s < STREAM_MAX_; s++)
                if (o->pipes[s].source && !at_once)
                        (void) sd_event_source_set_enabled(o->pipes[s].source, SD_EVENT_OFF);
        if (at_once)
                (void) output_on_drain(o->drain, o);
        else
                (void) sd_event_source_set_enabled(o->drain, SD_EVENT_ONESHOT);
}

bool output_is_held(const struct Output *o) {
        return o->pipes[STREAM_STDOUT].waiting || o->pipes[STREAM_STDERR].waiting;
}

bool output_is_over(const struct Output *o, enum Stream stream) {
        return o->pipes[stream].over;
}

uint64_t output_size(const struct Output *o, enum Stream stream) {
        return o->pipes[stream].summary.size;
}

size_t output_summary(struct Output *o, enum Stream stream, char sha256[65], uint8_t head[OUTPUT_EDGE], uint8_t tail[OUTPUT_EDGE]) {
        const struct OutputSummary *s = &o->pipes[stream].summary;
        size_t n = (size_t) MIN(s->size, (uint64_t) OUTPUT_EDGE);
        uint8_t digest[EVP_MAX_MD_SIZE];
        unsigned length;

        sha256[0] = 0;
        if (s->hash && EVP_DigestFinal_ex(s->hash, digest, &length) == 1)
                hex_encode(digest, length, sha256);
        memcpy(head, s->head, n);
        for (size_t i = 0; i < n; i++)
                tail[i] = s->tail[(s->size - n + i) % OUTPUT_EDGE];
        return n;
}
