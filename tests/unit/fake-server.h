/* A stand-in for the server: starts the real spawner in a folder of its own, and speaks with it. */
#pragma once

#include "common/collect.h"
#include "common/job.h"
#include "common/util.h"
#include "common/wire.h"
#include "spawner.pb-c.h"

#define OUTPUT_MAX 65536

#define CASE(name) GLOVEBOX__INTERNAL__FROM_SPAWNER__MESSAGE_##name
#define ROLE(name) GLOVEBOX__INTERNAL__ROLE__ROLE_##name
#define ROLE_COUNT (ROLE(FILES) + 1) /* the last one */

struct FakeServer {
        char folder[64], program[4096 + 32];
        pid_t pid; /* of the spawner */
        int socket;
        uint64_t last_cell;
};

/* One cell with one run, as the last messages left it. */
struct FakeCell {
        uint64_t id;
        int fds[ROLE_COUNT];
        char out[OUTPUT_MAX], err[OUTPUT_MAX], report[8192];
        size_t out_size, err_size, report_size; /* report: without records of files, */
        struct FileStamp files[1 + 64];         /* which are here */
        size_t n_files;
        bool failed, exited, signaled, lost, closed;
        int status;
        char step[64], left[128], what[64];
};

extern struct FakeServer spawner;
extern struct FakeCell cell;

/* A folder with configuration; the spawner is taken from the build folder. */
int fake_server_set_up(void **state);
int fake_server_tear_down(void **state);
void start_spawner(void);
int try_connect(void);
/* Connects, with patience, and says hello. */
void greet(void);
/* The next message: its type. -1 = the spawner has hung up. */
int next(void);
void next_until(int type);
/* Opens a cell with a run, up to where its job can be written; false: the cell failed. */
bool open_run(const char *runtime);
/* The same in two parts, with these limits. */
void send_open(const char *runtime, uint64_t memory_bytes);
bool start_run(uint64_t memory_bytes, double cpus);
void write_record(enum JobType type, const void *bytes, size_t size);
void start_code(const char *runtime, const char *code);
void ask_waiting(void);
void send_end_run(uint64_t run);
void end_run(void);
void send_close_cell(void);
void close_cell(void);
/* All of it. */
void run_code(const char *runtime, const char *code);
/* The end of a job, of its runner's part, too; others never read that. */
void end_job(void);
void close_cell_fds(void);
/* Folders of cells in the spawner's cgroup; -1: it has none. */
int count_cell_folders(void);
/* Descriptors that the spawner holds. */
int count_fds(void);
/* A descendant of the spawner (the builder's children too) by its name in /proc; 0 = none. */
pid_t find_child(pid_t parent, const char *name);
