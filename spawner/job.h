/* The head of a job: what the spawner's own config says about the program, before what the server sends. */
#pragma once

#include "common/config.h"
#include "common/job.h"

/* In a word of a runtime's args: the memory limit in MiB. */
#define JOB_MEMORY_WORD "{memory-mib}"

struct HeadSpec {
        const struct Runtime *runtime;
        const struct Limits *limits; /* cpus: how many threads are worth while */
        bool probe_version;          /* the version arguments and no code */
        bool wait;                   /* the interpreter starts before there is a body */
        bool merge_streams;          /* of a late head */
};

/* -E2BIG when it is longer than JOB_HEAD_MAX. */
int job_head(const struct HeadSpec *s, uint8_t out[JOB_HEAD_MAX], size_t *ret_size);
/* For an interpreter that waited: what is otherwise than its head has it. */
int job_late_head(const struct HeadSpec *s, uint8_t out[JOB_HEAD_MAX], size_t *ret_size);
/* Do the arguments of the interpreter depend on the memory limit? */
bool job_tells_memory(const struct Runtime *runtime);
