/* Execute: gathers what the program prints, answers once. */
#include "server/accept/follow.h"
#include "server/accept/method.h"
#include "server/accept/parts.h"
#include "server/accept/render.h"

/* The result itself takes little; each stream is left some room beside a loud other one. */
#define GATHERED_MAX (REPLY_MAX - 64 * KIB)
#define PART_OVERHEAD 256 /* ids, type and lengths of a display or content */
#define GATHERED_RESERVE (512 * KIB)
#define GATHERED_IN_NEED (16 * KIB) /* of each stream, while many answers wait for their clients */

struct Gathered {
        uint8_t *data;
        size_t size, allocated;
        bool cut;
};

struct Awaited {
        struct Follow follow;
        struct Gathered streams[STREAM_MAX_];
        struct Parts parts;
};

static void gathered_add(struct Call *c, struct Gathered *g, size_t room, const uint8_t *data, size_t size) {
        /* While programs run, too, what is kept for all of them is bounded. */
        if (g->size + size > g->allocated && g->size + size > GATHERED_IN_NEED && call_memory_is_short(c))
                room = MIN(room, g->allocated - g->size);
        size_t n = MIN(size, room);

        g->cut = g->cut || n < size;
        if (g->size + n > g->allocated) {
                size_t doubled = MAX(g->allocated * 2, g->size + n), want = MIN(doubled, (size_t) GATHERED_MAX);
                uint8_t *grown = realloc(g->data, want);

                if (!grown) {
                        g->cut = true;
                        return;
                }
                call_charge(c, want - g->allocated);
                g->data = grown;
                g->allocated = want;
        }
        if (n > 0)
                memcpy(g->data + g->size, data, n);
        g->size += n;
}

/* Once cut, a stream takes no more, so that what is kept has no hole. */
static void awaited_gather(struct Awaited *w, const struct Event *event) {
        enum Stream stream = event->output.stream;
        struct Gathered *g = &w->streams[stream], *other = &w->streams[stream == STREAM_STDOUT ? STREAM_STDERR : STREAM_STDOUT];
        size_t others = MAX(other->size, (size_t) GATHERED_RESERVE);

        if (!g->cut)
                gathered_add(w->follow.call, g, GATHERED_MAX - others - MIN(g->size, GATHERED_MAX - others), event->output.data, event->output.size);
}

static void gathered_cut(struct Gathered *g, size_t size) {
        g->cut = g->cut || g->size > size;
        g->size = MIN(g->size, size);
}

static void awaited_free_streams(struct Awaited *w) {
        for (size_t i = 0; i < STREAM_MAX_; i++) {
                free(w->streams[i].data);
                w->streams[i] = (struct Gathered) {};
        }
        parts_done(&w->parts);
}

/* The result first, then its parts, then what was printed: that is what can be cut and said so. */
static void awaited_fit(struct Awaited *w, const struct Result *result) {
        struct Gathered *out = &w->streams[STREAM_STDOUT], *err = &w->streams[STREAM_STDERR];
        size_t fixed = render_response_size(w->follow.execution, result) + 4 * KIB + w->parts.n * PART_OVERHEAD;
        size_t room = REPLY_MAX - MIN(fixed, (size_t) REPLY_MAX);

        if (call_answers_pile_up(w->follow.call)) {
                gathered_cut(out, GATHERED_IN_NEED);
                gathered_cut(err, GATHERED_IN_NEED);
                parts_cut(&w->parts, 0);
        }
        parts_cut(&w->parts, room);
        room -= w->parts.bytes;
        if (out->size + err->size <= room)
                return;
        /* The smaller stream keeps up to a half. */
        size_t smaller = MIN(MIN(out->size, err->size), room / 2);
        bool out_is_smaller = out->size <= err->size;
        gathered_cut(out, out_is_smaller ? smaller : room - smaller);
        gathered_cut(err, out_is_smaller ? room - smaller : smaller);
}

static void awaited_answer(struct Awaited *w, const struct Result *result) {
        struct Gathered *out = &w->streams[STREAM_STDOUT], *err = &w->streams[STREAM_STDERR];
        struct Result r = *result;

        awaited_fit(w, result);
        r.stdout_truncated = r.stdout_truncated || out->cut;
        r.stderr_truncated = r.stderr_truncated || err->cut;
        const struct iovec printed[] = {{out->data, out->size}, {err->data, err->size}};
        call_finish(w->follow.call, render_response(w->follow.execution, &r, &printed[0], &printed[1], &w->parts), NULL);
        awaited_free_streams(w);
}

static void awaited_go_on(void *state) {
        struct Awaited *w = state;
        struct Call *c = w->follow.call;
        struct Event event;
        int r = 0;

        while (!c->gone && !c->finishing && (r = cursor_next(w->follow.cursor, &event)) > 0) {
                if (event.kind == EVENT_OUTPUT)
                        awaited_gather(w, &event);
                else if (event.kind == EVENT_DISPLAY || event.kind == EVENT_CONTENT)
                        parts_add(&w->parts, c, &event);
                else if (event.kind == EVENT_GAP) /* a detached execution overtook us */
                        w->streams[event.gap.stream].cut = true;
                else if (event.kind == EVENT_RESULT)
                        awaited_answer(w, event.result);
        }
        if (r == -EREMOTEIO && !c->finishing)
                call_refuse(c, execution_refusal(w->follow.execution));
}

void method_execute(struct Call *c, struct Parcel *p) {
        struct Refusal refusal;

        if (call_refuse_to_pile_up(c, &refusal) == 0) {
                follow(c, p, sizeof(struct Awaited), awaited_go_on);
                struct Awaited *w = c->state;
                if (w && w->follow.cursor)
                        cursor_be_patient(w->follow.cursor);
        } else {
                parcel_free(p);
                call_refuse(c, &refusal);
        }
}

void method_execute_done(struct Call *c) {
        awaited_free_streams(c->state);
        follow_done(c);
}
