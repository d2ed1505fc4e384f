/* glovebox run: one execution, live. Answers are taken one at a time and written before the next is asked for, so that a paused
 * terminal slows the program down instead of filling memory. */
#include <glovebox/v1/system.pb-c.h>
#include <stdio.h>

#include "client/console.h"
#include "client/ending.h"
#include "client/guess.h"
#include "client/harvest.h"
#include "client/interrupt.h"
#include "client/proto-json.h"
#include "client/rpc.h"
#include "client/run-request.h"
#include "client/status-line.h"
#include "client/text.h"
#include "client/verb.h"

#define STATUS_LINE_HEARTBEAT (1 * USEC_PER_SEC)

struct Run {
        const struct Options *options;
        struct RunRequest request;
        struct Channel *channel;
        struct Rpc *rpc;
        struct Interrupt interrupt;
        struct StatusLine line;
        struct Harvest harvest;
        char *execution; /* id, once accepted */
        int status;      /* exit status, once ended */
        bool ended;      /* result seen, or nothing left to wait for */
};

static int write_failed(struct Run *run, int error) {
        status_line_done(&run->line);
        if (error == -EPIPE)
                return console_end_by_sigpipe(); /* the server cancels what loses its client */
        return console_fault("cannot write the output: %s; %s cancelled", strerror(-error), run->options->detach ? "it is not" : "it is");
}

/* Who looks at a terminal should know that the program may take more than the limits say. */
static void tell_waived(struct Run *run, const Glovebox__V1__Accepted *accepted) {
        char *waived _cleanup_free_ = limits_waived(accepted->limits_not_enforced, accepted->n_limits_not_enforced);

        if (!waived || (!run->options->verbose && (run->options->json || !run->line.err_is_terminal)))
                return;
        status_line_clear(&run->line);
        console_note("not enforced by this server, whose operator waived it: %s", waived);
}

static int on_accepted(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        const Glovebox__V1__Accepted *accepted = event->accepted;
        char *line _cleanup_free_ = NULL;
        int r;

        free(run->execution);
        run->execution = strdup(accepted->execution_id);
        interrupt_set_execution(&run->interrupt, accepted->execution_id);
        status_line_set_phase(&run->line, accepted->queued ? "waiting for room" : "starting");
        tell_waived(run, accepted);
        if (!run->options->detach)
                return 0;
        run->ended = true;
        if (run->options->json)
                return 0; /* the event itself was printed */
        line = console_escape(accepted->execution_id);
        if (!line)
                return -ENOMEM;
        r = console_write(STDOUT_FILENO, line, strlen(line));
        return r < 0 ? r : console_write(STDOUT_FILENO, "\n", 1);
}

static int on_started(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        status_line_set_phase(&run->line, NULL);
        return 0;
}

/* What is shown or said begins a line of its own. */
static int show_displays(struct Run *run) {
        if (!harvest_is_ready(&run->harvest)) {
                status_line_clear(&run->line);
                return 0;
        }
        status_line_done(&run->line);
        return harvest_before_output(&run->harvest);
}

static int on_output(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        int fd = event->output->stream == GLOVEBOX__V1__STREAM__STREAM_STDERR ? STDERR_FILENO : STDOUT_FILENO;
        const char *data = (const char *) event->output->data.data;
        size_t size = event->output->data.len;
        int r;

        if (run->options->json || size == 0)
                return 0;
        if (run->options->value)
                fd = STDERR_FILENO; /* standard output is the value's */
        r = show_displays(run);
        if (r < 0)
                return r;
        status_line_saw(&run->line, fd, data, size);
        return console_write(fd, data, size);
}

static int on_display(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        if (harvest_is_ready(&run->harvest))
                status_line_done(&run->line); /* another object's was waiting, perhaps */
        return harvest_on_display(&run->harvest, event->display);
}

static int on_content(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        status_line_clear(&run->line); /* something may be said */
        return harvest_on_content(&run->harvest, event->content);
}

static int on_heartbeat(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        status_line_set_heartbeat(&run->line, event->heartbeat);
        return harvest_is_ready(&run->harvest) ? show_displays(run) : 0;
}

static int on_gap(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        if (run->options->json)
                return 0;
        status_line_done(&run->line);
        console_note("%llu bytes of its output were lost here", (unsigned long long) (event->gap->to - event->gap->from));
        return 0;
}

static int on_result(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        char *sentence _cleanup_free_ = ending_line(event->result);
        const Glovebox__V1__ExecutionError *error = event->result->error;
        int r;

        run->status = ending_status(event->result);
        run->ended = true;
        status_line_done(&run->line);
        r = harvest_on_result(&run->harvest, event->result);
        if (r < 0)
                return r;
        if (sentence && !run->options->json)
                console_note("%s", sentence);
        /* Of code that is cut off the sentence has said it. */
        if (error && !isempty(error->hint) && !error->incomplete && !run->options->json)
                console_note("hint: %s", error->hint);
        if (run->status == 0)
                run->status = run->harvest.status;
        return 0;
}

static int on_event(struct Run *run, const Glovebox__V1__ExecutionEvent *event) {
        static int (*const handlers[])(struct Run *, const Glovebox__V1__ExecutionEvent *) = {
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_ACCEPTED] = on_accepted,
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_STARTED] = on_started,
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_OUTPUT] = on_output,
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_DISPLAY] = on_display,
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_CONTENT] = on_content,
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_HEARTBEAT] = on_heartbeat,
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_GAP] = on_gap,
                [GLOVEBOX__V1__EXECUTION_EVENT__EVENT_RESULT] = on_result,
        };
        size_t which = (size_t) event->event_case;
        int r;

        if (run->options->json) {
                status_line_clear(&run->line);
                r = proto_json_print(&event->base);
                if (r < 0)
                        return r;
        }
        return which < ELEMENTSOF(handlers) && handlers[which] ? handlers[which](run, event) : 0;
}

