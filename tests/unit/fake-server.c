/* A stand-in for the server: starts the real spawner in a folder of its own, and speaks with it. */
#include "tests/unit/fake-server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "spawner/limits/tree.h"

#define MESSAGE_TIME_MS 20000

typedef Glovebox__Internal__FromSpawner From;
typedef Glovebox__Internal__ToSpawner To;

struct FakeServer spawner;
struct FakeCell cell;
static struct WirePacket packet;

void start_spawner(void) {
        char state[96], config[96];
        snprintf(state, sizeof state, "%s/state", spawner.folder);
        snprintf(config, sizeof config, "%s/glovebox.conf", spawner.folder);
        /* Which controllers may be missing: all, unless the test runs on a machine that has them. */
        const char *waive = getenv("GLOVEBOX_TEST_WAIVE");
        spawner.pid = fork();
        assert_true(spawner.pid >= 0);
        if (spawner.pid == 0) {
                execl(spawner.program, "glovebox-spawner", "--state", state, "--config", config, "--waive",
                      waive ? waive : "memory,pids,cpu,io", NULL);
                _exit(127);
        }
}

int try_connect(void) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s/state/spawner.sock", spawner.folder);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        if (connect(fd, (struct sockaddr *) &address, sizeof address) == 0)
                return fd;
        return close_fd(fd);
}

static void send_message(To *m) {
        assert_int_equal(wire_send(spawner.socket, &m->base, NULL, 0), 0);
}

#define SEND(member_, case_, ...)                                                                     \
        do {                                                                                          \
                To m_ = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;                                         \
                __VA_ARGS__;                                                                          \
                m_.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_##case_;                    \
                m_.member_ = &v_;                                                                     \
                send_message(&m_);                                                                    \
        } while (0)

/* The next message of the spawner, freed by the caller; NULL when it has hung up. */
static From *receive(void) {
        struct pollfd p = {.fd = spawner.socket, .events = POLLIN};
        assert_true(poll(&p, 1, MESSAGE_TIME_MS) > 0);
        int r = wire_receive(spawner.socket, &packet);
        if (r == 0)
                return NULL;
        assert_int_equal(r, 1);
        ProtobufCMessage *m = wire_unpack(&glovebox__internal__from_spawner__descriptor, packet.bytes, packet.size);
        assert_non_null(m);
        return (From *) m;
}

void greet(void) {
        for (int i = 0; i < 400; i++) {
                spawner.socket = try_connect();
                if (spawner.socket >= 0)
                        break;
                assert_int_equal(waitpid(spawner.pid, NULL, WNOHANG), 0);
                poll(NULL, 0, 50);
        }
        assert_true(spawner.socket >= 0);
        SEND(hello, HELLO, Glovebox__Internal__Hello v_ = GLOVEBOX__INTERNAL__HELLO__INIT; v_.protocol = WIRE_PROTOCOL);
        From *m = receive();
        assert_non_null(m);
        assert_int_equal(m->message_case, CASE(HELLO_REPLY));
        assert_true(m->hello_reply->n_layers > 10);
        assert_true(m->hello_reply->max_cells > 0);
        glovebox__internal__from_spawner__free_unpacked(m, NULL);
}

static void take_fds(const From *m) {
        assert_int_equal(m->n_roles, packet.n_fds);
        for (size_t i = 0; i < m->n_roles; i++)
                cell.fds[m->roles[i]] = TAKE_FD(packet.fds[i]);
}

/* Waits for one message and notes what it says. */
int next(void) {
        From *m = receive();
        if (!m)
                return -1;
        int type = (int) m->message_case;
        switch (m->message_case) {
        case CASE(RUN_STARTED):
                take_fds(m);
                break;
        case CASE(CELL_FAILED):
                cell.failed = true;
                snprintf(cell.step, sizeof cell.step, "%s", m->cell_failed->step);
                break;
        case CASE(MAIN_EXITED):
                cell.exited = true;
                cell.signaled = m->main_exited->signaled;
                cell.status = m->main_exited->status;
                break;
        case CASE(WAITING_FOR):
                snprintf(cell.what, sizeof cell.what, "%s", m->waiting_for->what);
                break;
        case CASE(CELL_LOST):
                cell.lost = true;
                break;
        case CASE(CELL_CLOSED):
                cell.closed = true;
                snprintf(cell.left, sizeof cell.left, "%s", m->cell_closed->left);
                break;
        default:
                break;
        }
        glovebox__internal__from_spawner__free_unpacked(m, NULL);
        return type;
}

void next_until(int type) {
        int got;
        while ((got = next()) != type)
                assert_int_not_equal(got, -1);
}

/* Who reads may have ended: glovebox-start at a bad record, a program without a runner before the runner's part. */
static void write_all(const void *bytes, size_t size) {
        ssize_t n = write(cell.fds[ROLE(JOB)], bytes, size);
        assert_true(n == (ssize_t) size || (n < 0 && errno == EPIPE));
}

