/* Who makes a call: the name that owns executions. */
#pragma once

#include "common/util.h"

#define CALLER_NAME_MAX 256

struct Caller {
        char name[CALLER_NAME_MAX]; /* "uid:1000" or "cert:NAME" (name without control characters) */
        bool is_operator;
        pid_t pid;                  /* 0 = not known */
};
