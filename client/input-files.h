/* Files and folders of --file, as the request's files. */
#pragma once

#include <glovebox/v1/execution.pb-c.h>

#include "client/input.h"

#define INPUT_FILES_MAX 1000
#define INPUT_FILES_BYTES_MAX (64 * MIB)

struct InputFiles {
        Glovebox__V1__InputFile **list; /* of the request */
        size_t n;
        Glovebox__V1__InputFile *files;
        struct Bytes *contents;
        char **paths;
        size_t room;     /* bytes that may still come */
        size_t left_out; /* links, FIFOs and the like in folders */
};

/* arguments: "SRC[:DEST]". 0, or STATUS_FAULT after saying what is wrong. */
int input_files_read(struct InputFiles *f, char *const *arguments);
void input_files_done(struct InputFiles *f);