void write_record(enum JobType type, const void *bytes, size_t size) {
        uint8_t header[JOB_HEADER_SIZE];
        job_put_header(header, type, (uint32_t) size);
        write_all(header, sizeof header);
        write_all(bytes, size);
}

static void fill_limits(Glovebox__Internal__CellLimits *l) {
        glovebox__internal__cell_limits__init(l);
        l->memory_bytes = 256 * MIB;
        l->cpus = 1;
        l->max_processes = 200;
        l->workspace_bytes = 16 * MIB;
        l->workspace_inodes = 1024;
}

void send_open(const char *runtime, uint64_t memory_bytes) {
        Glovebox__Internal__CellLimits limits;
        fill_limits(&limits);
        limits.memory_bytes = memory_bytes;
        memset(&cell, 0, sizeof cell);
        for (int i = 0; i < ROLE_COUNT; i++)
                cell.fds[i] = -EBADF;
        cell.id = ++spawner.last_cell;
        SEND(open_cell, OPEN_CELL, Glovebox__Internal__OpenCell v_ = GLOVEBOX__INTERNAL__OPEN_CELL__INIT; v_.cell = cell.id;
                v_.runtime = (char *) runtime; v_.limits = &limits);
}

bool start_run(uint64_t memory_bytes, double cpus) {
        Glovebox__Internal__CellLimits limits;
        fill_limits(&limits);
        limits.memory_bytes = memory_bytes;
        limits.cpus = cpus;
        SEND(start_run, START_RUN, Glovebox__Internal__StartRun v_ = GLOVEBOX__INTERNAL__START_RUN__INIT; v_.cell = cell.id; v_.run = 1;
                v_.limits = &limits);
        return next() == CASE(RUN_STARTED);
}

bool open_run(const char *runtime) {
        (void) signal(SIGPIPE, SIG_IGN);
        send_open(runtime, 256 * MIB);
        return start_run(256 * MIB, 1);
}

void ask_waiting(void) {
        SEND(ask_waiting, ASK_WAITING, Glovebox__Internal__AskWaiting v_ = GLOVEBOX__INTERNAL__ASK_WAITING__INIT; v_.cell = cell.id; v_.run = 1);
        next_until(CASE(WAITING_FOR));
}

void close_cell_fds(void) {
        for (int i = 0; i < ROLE_COUNT; i++)
                cell.fds[i] = close_fd(cell.fds[i]);
}

void end_job(void) {
        write_record(JOB_END, "", 0);
        write_record(JOB_CONTRACT, "\4", 1);
        write_record(JOB_VALUE_MAX, "\0\0\1\0\0\0\0", 8);
        write_record(JOB_CONTENT_MAX, "\0\0\1\0\0\0\0", 8);
        write_record(JOB_RUNNER_END, "", 0);
}

void start_code(const char *runtime, const char *code) {
        assert_true(open_run(runtime));
        write_record(JOB_CODE, code, strlen(code));
        end_job();
        cell.fds[ROLE(JOB)] = close_fd(cell.fds[ROLE(JOB)]);
        cell.fds[ROLE(STDIN)] = close_fd(cell.fds[ROLE(STDIN)]);
}

static void drain(int role, char *text, size_t *size) {
        char extra[4096];
        ssize_t n;
        set_nonblock(cell.fds[role], true);
        do {
                bool room = *size < OUTPUT_MAX - 1;
                n = read(cell.fds[role], room ? text + *size : extra, room ? OUTPUT_MAX - 1 - *size : sizeof extra);
                if (room && n > 0)
                        *size += (size_t) n;
        } while (n > 0);
}

void send_end_run(uint64_t run) {
        SEND(end_run, END_RUN, Glovebox__Internal__EndRun v_ = GLOVEBOX__INTERNAL__END_RUN__INIT; v_.cell = cell.id; v_.run = run);
}

static void take_report(void) {
        ssize_t n = read(cell.fds[ROLE(REPORT)], cell.report, sizeof cell.report);
        const uint8_t *report = (uint8_t *) cell.report;
        cell.report_size = n > 0 ? (size_t) n : 0;
        while (cell.report_size > 0 && job_get_u32(report) == REPORT_FILE) {
                assert_int_equal(job_get_u32(report + 4), FILE_STAMP_SIZE);
                assert_true(cell.report_size >= JOB_HEADER_SIZE + FILE_STAMP_SIZE && cell.n_files < ELEMENTSOF(cell.files));
                memcpy(&cell.files[cell.n_files++], report + JOB_HEADER_SIZE, FILE_STAMP_SIZE);
                cell.report_size -= JOB_HEADER_SIZE + FILE_STAMP_SIZE;
                memmove(cell.report, report + JOB_HEADER_SIZE + FILE_STAMP_SIZE, cell.report_size);
        }
}

