/* The spawner's parts that need no machine: parsers, slots, job heads, the table of states, what a program waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "common/job.h"
#include "common/util.h"
#include "common/wire.h"
#include "inside/records.h"
#include "spawner/run.h"
#include "spawner/cell.h"
#include "spawner/job.h"
#include "spawner/limits/leaf.h"
#include "spawner/limits/tree.h"
#include "spawner/log-limit.h"
#include "spawner/message.h"
#include "spawner/reload.h"
#include "spawner/slots.h"
#include "spawner/waiting.h"

static void test_events(void **state) {
        assert_int_equal(cgroup_events_populated("populated 1\nfrozen 0\n"), 1);
        assert_int_equal(cgroup_events_populated("populated 0\nfrozen 1\n"), 0);
        assert_int_equal(cgroup_events_populated("frozen 1\npopulated 0\n"), 0);
        assert_int_equal(cgroup_events_populated("populated 2\n"), -EBADMSG);
        assert_int_equal(cgroup_events_populated("frozen 0\n"), -EBADMSG);
        assert_int_equal(cgroup_events_populated(""), -EBADMSG);
}

/* What is killed gets the whole processor to die; nothing is written where there is no such controller, and a leaf that is gone is no fault. */
static void test_hurry(void **state) {
        char folder[] = "/tmp/glovebox-unit.XXXXXX", text[64];
        assert_non_null(mkdtemp(folder));
        struct Leaf leaf = {.dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)};
        assert_int_equal(leaf_hurry(&leaf, CONTROLLER_CPU), 0);
        int quota = openat(leaf.dir, "cpu.max", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(quota, "7", 1), 1);
        assert_int_equal(leaf_hurry(&leaf, CONTROLLER_ALL & ~CONTROLLER_CPU), 0);
        assert_true(read_small(quota, text, sizeof text) == 1 && text[0] == '7');
        assert_int_equal(leaf_hurry(&leaf, CONTROLLER_CPU), 0);
        assert_int_equal(read_small(quota, text, sizeof text), 3);
        assert_string_equal(text, "max");
        close(quota);
        assert_int_equal(unlinkat(leaf.dir, "cpu.max", 0), 0);
        close(leaf.dir);
        assert_int_equal(rmdir(folder), 0);
}

static void test_tree(void **state) {
        const char *mounts = "22 1 0:20 / /proc rw - proc proc rw\n"
                             "30 25 0:26 /below /mnt/part rw,relatime - cgroup2 cgroup2 rw\n"
                             "35 30 0:27 / /sys/fs/cgroup/a\\040b rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        char *point = NULL, *path = NULL;
        assert_int_equal(tree_mount_point(mounts, &point), 0);
        assert_string_equal(point, "/sys/fs/cgroup/a b");
        free(point);
        assert_int_equal(tree_mount_point("22 1 0:20 / /proc rw - proc proc rw\n", &point), -ENOENT);
        assert_int_equal(tree_own_path("4:memory:/x\n0::/user.slice/a.scope\n", &path), 0);
        assert_string_equal(path, "/user.slice/a.scope");
        free(path);
        assert_int_equal(tree_own_path("4:memory:/x\n", &path), -ENOENT);
}

static void test_slots(void **state) {
        struct Config config = {.uid_start = 1000000, .uid_count = SLOT_UIDS_FIRST + 6, .max_cells = 100};
        struct Slots *s = NULL;
        assert_int_equal(slots_new(&config, &s), 0);
        assert_int_equal(slots_count(s), 3);
        assert_int_equal(slots_acquire(s), 0);
        assert_int_equal(slots_acquire(s), 1);
        assert_int_equal(slots_acquire(s), 2);
        assert_int_equal(slots_acquire(s), -EBUSY);
        slots_release(s, 1);
        assert_int_equal(slots_acquire(s), 1);
        /* The last uid is still in the range, and no two cells share one. */
        assert_int_equal(slot_host_user(s, 2), 1000000 + SLOT_UIDS_FIRST + 5);
        assert_int_equal(slot_inside_user(0), slot_inside_init(0) + 1);
        assert_int_equal(slot_inside_init(1), slot_inside_user(0) + 1);
        slots_free(s);
        config.uid_count = SLOT_UIDS_FIRST + 1;
        assert_int_equal(slots_new(&config, &s), -ERANGE);
        config.uid_count = 65536;
        config.max_cells = 7;
        assert_int_equal(slots_new(&config, &s), 0);
        assert_int_equal(slots_count(s), 7);
        slots_free(s);
}

