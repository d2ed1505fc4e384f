/* The output pipes of one execution: read into its log as long as the log has room, counted, capped to the byte, and fingerprinted for
 * the audit. */
#pragma once

#include <openssl/evp.h>

#include "server/stream/eventlog.h"

#define OUTPUT_EDGE 64

/* What the audit tells of a stream. */
struct OutputSummary {
        uint64_t size;
        uint8_t head[OUTPUT_EDGE], tail[OUTPUT_EDGE]; /* first and last bytes; tail is a ring ended by size */
        EVP_MD_CTX *hash;                              /* SHA-256 of all bytes; NULL = not wanted */
};

struct OutputPipe {
        struct Output *output;
        enum Stream stream;
        int fd; /* -EBADF: closed or ended */
        sd_event_source *source;
        struct OutputSummary summary;
        bool over;    /* more than the cap was printed */
        bool waiting; /* there may be bytes, but the log has no room */
};

struct Output {
        struct EventLog *log;
        struct OutputPipe pipes[STREAM_MAX_];
        uint64_t cap;
        bool draining;
        usec_t last_at; /* when the program last printed (CLOCK_MONOTONIC); 0 = never */
        void (*on_over)(void *userdata);    /* a stream went over the cap; once */
        void (*on_broken)(int error, void *userdata); /* bytes were lost: no memory to keep them */
        void (*on_drained)(void *userdata); /* after output_drain: both pipes are empty */
        sd_event_source *drain;
        void *userdata;
};

/* Before anything else; callbacks and userdata are set by then and come from the event loop. hash: somebody reads the audit (it
 * costs about 50 us for 64 KiB). */
int output_init(struct Output *o, sd_event *event, struct EventLog *log, uint64_t cap, bool hash);
/* Takes the descriptors; err may be -EBADF (merged streams). */
int output_start(struct Output *o, sd_event *event, int out, int err);
void output_done(struct Output *o);
/* The log has room again. */
void output_resume(struct Output *o);
/* Nothing writes any more: read what is left, then on_drained. at_once: it may come before this returns. */
void output_drain(struct Output *o, bool at_once);
/* A stream is held back by a slow reader. */
bool output_is_held(const struct Output *o);
bool output_is_over(const struct Output *o, enum Stream stream);
/* For the audit, once: the SHA-256 in hexadecimal ("" when it was not wanted) and the first and last bytes; returns how many of each. */
size_t output_summary(struct Output *o, enum Stream stream, char sha256[65], uint8_t head[OUTPUT_EDGE], uint8_t tail[OUTPUT_EDGE]);
uint64_t output_size(const struct Output *o, enum Stream stream);
