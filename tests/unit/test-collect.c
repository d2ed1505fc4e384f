/* What init tells of the workspace's files: a process with a plain user's rights answers questions over pipes. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/collect.h"
#include "common/job.h"
#include "glovebox/v1/execution.pb-c.h"
#include "inside/collect.h"
#include "tests/unit/unit.h"

#define PLAIN 2130706433 /* a user that nobody has */
#define DEADLINE_MS 30000
#define ALL UINT64_MAX

struct Told {
        uint8_t change, skipped, matched;
        struct FileStamp stamp;
        char path[COLLECT_PATH_MAX + 1];
        size_t length;
        char *content;
        size_t size;
};

struct Test {
        char dir[64];          /* on a tmpfs where there is one, as in a cell */
        int folder;            /* the workspace */
        int ask, files;        /* our ends */
        pid_t child;
        struct Told *told;
        size_t n_told;
        bool more, vanish;
};

static struct Test t;
static int pauses;

/* In the child: the file z goes away when the walk has listed the workspace and enters its first folder. */
static void take_z_away(void) {
        if (++pauses == 2)
                unlinkat(t.folder, "z", 0);
}

static int answer_all(int questions, int files) {
        const struct Collect c = {.questions = questions, .files = files, .workspace = t.folder, .on_pause = t.vanish ? take_z_away : NULL};
        int r;
        signal(SIGPIPE, SIG_IGN);
        if (geteuid() == 0 && (setgid(PLAIN) < 0 || setuid(PLAIN) < 0))
                return 1;
        while ((r = collect_answer(&c)) >= 0)
                ;
        return r == -ENODATA ? 0 : r == -EBADMSG ? 2 : r == -EPIPE ? 3 : 4;
}

static void start(void) {
        int questions[2], files[2];
        assert_ok(pipe2(questions, O_CLOEXEC));
        assert_ok(pipe2(files, O_CLOEXEC));
        assert_ok(set_nonblock(questions[0], true));
        assert_ok(set_nonblock(files[1], true));
        t.child = fork();
        assert_ok(t.child);
        if (t.child == 0) {
                close(questions[1]);
                close(files[0]);
                _exit(answer_all(questions[0], files[1]));
        }
        close(questions[0]);
        close(files[1]);
        t.ask = questions[1];
        t.files = files[0];
}

