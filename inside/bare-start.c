/* The start of glovebox-init and glovebox-start, and the system calls that they make, without the C library.
 *
 * The library's own start asks the processor some 80 times what it can do. In a virtual machine each of these questions goes to the hypervisor:
 * 0.5 ms of every cell and of every execution were spent on that. These two need nothing that the answers are for. Where there is no code for the
 * machine here, they are linked to the library. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIGNALS_SIZE 8 /* what the kernel has of a sigset_t */

int main(int argc, char **argv);
__attribute__((noreturn, used)) static void begin(long *stack);

#if defined(__x86_64__)
#include <asm/prctl.h>

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n");
__asm__("after_signal:\n\tmov $15, %eax\n\tsyscall\n");
extern void after_signal(void);

static long system_call(long n, const long a[6]) {
        register long d __asm__("r10") = a[3], e __asm__("r8") = a[4], f __asm__("r9") = a[5];
        long r;
        __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(d), "r"(e), "r"(f) : "rcx", "r11", "memory");
        return r;
}

/* Where the compiler looks for what it protects the stack by. */
static struct {
        uintptr_t before[5], guard;
} thread;

__attribute__((no_stack_protector)) static void set_guard(uintptr_t guard) {
        const long arguments[6] = {ARCH_SET_FS, (long) &thread};
        thread.guard = guard;
        system_call(SYS_arch_prctl, arguments);
}

#elif defined(__aarch64__)

__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tb begin\n");
#define after_signal NULL /* the kernel's own */

static long system_call(long n, const long a[6]) {
        register long number __asm__("x8") = n, r __asm__("x0") = a[0], b __asm__("x1") = a[1], c __asm__("x2") = a[2];
        register long d __asm__("x3") = a[3], e __asm__("x4") = a[4], f __asm__("x5") = a[5];
        __asm__ volatile("svc #0" : "+r"(r) : "r"(number), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f) : "memory");
        return r;
}

extern uintptr_t __stack_chk_guard;
uintptr_t __stack_chk_guard;

__attribute__((no_stack_protector)) static void set_guard(uintptr_t guard) {
        __stack_chk_guard = guard;
}
#endif

_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void) {
        _exit(127);
}

/* From the kernel, on the stack: the count, the arguments, NULL, the environment, NULL, and pairs of which one leads to random bytes. */
__attribute__((no_stack_protector)) static void begin(long *stack) {
        int argc = (int) stack[0];
        char **argv = (char **) (stack + 1), **p = argv + argc + 1;
        while (*p)
                p++;
        for (const unsigned long *pair = (const unsigned long *) (p + 1); pair[0] != AT_NULL; pair += 2)
                if (pair[0] == AT_RANDOM)
                        set_guard(*(const uintptr_t *) pair[1] & ~(uintptr_t) 0xff); /* a string that runs over ends before it */
        _exit(main(argc, argv));
}

static int last_error;

int *__errno_location(void) {
        return &last_error;
}

#define CALL_(n, a, b, c, d, e, f, ...) call(n, (const long[6]) {(long) (a), (long) (b), (long) (c), (long) (d), (long) (e), (long) (f)})
#define CALL(...) CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

static long call(long n, const long arguments[6]) {
        long r = system_call(n, arguments);
        if (r >= 0 || r < -4095)
                return r;
        last_error = (int) -r;
        return -1;
}

long syscall(long n, ...) {
        long a[6];
        va_list list;
        va_start(list, n);
        for (int i = 0; i < 6; i++)
                a[i] = va_arg(list, long);
        va_end(list);
        return call(n, a);
}

void _exit(int status) {
        for (;;)
                CALL(SYS_exit_group, status);
}

/* Files. */

int open(const char *path, int flags, ...) {
        va_list list;
        va_start(list, flags);
        unsigned mode = flags & O_CREAT ? va_arg(list, unsigned) : 0;
        va_end(list);
        return (int) CALL(SYS_openat, AT_FDCWD, path, flags, mode);
}

int close(int fd) {
        return (int) CALL(SYS_close, fd);
}

