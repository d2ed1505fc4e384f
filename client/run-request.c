/* Building the request. Bounds that the contract fixes are checked here already, so that nobody uploads 64 MiB to be refused. */
#include "client/run-request.h"

#include "client/console.h"
#include "client/json-text.h"
#include "client/text.h"
#include "common/path-pattern.h"

#define CODE_MAX (1 * MIB)
#define STDIN_MAX (16 * MIB)
#define HINT_AFTER (2 * USEC_PER_SEC)
#define HINT_AFTER_IN_A_LOG (5 * USEC_PER_SEC) /* where nobody sees it at once, only what lasts */

static int out_of_memory(void) {
        return console_fault("out of memory");
}

static int check_text(const char *what, const struct Bytes *code) {
        if (memchr(code->data, '\0', code->size))
                return console_fault("%s holds a NUL byte; is it a program to be run by an interpreter?", what);
        if (!utf8_is_valid(code->data, code->size))
                return console_fault("%s is not UTF-8; code must be", what);
        return 0;
}

static int read_code(struct RunRequest *r, const char *operand) {
        bool is_stdin = streq(operand, "-");
        const char *what = is_stdin ? "standard input" : operand;
        int e;

        e = is_stdin ? input_read_fd(STDIN_FILENO, CODE_MAX, &r->code) : input_read_file(operand, CODE_MAX, &r->code);
        if (e == -EFBIG)
                return console_fault("%s: code may have at most 1 MiB; pass data with --file or --stdin", what);
        if (e < 0)
                return console_fault("cannot read %s: %s", what, strerror(-e));
        r->name = is_stdin ? NULL : operand;
        r->message.code = r->code.data;
        return check_text(what, &r->code);
}

static int set_code(struct RunRequest *r, const struct Options *o) {
        size_t n = strv_length(o->operands);

        if (o->code && n > 0)
                return console_fault("-c CODE and a file (%s) exclude each other; arguments of the program go behind --", o->operands[0]);
        if (!o->code && n == 0)
                return console_fault("what to run? Say FILE, -c CODE or - (standard input); see `glovebox help run`");
        if (n > 1)
                return console_fault("one file at a time: %s is in the way; arguments of the program go behind --", o->operands[1]);
        if (!o->code)
                return read_code(r, o->operands[0]);
        if (strlen(o->code) > CODE_MAX)
                return console_fault("-c: code may have at most 1 MiB");
        if (!utf8_is_valid(o->code, strlen(o->code)))
                return console_fault("-c: code must be UTF-8");
        r->message.code = (char *) o->code;
        return 0;
}

static int read_stdin(struct RunRequest *r) {
        /* Someone who started us with an open pipe by accident would wait for ever without a word. */
        if (!input_is_ready(STDIN_FILENO, isatty(STDERR_FILENO) ? HINT_AFTER : HINT_AFTER_IN_A_LOG))
                console_note("waiting for standard input to end (--no-stdin: do not pass it on)");
        return input_read_fd(STDIN_FILENO, STDIN_MAX, &r->input);
}

static int set_stdin(struct RunRequest *r, const struct Options *o) {
        bool code_is_stdin = !o->code && streq(o->operands[0], "-");
        const char *what = "standard input";
        int e = 0;

        if (o->stdin_file && o->no_stdin)
                return console_fault("--stdin and --no-stdin exclude each other");
        if (o->stdin_file && streq(o->stdin_file, "-") && code_is_stdin)
                return console_fault("standard input is the code already: it cannot be the program's input as well");
        if (o->stdin_file && !streq(o->stdin_file, "-")) {
                what = o->stdin_file;
                e = input_read_file(o->stdin_file, STDIN_MAX, &r->input);
        } else if (o->stdin_file || (!o->no_stdin && !code_is_stdin && input_is_passed(STDIN_FILENO)))
                e = read_stdin(r);
        if (e == -EFBIG)
                return console_fault("%s: at most 16 MiB can be passed on; put it into the workspace with --file (64 MiB)", what);
        if (e < 0)
                return console_fault("cannot read %s: %s", what, strerror(-e));
        r->message.stdin = (ProtobufCBinaryData) { .len = r->input.size, .data = (uint8_t *) r->input.data };
        return 0;
}

