/* Values of messages as people read them, and tables. */
#pragma once

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>
#include <glovebox/v1/execution.pb-c.h>
#include <stdio.h>

#include "common/limits.h"
#include "common/util.h"

/* 0 for NULL or a negative one. */
usec_t duration_usec(const Google__Protobuf__Duration *d);
usec_t timestamp_usec(const Google__Protobuf__Timestamp *t);
Google__Protobuf__Duration duration_of(usec_t t);

struct Limits limits_of(const Glovebox__V1__Limits *message);

/* "memory, cpus, max-processes" of limits_not_enforced: as the flags are spelt. NULL: none, or out of memory. */
char *limits_waived(char *const *fields, size_t n);

/* "a=1 b=2". NULL: none, or out of memory. */
char *execution_labels(const Glovebox__V1__Execution *e);

/* Cells in rows; columns as wide as their widest cell, the last one ragged. Cells are made harmless when they are added. */
struct Grid {
        size_t columns;
        const size_t *least; /* widths that the columns have at least, so that they do not jump between two drawings; NULL: none */
        size_t gap;          /* spaces between columns; 0: two */
        size_t n;
        size_t capacity;
        char **cells;
};

int grid_add(struct Grid *t, const char *cell);
/* Columns that the first n columns take, gaps between them included. */
size_t grid_width(const struct Grid *t, size_t n);
size_t grid_width_of(const struct Grid *t, size_t column);
/* Cuts the cells of a column to so many columns of the terminal, with an ellipsis at the side that is cut. 0 or -ENOMEM. */
int grid_shorten(struct Grid *t, size_t column, size_t width, bool keep_end);
/* Empties the cells of a column. */
void grid_blank(struct Grid *t, size_t column);
/* indent: spaces in front of each row. */
int grid_write(const struct Grid *t, int indent, FILE *out);
int grid_print(const struct Grid *t, int indent); /* to standard output */
void grid_done(struct Grid *t);
