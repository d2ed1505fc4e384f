/* Guessing the runtime. Endings are the server's to tell; the names of interpreters in #! lines are common knowledge. */
#include "client/guess.h"

#include <stdio.h>

static const struct {
        const char *interpreter;
        const char *runtime;
} interpreters[] = {
        { "dash", "bash" },         { "ksh", "bash" },          { "node", "javascript" },
        { "nodejs", "javascript" }, { "pypy", "python" },       { "sh", "bash" },
};

/* "python", or the first "python:VERSION". */
static const Glovebox__V1__RuntimeInfo *find_runtime(const Glovebox__V1__GetInfoResponse *info, const char *name) {
        size_t n = strlen(name);

        for (size_t i = 0; i < info->n_runtimes; i++) {
                const char *known = info->runtimes[i]->name;
                if (strncmp(known, name, n) == 0 && (known[n] == '\0' || known[n] == ':'))
                        return info->runtimes[i];
        }
        return NULL;
}

static const Glovebox__V1__RuntimeInfo *by_ending(const Glovebox__V1__GetInfoResponse *info, const char *name) {
        size_t length = strlen(name);

        for (size_t i = 0; i < info->n_runtimes; i++) {
                const Glovebox__V1__RuntimeInfo *runtime = info->runtimes[i];

                for (size_t j = 0; j < runtime->n_endings; j++) {
                        size_t n = strlen(runtime->endings[j]);
                        if (n > 0 && length > n && streq(name + length - n, runtime->endings[j]))
                                return runtime;
                }
        }
        return NULL;
}

/* "#!/usr/bin/env -S python3.11 -u" → "python" */
static bool interpreter_of(const char *code, char *buffer, size_t size) {
        const char *p = code + 2;
        size_t n;

        if (strncmp(code, "#!", 2) != 0)
                return false;
        for (int words = 0; words < 4; words++) {
                const char *slash;

                p += strspn(p, " \t");
                n = strcspn(p, " \t\r\n");
                slash = memrchr(p, '/', n);
                if (slash) {
                        n -= (size_t) (slash + 1 - p);
                        p = slash + 1;
                }
                if (n == 0 || n >= size)
                        return false;
                (void) snprintf(buffer, size, "%.*s", (int) n, p);
                p += n;
                if (!streq(buffer, "env") && *buffer != '-')
                        break;
        }
        while (n > 1 && strchr("0123456789.", buffer[n - 1]))
                buffer[--n] = '\0';
        return true;
}

const char *guess_runtime(const Glovebox__V1__GetInfoResponse *info, const char *name, const char *code) {
        const Glovebox__V1__RuntimeInfo *found = name ? by_ending(info, name) : NULL;
        char interpreter[64] = "";

        if (!found && interpreter_of(code, interpreter, sizeof(interpreter)))
                found = find_runtime(info, interpreter);
        for (size_t i = 0; !found && i < ELEMENTSOF(interpreters); i++)
                if (streq(interpreters[i].interpreter, interpreter))
                        found = find_runtime(info, interpreters[i].runtime);
        return found ? found->name : NULL;
}

char *guess_list(const Glovebox__V1__GetInfoResponse *info) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        bool any = false;

        if (!out)
                return NULL;
        for (size_t i = 0; i < info->n_runtimes; i++) {
                const Glovebox__V1__RuntimeInfo *runtime = info->runtimes[i];

                if (!runtime->available)
                        continue;
                fprintf(out, "%s%s", any ? ", " : "", runtime->name);
                for (size_t j = 0; j < runtime->n_endings; j++)
                        fprintf(out, "%s%s%s", j == 0 ? " (" : " ", runtime->endings[j], j + 1 == runtime->n_endings ? ")" : "");
                any = true;
        }
        if (!any)
                fputs("no runtime at all", out);
        if (fclose(out) != 0) {
                free(text);
                return NULL;
        }
        return text;
}
