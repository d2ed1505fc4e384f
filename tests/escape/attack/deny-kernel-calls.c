/* Calls that reach deep into the kernel, with arguments that would work for whoever may make them.
 * CASES: ESC-14
 * ATTEMPTS: 54 */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <time.h>

#include "attack.h"

static void inside_the_kernel(void) {
        union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
        attempt("bpf map", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
        struct bpf_insn instructions[] = {{.code = 0xb7}, {.code = 0x95}};
        union bpf_attr program = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insns = (uintptr_t) instructions, .insn_cnt = 2,
                                  .license = (uintptr_t) "GPL"};
        attempt("bpf program", syscall(SYS_bpf, BPF_PROG_LOAD, &program, sizeof program));
        struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .config = PERF_COUNT_SW_CPU_CLOCK,
                                        .exclude_kernel = 1, .exclude_hv = 1};
        attempt("perf_event_open", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
        attempt("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC | 1));
        attempt("init_module", syscall(SYS_init_module, "", 0, ""));
        attempt("finit_module", syscall(SYS_finit_module, 0, "", 0));
        attempt("delete_module", syscall(SYS_delete_module, "none", O_NONBLOCK));
        attempt("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
        attempt("kexec_file_load", syscall(SYS_kexec_file_load, 0, 0, 0, "", 0));
        attempt("modify_ldt", syscall(SYS_modify_ldt, 0, (char[64]){}, 64));
        attempt("iopl", syscall(SYS_iopl, 3));
        attempt("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
        attempt("syslog", syscall(SYS_syslog, 10, NULL, 0));
        attempt("lookup_dcookie", syscall(SYS_lookup_dcookie, 1, (char[64]){}, 64));
        attempt("uselib", syscall(SYS_uselib, "/usr/bin/env"));
        attempt("remap_file_pages", syscall(SYS_remap_file_pages, 0, 0, 0, 0, 0));
        attempt("io_setup", syscall(SYS_io_setup, 1, &(unsigned long){0}));
        attempt("memfd_secret", syscall(447, 0));
        attempt("statmount", syscall(457, NULL, NULL, 0, 0));
        attempt("listmount", syscall(458, (uint64_t[4]){32, 0, ~0ULL}, (uint64_t[8]){}, 8, 0));
        attempt("lsm_list_modules", syscall(461, (uint64_t[32]){}, &(uint32_t){256}, 0));
}

/* Apart, since a traced process stops at every signal. */
static int be_traced(void *argument) {
        (void) argument;
        return outcome(syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0));
}

static int be_asked(void *argument) {
        return outcome(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, argument));
}

static void other_processes(void) {
        char there[8], here[8];
        struct iovec local = {here, sizeof here}, remote = {there, sizeof there};
        attempt_apart("ptrace traceme", be_traced, NULL);
        attempt("ptrace attach to init", syscall(SYS_ptrace, PTRACE_ATTACH, 1, 0, 0));
        attempt("ptrace seize init", syscall(SYS_ptrace, PTRACE_SEIZE, 1, 0, 0));
        attempt("process_vm_readv", syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0));
        attempt("process_vm_writev", syscall(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0));
        int self = (int) syscall(SYS_pidfd_open, getpid(), 0);
        attempt("pidfd_getfd", syscall(SYS_pidfd_getfd, self, 0, 0));
        attempt("process_madvise", syscall(SYS_process_madvise, self, &remote, 1, 21, 0));
        attempt("process_mrelease", syscall(448, self, 0));
        attempt("kcmp", syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, 0, 1));
        attempt("move_pages", syscall(SYS_move_pages, 0, 1, (void *[]){there}, NULL, (int[1]){}, 0));
        attempt("migrate_pages", syscall(SYS_migrate_pages, 0, 1, &(unsigned long){1}, &(unsigned long){1}));
        attempt("set_mempolicy_home_node", syscall(450, 0, 0, 0, 0));
}

static int filter_by_prctl(void *argument) {
        return outcome(syscall(SYS_prctl, *(uint64_t *) argument, SECCOMP_MODE_FILTER,
                               &(struct sock_fprog){1, (struct sock_filter[]){BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW)}}, 0, 0));
}

static unsigned long here_address(void) {
        return (unsigned long) &attempts;
}

static void filters(void) {
        struct sock_fprog all = {1, (struct sock_filter[]){BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW)}};
        attempt_apart("seccomp with a listener", be_asked, &all);
        attempt("seccomp action", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &(uint32_t){SECCOMP_RET_USER_NOTIF}));
        attempt_apart("prctl seccomp", filter_by_prctl, &(uint64_t){PR_SET_SECCOMP});
        attempt_apart("prctl seccomp with high bits", filter_by_prctl, &(uint64_t){0x300000000 | PR_SET_SECCOMP});
        attempt("prctl mm", syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_ARG_START, here_address(), 0, 0));
}

static void the_host(void) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        struct timeval same = {now.tv_sec, now.tv_nsec / 1000};
        attempt("clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &now));
        attempt("settimeofday", syscall(SYS_settimeofday, &same, NULL));
        attempt("adjtimex", syscall(SYS_adjtimex, &(struct timex){.modes = ADJ_TICK, .tick = 10000}));
        attempt("clock_adjtime", syscall(SYS_clock_adjtime, CLOCK_REALTIME, &(struct timex){.modes = ADJ_TICK, .tick = 10000}));
        attempt("sethostname", syscall(SYS_sethostname, "evil", 4));
        attempt("setdomainname", syscall(SYS_setdomainname, "evil", 4));
        attempt("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
        attempt("swapon", syscall(SYS_swapon, "/workspace/swap", 0));
        attempt("swapoff", syscall(SYS_swapoff, "/dev/vda2"));
        attempt("acct", syscall(SYS_acct, NULL));
        attempt("quotactl", syscall(SYS_quotactl, 0x80000100, NULL, 0, NULL));
        attempt("quotactl_fd", syscall(443, 0, 0x80000100, 0, NULL));
        attempt("vhangup", syscall(SYS_vhangup));
        attempt("nfsservctl", syscall(SYS_nfsservctl, 0, NULL, NULL));
        attempt("fanotify_init", syscall(SYS_fanotify_init, 0x200, O_RDONLY));
        attempt("fanotify_mark", syscall(SYS_fanotify_mark, -1, 1, 1, AT_FDCWD, "/"));
}

int main(void) {
        inside_the_kernel();
        other_processes();
        filters();
        the_host();
        return finish();
}
