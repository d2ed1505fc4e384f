/* The compiled filter of system calls, ready to load. */
#pragma once

#include "common/util.h"

struct Policy;
struct sock_filter;

struct SeccompProgram {
        struct sock_filter *instructions;
        unsigned short n;
        bool log; /* denied calls go to the kernel's log (audit records of type 1326) */
};

/* Which rule answers a call: its first denial by conditions that holds, else a permission by conditions that holds, else its rule without
 * conditions, else ENOSYS, as all calls of other architectures. On -EINVAL ret_error says what is wrong; -EFBIG: the kernel takes at most
 * 4096 instructions. */
int seccomp_program_compile(const struct Policy *policy, bool debug, struct SeccompProgram *ret, char **ret_error);
void seccomp_program_done(struct SeccompProgram *p);
