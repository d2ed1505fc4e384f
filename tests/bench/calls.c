/* The mode `calls` of the load generator: the same request again and again, in a closed loop, at a pace, or all at once.
 *
 * With --rate calls begin at fixed times, whether or not those before have ended, so that a call meets a pool that is filled; without it each
 * caller sends its next request when the last one has ended, which measures how fast ready cells are made anew. As many callers as calls
 * (--count) is a burst. */
#include <getopt.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tests/bench/client.h"

#define STARTS 4 /* enum Start */
#define ERRORS_MAX 50 /* a daemon that can run nothing is not asked on and on */
#define CODE_MAX (1u << 20)

struct Options {
        const char *runtime, *code, *profile;
        uint64_t callers, count, rate, timeout_ms, memory_bytes;
        double seconds, cpus;
        bool stream, samples;
};

struct Calls {
        struct Load *load;
        struct Options o;
        struct Caller callers[CALLERS_MAX], *idle[CALLERS_MAX];
        size_t n_idle, n_begun, n_late;
        uint64_t began, end; /* 0: no bound by time */
        size_t starts[STARTS];
        struct Samples first_bytes;
};

/* A stream: one batch sends and takes the first message, each further one the next message. */
static void stream_begin(struct Caller *c) {
        call_begin(c, "/glovebox.v1.ExecutionService/ExecuteStream");
        c->phase = PHASE_SENT;
        c->first_byte = 0;
        c->ended_well = false;
        grpc_op ops[] = {
                { .op = GRPC_OP_SEND_INITIAL_METADATA },
                { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = c->sent },
                { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
                { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->initial },
                { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->reply },
        };
        batch(c, ops, ELEMENTSOF(ops));
}

static void on_message(struct Calls *all, struct Caller *c) {
        uint64_t now = now_ns() - c->began;
        grpc_slice s = take_reply(c);
        Glovebox__V1__ExecutionEvent *e = glovebox__v1__execution_event__unpack(NULL, GRPC_SLICE_LENGTH(s), GRPC_SLICE_START_PTR(s));

        if (!e)
                fail("unreadable event");
        if (e->event_case == GLOVEBOX__V1__EXECUTION_EVENT__EVENT_STARTED && (size_t) e->started->start < STARTS)
                all->starts[e->started->start]++;
        else if (e->event_case == GLOVEBOX__V1__EXECUTION_EVENT__EVENT_OUTPUT && c->first_byte == 0)
                c->first_byte = now;
        else if (e->event_case == GLOVEBOX__V1__EXECUTION_EVENT__EVENT_RESULT)
                c->ended_well = ended_as_wanted(c, e->result);
        glovebox__v1__execution_event__free_unpacked(e, NULL);
        grpc_slice_unref(s);
}

/* Whether the call is over. */
static bool stream_on_event(struct Calls *all, struct Caller *c) {
        grpc_op read = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->reply }, status = op_status(c);

        if (c->phase == PHASE_ENDING) {
                uint64_t took = now_ns() - c->began;
                if (c->ended_well && c->status == GRPC_STATUS_OK) {
                        samples_add(&c->load->times, took);
                        if (c->first_byte > 0)
                                samples_add(&all->first_bytes, c->first_byte);
                } else {
                        count_error(c);
                }
                call_end(c);
                return true;
        }
        if (c->reply) {
                on_message(all, c);
                c->phase = PHASE_READING;
                batch(c, &read, 1);
        } else {
                c->phase = PHASE_ENDING;
                batch(c, &status, 1);
        }
        return false;
}

static bool may_begin(const struct Calls *all) {
        return all->load->n_errors < ERRORS_MAX && (all->o.count == 0 || all->n_begun < all->o.count) && (all->end == 0 || now_ns() < all->end);
}

static void begin(struct Calls *all) {
        struct Caller *c = all->idle[--all->n_idle];

        all->n_begun++;
        if (all->o.stream)
                stream_begin(c);
        else
                execute(c);
}

/* When the next call is due, in nanoseconds of CLOCK_MONOTONIC. */
static uint64_t due(const struct Calls *all) {
        return all->o.rate > 0 ? all->began + all->n_begun * 1000000000u / all->o.rate : 0;
}

static void begin_what_is_due(struct Calls *all) {
        uint64_t now = now_ns();

        while (all->n_idle > 0 && may_begin(all) && due(all) <= now) {
                /* Two milliseconds: gRPC wakes up on whole ones. */
                if (all->o.rate > 0 && now - due(all) > 2000000)
                        all->n_late++;
                begin(all);
        }
}

static void loop(struct Calls *all) {
        for (;;) {
                begin_what_is_due(all);
                if (all->n_idle == all->o.callers && !may_begin(all))
                        return;
                bool waits = all->n_idle > 0 && may_begin(all);
                gpr_timespec until = waits ? gpr_time_from_nanos((int64_t) due(all), GPR_TIMESPAN) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
                until.clock_type = GPR_CLOCK_MONOTONIC;
                grpc_event e = grpc_completion_queue_next(all->load->queue, until, NULL);
                if (e.type != GRPC_OP_COMPLETE)
                        continue;
                struct Caller *c = e.tag;
                bool over = true;
                if (all->o.stream)
                        over = stream_on_event(all, c);
                else
                        executed(c);
                if (over)
                        all->idle[all->n_idle++] = c;
        }
}

