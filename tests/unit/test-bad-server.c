/* The real spawner, with a server that behaves badly: silent, in a hurry to cancel, or loud; and a process that cannot be reaped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/unit/fake-server.h"

#define STORM 24
#define IN_THE_MAKING 8 /* what the builder is given at once */

static void test_storm_of_cancels(void **state) {
        pid_t builder = find_child(spawner.pid, "gb-builder");
        assert_true(builder > 0);
        assert_int_equal(kill(builder, SIGSTOP), 0);
        for (int i = 0; i < STORM; i++) {
                send_open("bash", 256 * MIB);
                send_close_cell();
        }
        /* The builder makes nothing now: all that was not begun goes without it. */
        usec_t before = now_monotonic();
        for (int i = 0; i < STORM - IN_THE_MAKING; i++)
                assert_int_equal(next(), CASE(CELL_CLOSED));
        assert_true(now_monotonic() - before < 5 * USEC_PER_SEC);
        assert_int_equal(kill(builder, SIGCONT), 0);
        for (int i = 0; i < IN_THE_MAKING; i++)
                assert_int_equal(next(), CASE(CELL_CLOSED));
        assert_int_equal(count_cell_folders(), 0);
        run_code("bash", "echo honest");
        assert_string_equal(cell.out, "honest\n");
}

static void test_silent_server(void **state) {
        close_fd(spawner.socket);
        int silent = try_connect();
        assert_true(silent >= 0);
        struct pollfd p = {.fd = silent, .events = POLLIN};
        usec_t before = now_monotonic();
        assert_int_equal(poll(&p, 1, 3000), 0); /* a slow one may still speak */
        assert_true(poll(&p, 1, 10000) > 0 && (p.revents & POLLHUP));
        assert_true(now_monotonic() - before < 8 * USEC_PER_SEC);
        close_fd(silent);
        greet();
        poll(NULL, 0, 6000);
        run_code("bash", "echo greeted"); /* silence after Hello is no fault */
        assert_string_equal(cell.out, "greeted\n");
}

/* It dies, and a child of its own goes on to hold its connection. */
static void test_heir_of_a_dead_server(void **state) {
        close_fd(spawner.socket);
        int ready[2], status;
        assert_int_equal(pipe(ready), 0);
        pid_t server = fork(), heir = 0;
        if (server == 0) {
                greet();
                heir = fork();
                if (heir == 0) {
                        sleep(60);
                        _exit(0);
                }
                _exit(write(ready[1], &heir, sizeof heir) == sizeof heir ? 0 : 1);
        }
        assert_int_equal(read(ready[0], &heir, sizeof heir), sizeof heir);
        assert_int_equal(waitpid(server, &status, 0), server);
        poll(NULL, 0, 200);
        greet();
        run_code("bash", "echo successor");
        assert_string_equal(cell.out, "successor\n");
        assert_int_equal(kill(heir, SIGKILL), 0);
        close_fd(ready[0]);
        close_fd(ready[1]);
}

static char state_of(pid_t pid) {
        char path[64], text[512];
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *f = fopen(path, "re");
        if (!f)
                return 0;
        size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = 0;
        char *end = strrchr(text, ')');
        return end ? end[2] : 0;
}

/* A debugger keeps it from being reaped for longer than the spawner waits; once it lets go, the spawner reaps it all the same. */
static void test_process_that_cannot_be_reaped(void **state) {
        start_code("bash", "exec -a held sleep 1000");
        pid_t main_process = 0;
        for (int i = 0; i < 200 && !main_process; i++, poll(NULL, 0, 10))
                main_process = find_child(spawner.pid, "sleep");
        assert_true(main_process > 0);
        assert_int_equal(ptrace(PTRACE_SEIZE, main_process, NULL, NULL), 0);
        send_close_cell();
        next_until(CASE(CELL_CLOSED));
        assert_string_equal(cell.left, "processes that do not die");
        assert_int_equal(state_of(main_process), 'Z');
        assert_int_equal(waitpid(main_process, NULL, __WALL), main_process);
        for (int i = 0; i < 400 && state_of(main_process); i++)
                poll(NULL, 0, 10);
        assert_int_equal(state_of(main_process), 0);
        close_cell_fds();
        run_code("bash", "echo again");
        assert_string_equal(cell.out, "again\n");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_storm_of_cancels),
                cmocka_unit_test(test_silent_server),
                cmocka_unit_test(test_heir_of_a_dead_server),
                cmocka_unit_test(test_process_that_cannot_be_reaped),
        };
        if (geteuid() != 0) {
                puts("[  SKIPPED ] the spawner needs root; run this test as root");
                return 77;
        }
        return cmocka_run_group_tests(tests, fake_server_set_up, fake_server_tear_down);
}
