/* glovebox ps: executions as a table. */
#include <glovebox/v1/execution.pb-c.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/pages.h"
#include "client/proto-json.h"
#include "client/rpc.h"
#include "client/text.h"
#include "client/verb.h"

#define VALUE_SHOWN_MAX 2000

struct List {
        const struct Options *options;
        struct Channel *channel;
        struct Grid table;
        struct Grid details; /* of ended ones that were asked for by id */
};

static const struct {
        const char *title;
        bool for_operators;
} columns[] = {
        { "ID" }, { "CALLER", true }, { "RUNTIME" }, { "STATE" }, { "AGE" }, { "CPU" }, { "MEMORY" }, { "IDLE" }, { "LABELS" },
};

static void add_header(struct List *list) {
        bool callers = list->options->caller;

        list->table.columns = ELEMENTSOF(columns) - !callers;
        for (size_t i = 0; i < ELEMENTSOF(columns); i++)
                if (callers || !columns[i].for_operators)
                        (void) grid_add(&list->table, columns[i].title);
}

/* What it does; of a finished one, how it ended. */
static const char *state_word(const Glovebox__V1__Execution *e) {
        if (e->state == GLOVEBOX__V1__STATE__STATE_FINISHED && e->result)
                return proto_enum_word(&glovebox__v1__outcome__descriptor, (int) e->result->outcome);
        return proto_enum_word(&glovebox__v1__state__descriptor, (int) e->state);
}

static void add_time(struct List *list, bool known, usec_t t) {
        char buffer[32];

        (void) grid_add(&list->table, known ? console_time(t, buffer, sizeof(buffer)) : "-");
}

static void add_row(struct List *list, const Glovebox__V1__Execution *e) {
        const Glovebox__V1__Usage *usage = e->result ? e->result->usage : NULL;
        usec_t cpu = usage ? duration_usec(usage->cpu_user) + duration_usec(usage->cpu_system) : duration_usec(e->cpu_time);
        uint64_t bytes = usage ? usage->memory_peak_bytes : e->memory_bytes;
        usec_t since = timestamp_usec(e->accepted_at);
        usec_t now = now_realtime();
        char *labels _cleanup_free_ = NULL;
        char memory[32];

        (void) grid_add(&list->table, e->execution_id);
        if (list->options->caller)
                (void) grid_add(&list->table, e->caller);
        (void) grid_add(&list->table, e->runtime);
        (void) grid_add(&list->table, state_word(e));
        add_time(list, since > 0, now > since ? now - since : 0);
        add_time(list, usage || e->cpu_time, cpu);
        (void) grid_add(&list->table, bytes > 0 ? console_bytes(bytes, memory, sizeof(memory)) : "-");
        add_time(list, !usage && e->idle_for, duration_usec(e->idle_for));
        labels = execution_labels(e);
        (void) grid_add(&list->table, labels);
}

static int add(struct List *list, const Glovebox__V1__Execution *e) {
        if (list->options->json)
                return proto_json_print(&e->base) < 0 ? STATUS_FAULT : 0;
        add_row(list, e);
        return 0;
}

static int add_page(void *userdata, Glovebox__V1__ListExecutionsResponse *page) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < page->n_executions; i++)
                r = add(userdata, page->executions[i]);
        glovebox__v1__list_executions_response__free_unpacked(page, NULL);
        return r;
}

static void PRINTF_LIKE(3, 4) add_detail(struct List *list, const char *name, const char *format, ...) {
        char *text _cleanup_free_ = NULL, *line _cleanup_free_ = NULL;
        va_list arguments;

        va_start(arguments, format);
        if (vasprintf(&text, format, arguments) < 0)
                text = NULL;
        va_end(arguments);
        if (asprintf(&line, "  %-8s %s", name, strempty(text)) < 0)
                line = NULL;
        (void) grid_add(&list->details, line);
}

