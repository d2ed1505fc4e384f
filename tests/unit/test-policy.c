/* spawner/policy.c and steps/seccomp.c: the text, the operator's changes, and what the compiled filter really answers. */
#include "tests/unit/unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "spawner/policy.h"
#include "spawner/steps/seccomp-programs.h"
#include "spawner/steps/steps.h"

#define SHIPPED SOURCE_DIR "/spawner/policy/default.policy"

static void expect_fault(const char *text, const char *words) {
        struct Policy *p = NULL;
        char *error = NULL;
        assert_error(policy_parse(text, "x.policy", &p, &error), EINVAL);
        assert_non_null(error);
        if (!strstr(error, words))
                fail_msg("\"%s\" is not in \"%s\"", words, error);
        free(error);
}

static void faults_name_line_and_cure(void **state) {
        expect_fault("", "allows nothing");
        expect_fault("allow read\npermit write\n", "x.policy:2: a line begins with");
        expect_fault("deny EPERM mount\n", "x.policy:1: a denial needs its reason");
        expect_fault("deny EPERM mount #   \n", "needs its reason");
        expect_fault("deny EWHAT mount # x\n", "'EWHAT' is not an errno");
        expect_fault("allow\n", "name of a system call is missing");
        expect_fault("allow Read\n", "name of a system call is missing");
        expect_fault("allow read when\n", "'when' is not expected here, 'if' is");
        expect_fault("allow read if arg9 == 1\n", "arg0 to arg5");
        expect_fault("allow read if arg0 ~ 1\n", "'~' is not one of");
        expect_fault("allow read if arg0 == WHAT\n", "'WHAT' is neither");
        expect_fault("allow read if arg0 & 1 == 2\n", "never be equal");
        expect_fault("allow read if arg0 ==\n", "value is missing");
        expect_fault("allow read if arg0 == 1 and arg1 == 1 and arg2 == 1\n", "more than 2 conditions");
        expect_fault("allow read\nallow read\n", "there already, in line 1");
        expect_fault("allow read\ndeny EPERM read # x\n", "there already, in line 1");
        expect_fault("allow read if arg0 == 1\ndeny EPERM read # x\n", "allowed and denied at once");
        expect_fault("deny EPERM read # x\nallow read if arg0 == 1\n", "allowed and denied at once");
        expect_fault("allow read\nallow read if arg0 == 1\n", "with and without conditions");
}

static struct Policy *shipped(void) {
        struct Policy *p = NULL;
        char *error = NULL;
        int r = policy_load(SHIPPED, &p, &error);
        if (r < 0)
                fail_msg("%s", error ? error : strerror(-r));
        return p;
}

static const struct PolicyRule *find(const struct Policy *p, const char *call) {
        for (size_t i = 0; i < p->n_rules; i++)
                if (streq(p->rules[i].call, call) && !p->rules[i].n_conditions)
                        return &p->rules[i];
        return NULL;
}

static void the_operator_adds_and_takes(void **state) {
        char *allow[] = { (char *) "ptrace", (char *) "io_setup", NULL }, *deny[] = { (char *) "ioctl", NULL }, *both[] = { (char *) "ioctl", NULL };
        struct Policy *p _cleanup_(policy_freep) = shipped();
        char *error = NULL;

        assert_ok(policy_change(p, allow, deny, &error));
        assert_int_equal(find(p, "ptrace")->error, 0);
        assert_int_equal(find(p, "io_setup")->error, 0);
        assert_int_equal(find(p, "ioctl")->error, EPERM);
        assert_int_equal(find(p, "read")->error, 0); /* it adds, it does not replace */
        assert_error(policy_change(p, both, deny, &error), EINVAL);
        assert_non_null(strstr(error, "both in seccomp-allow and in seccomp-deny"));
        free(error);
}

static void an_unknown_call_is_a_fault(void **state) {
        struct Policy *p _cleanup_(policy_freep) = NULL;
        struct SeccompPrograms programs;
        char *error = NULL;

        assert_ok(policy_parse("allow raed\n", "x", &p, &error));
        assert_error(seccomp_programs_compile(p, false, &programs, &error), EINVAL);
        assert_non_null(strstr(error, "'raed'"));
        free(error);
}

/* A child under the filter makes one call; its errno (0 = it worked) comes back, -1 = it was killed. */
static int answer(const struct SeccompPrograms *programs, long (*call)(void)) {
        struct StepContext c = { .seccomp = programs };
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || step_seccomp(&c) < 0)
                        _exit(254);
                errno = 0;
                _exit(call() < 0 ? errno : 0);
        }
        assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        if (WIFSIGNALED(status))
                return -WTERMSIG(status);
        assert_int_not_equal(WEXITSTATUS(status), 254);
        return WEXITSTATUS(status);
}

