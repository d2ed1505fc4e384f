/* clone3 as a fork with more to choose from; glibc has no wrapper for it. */
#pragma once

#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In the child only async-signal-safe calls are allowed until exec. -1 and errno on failure. */
static inline pid_t clone_process(struct clone_args *args) {
        return (pid_t) syscall(SYS_clone3, args, sizeof *args);
}

struct CloneStack {
        uint8_t bytes[64 * 1024] __attribute__((aligned(16)));
};

/* Like vfork, which copies nothing: the child has our memory and the stack, and we stand still until it executes a program or ends. So it may do all
 * that we could, but must not come back from run. Where this cannot be had it works on a copy of our memory: what it has to tell belongs in memory
 * that is mapped as shared. A negative errno on failure; a death of ours while we stand still is nothing that the child notices. */
pid_t clone_and_wait(struct clone_args *args, struct CloneStack *stack, void (*run)(void *userdata), void *userdata);