static void add_value(struct List *list, const Glovebox__V1__Result *result) {
        const Glovebox__V1__ValueError *e = result->value_error;
        const char *json = result->value_json;

        if (result->value_case == GLOVEBOX__V1__RESULT__VALUE_VALUE_ERROR)
                add_detail(list, "value", "%s%s%s: %s", proto_enum_word(&glovebox__v1__value_error_type__descriptor, (int) e->type),
                           isempty(e->path) || streq(e->path, "$") ? "" : " at ", streq(e->path, "$") ? "" : strempty(e->path), strempty(e->message));
        else if (result->value_case == GLOVEBOX__V1__RESULT__VALUE_VALUE_JSON && strlen(json) > VALUE_SHOWN_MAX)
                add_detail(list, "value", "%.*s... (--json prints all of it)", (int) utf8_fit(json, VALUE_SHOWN_MAX), json);
        else if (result->value_case == GLOVEBOX__V1__RESULT__VALUE_VALUE_JSON)
                add_detail(list, "value", "%s%s", json, result->value_lossy ? " (something in it could not be told exactly)" : "");
}

static void add_error(struct List *list, const Glovebox__V1__ExecutionError *e) {
        char line[32] = "";

        if (!e)
                return;
        if (e->line > 0)
                (void) snprintf(line, sizeof(line), " (line %u)", e->line);
        add_detail(list, "error", "%s%s%s%s", e->type, isempty(e->message) ? "" : ": ", strempty(e->message), line);
        if (!isempty(e->hint))
                add_detail(list, "hint", "%s", e->hint);
}

static void add_files(struct List *list, const Glovebox__V1__Result *result) {
        size_t n[4] = {};

        for (size_t i = 0; i < result->n_files; i++)
                if ((size_t) result->files[i]->change < ELEMENTSOF(n))
                        n[result->files[i]->change]++;
        if (result->n_files > n[0])
                add_detail(list, "files", "%zu added, %zu modified, %zu deleted%s", n[GLOVEBOX__V1__CHANGE__CHANGE_ADDED],
                           n[GLOVEBOX__V1__CHANGE__CHANGE_MODIFIED], n[GLOVEBOX__V1__CHANGE__CHANGE_DELETED],
                           result->files_truncated ? ", and perhaps more" : "");
}

/* What a row of the table has no room for. */
static void add_details(struct List *list, const Glovebox__V1__Execution *e) {
        if (list->options->json || !e->result)
                return;
        (void) grid_add(&list->details, e->execution_id);
        add_detail(list, "message", "%s", strempty(e->result->message));
        add_value(list, e->result);
        add_error(list, e->result->error);
        add_files(list, e->result);
}

static int list_ids(struct List *list) {
        int worst = 0;

        for (size_t i = 0; list->options->operands[i]; i++) {
                Glovebox__V1__GetExecutionRequest request = GLOVEBOX__V1__GET_EXECUTION_REQUEST__INIT;
                Glovebox__V1__GetExecutionResponse *answer = NULL;
                int r;

                request.execution_id = list->options->operands[i];
                r = rpc_unary(list->channel, "/glovebox.v1.ExecutionService/GetExecution", &request.base,
                              &glovebox__v1__get_execution_response__descriptor, request.execution_id, (ProtobufCMessage **) &answer);
                if (r == 0 && answer->execution)
                        r = add(list, answer->execution);
                if (r == 0 && answer->execution)
                        add_details(list, answer->execution);
                worst = MAX(worst, r);
                if (answer)
                        glovebox__v1__get_execution_response__free_unpacked(answer, NULL);
        }
        return worst;
}

int verb_ps(const struct Options *o) {
        struct Channel *channel _cleanup_(channel_closep) = NULL;
        struct List list = { .options = o, .details = { .columns = 1 } };
        size_t header;
        int r;

        r = channel_open(o, &channel);
        if (r != 0)
                return r;
        list.channel = channel;
        if (!o->json)
                add_header(&list);
        header = list.table.n;
        r = o->operands ? list_ids(&list) : pages_list(channel, o->caller, !o->all, add_page, &list);
        if (!o->json && (r == 0 || list.table.n > header))
                (void) grid_print(&list.table, 0);
        if (list.details.n > 0) {
                (void) puts("");
                (void) grid_print(&list.details, 0);
        }
        grid_done(&list.table);
        grid_done(&list.details);
        return r;
}
