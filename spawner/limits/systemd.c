/* PID 1 over the system bus: starts and stops units, and tells what happens to them. */
#include "spawner/limits/systemd.h"

#include <stdio.h>
#include <systemd/sd-bus.h>

#include "common/log.h"

#define NAME "org.freedesktop.systemd1"
#define PATH "/org/freedesktop/systemd1"
#define INTERFACE NAME ".Manager"
#define BUS_NAME "org.freedesktop.DBus"

/* Of a call that nobody waits for any longer: then the list of units tells. Far above what PID 1 takes when it is busy. */
#define CALL_TIME (25 * USEC_PER_SEC)
/* Of what comes before any call: a bus that accepts and says nothing is left, and tried again. */
#define HELLO_TIME (5 * USEC_PER_SEC)
/* A reload takes a second or less; one whose end is not told is over by then. */
#define RELOAD_TIME (15 * USEC_PER_SEC)
#define BACKOFF_MIN (50 * USEC_PER_MSEC)
#define BACKOFF_MAX (2 * USEC_PER_SEC)
#define STOP_TIME (2 * USEC_PER_SEC)

struct Manager {
        sd_event *event;
        struct ManagerHandler handler;
        sd_bus *bus;
        sd_bus_slot *subscribe, *list;
        bool is_ready, is_reloading;
        int error;
        usec_t backoff;
        sd_event_source *retry;       /* connects again */
        sd_event_source *reload_over; /* deadline of a reload */
        TAILQ_HEAD(Calls, ManagerCall) calls;
};

static void manager_drop(struct Manager *m, int error);
static int manager_connect(struct Manager *m);
static void manager_retry(struct Manager *m, usec_t time);

/* Errors of the bus that say nothing about the unit: PID 1 is on its way in or out, or does not answer. */
static bool is_passing(const sd_bus_error *e) {
        static const char *const names[] = {
                SD_BUS_ERROR_NO_REPLY,      SD_BUS_ERROR_TIMEOUT,           SD_BUS_ERROR_SERVICE_UNKNOWN,
                SD_BUS_ERROR_DISCONNECTED,  SD_BUS_ERROR_NAME_HAS_NO_OWNER, SD_BUS_ERROR_LIMITS_EXCEEDED,
                BUS_NAME ".Error.TimedOut", BUS_NAME ".Error.Spawn.ChildExited",
        };
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (sd_bus_error_has_name(e, names[i]))
                        return true;
        return sd_bus_error_get_errno(e) == ETIMEDOUT || sd_bus_error_get_errno(e) == ECONNRESET;
}

static int answer_of(sd_bus_message *reply) {
        const sd_bus_error *e = sd_bus_message_get_error(reply);
        if (!e)
                return 0;
        if (is_passing(e))
                return MANAGER_LOST;
        if (sd_bus_error_has_name(e, NAME ".UnitExists"))
                return MANAGER_EXISTS;
        if (sd_bus_error_has_name(e, NAME ".NoSuchUnit"))
                return MANAGER_NOT_THERE;
        int error = sd_bus_error_get_errno(e);
        return error > 0 ? -error : -EIO;
}

static void call_finish(struct ManagerCall *c, int answer, const char *words) {
        manager_forget(c);
        c->on_answer(c, answer, words);
}

static int call_on_reply(sd_bus_message *reply, void *userdata, sd_bus_error *unused) {
        const sd_bus_error *e = sd_bus_message_get_error(reply);
        call_finish(userdata, answer_of(reply), e ? strempty(e->message) : "");
        return 0;
}

void manager_forget(struct ManagerCall *c) {
        if (!c->slot)
                return;
        c->slot = sd_bus_slot_unref(c->slot);
        TAILQ_REMOVE(&c->manager->calls, c, entry);
}

