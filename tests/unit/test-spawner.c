/* The real spawner, started as root with this program as its server: what runs in a cell, how it ends, and that nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/fake-server.h"

static void assert_out(const char *text) {
        if (!strstr(cell.out, text))
                fail_msg("\"%s\" is not in: %s\nstandard error: %s", text, cell.out, cell.err);
}

/* The tests. */

static void test_output_and_status(void **state) {
        run_code("bash", "echo out; echo err >&2; exit 7");
        assert_string_equal(cell.out, "out\n");
        assert_string_equal(cell.err, "err\n");
        assert_false(cell.signaled);
        assert_int_equal(cell.status, 7);
        assert_int_equal(cell.report_size, 0);
        run_code("bash", "kill -SEGV $$");
        assert_true(cell.signaled);
        assert_int_equal(cell.status, SIGSEGV);
        run_code("python", "print('p', 1 + 1)");
        assert_string_equal(cell.out, "p 2\n");
        run_code("bash", "cat; echo end");
        assert_string_equal(cell.out, "end\n");
}

static void test_wall(void **state) {
        run_code("bash", "cat /proc/self/status; id -un; hostname; ls /proc | grep -c '^1$'; ls -l /proc/self/fd | wc -l;"
                         "for d in / /usr /etc /dev /proc/sys/kernel; do touch $d/x && echo WROTE $d; done 2>&1;"
                         "mount -t tmpfs x /tmp && echo MOUNTED; umount /proc && echo UNMOUNTED; unshare -n true && echo UNSHARED;"
                         "kill -9 1 && echo KILLED; ls /sys /home /root /run; cat /etc/shadow && echo SHADOW;"
                         "grep -c : /proc/net/dev; ulimit -Hc; cat /proc/self/cgroup | grep '^0::'; env | wc -l; echo x >/dev/stderr && echo reopened;"
                         "exec 3>/dev/tcp/127.0.0.1/9 || echo refused");
        const char *const expected[] = {
                "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
                "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "\nGroups:\t \n", "sandbox\nglovebox\n0\n", "0::/\n", "reopened", "refused", "NSpid:",
        };
        const char *const forbidden[] = {"WROTE", "\nMOUNTED", "UNMOUNTED", "UNSHARED", "KILLED", "SHADOW", "Uid:\t0"};
        for (size_t i = 0; i < ELEMENTSOF(expected); i++)
                assert_out(expected[i]);
        for (size_t i = 0; i < ELEMENTSOF(forbidden); i++)
                if (strstr(cell.out, forbidden[i]))
                        fail_msg("\"%s\" happened: %s", forbidden[i], cell.out);
}

static void test_uids_are_the_cells_own(void **state) {
        struct stat st;
        start_code("bash", "id -u; sleep 100");
        assert_int_equal(fstat(cell.fds[ROLE(STDOUT)], &st), 0);
        uid_t first = st.st_uid;
        struct FakeCell kept = cell;
        start_code("bash", "sleep 100");
        assert_int_equal(fstat(cell.fds[ROLE(STDOUT)], &st), 0);
        assert_int_not_equal(st.st_uid, first);
        assert_true(first > 65536 && st.st_uid > 65536);
        end_run();
        close_cell();
        cell = kept;
        end_run();
        close_cell();
}

static void test_workspace_is_capped(void **state) {
        run_code("bash", "head -c 32M /dev/zero >big; stat -c %s big; for i in $(seq 2000); do : >f$i; done; ls | wc -l; ls /tmp | wc -l");
        char *rest;
        long bytes = strtol(cell.out, &rest, 10), files = strtol(rest, NULL, 10);
        assert_true(bytes > 15 * (long) MIB && bytes <= 16 * (long) MIB); /* not 32 */
        assert_true(files > 500 && files < 1100);
        assert_true(strstr(cell.err, "No space left") != NULL);
        run_code("bash", "ls -A | tr '\\n' ' '");
        assert_string_equal(cell.out, "main.sh "); /* nothing of the last one */
}

