/* The request of `glovebox run`: what the flags, the code's file and standard input make. */
#pragma once

#include <glovebox/v1/execution.pb-c.h>

#include "client/input-files.h"
#include "client/input.h"
#include "client/options.h"

/* Lives as long as the Options it was made from. */
struct RunRequest {
        Glovebox__V1__ExecuteRequest message;
        const char *name;   /* of the code's file, NULL when there is none */
        struct Bytes code;  /* when it was read */
        struct Bytes input; /* standard input */
        Glovebox__V1__Limits limits;
        Glovebox__V1__IdlePolicy idle;
        Google__Protobuf__Duration timeout, cpu_time, idle_timeout, idle_grace, heartbeat;
        Glovebox__V1__ExecuteRequest__EnvEntry *env;
        Glovebox__V1__ExecuteRequest__LabelsEntry *labels;
        Glovebox__V1__ImportPolicy policy;
        struct InputFiles files;
        struct Bytes inputs, variables;
        char **modules; /* of the policy */
        char **texts;   /* names split off pairs */
};

/* Reads code, standard input and files. 0, or STATUS_FAULT after saying what is wrong. */
int run_request_init(struct RunRequest *r, const struct Options *o);
void run_request_done(struct RunRequest *r);
