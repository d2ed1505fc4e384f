/* The audit: built once as a JSON object; the journal gets the same facts as fields. */
#include "server/verdict/audit.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>

#include "common/journal.h"
#include "common/log.h"
#include "server/verdict/verdict.h"

int audit_open(struct Audit *a, const struct Config *config) {
        int fd _cleanup_close_ = -EBADF;

        if (config->audit_file) {
                fd = open(config->audit_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
                if (fd < 0)
                        return -errno;
        }
        audit_close(a);
        a->fd = TAKE_FD(fd);
        a->code = config->audit_code;
        a->journal = journal_is_there();
        return 0;
}

bool audit_is_on(const struct Audit *a) {
        return a->fd >= 0 || a->journal;
}

void audit_close(struct Audit *a) {
        a->fd = close_fd(a->fd);
}

const char *audit_escape(const uint8_t *data, size_t size, char *out, size_t out_size) {
        size_t n = 0;

        for (size_t i = 0; i < size && n + 5 < out_size; i++)
                if (data[i] >= 0x20 && data[i] < 0x7f && data[i] != '\\')
                        out[n++] = (char) data[i];
                else
                        n += (size_t) snprintf(out + n, out_size - n, "\\x%02x", data[i]);
        out[n] = 0;
        return out;
}

/* Strings of callers are valid UTF-8 by now; should one not be, it is left out rather than the record lost. */
static void put(json_t *o, const char *key, json_t *value) {
        (void) json_object_set_new(o, key, value ? value : json_null());
}

static void put_string(json_t *o, const char *key, const char *value) {
        if (!isempty(value))
                put(o, key, json_string(value));
}

static void put_seconds(json_t *o, const char *key, usec_t value) {
        put(o, key, json_real((double) value / USEC_PER_SEC));
}

static json_t *limits_to_json(const struct Limits *l) {
        json_t *o = json_object();

        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                double v = limit_get(l, info);
                if (v == 0)
                        continue;
                if (info->kind == LIMIT_TIME)
                        put(o, info->field, json_real(v / USEC_PER_SEC));
                else if (info->kind == LIMIT_CORES)
                        put(o, info->field, json_real(v));
                else
                        put(o, info->field, json_integer((json_int_t) v));
        }
        return o;
}

static json_t *labels_to_json(const struct AuditRecord *r) {
        json_t *o = json_object();
        for (size_t i = 0; i < r->n_labels; i++)
                put(o, r->label_keys[i], json_string(r->label_values[i]));
        return o;
}

/* What was sent, by names and sizes. */
static void put_request(json_t *o, const struct Request *q, enum AuditCode code) {
        json_t *names = json_array(), *files = json_array();

        for (size_t i = 0; i < q->n_env; i++)
                (void) json_array_append_new(names, json_string(q->env[i].key));
        for (size_t i = 0; i < q->n_files; i++) {
                json_t *f = json_object();
                put_string(f, "path", q->files[i].path);
                put(f, "size", json_integer((json_int_t) q->files[i].content.size));
                (void) json_array_append_new(files, f);
        }
        put(o, "env_names", names);
        put(o, "files", files);
        put(o, "n_args", json_integer((json_int_t) q->n_args));
        put(o, "stdin_size", json_integer((json_int_t) q->stdin_bytes.size));
        put(o, "code_size", json_integer((json_int_t) q->code.size));
        put(o, "inputs_size", json_integer((json_int_t) q->inputs.size));
        put(o, "variables_size", json_integer((json_int_t) q->variables.size));
        put_string(o, "working_dir", q->working_dir);
        put_string(o, "timezone", q->timezone);
        if (code == AUDIT_CODE_FULL)
                put(o, "code", json_stringn((const char *) q->code.data, q->code.size));
}

