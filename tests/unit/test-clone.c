/* spawner/clone.c: a child that stands in for its parent until it ends or executes a program. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spawner/clone.h"

static struct CloneStack stack, inner_stack;

struct Told {
        pid_t child, grandchild, ended;
        char text[8192];
};

static struct Told *told;

static int status_of(pid_t pid) {
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static int setup(void **state) {
        told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return told == MAP_FAILED ? -1 : 0;
}

/* More than a red zone or a page of the stack. */
static void tell(void *userdata) {
        char copy[sizeof told->text];
        memset(copy, *(const char *) userdata, sizeof copy);
        memcpy(told->text, copy, sizeof copy);
        told->child = getpid();
        _exit(7);
}

static void test_child(void **state) {
        for (char c = 'a'; c <= 'z'; c++) {
                struct clone_args args = {.exit_signal = SIGCHLD};
                uint64_t ours[16];
                memset(ours, c, sizeof ours);
                pid_t pid = clone_and_wait(&args, &stack, tell, &c);
                assert_true(pid > 0);
                assert_int_equal(told->child, pid); /* without having waited */
                assert_int_equal(told->text[sizeof told->text - 1], c);
                assert_int_equal(WEXITSTATUS(status_of(pid)), 7);
                for (size_t i = 0; i < sizeof ours; i++)
                        assert_int_equal(((char *) ours)[i], c);
        }
}

static void become_true(void *userdata) {
        execl("/bin/true", "true", NULL);
        _exit(1);
}

static void clone_sibling(void *userdata) {
        struct clone_args args = {.flags = CLONE_PARENT};
        told->grandchild = clone_and_wait(&args, &inner_stack, become_true, NULL);
        _exit(0);
}

/* As the builder does: the second one is our child, too. */
static void test_sibling(void **state) {
        struct clone_args args = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
        pid_t pid = clone_and_wait(&args, &stack, clone_sibling, NULL);
        assert_true(pid > 0 && told->grandchild > 0 && told->grandchild != pid);
        assert_int_equal(status_of(pid), 0);
        assert_int_equal(status_of(told->grandchild), 0);
}

static void test_refused(void **state) {
        struct clone_args args = {.flags = CLONE_THREAD, .exit_signal = SIGCHLD};
        errno = 0;
        assert_int_equal(clone_and_wait(&args, &stack, tell, NULL), -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_child),
                cmocka_unit_test(test_sibling),
                cmocka_unit_test(test_refused),
        };
        return cmocka_run_group_tests(tests, setup, NULL);
}