ssize_t read(int fd, void *buffer, size_t size) {
        return CALL(SYS_read, fd, buffer, size);
}

ssize_t write(int fd, const void *bytes, size_t size) {
        return CALL(SYS_write, fd, bytes, size);
}

off_t lseek(int fd, off_t offset, int whence) {
        return CALL(SYS_lseek, fd, offset, whence);
}

int fcntl(int fd, int command, ...) {
        va_list list;
        va_start(list, command);
        long argument = va_arg(list, long);
        va_end(list);
        return (int) CALL(SYS_fcntl, fd, command, argument);
}

int dup2(int from, int to) {
        return from == to ? (fcntl(from, F_GETFD, 0) < 0 ? -1 : to) : (int) CALL(SYS_dup3, from, to, 0);
}

int fstat(int fd, struct stat *ret) {
        return (int) CALL(SYS_fstat, fd, ret);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict ret, int flags) {
        return (int) CALL(SYS_newfstatat, folder, path, ret, flags);
}

int futimens(int fd, const struct timespec times[2]) {
        return (int) CALL(SYS_utimensat, fd, NULL, times, 0);
}

int mkdirat(int folder, const char *path, mode_t mode) {
        return (int) CALL(SYS_mkdirat, folder, path, mode);
}

int chdir(const char *path) {
        return (int) CALL(SYS_chdir, path);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *signals) {
        struct timespec left = timeout ? *timeout : (struct timespec) {};
        return (int) CALL(SYS_ppoll, fds, n, timeout ? &left : NULL, signals, SIGNALS_SIZE);
}

/* Memory, processes, rights. */

void *mmap(void *where, size_t size, int protection, int flags, int fd, off_t offset) {
        return (void *) CALL(SYS_mmap, where, size, protection, flags, fd, offset);
}

int munmap(void *where, size_t size) {
        return (int) CALL(SYS_munmap, where, size);
}

int execve(const char *path, char *const argv[], char *const envp[]) {
        return (int) CALL(SYS_execve, path, argv, envp);
}

pid_t waitpid(pid_t pid, int *ret_status, int flags) {
        return (pid_t) CALL(SYS_wait4, pid, ret_status, flags, NULL);
}

int sched_yield(void) {
        return (int) CALL(SYS_sched_yield);
}

int prctl(int option, ...) {
        long a[4];
        va_list list;
        va_start(list, option);
        for (int i = 0; i < 4; i++)
                a[i] = va_arg(list, long);
        va_end(list);
        return (int) CALL(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

int setfsuid(uid_t uid) {
        return (int) CALL(SYS_setfsuid, uid);
}

int setfsgid(gid_t gid) {
        return (int) CALL(SYS_setfsgid, gid);
}

/* Signals; their numbers are below 64. */

struct KernelAction {
        sighandler_t handler;
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
};

sighandler_t signal(int number, sighandler_t handler) {
        const struct KernelAction new = {.handler = handler, .flags = SA_RESTART | 0x04000000 /* SA_RESTORER */, .restorer = after_signal};
        struct KernelAction old;
        return CALL(SYS_rt_sigaction, number, &new, &old, SIGNALS_SIZE) < 0 ? SIG_ERR : old.handler;
}

static uint64_t *words(sigset_t *set) {
        return (uint64_t *) set->__val;
}

int sigemptyset(sigset_t *set) {
        *words(set) = 0;
        return 0;
}

int sigaddset(sigset_t *set, int number) {
        *words(set) |= UINT64_C(1) << (number - 1);
        return 0;
}

int sigdelset(sigset_t *set, int number) {
        *words(set) &= ~(UINT64_C(1) << (number - 1));
        return 0;
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict ret_old) {
        return (int) CALL(SYS_rt_sigprocmask, how, set, ret_old, SIGNALS_SIZE);
}

int sigwait(const sigset_t *restrict set, int *restrict ret) {
        long r = CALL(SYS_rt_sigtimedwait, set, NULL, NULL, SIGNALS_SIZE);
        if (r < 0)
                return last_error;
        *ret = (int) r;
        return 0;
}