static void test_range(void **state) {
        const uint32_t start = 100000, count = 1000;
        assert_true(slots_line_overlaps("joe:x:100000:5:Joe:/:/bin/sh\n", false, start, count));
        assert_true(slots_line_overlaps("joe:x:100999:5:Joe:/:/bin/sh\n", false, start, count));
        assert_false(slots_line_overlaps("joe:x:101000:5:Joe:/:/bin/sh\n", false, start, count));
        assert_false(slots_line_overlaps("joe:x:99999:100500:Joe:/:/bin/sh\n", false, start, count));
        assert_true(slots_line_overlaps("joe:99000:1001\n", true, start, count));
        assert_false(slots_line_overlaps("joe:99000:1000\n", true, start, count));
        assert_true(slots_line_overlaps("joe:1:4294967295\n", true, start, count));
        assert_true(slots_line_overlaps("joe:1:99999999999999999999\n", true, start, count));
        assert_false(slots_line_overlaps("joe:100000:0\n", true, start, count));
        assert_false(slots_line_overlaps("+::::::\n", false, start, count));
        assert_false(slots_line_overlaps("\n", true, start, count));
}

struct Seen {
        enum JobType types[16];
        char texts[16][64];
        size_t n, data;
        const uint8_t *bytes;
        size_t size;
};

static int seen_read(void *userdata, void *buffer, size_t size) {
        struct Seen *s = userdata;
        if (size > s->size)
                return -ENODATA;
        memcpy(buffer, s->bytes, size);
        s->bytes += size;
        s->size -= size;
        return 0;
}

static int seen_text(void *userdata, enum JobType type, char *bytes, size_t length) {
        struct Seen *s = userdata;
        if (s->n < 16) {
                s->types[s->n] = type;
                snprintf(s->texts[s->n++], sizeof s->texts[0], "%s", bytes);
        }
        return 0;
}

static int seen_data(void *userdata, enum JobType type, const uint8_t *bytes, size_t length) {
        ((struct Seen *) userdata)->data += length;
        return 0;
}

static int read_records(struct Seen *s, const uint8_t *bytes, size_t size) {
        static char buffer[RECORD_STRING_MAX + 1];
        const struct RecordHandler h = {.read = seen_read, .text = seen_text, .data = seen_data, .userdata = s, .buffer = buffer};
        *s = (struct Seen) {.bytes = bytes, .size = size};
        int r = records_read_part(&h, RECORD_HEAD);
        return r < 0 ? r : records_read_part(&h, RECORD_BODY);
}

static void test_job_head(void **state) {
        char *args[] = {(char *) "--heap={memory-mib}m", (char *) "{code}", NULL};
        char *version[] = {(char *) "--version", NULL}, *env[] = {(char *) "A=1", NULL};
        const struct Runtime runtime = {
                .name = (char *) "r", .exec = (char *) "/bin/r", .args = args, .version_args = version, .env = env, .code_name = (char *) "main.r",
        };
        static uint8_t head[JOB_HEAD_MAX + 64];
        size_t size = 0;
        struct Seen seen;
        const struct Limits limits = {.cpus = 2, .memory_bytes = 300 * MIB};
        struct HeadSpec spec = {.runtime = &runtime, .limits = &limits};
        assert_int_equal(job_head(&spec, head, &size), 0);
        /* Only the end is missing. */
        assert_int_equal(read_records(&seen, head, size), -ENODATA);
        job_put_header(head + size, JOB_END, 0);
        assert_int_equal(read_records(&seen, head, size + JOB_HEADER_SIZE), 0);
        const struct {
                enum JobType type;
                const char *text;
        } expected[] = {
                {JOB_EXEC, "/bin/r"},
                {JOB_RUNTIME_ARG, "--heap=300m"},
                {JOB_RUNTIME_ARG, "{code}"},
                {JOB_ENV, "GOMAXPROCS=2"},
                {JOB_ENV, "MKL_NUM_THREADS=2"},
                {JOB_ENV, "NUMEXPR_NUM_THREADS=2"},
                {JOB_ENV, "OMP_NUM_THREADS=2"},
                {JOB_ENV, "OPENBLAS_NUM_THREADS=2"},
                {JOB_ENV, "RAYON_NUM_THREADS=2"},
                {JOB_ENV, "UV_THREADPOOL_SIZE=4"},
                {JOB_ENV, "A=1"}, /* the runtime's own come last, and win */
                {JOB_CODE_NAME, "main.r"},
                {JOB_HEAD_END, ""},
                {JOB_END, ""},
        };
        assert_int_equal(seen.n, ELEMENTSOF(expected));
        for (size_t i = 0; i < ELEMENTSOF(expected); i++) {
                assert_int_equal(seen.types[i], expected[i].type);
                assert_string_equal(seen.texts[i], expected[i].text);
        }
        assert_true(job_tells_memory(&runtime));
        spec.probe_version = true;
        assert_int_equal(job_head(&spec, head, &size), 0);
        job_put_header(head + size, JOB_END, 0);
        assert_int_equal(read_records(&seen, head, size + JOB_HEADER_SIZE), 0);
        assert_int_equal(seen.n, ELEMENTSOF(expected) - 2); /* one argument instead of two, and no code */
        assert_string_equal(seen.texts[1], "--version");
}

