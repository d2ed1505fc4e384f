/* glovebox ps: executions as a table. */
#include <glovebox/v1/execution.pb-c.h>
#include <stdio.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/proto-json.h"
#include "client/rpc.h"
#include "client/text.h"
#include "client/verb.h"

#define PAGE 100

struct List {
        const struct Options *options;
        struct Channel *channel;
        struct Table table;
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
                        (void) table_add(&list->table, columns[i].title);
}

/* What it does; of a finished one, how it ended. */
static const char *state_word(const Glovebox__V1__Execution *e) {
        if (e->state == GLOVEBOX__V1__STATE__STATE_FINISHED && e->result)
                return proto_enum_word(&glovebox__v1__outcome__descriptor, (int) e->result->outcome);
        return proto_enum_word(&glovebox__v1__state__descriptor, (int) e->state);
}

static void add_labels(struct List *list, const Glovebox__V1__Execution *e) {
        char *text _cleanup_free_ = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        if (!out)
                return;
        for (size_t i = 0; i < e->n_labels; i++)
                fprintf(out, "%s%s=%s", i ? " " : "", e->labels[i]->key, e->labels[i]->value);
        (void) fclose(out);
        (void) table_add(&list->table, text);
}

static void add_time(struct List *list, bool known, usec_t t) {
        char buffer[32];

        (void) table_add(&list->table, known ? console_time(t, buffer, sizeof(buffer)) : "-");
}

static void add_row(struct List *list, const Glovebox__V1__Execution *e) {
        const Glovebox__V1__Usage *usage = e->result ? e->result->usage : NULL;
        usec_t cpu = usage ? duration_usec(usage->cpu_user) + duration_usec(usage->cpu_system) : duration_usec(e->cpu_time);
        uint64_t bytes = usage ? usage->memory_peak_bytes : e->memory_bytes;
        usec_t since = timestamp_usec(e->accepted_at);
        usec_t now = now_realtime();
        char memory[32];

        (void) table_add(&list->table, e->execution_id);
        if (list->options->caller)
                (void) table_add(&list->table, e->caller);
        (void) table_add(&list->table, e->runtime);
        (void) table_add(&list->table, state_word(e));
        add_time(list, since > 0, now > since ? now - since : 0);
        add_time(list, usage || e->cpu_time, cpu);
        (void) table_add(&list->table, bytes > 0 ? console_bytes(bytes, memory, sizeof(memory)) : "-");
        add_time(list, !usage && e->idle_for, duration_usec(e->idle_for));
        add_labels(list, e);
}

static int add(struct List *list, const Glovebox__V1__Execution *e) {
        if (list->options->json)
                return proto_json_print(&e->base) < 0 ? STATUS_FAULT : 0;
        add_row(list, e);
        return 0;
}

static int list_pages(struct List *list) {
        Glovebox__V1__ListExecutionsRequest request = GLOVEBOX__V1__LIST_EXECUTIONS_REQUEST__INIT;
        Glovebox__V1__ListExecutionsResponse *page = NULL;
        char *token _cleanup_free_ = NULL;
        int r = 0;

        request.page_size = PAGE;
        request.active_only = !list->options->all;
        if (list->options->caller)
                request.caller = (char *) list->options->caller;
        do {
                r = rpc_unary(list->channel, "/glovebox.v1.ExecutionService/ListExecutions", &request.base,
                              &glovebox__v1__list_executions_response__descriptor, NULL, (ProtobufCMessage **) &page);
                if (r != 0)
                        return r;
                for (size_t i = 0; r == 0 && i < page->n_executions; i++)
                        r = add(list, page->executions[i]);
                /* A server that gives the same page again and again would never let us end. */
                if (token && streq(token, page->next_page_token))
                        r = console_fault("the server does not get on with its list");
                free(token);
                token = isempty(page->next_page_token) ? NULL : strdup(page->next_page_token);
                request.page_token = token;
                glovebox__v1__list_executions_response__free_unpacked(page, NULL);
        } while (r == 0 && token);
        return r;
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
                worst = MAX(worst, r);
                if (answer)
                        glovebox__v1__get_execution_response__free_unpacked(answer, NULL);
        }
        return worst;
}

int verb_ps(const struct Options *o) {
        struct Channel *channel _cleanup_(channel_closep) = NULL;
        struct List list = { .options = o };
        size_t header;
        int r;

        r = channel_open(o, &channel);
        if (r != 0)
                return r;
        list.channel = channel;
        if (!o->json)
                add_header(&list);
        header = list.table.n;
        r = o->operands ? list_ids(&list) : list_pages(&list);
        if (!o->json && (r == 0 || list.table.n > header))
                (void) table_print(&list.table, 0);
        table_done(&list.table);
        return r;
}
