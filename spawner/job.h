/* The head of a job: what the spawner's own config says about the program, before what the server sends. */
#pragma once

#include "common/config.h"
#include "common/job.h"

/* probe: the version arguments and no code. processors: how many threads are worth while. -E2BIG when it is longer than JOB_HEAD_MAX. */
int job_head(const struct Runtime *runtime, bool probe, unsigned processors, uint8_t out[JOB_HEAD_MAX], size_t *ret_size);