static void test_job_head_is_bounded(void **state) {
        char *big = malloc(JOB_HEAD_MAX + 1);
        uint8_t *head = malloc(JOB_HEAD_MAX);
        size_t size = 0;
        assert_non_null(big);
        assert_non_null(head);
        memset(big, 'a', JOB_HEAD_MAX);
        big[JOB_HEAD_MAX] = 0;
        char *env[] = {big, NULL};
        char *args[] = {(char *) "{code}", NULL};
        const struct Runtime runtime = {.exec = (char *) "/bin/r", .args = args, .env = env, .code_name = (char *) "m"};
        const struct Limits limits = {.cpus = 2};
        assert_int_equal(job_head(&(struct HeadSpec) {.runtime = &runtime, .limits = &limits}, head, &size), -E2BIG);
        assert_int_equal(size, 0);
        free(big);
        free(head);
}

static int one_record(uint32_t type, uint32_t length, const char *bytes) {
        static uint8_t buffer[4096];
        struct Seen seen;
        size_t n = 0;
        job_put_header(buffer, JOB_EXEC, 2);
        memcpy(buffer + JOB_HEADER_SIZE, "/x", 2);
        n = JOB_HEADER_SIZE + 2;
        job_put_header(buffer + n, JOB_HEAD_END, 0);
        n += JOB_HEADER_SIZE;
        job_put_header(buffer + n, type, length);
        n += JOB_HEADER_SIZE;
        memcpy(buffer + n, bytes, strlen(bytes));
        n += strlen(bytes);
        job_put_header(buffer + n, JOB_END, 0);
        return read_records(&seen, buffer, n + JOB_HEADER_SIZE);
}

static void test_records_are_strict(void **state) {
        assert_int_equal(one_record(JOB_ARG, 3, "abc"), 0);
        assert_int_equal(one_record(JOB_CODE, 3, "abc"), 0);
        assert_int_equal(one_record(0, 0, ""), -EBADMSG);
        assert_int_equal(one_record(JOB_TYPE_MAX_, 0, ""), -EBADMSG);
        assert_int_equal(one_record(UINT32_MAX, 0, ""), -EBADMSG);
        assert_int_equal(one_record(JOB_EXEC, 2, "/y"), -EBADMSG); /* the head is over */
        assert_int_equal(one_record(JOB_RUNTIME_ARG, 1, "y"), -EBADMSG);
        assert_int_equal(one_record(JOB_CODE_NAME, 1, "y"), -EBADMSG);
        assert_int_equal(one_record(JOB_CODE, JOB_RECORD_MAX + 1, ""), -EBADMSG);
        assert_int_equal(one_record(JOB_TIMEZONE, 256, ""), -EBADMSG);
        assert_int_equal(one_record(JOB_END, 1, "x"), -EBADMSG);
        assert_int_equal(one_record(JOB_ARG, 200, "abc"), -ENODATA);
}