void end_run(void) {
        send_end_run(1);
        next_until(CASE(RUN_ENDED));
        assert_true(cell.exited); /* always before RunEnded */
        char events[128];
        assert_true(read_small(cell.fds[ROLE(CGROUP_PROCS)], events, sizeof events) <= 0);
        drain(ROLE(STDOUT), cell.out, &cell.out_size);
        drain(ROLE(STDERR), cell.err, &cell.err_size);
        take_report();
}

void send_close_cell(void) {
        SEND(close_cell, CLOSE_CELL, Glovebox__Internal__CloseCell v_ = GLOVEBOX__INTERNAL__CLOSE_CELL__INIT; v_.cell = cell.id);
}

void close_cell(void) {
        send_close_cell();
        next_until(CASE(CELL_CLOSED));
        assert_string_equal(cell.left, "");
        close_cell_fds();
}

void run_code(const char *runtime, const char *code) {
        start_code(runtime, code);
        next_until(CASE(MAIN_EXITED));
        end_run();
        close_cell();
}

/* Cells' folders below ours; the spawner's own folder is the only one of its name. */
int count_cell_folders(void) {
        _cleanup_free_ char *own = NULL;
        int n = 0;
        assert_int_equal(tree_own_folder(&own), 0);
        char state[96], path[PATH_MAX];
        snprintf(state, sizeof state, "%s/state", spawner.folder);
        uint64_t h = 0xcbf29ce484222325ULL; /* as the driver names it, written down again on purpose: the name must not change between versions */
        for (const char *s = state; *s; s++)
                h = (h ^ (uint8_t) *s) * 0x100000001b3ULL;
        snprintf(path, sizeof path, "%s/glovebox-%012llx", own, (unsigned long long) (h & 0xffffffffffffULL));
        DIR *d = opendir(path);
        if (!d)
                return -1;
        struct dirent *e;
        while ((e = readdir(d)))
                n += strncmp(e->d_name, "cell-", 5) == 0;
        closedir(d);
        return n;
}

int count_fds(void) {
        char path[64];
        int n = 0;
        snprintf(path, sizeof path, "/proc/%d/fd", spawner.pid);
        DIR *d = opendir(path);
        assert_non_null(d);
        while (readdir(d))
                n++;
        closedir(d);
        return n;
}

/* A descendant of the spawner by its name in /proc; 0 = none. The builder's children are looked at too. */
/* Name and parent of a process; false: it is gone. */
static bool look_at(const char *pid, char name[32], pid_t *ret_parent) {
        char path[64], text[512];
        snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
        int fd _cleanup_close_ = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read_small(fd, text, sizeof text) <= 0)
                return false;
        char *begin = strchr(text, '('), *end = strrchr(text, ')');
        if (!begin || !end || sscanf(end + 1, " %*c %d", ret_parent) != 1)
                return false;
        *end = 0;
        snprintf(name, 32, "%s", begin + 1);
        return true;
}

pid_t find_child(pid_t parent, const char *name) {
        pid_t found = 0, builder = 0;
        DIR *d = opendir("/proc");
        struct dirent *e;
        assert_non_null(d);
        while (!found && (e = readdir(d))) {
                char comm[32];
                pid_t its;
                if (e->d_name[0] < '1' || e->d_name[0] > '9' || !look_at(e->d_name, comm, &its) || its != parent)
                        continue;
                if (streq(comm, name))
                        found = atoi(e->d_name);
                else if (streq(comm, "gb-builder"))
                        builder = atoi(e->d_name);
        }
        closedir(d);
        return found || !builder ? found : find_child(builder, name);
}

static void write_text(const char *path, const char *text) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
}

int fake_server_set_up(void **state) {
        char path[PATH_MAX];
        strcpy(spawner.folder, "/tmp/glovebox-test-XXXXXX");
        ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
        if (n < 0 || !mkdtemp(spawner.folder))
                return -1;
        path[n] = 0;
        *strrchr(path, '/') = 0;
        snprintf(spawner.program, sizeof spawner.program, "%s/../bin/glovebox-spawner", path);
        snprintf(path, sizeof path, "%s/runtimes.d", spawner.folder);
        mkdir(path, 0755);
        snprintf(path, sizeof path, "%s/runtimes.d/broken.conf", spawner.folder);
        write_text(path, "[runtime]\nexec = /usr/bin/no-such-interpreter\ncode-name = main.x\n");
        snprintf(path, sizeof path, "%s/runtimes.d/notaprogram.conf", spawner.folder);
        write_text(path, "[runtime]\nexec = /usr/bin\ncode-name = main.x\n");
        snprintf(path, sizeof path, "%s/glovebox.conf", spawner.folder);
        write_text(path, "[spawner]\ndriver = cgroupfs\npool = no\n");
        start_spawner();
        greet();
        return 0;
}

int fake_server_tear_down(void **state) {
        char command[128];
        if (spawner.pid > 0) {
                kill(spawner.pid, SIGTERM);
                waitpid(spawner.pid, NULL, 0);
        }
        snprintf(command, sizeof command, "rm -r %s", spawner.folder);
        return system(command);
}
