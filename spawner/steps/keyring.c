/* A session keyring of the run's own, without a name: the inherited one is the spawner's. And no calls on keys at all: a uid's keyrings
 * outlive its processes, so the next cell with that uid would read what this one left, and could lock whoever tries to clean them out. The
 * filter of system calls refuses them; where that is waived, a small one of this step's own does. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "spawner/privileges.h"
#include "spawner/steps/steps.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define FOREIGN_FROM 0x40000000 /* x32 */
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define FOREIGN_FROM 0x80000000
#else
#error "the architecture's number for seccomp is missing here"
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)

/* Other ABIs have numbers of their own for the same calls, so none of theirs is answered. */
static int refuse_key_calls(void) {
        struct sock_filter filter[] = {
                LOAD(arch),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 0, 6),
                LOAD(nr),
                BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_FROM, 4, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_add_key, 3, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_request_key, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_keyctl, 1, 0),
                ALLOW,
                REFUSE,
        };
        struct sock_fprog program = {.len = ELEMENTSOF(filter), .filter = filter};
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

int step_keyring(struct StepContext *c) {
        int r = privileges_leave_keyrings();
        bool filtered = c->seccomp && !(c->without & LAYER_BIT(LAYER_SECCOMP));
        return r < 0 || filtered ? r : refuse_key_calls();
}