/* The part of "NAME=VALUE" before the sign; the other begins behind it. */
static char *split(struct RunRequest *r, const char *pair, const char *sign) {
        char *name = strndup(pair, (size_t) (sign - pair));

        return name && strv_push(&r->texts, name) >= 0 ? name : NULL;
}

static int set_env(struct RunRequest *r, char *const *pairs) {
        size_t n = strv_length(pairs);

        r->env = calloc(n + 1, sizeof(*r->env));
        r->message.env = calloc(n + 1, sizeof(*r->message.env));
        if (!r->env || !r->message.env)
                return out_of_memory();
        for (size_t i = 0; i < n; i++) {
                const char *equals = strchr(pairs[i], '=');

                glovebox__v1__execute_request__env_entry__init(&r->env[i]);
                r->env[i].key = split(r, pairs[i], equals);
                r->env[i].value = (char *) equals + 1;
                if (!r->env[i].key)
                        return out_of_memory();
                r->message.env[r->message.n_env++] = &r->env[i];
        }
        return 0;
}

static int set_labels(struct RunRequest *r, char *const *pairs) {
        size_t n = strv_length(pairs);

        r->labels = calloc(n + 1, sizeof(*r->labels));
        r->message.labels = calloc(n + 1, sizeof(*r->message.labels));
        if (!r->labels || !r->message.labels)
                return out_of_memory();
        for (size_t i = 0; i < n; i++) {
                const char *equals = strchr(pairs[i], '=');

                glovebox__v1__execute_request__labels_entry__init(&r->labels[i]);
                r->labels[i].key = split(r, pairs[i], equals);
                r->labels[i].value = (char *) equals + 1;
                if (!r->labels[i].key)
                        return out_of_memory();
                r->message.labels[r->message.n_labels++] = &r->labels[i];
        }
        return 0;
}

static int set_files(struct RunRequest *r, char *const *arguments) {
        int e = input_files_read(&r->files, arguments);

        r->message.files = r->files.list;
        r->message.n_files = r->files.n;
        return e;
}

/* inputs_json, variables_json */
static int set_values(struct RunRequest *r, const struct Options *o) {
        int e = 0;

        if (o->inputs)
                e = json_text_read("--inputs", o->inputs, false, &r->inputs);
        if (e == 0 && o->variables)
                e = json_text_read("--variables", o->variables, true, &r->variables);
        if (r->inputs.data)
                r->message.inputs_json = r->inputs.data;
        if (r->variables.data)
                r->message.variables_json = r->variables.data;
        return e;
}

/* "json, math": the names between the commas. Nothing at all allows nothing. */
static int set_import_policy(struct RunRequest *r, const char *list) {
        if (!list)
                return 0;
        glovebox__v1__import_policy__init(&r->policy);
        r->policy.restrict_ = true;
        r->message.import_policy = &r->policy;
        for (const char *p = list; list[strspn(list, " ")]; p++) {
                size_t blanks = strspn(p, " ");
                size_t n = strcspn(p + blanks, ", ");
                char *name = strndup(p + blanks, n);

                if (!name || strv_push(&r->modules, name) < 0)
                        return out_of_memory();
                p += blanks + n;
                p += strspn(p, " ");
                if (n == 0 || (*p && *p != ','))
                        return console_fault("--import-only %s: it takes names of modules with commas between them, such as json,math; '' allows none", list);
                if (!*p)
                        break;
        }
        r->policy.allowed = r->modules;
        r->policy.n_allowed = strv_length(r->modules);
        return 0;
}

/* --out alone asks for everything; what is not new or changed is then left (see harvest.c). */
static int set_collect(struct RunRequest *r, const struct Options *o) {
        static char everything[] = "**";
        static char *all[] = { everything, NULL };

        if (o->detach && (o->collect || o->out || o->value))
                return console_fault("--detach leaves before the end, and so excludes %s", o->out ? "--out" : o->value ? "--value" : "--collect");
        if (o->collect && !o->out && !o->json)
                return console_fault("--collect says which files, --out DIR where they go; say both (or --json, which prints them)");
        if (o->value && o->json)
                return console_fault("--value and --json exclude each other: the result that --json prints has the value (valueJson)");
        for (size_t i = 0; o->collect && o->collect[i]; i++) {
                const char *fault = path_pattern_check(o->collect[i], strlen(o->collect[i]));

                if (!fault && !utf8_is_valid(o->collect[i], strlen(o->collect[i])))
                        fault = "is not UTF-8";
                if (fault)
                        return console_fault("--collect %s: the pattern %s", o->collect[i], fault);
        }
        r->message.collect = o->collect ? o->collect : o->out ? all : NULL;
        r->message.n_collect = strv_length(r->message.collect);
        return 0;
}

