/* glovebox ps: executions as a table. */
#include <glovebox/v1/execution.pb-c.h>
#include <stdio.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/pages.h"
#include "client/proto-json.h"
#include "client/rpc.h"
#include "client/text.h"
#include "client/verb.h"

struct List {
        const struct Options *options;
        struct Channel *channel;
        struct Grid table;
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
        r = o->operands ? list_ids(&list) : pages_list(channel, o->caller, !o->all, add_page, &list);
        if (!o->json && (r == 0 || list.table.n > header))
                (void) grid_print(&list.table, 0);
        grid_done(&list.table);
        return r;
}