static void test_what_cannot_start(void **state) {
        assert_false(open_run("broken")); /* the interpreter is not there */
        assert_true(cell.failed);
        assert_string_equal(cell.step, "interpreter");
        next_until(CASE(CELL_CLOSED));
        assert_string_equal(cell.left, "");
        start_code("notaprogram", ""); /* it is there, and no program */
        next_until(CASE(MAIN_EXITED));
        end_run();
        close_cell();
        assert_int_equal(cell.status, 125);
        assert_true(cell.report_size == JOB_HEADER_SIZE + 4 + strlen("exec"));
        assert_int_equal(job_get_u32((uint8_t *) cell.report), REPORT_FAILED);
        assert_int_equal(job_get_u32((uint8_t *) cell.report + JOB_HEADER_SIZE), EACCES);
        assert_memory_equal(cell.report + JOB_HEADER_SIZE + 4, "exec", 4);
}

static void test_job_paths(void **state) {
        static const struct {
                enum JobType type;
                const char *bytes;
                size_t size;
                const char *step; /* NULL = works */
        } jobs[] = {
                {JOB_FILE, "\1a/b", 4, NULL},           {JOB_FILE, "\0../x", 5, "files"},  {JOB_FILE, "\0/etc/x", 7, "files"},
                {JOB_FILE, "\0a//b", 5, "files"},       {JOB_FILE, "\0main.sh", 8, "files"}, {JOB_FILE, "\2x", 2, "files"},
                {JOB_WORKING_DIR, "/", 1, NULL},        {JOB_WORKING_DIR, "/nope", 5, "working_dir"},
                {JOB_WORKING_DIR, "/proc/1/cwd", 11, "working_dir"}, {JOB_WORKING_DIR, "/proc/self/fd/3", 15, "working_dir"},
                {JOB_TIMEZONE, "Asia/Shanghai", 13, NULL}, {JOB_TIMEZONE, "Nope", 4, "timezone"},
                {JOB_TIMEZONE, "../../../etc/passwd", 19, "timezone"}, {JOB_EXEC, "/bin/sh", 7, "job"},
        };
        for (size_t i = 0; i < ELEMENTSOF(jobs); i++) {
                assert_true(open_run("bash"));
                write_record(jobs[i].type, jobs[i].bytes, jobs[i].size);
                write_record(JOB_CODE, "echo ran", 8);
                end_job();
                next_until(CASE(MAIN_EXITED));
                end_run();
                close_cell();
                assert_string_equal(cell.out, jobs[i].step ? "" : "ran\n");
                assert_int_equal(cell.status, jobs[i].step ? 125 : 0);
                if (jobs[i].step)
                        assert_memory_equal(cell.report + JOB_HEADER_SIZE + 4, jobs[i].step, strlen(jobs[i].step));
        }
}

/* Every later write shows, even one within the same tick of the clock: glovebox-start leaves times that no tick has. */
static void test_files_are_reported(void **state) {
        assert_true(open_run("bash"));
        write_record(JOB_FILE, "\1a/tool", 7);
        write_record(JOB_FILE_DATA, "12", 2);
        write_record(JOB_FILE_DATA, "345", 3);
        write_record(JOB_FILE, "\0empty", 6);
        const char *code = "stat -c '%i %s %.9Y %.9Z' main.sh a/tool empty; touch sibling; stat -c %.9Y sibling";
        write_record(JOB_CODE, code, strlen(code));
        end_job();
        next_until(CASE(MAIN_EXITED));
        end_run();
        close_cell();
        assert_int_equal(cell.report_size, 0);
        assert_int_equal(cell.n_files, 3);
        const size_t sizes[] = {strlen(code), 5, 0};
        char *line = cell.out;
        for (size_t i = 0; i < 3; i++) {
                const struct FileStamp *f = &cell.files[i];
                char expected[160];
                snprintf(expected, sizeof expected, "%llu %zu %llu.%09llu %llu.%09llu\n", (unsigned long long) f->inode, sizes[i],
                         (unsigned long long) f->mtime / 1000000000, (unsigned long long) f->mtime % 1000000000,
                         (unsigned long long) f->ctime / 1000000000, (unsigned long long) f->ctime % 1000000000);
                assert_int_equal(f->size, sizes[i]);
                assert_memory_equal(line, expected, strlen(expected));
                line += strlen(expected);
                /* ctime is the kernel's own; of a file that was written at once it was the same as mtime. */
                assert_true(f->mtime != f->ctime);
        }
}

