/* System calls by another door: 32-bit calls (int 0x80), x32 numbers, numbers with high bits. A filter that knows native numbers alone
 * would let them through.
 * CASES: ESC-10
 * ATTEMPTS: 30 */
#include "attack.h"

#define X32 0x40000000U

static long native(long number, long a, long b, long c, long d, long e) {
        long result;
        register long r10 asm("r10") = d;
        register long r8 asm("r8") = e;
        asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
        if (result < 0 && result > -4096) {
                errno = (int) -result;
                return -1;
        }
        return result;
}

/* Pointers fit: the program is linked below 4 GiB. */
static long old(long number, long a, long b, long c, long d, long e) {
        long result;
        asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "r8", "r9", "r10", "r11", "memory");
        int value = (int) result;
        if (value < 0 && value > -4096) {
                errno = -value;
                return -1;
        }
        return value;
}

struct Door {
        const char *name;
        long (*call)(long, long, long, long, long, long);
        long number, arguments[5];
};

static char tmpfs[] = "tmpfs", tmp[] = "/tmp", slash[] = "/", passwd[] = "/etc/passwd";

static int go(void *argument) {
        const struct Door *d = argument;
        errno = 0;
        return outcome(d->call(d->number, d->arguments[0], d->arguments[1], d->arguments[2], d->arguments[3], d->arguments[4]));
}

int main(void) {
        const struct Door doors[] = {
                /* answered at all: another architecture must not be */
                {"int80 getpid", old, 20, {}},
                {"int80 getuid", old, 199, {}},
                {"int80 open", old, 5, {(long) passwd}},
                {"int80 fork", old, 2, {}},
                {"int80 mount", old, 21, {(long) tmpfs, (long) tmp, (long) tmpfs}},
                {"int80 umount2", old, 52, {(long) tmp, 2}},
                {"int80 unshare", old, 310, {CLONE_NEWUSER | CLONE_NEWNS}},
                {"int80 clone", old, 120, {CLONE_NEWUSER | SIGCHLD}},
                {"int80 chroot", old, 61, {(long) tmp}},
                {"int80 pivot_root", old, 217, {(long) slash, (long) slash}},
                {"int80 ptrace", old, 26, {0}},
                {"int80 socketcall netlink", old, 102, {1, (long) (int32_t[]){16, 3, 0}}},
                {"int80 socket", old, 359, {16, 3, 0}},
                {"int80 io_uring_setup", old, 425, {1, (long) (char[120]){}}},
                {"int80 keyctl", old, 288, {0, -4, 0}},
                {"int80 add_key", old, 286, {(long) "user", (long) "k", (long) "v", 1, -4}},
                {"int80 bpf", old, 357, {0, (long) (char[72]){}, 72}},
                {"int80 setns", old, 346, {0, 0}},
                {"int80 userfaultfd", old, 374, {1}},
                {"int80 modify_ldt", old, 123, {0, (long) (char[64]){}, 64}},
                {"int80 vm86", old, 166, {0, 0}},
                {"int80 set_thread_area", old, 243, {(long) (int32_t[4]){-1, 0, 0, 0}}},
                {"x32 getpid", native, X32 + 39, {}},
                {"x32 open", native, X32 + 2, {(long) passwd}},
                {"x32 mount", native, X32 + 165, {(long) tmpfs, (long) tmp, (long) tmpfs}},
                {"x32 unshare", native, X32 + 272, {CLONE_NEWUSER}},
                {"x32 ptrace", native, X32 + 521, {0}},
                {"x32 ioctl TIOCSTI", native, X32 + 514, {0, 0x5412, (long) "x"}},
                {"x32 process_vm_readv", native, X32 + 539, {1}},
                /* the kernel looks at the low half of the number alone */
                {"unshare with high bits", native, 0x100000000L + SYS_unshare, {CLONE_NEWUSER}},
                {"mount with high bits", native, 0x4500000000L + SYS_mount, {(long) tmpfs, (long) tmp, (long) tmpfs}},
                {"keyctl with high bits", native, (long) 0x8000000000000000UL + SYS_keyctl, {0, -4, 0}},
        };
        for (size_t i = 0; i < COUNT(doors); i++)
                attempt_apart(doors[i].name, go, (void *) &doors[i]);
        return finish();
}
