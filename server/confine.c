/* The server never starts a process and never becomes another program. Whoever takes it over shall not either: what was left behind could pass for
 * the next server's life. Its own user, without any capability, does the rest. */
#include "server/confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/util.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "name this architecture's AUDIT_ARCH_ here"
#endif

#define X32_FIRST 0x40000000u /* __X32_SYSCALL_BIT; unused numbers elsewhere */
#define LOW_HALF_OF_ARGUMENT_0 (offsetof(struct seccomp_data, args) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4))
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define REFUSE(call, error) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), FAIL(error)

int confine_self(void) {
#ifdef __SANITIZE_ADDRESS__
        return 0;
#endif
        struct sock_filter instructions[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0),
                FAIL(ENOSYS),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_FIRST, 0, 1),
                FAIL(ENOSYS),
                REFUSE(execve, EPERM),
                REFUSE(execveat, EPERM),
#ifdef SYS_fork
                REFUSE(fork, EPERM),
                REFUSE(vfork, EPERM),
#endif
                REFUSE(clone3, ENOSYS), /* libc falls back to clone, whose flags can be seen */
                REFUSE(ptrace, EPERM),
                REFUSE(process_vm_readv, EPERM),
                REFUSE(process_vm_writev, EPERM),
                REFUSE(pidfd_getfd, EPERM),
                REFUSE(unshare, EPERM),
                REFUSE(setns, EPERM),
                REFUSE(mount, EPERM),
                REFUSE(umount2, EPERM),
                REFUSE(chroot, EPERM),
                REFUSE(open_by_handle_at, EPERM),
                REFUSE(bpf, EPERM),
                REFUSE(perf_event_open, EPERM),
                REFUSE(userfaultfd, EPERM),
                REFUSE(io_uring_setup, ENOSYS),
                REFUSE(keyctl, EPERM),
                REFUSE(add_key, EPERM),
                REFUSE(request_key, EPERM),
                REFUSE(personality, EPERM),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_HALF_OF_ARGUMENT_0),
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
                FAIL(EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = ELEMENTSOF(instructions), .filter = instructions };

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
