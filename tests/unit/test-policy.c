/* spawner/policy.c and steps/seccomp-program.c: the text, the operator's changes, and what the compiled filter really answers. */
#include "tests/unit/filter-run.h"

#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "spawner/policy.h"
#include "spawner/steps/seccomp-program.h"
#include "spawner/steps/steps.h"

#define TRIES_MAX 256 /* values of one argument */
#define COMBINATIONS_MAX 20000ul
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
        expect_fault("ignore sync\n", "x.policy:1: what is ignored needs its reason");
        expect_fault("deny EWHAT mount # x\n", "'EWHAT' is not an errno");
        expect_fault("allow\n", "name of a system call is missing");
        expect_fault("allow Read\n", "name of a system call is missing");
        expect_fault("allow read when\n", "'when' is not expected here, 'if' is");
        expect_fault("allow read if arg9 == 1\n", "arg0 to arg5");
        expect_fault("allow read if arg0 ~ 1\n", "'~' is not one of");
        expect_fault("allow read if arg0 == WHAT\n", "'WHAT' is neither");
        expect_fault("allow read if arg0 & 1 == 2\n", "never be equal");
        expect_fault("allow read if arg0 ==\n", "value is missing");
        expect_fault("allow read if arg0 == 1 and arg0 == 1 and arg0 == 1 and arg0 == 1 and arg0 == 1 and arg0 == 1 and arg0 == 1\n", "more than 6 conditions");
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
        struct SeccompProgram program;
        char *error = NULL;

        assert_ok(policy_parse("allow raed\n", "x", &p, &error));
        assert_error(seccomp_program_compile(p, false, &program, &error), EINVAL);
        assert_non_null(strstr(error, "'raed'"));
        free(error);
}

/* A child under the filter makes one call; its errno (0 = it worked) comes back, -1 = it was killed. */
static int answer(const struct SeccompProgram *program, long (*call)(void)) {
        struct StepContext c = { .seccomp = program };
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
static long try_fsync(void) { return syscall(SYS_fsync, -1); }
static long try_pair(void) { int p[2]; return syscall(SYS_socketpair, AF_NETLINK, SOCK_RAW, 0, p); }
static long try_parent(void) { return syscall(SYS_clone, CLONE_PARENT | 17, 0, 0, 0, 0); }
static long try_personality(void) { return syscall(SYS_personality, 0x0040000UL); }
static long try_io_uring(void) { return syscall(SYS_io_uring_setup, 1, NULL); }
static long try_keyctl(void) { return syscall(SYS_keyctl, 0, -3, 0); }
#ifdef __x86_64__
static long try_x32(void) { return syscall(0x40000000 + 39); }
static long try_int80(void) {
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
        errno = r < 0 ? (int) -r : 0;
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
                { "setting RLIMIT_CORE", try_core, 0 },
                { "fsync of nothing", try_fsync, 0 },
                { "socketpair of netlink", try_pair, EAFNOSUPPORT },
                { "clone with PARENT", try_parent, EPERM },
                { "asking for RLIMIT_CORE", try_core_ask, 0 },
                { "personality without randomisation", try_personality, ENOSYS },
                { "io_uring_setup", try_io_uring, ENOSYS },
                { "keyctl", try_keyctl, EPERM },
#ifdef __x86_64__
                { "an x32 call", try_x32, ENOSYS },
                { "a 32-bit call", try_int80, ENOSYS },
#endif
        };
        struct Policy *p _cleanup_(policy_freep) = shipped();
        struct SeccompProgram program _cleanup_(seccomp_program_done) = {};
        char *error = NULL;

        if (seccomp_program_compile(p, false, &program, &error) < 0)
                fail_msg("%s", error ? error : "does not compile");
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                int got = answer(&program, table[i].call);
                if (got != table[i].expected)
                        fail_msg("%s: expected %d, got %d", table[i].name, table[i].expected, got);
        }
}

/* What the policy's text means, read as plainly as possible, against what the program answers. */

struct Call {
        const char *name; /* NULL = no rule can name it */
        struct seccomp_data data;
};

static bool holds(const struct PolicyCondition *c, const uint64_t *args) {
        uint64_t value = args[c->argument];

        switch (c->operator) {
        case POLICY_EQUAL:
                return value == c->value;
        case POLICY_NOT_EQUAL:
                return value != c->value;
        case POLICY_GREATER:
                return value > c->value;
        case POLICY_MASKED_EQUAL:
                return (value & c->mask) == c->value;
        }
        return false;
}