/* Points *field at d when t is set. */
static void set_time(usec_t t, Google__Protobuf__Duration *d, Google__Protobuf__Duration **field) {
        *d = duration_of(t);
        if (t > 0)
                *field = d;
}

static void set_limits(struct RunRequest *r, const struct Options *o) {
        static const int evidence[] = {
                [EVIDENCE_UNSET] = GLOVEBOX__V1__EVIDENCE__EVIDENCE_UNSPECIFIED,
                [EVIDENCE_OUTPUT_AND_CPU] = GLOVEBOX__V1__EVIDENCE__EVIDENCE_OUTPUT_AND_CPU,
                [EVIDENCE_OUTPUT] = GLOVEBOX__V1__EVIDENCE__EVIDENCE_OUTPUT,
        };

        glovebox__v1__limits__init(&r->limits);
        glovebox__v1__idle_policy__init(&r->idle);
        set_time(o->timeout, &r->timeout, &r->limits.timeout);
        set_time(o->cpu_time, &r->cpu_time, &r->limits.cpu_time);
        r->limits.memory_bytes = o->memory;
        r->limits.cpus = o->cpus;
        r->limits.max_processes = (uint32_t) o->max_processes;
        r->limits.output_bytes = o->output_bytes;
        r->limits.workspace_bytes = o->workspace_bytes;
        r->limits.workspace_inodes = (uint32_t) o->workspace_inodes;
        r->limits.value_bytes = o->value_bytes;
        r->limits.content_bytes = o->content_bytes;
        set_time(o->idle_timeout, &r->idle_timeout, &r->idle.timeout);
        set_time(o->idle_grace, &r->idle_grace, &r->idle.grace);
        r->idle.evidence = evidence[o->idle_evidence];
        r->message.limits = &r->limits;
        if (o->idle_timeout || o->idle_grace || o->idle_evidence)
                r->message.idle = &r->idle;
        set_time(o->heartbeat_interval, &r->heartbeat, &r->message.heartbeat_interval);
}

static void set_plain(Glovebox__V1__ExecuteRequest *m, const struct Options *o) {
        static char empty[] = "";

        m->runtime = o->runtime ? (char *) o->runtime : empty;
        m->profile = o->profile ? (char *) o->profile : empty;
        m->request_id = o->request_id ? (char *) o->request_id : empty;
        m->working_dir = o->working_dir ? (char *) o->working_dir : empty;
        m->timezone = o->timezone ? (char *) o->timezone : empty;
        m->args = o->args;
        m->n_args = strv_length(o->args);
        m->contract = (Glovebox__V1__Contract) o->contract;
        m->merge_streams = o->merge_streams;
        m->detached = o->detach;
}

int run_request_init(struct RunRequest *r, const struct Options *o) {
        int e;

        *r = (struct RunRequest) {};
        glovebox__v1__execute_request__init(&r->message);
        set_plain(&r->message, o);
        set_limits(r, o);
        e = set_collect(r, o);
        if (e == 0)
                e = set_import_policy(r, o->import_only);
        if (e == 0)
                e = set_code(r, o);
        if (e == 0)
                e = set_values(r, o);
        if (e == 0)
                e = set_env(r, o->env);
        if (e == 0)
                e = set_labels(r, o->labels);
        if (e == 0)
                e = set_files(r, o->files);
        return e != 0 ? e : set_stdin(r, o);
}

void run_request_done(struct RunRequest *r) {
        input_files_done(&r->files);
        free(r->env);
        free(r->labels);
        free(r->message.env);
        free(r->message.labels);
        bytes_done(&r->code);
        bytes_done(&r->input);
        bytes_done(&r->inputs);
        bytes_done(&r->variables);
        strv_free(r->modules);
        strv_free(r->texts);
        *r = (struct RunRequest) {};
}