static int set_up(void **state) {
        t = (struct Test) {.ask = -EBADF, .files = -EBADF};
        snprintf(t.dir, sizeof t.dir, "%s/glovebox-test-collect.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        assert_non_null(mkdtemp(t.dir));
        t.folder = open(t.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_ok(t.folder);
        assert_ok(chmod(t.dir, 0755));
        if (geteuid() == 0)
                assert_ok(chown(t.dir, PLAIN, PLAIN));
        umask(022);
        return 0;
}

static void forget(void) {
        for (size_t i = 0; i < t.n_told; i++)
                free(t.told[i].content);
        free(t.told);
        t.told = NULL;
        t.n_told = 0;
        t.more = false;
}

static int finish(void) {
        int status;
        t.ask = close_fd(t.ask);
        t.files = close_fd(t.files);
        assert_int_equal(waitpid(t.child, &status, 0), t.child);
        t.child = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int tear_down(void **state) {
        char command[256];
        if (t.child)
                finish();
        forget();
        snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", t.dir, t.dir);
        assert_int_equal(system(command), 0);
        close(t.folder);
        return 0;
}

static void put(const char *path, const char *content) {
        int fd = openat(t.folder, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_ok(fd);
        assert_int_equal(write(fd, content, strlen(content)), strlen(content));
        close(fd);
}

static void folder(const char *path) {
        assert_ok(mkdirat(t.folder, path, 0755));
}

static void ask(uint32_t type, const void *bytes, size_t length) {
        uint8_t record[JOB_HEADER_SIZE + FILE_STAMP_SIZE + COLLECT_PATH_MAX + 1];
        job_put_header(record, type, (uint32_t) length);
        memcpy(record + JOB_HEADER_SIZE, bytes, length);
        /* At once: it may end after a bad header. */
        assert_int_equal(write(t.ask, record, JOB_HEADER_SIZE + length), JOB_HEADER_SIZE + length);
}

static void base_of(const char *path, const struct FileStamp *stamp) {
        uint8_t bytes[FILE_STAMP_SIZE + COLLECT_PATH_MAX];
        memcpy(bytes, stamp, FILE_STAMP_SIZE); /* this machine is little-endian */
        memcpy(bytes + FILE_STAMP_SIZE, path, strlen(path));
        ask(COLLECT_BASE, bytes, FILE_STAMP_SIZE + strlen(path));
}

static struct FileStamp stamp(const char *path) {
        struct stat st;
        assert_ok(fstatat(t.folder, path, &st, AT_SYMLINK_NOFOLLOW));
        return (struct FileStamp) {st.st_ino, (uint64_t) st.st_size, (uint64_t) st.st_mtim.tv_sec * 1000000000 + (uint64_t) st.st_mtim.tv_nsec,
                                   (uint64_t) st.st_ctim.tv_sec * 1000000000 + (uint64_t) st.st_ctim.tv_nsec};
}

static void base(const char *path) {
        struct FileStamp s = stamp(path);
        base_of(path, &s);
}

static void pattern(const char *p) {
        ask(COLLECT_PATTERN, p, strlen(p));
}

static void get(void *buffer, size_t size) {
        struct pollfd p = {.fd = t.files, .events = POLLIN};
        for (char *at = buffer; size > 0;) {
                assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
                ssize_t n = read(t.files, at, size);
                assert_true(n > 0);
                at += n;
                size -= (size_t) n;
        }
}

static void get_entry(uint32_t length) {
        uint8_t head[4];
        assert_in_range(length, 4 + FILE_STAMP_SIZE + 1, 4 + FILE_STAMP_SIZE + COLLECT_PATH_MAX);
        t.told = realloc(t.told, (t.n_told + 1) * sizeof *t.told);
        struct Told *e = &t.told[t.n_told++];
        *e = (struct Told) {.length = length - 4 - FILE_STAMP_SIZE};
        get(head, 4);
        e->change = head[0];
        e->skipped = head[1];
        e->matched = head[2];
        assert_int_equal(head[3], 0);
        get(&e->stamp, FILE_STAMP_SIZE);
        get(e->path, e->length);
}

static void get_data(uint32_t length) {
        assert_true(t.n_told > 0);
        assert_in_range(length, 1, COLLECT_PIECE_MAX);
        struct Told *e = &t.told[t.n_told - 1];
        assert_true(e->matched && !e->skipped);
        e->content = realloc(e->content, e->size + length + 1);
        get(e->content + e->size, length);
        e->size += length;
        e->content[e->size] = 0;
}

static void get_answer(void) {
        uint8_t header[JOB_HEADER_SIZE], flags;
        forget();
        for (;;) {
                get(header, sizeof header);
                uint32_t type = job_get_u32(header), length = job_get_u32(header + 4);
                if (type == FILES_ENTRY) {
                        get_entry(length);
                } else if (type == FILES_DATA) {
                        get_data(length);
                } else {
                        assert_int_equal(type, FILES_END);
                        assert_int_equal(length, 1);
                        get(&flags, 1);
                        assert_in_range(flags, 0, 1);
                        t.more = flags;
                        return;
                }
        }
}

static void go(uint64_t most) {
        ask(COLLECT_GO, &most, 8);
}

static void question(uint64_t most) {
        go(most);
        get_answer();
}

/* The next entry is this one. */
static void expect_at(size_t i, const char *path, int change, int skipped, const char *content) {
        assert_true(i < t.n_told);
        const struct Told *e = &t.told[i];
        assert_string_equal(e->path, path);
        assert_int_equal(e->length, strlen(path));
        if (e->change != change || e->skipped != skipped)
                fail_msg("%s: change %d, skipped %d", path, e->change, e->skipped);
        if (content)
                assert_string_equal(strempty(e->content), content);
        else
                assert_null(e->content);
}

static void test_changes(void **state) {
        static const char *const old[] = {"a/deep/kept", "changed", "gone", "hard", "is-folder", "is-link", "kept", "read"};
        folder("a");
        folder("a/deep");
        for (size_t i = 0; i < ELEMENTSOF(old); i++)
                put(old[i], "old");
        start();
        for (size_t i = ELEMENTSOF(old); i-- > 0;)
                base(old[i]); /* in any order */
        put("changed", "new");
        assert_ok(unlinkat(t.folder, "gone", 0));
        assert_ok(unlinkat(t.folder, "is-folder", 0));
        assert_ok(unlinkat(t.folder, "is-link", 0));
        folder("is-folder");
        folder("a-empty-one");
        put("is-folder/x", "in it");
        assert_ok(symlinkat("kept", t.folder, "is-link"));
        assert_ok(linkat(t.folder, "hard", t.folder, "hard2", 0));
        put("a/deep/new", "one");
        put("a.first", "by its name before what is in a/");
        pattern("a/");
        pattern("read");
        pattern("./hard*");
        question(ALL);
        expect_at(0, "a/deep/kept", FILE_UNCHANGED, 0, "old");
        expect_at(1, "a/deep/new", FILE_ADDED, 0, "one");
        expect_at(2, "a.first", FILE_ADDED, 0, NULL);
        expect_at(3, "changed", FILE_MODIFIED, 0, NULL);
        expect_at(4, "hard", FILE_MODIFIED, 0, "old"); /* its ctime */
        expect_at(5, "hard2", FILE_ADDED, 0, "old");
        expect_at(6, "is-folder/x", FILE_ADDED, 0, NULL);
        expect_at(7, "is-link", FILE_MODIFIED, FILE_SYMLINK, NULL);
        expect_at(8, "read", FILE_UNCHANGED, 0, "old");
        expect_at(9, "gone", FILE_DELETED, 0, NULL);
        expect_at(10, "is-folder", FILE_DELETED, 0, NULL);
        assert_int_equal(t.n_told, 11);
        assert_false(t.more);
        assert_int_equal(t.told[3].stamp.size, 3);
        assert_int_equal(t.told[3].stamp.mtime, stamp("changed").mtime);
        assert_int_equal(t.told[9].stamp.size, 3);
        assert_true(t.told[0].matched && !t.told[3].matched);
        /* What was told is the next question's base. */
        for (size_t i = 0; i < 9; i++)
                base_of(t.told[i].path, &t.told[i].stamp);
        base("kept");
        question(ALL);
        assert_int_equal(t.n_told, 0);
        assert_int_equal(finish(), 0);
}

static void test_FIL_01_links(void **state) {
        folder("out");
        assert_ok(symlinkat("/etc/passwd", t.folder, "out/e"));
        assert_ok(symlinkat("/etc", t.folder, "out/f"));
        assert_ok(symlinkat("..", t.folder, "out/up"));
        put("out/real", "ok\n");
        start();
        pattern("out/");
        pattern("out/f/*");
        question(ALL);
        expect_at(0, "out/e", FILE_ADDED, FILE_SYMLINK, NULL);
        expect_at(1, "out/f", FILE_ADDED, FILE_SYMLINK, NULL);
        expect_at(2, "out/real", FILE_ADDED, 0, "ok\n");
        expect_at(3, "out/up", FILE_ADDED, FILE_SYMLINK, NULL);
        assert_int_equal(t.n_told, 4);
}

/* A folder above a file of the base is a link now: what lies behind it is not looked at. */
static void test_FIL_02_folder_becomes_link(void **state) {
        folder("a");
        folder("b");
        put("a/x", "x");
        start();
        base("a/x");
        assert_ok(unlinkat(t.folder, "a/x", 0));
        assert_ok(unlinkat(t.folder, "a", AT_REMOVEDIR));
        put("b/x", "other");
        assert_ok(symlinkat("b", t.folder, "a"));
        question(0);
        expect_at(0, "a", FILE_ADDED, FILE_SYMLINK, NULL);
        expect_at(1, "b/x", FILE_ADDED, 0, NULL);
        expect_at(2, "a/x", FILE_DELETED, 0, NULL);
        assert_int_equal(t.n_told, 3);
}

static void test_FIL_08_FIL_09_names(void **state) {
        static const char *const names[] = {" x ", "-rf", "a\nb", "\xe5\xa0\xb1\xe5\x91\x8a \xc3\xa9.txt", "\xff\xfe"};
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                put(names[i], names[i]);
        start();
        pattern("**");
        question(ALL);
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                expect_at(i, names[i], FILE_ADDED, 0, names[i]);
        assert_int_equal(t.n_told, ELEMENTSOF(names));
}

static void test_FIL_11_FIL_12_special(void **state) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        assert_ok(mkfifoat(t.folder, "p", 0666));
        put("real", "ok\n");
        snprintf(name.sun_path, sizeof name.sun_path, "%.64s/s.sock", t.dir);
        int fd _cleanup_close_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_ok(bind(fd, (struct sockaddr *) &name, sizeof name));
        bool device = mknodat(t.folder, "a-device", S_IFCHR | 0666, 0x0103) == 0;
        start();
        pattern("**");
        question(ALL);
        if (device)
                expect_at(0, "a-device", FILE_ADDED, FILE_SPECIAL, NULL);
        expect_at(device, "p", FILE_ADDED, FILE_SPECIAL, NULL);
        expect_at(device + 1, "real", FILE_ADDED, 0, "ok\n");
        expect_at(device + 2, "s.sock", FILE_ADDED, FILE_SPECIAL, NULL);
}

static void test_FIL_13_sparse(void **state) {
        put("big", "");
        put("small", "12345");
        int fd _cleanup_close_ = openat(t.folder, "big", O_WRONLY | O_CLOEXEC);
        assert_ok(ftruncate(fd, (off_t) 1 << 40));
        start();
        pattern("*");
        question(256 * MIB);
        expect_at(0, "big", FILE_ADDED, FILE_TOO_LARGE, NULL);
        assert_int_equal(t.told[0].stamp.size, UINT64_C(1) << 40);
        expect_at(1, "small", FILE_ADDED, 0, "12345");
}

static void test_cap(void **state) {
        put("a", "1234567890");
        put("b", "1234567890");
        put("c", "1234567890");
        put("d", "12345");
        put("e", "1");
        put("f", "");
        start();
        pattern("*");
        question(25);
        expect_at(1, "b", FILE_ADDED, 0, "1234567890");
        expect_at(2, "c", FILE_ADDED, FILE_TOO_LARGE, NULL);
        expect_at(3, "d", FILE_ADDED, 0, "12345");
        expect_at(4, "e", FILE_ADDED, FILE_TOO_LARGE, NULL);
        expect_at(5, "f", FILE_ADDED, 0, NULL); /* empty, and so is what is left */
}

/* A stopped process holds it: to open it for real would wait for 45 s. */
static void test_leased(void **state) {
        int fds[2];
        char byte;
        put("held", "x");
        put("there", "y");
        assert_ok(pipe2(fds, O_CLOEXEC));
        pid_t holder = fork();
        if (holder == 0) {
                int fd = openat(t.folder, "held", O_RDWR | O_CLOEXEC);
                if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0 || write(fds[1], "y", 1) != 1)
                        _exit(1);
                raise(SIGSTOP);
                _exit(0);
        }
        close(fds[1]);
        assert_int_equal(read(fds[0], &byte, 1), 1);
        assert_int_equal(waitpid(holder, NULL, WUNTRACED), holder);
        start();
        pattern("*");
        question(ALL);
        kill(holder, SIGKILL);
        assert_int_equal(waitpid(holder, NULL, 0), holder);
        close(fds[0]);
        expect_at(0, "held", FILE_ADDED, FILE_BUSY, NULL);
        expect_at(1, "there", FILE_ADDED, 0, "y");
}

static void test_FIL_15_many_files(void **state) {
        char name[32];
        for (int i = 0; i < 100000; i++) {
                snprintf(name, sizeof name, "%d", i);
                int fd = openat(t.folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                assert_ok(fd);
                close(fd);
        }
        start();
        pattern("*");
        question(ALL);
        assert_int_equal(t.n_told, COLLECT_ENTRIES_MAX);
        assert_true(t.more);
        /* It can do so again, and a full answer tells of nothing that is gone. */
        base_of("gone", &(struct FileStamp) {1, 2, 3, 4});
        question(ALL);
        assert_int_equal(t.n_told, COLLECT_ENTRIES_MAX);
        assert_int_equal(t.told[COLLECT_ENTRIES_MAX - 1].change, FILE_ADDED);
        assert_int_equal(finish(), 0);
}

/* More than are sorted, but as many as a base may hold: none is lost. */
static void test_unsorted_folder(void **state) {
        char name[128];
        folder("sub");
        for (int i = 0; i < COLLECT_BASE_MAX + 5; i++) {
                snprintf(name, sizeof name, "sub/%0100d", i);
                put(name, "");
        }
        start();
        for (int i = 0; i < COLLECT_BASE_MAX; i++) {
                snprintf(name, sizeof name, "sub/%0100d", i);
                base(name);
        }
        question(0);
        assert_int_equal(t.n_told, 5);
        assert_false(t.more);
}

static void test_longest_paths_fill_the_answer(void **state) {
        char part[241], path[COLLECT_PATH_MAX + 1] = "";
        memset(part, 'd', 240);
        part[240] = 0;
        for (int i = 0; i < 12; i++) {
                size_t at = strlen(path);
                snprintf(path + at, sizeof path - at, "%s%s", at ? "/" : "", part);
                folder(path);
        }
        size_t at = strlen(path);
        for (int i = 0; i < 200; i++) {
                snprintf(path + at, sizeof path - at, "/%05d", i);
                put(path, "");
        }
        start();
        question(0);
        assert_int_equal(t.n_told, COLLECT_ENTRY_BYTES_MAX / (at + 6));
        assert_true(t.more);
        assert_string_equal(t.told[1].path + at, "/00001");
}

static void test_too_long_path(void **state) {
        char part[201];
        int at = dup(t.folder);
        memset(part, 'd', 200);
        part[200] = 0;
        put("z", "z");
        for (int i = 0; i < 30; i++) {
                assert_ok(mkdirat(at, part, 0755));
                int next = openat(at, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
                int fd = openat(at, "a", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                assert_ok(fd);
                close(fd);
                close(at);
                at = next;
        }
        close(at);
        start();
        pattern("z");
        question(ALL);
        assert_true(t.more);
        assert_int_equal(t.n_told, 21 + 1);
        expect_at(21, "z", FILE_ADDED, 0, "z");
}

static void test_deep_folders(void **state) {
        int at = dup(t.folder);
        put("z", "z");
        for (int i = 0; i < 500; i++) {
                assert_ok(mkdirat(at, "d", 0755));
                int next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
                close(at);
                at = next;
                int fd = openat(at, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                assert_ok(fd);
                close(fd);
        }
        close(at);
        start();
        question(0);
        assert_int_equal(t.n_told, COLLECT_DEPTH_MAX + 2);
        assert_int_equal(t.told[0].length, 2 * COLLECT_DEPTH_MAX + 1);
        assert_int_equal(t.told[0].skipped, FILE_TOO_MANY);
        assert_int_equal(t.told[0].change, FILE_UNCHANGED);
        expect_at(COLLECT_DEPTH_MAX, "d/f", FILE_ADDED, 0, NULL);
        expect_at(COLLECT_DEPTH_MAX + 1, "z", FILE_ADDED, 0, NULL);
        assert_false(t.more);
}

static void test_FIL_16_unreadable(void **state) {
        folder("closed");
        put("closed/old", "");
        folder("no-search");
        put("no-search/x", "");
        put("secret", "x");
        put("unwanted", "x");
        start();
        base("closed/old");
        assert_ok(fchmodat(t.folder, "closed", 0, 0));
        assert_ok(fchmodat(t.folder, "no-search", 0444, 0));
        assert_ok(fchmodat(t.folder, "secret", 0, 0));
        assert_ok(fchmodat(t.folder, "unwanted", 0, 0));
        pattern("secret");
        question(ALL);
        expect_at(0, "closed", FILE_UNCHANGED, FILE_UNREADABLE, NULL);
        expect_at(1, "no-search/x", FILE_UNCHANGED, FILE_UNREADABLE, NULL);
        expect_at(2, "secret", FILE_ADDED, FILE_UNREADABLE, NULL);
        expect_at(3, "unwanted", FILE_ADDED, 0, NULL);
        assert_int_equal(t.n_told, 4); /* what cannot be looked at is not gone */
        assert_ok(fchmodat(t.folder, "no-search", 0755, 0));
        assert_ok(chmod(t.dir, 0));
        base("secret");
        question(ALL);
        assert_int_equal(t.n_told, 0);
        assert_true(t.more);
}

static void test_vanishing(void **state) {
        folder("a");
        put("a/x", "");
        put("z", "z");
        t.vanish = true;
        start();
        base("z");
        question(0);
        expect_at(0, "a/x", FILE_ADDED, 0, NULL);
        expect_at(1, "z", FILE_DELETED, 0, NULL);
        assert_int_equal(t.n_told, 2);
}

/* The answer waits for a full pipe while the file becomes another size. */
static void change_while_read(off_t size, size_t expected) {
        int fd _cleanup_close_ = openat(t.folder, "data", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        assert_ok(ftruncate(fd, (off_t) (2 * MIB)));
        start();
        pattern("data");
        go(3 * MIB);
        int waiting = 0;
        for (int i = 0; i < DEADLINE_MS && waiting < 60000; i++) {
                assert_ok(ioctl(t.files, FIONREAD, &waiting));
                usleep(1000);
        }
        assert_ok(ftruncate(fd, size));
        get_answer();
        assert_int_equal(t.n_told, 1);
        assert_int_equal(t.told[0].stamp.size, 2 * MIB);
        if (expected)
                assert_int_equal(t.told[0].size, expected);
        else
                assert_in_range(t.told[0].size, 1, MIB);
        assert_int_equal(finish(), 0);
}

static void test_growing_and_shrinking(void **state) {
        change_while_read((off_t) (64 * MIB), 2 * MIB);
        change_while_read(100, 0);
}

static void test_bad_questions(void **state) {
        static uint8_t zeros[FILE_STAMP_SIZE + COLLECT_PATH_MAX + 1];
        static const struct {
                uint32_t type;
                const char *bytes;
                size_t length;
        } bad[] = {
                {0, "", 0}, {4, "", 0}, {COLLECT_GO, "1234567", 7}, {COLLECT_GO, "123456789", 9}, {COLLECT_PATTERN, "", 0}, {COLLECT_PATTERN, "../x", 4},
                {COLLECT_PATTERN, "[", 1}, {COLLECT_BASE, "12345678901234567890123456789012", 32}, {COLLECT_BASE, (char *) zeros, 33},
                {COLLECT_BASE, "12345678901234567890123456789012/etc", 36}, {COLLECT_BASE, (char *) zeros, sizeof zeros},
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                start();
                ask(bad[i].type, bad[i].bytes, bad[i].length);
                assert_int_equal(finish(), 2);
        }
        start();
        for (int i = 0; i <= COLLECT_PATTERNS_MAX; i++)
                pattern("a");
        assert_int_equal(finish(), 2);
        /* One more than a base may hold; init stops to read at the last header. */
        start();
        memset(zeros, 'a', sizeof zeros);
        for (int i = 0; i <= COLLECT_BASE_MAX; i++)
                ask(COLLECT_BASE, zeros, 33);
        assert_int_equal(finish(), 2);
        start();
        ask(COLLECT_PATTERN, "abc", 3);
        assert_int_equal(finish(), 0);
}

static void test_server_goes_away(void **state) {
        put("data", "");
        int fd _cleanup_close_ = openat(t.folder, "data", O_RDWR | O_CLOEXEC);
        assert_ok(ftruncate(fd, (off_t) MIB));
        start();
        pattern("data");
        go(ALL);
        struct pollfd p = {.fd = t.files, .events = POLLIN};
        assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
        assert_int_equal(finish(), 3);
}

static void test_numbers(void **state) {
        assert_int_equal(FILE_ADDED, GLOVEBOX__V1__CHANGE__CHANGE_ADDED);
        assert_int_equal(FILE_MODIFIED, GLOVEBOX__V1__CHANGE__CHANGE_MODIFIED);
        assert_int_equal(FILE_DELETED, GLOVEBOX__V1__CHANGE__CHANGE_DELETED);
        assert_int_equal(FILE_SYMLINK, GLOVEBOX__V1__SKIPPED__SKIPPED_SYMLINK);
        assert_int_equal(FILE_SPECIAL, GLOVEBOX__V1__SKIPPED__SKIPPED_SPECIAL);
        assert_int_equal(FILE_BUSY, GLOVEBOX__V1__SKIPPED__SKIPPED_BUSY);
        assert_int_equal(FILE_TOO_LARGE, GLOVEBOX__V1__SKIPPED__SKIPPED_TOO_LARGE);
        assert_int_equal(FILE_TOO_MANY, GLOVEBOX__V1__SKIPPED__SKIPPED_TOO_MANY);
        assert_int_equal(FILE_UNREADABLE, GLOVEBOX__V1__SKIPPED__SKIPPED_UNREADABLE);
        assert_int_equal(FILE_VANISHED, GLOVEBOX__V1__SKIPPED__SKIPPED_VANISHED);
}

#define IN_FOLDER(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

RUN(IN_FOLDER(test_changes), IN_FOLDER(test_FIL_01_links), IN_FOLDER(test_FIL_02_folder_becomes_link), IN_FOLDER(test_FIL_08_FIL_09_names),
    IN_FOLDER(test_FIL_11_FIL_12_special), IN_FOLDER(test_FIL_13_sparse), IN_FOLDER(test_cap), IN_FOLDER(test_leased),
    IN_FOLDER(test_FIL_15_many_files), IN_FOLDER(test_unsorted_folder), IN_FOLDER(test_longest_paths_fill_the_answer), IN_FOLDER(test_too_long_path),
    IN_FOLDER(test_deep_folders), IN_FOLDER(test_FIL_16_unreadable), IN_FOLDER(test_vanishing), IN_FOLDER(test_growing_and_shrinking),
    IN_FOLDER(test_bad_questions), IN_FOLDER(test_server_goes_away), T(test_numbers))