static json_t *usage_to_json(const struct Usage *u) {
        json_t *o = json_object();

        put_seconds(o, "wall", u->wall);
        put_seconds(o, "cpu_user", u->cpu_user);
        put_seconds(o, "cpu_system", u->cpu_system);
        put(o, "memory_peak_bytes", json_integer((json_int_t) u->memory_peak));
        put(o, "processes_peak", json_integer((json_int_t) u->processes_peak));
        put(o, "read_bytes", json_integer((json_int_t) u->read_bytes));
        put(o, "written_bytes", json_integer((json_int_t) u->written_bytes));
        put_seconds(o, "cpu_stalled", u->cpu_stalled);
        put_seconds(o, "memory_stalled", u->memory_stalled);
        put_seconds(o, "io_stalled", u->io_stalled);
        return o;
}

/* What changed, without what was only asked for. */
static json_t *files_to_json(const struct Result *r) {
        static const char *const changes[] = {"", "ADDED", "MODIFIED", "DELETED"};
        json_t *list = json_array();

        for (size_t i = 0; i < r->n_files; i++) {
                const struct ResultFile *f = &r->files[i];
                if (f->change == 0 || f->change >= ELEMENTSOF(changes))
                        continue;
                json_t *o = json_object();
                put_string(o, "path", f->path);
                if (f->escaped)
                        put(o, "path_escaped", json_true());
                put_string(o, "change", changes[f->change]);
                put(o, "size", json_integer((json_int_t) f->size));
                (void) json_array_append_new(list, o);
        }
        return list;
}

/* The error's type and place; its text may be the caller's data, as the value is. */
static void put_values(json_t *o, const struct Result *r) {
        if (r->value.kind == VALUE_KIND_JSON)
                put(o, "value_size", json_integer((json_int_t) r->value.size));
        if (r->error.set) {
                put_string(o, "error_type", strempty(r->error.texts[ERROR_TEXT_TYPE]));
                put(o, "error_line", json_integer(r->error.line));
        }
        put(o, "changes", files_to_json(r));
        if (r->files_truncated)
                put(o, "changes_truncated", json_true());
}

static void put_result(json_t *o, const struct Result *r) {
        static const char *const limits[] = {
                [LIMIT_HIT_MEMORY] = "MEMORY", [LIMIT_HIT_PROCESSES] = "PROCESSES", [LIMIT_HIT_CPU_TIME] = "CPU_TIME",
                [LIMIT_HIT_WORKSPACE] = "WORKSPACE",
                [LIMIT_HIT_OUTPUT] = "OUTPUT", [LIMIT_HIT_VALUE] = "VALUE",         [LIMIT_HIT_CONTENT] = "CONTENT",
        };
        json_t *hit = json_array();

        put_string(o, "outcome", outcome_to_string(r->outcome));
        if (r->exit == EXIT_CODE)
                put(o, "exit_code", json_integer(r->status));
        if (r->exit == EXIT_SIGNAL)
                put(o, "signal", json_integer(r->status));
        if (r->cancel_reason)
                put_string(o, "cancel_reason", cancel_reason_to_string(r->cancel_reason));
        put_string(o, "message", r->message);
        for (size_t i = 1; i < LIMIT_HIT_MAX_; i++)
                if (r->limits_hit & 1u << i)
                        (void) json_array_append_new(hit, json_string(limits[i]));
        put(o, "limits_hit", hit);
        put(o, "usage", usage_to_json(&r->usage));
        put_values(o, r);
}

/* Empty for one that never started. */
static const char *start_to_string(unsigned start) {
        static const char *const names[] = { "", "COLD", "READY", "WARM" };
        return start < ELEMENTSOF(names) ? names[start] : "";
}

static json_t *outputs_to_json(const struct AuditRecord *r) {
        json_t *o = json_object();

        for (size_t i = 0; i < r->n_outputs; i++) {
                json_t *s = json_object();
                put(s, "size", json_integer((json_int_t) r->outputs[i].size));
                put_string(s, "sha256", r->outputs[i].sha256);
                put_string(s, "first_bytes", r->outputs[i].head);
                put_string(s, "last_bytes", r->outputs[i].tail);
                put(o, r->outputs[i].name, s);
        }
        return o;
}