static void ask_init(uint32_t type, const void *bytes, size_t length) {
        uint8_t record[256];
        assert_true(JOB_HEADER_SIZE + length <= sizeof record);
        job_put_header(record, type, (uint32_t) length);
        if (length > 0)
                memcpy(record + JOB_HEADER_SIZE, bytes, length);
        assert_int_equal(write(cell.fds[ROLE(COLLECT)], record, JOB_HEADER_SIZE + length), JOB_HEADER_SIZE + length);
}

static void init_says(void *buffer, size_t size) {
        struct pollfd p = {.fd = cell.fds[ROLE(FILES)], .events = POLLIN};
        for (char *at = buffer; size > 0;) {
                assert_int_equal(poll(&p, 1, 20000), 1);
                ssize_t n = read(p.fd, at, size);
                assert_true(n > 0);
                at += n;
                size -= (size_t) n;
        }
}

/* The answer as text: "CHANGE SKIPPED PATH" for each entry, content behind "=", then "end FLAGS". */
static void init_answers(char *out, size_t size) {
        uint8_t header[JOB_HEADER_SIZE], bytes[8192];
        out[0] = 0;
        for (;;) {
                size_t at = strlen(out);
                init_says(header, sizeof header);
                uint32_t type = job_get_u32(header), length = job_get_u32(header + 4);
                assert_true(length < sizeof bytes);
                init_says(bytes, length);
                bytes[length] = 0;
                if (type == FILES_ENTRY)
                        snprintf(out + at, size - at, "%d %d %s\n", bytes[0], bytes[1], (char *) bytes + 4 + FILE_STAMP_SIZE);
                else if (type == FILES_DATA)
                        snprintf(out + at, size - at, "=%s\n", (char *) bytes);
                else
                        snprintf(out + at, size - at, "end %d\n", bytes[0]);
                if (type == FILES_END)
                        return;
        }
}

static pid_t find_init(void) {
        pid_t init = 0;
        for (int i = 0; i < 200 && init == 0; i++, poll(NULL, 0, 10)) /* it gives itself the name */
                init = find_child(spawner.pid, "glovebox-init");
        assert_true(init > 0);
        return init;
}

/* What only the cell's user may read is read; a second question has the first one's answer as its base. */
static void test_FIL_16_init_collects(void **state) {
        char text[1024];
        uint64_t most = MIB;
        start_code("bash", "umask 077; mkdir out; echo mine >out/a; ln -s /etc/shadow out/link; mkfifo out/p; mkdir shut; chmod 0 shut; echo x >new;"
                           "setsid sleep 600 & mkdir -p out/deep; i=0; while [ $i -lt 30 ]; do echo z >out/deep/$i; i=$((i+1)); done");
        next_until(CASE(MAIN_EXITED));
        end_run();
        assert_int_equal(cell.n_files, 1);
        char base[FILE_STAMP_SIZE + 7];
        memcpy(base, &cell.files[0], FILE_STAMP_SIZE);
        memcpy(base + FILE_STAMP_SIZE, "main.sh", 7);
        ask_init(COLLECT_BASE, base, sizeof base);
        ask_init(COLLECT_PATTERN, "out/[!d]*", 9);
        ask_init(COLLECT_PATTERN, "out/deep/1", 10);
        ask_init(COLLECT_GO, &most, 8);
        init_answers(text, sizeof text);
        const char *first = "1 0 new\n1 0 out/a\n=mine\n\n1 0 out/deep/0\n1 0 out/deep/1\n=z\n\n1 0 out/deep/10\n";
        if (strncmp(text, first, strlen(first)) != 0)
                fail_msg("%s", text);
        assert_non_null(strstr(text, "1 0 out/deep/9\n1 1 out/link\n1 2 out/p\n0 6 shut\nend 0\n"));
        ask_init(COLLECT_GO, &most, 8);
        init_answers(text, sizeof text);
        assert_memory_equal(text, "1 0 main.sh\n", 12);
        close_cell();
}

