/* What the server may say: each packet is unpacked and checked here before anything acts on it. What no server sends ends the connection;
 * what is above the caps, or names a runtime that is not here, only fails its cell: after a change of the config one of the two may be ahead
 * of the other. */
#include "spawner/message.h"

#include <math.h>

#include "common/job.h"
#include "common/wire.h"

#define STEP_RUNTIME "runtimes of the spawner"
#define STEP_SLICE "slices of the spawner"

typedef Glovebox__Internal__ToSpawner ToSpawner;

struct Context {
        struct MessageBounds *bounds;
        const struct MessageHandler *handler;
        const char *reason;
};

static int refuse(struct Context *c, const char *reason) {
        c->reason = reason;
        return -EPROTO;
}

/* The fields of CellLimits by the names of limit_table. 1 = one is above the operator's caps, and *ret is not set. */
static int check_limits(struct Context *c, const Glovebox__Internal__CellLimits *m, struct Limits *ret) {
        if (!m)
                return refuse(c, "limits are missing");
        struct Limits l = {
                .memory_bytes = m->memory_bytes,
                .cpus = m->cpus,
                .max_processes = m->max_processes,
                .workspace_bytes = m->workspace_bytes,
                .workspace_inodes = m->workspace_inodes,
        };
        if (!isfinite(m->cpus))
                return refuse(c, "limit cpus is not a number");
        static const size_t offsets[] = {
                offsetof(struct Limits, memory_bytes),    offsetof(struct Limits, cpus),             offsetof(struct Limits, max_processes),
                offsetof(struct Limits, workspace_bytes), offsetof(struct Limits, workspace_inodes),
        };
        bool above = false;
        for (const struct LimitInfo *i = limit_table; i->field; i++) {
                bool shapes_cell = false;
                for (size_t k = 0; k < ELEMENTSOF(offsets); k++)
                        shapes_cell |= offsets[k] == i->offset;
                if (!shapes_cell)
                        continue;
                double value = limit_get(&l, i);
                if (!(value >= i->minimum))
                        return refuse(c, i->field);
                above |= value > limit_get(&c->bounds->caps, i);
        }
        if (above)
                return 1;
        *ret = l;
        return 0;
}

static int on_hello(struct Context *c, const ToSpawner *m) {
        if (c->bounds->greeted)
                return refuse(c, "a second Hello");
        if (m->hello->protocol != WIRE_PROTOCOL)
                return refuse(c, "another version of the protocol");
        c->bounds->greeted = true;
        return c->handler->hello(c->handler->userdata);
}

static const struct CellKind *kind_by_name(const char *name) {
        static const struct CellKind *const kinds[] = {&native_kind};
        if (isempty(name))
                return kinds[0];
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (streq(kinds[i]->name, name))
                        return kinds[i];
        return NULL;
}

/* It goes into the log, where it must not look like a line of its own. */
static bool is_tag(const char *s) {
        if (strlen(s) > CELL_TAG_MAX || !utf8_is_valid(s, strlen(s)))
                return false;
        for (const unsigned char *p = (const unsigned char *) s; *p; p++) {
                bool c1 = p[0] == 0xc2 && p[1] < 0xa0;                           /* U+0080 to U+009F: terminals obey them, too */
                bool separator = p[0] == 0xe2 && p[1] == 0x80 && (p[2] & 0xfe) == 0xa8; /* U+2028, U+2029 */
                if (*p < 0x20 || *p == 0x7f || c1 || separator)
                        return false;
        }
        return true;
}

static int open_cell(struct Context *c, const Glovebox__Internal__OpenCell *o) {
        const struct Runtime *runtime = isempty(o->runtime) ? NULL : config_runtime(c->bounds->config, o->runtime);
        struct CellSpec spec = {.id = o->cell, .kind = kind_by_name(o->kind), .tag = o->tag};
        if (!spec.kind)
                return refuse(c, "an unknown kind of cell");
        if (!is_tag(o->tag))
                return refuse(c, "tag");
        int r = check_limits(c, o->limits, &spec.limits);
        if (r < 0)
                return r;
        if (!runtime)
                return c->handler->refuse_cell(c->handler->userdata, o->cell, -ENOENT, STEP_RUNTIME);
        if (r > 0)
                return c->handler->refuse_cell(c->handler->userdata, o->cell, -ERANGE, STEP_CAPS);
        spec.slice = isempty(o->slice) ? NULL : config_slice(c->bounds->config, o->slice);
        if (!spec.slice && !isempty(o->slice))
                return c->handler->refuse_cell(c->handler->userdata, o->cell, -ENOENT, STEP_SLICE);
        spec.runtime = (unsigned) (runtime - c->bounds->config->runtimes);
        spec.aside = o->run && o->run->probe_version;
        return c->handler->open_cell(c->handler->userdata, &spec);
}

