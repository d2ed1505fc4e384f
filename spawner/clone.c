/* The part of clone3 that C cannot say: a child on a stack of its own. */
#include "spawner/clone.h"

#include <errno.h>
#include <sched.h>

#if defined(__SANITIZE_ADDRESS__)
#define COPIES /* what the child leaves of its stack's shadow would be found there by the next one */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COPIES
#endif
#endif

/* The kernel gives the child the same registers and the new stack; none of ours is touched. */
#if defined(__x86_64__) && !defined(COPIES)
static long clone_and_run(struct clone_args *args, void (*run)(void *userdata), void *userdata) {
        long r;
        __asm__ volatile("syscall\n\t"
                         "test %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "xor %%ebp, %%ebp\n\t"
                         "mov %[userdata], %%rdi\n\t"
                         "call *%[run]\n\t"
                         "ud2\n"
                         "1:"
                         : "=a"(r)
                         : "a"(SYS_clone3), "D"(args), "S"(sizeof *args), [run] "r"(run), [userdata] "r"(userdata)
                         : "rcx", "r11", "memory", "cc");
        return r;
}
#elif defined(__aarch64__) && !defined(COPIES)
static long clone_and_run(struct clone_args *args, void (*run)(void *userdata), void *userdata) {
        register long number __asm__("x8") = SYS_clone3, size __asm__("x1") = sizeof *args;
        register void *r __asm__("x0") = args;
        __asm__ volatile("svc #0\n\t"
                         "cbnz x0, 1f\n\t"
                         "mov x29, #0\n\t"
                         "mov x0, %[userdata]\n\t"
                         "blr %[run]\n\t"
                         "brk #0\n"
                         "1:"
                         : "+r"(r)
                         : "r"(number), "r"(size), [run] "r"(run), [userdata] "r"(userdata)
                         : "memory", "cc");
        return (long) r;
}
#else
static long clone_and_run(struct clone_args *args, void (*run)(void *userdata), void *userdata) {
        args->flags &= ~(uint64_t) CLONE_VM;
        args->stack = args->stack_size = 0;
        long r = syscall(SYS_clone3, args, sizeof *args);
        if (r == 0)
                run(userdata);
        return r < 0 ? -errno : r;
}
#endif

pid_t clone_and_wait(struct clone_args *args, struct CloneStack *stack, void (*run)(void *userdata), void *userdata) {
        args->flags |= CLONE_VM | CLONE_VFORK;
        args->stack = (uint64_t) (uintptr_t) stack->bytes;
        args->stack_size = sizeof stack->bytes;
        return (pid_t) clone_and_run(args, run, userdata);
}
