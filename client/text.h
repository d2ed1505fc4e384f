/* Values of messages as people read them, and tables. */
#pragma once

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>
#include <glovebox/v1/execution.pb-c.h>

#include "common/limits.h"
#include "common/util.h"

/* 0 for NULL or a negative one. */
usec_t duration_usec(const Google__Protobuf__Duration *d);
usec_t timestamp_usec(const Google__Protobuf__Timestamp *t);
Google__Protobuf__Duration duration_of(usec_t t);

struct Limits limits_of(const Glovebox__V1__Limits *message);

/* Cells in rows; columns as wide as their widest cell, the last one ragged. Cells are made harmless when they are added. */
struct Table {
        size_t columns;
        size_t n;
        size_t capacity;
        char **cells;
};

int table_add(struct Table *t, const char *cell);
/* indent: spaces in front of each row. */
int table_print(const struct Table *t, int indent);
void table_done(struct Table *t);
