/* What `glovebox top` shows of a look as text: a line about the server and a table, made to fit a terminal's width. */
#pragma once

#include <glovebox/v1/system.pb-c.h>
#include <stdio.h>

#include "client/look.h"

struct TopTable {
        const struct Look *look;
        const Glovebox__V1__GetInfoResponse *info; /* of the same time */
        enum Sort sort;
        bool callers;   /* a column for them */
        size_t columns; /* of the terminal that may be used; 0: as wide as it gets */
};

/* One line. Too long a one ends behind a word, with an ellipsis. 0 or -ENOMEM. */
int top_table_head(const struct TopTable *t, FILE *out);
/* Titles and rows. Where they would not fit up to IDLE, figures are written shorter, then ids, callers and runtimes are cut, of ids the front,
 * since they differ in their ends. OUTPUT, where half a number would be seen, is left out with LABELS. 0 or -ENOMEM. */
int top_table_rows(const struct TopTable *t, FILE *out);