static bool matches(const struct PolicyRule *rule, const struct Call *call) {
        if (!call->name || !streq(rule->call, call->name))
                return false;
        for (size_t i = 0; i < rule->n_conditions; i++)
                if (!holds(&rule->conditions[i], (const uint64_t *) call->data.args))
                        return false;
        return true;
}

/* errno, 0 = allowed, POLICY_IGNORED */
static int meaning(const struct Policy *p, const struct Call *call) {
        if (call->data.arch != seccomp_arch_native())
                return ENOSYS;
        for (int pass = 0; pass < 3; pass++)
                for (size_t i = 0; i < p->n_rules; i++) {
                        const struct PolicyRule *rule = &p->rules[i];
                        int turn = !rule->n_conditions ? 2 : rule->error ? 0 : 1;
                        if (turn == pass && matches(rule, call))
                                return rule->error;
                }
        return ENOSYS;
}

static int execute(const struct SeccompProgram *program, const struct seccomp_data *data) {
        uint32_t action = filter_run(program->instructions, program->n, data);

        if (action == SECCOMP_RET_ALLOW)
                return 0;
        assert_int_equal(action & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
        return action & SECCOMP_RET_DATA ? (int) (action & SECCOMP_RET_DATA) : POLICY_IGNORED;
}

static void compare(const struct Policy *p, const struct SeccompProgram *program, const struct Call *call) {
        int expected = meaning(p, call), got = execute(program, &call->data);

        if (expected != got)
                fail_msg("call %d (%s) with %llx %llx %llx %llx %llx %llx: the text says %d, the program %d", call->data.nr, strempty(call->name),
                         call->data.args[0], call->data.args[1], call->data.args[2], call->data.args[3], call->data.args[4],
                         call->data.args[5], expected, got);
}

static uint64_t scramble(uint64_t *state) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return *state >> 16 ^ *state << 40;
}

/* Around every value and mask that a rule of this call names: for each argument, what is worth a try. */
struct Tries {
        uint64_t of[6][TRIES_MAX];
        size_t n[6];
        bool any;
};

static void find_tries(const struct Policy *p, const struct Call *call, struct Tries *ret) {
        for (size_t i = 0; i < 6; i++)
                ret->of[i][ret->n[i]++] = 0;
        for (size_t i = 0; i < p->n_rules; i++) {
                const struct PolicyRule *rule = &p->rules[i];
                for (size_t k = 0; call->name && streq(rule->call, call->name) && k < rule->n_conditions; k++) {
                        const struct PolicyCondition *c = &rule->conditions[k];
                        const uint64_t tries[] = { c->value, c->value + 1, c->value - 1, c->value | c->mask, c->value | ~c->mask, ~c->value,
                                                   c->value + (1ul << 32), c->value << 32, c->value | 1ul << 63, c->mask & (c->mask - 1) };
                        ret->any = true;
                        assert_true(ret->n[c->argument] + ELEMENTSOF(tries) <= TRIES_MAX);
                        memcpy(&ret->of[c->argument][ret->n[c->argument]], tries, sizeof tries);
                        ret->n[c->argument] += ELEMENTSOF(tries);
                }
        }
}

/* One argument after the other, then together: every combination where these are few, else as many by chance. */
static void compare_arguments(const struct Policy *p, const struct SeccompProgram *program, struct Call *call) {
        uint64_t state = (uint64_t) call->data.nr + 1, combinations = 1;
        struct Tries tries = {};

        find_tries(p, call, &tries);
        for (size_t i = 0; i < 6; combinations *= tries.n[i++])
                for (size_t k = 0; k < tries.n[i]; k++) {
                        call->data.args[i] = tries.of[i][k];
                        compare(p, program, call);
                }
        for (uint64_t round = 0; tries.any && round < MIN(combinations, COMBINATIONS_MAX); round++) {
                uint64_t rest = combinations <= COMBINATIONS_MAX ? round : scramble(&state) % combinations;
                for (size_t i = 0; i < 6; rest /= tries.n[i++])
                        call->data.args[i] = tries.of[i][rest % tries.n[i]];
                compare(p, program, call);
        }
        for (int round = 0; round < 8; round++) {
                for (size_t i = 0; i < 6; i++)
                        call->data.args[i] = scramble(&state) >> (scramble(&state) % 64);
                compare(p, program, call);
        }
}

/* The rules that name this call, for a quicker reading of all of them, again and again. */
static void find_rules(const struct Policy *p, const char *call, struct Policy *ret) {
        ret->n_rules = 0;
        for (size_t i = 0; call && i < p->n_rules; i++)
                if (streq(p->rules[i].call, call))
                        ret->rules[ret->n_rules++] = p->rules[i];
}