/* The message stays the caller's. */
static int call_send(struct Manager *m, struct ManagerCall *c, sd_bus_message *message) {
        sd_bus_slot *slot;
        int r = sd_bus_call_async(m->bus, &slot, message, call_on_reply, c, CALL_TIME);
        if (r < 0) {
                /* It is closing, and answers its calls one by one before it says so. */
                m->is_ready = false;
                manager_retry(m, 0);
                return -ENOTCONN;
        }
        c->manager = m;
        c->slot = slot;
        TAILQ_INSERT_TAIL(&m->calls, c, entry);
        return 0;
}

static int message_new(struct Manager *m, const char *member, sd_bus_message **ret) {
        if (!m->is_ready)
                return -ENOTCONN;
        return sd_bus_message_new_method_call(m->bus, ret, NAME, PATH, INTERFACE, member);
}

/* Properties of units. */

static int append_ceilings(sd_bus_message *m, const struct Ceilings *p) {
        int r = 0;
        if (p->memory_bytes)
                r = sd_bus_message_append(m, "(sv)(sv)", "MemoryMax", "t", p->memory_bytes, "MemorySwapMax", "t", UINT64_C(0));
        if (r >= 0 && p->processes)
                r = sd_bus_message_append(m, "(sv)", "TasksMax", "t", p->processes);
        if (r >= 0 && p->cpus > 0)
                r = sd_bus_message_append(m, "(sv)", "CPUQuotaPerSecUSec", "t", (uint64_t) (p->cpus * (double) USEC_PER_SEC));
        return r;
}

static int append_accounting(sd_bus_message *m) {
        return sd_bus_message_append(m, "(sv)(sv)(sv)(sv)", "CPUAccounting", "b", 1, "MemoryAccounting", "b", 1, "TasksAccounting", "b", 1,
                                     "IOAccounting", "b", 1);
}

/* SIGKILL at once: code in a cell gets no last word, and could ignore any other signal. OOMPolicy: one run out of memory is no reason to
 * stop the scope. CollectMode: a scope that failed is forgotten like any other, or they would pile up in PID 1. */
static int append_scope(sd_bus_message *m, const struct UnitPlan *p) {
        int r = sd_bus_message_append(m, "(sv)(sv)(sv)", "PIDs", "au", 1, (uint32_t) p->pid, "Delegate", "b", p->is_delegated, "OOMPolicy", "s",
                                      "continue");
        if (r >= 0 && p->slice)
                r = sd_bus_message_append(m, "(sv)", "Slice", "s", p->slice);
        if (r >= 0 && !p->is_mild)
                r = sd_bus_message_append(m, "(sv)(sv)", "KillSignal", "i", 9, "TimeoutStopUSec", "t", STOP_TIME);
        return r;
}

static int append_properties(sd_bus_message *m, const struct UnitPlan *p) {
        int r = sd_bus_message_append(m, "(sv)(sv)", "Description", "s", p->description, "CollectMode", "s", "inactive-or-failed");
        /* BindsTo: it goes with what it belongs to, however that ended. PartOf= and Requires= would not see a kill -9. No After=: a service
         * that is still starting, and makes its first cells to attack the wall, would be waited for, and would wait for its scope. */
        if (r >= 0 && p->bound)
                r = sd_bus_message_append(m, "(sv)", "BindsTo", "as", 1, p->bound);
        if (r >= 0 && p->is_for_others)
                r = sd_bus_message_append(m, "(sv)", "StopWhenUnneeded", "b", 1);
        if (r >= 0)
                r = append_ceilings(m, &p->ceilings);
        if (r >= 0)
                r = append_accounting(m);
        if (r >= 0 && p->pid)
                r = append_scope(m, p);
        return r;
}

/* A name that is taken is an error, never somebody else's unit. "fail": so is a job that would undo another. "ignore-dependencies": a scope of a cell
 * is ordered before the server, so that it stops after it; but whatever stops goes first, and its start would wait for the end of a server that lets
 * executions end and waits for this very scope; so would that of its slice, which is bound to a spawner that is to stop after the server. */