/* The connection broke. A second try could run the program a second time, so nobody is told to try again. */
static int connection_lost(const struct Run *run) {
        const char *id = run->options->request_id;
        char *known _cleanup_free_ = NULL;

        if (run->execution && asprintf(&known, "`glovebox ps %s` tells how it ended, unless the server was started anew since", run->execution) < 0)
                known = NULL;
        else if (!run->execution && id && asprintf(&known, "`glovebox ps --all --json` shows whether one has requestId %s", id) < 0)
                known = NULL;
        return console_fault("%s%sUNAVAILABLE: %s; the answer of %s broke off, and the program %s: %s", strempty(run->execution),
                             run->execution ? ": " : "", rpc_reason(run->rpc), run->channel->server,
                             run->execution ? "may have run, in part or to its end" : "may have run or not",
                             known ? known : "`glovebox ps --all` shows what the server has run (with --request-id it could be told apart)");
}

/* The stream is over without a result. */
static int stream_failed(struct Run *run) {
        status_line_done(&run->line);
        if (interrupt_was_cancelled(&run->interrupt) && rpc_is_cancelled(run->rpc)) {
                console_note("CANCELLED: left before it was known how it ended");
                return STATUS_GAVE_UP;
        }
        if (rpc_is_lost(run->rpc))
                return connection_lost(run);
        if (!rpc_is_ok(run->rpc))
                return rpc_fault(run->rpc, run->execution);
        return console_fault("%s ended the stream without a result; are server and client of one version?", run->channel->server);
}

static int watch(struct Run *run) {
        int r;

        while (!run->ended) {
                ProtobufCMessage *event = NULL;

                r = rpc_next(run->rpc, &glovebox__v1__execution_event__descriptor, status_line_next(&run->line), &event);
                if (r == -ETIME) {
                        status_line_tick(&run->line);
                        continue;
                }
                if (r == 0)
                        return stream_failed(run);
                if (r > 0) {
                        r = on_event(run, (Glovebox__V1__ExecutionEvent *) event);
                        protobuf_c_message_free_unpacked(event, NULL);
                }
                if (r == -EBADMSG)
                        return console_fault("%s sent what this client does not understand; are both of one version?",
                                             run->channel->server);
                if (r < 0)
                        return write_failed(run, r);
                if (!run->ended)
                        status_line_tick(&run->line);
        }
        return run->status;
}

/* Without --runtime the server is asked what it has. */
static int find_runtime(struct Run *run) {
        Glovebox__V1__GetInfoRequest request = GLOVEBOX__V1__GET_INFO_REQUEST__INIT;
        Glovebox__V1__GetInfoResponse *info = NULL;
        char *list _cleanup_free_ = NULL;
        const char *found;
        int r;

        if (run->options->runtime)
                return 0;
        r = rpc_unary(run->channel, "/glovebox.v1.SystemService/GetInfo", &request.base, &glovebox__v1__get_info_response__descriptor, NULL,
                      (ProtobufCMessage **) &info);
        if (r != 0)
                return r;
        found = guess_runtime(info, run->request.name, run->request.message.code);
        if (found && strv_extend(&run->request.texts, found) >= 0)
                run->request.message.runtime = run->request.texts[strv_length(run->request.texts) - 1];
        else {
                list = guess_list(info);
                r = console_fault("%s does not tell which runtime it is for; say --runtime NAME; the server has %s",
                                  run->request.name ? run->request.name : run->options->code ? "-c" : "standard input", strempty(list));
        }
        glovebox__v1__get_info_response__free_unpacked(info, NULL);
        return r;
}

static int run_execution(struct Run *run) {
        int r;

        r = run_request_init(&run->request, run->options);
        if (r == 0)
                r = harvest_init(&run->harvest, run->options);
        if (r == 0)
                r = channel_open(run->options, &run->channel);
        if (r == 0)
                r = find_runtime(run);
        if (r != 0)
                return r;
        /* The status line lives on heartbeats. */
        if (run->line.enabled && !run->request.message.heartbeat_interval) {
                run->request.heartbeat.seconds = STATUS_LINE_HEARTBEAT / USEC_PER_SEC;
                run->request.message.heartbeat_interval = &run->request.heartbeat;
        }
        r = rpc_start(run->channel, "/glovebox.v1.ExecutionService/ExecuteStream", &run->request.message.base, USEC_INFINITY, &run->rpc);
        if (r < 0)
                return console_fault("cannot call %s: %s", run->channel->server, strerror(-r));
        interrupt_watch(&run->interrupt, run->channel, run->rpc);
        r = watch(run);
        interrupt_watch(&run->interrupt, run->channel, NULL);
        return r;
}

int verb_run(const struct Options *o) {
        struct Run run = { .options = o, .harvest = { .is_off = true, .spool = SPOOL_NULL, .out = OUT_DIR_NULL } };
        int r;

        status_line_init(&run.line, !o->json && !o->detach);
        r = interrupt_start(&run.interrupt, &run.line);
        if (r < 0)
                return console_fault("cannot start: %s", strerror(-r));
        r = run_execution(&run);
        interrupt_stop(&run.interrupt);
        run.rpc = rpc_free(run.rpc);
        run.channel = channel_close(run.channel);
        harvest_done(&run.harvest);
        run_request_done(&run.request);
        free(run.execution);
        return r;
}
