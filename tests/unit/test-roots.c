/* Runtimes with roots of their own: two versions side by side, each with what its root holds and nothing of the host; and what a root must
 * be, or the spawner does not start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "spawner/steps/steps.h"
#include "tests/unit/fake-server.h"

#define EXIT_CONFIG 78

static char work[80];

static void shell(const char *format, ...) PRINTF_LIKE(1, 2);

static void shell(const char *format, ...) {
        char command[2048];
        va_list args;
        va_start(args, format);
        vsnprintf(command, sizeof command, format, args);
        va_end(args);
        if (system(command) != 0)
                fail_msg("failed: %s", command);
}

/* A system of bash, cat, ls and their libraries. */
static void make_root(const char *name, const char *version) {
        shell("set -e; r=%s/%s; mkdir -p $r/usr/bin $r/usr/lib $r/etc $r/opt/own; ln -s usr/bin $r/bin; ln -s usr/lib $r/lib; ln -s usr/lib64 $r/lib64;"
              "for p in bash cat ls; do cp -L /bin/$p $r/usr/bin/; ldd /bin/$p | grep -o '/[^ ]*' | while read l; do "
              "mkdir -p $r/usr$(dirname ${l#/usr}); cp -L $l $r/usr${l#/usr}; done; done; echo %s >$r/usr/version; echo own >$r/opt/own/file;"
              "cp -L $r/usr/bin/cat $r/usr/bin/suid-cat; chmod 4755 $r/usr/bin/suid-cat;"
              "ln -s /etc/shadow $r/etc/services; ln -s /etc/gshadow $r/etc/os-release; echo rpc-of-%s >$r/etc/rpc; chown -R 0:0 $r", work, name, version, version);
}

static void write_runtime(const char *file, const char *version, const char *root) {
        shell("printf '[runtime]\\nname = own\\nversion = %s\\nexec = /bin/bash\\nargs = {code}\\ncode-name = main.sh\\nenv = PATH=/bin\\nroot = %s\\n'"
              " >%s/runtimes.d/%s.conf", version, root, spawner.folder, file);
}

static void stop_spawner(void) {
        if (spawner.socket >= 0)
                spawner.socket = close_fd(spawner.socket);
        if (spawner.pid > 0) {
                kill(spawner.pid, SIGTERM);
                assert_int_equal(waitpid(spawner.pid, NULL, 0), spawner.pid);
        }
        spawner.pid = 0;
}

static int set_up(void **state) {
        if (fake_server_set_up(state) < 0)
                return -1;
        stop_spawner();
        snprintf(work, sizeof work, "%s/roots", spawner.folder);
        make_root("a", "3.11");
        make_root("b", "3.12");
        char path[128];
        snprintf(path, sizeof path, "%s/a", work);
        write_runtime("own-a", "3.11", path);
        snprintf(path, sizeof path, "%s/b", work);
        write_runtime("own-b", "3.12", path);
        start_spawner();
        greet();
        return 0;
}

static void assert_out(const char *text) {
        if (!strstr(cell.out, text))
                fail_msg("\"%s\" is not in: %s\nstandard error: %s", text, cell.out, cell.err);
}

static void test_versions_side_by_side(void **state) {
        run_code("own:3.11", "cat /usr/version /etc/rpc");
        assert_string_equal(cell.out, "3.11\nrpc-of-3.11\n");
        run_code("own:3.12", "cat /usr/version /etc/rpc");
        assert_string_equal(cell.out, "3.12\nrpc-of-3.12\n");
        run_code("own", "cat /usr/version"); /* the first of the name */
        assert_string_equal(cell.out, "3.11\n");
        run_code("bash", "cat /usr/version || ls /opt || echo the host");
        assert_out("the host");
}

static void test_root_is_all_there_is(void **state) {
        run_code("own:3.11", "ls /usr /opt/own; cat /opt/own/file; ls /etc/services /etc/os-release; cat /etc/passwd; echo ~; ls -A ~; echo x >~/x && cat ~/x;"
                             "for d in / /usr /etc /opt /opt/own; do echo x >$d/x && echo WROTE $d; done; cat /proc/self/status");
        assert_out("/opt/own:\nfile\n\n/usr:\nbin\nlib\n");
        assert_out("own\nroot:x:0:0:");
        assert_out("/home/sandbox\nx\n");
        assert_out("NoNewPrivs:\t1");
        /* Links of the root to absolute paths end in the root, where there are no such files. */
        assert_true(strstr(cell.err, "/etc/services") && strstr(cell.err, "/etc/os-release"));
        assert_null(strstr(cell.out, "WROTE"));
}