static long try_getpid(void) { return syscall(SYS_getpid); }
static long try_unknown(void) { return syscall(1000); }
static long try_mount(void) { return syscall(SYS_mount, 0, 0, 0, 0, 0); }
static long try_clone3(void) { return syscall(SYS_clone3, 0, 0); }
static long try_newuser(void) { return syscall(SYS_clone, CLONE_NEWUSER | 17, 0, 0, 0, 0); }
static long try_newuser_high(void) { return syscall(SYS_clone, 0x100000000UL | CLONE_NEWUSER | 17, 0, 0, 0, 0); }
static long try_tiocsti(void) { return syscall(SYS_ioctl, 0, 0x5412UL, "x"); }
static long try_tiocsti_high(void) { return syscall(SYS_ioctl, 0, 0x100005412UL, "x"); }
static long try_fionread(void) { int n; return syscall(SYS_ioctl, -1, 0x541bUL, &n); }
static long try_netlink(void) { return syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0); }
static long try_netlink_high(void) { return syscall(SYS_socket, 0x100000000UL | AF_NETLINK, SOCK_RAW, 0); }
static long try_vsock(void) { return syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0); }
static long try_x25(void) { return syscall(SYS_socket, AF_X25, SOCK_SEQPACKET, 0); }
static long try_unix(void) { return syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0); }
static long try_core(void) { struct rlimit l = { 0, 0 }; return syscall(SYS_prlimit64, 0, RLIMIT_CORE, &l, NULL); }
static long try_core_ask(void) { struct rlimit l; return syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &l); }
static long try_personality(void) { return syscall(SYS_personality, 0x0040000UL); }
static long try_io_uring(void) { return syscall(SYS_io_uring_setup, 1, NULL); }
static long try_keyctl(void) { return syscall(SYS_keyctl, 0, -3, 0); }
#ifdef __x86_64__
static long try_x32(void) { return syscall(0x40000000 + 39); }
static long try_int80(void) {
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
        return r;
}
#endif

static void the_kernel_answers_as_the_text_says(void **state) {
        static const struct {
                const char *name;
                long (*call)(void);
                int expected;
        } table[] = {
                { "getpid", try_getpid, 0 },
                { "an unknown call", try_unknown, ENOSYS },
                { "mount", try_mount, EPERM },
                { "clone3", try_clone3, ENOSYS },
                { "clone with NEWUSER", try_newuser, EPERM },
                { "clone with NEWUSER and high bits", try_newuser_high, EPERM },
                { "TIOCSTI", try_tiocsti, EPERM },
                { "TIOCSTI with high bits", try_tiocsti_high, EPERM },
                { "FIONREAD of a closed descriptor", try_fionread, EBADF },
                { "AF_NETLINK", try_netlink, EAFNOSUPPORT },
                { "AF_NETLINK with high bits", try_netlink_high, EAFNOSUPPORT },
                { "AF_VSOCK", try_vsock, EAFNOSUPPORT },
                { "AF_X25", try_x25, EAFNOSUPPORT },
                { "AF_UNIX", try_unix, 0 },
                { "setting RLIMIT_CORE", try_core, EPERM },
                { "asking for RLIMIT_CORE", try_core_ask, 0 },
                { "personality without randomisation", try_personality, ENOSYS },
                { "io_uring_setup", try_io_uring, ENOSYS },
                { "keyctl", try_keyctl, EPERM },
#ifdef __x86_64__
                { "an x32 call", try_x32, -31 },
                { "a 32-bit call", try_int80, -31 },
#endif
        };
        struct Policy *p _cleanup_(policy_freep) = shipped();
        struct SeccompPrograms programs _cleanup_(seccomp_programs_done) = {};
        char *error = NULL;

        if (seccomp_programs_compile(p, false, &programs, &error) < 0)
                fail_msg("%s", error ? error : "does not compile");
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                int got = answer(&programs, table[i].call);
                if (got != table[i].expected)
                        fail_msg("%s: expected %d, got %d", table[i].name, table[i].expected, got);
        }
}

RUN(T(faults_name_line_and_cure), T(the_operator_adds_and_takes), T(an_unknown_call_is_a_fault), T(the_kernel_answers_as_the_text_says))
