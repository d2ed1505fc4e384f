/* server/admit/gate.c */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "server/admit/gate.h"

static char told[256], reason[512];
static struct Config config;

struct Guest {
        struct Ticket ticket;
        char name;
};

static void on_turn(void *userdata) {
        struct Guest *g = userdata;
        told[strlen(told)] = g->name;
}

static void on_refused(const struct Refusal *refusal, void *userdata) {
        struct Guest *g = userdata;
        assert_int_equal(refusal->code, REFUSE_RESOURCE_EXHAUSTED);
        assert_true(refusal->retry_after > 0);
        (void) snprintf(reason, sizeof reason, "%s", refusal->message);
        told[strlen(told)] = (char) (g->name - 'a' + 'A');
}

static int enter(struct Gate *q, const char *caller, struct Guest *g, char name) {
        struct Refusal refusal;
        *g = (struct Guest) { .ticket = { .on_turn = on_turn, .on_refused = on_refused, .userdata = g }, .name = name };
        return gate_enter(q, caller, &g->ticket, &refusal);
}

static void start(struct Gate *q, sd_event **event, uint64_t running, uint64_t per_caller, uint64_t waiting, usec_t deadline) {
        memset(told, 0, sizeof told);
        assert_true(sd_event_new(event) >= 0);
        assert_true(gate_init(q, *event) >= 0);
        config = (struct Config) { .max_executions_per_caller = per_caller, .max_waiting = waiting, .wait_deadline = deadline };
        gate_set_bounds(q, &config, running);
}

static void run(sd_event *event) {
        while (sd_event_run(event, 0) > 0)
                ;
}

static void one_caller_does_not_starve_another(void **state) {
        struct Guest g[8];
        struct Gate q;
        sd_event *event;

        start(&q, &event, 1, 0, 10, USEC_PER_SEC * 10);
        assert_int_equal(enter(&q, "greedy", &g[0], 'a'), 0);
        assert_int_equal(enter(&q, "greedy", &g[1], 'b'), TICKET_WAITING);
        assert_int_equal(enter(&q, "greedy", &g[2], 'c'), TICKET_WAITING);
        assert_int_equal(enter(&q, "greedy", &g[3], 'd'), TICKET_WAITING);
        assert_int_equal(enter(&q, "modest", &g[4], 'e'), TICKET_WAITING);
        for (int i = 0; i < 4; i++) {
                for (size_t k = 0; k < 5; k++)
                        if (g[k].ticket.state == TICKET_RUNNING) {
                                gate_leave(&q, &g[k].ticket);
                                break;
                        }
                run(event);
        }
        assert_string_equal(told, "becd");
        assert_int_equal(q.running, 1);
        gate_done(&q);
        sd_event_unref(event);
}

static void a_full_list_is_shared(void **state) {
        struct Guest g[8];
        struct Gate q;
        sd_event *event;

        start(&q, &event, 1, 0, 3, USEC_PER_SEC * 10);
        assert_int_equal(enter(&q, "greedy", &g[0], 'a'), 0);
        for (int i = 1; i <= 3; i++)
                assert_int_equal(enter(&q, "greedy", &g[i], (char) ('a' + i)), TICKET_WAITING);
        assert_int_equal(enter(&q, "greedy", &g[4], 'e'), REFUSE_RESOURCE_EXHAUSTED);
        assert_int_equal(enter(&q, "modest", &g[5], 'f'), TICKET_WAITING);
        assert_string_equal(told, "D"); /* the newest of the greedy one made way */
        assert_int_equal(enter(&q, "modest", &g[6], 'g'), REFUSE_RESOURCE_EXHAUSTED);
        assert_int_equal(q.waiting, 3);
        gate_done(&q);
        sd_event_unref(event);
}

static void waiting_has_a_deadline(void **state) {
        struct Guest g[2];
        struct Gate q;
        sd_event *event;

        start(&q, &event, 1, 0, 3, 20 * USEC_PER_MSEC);
        assert_int_equal(enter(&q, "x", &g[0], 'a'), 0);
        assert_int_equal(enter(&q, "x", &g[1], 'b'), TICKET_WAITING);
        run(event);
        assert_string_equal(told, "");
        assert_true(sd_event_run(event, USEC_PER_SEC) > 0);
        assert_string_equal(told, "B");
        assert_int_equal(q.waiting, 0);
        gate_leave(&q, &g[1].ticket); /* any state */
        assert_int_equal(q.running, 1);
        gate_done(&q);
        sd_event_unref(event);
}

