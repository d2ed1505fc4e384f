/* Reading what the user hands over: code, standard input, files. Always with a bound. */
#pragma once

#include "common/util.h"

/* data is followed by a NUL that size does not count. */
struct Bytes {
        char *data;
        size_t size;
};

void bytes_done(struct Bytes *b);

/* To the end. -EFBIG when there is more than max. */
int input_read_fd(int fd, size_t max, struct Bytes *ret);
int input_read_file(const char *path, size_t max, struct Bytes *ret);
/* Standard input is worth passing on: a file, a pipe or a socket, not a terminal or device. */
bool input_is_passed(int fd);
/* Whether anything comes (or ends) within the time. */
bool input_is_ready(int fd, usec_t timeout);
