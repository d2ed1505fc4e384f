/* A library that LD_PRELOAD brings into a program: says with what rights its constructor runs. */
#include <stdio.h>
#include <string.h>

__attribute__((constructor)) static void look(void) {
        FILE *f = fopen("/proc/self/status", "re");
        char line[256];
        while (f && fgets(line, sizeof line, f))
                if (strncmp(line, "CapEff", 6) == 0 || strncmp(line, "CapBnd", 6) == 0 || strncmp(line, "Seccomp:", 8) == 0 ||
                    strncmp(line, "NoNewPrivs", 10) == 0 || strncmp(line, "Uid", 3) == 0) {
                        for (char *c = line; *c; c++)
                                if (*c == '\t')
                                        *c = ' ';
                        printf("HOOK %s", line);
                }
        if (f)
                fclose(f);
        fflush(stdout);
}
