/* glovebox top: executions as they go, in place on a terminal, else one table after the other. */
#include <glovebox/v1/system.pb-c.h>
#include <stdio.h>
#include <time.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/look.h"
#include "client/proto-json.h"
#include "client/rpc.h"
#include "client/screen.h"
#include "client/text.h"
#include "client/verb.h"

#define INTERVAL_STANDARD (1 * USEC_PER_SEC)
#define INTERVAL_MIN (100 * USEC_PER_MSEC)
#define INTERVAL_MAX (3600 * USEC_PER_SEC)
/* The first look that is shown is the second one, so that there is something to compare with. */
#define FIRST_INTERVAL (250 * USEC_PER_MSEC)

typedef Glovebox__V1__GetInfoResponse Info;

struct Top {
        const struct Options *options;
        struct Channel *channel;
        bool on_screen;
        enum Sort sort;
        Info *info;       /* of the same time as the look */
        struct Look look; /* the last one */
        uint64_t n;       /* how many were shown */
        bool end;         /* the user wants no more, or nothing can be shown any more */
        int status;       /* then: the exit status */
};

static const struct {
        const char *title;
        size_t least;
        bool for_operators;
} columns[] = {
        { "ID", 0 }, { "CALLER", 0, true }, { "RUNTIME", 0 }, { "STATE", 8 }, { "AGE", 11 }, { "CPU%", 5 }, { "MEMORY", 8 },
        { "LIMIT", 7 }, { "PROCS", 5 }, { "IDLE", 11 }, { "OUTPUT", 8 }, { "LABELS", 0 },
};

static int get_info(struct Top *top) {
        Glovebox__V1__GetInfoRequest request = GLOVEBOX__V1__GET_INFO_REQUEST__INIT;
        Info *info = NULL;
        int r;

        r = rpc_unary(top->channel, "/glovebox.v1.SystemService/GetInfo", &request.base, &glovebox__v1__get_info_response__descriptor, NULL,
                      (ProtobufCMessage **) &info);
        if (r != 0)
                return r;
        if (top->info)
                glovebox__v1__get_info_response__free_unpacked(top->info, NULL);
        top->info = info;
        return 0;
}

static int look(struct Top *top) {
        struct Look look = {};
        int r;

        r = look_take(&look, top->channel, top->options->caller);
        if (r != 0)
                return r;
        look_compare(&look, top->look.taken > 0 ? &top->look : NULL);
        look_done(&top->look);
        top->look = look;
        return 0;
}

/* "12:34:56  node: 2 running, 0 waiting, at most 8 at once; not enforced: memory": */
static void print_head(const struct Top *top, FILE *out) {
        const Info *info = top->info;
        char *node _cleanup_free_ = console_escape(info->node);
        char *raw _cleanup_free_ = limits_waived(info->limits_not_enforced, info->n_limits_not_enforced);
        char *waived _cleanup_free_ = console_escape(raw);
        time_t seconds = (time_t) (top->look.at / USEC_PER_SEC);
        struct tm when = {};
        char clock[16];

        (void) localtime_r(&seconds, &when);
        (void) strftime(clock, sizeof(clock), "%H:%M:%S", &when);
        fprintf(out, "%s  %s: %u running, %u waiting, at most %u at once%s%s%s\n", clock, strempty(node), info->running, info->waiting,
                info->max_executions, info->spawner_connected ? "" : "; the spawner is not connected: nothing can start",
                isempty(waived) ? "" : "; not enforced: ", strempty(waived));
}

static bool memory_is_waived(const Info *info) {
        for (size_t i = 0; i < info->n_limits_not_enforced; i++)
                if (streq(info->limits_not_enforced[i], "memory_bytes"))
                        return true;
        return false;
}

static void add_bytes(struct Grid *t, uint64_t bytes) {
        char buffer[32];

        (void) grid_add(t, bytes > 0 ? console_bytes(bytes, buffer, sizeof(buffer)) : "-");
}

static void add_number(struct Grid *t, bool known, int decimals, double number) {
        char buffer[48];

        (void) snprintf(buffer, sizeof(buffer), "%.*f", decimals, number);
        (void) grid_add(t, known ? buffer : "-");
}

static void add_row(struct Grid *t, const struct Top *top, const struct Row *row) {
        const Glovebox__V1__Execution *e = row->execution;
        char *labels _cleanup_free_ = execution_labels(e);
        char buffer[32];

        (void) grid_add(t, e->execution_id);
        if (top->options->caller)
                (void) grid_add(t, e->caller);
        (void) grid_add(t, e->runtime);
        (void) grid_add(t, proto_enum_word(&glovebox__v1__state__descriptor, (int) e->state));
        (void) grid_add(t, console_time(row->age, buffer, sizeof(buffer)));
        add_number(t, row->cpu >= 0, 1, row->cpu);
        add_bytes(t, e->memory_bytes);
        if (memory_is_waived(top->info))
                (void) grid_add(t, "waived");
        else
                add_bytes(t, e->limits ? e->limits->memory_bytes : 0);
        add_number(t, e->processes > 0, 0, e->processes);
        (void) grid_add(t, e->idle_for ? console_time(duration_usec(e->idle_for), buffer, sizeof(buffer)) : "-");
        (void) grid_add(t, console_bytes(e->stdout_bytes + e->stderr_bytes, buffer, sizeof(buffer)));
        (void) grid_add(t, labels);
}

