/* HTTP/2 bounds the streams that are open, not the streams that are opened: a client that opens and resets them as fast as it can
 * makes gRPC 1.51 work and allocate without end, and its reading thread does not come back to us before the flood is over. The library
 * has no setting for it and gives us no place in the way of the bytes; but it reads with recvmsg(), and a program's own recvmsg() comes
 * before the C library's. So this one counts the frames of the connections we watch, and reports a broken connection when a caller is
 * faster than any honest one. Everything else passes through. */
#include "server/accept/guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define NUMBERS 65536 /* descriptors that can be watched */
#define PREFACE_SIZE 24
#define FRAME_HEAD_SIZE 9
#define FRAME_SMALL 1024 /* a larger one of type DATA pays by its size alone */
#define FRAME_DATA 0
#define FRAME_HEADERS 1
#define FRAME_CONTINUATION 9
#define FLAG_END_HEADERS 4
#define HEADER_BLOCK_MAX 65536 /* of one call, compressed; far above what gRPC takes, which refuses only after the block's end */

/* Per second: for each processor. */
#define CALLS_BURST 2000       /* of a caller */
#define CALLS_BURST_OF_ONE 1000 /* of a connection: as many as may be open */
#define CALLS_PER_SECOND 5000 /* a client that asks for one small thing after the other gets to half of it */
#define CALLS_INNOCENT 20      /* so few lately, and a connection does not pay for what others of its caller do */
#define FRAMES_BURST 100000
#define FRAMES_PER_SECOND 50000

struct Bucket {
        double level, max, per_usec;
};

struct Account {
        unsigned n_refs; /* only the event loop counts */
        pthread_mutex_t lock;
        usec_t filled_at;
        struct Bucket calls;
};

struct Guard {
        int fd;
        struct Account *account;
        _Atomic bool cut, seen;
        /* Only the thread that reads touches the rest. */
        usec_t filled_at;
        struct Bucket calls, frames;
        size_t skip; /* bytes of preface or payload still to come */
        size_t block; /* bytes of the header block that has not ended yet */
        size_t head_size;
        uint8_t head[FRAME_HEAD_SIZE];
};

static _Atomic(struct Guard *) guards[NUMBERS];

static struct Bucket bucket(double burst, double per_second) {
        static long processors; /* asked once: the C library reads a file for it */

        if (processors == 0)
                processors = sysconf(_SC_NPROCESSORS_ONLN);
        return (struct Bucket) {.level = burst, .max = burst, .per_usec = per_second * (double) MAX(processors, 1L) / (double) USEC_PER_SEC};
}

struct Account *account_new(void) {
        struct Account *a = calloc(1, sizeof(*a));

        if (a)
                *a = (struct Account) {.n_refs = 1, .lock = PTHREAD_MUTEX_INITIALIZER, .filled_at = now_monotonic(),
                                       .calls = bucket(CALLS_BURST, CALLS_PER_SECOND)};
        return a;
}

struct Account *account_ref(struct Account *a) {
        a->n_refs++;
        return a;
}

struct Account *account_unref(struct Account *a) {
        if (a && --a->n_refs == 0) {
                (void) pthread_mutex_destroy(&a->lock);
                free(a);
        }
        return NULL;
}

/* Debt has a bound, so that it is paid off soon after the flood. */
static bool bucket_take(struct Bucket *b, usec_t passed, unsigned n) {
        double filled = b->level + b->per_usec * (double) passed, left = MIN(filled, b->max) - (double) n;

        b->level = MAX(left, -b->max / 10);
        return left >= 0;
}

static usec_t time_passed(usec_t *since) {
        usec_t now = now_monotonic(), passed = now > *since ? now - *since : 0;

        *since = now;
        return passed;
}

static bool account_take(struct Account *a, unsigned calls) {
        bool enough;

        (void) pthread_mutex_lock(&a->lock);
        enough = bucket_take(&a->calls, time_passed(&a->filled_at), calls);
        (void) pthread_mutex_unlock(&a->lock);
        return enough;
}