static void a_caller_has_a_bound_of_its_own(void **state) {
        struct Guest g[4];
        struct Gate q;
        sd_event *event;

        start(&q, &event, 10, 2, 10, USEC_PER_SEC * 10);
        assert_int_equal(enter(&q, "x", &g[0], 'a'), 0);
        assert_int_equal(enter(&q, "x", &g[1], 'b'), 0);
        assert_int_equal(enter(&q, "x", &g[2], 'c'), TICKET_WAITING);
        run(event);
        assert_int_equal(enter(&q, "y", &g[3], 'd'), TICKET_WAITING);
        run(event);
        assert_string_equal(told, "d"); /* others go past the one that waits for its own */
        gate_leave(&q, &g[0].ticket);
        run(event);
        assert_string_equal(told, "dc");
        gate_done(&q);
        sd_event_unref(event);
}

static int enter_with(struct Gate *q, const char *caller, struct Guest *g, char name, uint64_t memory, double cpus, struct Refusal *refusal) {
        *g = (struct Guest) { .ticket = { .charge = { .memory_bytes = memory, .cpus = cpus, .timeout = USEC_PER_SEC },
                                          .on_turn = on_turn, .on_refused = on_refused, .userdata = g },
                              .name = name };
        return gate_enter(q, caller, &g->ticket, refusal);
}

static void a_callers_sums_are_bounded(void **state) {
        struct CallerRule rules[] = {
                { .name = (char *) "uid:7", .together = { .memory_bytes = 100, .cpus = 0.3 } },
                { .name = (char *) "*", .together = { .memory_bytes = 50 } },
        };
        struct Refusal refusal;
        struct Guest g[8];
        struct Gate q;
        sd_event *event;

        start(&q, &event, 10, 0, 10, USEC_PER_SEC * 10);
        config.callers = rules;
        config.n_callers = 2;
        assert_int_equal(enter_with(&q, "uid:7", &g[0], 'a', 101, 0, &refusal), REFUSE_INVALID_ARGUMENT);
        assert_string_equal(refusal.field, "limits.memory_bytes");
        assert_non_null(strstr(refusal.message, "101 bytes is above the 100 bytes"));
        assert_null(q.lines);
        assert_int_equal(enter_with(&q, "uid:7", &g[0], 'a', 40, 0.1, &refusal), 0);
        assert_int_equal(enter_with(&q, "uid:7", &g[1], 'b', 10, 0.1, &refusal), 0);
        assert_int_equal(enter_with(&q, "uid:7", &g[2], 'c', 10, 0.1, &refusal), 0); /* 0.1 three times is 0.3 */
        assert_int_equal(enter_with(&q, "uid:7", &g[3], 'd', 10, 0.01, &refusal), TICKET_WAITING);
        assert_int_equal(enter_with(&q, "uid:8", &g[4], 'e', 50, 9, &refusal), TICKET_WAITING);
        assert_int_equal(enter_with(&q, "uid:9", &g[5], 'f', 50, 9, &refusal), TICKET_WAITING); /* each of "*" for himself */
        run(event);
        assert_string_equal(told, "ef");
        gate_leave(&q, &g[1].ticket);
        run(event);
        assert_string_equal(told, "efd");
        rules[0].together.memory_bytes = 61; /* as a reload does */
        gate_set_bounds(&q, &config, 10);
        assert_int_equal(enter_with(&q, "uid:7", &g[6], 'g', 2, 0.01, &refusal), TICKET_WAITING);
        run(event);
        assert_string_equal(told, "efd");
        rules[0].together.memory_bytes = 62;
        gate_set_bounds(&q, &config, 10);
        run(event);
        assert_string_equal(told, "efdg");
        gate_done(&q);
        sd_event_unref(event);
}

static void a_named_caller_has_more_places_than_others(void **state) {
        struct CallerRule rule = { .name = (char *) "cert:big", .max_executions = 2 };
        struct Guest g[5];
        struct Gate q;
        sd_event *event;

        start(&q, &event, 10, 1, 10, 20 * USEC_PER_MSEC);
        config.callers = &rule;
        config.n_callers = 1;
        assert_int_equal(enter(&q, "cert:big", &g[0], 'a'), 0);
        assert_int_equal(enter(&q, "cert:big", &g[1], 'b'), 0);
        assert_int_equal(enter(&q, "small", &g[2], 'c'), 0);
        assert_int_equal(enter(&q, "small", &g[3], 'd'), TICKET_WAITING);
        assert_int_equal(enter(&q, "cert:big", &g[4], 'e'), TICKET_WAITING);
        run(event);
        assert_string_equal(told, "");
        for (int i = 0; i < 10 && strlen(told) < 2; i++)
                assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
        assert_non_null(strstr(reason, "all the max-executions that you may have"));
        gate_done(&q);
        sd_event_unref(event);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_caller_does_not_starve_another),
                cmocka_unit_test(a_full_list_is_shared),
                cmocka_unit_test(waiting_has_a_deadline),
                cmocka_unit_test(a_caller_has_a_bound_of_its_own),
                cmocka_unit_test(a_callers_sums_are_bounded),
                cmocka_unit_test(a_named_caller_has_more_places_than_others),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