/* A set-uid program of root is an ordinary one. */
static void test_set_uid_gives_nothing(void **state) {
        run_code("own:3.12", "/bin/suid-cat /proc/self/status | while read a b; do case $a in Uid:|CapEff:|CapPrm:) echo $a $b;; esac; done");
        assert_out("CapPrm: 0000000000000000\nCapEff: 0000000000000000\n");
        assert_null(strstr(cell.out, "Uid: 0"));
        /* What is bound into every cell is nosuid and nodev; devices are told apart by name. */
        run_code("bash", "while read a b c d where flags rest; do case $where,$flags in /dev/shm,*nosuid,nodev*|/dev/*,*nosuid*|*nosuid,nodev*) ;; "
                         "*) echo BARE $where $flags;; esac; done </proc/self/mountinfo; echo end");
        assert_string_equal(cell.out, "end\n");
}

/* Runs the spawner with one more line of config or a root, and gives what it says before it refuses. */
static void assert_refused(const char *expected) {
        char path[128], said[4096] = "";
        int status;
        snprintf(path, sizeof path, "%s/stderr", spawner.folder);
        int file _cleanup_close_ = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), saved _cleanup_close_ = dup(2);
        assert_true(file >= 0 && saved >= 0);
        dup2(file, 2);
        start_spawner();
        dup2(saved, 2);
        assert_int_equal(waitpid(spawner.pid, &status, 0), spawner.pid);
        spawner.pid = 0;
        assert_true(read_small(file, said, sizeof said) >= 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_CONFIG || !strstr(said, expected))
                fail_msg("status %x, said: %s", status, said);
}

static void test_roots_are_checked(void **state) {
        static const struct {
                const char *make, *expected;
        } bad[] = {
                {"", "cannot be opened: No such file or directory"},
                {"mkdir %s", "has no folder usr"},
                {"mkdir -p %s/usr && chmod 777 %s/usr", "folder usr must belong to root"},
                {"mkdir -p %s/usr && chmod 770 %s", "folder . must belong to root"},
                {"mkdir -p %s/usr && chown 1 %s", "folder . must belong to root"},
                /* Out of the root and into the host's: followed within. */
                {"mkdir -p %s && ln -s /usr/../../../usr %s/usr", "has no folder usr"},
        };
        stop_spawner();
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                char root[128], command[512];
                snprintf(root, sizeof root, "%s/bad%zu", work, i);
                const char *s = bad[i].make;
                size_t n = 0;
                for (; *s && n + sizeof root < sizeof command; s++) {
                        if (s[0] == '%' && s[1] == 's') {
                                n += (size_t) snprintf(command + n, sizeof command - n, "%s", root);
                                s++;
                        } else
                                command[n++] = *s;
                }
                command[n] = 0;
                shell("%s", n ? command : ":");
                write_runtime("own-bad", "bad", root);
                assert_refused(bad[i].expected);
                assert_refused("own-bad.conf");
        }
        shell("rm %s/runtimes.d/own-bad.conf", spawner.folder);
}

/* Where cores run one thread each there is nothing to do; a kernel that cannot is refused; else each run has a mark of its own. */
static void test_core_scheduling(void **state) {
        stop_spawner();
        shell("printf '[spawner]\\ncore-scheduling = yes\\n' >>%s/glovebox.conf", spawner.folder);
        int can = core_scheduling_probe();
        if (can == -EINVAL) {
                assert_refused("core-scheduling = yes in section [spawner], but this kernel cannot");
        } else {
                start_spawner();
                greet();
                run_code("python", "import ctypes\nc = ctypes.c_ulong(0)\nr = ctypes.CDLL(None).prctl(62, 0, 0, 0, ctypes.byref(c))\nprint(r, c.value != 0)");
                assert_string_equal(cell.out, can == -ENODEV ? "-1 False\n" : "0 True\n");
                stop_spawner();
        }
        shell("sed -i /core-scheduling/d %s/glovebox.conf", spawner.folder);
        start_spawner();
        greet();
        run_code("bash", "echo again");
        assert_string_equal(cell.out, "again\n");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_versions_side_by_side), cmocka_unit_test(test_root_is_all_there_is), cmocka_unit_test(test_set_uid_gives_nothing),
                cmocka_unit_test(test_roots_are_checked), cmocka_unit_test(test_core_scheduling),
        };
        if (geteuid() != 0) {
                puts("[  SKIPPED ] the spawner needs root; run this test as root");
                return 77;
        }
        return cmocka_run_group_tests(tests, set_up, fake_server_tear_down);
}