static grpc_slice request_of(const struct Options *o) {
        Glovebox__V1__ExecuteRequest r = GLOVEBOX__V1__EXECUTE_REQUEST__INIT;
        Glovebox__V1__Limits limits = GLOVEBOX__V1__LIMITS__INIT;
        Google__Protobuf__Duration timeout = GOOGLE__PROTOBUF__DURATION__INIT;

        timeout.seconds = (int64_t) (o->timeout_ms / 1000);
        timeout.nanos = (int32_t) (o->timeout_ms % 1000 * 1000000);
        limits.timeout = o->timeout_ms > 0 ? &timeout : NULL;
        limits.memory_bytes = o->memory_bytes;
        limits.cpus = o->cpus;
        r.runtime = (char *) o->runtime;
        r.code = (char *) o->code;
        r.profile = (char *) strempty(o->profile);
        r.limits = o->timeout_ms > 0 || o->memory_bytes > 0 || o->cpus > 0 ? &limits : NULL;
        return pack_request(&r);
}

static char *read_code(const char *path) {
        FILE *f = fopen(path, "re");
        char *code = calloc(1, CODE_MAX + 1);

        if (!f || !code)
                fail("cannot read %s: %m", path);
        if (fread(code, 1, CODE_MAX, f) == 0 && ferror(f))
                fail("cannot read %s: %m", path);
        (void) fclose(f);
        return code;
}

static double number(const char *s) {
        char *end;
        double v = strtod(s, &end);
        if (*end || end == s || !(v > 0))
                fail("'%s' is not a number above 0", s);
        return v;
}

/* Everything behind the mode: ADDRESS RUNTIME CODE and the options. */
static struct Options parse(int argc, char **argv) {
        static const struct option options[] = {
                { "callers", required_argument, NULL, 'c' }, { "count", required_argument, NULL, 'n' },
                { "seconds", required_argument, NULL, 's' }, { "rate", required_argument, NULL, 'r' },
                { "profile", required_argument, NULL, 'p' }, { "timeout-ms", required_argument, NULL, 't' },
                { "memory", required_argument, NULL, 'm' },  { "cpus", required_argument, NULL, 'u' },
                { "stream", no_argument, NULL, 'S' },        { "samples", no_argument, NULL, 'A' },
                { "code-file", no_argument, NULL, 'f' },     {},
        };
        struct Options o = { .callers = 1 };
        bool file = false;
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
                switch (c) {
                case 'c': o.callers = (uint64_t) number(optarg); break;
                case 'n': o.count = (uint64_t) number(optarg); break;
                case 's': o.seconds = number(optarg); break;
                case 'r': o.rate = (uint64_t) number(optarg); break;
                case 'p': o.profile = optarg; break;
                case 't': o.timeout_ms = (uint64_t) number(optarg); break;
                case 'm': o.memory_bytes = (uint64_t) number(optarg); break;
                case 'u': o.cpus = number(optarg); break;
                case 'S': o.stream = true; break;
                case 'A': o.samples = true; break;
                case 'f': file = true; break;
                default: exit(1);
                }
        }
        if (argc - optind != 3 || o.callers > CALLERS_MAX || (o.count == 0 && !(o.seconds > 0)))
                fail("calls wants ADDRESS RUNTIME CODE, at most %d callers, and --count or --seconds", CALLERS_MAX);
        o.runtime = argv[optind + 1];
        o.code = file ? read_code(argv[optind + 2]) : argv[optind + 2];
        return o;
}

static double cpu_us(void) {
        struct rusage u;
        (void) getrusage(RUSAGE_SELF, &u);
        return (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void print(struct Calls *all, double seconds, double cpu) {
        struct Samples *times = &all->load->times;

        printf("{\"count\": %zu, \"errors\": %zu, \"late\": %zu, \"seconds\": %.3f, \"client_cpu_us\": %.0f, ", times->n, all->load->n_errors,
               all->n_late, seconds, cpu);
        if (all->o.stream) {
                printf("\"starts\": {\"cold\": %zu, \"ready\": %zu, \"warm\": %zu}, \"first_byte\": {", all->starts[GLOVEBOX__V1__START__START_COLD],
                       all->starts[GLOVEBOX__V1__START__START_READY], all->starts[GLOVEBOX__V1__START__START_WARM]);
                samples_print(&all->first_bytes);
                printf("}, ");
        }
        samples_print(times);
        if (all->o.samples) {
                printf(", \"samples_us\": [");
                for (size_t i = 0; i < times->n; i++)
                        printf("%s%.1f", i > 0 ? ", " : "", (double) times->values[i] / 1000);
                printf("]");
        }
        printf("}\n");
}

void run_calls(struct Load *l, int argc, char **argv) {
        static struct Calls all;

        all.load = l;
        all.o = parse(argc, argv);
        l->address = argv[optind];
        samples_new(&all.first_bytes);
        for (size_t i = 0; i < all.o.callers; i++) {
                caller_open(&all.callers[i], l);
                all.callers[i].request = request_of(&all.o);
                all.idle[all.n_idle++] = &all.callers[i];
        }
        double cpu = cpu_us();
        all.began = now_ns();
        all.end = all.o.seconds > 0 ? all.began + (uint64_t) (all.o.seconds * 1e9) : 0;
        loop(&all);
        print(&all, (double) (now_ns() - all.began) / 1e9, cpu_us() - cpu);
        for (size_t i = 0; i < all.o.callers; i++)
                caller_close(&all.callers[i]);
        free(all.first_bytes.values);
}
