/* common/config.c, common/keyfile.c, common/runtimes.c */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <sys/stat.h>

#include "common/config.h"

struct Folder {
        char path[40], file[64], runtimes[64];
};

static void write_text(const char *path, const char *text) {
        FILE *f = fopen(path, "we");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state) {
        struct Folder *f = calloc(1, sizeof(*f));

        strcpy(f->path, "/tmp/test-config-XXXXXX");
        assert_non_null(mkdtemp(f->path));
        (void) snprintf(f->file, sizeof(f->file), "%s/glovebox.conf", f->path);
        (void) snprintf(f->runtimes, sizeof(f->runtimes), "%s/runtimes.d", f->path);
        assert_ok(mkdir(f->runtimes, 0755));
        *state = f;
        return 0;
}

static int remove_folder(void **state) {
        struct Folder *f = *state;
        char name[128];

        static const char *const names[] = { "bash", "python", "javascript", "own", "other" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void) snprintf(name, sizeof(name), "%s/%s.conf", f->runtimes, names[i]);
                (void) unlink(name);
        }
        (void) unlink(f->file);
        assert_ok(rmdir(f->runtimes));
        assert_ok(rmdir(f->path));
        free(f);
        return 0;
}

static struct Config *load(const struct Folder *f, const char *text) {
        struct Config *c = NULL;
        char *error _cleanup_free_ = NULL;
        int r;

        write_text(f->file, text);
        r = config_load(f->file, &c, &error);
        if (r < 0)
                fail_msg("%s", error);
        return c;
}

static void load_fails(const struct Folder *f, const char *text, const char *expected) {
        struct Config *c = NULL;
        char *error _cleanup_free_ = NULL, *whole _cleanup_free_ = NULL;

        write_text(f->file, text);
        assert_true(config_load(f->file, &c, &error) < 0);
        assert_null(c);
        assert_non_null(error);
        assert_true(asprintf(&whole, "%s%s", f->path, expected) > 0);
        assert_string_equal(error, whole);
}

/* The file as it is. */
static void load_says(const struct Folder *f, const char *part) {
        struct Config *c = NULL;
        char *error _cleanup_free_ = NULL;

        assert_true(config_load(f->file, &c, &error) < 0);
        assert_null(c);
        assert_non_null(strstr(error, part));
}

static void write_runtime(const struct Folder *f, const char *name, const char *text) {
        char path[128];

        (void) snprintf(path, sizeof(path), "%s/%s.conf", f->runtimes, name);
        write_text(path, text);
}

static void defaults(void **state) {
        struct Config *c _cleanup_(config_freep) = load(*state, "# nothing\n");
        const struct Profile *heavy = config_profile(c, "heavy");

        assert_string_equal(c->listen[0], "unix:/run/glovebox/glovebox.sock");
        assert_null(c->listen[1]);
        assert_string_equal(c->operators[0], "uid:0");
        assert_int_equal(c->max_waiting, 256);
        assert_int_equal(c->wait_deadline, 10 * USEC_PER_SEC);
        assert_int_equal(c->max_message, 96 * MIB);
        assert_int_equal(c->defaults.memory_bytes, 512 * MIB);
        assert_int_equal(c->caps.memory_bytes, 4 * GIB);
        assert_int_equal(c->n_profiles, 3);
        assert_int_equal(heavy->limits.timeout, 300 * USEC_PER_SEC);
        assert_int_equal(heavy->idle.grace, 150 * USEC_PER_SEC);
        assert_int_equal(heavy->limits.max_processes, 0);
        assert_null(config_profile(c, "huge"));
        assert_false(c->plain_tcp);
        assert_true(strlen(c->node) > 0);
        assert_true(c->spare_uid < c->uid_start || c->spare_uid >= c->uid_start + c->uid_count);
}

