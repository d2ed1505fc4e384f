/* Attacks on the file tree: what must not be written, what must not be read, and what must not grow. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "inside/attacks.h"

#define BLOCK 65536
#define LINE_MAX_ 4096

static const char *const fixed_folders[] = {"/", "/dev", "/etc", "/glovebox", "/usr", "/usr/bin", "/usr/lib", "/var"};

static int write_in_fixed_folder(const struct ProbeOrder *o) {
        char path[64];
        for (size_t i = 0; i < sizeof fixed_folders / sizeof fixed_folders[0]; i++) {
                snprintf(path, sizeof path, "%s/glovebox-probe", fixed_folders[i]);
                int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (fd < 0)
                        continue;
                close(fd);
                unlink(path);
                attack_found = fixed_folders[i];
                return 1;
        }
        return 0;
}

/* A writable file system would be kept by nothing but file modes. */
static int find_writable_system(const struct ProbeOrder *o) {
        struct statvfs v;
        for (size_t i = 0; i < sizeof fixed_folders / sizeof fixed_folders[0]; i++)
                if (statvfs(fixed_folders[i], &v) == 0 && !(v.f_flag & ST_RDONLY)) {
                        attack_found = fixed_folders[i];
                        return 1;
                }
        return 0;
}

static int remount_root(const struct ProbeOrder *o) {
        return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) == 0;
}

static int has_option(const char *options, const char *name) {
        size_t length = strlen(name);
        for (const char *p = options; *p; p += *p == ',') {
                size_t n = strcspn(p, ",");
                if (n == length && strncmp(p, name, n) == 0)
                        return 1;
                p += n;
        }
        return 0;
}

/* Every mount is nosuid, and nodev but for the device nodes themselves. */
static int find_loose_mount(const struct ProbeOrder *o) {
        char line[LINE_MAX_], where[LINE_MAX_], options[LINE_MAX_];
        int mounts = 0, found = 0;
        FILE *f = fopen("/proc/self/mountinfo", "re");
        if (!f)
                return -errno;
        while (fgets(line, sizeof line, f)) {
                if (sscanf(line, "%*d %*d %*s %*s %4095s %4095s", where, options) != 2)
                        continue;
                int is_device = strncmp(where, "/dev/", 5) == 0 && strcmp(where, "/dev/shm") != 0;
                found |= !has_option(options, "nosuid") || (!is_device && !has_option(options, "nodev"));
                mounts++;
        }
        fclose(f);
        return mounts ? found : -ENODATA;
}

/* 1 = more than the cap went into the folder. */
static int fill(const char *path, uint64_t cap) {
        static const char block[BLOCK];
        uint64_t written = 0;
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        while (written <= cap) {
                ssize_t n = write(fd, block, sizeof block);
                if (n <= 0)
                        break;
                written += (uint64_t) n;
        }
        close(fd);
        unlink(path);
        return written > cap;
}

static int overfill(const struct ProbeOrder *o) {
        static const char *const files[] = {
                "/dev/shm/glovebox-probe", "/home/sandbox/glovebox-probe", "/tmp/glovebox-probe", "/workspace/glovebox-probe",
        };
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
                int r = fill(files[i], o->workspace_bytes);
                if (r != 0)
                        return r;
        }
        return 0;
}

static int see_init(const struct ProbeOrder *o) {
        return access("/proc/1", F_OK) == 0;
}

static int see_processes(const struct ProbeOrder *o) {
        DIR *dir = opendir("/proc");
        if (!dir)
                return -errno;
        int found = 0, itself = 0;
        for (struct dirent *e; (e = readdir(dir));) {
                char *end;
                long pid = strtol(e->d_name, &end, 10);
                if (end == e->d_name || *end)
                        continue;
                itself |= pid == getpid();
                found |= pid != getpid();
        }
        closedir(dir);
        return itself ? found : -ENODATA;
}

static int has_entries(int fd) {
        DIR *dir = fdopendir(fd);
        if (!dir) {
                close(fd);
                return 0;
        }
        int found = 0;
        for (struct dirent *e; (e = readdir(dir));)
                found |= strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
        closedir(dir);
        return found;
}

/* A file with a byte in it, or a folder with something in it. */
static int can_read(const char *path) {
        char byte;
        struct stat st;
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return 0;
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
                return has_entries(fd);
        int found = read(fd, &byte, 1) == 1;
        close(fd);
        return found;
}

static int read_kernel_facts(const struct ProbeOrder *o) {
        static const char *const paths[] = {
                "/proc/kcore",      "/proc/kallsyms",   "/proc/keys",       "/proc/key-users",     "/proc/modules", "/proc/interrupts",
                "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats", "/proc/acpi",     "/proc/scsi",
        };
        for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
                if (can_read(paths[i])) {
                        attack_found = paths[i];
                        return 1;
                }
        return 0;
}

static int write_kernel_settings(const struct ProbeOrder *o) {
        static const char *const paths[] = {
                "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/shmmax",
                "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/sys/vm/drop_caches",
        };
        for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
                int fd = open(paths[i], O_WRONLY | O_CLOEXEC);
                if (fd < 0)
                        continue;
                struct stat st;
                int is_null = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode); /* masked by /dev/null */
                close(fd);
                if (!is_null) {
                        attack_found = paths[i];
                        return 1;
                }
        }
        return 0;
}

static int find_writable_settings(const struct ProbeOrder *o) {
        struct statvfs v;
        return statvfs("/proc/sys", &v) == 0 && !(v.f_flag & ST_RDONLY);
}

const struct Attack attacks_on_files[] = {
        {LAYER_READ_ONLY_ROOT, "write into a system folder", write_in_fixed_folder, false},
        {LAYER_READ_ONLY_ROOT, "find a system folder on a writable mount", find_writable_system, false},
        {LAYER_READ_ONLY_ROOT, "remount the root writable", remount_root, false},
        {LAYER_READ_ONLY_ROOT, "find a mount that honours set-uid files or devices", find_loose_mount, false},
        {LAYER_READ_ONLY_ROOT, "write more than the workspace's cap", overfill, false},
        {LAYER_PRIVATE_PROC, "see init in /proc", see_init, false},
        {LAYER_PRIVATE_PROC, "see processes of others in /proc", see_processes, false},
        {LAYER_MASKED_PROC, "read the kernel's own facts in /proc", read_kernel_facts, false},
        {LAYER_MASKED_PROC, "write a setting of the kernel", write_kernel_settings, false},
        {LAYER_MASKED_PROC, "find /proc/sys on a writable mount", find_writable_settings, false},
        {LAYER_NONE, NULL, NULL, false},
};
