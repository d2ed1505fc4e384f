/* The verbs: `glovebox VERB ...`. A new one is a file verb-NAME.c and a line in verb.c's table. */
#pragma once

#include "client/options.h"

enum {
        VERB_RUN = 1 << 0,
        VERB_INFO = 1 << 1,
        VERB_PS = 1 << 2,
        VERB_CANCEL = 1 << 3,
        VERB_COMPLETION = 1 << 4,
        VERB_HELP = 1 << 5,
        VERB_TOP = 1 << 6,
        VERB_REMOTE = VERB_RUN | VERB_INFO | VERB_PS | VERB_TOP | VERB_CANCEL,
        VERB_ALL = (1 << 7) - 1,
};

struct Verb {
        const char *name;
        unsigned bit;
        const char *usage;   /* after the verb */
        const char *summary; /* one line of `glovebox --help` */
        const char *text;    /* for `glovebox help VERB`, before the options */
        const char *after;   /* and after them */
        const char *operands; /* completion: "FILE", words, or NULL */
        int (*run)(const struct Options *o);
};

/* Ends with an entry without a name. */
extern const struct Verb verb_table[];

const struct Verb *verb_find(const char *name);

int verb_run(const struct Options *o);
int verb_info(const struct Options *o);
int verb_ps(const struct Options *o);
int verb_top(const struct Options *o);
int verb_cancel(const struct Options *o);
int verb_completion(const struct Options *o);
int verb_help(const struct Options *o);

/* help.c: verb NULL: the overview. */
void help_print(const struct Verb *verb);