static void test_failures_of_starts(void **state) {
        uint8_t record[JOB_HEADER_SIZE + 4 + 6];
        char step[RUN_STEP_MAX + 1] = "";
        int error = 0;
        job_put_header(record, REPORT_FAILED, 4 + 6);
        memcpy(record + JOB_HEADER_SIZE, (uint8_t[]) {2, 0, 0, 0}, 4);
        memcpy(record + JOB_HEADER_SIZE + 4, "co\nde\x80", 6);
        assert_int_equal(run_parse_failure(record, sizeof record, &error, step), 1);
        assert_int_equal(error, -ENOENT);
        assert_string_equal(step, "co?de?");
        assert_int_equal(run_parse_failure(record, JOB_HEADER_SIZE + 3, &error, step), 0);
        assert_int_equal(run_parse_failure(record, -1, &error, step), 0);
        memset(record + JOB_HEADER_SIZE, 0xff, 4);
        assert_int_equal(run_parse_failure(record, JOB_HEADER_SIZE + 4, &error, step), 1);
        assert_int_equal(error, -4095);
        assert_string_equal(step, "");
        job_put_header(record, REPORT_READY, 0);
        assert_int_equal(run_parse_failure(record, sizeof record, &error, step), 0);
}

static void test_states(void **state) {
        assert_true(cell_state_may(CELL_OPENING, CELL_READY));
        assert_true(cell_state_may(CELL_READY, CELL_STARTING));
        assert_true(cell_state_may(CELL_STARTING, CELL_RUNNING));
        assert_false(cell_state_may(CELL_READY, CELL_RUNNING));
        assert_true(cell_state_may(CELL_RUNNING, CELL_ENDING));
        assert_true(cell_state_may(CELL_ENDING, CELL_READY));
        assert_false(cell_state_may(CELL_RUNNING, CELL_READY));
        assert_false(cell_state_may(CELL_OPENING, CELL_RUNNING));
        for (int s = 0; s < CELL_STATE_MAX_; s++) {
                assert_non_null(cell_state_name((enum CellState) s));
                assert_false(cell_state_may(CELL_CLOSED, (enum CellState) s));
                assert_int_equal(cell_state_may((enum CellState) s, CELL_CLOSING), s < CELL_CLOSING);
                assert_int_equal(cell_state_may((enum CellState) s, CELL_CLOSED), s == CELL_CLOSING);
        }
}

static void test_waiting(void **state) {
        char call[64];
        assert_int_equal(waiting_classify('T', "", ""), WAITING_STOPPED);
        assert_int_equal(waiting_classify('R', "running", ""), WAITING_COMPUTING);
        assert_int_equal(waiting_classify('S', "", ""), WAITING_UNKNOWN);
        snprintf(call, sizeof call, "%ld 0x0 0x7f 0x1 0x0", (long) SYS_read);
        assert_int_equal(waiting_classify('S', call, "anon_pipe_read"), WAITING_STDIN);
        snprintf(call, sizeof call, "%ld 0x5 0x7f 0x1 0x0", (long) SYS_read);
        assert_int_equal(waiting_classify('S', call, "anon_pipe_read"), WAITING_PIPE);
        assert_int_equal(waiting_classify('S', call, "unix_stream_read_generic"), WAITING_NETWORK);
        snprintf(call, sizeof call, "%ld 0x0", (long) SYS_clock_nanosleep);
        assert_int_equal(waiting_classify('S', call, "hrtimer_nanosleep"), WAITING_SLEEP);
        snprintf(call, sizeof call, "%ld 0x7f", (long) SYS_futex);
        assert_int_equal(waiting_classify('S', call, "futex_do_wait"), WAITING_LOCK);
        assert_int_equal(waiting_classify('S', "", "hrtimer_nanosleep"), WAITING_SLEEP); /* a kernel that does not tell the call */
        assert_int_equal(waiting_classify('S', "", "unix_stream_read_generic"), WAITING_NETWORK);
}

static void test_waiting_decides(void **state) {
        struct WaitingVote v = {};
        assert_int_equal(waiting_decide(&v), WAITING_UNKNOWN);
        waiting_add(&v, WAITING_CHILD, true); /* a shell ... */
        assert_int_equal(waiting_decide(&v), WAITING_CHILD);
        waiting_add(&v, WAITING_SLEEP, true); /* ... whose child sleeps */
        assert_int_equal(waiting_decide(&v), WAITING_SLEEP);
        v = (struct WaitingVote) {};
        waiting_add(&v, WAITING_SLEEP, true);
        waiting_add(&v, WAITING_LOCK, false); /* idle workers do not explain it */
        assert_int_equal(waiting_decide(&v), WAITING_SLEEP);
        v = (struct WaitingVote) {};
        waiting_add(&v, WAITING_LOCK, true); /* the first thread joins the one that reads the network */
        waiting_add(&v, WAITING_NETWORK, false);
        assert_int_equal(waiting_decide(&v), WAITING_NETWORK);
        waiting_add(&v, WAITING_COMPUTING, false);
        assert_int_equal(waiting_decide(&v), WAITING_COMPUTING);
        for (int w = 0; w < WAITING_MAX_; w++)
                assert_true(strlen(waiting_words((enum Waiting) w)) > 0);
}