/* Whatever is asked wrongly: init answers nothing more, reaps on, and the cell goes as ever. */
static void test_init_and_bad_questions(void **state) {
        char byte;
        start_code("bash", "(sleep 0.1 &) ; sleep 0.5; ls -d /proc/[0-9]* | wc -l; sleep 100");
        ask_init(COLLECT_PATTERN, "../x", 4);
        struct pollfd p = {.fd = cell.fds[ROLE(FILES)], .events = POLLIN};
        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_int_equal(read(p.fd, &byte, 1), 0);
        p.fd = cell.fds[ROLE(STDOUT)];
        assert_int_equal(poll(&p, 1, 20000), 1);
        end_run();
        close_cell();
        assert_false(cell.lost);
}

static void read_proc(pid_t pid, const char *name, char *text, size_t size) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
        int fd _cleanup_close_ = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0 && read_small(fd, text, size) > 0);
}

/* It looks at files as the cell's user, and is another one for whoever would signal or trace it; nothing that it came with is left. */
static void test_rights_of_init(void **state) {
        char text[4096], expected[128];
        struct stat st;
        start_code("bash", "cat /proc/1/status; ls -l /proc/1/fd; echo seen; sleep 100");
        assert_int_equal(fstat(cell.fds[ROLE(STDOUT)], &st), 0);
        pid_t init = find_init();
        read_proc(init, "status", text, sizeof text);
        static const char *const empty[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
        for (size_t i = 0; i < ELEMENTSOF(empty); i++) {
                snprintf(expected, sizeof expected, "\n%s:\t0000000000000000\n", empty[i]);
                assert_non_null(strstr(text, expected));
        }
        unsigned user = st.st_uid, own = user - 1;
        static const char *const ids[] = {"Uid", "Gid"};
        for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
                snprintf(expected, sizeof expected, "\n%s:\t%u\t%u\t%u\t%u\n", ids[i], own, own, own, user);
                assert_non_null(strstr(text, expected));
        }
        assert_non_null(strstr(text, "\nNoNewPrivs:\t1\n"));
        assert_non_null(strstr(text, "\nGroups:\t \n"));
        snprintf(text, sizeof text, "/proc/%d/environ", init);
        assert_int_equal(stat(text, &st), 0);
        assert_int_equal(st.st_uid, 0); /* not dumpable */
        snprintf(text, sizeof text, "/proc/%d/fd", init);
        DIR *fds = opendir(text);
        int n = 0;
        while (fds && readdir(fds))
                n++;
        closedir(fds);
        assert_int_equal(n, 2 + 3 + 3); /* ., .., /dev/null, the pipes and the folder */
        struct pollfd p = {.fd = cell.fds[ROLE(STDOUT)], .events = POLLIN};
        assert_int_equal(poll(&p, 1, 20000), 1);
        end_run();
        close_cell();
        assert_string_equal(cell.out, "seen\n");
}

static void test_descriptors_of_programs(void **state) {
        run_code("bash", "for fd in 3 4 5 6; do [ -e /proc/self/fd/$fd ] && echo open $fd; done; echo end");
        assert_string_equal(cell.out, "end\n");
}

