/* ExecuteRequest becomes struct Request: shape only; what values are allowed is decided in admit/. */
#include "server/accept/convert.h"

#include <math.h>
#include <stdio.h>

#include "glovebox/v1/execution.pb-c.h"

#define SECONDS_MAX INT64_C(10000000000)

/* What the request owns: the message its strings lie in, and the arrays that have another form than the message's. */
struct Backing {
        struct Parcel *parcel;
        struct RequestPair *env, *labels;
        struct RequestFile *files;
};

/* Fields that do nothing yet: set, they are refused. */
static const char *const not_built[] = {
        "network", "packages", "session_id", "mounts", "secrets",
};

static void backing_free(void *userdata) {
        struct Backing *b = userdata;

        parcel_free(b->parcel);
        free(b->env);
        free(b->labels);
        free(b->files);
        free(b);
}

/* Whether a field has another value than the one that means "not set". */
static bool field_is_set(const ProtobufCMessage *message, const char *name) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
        const uint8_t *base = (const uint8_t *) message;

        if (field->label == PROTOBUF_C_LABEL_REPEATED)
                return *(const size_t *) (base + field->quantifier_offset) > 0;
        switch (field->type) {
        case PROTOBUF_C_TYPE_STRING:
                return !isempty(*(char *const *) (base + field->offset));
        case PROTOBUF_C_TYPE_MESSAGE:
                return *(void *const *) (base + field->offset);
        default: /* a table above names a field of a type that is not told apart here */
                return true;
        }
}

static int convert_check_built(const Glovebox__V1__ExecuteRequest *m, struct Refusal *refusal) {
        for (size_t i = 0; i < ELEMENTSOF(not_built); i++)
                if (field_is_set(&m->base, not_built[i]))
                        return refuse(refusal, REFUSE_UNIMPLEMENTED, not_built[i], "this server does not act on it yet; leave it out");
        if (!isempty(m->isolation) && !streq(m->isolation, "native"))
                return refuse(refusal, REFUSE_UNIMPLEMENTED, "isolation", "only \"native\" is built; leave it out");
        return 0;
}

/* A Duration that is absent or zero is 0; less than a microsecond is one. */
static int convert_duration(const Google__Protobuf__Duration *d, const char *field, usec_t *ret, struct Refusal *refusal) {
        if (!d)
                return 0;
        if (d->seconds < 0 || d->nanos < 0)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "is negative; leave it out for the default");
        if (d->nanos > 999999999)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "has %d nanos; a Duration has at most 999999999, put the rest into seconds",
                              d->nanos);
        if (d->seconds > SECONDS_MAX)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, field, "is %lld s; the most a time can be is %lld s", (long long) d->seconds,
                              (long long) SECONDS_MAX);
        *ret = (usec_t) d->seconds * USEC_PER_SEC + ((usec_t) d->nanos + NSEC_PER_USEC - 1) / NSEC_PER_USEC;
        return 0;
}

static int convert_limits(const Glovebox__V1__Limits *m, struct Limits *ret, struct Refusal *refusal) {
        int r;

        if (!m)
                return 0;
        if (!isfinite(m->cpus) || m->cpus < 0)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, "limits.cpus", "is not a number of processor cores; send one such as 0.5 or 2");
        ret->cpus = m->cpus;
        ret->memory_bytes = m->memory_bytes;
        ret->max_processes = m->max_processes;
        ret->output_bytes = m->output_bytes;
        ret->workspace_bytes = m->workspace_bytes;
        ret->workspace_inodes = m->workspace_inodes;
        ret->value_bytes = m->value_bytes;
        ret->content_bytes = m->content_bytes;
        r = convert_duration(m->timeout, "limits.timeout", &ret->timeout, refusal);
        return r != 0 ? r : convert_duration(m->cpu_time, "limits.cpu_time", &ret->cpu_time, refusal);
}

static int convert_idle(const Glovebox__V1__IdlePolicy *m, struct IdlePolicy *ret, struct Refusal *refusal) {
        int r;

        if (!m)
                return 0;
        ret->evidence = (enum Evidence) m->evidence;
        r = convert_duration(m->timeout, "idle.timeout", &ret->timeout, refusal);
        return r != 0 ? r : convert_duration(m->grace, "idle.grace", &ret->grace, refusal);
}

