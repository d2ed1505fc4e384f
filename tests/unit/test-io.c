/* spawner/limits/io.c: io-max of the config, and the weights of cells. Files in a plain folder stand for a cgroup's. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "spawner/limits/driver.h"
#include "spawner/limits/io.h"

static char *folder(void) {
        static char path[64];
        strcpy(path, "/tmp/test-io-XXXXXX");
        assert_non_null(mkdtemp(path));
        return path;
}

static void put_file(int dir, const char *name) {
        int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_true(fd >= 0);
        close(fd);
}

static const char *content(int dir, const char *name) {
        static char text[128];
        int fd = openat(dir, name, O_RDONLY);
        assert_true(fd >= 0);
        ssize_t n = read(fd, text, sizeof text - 1);
        close(fd);
        assert_true(n >= 0);
        text[n] = 0;
        return text;
}

static void weights_follow_cpus(void **state) {
        static const struct {
                double cpus;
                const char *weight;
        } table[] = { { 1, "100" }, { 0.5, "50" }, { 2, "200" }, { 0.001, "1" }, { 4096, "10000" } };
        int dir = open(folder(), O_RDONLY | O_DIRECTORY);
        put_file(dir, "cpu.weight");
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                struct Limits limits = { .cpus = table[i].cpus };
                put_file(dir, "cpu.weight");
                assert_int_equal(cell_share(dir, CONTROLLER_CPU | CONTROLLER_IO, &limits), 0); /* there is no io.weight here */
                assert_string_equal(content(dir, "cpu.weight"), table[i].weight);
        }
        put_file(dir, "cpu.weight");
        assert_int_equal(cell_share(dir, CONTROLLER_MEMORY, &(struct Limits) { .cpus = 2 }), 0);
        assert_string_equal(content(dir, "cpu.weight"), "");
        unlinkat(dir, "cpu.weight", 0);
        close(dir);
}

static void expect_fault(const char *line, const char *words) {
        char *lines[] = { (char *) line, NULL }, **resolved = NULL, *error = NULL;
        assert_true(io_max_resolve(lines, &resolved, &error) < 0);
        assert_null(resolved);
        if (!error || !strstr(error, words))
                fail_msg("\"%s\" is not in \"%s\"", words, error ? error : "");
        free(error);
}

static void wrong_lines_are_told(void **state) {
        expect_fault("", "must look like");
        expect_fault("/dev/null", "must look like");
        expect_fault("/dev/nowhere rbps=1M", "/dev/nowhere: No such file");
        expect_fault("/dev/null rbps=1M", "/dev/null is no block device");
}

/* Where the machine has a disk, or a loop device. */
static const char *disk(void) {
        static const char *const names[] = { "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0", "/dev/ubda", "/dev/ram0" };
        struct stat st;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (stat(names[i], &st) == 0 && S_ISBLK(st.st_mode))
                        return names[i];
        return NULL;
}

static void a_disk_is_named_by_its_numbers(void **state) {
        char line[128], wrong[128], *lines[] = { line, NULL }, **resolved = NULL, *error = NULL;
        struct stat st;
        if (!disk())
                return;
        snprintf(line, sizeof line, "%s rbps=10M wiops=100", disk());
        if (io_max_resolve(lines, &resolved, &error) < 0)
                fail_msg("%s", error);
        assert_int_equal(stat(disk(), &st), 0);
        snprintf(wrong, sizeof wrong, "%u:%u rbps=10485760 wiops=100", (unsigned) (st.st_rdev >> 8 & 0xfff), (unsigned) (st.st_rdev & 0xff));
        assert_string_equal(resolved[0], wrong);
        int dir = open(folder(), O_RDONLY | O_DIRECTORY);
        put_file(dir, "io.max");
        assert_int_equal(io_max_apply(dir, resolved), 0);
        assert_string_equal(content(dir, "io.max"), wrong);
        unlinkat(dir, "io.max", 0);
        close(dir);
        strv_free(resolved);
        static const char *const words[] = { "rbps=0", "rbps=", "rbps=x", "bps=1", "rbps", "=5", "rbps=-1" };
        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                snprintf(wrong, sizeof wrong, "%s wbps=1M %s", disk(), words[i]);
                expect_fault(wrong, "is not one of rbps");
        }
}

RUN(T(weights_follow_cpus), T(wrong_lines_are_told), T(a_disk_is_named_by_its_numbers))
