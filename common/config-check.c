/* What a configuration needs of this machine, and which of its keys have changed. */
#include "common/config-check.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/io-max.h"

static int PRINTF_LIKE(3, 4) refuse(char **ret_error, int error, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        if (vasprintf(ret_error, format, ap) < 0)
                *ret_error = NULL;
        va_end(ap);
        return error;
}

/* Not there, or no file. What cannot be looked at may well be right for the server. */
static int look_for_file(const char *path) {
        struct stat st;

        if (stat(path, &st) == 0)
                return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? -errno : 0;
}

static int check_audit_file(const struct Config *c, char **ret_error) {
        const char *path = strempty(c->audit_file), *slash = strrchr(path, '/');
        char *folder _cleanup_free_ = slash ? strndup(path, MAX((size_t) (slash - path), (size_t) 1)) : NULL;
        struct stat st;
        int r = look_for_file(path);

        if (!slash || r == 0)
                return 0;
        if (r == -ENOENT && folder && (stat(folder, &st) == 0 || (errno != ENOENT && errno != ENOTDIR)))
                return 0; /* it will be made */
        return refuse(ret_error, r, "[server] audit-file: %s: %s; make its folder, writable by the server's user, or name another", path, strerror(-r));
}

int config_check_files(const struct Config *c, char **ret_error) {
        const struct {
                const char *key, *path;
        } files[] = { { "certificate", c->tls_certificate }, { "key", c->tls_key }, { "client-ca", c->tls_client_ca } };

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                int r = isempty(files[i].path) || files[i].path[0] != '/' ? 0 : look_for_file(files[i].path);

                if (r < 0)
                        return refuse(ret_error, r, "[tls] %s: %s: %s; put the PEM file there, or name another", files[i].key, files[i].path, strerror(-r));
        }
        return check_audit_file(c, ret_error);
}

static int check_root(const struct Runtime *runtime, char **ret_error) {
        int fd _cleanup_close_ = isempty(runtime->root) ? -EBADF : open(runtime->root, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (isempty(runtime->root) || fd >= 0 || errno == EACCES)
                return 0;
        return refuse(ret_error, -errno, "%s: root %s cannot be opened: %s; it must be a folder that holds a whole system", runtime->file, runtime->root,
                      strerror(errno));
}

int config_check_machine(const struct Config *c, char **ret_error) {
        char **resolved _cleanup_strv_ = NULL;
        int r = io_max_resolve(c->io_max, &resolved, ret_error);

        for (size_t i = 0; i < c->n_runtimes && r >= 0; i++)
                r = check_root(&c->runtimes[i], ret_error);
        if (r < 0 || isempty(c->seccomp_policy))
                return r;
        r = look_for_file(c->seccomp_policy);
        return r < 0 ? refuse(ret_error, r, "[spawner] seccomp-policy: %s: %s; name a file of system calls, or leave the key out for the shipped one",
                              c->seccomp_policy, strerror(-r)) : 0;
}

int config_changes(const struct ConfigChange *keys, size_t n, char *const *more, char **ret) {
        char *text _cleanup_free_ = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (!keys[i].same)
                        fprintf(f, ", %s", keys[i].key);
        for (; more && *more; more++)
                fprintf(f, ", %s", *more);
        if (fclose(f) != 0)
                return -ENOMEM;
        *ret = size > 0 ? strdup(text + 2) : NULL;
        return size > 0 && !*ret ? -ENOMEM : 0;
}