static void test_what_will_not_die(void **state) {
        static const char *const codes[] = {
                "trap '' TERM INT HUP; exec 0<&- 1>&- 2>&-; while :; do :; done",
                "sleep 100 & setsid sleep 100 & kill -STOP 0",
                "import os, time\nfor i in range(20):\n  if os.fork() == 0: os.setsid(); time.sleep(600)\nprint('go', flush=True); time.sleep(600)",
                "import os\nprint('go', flush=True)\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        };
        for (size_t i = 0; i < ELEMENTSOF(codes); i++) {
                start_code(strncmp(codes[i], "import", 6) == 0 ? "python" : "bash", codes[i]);
                poll(NULL, 0, 500);
                usec_t before = now_monotonic();
                end_run();
                close_cell();
                assert_true(now_monotonic() - before < 5 * USEC_PER_SEC);
                assert_true(cell.signaled);
                assert_int_equal(cell.status, SIGKILL);
        }
        assert_int_equal(count_cell_folders(), 0);
}

static void test_waiting_for(void **state) {
        static const struct {
                const char *runtime, *code, *what;
        } cases[] = {
                {"bash", "sleep 100", "sleeping"},
                {"bash", "kill -STOP $$", "stopped by a signal"},
                {"bash", "while :; do :; done", "computing"},
                {"python", "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()", "waiting for a lock"},
                {"python", "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\ns.accept()", "waiting for the network"},
        };
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                start_code(cases[i].runtime, cases[i].code);
                for (int try = 0; try < 100 && !streq(cell.what, cases[i].what); try++) {
                        poll(NULL, 0, 50);
                        ask_waiting();
                }
                assert_string_equal(cell.what, cases[i].what);
                end_run();
                close_cell();
        }
}

static void test_lost_init(void **state) {
        start_code("bash", "sleep 100");
        assert_int_equal(kill(find_init(), SIGKILL), 0);
        /* The loss is told before the exit that it caused. */
        assert_int_equal(next(), CASE(CELL_LOST));
        assert_int_equal(next(), CASE(MAIN_EXITED));
        end_run();
        close_cell();
        run_code("bash", "kill -9 $$"); /* by itself: no loss */
        assert_false(cell.lost);
        assert_int_equal(cell.status, SIGKILL);
}

static void test_lost_builder(void **state) {
        start_code("bash", "sleep 100");
        pid_t builder = find_child(spawner.pid, "gb-builder");
        assert_true(builder > 0);
        assert_int_equal(kill(builder, SIGKILL), 0);
        next_until(CASE(MAIN_EXITED));
        assert_true(cell.lost);
        end_run();
        close_cell();
        run_code("bash", "echo again");
        assert_string_equal(cell.out, "again\n");
}

static void test_server_goes(void **state) {
        start_code("bash", "sleep 100 & sleep 100");
        close_cell_fds();
        spawner.socket = close_fd(spawner.socket);
        greet(); /* at once, while the cells are being destroyed */
        for (int i = 0; i < 200 && count_cell_folders() > 0; i++)
                poll(NULL, 0, 10);
        assert_int_equal(count_cell_folders(), 0);
        int second = try_connect();
        struct pollfd p = {.fd = second, .events = POLLIN};
        assert_true(poll(&p, 1, 5000) > 0 && (p.revents & POLLHUP)); /* one at a time */
        close_fd(second);
        run_code("bash", "echo again");
        assert_string_equal(cell.out, "again\n");
}

static void test_broken_protocol(void **state) {
        assert_int_equal(send(spawner.socket, "\377\377\377", 3, 0), 3);
        assert_int_equal(next(), -1);
        close_fd(spawner.socket);
        greet();
        send_open("bash", 1ULL << 50); /* above every cap: only this cell fails, the two may have read different configs */
        assert_int_equal(next(), CASE(CELL_FAILED));
        assert_string_equal(cell.step, "caps of the spawner");
        assert_int_equal(next(), CASE(CELL_CLOSED));
        send_open("bash", 1); /* below the least: no server says that */
        assert_int_equal(next(), -1);
        close_fd(spawner.socket);
        greet();
}