int manager_start_unit(struct Manager *m, struct ManagerCall *c, const struct UnitPlan *plan) {
        sd_bus_message *message = NULL;
        int r = message_new(m, "StartTransientUnit", &message);
        if (r >= 0)
                r = sd_bus_message_append(message, "ss", plan->name, plan->is_at_once ? "ignore-dependencies" : "fail");
        if (r >= 0)
                r = sd_bus_message_open_container(message, 'a', "(sv)");
        if (r >= 0)
                r = append_properties(message, plan);
        if (r >= 0)
                r = sd_bus_message_close_container(message);
        if (r >= 0)
                r = sd_bus_message_append(message, "a(sa(sv))", 0);
        if (r >= 0)
                r = call_send(m, c, message);
        sd_bus_message_unref(message);
        return r;
}

int manager_set_ceilings(struct Manager *m, struct ManagerCall *c, const char *unit, const struct Ceilings *ceilings) {
        sd_bus_message *message = NULL;
        int r = message_new(m, "SetUnitProperties", &message);
        if (r >= 0)
                r = sd_bus_message_append(message, "sb", unit, 1); /* 1: not for later units of this name */
        if (r >= 0)
                r = sd_bus_message_open_container(message, 'a', "(sv)");
        if (r >= 0)
                r = append_ceilings(message, ceilings);
        if (r >= 0)
                r = sd_bus_message_close_container(message);
        if (r >= 0)
                r = call_send(m, c, message);
        sd_bus_message_unref(message);
        return r;
}

static int stop_message(struct Manager *m, const char *unit, sd_bus_message **ret) {
        int r = message_new(m, "StopUnit", ret);
        return r < 0 ? r : sd_bus_message_append(*ret, "ss", unit, "replace");
}

int manager_stop_unit(struct Manager *m, struct ManagerCall *c, const char *unit) {
        sd_bus_message *message = NULL;
        int r = stop_message(m, unit, &message);
        if (r >= 0)
                r = call_send(m, c, message);
        sd_bus_message_unref(message);
        return r;
}

int manager_stop_now(struct Manager *m, const char *unit, usec_t time) {
        sd_bus_message *message = NULL;
        int r = stop_message(m, unit, &message);
        if (r >= 0)
                r = sd_bus_call(m->bus, message, time, NULL, NULL);
        sd_bus_message_unref(message);
        return MIN(r, 0);
}

/* The list of units. */

static int read_unit(struct Manager *m, sd_bus_message *reply) {
        const char *name, *active;
        uint32_t job;
        int r = sd_bus_message_read(reply, "(ssssssouso)", &name, NULL, NULL, &active, NULL, NULL, NULL, &job, NULL, NULL);
        if (r > 0)
                m->handler.on_unit(name, streq(active, "active"), job == 0, m->handler.userdata);
        return r;
}

static int manager_on_list(sd_bus_message *reply, void *userdata, sd_bus_error *unused) {
        struct Manager *m = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(reply);
        m->list = sd_bus_slot_unref(m->list);
        int r = e ? -EIO : sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");
        while (r > 0)
                r = read_unit(m, reply);
        if (e)
                log_warning("PID 1 did not list its units: %s", strempty(e->message));
        m->handler.on_listed(MIN(r, 0), m->handler.userdata);
        return 0;
}

int manager_list(struct Manager *m, const char *pattern) {
        sd_bus_message *message = NULL;
        int r = m->list ? -EBUSY : message_new(m, "ListUnitsByPatterns", &message);
        if (r >= 0)
                r = sd_bus_message_append(message, "asas", 0, 1, pattern);
        if (r >= 0)
                r = sd_bus_call_async(m->bus, &m->list, message, manager_on_list, m, CALL_TIME);
        sd_bus_message_unref(message);
        return r;
}

/* What PID 1 says by itself. */

static int manager_on_job(sd_bus_message *message, void *userdata, sd_bus_error *unused) {
        struct Manager *m = userdata;
        const char *unit, *result;
        if (sd_bus_message_read(message, "uoss", NULL, NULL, &unit, &result) >= 0)
                m->handler.on_job(unit, result, m->handler.userdata);
        return 0;
}

