/* The wall as code in a cell meets it: what Landlock adds, whose the session keyring is, what /etc, /home and /proc show. The steps are also
 * run by themselves, so that older kernels' ways are taken on a new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "spawner/privileges.h"
#include "spawner/steps/steps.h"
#include "tests/unit/fake-server.h"

static void assert_out(const char *text) {
        if (!strstr(cell.out, text))
                fail_msg("\"%s\" is not in: %s\nstandard error: %s", text, cell.out, cell.err);
}

static void assert_not_out(const char *text) {
        if (strstr(cell.out, text))
                fail_msg("\"%s\" is in: %s", text, cell.out);
}

/* In a child process: 0, or the number of the line that failed. */
static int in_child(int (*run)(const void *argument), const void *argument) {
        pid_t pid = fork();
        if (pid == 0)
                _exit(run(argument));
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

#define EXPECT(condition)               \
        do {                            \
                if (!(condition))       \
                        return __LINE__; \
        } while (0)

/* Steps by themselves. */

static int landlock_of_abi(const void *argument) {
        struct StepContext c = {.landlock_abi = *(const int *) argument};
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(step_landlock(&c) == 0);
        /* Root of the host as this is, it keeps what the table names, and no more. */
        EXPECT(open("/usr/bin/env", O_RDONLY) >= 0);
        EXPECT(open("/", O_RDONLY | O_DIRECTORY) >= 0);
        EXPECT(open("/dev/null", O_RDWR) >= 0);
        EXPECT(open("/tmp", O_RDWR | O_TMPFILE, 0600) >= 0);
        EXPECT(open("/etc/passwd", O_RDONLY) >= 0);
        EXPECT(open("/etc/passwd", O_RDWR) < 0 && errno == EACCES);
        EXPECT(open("/var/lib/dpkg/status", O_RDONLY) < 0 && errno == EACCES);
        EXPECT(open("/usr/landlock-was-here", O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES);
        EXPECT(mkdir("/root/landlock-was-here", 0700) < 0 && errno == EACCES);
        EXPECT(mknod("/tmp/landlock-node", S_IFCHR | 0600, 0x0103) < 0 && errno == EACCES);
        EXPECT(truncate("/etc/hostname", 0) < 0 || c.landlock_abi < 3);
        return 0;
}

static void test_landlock_of_each_abi(void **state) {
        int newest = landlock_abi();
        assert_true(newest >= 1);
        for (int abi = 1; abi <= newest; abi++)
                if (abi >= 3) /* below, truncating is not handled: the test would hurt the host's file */
                        assert_int_equal(in_child(landlock_of_abi, &abi), 0);
}

static int landlock_without_truncate(const void *argument) {
        struct StepContext c = {.landlock_abi = *(const int *) argument};
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(step_landlock(&c) == 0);
        EXPECT(open("/etc/passwd", O_RDWR) < 0 && errno == EACCES);
        EXPECT(open("/var/lib/dpkg/status", O_RDONLY) < 0 && errno == EACCES);
        EXPECT(open("/usr/bin/env", O_RDONLY) >= 0);
        return 0;
}

static void test_landlock_of_old_abis(void **state) {
        for (int abi = 1; abi <= 2; abi++)
                assert_int_equal(in_child(landlock_without_truncate, &abi), 0);
}

static int signal_scope(const void *argument) {
        struct StepContext c = {.landlock_abi = landlock_abi()};
        pid_t outside = getppid();
        EXPECT(kill(outside, 0) == 0);
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(step_landlock(&c) == 0);
        EXPECT(kill(getpid(), 0) == 0);
        EXPECT(c.landlock_abi < 6 || (kill(outside, 0) < 0 && errno == EPERM));
        struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0glovebox-test-wall"};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        EXPECT(fd >= 0);
        EXPECT(c.landlock_abi < 6 || (connect(fd, (struct sockaddr *) &name, sizeof name) < 0 && errno == EPERM));
        return 0;
}

static void test_landlock_scope(void **state) {
        struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0glovebox-test-wall"};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fd, (struct sockaddr *) &name, sizeof name), 0);
        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(in_child(signal_scope, NULL), 0);
        close(fd);
}

static int landlock_missing(const void *argument) {
        struct StepContext c = {.landlock_abi = *(const int *) argument};
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(step_landlock(&c) < 0);
        return 0;
}

static void test_landlock_fails_closed(void **state) {
        for (int abi = -EOPNOTSUPP; abi <= 0; abi += EOPNOTSUPP)
                assert_int_equal(in_child(landlock_missing, &abi), 0);
}

static int keyring(const void *argument) {
        long before = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
        struct StepContext c = {};
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(privileges_leave_keyrings() == 0);
        long after = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
        EXPECT(after > 0 && after != before);
        EXPECT(step_keyring(&c) == 0); /* no filter of system calls: its own */
        EXPECT(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) < 0 && errno == ENOSYS);
        EXPECT(syscall(SYS_add_key, "user", "x", "y", 1, KEY_SPEC_PROCESS_KEYRING) < 0 && errno == ENOSYS);
        EXPECT(syscall(SYS_request_key, "user", "x", NULL, 0) < 0 && errno == ENOSYS);
        return 0;
}

static void test_keyring(void **state) {
        assert_int_equal(in_child(keyring, NULL), 0);
}

static int securebits(const void *argument) {
        EXPECT(privileges_verify_none() == -EPERM);
        EXPECT(privileges_drop_bounding() == 0);
        EXPECT(privileges_become(2130706432) == 0);
        EXPECT(privileges_verify_none() == 0);
        EXPECT(prctl(PR_SET_SECUREBITS, 0) < 0);
        EXPECT(prctl(PR_SET_KEEPCAPS, 1) < 0);
        return 0;
}

static void test_securebits(void **state) {
        assert_int_equal(in_child(securebits, NULL), 0);
}

/* Whole cells. */

static void test_landlock_in_a_cell(void **state) {
        run_code("bash", "python3 - <<'E'\n"
                         "import os, socket\n"
                         "def no(f, *a):\n"
                         "    try: f(*a)\n"
                         "    except OSError as e: print(f.__name__, a[0], e.errno)\n"
                         "    else: print('POSSIBLE', f.__name__, a)\n"
                         "no(os.open, '/run', os.O_RDWR | os.O_TMPFILE)\n"
                         "os.mkfifo('/tmp/fifo'); os.symlink('a', '/tmp/link'); os.mkdir('/tmp/d'); os.rename('/tmp/link', '/tmp/d/link')\n"
                         "s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('/tmp/s')\n"
                         "a = socket.socket(socket.AF_UNIX); a.bind('\\0x'); a.listen(); b = socket.socket(socket.AF_UNIX); b.connect('\\0x')\n"
                         "p = os.fork()\n"
                         "if not p: import time; time.sleep(100)\n"
                         "os.kill(p, 9); os.wait()\n"
                         "open('/workspace/run', 'w').write('#!/bin/sh\\necho own program'); os.chmod('/workspace/run', 0o755)\n"
                         "open('/proc/self/comm', 'w').write('named')\n"
                         "print('worked')\n"
                         "E\n"
                         "./run; echo again >/dev/stderr; cat /proc/self/comm");
        assert_out("worked\nown program\ncat\n");
        assert_string_equal(cell.err, "again\n");
        assert_not_out("POSSIBLE");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_landlock_of_each_abi), cmocka_unit_test(test_landlock_of_old_abis), cmocka_unit_test(test_landlock_scope),
                cmocka_unit_test(test_landlock_fails_closed), cmocka_unit_test(test_keyring), cmocka_unit_test(test_securebits),
                cmocka_unit_test(test_landlock_in_a_cell),
        };
        return cmocka_run_group_tests(tests, fake_server_set_up, fake_server_tear_down);
}