static void test_confused_server(void **state) {
        start_code("bash", "sleep 100");
        struct FakeCell kept = cell;
        start_code("bash", "sleep 100");
        send_end_run(99); /* no such run: this cell fails, the other one lives */
        next_until(CASE(CELL_CLOSED));
        assert_true(cell.failed);
        assert_string_equal(cell.step, "EndRun");
        assert_string_equal(cell.left, "");
        close_cell_fds();
        cell = kept;
        ask_waiting();
        assert_true(strlen(cell.what) > 0);
        end_run();
        close_cell();
}

static void test_nothing_adds_up(void **state) {
        run_code("bash", "true");
        int before = count_fds();
        for (int i = 0; i < 30; i++)
                run_code("bash", "true");
        assert_true(count_fds() < before + 10); /* some close just after the last message */
        assert_int_equal(count_cell_folders(), 0);
}

static void test_kill_and_sweep(void **state) {
        start_code("bash", "setsid sleep 1234 & echo $!; sleep 100");
        poll(NULL, 0, 300);
        assert_int_equal(kill(spawner.pid, SIGKILL), 0);
        assert_int_equal(waitpid(spawner.pid, NULL, 0), spawner.pid);
        close_fd(spawner.socket);
        assert_int_equal(count_cell_folders(), 1); /* nobody was left to remove it */
        char text[16];
        assert_true(read_small(cell.fds[ROLE(CGROUP_PROCS)], text, sizeof text) >= 0 || errno == ENODEV);
        start_spawner();
        greet();
        assert_int_equal(count_cell_folders(), 0);
        close_cell_fds();
        run_code("bash", "echo again");
        assert_string_equal(cell.out, "again\n");
}

static void test_second_instance_and_stop(void **state) {
        pid_t first = spawner.pid;
        int status;
        start_spawner();
        assert_int_equal(waitpid(spawner.pid, &status, 0), spawner.pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 78);
        spawner.pid = first;
        start_code("bash", "sleep 100");
        kill(first, SIGTERM);
        assert_int_equal(waitpid(first, &status, 0), first);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(count_cell_folders(), -1); /* not even its own folder */
        close_cell_fds();
        spawner.pid = 0;
}

/* An argument is the pattern of tests to leave out: User-Mode Linux panics on a fork bomb. */
int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_output_and_status), cmocka_unit_test(test_wall), cmocka_unit_test(test_uids_are_the_cells_own),
                cmocka_unit_test(test_workspace_is_capped), cmocka_unit_test(test_what_cannot_start), cmocka_unit_test(test_job_paths),
                cmocka_unit_test(test_files_are_reported), cmocka_unit_test(test_descriptors_of_programs),
                cmocka_unit_test(test_FIL_16_init_collects), cmocka_unit_test(test_init_and_bad_questions), cmocka_unit_test(test_rights_of_init),
                cmocka_unit_test(test_what_will_not_die), cmocka_unit_test(test_waiting_for), cmocka_unit_test(test_lost_init),
                cmocka_unit_test(test_lost_builder), cmocka_unit_test(test_server_goes), cmocka_unit_test(test_broken_protocol),
                cmocka_unit_test(test_confused_server),
                cmocka_unit_test(test_nothing_adds_up), cmocka_unit_test(test_kill_and_sweep), cmocka_unit_test(test_second_instance_and_stop),
        };
        if (geteuid() != 0) {
                puts("[  SKIPPED ] the spawner needs root; run this test as root");
                return 77;
        }
        if (argc > 1)
                cmocka_set_skip_filter(argv[1]);
        return cmocka_run_group_tests(tests, fake_server_set_up, fake_server_tear_down);
}
