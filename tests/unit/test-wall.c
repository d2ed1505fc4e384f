/* The wall as code in a cell meets it: what Landlock adds, whose the session keyring is, what /etc, /home and /proc show. The steps are also
 * run by themselves, so that older kernels' ways are taken on a new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "spawner/facts.h"
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

/* A file where no rule leads: anyone may read it, but for Landlock. */
static char elsewhere[] = "/var/tmp/glovebox-test-wall-XXXXXX";

static int set_up(void **state) {
        int fd = mkstemp(elsewhere);
        if (fd < 0)
                return -1;
        close(fd);
        return fake_server_set_up(state);
}

static int tear_down(void **state) {
        unlink(elsewhere);
        return fake_server_tear_down(state);
}

static int landlock_of_abi(const void *argument) {
        struct StepContext c = {.landlock_abi = *(const int *) argument};
        EXPECT(open(elsewhere, O_RDONLY) >= 0);
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(step_landlock(&c) == 0);
        /* Root of the host as this is, it keeps what the table names, and no more. */
        EXPECT(open("/usr/bin/env", O_RDONLY) >= 0);
        EXPECT(open("/", O_RDONLY | O_DIRECTORY) >= 0);
        EXPECT(open("/dev/null", O_RDWR) >= 0);
        EXPECT(open("/tmp", O_RDWR | O_TMPFILE, 0600) >= 0);
        EXPECT(open("/etc/passwd", O_RDONLY) >= 0);
        EXPECT(open("/etc/passwd", O_RDWR) < 0 && errno == EACCES);
        EXPECT(open(elsewhere, O_RDONLY) < 0 && errno == EACCES);
        EXPECT(open("/usr/landlock-was-here", O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES);
        EXPECT(mkdir("/root/landlock-was-here", 0700) < 0 && errno == EACCES);
        EXPECT(mknod("/tmp/landlock-node", S_IFCHR | 0600, 0x0103) < 0 && errno == EACCES);
        EXPECT(truncate(elsewhere, 0) < 0 && errno == EACCES);
        return 0;
}

static void test_landlock_of_each_abi(void **state) {
        int newest = landlock_abi();
        assert_true(newest >= 1);
        for (int abi = 1; abi <= newest; abi++)
                if (abi >= 3) /* below, truncating is not handled */
                        assert_int_equal(in_child(landlock_of_abi, &abi), 0);
}

static int landlock_without_truncate(const void *argument) {
        struct StepContext c = {.landlock_abi = *(const int *) argument};
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        EXPECT(step_landlock(&c) == 0);
        EXPECT(open("/etc/passwd", O_RDWR) < 0 && errno == EACCES);
        EXPECT(open(elsewhere, O_RDONLY) < 0 && errno == EACCES);
        EXPECT(truncate(elsewhere, 0) == 0);
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

static int lent(const void *argument) {
        const uint64_t both = PRIVILEGE(SETUID) | PRIVILEGE(SETGID);
        EXPECT(privileges_lend(2130706432, both) == 0);
        EXPECT(privileges_have(both));
        EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        for (unsigned c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++) {
                EXPECT(prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 0);
                EXPECT((prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, c, 0, 0) == 1) == !!(both >> c & 1));
                EXPECT((both >> c & 1) || !privileges_have(UINT64_C(1) << c));
        }
        EXPECT(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0);
        EXPECT(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0) < 0); /* once given up it stays so */
        EXPECT(prctl(PR_SET_SECUREBITS, 0) < 0);
        EXPECT(privileges_become(2130706432) == 0);
        EXPECT(privileges_verify_none() == 0);
        return 0;
}

