/* Runs a program for the kernel's seccomp as the kernel would, instruction by instruction. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "tests/unit/unit.h"

/* What the program returns. */
static inline uint32_t filter_run(const struct sock_filter *program, size_t n, const struct seccomp_data *data) {
        uint32_t a = 0;

        for (size_t i = 0; i < n; i++) {
                const struct sock_filter *f = &program[i];
                switch (f->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        assert_true(f->k % 4 == 0 && f->k + 4 <= sizeof *data);
                        memcpy(&a, (const char *) data + f->k, 4);
                        break;
                case BPF_ALU | BPF_AND | BPF_K:
                        a &= f->k;
                        break;
                case BPF_JMP | BPF_JA:
                        i += f->k;
                        break;
                case BPF_JMP | BPF_JEQ | BPF_K:
                        i += a == f->k ? f->jt : f->jf;
                        break;
                case BPF_JMP | BPF_JSET | BPF_K:
                        i += a & f->k ? f->jt : f->jf;
                        break;
                case BPF_JMP | BPF_JGT | BPF_K:
                        i += a > f->k ? f->jt : f->jf;
                        break;
                case BPF_JMP | BPF_JGE | BPF_K:
                        i += a >= f->k ? f->jt : f->jf;
                        break;
                case BPF_RET | BPF_K:
                        return f->k;
                default:
                        fail_msg("instruction %zu has the code %x", i, f->code);
                }
        }
        fail_msg("it runs past its end");
        return 0;
}