static void everything_set(void **state) {
        struct Config *c _cleanup_(config_freep) = load(*state,
                "[server]\n"
                "listen = unix:/run/a.sock 127.0.0.1:50051\n"
                "listen = [::1]:50051 ; and a comment\n"
                "plain-tcp = yes\n"
                "operators = \"cert:Jane Doe\" uid:1000\n"
                "audit-code = full\n"
                "audit-file = /var/log/a.jsonl\n"
                "node = node-7\n"
                "max-executions=4\n"
                "request-budget = 1G\n"
                "[limits]\ntimeout = 5s\nidle-timeout = 1s\nidle-evidence = output\n"
                "[caps]\ncpus = 8\n"
                "[profile one]\ncpus = 7.5\nidle-grace = 2s\n"
                "[caller uid:7]\nmemory = 2G\nmax-executions = 3\n[caller *]\ncpus = 1.5\nslice = others\n[caller cert:Jane Doe]\n"
                "[spawner]\nwaive = memory pids\nuid-range = 100000:1000\nspare-uid = 99999\ndriver = systemd\nscope = shared\npriority = realtime\n[server]\npriority = high\n");

        assert_int_equal(strv_length(c->listen), 3);
        assert_string_equal(c->listen[2], "[::1]:50051");
        assert_string_equal(c->operators[0], "cert:Jane Doe");
        assert_int_equal(c->audit_code, AUDIT_CODE_FULL);
        assert_string_equal(c->node, "node-7");
        assert_int_equal(c->max_executions, 4);
        assert_int_equal(c->request_budget, GIB);
        assert_int_equal(c->defaults.timeout, 5 * USEC_PER_SEC);
        assert_int_equal(c->defaults.memory_bytes, 512 * MIB);
        assert_int_equal(c->default_idle.evidence, EVIDENCE_OUTPUT);
        assert_int_equal(c->n_profiles, 1);
        assert_true(c->profiles[0].limits.cpus == 7.5);
        assert_int_equal(c->uid_start, 100000);
        assert_int_equal(c->uid_count, 1000);
        assert_true(strv_contains(c->waive, "pids"));
        assert_string_equal(c->driver, "systemd");
        assert_true(c->shared_scopes);
        assert_int_equal(c->server_priority, PRIORITY_HIGH);
        assert_int_equal(c->spawner_priority, PRIORITY_REALTIME);
        assert_int_equal(config_caller(c, "uid:7")->max_executions, 3);
        assert_int_equal(config_caller(c, "uid:7")->together.memory_bytes, 2 * GIB);
        assert_true(config_caller(c, "uid:7")->together.cpus == 0);
        assert_true(config_caller(c, "uid:70")->together.cpus == 1.5);
        assert_true(config_caller(c, "cert:Jane Doe")->together.cpus == 0);
        assert_null(config_caller(c, "uid:7")->slice);
        assert_ptr_equal(config_slice(c, "others"), config_caller(c, "uid:70")->slice);
        assert_null(config_slice(c, "other"));
}