static int print_table(const struct Top *top, FILE *out) {
        struct Row *rows _cleanup_free_ = look_sort(&top->look, top->sort);
        size_t least[ELEMENTSOF(columns)];
        struct Grid t _cleanup_(grid_done) = { .least = least };

        if (!rows)
                return -ENOMEM;
        for (size_t i = 0; i < ELEMENTSOF(columns); i++)
                if (top->options->caller || !columns[i].for_operators) {
                        least[t.columns++] = columns[i].least;
                        (void) grid_add(&t, columns[i].title);
                }
        for (size_t i = 0; i < top->look.n_rows; i++)
                add_row(&t, top, &rows[i]);
        return grid_write(&t, 0, out);
}

static int show_tables(const struct Top *top) {
        char *text _cleanup_free_ = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        int r;

        if (!out)
                return -ENOMEM;
        if (!top->on_screen && top->n > 0)
                fputc('\n', out);
        print_head(top, out);
        if (top->on_screen)
                fputc('\n', out);
        r = print_table(top, out);
        if (fclose(out) != 0 || r < 0)
                return -ENOMEM;
        return top->on_screen ? screen_draw(text) : console_write(STDOUT_FILENO, text, size);
}

static int show_json(const struct Top *top) {
        struct Row *rows _cleanup_free_ = look_sort(&top->look, top->sort);
        time_t seconds = (time_t) (top->look.at / USEC_PER_SEC);
        struct tm when = {};
        char clock[32];
        int r = rows ? 0 : -ENOMEM;

        (void) gmtime_r(&seconds, &when);
        (void) strftime(clock, sizeof(clock), "%Y-%m-%dT%H:%M:%S", &when);
        for (size_t i = 0; r == 0 && i < top->look.n_rows; i++) {
                char *execution _cleanup_free_ = proto_json(&rows[i].execution->base);
                char *line _cleanup_free_ = NULL;
                char cpu[48] = "";
                int n;

                if (rows[i].cpu >= 0)
                        (void) snprintf(cpu, sizeof(cpu), "\"cpuPercent\":%.3f,", rows[i].cpu);
                n = asprintf(&line, "{\"look\":%llu,\"time\":\"%s.%06uZ\",%s\"execution\":%s}\n", (unsigned long long) top->n + 1, clock,
                             (unsigned) (top->look.at % USEC_PER_SEC), cpu, strempty(execution));
                if (n < 0)
                        line = NULL;
                r = execution && line ? console_write(STDOUT_FILENO, line, (size_t) n) : -ENOMEM;
        }
        return r;
}

static int show(struct Top *top) {
        int r = top->options->json ? show_json(top) : show_tables(top);

        if (r == -EPIPE)
                return console_end_by_sigpipe();
        if (r < 0)
                return console_fault("cannot write the output: %s", strerror(-r));
        return 0;
}

/* True: it is a key that orders, and what it says was noted. */
static bool take_key(struct Top *top, int key) {
        for (enum Sort sort = 0; sort < SORT_END_; sort++)
                if (key == *sort_name(sort)) {
                        top->sort = sort;
                        return true;
                }
        return false;
}

/* Until the next look, or the end. */
static void wait_on_screen(struct Top *top, usec_t until) {
        while (!top->end) {
                int key = screen_wait(until);

                if (key == 0)
                        return;
                if ((take_key(top, key) || key == SCREEN_CHANGED) && top->n > 0)
                        top->status = show(top);
                top->end = top->status != 0 || key == SCREEN_GONE || key == 'q' || key == 'Q';
        }
}

/* A server that hangs must not keep us from what the user wants. */
static bool wants_to_leave(void *userdata) {
        struct Top *top = userdata;

        wait_on_screen(top, 0);
        return top->end;
}

static void wait_until(struct Top *top, usec_t until) {
        usec_t now;

        if (top->on_screen)
                wait_on_screen(top, until);
        while (!top->end && (now = now_monotonic()) < until) {
                usec_t left = until - now;
                struct timespec t = { .tv_sec = (time_t) (left / USEC_PER_SEC), .tv_nsec = (long) (left % USEC_PER_SEC * NSEC_PER_USEC) };

                (void) nanosleep(&t, NULL);
        }
}

static int watch(struct Top *top, usec_t interval) {
        usec_t next = now_monotonic() + MIN(interval, FIRST_INTERVAL);
        int r;

        r = look(top);
        while (r == 0) {
                wait_until(top, next);
                if (top->end)
                        break;
                next = MAX(next + interval, now_monotonic() + INTERVAL_MIN); /* a slow server is not pressed */
                if (!top->options->json)
                        r = get_info(top);
                if (r == 0)
                        r = look(top);
                if (r == 0)
                        r = show(top);
                top->n++;
                if (top->n == top->options->count)
                        break;
        }
        return top->end ? top->status : r;
}

int verb_top(const struct Options *o) {
        struct Top top = { .options = o, .sort = o->sort };
        usec_t interval = o->interval > 0 ? o->interval : INTERVAL_STANDARD;
        int r;

        if (o->operands)
                return console_fault("top takes no operand (%s); `glovebox ps ID` shows one execution", o->operands[0]);
        if (interval < INTERVAL_MIN || interval > INTERVAL_MAX)
                return console_fault("--interval: at least 100ms, at most 1h");
        r = channel_open(o, &top.channel);
        if (r != 0)
                return r;
        top.on_screen = !o->json && o->count != 1 && screen_is_possible();
        if (top.on_screen) {
                top.channel->wants_to_leave = wants_to_leave;
                top.channel->userdata = &top;
                screen_open();
        }
        r = watch(&top, interval);
        screen_close();
        look_done(&top.look);
        if (top.info)
                glovebox__v1__get_info_response__free_unpacked(top.info, NULL);
        top.channel = channel_close(top.channel);
        return r;
}