/* Messages: counted, not acted on. */

static int calls, refusals;
static struct CellSpec last_spec;

static int count(void *userdata) {
        calls++;
        return 0;
}

static int count_open(void *userdata, const struct CellSpec *spec) {
        last_spec = *spec;
        return count(userdata);
}

static int count_start(void *userdata, uint64_t cell, const struct RunSpec *run) {
        return count(userdata);
}

static int count_two(void *userdata, uint64_t cell, uint64_t run) {
        return count(userdata);
}

static int count_over(void *userdata, uint64_t cell, uint64_t run, uint8_t status) {
        return count(userdata);
}

static int count_one(void *userdata, uint64_t cell) {
        return count(userdata);
}

static int count_refusal(void *userdata, uint64_t cell, int error, const char *step) {
        refusals++;
        return 0;
}

static const struct MessageHandler counting = {
        .hello = count, .open_cell = count_open, .start_run = count_start, .end_run = count_two, .ask_waiting = count_two,
        .main_over = count_over, .close_cell = count_one, .refuse_cell = count_refusal, .refuse_run = count_refusal,
};

static int send_open(struct MessageBounds *bounds, Glovebox__Internal__OpenCell *open) {
        uint8_t bytes[1024];
        const char *reason;
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_OPEN_CELL;
        m.open_cell = open;
        assert_true(glovebox__internal__to_spawner__get_packed_size(&m) <= sizeof bytes);
        size_t size = glovebox__internal__to_spawner__pack(&m, bytes);
        return message_handle(bounds, bytes, size, 0, &counting, &reason);
}

static struct Runtime message_runtimes[] = {{.name = (char *) "bash", .version = (char *) ""}};
static struct Config message_config = {.runtimes = message_runtimes, .n_runtimes = 1};

static void good_limits(Glovebox__Internal__CellLimits *l) {
        glovebox__internal__cell_limits__init(l);
        l->memory_bytes = 64 * MIB;
        l->cpus = 1;
        l->max_processes = 16;
        l->workspace_bytes = 16 * MIB;
        l->workspace_inodes = 1024;
}

static void test_message_bounds(void **state) {
        struct MessageBounds bounds = {.config = &message_config, .caps = limits_caps()};
        Glovebox__Internal__CellLimits l;
        Glovebox__Internal__OpenCell open = GLOVEBOX__INTERNAL__OPEN_CELL__INIT;
        good_limits(&l);
        open.cell = 7;
        open.runtime = (char *) "bash";
        open.limits = &l;
        calls = 0;
        assert_int_equal(send_open(&bounds, &open), -EPROTO); /* no Hello yet */
        bounds.greeted = true;
        assert_int_equal(send_open(&bounds, &open), 0);
        assert_int_equal(calls, 1);
        assert_int_equal(last_spec.id, 7);
        l.cpus = NAN;
        assert_int_equal(send_open(&bounds, &open), -EPROTO);
        l.cpus = -1;
        assert_int_equal(send_open(&bounds, &open), -EPROTO);
        good_limits(&l);
        l.max_processes = 0;
        assert_int_equal(send_open(&bounds, &open), -EPROTO);
        good_limits(&l);
        open.kind = (char *) "vm";
        assert_int_equal(send_open(&bounds, &open), -EPROTO);
        open.kind = (char *) "native";
        open.limits = NULL;
        assert_int_equal(send_open(&bounds, &open), -EPROTO);
        assert_int_equal(calls, 1);
}

