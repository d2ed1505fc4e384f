/* server/stream/output.c and idle.c, with real pipes. */
#include "tests/unit/unit.h"

#include <fcntl.h>

#include "server/stream/idle.h"
#include "server/stream/output.h"

struct Fixture {
        sd_event *event;
        struct EventLog log;
        struct LogCursor cursor;
        struct Output output;
        int out, err; /* write ends */
        unsigned over, drained, idle;
        usec_t cpu;
};

static void on_wake(void *userdata) {
}

static void on_over(void *userdata) {
        ((struct Fixture *) userdata)->over++;
}

static void on_drained(void *userdata) {
        ((struct Fixture *) userdata)->drained++;
}

static void on_room(void *userdata) {
        output_resume(&((struct Fixture *) userdata)->output);
}

static void start(struct Fixture *f, uint64_t cap) {
        int out[2], err[2];

        *f = (struct Fixture) { .output = { .on_over = on_over, .on_drained = on_drained, .userdata = f } };
        assert_ok(sd_event_new(&f->event));
        assert_ok(pipe2(out, O_CLOEXEC));
        assert_ok(pipe2(err, O_CLOEXEC));
        f->out = out[1];
        f->err = err[1];
        assert_ok(eventlog_init(&f->log, f->event, now_monotonic()));
        f->log.on_room = on_room;
        f->log.userdata = f;
        log_cursor_start(&f->cursor, &f->log, true, on_wake, f);
        assert_ok(output_init(&f->output, f->event, &f->log, cap, true));
        assert_ok(output_start(&f->output, f->event, out[0], err[0]));
}

static void stop(struct Fixture *f) {
        close(f->out);
        close(f->err);
        output_done(&f->output);
        eventlog_done(&f->log);
        sd_event_unref(f->event);
}

static void run(struct Fixture *f) {
        while (sd_event_run(f->event, 20 * USEC_PER_MSEC) > 0)
                ;
}

static uint64_t read_all(struct Fixture *f, enum Stream stream) {
        struct Event e;
        uint64_t n = 0;
        while (log_cursor_next(&f->cursor, &e) > 0)
                if (e.kind == EVENT_OUTPUT && e.output.stream == stream)
                        n += e.output.size;
        return n;
}

/* Exactly the cap is no breach; one byte more is, and is not delivered. */
static void the_cap_is_exact(void **state) {
        struct Fixture f;

        start(&f, 10);
        assert_int_equal(write(f.out, "0123456789", 10), 10);
        run(&f);
        assert_int_equal(f.over, 0);
        assert_int_equal(write(f.out, "x", 1), 1);
        run(&f);
        assert_int_equal(f.over, 1);
        assert_int_equal(output_size(&f.output, STREAM_STDOUT), 10);
        assert_int_equal(read_all(&f, STREAM_STDOUT), 10);
        assert_false(output_is_over(&f.output, STREAM_STDERR));
        stop(&f);
}

/* What was written before the end arrives though nobody closes the pipe. */
static void draining_needs_no_end_of_file(void **state) {
        struct Fixture f;

        start(&f, MIB);
        assert_int_equal(write(f.out, "abc", 3), 3);
        assert_int_equal(write(f.err, "de", 2), 2);
        output_drain(&f.output, false);
        run(&f);
        assert_int_equal(f.drained, 1);
        assert_int_equal(read_all(&f, STREAM_STDOUT), 3);
        stop(&f);
}

/* A reader that stops holds the pipe back; draining waits for it and loses nothing. */
static void draining_waits_for_room(void **state) {
        static uint8_t block[48 * 1024];
        struct Fixture f;
        uint64_t written = 0, got = 0;

        start(&f, MIB);
        assert_ok(set_nonblock(f.out, true));
        for (ssize_t n; (n = write(f.out, block, sizeof block)) > 0 || !output_is_held(&f.output); run(&f))
                written += n > 0 ? (uint64_t) n : 0;
        assert_true(written > OUTPUT_HELD);
        output_drain(&f.output, false);
        run(&f);
        assert_int_equal(f.drained, 0);
        while (f.drained == 0) {
                got += read_all(&f, STREAM_STDOUT);
                run(&f);
        }
        got += read_all(&f, STREAM_STDOUT);
        assert_int_equal(got, written);
        stop(&f);
}

static int get_cpu(void *userdata, usec_t *ret) {
        *ret = ((struct Fixture *) userdata)->cpu;
        return 0;
}

static usec_t get_output(void *userdata, bool *ret_held) {
        *ret_held = false;
        return 0;
}

static void on_idle(void *userdata) {
        ((struct Fixture *) userdata)->idle++;
}

static usec_t run_idle(struct IdlePolicy policy, usec_t cpu_per_turn, usec_t at_most) {
        struct Fixture f;
        struct Idle idle = { .get_cpu = get_cpu, .get_output = get_output, .on_idle = on_idle, .userdata = &f };

        f = (struct Fixture) {};
        assert_ok(sd_event_new(&f.event));
        assert_ok(idle_start(&idle, f.event, &policy));
        usec_t begin = now_monotonic();
        while (!f.idle && now_monotonic() - begin < at_most) {
                assert_ok(sd_event_run(f.event, 10 * USEC_PER_MSEC));
                f.cpu += cpu_per_turn;
        }
        usec_t took = now_monotonic() - begin;
        idle_stop(&idle);
        sd_event_unref(f.event);
        return f.idle ? took : USEC_INFINITY;
}

static void silence_is_idle(void **state) {
        struct IdlePolicy policy = { .timeout = 60 * USEC_PER_MSEC, .evidence = EVIDENCE_OUTPUT_AND_CPU };
        assert_true(run_idle(policy, 0, USEC_PER_SEC) >= 60 * USEC_PER_MSEC);
        policy.grace = 200 * USEC_PER_MSEC;
        usec_t took = run_idle(policy, 0, 2 * USEC_PER_SEC);
        assert_true(took >= 200 * USEC_PER_MSEC && took < USEC_INFINITY);
}

static void computing_is_not_idle(void **state) {
        struct IdlePolicy policy = { .timeout = 60 * USEC_PER_MSEC, .evidence = EVIDENCE_OUTPUT_AND_CPU };
        assert_true(run_idle(policy, 5 * USEC_PER_MSEC, 300 * USEC_PER_MSEC) == USEC_INFINITY);
        policy.evidence = EVIDENCE_OUTPUT;
        assert_true(run_idle(policy, 5 * USEC_PER_MSEC, USEC_PER_SEC) < USEC_INFINITY);
}

RUN(T(the_cap_is_exact), T(draining_needs_no_end_of_file), T(draining_waits_for_room), T(silence_is_idle), T(computing_is_not_idle))
