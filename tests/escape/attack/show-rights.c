/* Prints with what rights it runs. With the argument "all" also what those beside it get that are set-uid, set-gid or have capabilities. */
#include "attack.h"

static void show(const char *name) {
        char line[256], effective[64] = "?", permitted[64] = "?";
        FILE *f = fopen("/proc/self/status", "re");
        while (f && fgets(line, sizeof line, f)) {
                sscanf(line, "CapEff: %63s", effective);
                sscanf(line, "CapPrm: %63s", permitted);
        }
        if (f)
                fclose(f);
        printf("%s %d %d %d %d %s %s\n", name, getuid() == geteuid(), getgid() == getegid(), geteuid() == 0, getegid() == 0, effective, permitted);
        fflush(stdout);
}

int main(int argc, char **argv) {
        static const char *const names[] = {"plain", "setuid", "setgid", "capable"};
        char path[PATH_MAX];
        const char *slash = strrchr(argv[0], '/');
        show(slash ? slash + 1 : argv[0]);
        if (argc < 2 || strcmp(argv[1], "all") != 0 || !slash)
                return 0;
        for (size_t i = 0; i < COUNT(names); i++) {
                snprintf(path, sizeof path, "%.*s/%s", (int) (slash - argv[0]), argv[0], names[i]);
                pid_t pid = fork();
                if (pid == 0) {
                        execl(path, path, NULL);
                        printf("%s cannot be run: %s\n", names[i], strerror(errno));
                        exit(0);
                }
                waitpid(pid, NULL, 0);
        }
        return 0;
}