/* The entries of all maps have one layout. */
static int convert_pairs(size_t n, Glovebox__V1__ExecuteRequest__EnvEntry *const *entries, struct RequestPair **ret) {
        struct RequestPair *pairs;

        if (n == 0)
                return 0;
        pairs = calloc(n, sizeof(*pairs));
        if (!pairs)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                pairs[i] = (struct RequestPair) {.key = entries[i]->key, .value = entries[i]->value};
        *ret = pairs;
        return 0;
}

static_assert(sizeof(Glovebox__V1__ExecuteRequest__EnvEntry) == sizeof(Glovebox__V1__ExecuteRequest__LabelsEntry) &&
                      offsetof(Glovebox__V1__ExecuteRequest__EnvEntry, value) == offsetof(Glovebox__V1__ExecuteRequest__LabelsEntry, value),
              "map entries of strings have one layout");

static int convert_files(size_t n, Glovebox__V1__InputFile *const *in, struct RequestFile **ret) {
        struct RequestFile *files;

        if (n == 0)
                return 0;
        files = calloc(n, sizeof(*files));
        if (!files)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                files[i] = (struct RequestFile) {
                        .path = in[i]->path,
                        .path_size = strlen(in[i]->path),
                        .content = {in[i]->content.data, in[i]->content.len},
                        .executable = in[i]->executable,
                };
        *ret = files;
        return 0;
}

static int backing_new(struct Parcel *p, struct Backing **ret) {
        const Glovebox__V1__ExecuteRequest *m = (const Glovebox__V1__ExecuteRequest *) p->message;
        struct Backing *b = calloc(1, sizeof(*b));
        int r;

        if (!b) {
                parcel_free(p);
                return -ENOMEM;
        }
        b->parcel = p;
        r = convert_pairs(m->n_env, m->env, &b->env);
        if (r == 0)
                r = convert_pairs(m->n_labels, (Glovebox__V1__ExecuteRequest__EnvEntry *const *) m->labels, &b->labels);
        if (r == 0)
                r = convert_files(m->n_files, m->files, &b->files);
        if (r < 0) {
                backing_free(b);
                return r;
        }
        *ret = b;
        return 0;
}

static void request_point_into(struct Request *q, const Glovebox__V1__ExecuteRequest *m, const struct Backing *b) {
        *q = (struct Request) {
                .request_id = m->request_id,
                .runtime = m->runtime,
                .code = {(const uint8_t *) m->code, strlen(m->code)},
                .args = (const char *const *) m->args,
                .n_args = m->n_args,
                .env = b->env,
                .n_env = m->n_env,
                .stdin_bytes = {m->stdin.data, m->stdin.len},
                .files = b->files,
                .n_files = m->n_files,
                .profile = m->profile,
                .idle_set = m->idle,
                .merge_streams = m->merge_streams,
                .detached = m->detached,
                .working_dir = m->working_dir,
                .timezone = m->timezone,
                .labels = b->labels,
                .n_labels = m->n_labels,
                .isolation = m->isolation,
                .contract = (unsigned) m->contract,
                .inputs = {(const uint8_t *) m->inputs_json, strlen(m->inputs_json)},
                .variables = {(const uint8_t *) m->variables_json, strlen(m->variables_json)},
                .import_restrict = m->import_policy && m->import_policy->restrict_,
                .import_allowed = m->import_policy ? (const char *const *) m->import_policy->allowed : NULL,
                .n_import_allowed = m->import_policy ? m->import_policy->n_allowed : 0,
                .collect = (const char *const *) m->collect,
                .n_collect = m->n_collect,
                .charged = b->parcel->charged,
        };
}

int convert_request(struct Parcel *p, struct Request *ret, struct Refusal *refusal) {
        const Glovebox__V1__ExecuteRequest *m = (const Glovebox__V1__ExecuteRequest *) p->message;
        struct Request q;
        struct Backing *b;
        int r;

        if (backing_new(p, &b) < 0)
                return refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "the server has no memory left; try again later");
        request_point_into(&q, m, b);
        q.backing = b;
        q.backing_free = backing_free;
        r = convert_check_built(m, refusal);
        if (r == 0)
                r = convert_limits(m->limits, &q.limits, refusal);
        if (r == 0)
                r = convert_idle(m->idle, &q.idle, refusal);
        if (r == 0)
                r = convert_duration(m->heartbeat_interval, "heartbeat_interval", &q.heartbeat_interval, refusal);
        if (r != 0) {
                request_done(&q);
                return r;
        }
        *ret = q;
        return 0;
}
