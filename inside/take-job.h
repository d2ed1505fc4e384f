/* Taking a job (common/job.h) from its pipe: writes code and files into the workspace, gathers arguments and environment, enters the folder, and
 * reports how the files were when they were written. By glovebox-start, and by an interpreter that has waited for its job. */
#pragma once

#include "common/collect.h"

#define JOB_FD 3
#define JOB_REPORT_FD 4
#define JOB_VALUE_FD 5

#define TAKEN_ARENA_SIZE (1 * MIB) /* all strings together */
#define TAKEN_STRINGS_MAX 16384
#define TAKEN_FILES_MAX 1001 /* the code and as many files as a request may have; their records fit into the report pipe before anyone reads */
#define TAKEN_FILE_SIZE (JOB_HEADER_SIZE + FILE_STAMP_SIZE)

/* All zero before the first call. Large, so static: what is not used is no memory. */
struct TakenJob {
        bool forked; /* set by the caller: the interpreter is there already, and JOB_WAIT changes nothing for it */
        char *exec, *code_path, *working_dir;
        char *args[TAKEN_STRINGS_MAX + 1], *env[TAKEN_STRINGS_MAX + 1];
        size_t n_args, n_env;
        bool runner, read_only, waits;
        const char *step; /* what it is at, for take_job_fail() */

        bool is_body;
        char *folder; /* NULL = /workspace */
        int workspace, code, file;
        uint8_t files[TAKEN_FILES_MAX][TAKEN_FILE_SIZE]; /* REPORT_FILE: of the code, if there is any, then of each file */
        size_t n_files;
        size_t used;
        char arena[TAKEN_ARENA_SIZE];
};

/* args[0] is exec, then the runtime's. */
int take_job_head(struct TakenJob *j);
/* Between head and body, of one that waits: tells the spawner so; */
int take_job_ready(void);
/* and comes back when there is a body. Until then nothing is made of the job: another process may get it, in the same workspace. */
int take_job_await(void);
/* Instead of the head, which glovebox-start has read: of it only the code's path is left, whose folder is the workspace. args begins with the
 * caller's. */
int take_job_waiting(struct TakenJob *j, const char *code_path);
/* The rest, up to JOB_END. */
int take_job_body(struct TakenJob *j);
/* Tells what went wrong, and ends. */
_Noreturn void take_job_fail(const char *step, int error);