static int manager_on_removed(sd_bus_message *message, void *userdata, sd_bus_error *unused) {
        struct Manager *m = userdata;
        const char *unit;
        if (!m->is_reloading && sd_bus_message_read(message, "so", &unit, NULL) >= 0)
                m->handler.on_removed(unit, m->handler.userdata);
        return 0;
}

static void manager_reloaded(struct Manager *m) {
        m->is_reloading = false;
        m->reload_over = sd_event_source_disable_unref(m->reload_over);
        if (m->is_ready)
                m->handler.on_ready(m->handler.userdata);
}

static int manager_on_reload_over(sd_event_source *s, uint64_t usec, void *userdata) {
        log_warning("PID 1 began to reload and did not say that it has ended.");
        manager_reloaded(userdata);
        return 0;
}

/* From true to false PID 1 tells of every unit that it was removed. */
static int manager_on_reloading(sd_bus_message *message, void *userdata, sd_bus_error *unused) {
        struct Manager *m = userdata;
        int begins;
        if (sd_bus_message_read(message, "b", &begins) < 0)
                return 0;
        if (!begins) {
                manager_reloaded(m);
                return 0;
        }
        m->is_reloading = true;
        m->reload_over = sd_event_source_disable_unref(m->reload_over);
        if (sd_event_add_time_relative(m->event, &m->reload_over, CLOCK_MONOTONIC, RELOAD_TIME, 0, manager_on_reload_over, m) < 0)
                manager_drop(m, -ENOMEM);
        return 0;
}

static int manager_subscribe(struct Manager *m);

/* daemon-reexec: PID 1 has a new connection, which may have forgotten us. */
static int manager_on_owner(sd_bus_message *message, void *userdata, sd_bus_error *unused) {
        struct Manager *m = userdata;
        const char *is;
        if (sd_bus_message_read(message, "sss", NULL, NULL, &is) < 0 || isempty(is))
                return 0;
        int r = manager_subscribe(m);
        if (r < 0)
                manager_drop(m, r);
        return 0;
}

static int manager_on_subscribed(sd_bus_message *reply, void *userdata, sd_bus_error *unused) {
        struct Manager *m = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(reply);
        m->subscribe = sd_bus_slot_unref(m->subscribe);
        if (e && !sd_bus_error_has_name(e, NAME ".AlreadySubscribed")) {
                manager_drop(m, -sd_bus_error_get_errno(e));
                return 0;
        }
        m->is_ready = true;
        m->backoff = BACKOFF_MIN;
        m->error = 0;
        m->handler.on_ready(m->handler.userdata);
        return 0;
}

static int manager_subscribe(struct Manager *m) {
        sd_bus_message *message = NULL;
        m->subscribe = sd_bus_slot_unref(m->subscribe);
        int r = sd_bus_message_new_method_call(m->bus, &message, NAME, PATH, INTERFACE, "Subscribe");
        if (r >= 0)
                r = sd_bus_call_async(m->bus, &m->subscribe, message, manager_on_subscribed, m, HELLO_TIME);
        sd_bus_message_unref(message);
        return r;
}

/* Only PID 1's own: anybody may send signals of this form. */
static int manager_match(struct Manager *m) {
        static const struct {
                const char *member;
                sd_bus_message_handler_t handler;
        } signals[] = {
                {"JobRemoved", manager_on_job},
                {"UnitRemoved", manager_on_removed},
                {"Reloading", manager_on_reloading},
        };
        for (size_t i = 0; i < ELEMENTSOF(signals); i++) {
                int r = sd_bus_match_signal_async(m->bus, NULL, NAME, PATH, INTERFACE, signals[i].member, signals[i].handler, NULL, m);
                if (r < 0)
                        return r;
        }
        return sd_bus_add_match_async(m->bus, NULL, "type='signal',sender='" BUS_NAME "',path='/org/freedesktop/DBus',interface='" BUS_NAME
                                      "',member='NameOwnerChanged',arg0='" NAME "'", manager_on_owner, NULL, m);
}