static void compare_all(const struct Policy *p) {
        static const int odd[] = { 1023, 1024, 1025, 65536, 0x3fffffff, 0x40000000, 0x40000027, 0x7fffffff, (int) 0x80000000, -2, -1 };
        static const struct {
                int number;
                const char *name;
        } newer[] = { { 335, "uretprobe" },  { 451, "cachestat" },  { 452, "fchmodat2" },
                      { 454, "futex_wake" }, { 455, "futex_wait" }, { 456, "futex_requeue" } };
        struct SeccompProgram program _cleanup_(seccomp_program_done) = {};
        struct PolicyRule rules[POLICY_RULES_MAX];
        struct Policy own = { .rules = rules };
        char *error = NULL;

        if (seccomp_program_compile(p, false, &program, &error) < 0)
                fail_msg("%s", error ? error : "does not compile");
        for (int nr = 0; nr < 1024 + (int) ELEMENTSOF(odd); nr++) {
                struct Call call;
                memset(&call, 0, sizeof call);
                call.data.nr = nr < 1024 ? nr : odd[nr - 1024];
                call.data.arch = seccomp_arch_native();
                char *name _cleanup_free_ = call.data.nr < 1024 ? seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call.data.nr) : NULL;
                call.name = name;
                for (size_t i = 0; i < ELEMENTSOF(newer); i++)
                        if (newer[i].number == call.data.nr)
                                call.name = newer[i].name;
                find_rules(p, call.name, &own);
                compare_arguments(&own, &program, &call);
                call.data.arch = SCMP_ARCH_X86;
                compare(&own, &program, &call);
        }
}

static void the_program_is_the_text(void **state) {
        struct Policy *p _cleanup_(policy_freep) = shipped();
        compare_all(p);
}

static void every_operator_is_the_text(void **state) {
        static const char text[] =
                "allow read if arg0 > 0x100000005 and arg1 != 0x200000000\n"
                "allow write\n"
                "deny EPERM write if arg2 != 7 # x\n"
                "deny EACCES write if arg2 > 5 # never seen: the first one that holds answers\n"
                "deny EINVAL close if arg0 & 0xff00000000 == 0x100000000 # x\n"
                "deny EACCES close if arg0 & 0 == 0 and arg1 == 3 # x\n"
                "allow close if arg0 == 0x8000000000000000\n"
                "deny ENOTTY ioctl if arg1 > 0xffffffffffffffff # never\n"
                "deny EPERM ioctl # x\n"
                "ignore fsync if arg0 != 3 and arg0 != 4 and arg0 != 0x100000005 and arg1 > 2 # x\n"
                "ignore sync # x\n";
        struct Policy *p _cleanup_(policy_freep) = NULL;
        char *error = NULL;
        assert_ok(policy_parse(text, "x", &p, &error));
        compare_all(p);
}

/* Every known call with `lines` rules of its own, so that the tree's halves are far apart. */
static struct Policy *large_policy(int calls, int lines) {
        struct Policy *p = NULL;
        char *text = NULL, *error = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        for (int nr = 0; nr < calls; nr++) {
                char *name _cleanup_free_ = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
                for (int i = 0; name && i < lines; i++)
                        fprintf(f, "deny EPERM %s if arg%d == %d and arg%d > %d # x\n", name, i, nr, 5 - i, nr + 1);
                if (name)
                        fprintf(f, "allow %s\n", name);
        }
        fclose(f);
        assert_ok(policy_parse(text, "x", &p, &error));
        free(text);
        return p;
}

static void a_large_program_is_the_text(void **state) {
        struct Policy *p _cleanup_(policy_freep) = large_policy(150, 2);
        compare_all(p);
}

static void a_program_that_the_kernel_would_refuse_is_a_fault(void **state) {
        struct Policy *p _cleanup_(policy_freep) = large_policy(250, 3);
        struct SeccompProgram program = {};
        char *error = NULL;
        assert_error(seccomp_program_compile(p, false, &program, &error), EFBIG);
        assert_null(program.instructions);
}

RUN(T(faults_name_line_and_cure), T(the_operator_adds_and_takes), T(an_unknown_call_is_a_fault), T(the_kernel_answers_as_the_text_says),
    T(the_program_is_the_text), T(every_operator_is_the_text), T(a_large_program_is_the_text),
    T(a_program_that_the_kernel_would_refuse_is_a_fault))
