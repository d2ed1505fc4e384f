/* The compiled filter of system calls, ready to load. */
#pragma once

#include "common/util.h"

struct Policy;
struct sock_filter;

struct SeccompProgram {
        struct sock_filter *instructions;
        unsigned short n;
};

struct SeccompPrograms {
        struct SeccompProgram arguments, calls;
        bool log; /* denied calls go to the kernel's log (audit records of type 1326) */
};

/* On -EINVAL ret_error says what is wrong. */
int seccomp_programs_compile(const struct Policy *policy, bool debug, struct SeccompPrograms *ret, char **ret_error);
void seccomp_programs_done(struct SeccompPrograms *p);
