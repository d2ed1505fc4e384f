/* glovebox-probe: attacks each layer of the wall from inside a cell, as its user's code could, and tells what succeeded. The spawner runs it
 * before it serves anyone, and for `glovebox-spawner --check`. Its orders come down descriptor 3, its answers go up the standard output; then
 * it waits to be frozen and killed, which is the last of the probes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside/attacks.h"

#define FD_ORDER 3

static const struct AttackTable {
        const struct Attack *attacks;
} tables[] = {{attacks_on_namespaces}, {attacks_on_files}, {attacks_on_rights}};

const char *attack_found;

int attack_in_child(int (*attack)(const struct ProbeOrder *o), const struct ProbeOrder *o) {
        int status;
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                int r = attack(o);
                _exit(r > 0 ? 1 : r < 0 ? 2 : 0);
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        if (WIFSIGNALED(status))
                return 0; /* died of it */
        return WEXITSTATUS(status) == 2 ? -EIO : WEXITSTATUS(status);
}

static int read_order(struct ProbeOrder *o) {
        size_t got = 0;
        while (got < sizeof *o) {
                ssize_t n = read(FD_ORDER, (char *) o + got, sizeof *o - got);
                if (n <= 0)
                        return -1;
                got += (size_t) n;
        }
        o->socket[PROBE_SOCKET_MAX - 1] = 0;
        return 0;
}

static int answer(uint32_t layer, int result, const char *attack) {
        struct ProbeAnswer a = {.layer = layer, .result = result};
        snprintf(a.attack, sizeof a.attack, "%s%s%s%s", attack, attack_found ? " (" : "", attack_found ? attack_found : "", attack_found ? ")" : "");
        attack_found = NULL;
        return write(STDOUT_FILENO, &a, sizeof a) == (ssize_t) sizeof a ? 0 : -1;
}

/* An attack that could not be tried proves nothing. Where the operator's filter may be the reason, the run without filter has to. */
static bool is_for_other_run(const struct ProbeOrder *o, int result) {
        return result < 0 && o->policy_refuses_more && !(o->without & LAYER_BIT(LAYER_SECCOMP));
}

static int run_table(const struct Attack *table, const struct ProbeOrder *o) {
        for (const struct Attack *a = table; a->run; a++) {
                if (o->without & LAYER_BIT(a->layer))
                        continue;
                int r = a->in_child ? attack_in_child(a->run, o) : a->run(o);
                if (!is_for_other_run(o, r) && answer(a->layer, r, a->words) < 0)
                        return -1;
        }
        return 0;
}

int main(void) {
        struct ProbeOrder order;
        prctl(PR_SET_NAME, "glovebox-probe");
        if (read_order(&order) < 0)
                return 1;
        for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
                if (run_table(tables[i].attacks, &order) < 0)
                        return 1;
        if (answer(LAYER_NONE, 0, "") < 0)
                return 1;
        for (;;)
                pause();
}
