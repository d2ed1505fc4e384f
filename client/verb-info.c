/* glovebox info: what the server is and offers. */
#include <glovebox/v1/system.pb-c.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/proto-json.h"
#include "client/rpc.h"
#include "client/text.h"
#include "client/verb.h"

#define INDENT 2

typedef Glovebox__V1__GetInfoResponse Info;

static void add_words(char *text, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
static void add_words(char *text, size_t size, const char *format, ...) {
        size_t n = strlen(text);
        va_list list;

        va_start(list, format);
        (void) vsnprintf(text + n, size - n, format, list);
        va_end(list);
}

static void print_server(const Info *info, const char *server) {
        struct Grid t _cleanup_(grid_done) = { .columns = 2 };
        char load[96], wait[32];

        (void) snprintf(load, sizeof(load), "%u of %u running, %u of %u waiting for at most %s", info->running, info->max_executions,
                        info->waiting, info->max_waiting, console_period(duration_usec(info->wait_deadline), wait, sizeof(wait)));
        (void) grid_add(&t, "server");
        (void) grid_add(&t, server);
        (void) grid_add(&t, "version");
        (void) grid_add(&t, info->version);
        (void) grid_add(&t, "node");
        (void) grid_add(&t, info->node);
        (void) grid_add(&t, "you are");
        (void) grid_add(&t, info->caller);
        if (info->caller_is_operator) {
                (void) grid_add(&t, "");
                (void) grid_add(&t, "an operator: you see and end everyone's executions");
        }
        (void) grid_add(&t, "executions");
        (void) grid_add(&t, load);
        (void) grid_add(&t, "cgroups");
        (void) grid_add(&t, info->cgroup_driver);
        (void) grid_print(&t, 0);
        if (!info->spawner_connected)
                puts("\nThe spawner is not connected: nothing can run until it is back (executions are refused as UNAVAILABLE).");
}

/* "began 812 warm, 3 ready, 41 cold"; nothing where nothing began. */
static void describe_starts(const Glovebox__V1__RuntimeInfo *runtime, char *text, size_t size) {
        const struct {
                uint64_t n;
                const char *how;
        } starts[] = {{runtime->started_warm, "warm"}, {runtime->started_ready, "ready"}, {runtime->started_cold, "cold"}};

        text[0] = 0;
        for (size_t i = 0; i < ELEMENTSOF(starts); i++)
                if (starts[i].n > 0)
                        add_words(text, size, "%s%" PRIu64 " %s", text[0] ? ", " : "began ", starts[i].n, starts[i].how);
}

static void print_runtimes(const Info *info) {
        struct Grid t _cleanup_(grid_done) = { .columns = 5 };

        puts("\nRuntimes");
        for (size_t i = 0; i < info->n_runtimes; i++) {
                const Glovebox__V1__RuntimeInfo *runtime = info->runtimes[i];
                char endings[128] = "", starts[96];

                for (size_t j = 0; j < runtime->n_endings; j++)
                        add_words(endings, sizeof(endings), "%s%s", j ? " " : "", runtime->endings[j]);
                (void) grid_add(&t, runtime->name);
                (void) grid_add(&t, endings);
                (void) grid_add(&t, runtime->available ? "ready" : "MISSING");
                (void) grid_add(&t, runtime->available ? runtime->version : runtime->detail);
                describe_starts(runtime, starts, sizeof(starts));
                (void) grid_add(&t, starts);
        }
        (void) grid_print(&t, INDENT);
        if (info->n_runtimes == 0)
                puts("  none: no file in runtimes.d");
}

static bool is_waived(const Info *info, const char *field) {
        for (size_t i = 0; i < info->n_limits_not_enforced; i++)
                if (streq(info->limits_not_enforced[i], field))
                        return true;
        return false;
}

static const char *format_limit(const struct LimitInfo *limit, double value, char *buffer, size_t size) {
        if (limit->kind == LIMIT_TIME && value > 0)
                return console_period((usec_t) value, buffer, size);
        return value > 0 ? limit_format(limit, value, buffer, size) : "off";
}

static void print_limits(const Info *info) {
        struct Grid t _cleanup_(grid_done) = { .columns = 4 };
        struct Limits defaults = limits_of(info->defaults);
        struct Limits caps = limits_of(info->caps);
        char buffer[64];

        puts("\nLimits");
        (void) grid_add(&t, "");
        (void) grid_add(&t, "default");
        (void) grid_add(&t, "at most");
        (void) grid_add(&t, "");
        for (const struct LimitInfo *limit = limit_table; limit->field; limit++) {
                (void) grid_add(&t, limit->key);
                (void) grid_add(&t, format_limit(limit, limit_get(&defaults, limit), buffer, sizeof(buffer)));
                (void) grid_add(&t, format_limit(limit, limit_get(&caps, limit), buffer, sizeof(buffer)));
                (void) grid_add(&t, is_waived(info, limit->field) ? "NOT ENFORCED on this machine: the operator waived it" : "");
        }
        (void) grid_print(&t, INDENT);
}

/* "timeout 30 s, memory 512 MiB, idle-timeout 10 s (not before 15 s)": what a profile sets. */
static void describe_profile(const Glovebox__V1__Profile *profile, char *text, size_t size) {
        struct Limits limits = limits_of(profile->limits);
        const Glovebox__V1__IdlePolicy *idle = profile->idle;
        char value[64];

        *text = '\0';
        for (const struct LimitInfo *limit = limit_table; limit->field; limit++)
                if (limit_get(&limits, limit) > 0)
                        add_words(text, size, "%s%s %s", *text ? ", " : "", limit->key,
                                  format_limit(limit, limit_get(&limits, limit), value, sizeof(value)));
        if (idle && idle->timeout)
                add_words(text, size, "%sidle-timeout %s", *text ? ", " : "",
                          console_period(duration_usec(idle->timeout), value, sizeof(value)));
        if (idle && idle->timeout && idle->grace)
                add_words(text, size, " (not before %s)", console_period(duration_usec(idle->grace), value, sizeof(value)));
}

static void print_profiles(const Info *info) {
        struct Grid t _cleanup_(grid_done) = { .columns = 2 };

        if (info->n_profiles == 0)
                return;
        puts("\nProfiles");
        for (size_t i = 0; i < info->n_profiles; i++) {
                char text[512];

                describe_profile(info->profiles[i], text, sizeof(text));
                (void) grid_add(&t, info->profiles[i]->name);
                (void) grid_add(&t, text);
        }
        (void) grid_print(&t, INDENT);
}

static void print_isolation(const Info *info) {
        struct Grid t _cleanup_(grid_done) = { .columns = 3 };
        size_t missing = 0;

        puts("\nIsolation");
        for (size_t i = 0; i < info->n_isolation; i++) {
                const Glovebox__V1__IsolationLayer *layer = info->isolation[i];

                missing += !layer->in_force;
                (void) grid_add(&t, layer->name);
                (void) grid_add(&t, layer->in_force ? "in force" : "MISSING");
                (void) grid_add(&t, layer->detail);
        }
        (void) grid_print(&t, INDENT);
        if (missing > 0)
                printf("  %zu of %zu layers are missing: cells are weaker than they should be.\n", missing, info->n_isolation);
}

int verb_info(const struct Options *o) {
        Glovebox__V1__GetInfoRequest request = GLOVEBOX__V1__GET_INFO_REQUEST__INIT;
        struct Channel *channel _cleanup_(channel_closep) = NULL;
        Info *info = NULL;
        int r;

        if (o->operands)
                return console_fault("info takes no operand (%s)", o->operands[0]);
        r = channel_open(o, &channel);
        if (r == 0)
                r = rpc_unary(channel, "/glovebox.v1.SystemService/GetInfo", &request.base,
                              &glovebox__v1__get_info_response__descriptor, NULL, (ProtobufCMessage **) &info);
        if (r != 0)
                return r;
        if (o->json)
                r = proto_json_print(&info->base) < 0 ? STATUS_FAULT : 0;
        else {
                print_server(info, channel->server);
                print_runtimes(info);
                print_limits(info);
                print_profiles(info);
                print_isolation(info);
        }
        glovebox__v1__get_info_response__free_unpacked(info, NULL);
        return r;
}