/* Whether this connection may go on: it pays for itself, and with the others of its caller. */
static bool guard_take(struct Guard *g, unsigned calls, unsigned frames) {
        usec_t passed = time_passed(&g->filled_at);
        bool frames_left = bucket_take(&g->frames, passed, frames);
        bool calls_left = bucket_take(&g->calls, passed, calls);
        bool all_left = calls == 0 || account_take(g->account, calls);

        return frames_left && calls_left && (all_left || g->calls.level > CALLS_BURST_OF_ONE - CALLS_INNOCENT);
}

int guard_new(int fd, struct Account *account, struct Guard **ret) {
        struct Guard *g;

        if (fd < 0 || fd >= NUMBERS)
                return -EMFILE;
        g = calloc(1, sizeof(*g));
        if (!g)
                return -ENOMEM;
        *g = (struct Guard) {.fd = fd, .account = account_ref(account), .skip = PREFACE_SIZE, .filled_at = now_monotonic(),
                              .calls = bucket(CALLS_BURST_OF_ONE, CALLS_PER_SECOND), .frames = bucket(FRAMES_BURST, FRAMES_PER_SECOND)};
        atomic_store_explicit(&guards[fd], g, memory_order_release);
        *ret = g;
        return 0;
}

struct Guard *guard_free(struct Guard *g) {
        if (!g)
                return NULL;
        atomic_store_explicit(&guards[g->fd], NULL, memory_order_release);
        account_unref(g->account);
        free(g);
        return NULL;
}

bool guard_has_cut(const struct Guard *g) {
        return atomic_load_explicit(&g->cut, memory_order_relaxed);
}

bool guard_has_seen(const struct Guard *g) {
        return atomic_load_explicit(&g->seen, memory_order_relaxed);
}

/* Frames that go on with the headers of a call without end are kept in memory, all of them. */
static bool block_fits(struct Guard *g, uint8_t type, uint8_t flags, size_t payload) {
        if (type != FRAME_HEADERS && type != FRAME_CONTINUATION)
                return true;
        g->block += payload;
        bool fits = g->block <= HEADER_BLOCK_MAX;
        if (flags & FLAG_END_HEADERS)
                g->block = 0;
        return fits;
}

/* Follows the frames through these bytes and counts them. False: no honest client sends this. */
static bool guard_follow(struct Guard *g, const uint8_t *at, size_t size, unsigned *calls, unsigned *frames) {
        while (size > 0) {
                size_t n = MIN(size, g->skip > 0 ? g->skip : FRAME_HEAD_SIZE - g->head_size), payload;

                if (g->skip > 0)
                        g->skip -= n;
                else {
                        memcpy(g->head + g->head_size, at, n);
                        g->head_size += n;
                }
                at += n;
                size -= n;
                if (g->head_size < FRAME_HEAD_SIZE)
                        continue;
                payload = (size_t) g->head[0] << 16 | (size_t) g->head[1] << 8 | g->head[2];
                if (!block_fits(g, g->head[3], g->head[4], payload))
                        return false;
                *calls += g->head[3] == FRAME_HEADERS;
                *frames += g->head[3] != FRAME_DATA || payload < FRAME_SMALL;
                g->skip = payload;
                g->head_size = 0;
        }
        return true;
}

static bool guard_admit(struct Guard *g, const struct msghdr *message, size_t size) {
        unsigned calls = 0, frames = 0;

        atomic_store_explicit(&g->seen, true, memory_order_relaxed);
        for (size_t i = 0; i < message->msg_iovlen && size > 0; i++) {
                size_t n = MIN(size, message->msg_iov[i].iov_len);

                if (!guard_follow(g, message->msg_iov[i].iov_base, n, &calls, &frames))
                        return false;
                size -= n;
        }
        return (calls == 0 && frames == 0) || guard_take(g, calls, frames);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
        struct Guard *g = fd >= 0 && fd < NUMBERS ? atomic_load_explicit(&guards[fd], memory_order_acquire) : NULL;
        ssize_t n;

        if (g && guard_has_cut(g)) {
                errno = ECONNRESET;
                return -1;
        }
        n = syscall(SYS_recvmsg, fd, message, flags);
        if (!g || n <= 0 || guard_admit(g, message, (size_t) n))
                return n;
        atomic_store_explicit(&g->cut, true, memory_order_relaxed);
        errno = ECONNRESET;
        return -1;
}