/* OpenCell may bring its first run along: checked like any other, and only ever of the same cell. */
static void test_message_with_its_run(void **state) {
        struct MessageBounds bounds = {.config = &message_config, .caps = limits_caps(), .greeted = true};
        Glovebox__Internal__CellLimits l, of_run;
        Glovebox__Internal__OpenCell open = GLOVEBOX__INTERNAL__OPEN_CELL__INIT;
        Glovebox__Internal__StartRun run = GLOVEBOX__INTERNAL__START_RUN__INIT;
        good_limits(&l);
        good_limits(&of_run);
        open.runtime = (char *) "bash";
        open.limits = &l;
        open.run = &run;
        run.limits = &of_run;
        open.cell = run.cell = 7;
        calls = refusals = 0;
        assert_int_equal(send_open(&bounds, &open), 0);
        assert_int_equal(calls, 2);
        run.cell = 8;
        assert_int_equal(send_open(&bounds, &open), -EPROTO);
        assert_int_equal(calls, 2);
        run.cell = 7;
        of_run.memory_bytes = UINT64_MAX;
        assert_int_equal(send_open(&bounds, &open), 0);
        assert_int_equal(calls, 3);
        assert_int_equal(refusals, 1);
        good_limits(&of_run);
        of_run.cpus = NAN;
        assert_int_equal(send_open(&bounds, &open), -EPROTO);
}

static void test_message_of_an_end(void **state) {
        struct MessageBounds bounds = {.config = &message_config, .caps = limits_caps(), .greeted = true};
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__MainOver over = GLOVEBOX__INTERNAL__MAIN_OVER__INIT;
        uint8_t bytes[64];
        const char *reason = "";
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_MAIN_OVER;
        m.main_over = &over;
        over.status = 255;
        calls = 0;
        size_t size = glovebox__internal__to_spawner__pack(&m, bytes);
        assert_int_equal(message_handle(&bounds, bytes, size, 0, &counting, &reason), 0);
        assert_int_equal(calls, 1);
        over.status = 256;
        size = glovebox__internal__to_spawner__pack(&m, bytes);
        assert_int_equal(message_handle(&bounds, bytes, size, 0, &counting, &reason), -EPROTO);
        assert_int_equal(calls, 1);
}

/* Longer than what surely has room in the pipe, it could make the spawner wait for a cell. */
static void test_message_with_a_job(void **state) {
        static uint8_t job[JOB_BODY_MAX + 1];
        struct MessageBounds bounds = {.config = &message_config, .caps = limits_caps(), .greeted = true};
        Glovebox__Internal__ToSpawner m = GLOVEBOX__INTERNAL__TO_SPAWNER__INIT;
        Glovebox__Internal__StartRun run = GLOVEBOX__INTERNAL__START_RUN__INIT;
        Glovebox__Internal__CellLimits l;
        static uint8_t bytes[JOB_BODY_MAX + 1024];
        const char *reason = "";
        good_limits(&l);
        run.limits = &l;
        run.job = (ProtobufCBinaryData) {.data = job, .len = JOB_BODY_MAX};
        m.message_case = GLOVEBOX__INTERNAL__TO_SPAWNER__MESSAGE_START_RUN;
        m.start_run = &run;
        calls = 0;
        size_t size = glovebox__internal__to_spawner__pack(&m, bytes);
        assert_int_equal(message_handle(&bounds, bytes, size, 0, &counting, &reason), 0);
        assert_int_equal(calls, 1);
        run.job.len++;
        size = glovebox__internal__to_spawner__pack(&m, bytes);
        assert_int_equal(message_handle(&bounds, bytes, size, 0, &counting, &reason), -EPROTO);
        assert_non_null(strstr(reason, "too long"));
}

/* Server and spawner read the config at different moments: what one of them does not know yet must not end the connection, and with it
 * every cell. */
static void test_message_of_another_config(void **state) {
        struct MessageBounds bounds = {.config = &message_config, .caps = limits_caps(), .greeted = true};
        Glovebox__Internal__CellLimits l;
        Glovebox__Internal__OpenCell open = GLOVEBOX__INTERNAL__OPEN_CELL__INIT;
        open.limits = &l;
        calls = refusals = 0;
        good_limits(&l);
        open.runtime = (char *) "../bash";
        assert_int_equal(send_open(&bounds, &open), 0);
        open.runtime = (char *) "bash";
        l.memory_bytes = UINT64_MAX;
        assert_int_equal(send_open(&bounds, &open), 0);
        assert_int_equal(refusals, 2);
        assert_int_equal(calls, 0);
}