static int start_run(struct Context *c, const Glovebox__Internal__StartRun *s) {
        struct RunSpec run = {.number = s->run, .merge_streams = s->merge_streams, .probe_version = s->probe_version, .fresh = s->fresh};
        run.job = s->job.data;
        run.job_size = s->job.len;
        if (s->job.len > JOB_BODY_MAX)
                return refuse(c, "a job that is too long");
        int r = check_limits(c, s->limits, &run.limits);
        if (r > 0)
                return c->handler->refuse_run(c->handler->userdata, s->cell, -ERANGE, STEP_CAPS);
        return r < 0 ? r : c->handler->start_run(c->handler->userdata, s->cell, &run);
}

static int on_open_cell(struct Context *c, const ToSpawner *m) {
        const Glovebox__Internal__StartRun *run = m->open_cell->run;
        if (run && run->cell != m->open_cell->cell)
                return refuse(c, "a run of another cell");
        int r = open_cell(c, m->open_cell);
        return r < 0 || !run ? r : start_run(c, run);
}

static int on_start_run(struct Context *c, const ToSpawner *m) {
        return start_run(c, m->start_run);
}

static int on_end_run(struct Context *c, const ToSpawner *m) {
        return c->handler->end_run(c->handler->userdata, m->end_run->cell, m->end_run->run);
}

static int on_ask_waiting(struct Context *c, const ToSpawner *m) {
        return c->handler->ask_waiting(c->handler->userdata, m->ask_waiting->cell, m->ask_waiting->run);
}

static int on_main_over(struct Context *c, const ToSpawner *m) {
        if (m->main_over->status > UINT8_MAX)
                return refuse(c, "an exit status above 255");
        return c->handler->main_over(c->handler->userdata, m->main_over->cell, m->main_over->run, (uint8_t) m->main_over->status);
}

static int on_close_cell(struct Context *c, const ToSpawner *m) {
        return c->handler->close_cell(c->handler->userdata, m->close_cell->cell);
}

static const struct {
        Glovebox__Internal__ToSpawner__MessageCase type;
        int (*handle)(struct Context *c, const ToSpawner *m);
} handlers[] = {
        {GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_HELLO, on_hello},
        {GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_OPEN_CELL, on_open_cell},
        {GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_START_RUN, on_start_run},
        {GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_END_RUN, on_end_run},
        {GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_ASK_WAITING, on_ask_waiting},
        {GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_MAIN_OVER, on_main_over},
        {GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_CLOSE_CELL, on_close_cell},
};

static int dispatch(struct Context *c, const ToSpawner *m) {
        if (!c->bounds->greeted && m->message_case != GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_HELLO)
                return refuse(c, "no Hello first");
        for (size_t i = 0; i < ELEMENTSOF(handlers); i++)
                if (handlers[i].type == m->message_case)
                        return handlers[i].handle(c, m);
        return refuse(c, "an unknown message");
}

int message_handle(struct MessageBounds *bounds, const uint8_t *bytes, size_t size, size_t n_fds, const struct MessageHandler *handler,
                   const char **ret_reason) {
        struct Context c = {.bounds = bounds, .handler = handler, .reason = "it came at the wrong time"};
        ProtobufCMessage *m = wire_unpack(&glovebox__internal__to_spawner__descriptor, bytes, size);
        int r;
        if (!m)
                r = refuse(&c, "it cannot be decoded");
        else if (n_fds > 0 || ((ToSpawner *) m)->n_roles > 0)
                r = refuse(&c, "it brings descriptors"); /* the server has none to give */
        else
                r = dispatch(&c, (ToSpawner *) m);
        if (m)
                protobuf_c_message_free_unpacked(m, NULL);
        if (r < 0)
                *ret_reason = c.reason;
        return r;
}