/* The connection. */

static int manager_on_disconnect(sd_bus_message *message, void *userdata, sd_bus_error *unused) {
        struct Manager *m = userdata;
        log_warning("The connection with the system bus is lost; it is tried again.");
        manager_drop(m, -ECONNRESET);
        return 0;
}

static int manager_on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        struct Manager *m = userdata;
        m->retry = sd_event_source_disable_unref(m->retry);
        int r = m->bus ? -ENOTCONN : manager_connect(m);
        if (r < 0)
                manager_drop(m, r);
        return 0;
}

static void manager_retry(struct Manager *m, usec_t time) {
        m->retry = sd_event_source_disable_unref(m->retry);
        int r = sd_event_add_time_relative(m->event, &m->retry, CLOCK_MONOTONIC, time, 0, manager_on_retry, m);
        if (r < 0)
                sd_event_exit(m->event, log_error_errno(r, "Failed to plan a new connection with the system bus, giving up: %m"));
}

static void manager_drop(struct Manager *m, int error) {
        m->is_ready = m->is_reloading = false;
        m->error = error;
        m->reload_over = sd_event_source_disable_unref(m->reload_over);
        m->subscribe = sd_bus_slot_unref(m->subscribe);
        if (m->bus) {
                sd_bus_detach_event(m->bus);
                sd_bus_close(m->bus);
        }
        if (m->list) {
                m->list = sd_bus_slot_unref(m->list);
                m->handler.on_listed(-ECONNRESET, m->handler.userdata);
        }
        struct ManagerCall *c;
        while ((c = TAILQ_FIRST(&m->calls)))
                call_finish(c, MANAGER_LOST, "the connection with the system bus is lost");
        m->bus = sd_bus_unref(m->bus);
        manager_retry(m, m->backoff);
        m->backoff = MIN(2 * m->backoff, BACKOFF_MAX);
}

static int manager_connect(struct Manager *m) {
        int r = sd_bus_open_system(&m->bus);
        if (r >= 0)
                r = sd_bus_match_signal_async(m->bus, NULL, NULL, "/org/freedesktop/DBus/Local", BUS_NAME ".Local", "Disconnected",
                                              manager_on_disconnect, NULL, m);
        if (r >= 0)
                r = manager_match(m);
        if (r >= 0)
                r = manager_subscribe(m);
        return r < 0 ? r : sd_bus_attach_event(m->bus, m->event, SD_EVENT_PRIORITY_NORMAL);
}

int manager_probe(void) {
        sd_bus *bus = NULL;
        int r = sd_bus_open_system(&bus);
        sd_bus_close_unref(bus);
        return MIN(r, 0);
}

int manager_new(sd_event *event, const struct ManagerHandler *handler, struct Manager **ret) {
        struct Manager *m _cleanup_(manager_freep) = calloc(1, sizeof *m);
        if (!m)
                return -ENOMEM;
        *m = (struct Manager) {.event = event, .handler = *handler, .backoff = BACKOFF_MIN};
        TAILQ_INIT(&m->calls);
        int r = manager_connect(m);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

struct Manager *manager_free(struct Manager *m) {
        if (!m)
                return NULL;
        struct ManagerCall *c;
        while ((c = TAILQ_FIRST(&m->calls)))
                manager_forget(c);
        sd_bus_slot_unref(m->subscribe);
        sd_bus_slot_unref(m->list);
        sd_event_source_disable_unref(m->retry);
        sd_event_source_disable_unref(m->reload_over);
        if (m->bus)
                sd_bus_detach_event(m->bus);
        sd_bus_close_unref(m->bus);
        free(m);
        return NULL;
}

bool manager_is_ready(const struct Manager *m) {
        return m->is_ready;
}

int manager_error(const struct Manager *m) {
        return m->error;
}

bool manager_is_reloading(const struct Manager *m) {
        return m->is_reloading;
}
