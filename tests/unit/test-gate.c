/* server/admit/gate.c */
#include "tests/unit/unit.h"

#include "server/admit/gate.h"

static char told[256];

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
        gate_set_bounds(q, running, per_caller, waiting, deadline);
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_caller_does_not_starve_another),
                cmocka_unit_test(a_full_list_is_shared),
                cmocka_unit_test(waiting_has_a_deadline),
                cmocka_unit_test(a_caller_has_a_bound_of_its_own),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