static json_t *record_to_json(const struct Audit *a, const char *event, const struct AuditRecord *r) {
        json_t *o = json_object();

        put_string(o, "event", event);
        put_seconds(o, "time", now_realtime());
        put_string(o, "execution_id", r->id);
        put_string(o, "request_id", r->request_id);
        put_string(o, "caller", r->caller);
        if (r->caller_pid)
                put(o, "caller_pid", json_integer(r->caller_pid));
        put_string(o, "runtime", r->runtime);
        put_string(o, "profile", r->profile);
        put(o, "labels", labels_to_json(r));
        put_string(o, "code_sha256", r->code_sha256);
        if (r->request) {
                put(o, "limits", limits_to_json(r->limits));
                put_seconds(o, "idle_timeout", r->idle->timeout);
                put_request(o, r->request, a->code);
        }
        if (r->result) {
                put_string(o, "start", start_to_string(r->start));
                put_result(o, r->result);
                if (!isempty(r->cancelled_by))
                        put_string(o, "cancelled_by", r->cancelled_by);
                put(o, "outputs", outputs_to_json(r));
        }
        put_string(o, "refused", r->refused);
        return o;
}

static void to_journal(const char *event, const char *message_id, const struct AuditRecord *r, const char *json) {
        const char *outcome = r->result ? outcome_to_string(r->result->outcome) : r->refused ? "REFUSED" : "";

        char message[512], level[4];

        (void) snprintf(message, sizeof(message), "Execution %s by %s: %s%s%s", r->id, r->caller, event, *outcome ? " " : "", outcome);
        (void) snprintf(level, sizeof(level), "%d", LOG_INFO);
        const struct JournalField fields[] = {
                { "PRIORITY", level },           { "MESSAGE", message },
                { "MESSAGE_ID", message_id },    { "SYSLOG_IDENTIFIER", "gloveboxd" },
                { "GLOVEBOX_EXECUTION_ID", r->id }, { "GLOVEBOX_REQUEST_ID", r->request_id },
                { "GLOVEBOX_CALLER", r->caller }, { "GLOVEBOX_RUNTIME", r->runtime },
                { "GLOVEBOX_CODE_SHA256", r->code_sha256 }, { "GLOVEBOX_OUTCOME", outcome },
                { "GLOVEBOX_AUDIT", json },
        };
        (void) journal_send(fields, ELEMENTSOF(fields));
}

/* A line that could not be completed (a full disk) is ended before the next one, so that it spoils none but itself. */
static void to_file(struct Audit *a, char *json) {
        size_t n = strlen(json);

        json[n] = '\n';
        if (a->torn && write(a->fd, "\n", 1) != 1)
                return;
        a->torn = false;
        for (size_t at = 0; at < n + 1;) {
                ssize_t w = write(a->fd, json + at, n + 1 - at);
                if (w < 0 && errno == EINTR)
                        continue;
                if (w < 0) {
                        log_error_errno(errno, "Failed to write the audit file: %m");
                        a->torn = at > 0;
                        return;
                }
                at += (size_t) w;
        }
}

static void audit_write(struct Audit *a, const char *event, const char *message_id, const struct AuditRecord *r) {
        if (!audit_is_on(a))
                return;
        json_t *o = record_to_json(a, event, r);
        size_t size = json_dumpb(o, NULL, 0, JSON_COMPACT);
        char *json _cleanup_free_ = malloc(size + 2);

        if (size == 0 || !json)
                log_error("Failed to build the audit record of execution %s", r->id);
        else {
                (void) json_dumpb(o, json, size, JSON_COMPACT);
                json[size] = json[size + 1] = 0;
                if (a->journal)
                        to_journal(event, message_id, r, json);
                if (a->fd >= 0)
                        to_file(a, json);
        }
        json_decref(o);
}

void audit_start(struct Audit *a, const struct AuditRecord *r) {
        audit_write(a, "start", MESSAGE_EXECUTION_START, r);
}

void audit_end(struct Audit *a, const struct AuditRecord *r) {
        audit_write(a, "end", MESSAGE_EXECUTION_END, r);
}