static void test_lent_privileges(void **state) {
        assert_int_equal(in_child(lent, NULL), 0);
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

static void test_user_and_home(void **state) {
        run_code("bash", "id -un; id -gn; cat /etc/passwd | wc -l; grep -c sandbox /etc/passwd /etc/group; echo ~; echo $HOME; stat -c '%U %a' ~;"
                         "echo mine >~/x; cat ~/x; ls -A /workspace; rm /etc/passwd; echo x >>/etc/passwd; ls -A /home /root /run");
        assert_string_equal(cell.out, "sandbox\nsandbox\n3\n/etc/passwd:1\n/etc/group:1\n/home/sandbox\n/home/sandbox\nsandbox 700\nmine\nmain.sh\n"
                                      "/home:\nsandbox\n\n/root:\n\n/run:\n");
        /* One cap for both. */
        run_code("bash", "head -c 12M /dev/zero >~/big; head -c 12M /dev/zero >big; stat -c %s big");
        assert_true(strtol(cell.out, NULL, 10) < 4 * (long) MIB);
}

static void test_proc_is_masked(void **state) {
        run_code("bash", "cd /proc; for f in *; do case $f in [0-9]*|self|thread-self) ;; *) [ -f $f ] && cat $f >/dev/null 2>&1 && echo -n \"$f \";"
                         "[ -d $f ] && ls $f >/dev/null 2>&1 && echo -n \"$f/ \";; esac; done; echo;"
                         "for f in sys/kernel/hostname sys/kernel/domainname sys/net/ipv4/ip_forward sys/kernel/random/boot_id meminfo stat cpuinfo sysrq-trigger;"
                         "do (: >$f) 2>&1; echo 1 2>/dev/null >$f && echo WROTE $f; done; mount | grep -c 'on /proc '");
        assert_out("cgroups cpuinfo filesystems loadavg meminfo mounts net/ stat sys/ sysvipc/ uptime version vmstat \n");
        assert_not_out("WROTE");
        char own[40] = "";
        int fd _cleanup_close_ = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        assert_true(read_small(fd, own, sizeof own) > 0);
        run_code("bash", "cat /proc/sys/kernel/random/boot_id");
        assert_int_equal(strlen(cell.out), strlen(own));
        assert_string_not_equal(cell.out, own);
}

#define FACTS "grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; grep MemTotal /proc/meminfo | tr -dc 0-9; echo; echo $OMP_NUM_THREADS;" \
              "getconf _NPROCESSORS_ONLN; python3 -c 'import os; print(os.cpu_count())'"

static void test_facts_follow_limits(void **state) {
        run_code("bash", FACTS);
        assert_string_equal(cell.out, "1\n1\n262144\n1\n1\n1\n");
        /* The cell was made for other limits than its run has, as a cell out of a pool. */
        send_open("bash", 256 * MIB);
        assert_true(start_run(300 * MIB, 1.5));
        write_record(JOB_CODE, FACTS "; echo x >/proc/meminfo || echo refused", strlen(FACTS "; echo x >/proc/meminfo || echo refused"));
        end_job();
        next_until(CASE(MAIN_EXITED));
        end_run();
        close_cell();
        /* Never more processors than there are. */
        const char *processors = sysconf(_SC_NPROCESSORS_CONF) > 1 ? "2\n2\n" : "1\n1\n";
        char expected[64];
        snprintf(expected, sizeof expected, "%s307200\n2\n%srefused\n", processors, processors);
        assert_string_equal(cell.out, expected);
}

static void test_processors(void **state) {
        assert_int_equal(facts_processors(0.01), 1);
        assert_int_equal(facts_processors(1), 1);
        assert_int_equal(facts_processors(1.01), 2);
        assert_int_equal(facts_processors(2), 2);
        assert_int_equal(facts_processors(1e300), 1000000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_landlock_of_each_abi), cmocka_unit_test(test_landlock_of_old_abis), cmocka_unit_test(test_landlock_scope),
                cmocka_unit_test(test_landlock_fails_closed), cmocka_unit_test(test_keyring), cmocka_unit_test(test_securebits),
                cmocka_unit_test(test_lent_privileges),
                cmocka_unit_test(test_landlock_in_a_cell), cmocka_unit_test(test_user_and_home), cmocka_unit_test(test_proc_is_masked),
                cmocka_unit_test(test_facts_follow_limits), cmocka_unit_test(test_processors),
        };
        if (geteuid() != 0) {
                puts("[  SKIPPED ] the spawner needs root; run this test as root");
                return 77;
        }
        return cmocka_run_group_tests(tests, set_up, tear_down);
}