static void test_message_garbage(void **state) {
        struct MessageBounds bounds = {.config = &message_config, .caps = limits_caps(), .greeted = true};
        const uint8_t bytes[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
        const char *reason = NULL;
        calls = 0;
        assert_true(message_handle(&bounds, bytes, sizeof bytes, 0, &counting, &reason) < 0);
        assert_non_null(reason);
        assert_true(message_handle(&bounds, bytes, 0, 0, &counting, &reason) < 0);
        assert_int_equal(calls, 0);
}

static void test_log_limit(void **state) {
        struct LogLimit l = {};
        uint64_t left_out = 1;
        usec_t now = 1000 * USEC_PER_SEC;
        for (int i = 0; i < LOG_LIMIT_LINES; i++) {
                assert_true(log_limit_may(&l, now, &left_out));
                assert_int_equal(left_out, 0);
        }
        for (int i = 0; i < 1000; i++)
                assert_false(log_limit_may(&l, now + LOG_LIMIT_TIME - 1, &left_out));
        assert_true(log_limit_may(&l, now + LOG_LIMIT_TIME, &left_out));
        assert_int_equal(left_out, 1000);
        assert_true(log_limit_may(&l, now + LOG_LIMIT_TIME, &left_out));
        assert_int_equal(left_out, 0);
}

static void assert_restart(const struct Config *was, const struct Config *is, const char *expected) {
        char *changes _cleanup_free_ = NULL;
        assert_int_equal(reload_needs_restart(was, is, &changes), 0);
        if (expected)
                assert_string_equal(changes, expected);
        else
                assert_null(changes);
}

static void test_reload(void **state) {
        char *args[] = {(char *) "{code}", NULL}, *other_args[] = {(char *) "-u", (char *) "{code}", NULL};
        struct Runtime a[] = {{.key = (char *) "python", .exec = (char *) "/usr/bin/python3", .args = args, .file = (char *) "python.conf"}};
        struct Runtime b[] = {a[0], {.key = (char *) "own", .exec = (char *) "/own", .args = args, .file = (char *) "own.conf"}};
        struct Config was = {.runtimes = a, .n_runtimes = 1, .uid_start = 70000, .uid_count = 100}, is = was;
        is.runtimes = b;
        assert_restart(&was, &is, NULL);
        is.caps.memory_bytes = 1; /* taken over at once */
        assert_restart(&was, &is, NULL);
        b[0].args = other_args;
        assert_restart(&was, &is, "python.conf");
        b[0].args = args;
        b[0].exec = (char *) "/usr/bin/python3.12";
        is.n_runtimes = 2;
        assert_restart(&was, &is, "python.conf, own.conf");
        b[0].exec = a[0].exec;
        assert_restart(&was, &is, "own.conf");
        assert_restart(&is, &was, "own.conf");
        is.n_runtimes = 0;
        assert_restart(&was, &is, "python.conf");
        is.n_runtimes = 1;
        is.uid_start++;
        is.seccomp_allow = is.io_max = is.waive = other_args;
        assert_restart(&was, &is, "io-max, seccomp-allow, uid-range, waive");
        struct CallerRule rule = {.name = (char *) "uid:1", .slice = (char *) "a"};
        is.callers = &rule;
        is.n_callers = 1;
        is.seccomp_deny = other_args;
        is.driver = is.seccomp_policy = (char *) "other";
        is.shared_scopes = is.core_scheduling = is.debug_seccomp = true;
        is.spare_uid++;
        is.max_cells++;
        is.n_runtimes = 0;
        assert_restart(&was, &is, "core-scheduling, debug-seccomp, driver, io-max, max-cells, scope, seccomp-allow, seccomp-deny, seccomp-policy, "
                                  "slice, spare-uid, uid-range, waive, python.conf");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_events),          cmocka_unit_test(test_tree),
                cmocka_unit_test(test_hurry),
                cmocka_unit_test(test_slots),           cmocka_unit_test(test_range),
                cmocka_unit_test(test_job_head),        cmocka_unit_test(test_job_head_is_bounded),
                cmocka_unit_test(test_records_are_strict), cmocka_unit_test(test_failures_of_starts), cmocka_unit_test(test_states),
                cmocka_unit_test(test_waiting),         cmocka_unit_test(test_waiting_decides),
                cmocka_unit_test(test_message_bounds), cmocka_unit_test(test_message_with_its_run),
                cmocka_unit_test(test_message_with_a_job), cmocka_unit_test(test_message_of_an_end), cmocka_unit_test(test_message_garbage),
                cmocka_unit_test(test_message_of_another_config),
                cmocka_unit_test(test_log_limit),       cmocka_unit_test(test_reload),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
