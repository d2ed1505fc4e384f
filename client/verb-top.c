/* glovebox top: executions as they go, in place on a terminal, else one table after the other. */
#include <glovebox/v1/system.pb-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/look.h"
#include "client/proto-json.h"
#include "client/rpc.h"
#include "client/screen.h"
#include "client/top-table.h"
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

static int show_tables(const struct Top *top) {
        struct TopTable table = { .look = &top->look, .info = top->info, .sort = top->sort, .callers = top->options->caller,
                                  .columns = top->on_screen ? screen_columns() : 0 };
        char *text _cleanup_free_ = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        int r;

        if (!out)
                return -ENOMEM;
        if (!top->on_screen && top->n > 0)
                fputc('\n', out);
        r = top_table_head(&table, out);
        if (top->on_screen)
                fputc('\n', out);
        if (r == 0)
                r = top_table_rows(&table, out);
        if (fclose(out) != 0 || r < 0)
                return -ENOMEM;
        return top->on_screen ? screen_draw(text) : console_write(STDOUT_FILENO, text, size);
}

static int PRINTF_LIKE(1, 2) print_line(const char *format, ...) {
        char *line _cleanup_free_ = NULL;
        va_list list;
        int n;

        va_start(list, format);
        n = vasprintf(&line, format, list);
        va_end(list);
        if (n < 0) {
                line = NULL;
                return -ENOMEM;
        }
        return console_write(STDOUT_FILENO, line, (size_t) n);
}

/* First the look itself, so that a look at nothing is seen, and its end is known; then its executions. */
static int show_json(const struct Top *top) {
        struct Row *rows _cleanup_free_ = look_sort(&top->look, top->sort);
        time_t seconds = (time_t) (top->look.at / USEC_PER_SEC);
        const Info *info = top->info;
        struct tm when = {};
        char clock[32], begin[96];
        int r;

        if (!rows)
                return -ENOMEM;
        (void) gmtime_r(&seconds, &when);
        (void) strftime(clock, sizeof(clock), "%Y-%m-%dT%H:%M:%S", &when);
        (void) snprintf(begin, sizeof(begin), "{\"look\":%llu,\"time\":\"%s.%06uZ\"", (unsigned long long) top->n + 1, clock,
                        (unsigned) (top->look.at % USEC_PER_SEC));
        r = print_line("%s,\"running\":%u,\"waiting\":%u,\"maxExecutions\":%u,\"spawnerConnected\":%s,\"executions\":%zu}\n", begin,
                       info->running, info->waiting, info->max_executions, info->spawner_connected ? "true" : "false", top->look.n_rows);
        for (size_t i = 0; r == 0 && i < top->look.n_rows; i++) {
                char *execution _cleanup_free_ = proto_json(&rows[i].execution->base);
                char cpu[48] = "";

                if (rows[i].cpu >= 0)
                        (void) snprintf(cpu, sizeof(cpu), ",\"cpuPercent\":%.3f", rows[i].cpu);
                r = execution ? print_line("%s%s,\"execution\":%s}\n", begin, cpu, execution) : -ENOMEM;
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
