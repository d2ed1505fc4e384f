/* One look at the executions that run and wait, and what has happened since the look before it. */
#pragma once

#include <glovebox/v1/execution.pb-c.h>

#include "client/channel.h"
#include "client/options.h"

struct Row {
        const Glovebox__V1__Execution *execution; /* of one of the look's pages */
        usec_t age;  /* since it was accepted */
        double cpu;  /* percent of one core since the look before; negative: not known */
};

struct Look {
        usec_t taken; /* monotonic */
        usec_t at;    /* by the clock on the wall */
        Glovebox__V1__ListExecutionsResponse **pages;
        size_t n_pages;
        struct Row *rows; /* by id, once look_compare was called */
        size_t n_rows;
};

/* caller as in pages_list. 0, or STATUS_FAULT after saying why. */
int look_take(struct Look *l, struct Channel *channel, const char *caller);
/* Takes the page over. 0, or STATUS_FAULT. */
int look_add(struct Look *l, Glovebox__V1__ListExecutionsResponse *page);
/* After the last page: orders the rows and fills in ages and cpu. before: the look before it; NULL: there is none. */
void look_compare(struct Look *l, const struct Look *before);
/* A copy of the rows, the largest first; among equals the youngest. NULL: out of memory. */
struct Row *look_sort(const struct Look *l, enum Sort by);
void look_done(struct Look *l);