static void errors_name_line_and_cure(void **state) {
        static const struct {
                const char *text, *error;
        } cases[] = {
                { "[server]\n\nmax-exections = 3\n",
                  "/glovebox.conf:3: unknown key 'max-exections' in [server]; did you mean 'max-executions'?" },
                { "[sever]\n", "/glovebox.conf:1: unknown section 'sever'; did you mean 'server'?" },
                { "[server]\nzzzzzz = 3\n", "/glovebox.conf:2: unknown key 'zzzzzz' in [server]" },
                { "[server]\ncertificate = /a\n", "/glovebox.conf:2: 'certificate' belongs into [tls], not into [server]" },
                { "[server]\nmemory = 1G\n", "/glovebox.conf:2: 'memory' is a limit: it belongs into [limits], [caps] or a [profile NAME]" },
                { "a = 3\n", "/glovebox.conf:1: 'a' stands before the first [section]" },
                { "[server]\nwhat\n", "/glovebox.conf:2: neither a [section], nor key = value, nor a # comment" },
                { "[server\n", "/glovebox.conf:1: a section looks like [name]: the closing ] is missing" },
                { "[server]\nnode = a\nnode = b\n", "/glovebox.conf:3: 'node' is given a second time in [server]; keep one of them" },
                { "[limits]\ncpus = 1\ncpus = 1\n", "/glovebox.conf:3: 'cpus' is given a second time in [limits]; keep one of them" },
                { "[server]\nmax-connections = 0\n", "/glovebox.conf:2: 'max-connections' must be from 1 to 65536, not '0'" },
                { "[server]\nwait-deadline = 2h\n", "/glovebox.conf:2: 'wait-deadline' must be from 0 us to 3600 s, not '2h'" },
                { "[server]\nmax-message = 96 M\n",
                  "/glovebox.conf:2: 'max-message' must be a size such as 512M, 2G or 65536, not '96 M'" },
                { "[server]\nplain-tcp = maybe\n", "/glovebox.conf:2: 'plain-tcp' must be yes or no, not 'maybe'" },
                { "[server]\naudit-file = a\n", "/glovebox.conf:2: 'audit-file' must be an absolute path, not 'a'" },
                { "[server]\noperators = \"cert:a\n", "/glovebox.conf:2: a double quote in 'operators' is not closed" },
                { "[server]\noperators = root\n", "/glovebox.conf:2: 'operators' must be uid:NUMBER or cert:NAME, not 'root'" },
                { "[server]\nlisten = 50051\n",
                  "/glovebox.conf:2: 'listen' must be unix:/PATH (at most 107 bytes), HOST:PORT or [ADDRESS]:PORT, not '50051'" },
                { "[server]\nnode = a/b\n", "/glovebox.conf:2: 'node' must be 1 to 32 letters, digits or -, not 'a/b'" },
                { "[server]\naudit-code = all\n", "/glovebox.conf:2: 'audit-code' must be hash or full, not 'all'" },
                { "[tls]\nkey = /a\n", "/glovebox.conf: [tls] needs all of 'certificate', 'key' and 'client-ca'" },
                { "[tls]\ncertificate = /a\nkey = b\nclient-ca = c/d\n",
                  "/glovebox.conf:4: files of [tls] must be absolute paths, or names of credentials (LoadCredential=), not 'c/d'" },
                { "[limits]\nmemory = 1M\n", "/glovebox.conf:2: 'memory' must be at least 16 MiB, not '1M'" },
                { "[limits]\nidle-evidence = cpu\n", "/glovebox.conf:2: 'idle-evidence' must be output-and-cpu or output, not 'cpu'" },
                { "[limits]\nidle-timeout = 1ms\n", "/glovebox.conf:2: 'idle-timeout' must be 0 (off) or at least 50 ms, not '1ms'" },
                { "[caps]\nidle-timeout = 1s\n", "/glovebox.conf:2: unknown key 'idle-timeout' in [caps]" },
                { "[limits]\nmemory = 8G\n",
                  "/glovebox.conf: 'memory' of [limits] is 8 GiB, above the cap of 4 GiB; lower it, or raise the cap in [caps]" },
                { "[profile a b]\n", "/glovebox.conf:1: a profile's name is 1 to 32 letters, digits, _ or -, as in [profile quick], not 'a b'" },
                { "[profile]\n", "/glovebox.conf:1: [profile] has no name; it must be [profile NAME], such as [profile quick]" },
                { "[caller]\n", "/glovebox.conf:1: [caller] has no name; it must be [caller NAME], such as [caller uid:1000]" },
                { "[profile x]\nmemroy = 1G\n", "/glovebox.conf:2: unknown key 'memroy' in [profile x]; did you mean 'memory'?" },
                { "[profile x]\nmemory-bytes = 1G\n", "/glovebox.conf:2: unknown key 'memory-bytes' in [profile x]; did you mean 'memory'?" },
                { "[profile x]\nmax_processes = 9\n", "/glovebox.conf:2: unknown key 'max_processes' in [profile x]; did you mean 'max-processes'?" },
                { "[server]\n\nlisten = unix:/a\nlisten = unix:b\n",
                  "/glovebox.conf:4: 'listen' must be unix:/PATH (at most 107 bytes), HOST:PORT or [ADDRESS]:PORT, not 'unix:b'" },
                { "[spawner]\nio-max = sda rbps=1\n",
                  "/glovebox.conf:2: io-max begins with the absolute path of a disk, such as /dev/sda, not with 'sda'" },
                { "[spawner]\nio-max = /dev/sda rbsp=1M\n",
                  "/glovebox.conf:2: io-max: 'rbsp=1M' is not one of rbps, wbps, riops, wiops with a number above 0, such as rbps=10M" },
                { "[spawner]\nio-max = /dev/sda\n",
                  "/glovebox.conf:2: io-max must look like '/dev/sda rbps=10M wbps=10M riops=100 wiops=100', not '/dev/sda'" },
                { "[profile a]\n[profile a]\n", "/glovebox.conf:2: [profile a] is there a second time; put its keys together" },
                { "[spawner]\nspare-uid = 2130706432\n",
                  "/glovebox.conf: 'spare-uid' 2130706432 is in 'uid-range' 2130706432:65536: a cell could then act as the server; "
                  "choose one outside" },
                { "[spawner]\nuid-range = 1000:65536\n",
                  "/glovebox.conf: 'uid-range' must start at 65536 or above, have at least 16 and end below 4294967295, not '1000:65536'" },
                { "[spawner]\nuid-range = 4294900000:67296\n",
                  "/glovebox.conf: 'uid-range' must start at 65536 or above, have at least 16 and end below 4294967295, not "
                  "'4294900000:67296'" },
                { "[spawner]\nuid-range = -5:65536\n", "/glovebox.conf: 'uid-range' must be START:COUNT, such as 2130706432:65536, not '-5:65536'" },
                { "[spawner]\ndriver = docker\n", "/glovebox.conf:2: 'driver' must be cgroupfs or systemd, not 'docker'" },
                { "[spawner]\npriority = -5\n", "/glovebox.conf:2: 'priority' must be normal, high or realtime, not '-5'" },
                { "[server]\npriority = Realtime\n", "/glovebox.conf:2: 'priority' must be normal, high or realtime, not 'Realtime'" },
                { "[spawner]\nscope = one\n", "/glovebox.conf:2: 'scope' must be per-cell or shared, not 'one'" },
                { "[spawner]\nscope = shared\ndriver = cgroupfs\n",
                  "/glovebox.conf: 'scope' = shared is for driver = systemd; with cgroupfs there are no scopes" },
                { "[caller uid:7]\nslice = a-b\n",
                  "/glovebox.conf: 'slice' of [caller uid:7] must be 1 to 24 of a-z 0-9 _, and neither control nor begin with pool, not 'a-b'" },
                { "[caller bob]\n", "/glovebox.conf:1: a caller is uid:NUMBER, cert:NAME or * (all others), as in [caller uid:1000], not 'bob'" },
                { "[caller uid:7]\ntimeout = 3s\n", "/glovebox.conf:2: unknown key 'timeout' in [caller uid:7]" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                load_fails(*state, cases[i].text, cases[i].error);
}

static void comments_need_a_line_of_their_own(void **state) {
        static const char *const wrong[] = {
                "[server]\naudit-file = /var/log/a # here\n", "[server]\nplain-tcp = yes # here\n", "[server]\nmax-waiting = 3\t# here\n",
                "[spawner]\nwaive = io # here\n",              "[limits]\nmemory = 1G # here\n",     "[profile x]\nidle-timeout = 1s # here\n",
                "[caller *]\nmemory = 1G # here\n",           "[limits]\nidle-evidence = # here\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                write_text(((struct Folder *) *state)->file, wrong[i]);
                load_says(*state, "a comment needs a line of its own; '# here' would be part of the value");
                load_says(*state, "/glovebox.conf:2: ");
        }
        struct Config *c _cleanup_(config_freep) = load(*state, "[server]\noperators = \"cert:a # b\" cert:a#b\n");
        assert_string_equal(c->operators[0], "cert:a # b");
        assert_string_equal(c->operators[1], "cert:a#b");
}

static void what_cannot_be_waived(void **state) {
        const struct Folder *f = *state;

        write_text(f->file, "[spawner]\nwaive = memory\nwaive = seccmp\n");
        load_says(f, "/glovebox.conf:3: 'waive': 'seccmp' cannot be waived; possible are ipc_namespace, ");
        load_says(f, ", seccomp, memory, pids, cpu, io");
        write_text(f->file, "[spawner]\nwaive = user_namespace\n");
        load_says(f, "'user_namespace' cannot be waived, since no cell can be made without it; possible are ");
        struct Config *c _cleanup_(config_freep) = load(f, "[spawner]\nwaive = memory seccomp landlock\n");
        assert_int_equal(strv_length(c->waive), 3);
}

static void bounds_of_a_file(void **state) {
        const struct Folder *f = *state;
        char line[400] = "[server]\nnode = ";

        memset(line + strlen(line), 'x', 300);
        strcat(line, "\n");
        load_fails(f, line, "/glovebox.conf:2: the line has more than 198 bytes; give a list in several lines that repeat the key");
        load_fails(f, "[server]\nnode = \xff\n", "/glovebox.conf: is not text in UTF-8 of at most 1 MiB");
        write_text(f->file, "");
        assert_ok(truncate(f->file, 3 << 20));
        load_says(f, "is larger than 1 MiB");
}

static void foreign_hands(void **state) {
        const struct Folder *f = *state;

        write_text(f->file, "");
        assert_ok(chmod(f->file, 0666));
        load_says(f, "may be written by everyone");
}

static void a_missing_file(void **state) {
        struct Config *c = NULL;
        char *error _cleanup_free_ = NULL;

        assert_error(config_load("/nonexistent/glovebox.conf", &c, &error), ENOENT);
        assert_non_null(strstr(error, "/nonexistent/glovebox.conf: cannot be read"));
}

static void shipped_values_follow_lower_caps(void **state) {
        struct Config *c _cleanup_(config_freep) = load(*state, "[caps]\nmemory = 256M\ntimeout = 20s\n");

        assert_int_equal(c->defaults.memory_bytes, 256 * MIB);
        assert_int_equal(c->defaults.timeout, 20 * USEC_PER_SEC);
        assert_int_equal(config_profile(c, "heavy")->limits.memory_bytes, 256 * MIB);
        assert_int_equal(config_profile(c, "heavy")->idle.grace, 10 * USEC_PER_SEC);
}

static void the_shipped_file_changes_nothing(void **state) {
        struct Config *c _cleanup_(config_freep) = NULL, *plain _cleanup_(config_freep) = load(*state, "");
        char *error _cleanup_free_ = NULL;

        if (config_load(SOURCE_DIR "/systemd/glovebox.conf", &c, &error) < 0)
                fail_msg("%s", error);
        assert_memory_equal(&c->caps, &plain->caps, sizeof(c->caps));
        assert_memory_equal(&c->defaults, &plain->defaults, sizeof(c->defaults));
        assert_int_equal(c->n_profiles, plain->n_profiles);
}

static void shipped_runtimes(void **state) {
        struct Config *c _cleanup_(config_freep) = load(*state, "");
        const struct Runtime *python = config_runtime(c, "python");

        assert_string_equal(python->exec, "/usr/bin/python3");
        assert_string_equal(python->code_name, "main.py");
        assert_true(strv_contains(python->args, "{code}"));
        assert_true(strv_contains(python->env, "PATH=/usr/local/bin:/usr/bin:/bin"));
        assert_string_equal(python->version_args[0], "--version");
        assert_non_null(config_runtime(c, "javascript"));
        assert_non_null(config_runtime(c, "bash"));
        assert_null(config_runtime(c, "pyth"));
        assert_null(config_runtime(c, "python3"));
        assert_null(config_runtime(c, "python:2.7"));
        assert_null(config_runtime(c, ""));
}

static void own_runtimes(void **state) {
        const struct Folder *f = *state;
        struct Config *c _cleanup_(config_freep) = NULL;

        write_runtime(f, "bash", "");
        write_runtime(f, "python", "[runtime]\nexec = /opt/python\ncode-name = a.py\nversion = 3.13\nprofile = data\n");
        write_runtime(f, "own", "[runtime]\nname = python\nversion = 3.9\nexec = /opt/python3.9\ncode-name = a.py\nargs = \"a b\" -c {code}\n"
                                "env = A=b c\nenv = D=\n");
        c = load(f, "");
        assert_null(config_runtime(c, "bash"));
        assert_string_equal(config_runtime(c, "python:3.13")->exec, "/opt/python");
        assert_string_equal(config_runtime(c, "python:3.13")->args[0], "{code}");
        assert_string_equal(config_runtime(c, "python:3.9")->args[0], "a b");
        assert_string_equal(config_runtime(c, "python:3.9")->env[0], "A=b c");
        assert_string_equal(config_runtime(c, "python:3.9")->key, "python:3.9");
        assert_string_equal(config_runtime(c, "javascript")->key, "javascript");
        assert_null(config_runtime(c, "python:3"));
        assert_non_null(config_runtime(c, "javascript"));
}

static void a_file_of_comments_removes_a_runtime(void **state) {
        const struct Folder *f = *state;

        write_runtime(f, "bash", "\n# No shell here.\n\n  \n; nothing\n");
        struct Config *c _cleanup_(config_freep) = load(f, "");
        assert_null(config_runtime(c, "bash"));
        assert_non_null(config_runtime(c, "python"));
        write_runtime(f, "bash", "# No shell here.\n[runtime]\n");
        load_says(f, "'exec' is missing");
        write_runtime(f, "bash", "# No shell here.\nexec = /a\n");
        load_says(f, "bash.conf:2: 'exec' stands before the first [section], which is [runtime]");
}

static void an_ending_has_one_runtime(void **state) {
        const struct Folder *f = *state;

        write_text(f->file, "");
        write_runtime(f, "own", "[runtime]\nname = python\nversion = 3.9\nexec = /a\ncode-name = a\nendings = .x .py\n");
        load_says(f, "/runtimes.d/own.conf: 'endings' has '.py', and so has ");
        load_says(f, "/runtimes.d/python.conf; a file would have two runtimes: take it out of one of them");
        write_runtime(f, "own", "[runtime]\nname = python\nversion = 3.9\nexec = /a\ncode-name = a\nendings = .x .py3\n");
        struct Config *c _cleanup_(config_freep) = load(f, "");
        assert_int_equal(strv_length(config_runtime(c, "python:3.9")->endings), 2);
}

static void a_runtime_has_limits_of_its_own(void **state) {
        const struct Folder *f = *state;

        write_runtime(f, "own", "[runtime]\nexec = /a\ncode-name = a\n[limits]\nmemory = 64M\n[caps]\nmemory = 128M\n");
        struct Config *c _cleanup_(config_freep) = load(f, "[caps]\ncpus = 4\n");
        const struct Runtime *own = config_runtime(c, "own");
        assert_int_equal(own->defaults.memory_bytes, 64 * MIB);
        assert_int_equal(own->caps.memory_bytes, 128 * MIB);
        assert_true(own->caps.cpus == 4); /* what it leaves out is the server's */
        assert_true(config_runtime(c, "bash")->caps.cpus == 4);
}

static void a_waiting_interpreter_and_a_read_only_workspace(void **state) {
        static const char text[] = "[runtime]\nexec = /a\ncode-name = a\nrunner = yes\nread-only-workspace = yes\n";
        static const char *const fitting[] = { "zygote = yes\nwarm = yes\n", "zygote = yes\n", "warm = no\n" };
        const struct Folder *f = *state;

        for (size_t i = 0; i < ELEMENTSOF(fitting); i++) {
                char whole[200];

                (void) snprintf(whole, sizeof(whole), "%s%s", text, fitting[i]);
                write_runtime(f, "own", whole);
                struct Config *c _cleanup_(config_freep) = load(f, "");
                assert_true(config_runtime(c, "own")->read_only_workspace);
        }
}

static void wrong_runtimes(void **state) {
        static const struct {
                const char *text, *error;
        } cases[] = {
                { "[runtime]\ncode-name = a\n",
                  "/runtimes.d/own.conf: 'exec' is missing: the interpreter's absolute path inside the cell, such as /usr/bin/python3" },
                { "[runtime]\nexec = /a\n",
                  "/runtimes.d/own.conf: 'code-name' is missing: the name of the code's file in /workspace, such as main.py" },
                { "[runtime]\nexec = a\n", "/runtimes.d/own.conf:2: 'exec' must be an absolute path, not 'a'" },
                { "[runtime]\nexec = /a\ncode-name = ../a\n",
                  "/runtimes.d/own.conf:3: 'code-name' must be a plain file name that does not begin with a dot, not '../a'" },
                { "[runtime]\nexec = /a\ncode-name = a\nname = A\n",
                  "/runtimes.d/own.conf: 'name' must be 1 to 64 of a-z 0-9 . _ - and not begin with . or -, not 'A'" },
                { "[runtime]\nexec = /a\ncode-name = a\nargs = -u\n",
                  "/runtimes.d/own.conf: 'args' has no word {code}, so that the code would never run; add it where its path belongs, as in: "
                  "args = -u {code}" },
                { "[runtime]\nexec = /a\ncode-name = a\nargs = --file={code}\n",
                  "/runtimes.d/own.conf: 'args' has no word {code}, so that the code would never run; add it where its path belongs, as in: "
                  "args = -u {code}" },
                { "[runtime]\nexec = /a\ncode-name = a\nenv = 1A=b\n",
                  "/runtimes.d/own.conf:4: 'env' must be NAME=VALUE (one in each line), not '1A=b'" },
                { "[runtime]\nexec = /a\ncode-name = a\nendings = py\n", "/runtimes.d/own.conf:4: 'endings' must look like .py, not 'py'" },
                { "[runtime]\nexec = /a\ncode-name = a\nprofile = x\n",
                  "/runtimes.d/own.conf: there is no [profile x] in glovebox.conf" },
                { "[runtime]\nexce = /a\n", "/runtimes.d/own.conf:2: unknown key 'exce' in [runtime]; did you mean 'exec'?" },
                { "[runtime]\nexec = /a\ncode-name = a\n[caps]\nmemory = 5G\n",
                  "/runtimes.d/own.conf: 'memory' of [caps] is 5 GiB, above the cap of 4 GiB; lower it, or raise the cap in [caps] "
                  "of glovebox.conf" },
                { "[runtime]\nexec = /a\ncode-name = a\n[limits]\nmemory = 2G\n[caps]\nmemory = 1G\n",
                  "/runtimes.d/own.conf: 'memory' of [limits] is 2 GiB, above the cap of 1 GiB; lower it, or raise the cap in [caps]" },
                { "[runtime]\nexec = /a\ncode-name = a\nrunner = yes\nwarm = yes\nread-only-workspace = yes\n",
                  "/runtimes.d/own.conf: 'warm' with read-only-workspace = yes needs a zygote: zygote = yes if the runner can (Python), else "
                  "warm = no" },
                { "[runtimes]\n", "/runtimes.d/own.conf:1: unknown section 'runtimes'; did you mean 'runtime'?" },
        };
        const struct Folder *f = *state;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                write_runtime(f, "own", cases[i].text);
                load_fails(f, "", cases[i].error);
        }
        write_runtime(f, "own", "[runtime]\nname = bash\nexec = /a\ncode-name = a\n");
        load_says(f, "runtime 'bash' with version '' is also in ");
}

/* The head of a job must fit into a pipe before anyone reads it. */
static void a_runtime_too_large_for_a_pipe(void **state) {
        const struct Folder *f = *state;
        char text[60000] = "[runtime]\nexec = /a\ncode-name = a\n";

        for (int i = 0; i < 230; i++)
                (void) sprintf(text + strlen(text), "env = A%d=%0150d\n", i, i);
        write_runtime(f, "own", text);
        load_fails(f, "", "/runtimes.d/own.conf: exec, args and env together have more than 32 KiB");
}

static void the_servers_ids_are_never_roots(void **state) {
        struct Config *c _cleanup_(config_freep) = load(*state, "[spawner]\nspare-uid = 99999\n");
        uid_t uid;
        gid_t gid;

        config_server_ids(c, &uid, &gid);
        assert_int_not_equal(uid, 0);
        assert_int_not_equal(gid, 0);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

RUN(IN_FOLDER(defaults), IN_FOLDER(everything_set), IN_FOLDER(errors_name_line_and_cure),
    IN_FOLDER(comments_need_a_line_of_their_own), IN_FOLDER(what_cannot_be_waived),
    IN_FOLDER(bounds_of_a_file), IN_FOLDER(foreign_hands),
    IN_FOLDER(a_missing_file), IN_FOLDER(shipped_values_follow_lower_caps), IN_FOLDER(the_shipped_file_changes_nothing),
    IN_FOLDER(shipped_runtimes), IN_FOLDER(own_runtimes), IN_FOLDER(a_file_of_comments_removes_a_runtime), IN_FOLDER(an_ending_has_one_runtime),
    IN_FOLDER(a_runtime_has_limits_of_its_own), IN_FOLDER(wrong_runtimes),
    IN_FOLDER(a_waiting_interpreter_and_a_read_only_workspace),
    IN_FOLDER(a_runtime_too_large_for_a_pipe),
    IN_FOLDER(the_servers_ids_are_never_roots))
