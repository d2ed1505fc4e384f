/* What the code displays: shown on the terminal, saved with --out, or at least told. An object may have several forms (a picture, a text, HTML)
 * with the same id: they come one after the other, and the best one is shown. */
#pragma once

#include "client/out-dir.h"
#include "client/picture.h"

#define DISPLAYS_MAX 1000
#define DISPLAY_FORMS_MAX 16

struct DisplayForm {
        char *mime_type;
        char *content; /* its item in the spool */
        char name[48]; /* of the file: "display-1.png" */
};

struct Displays {
        enum Show protocol;
        bool shows_text;
        int screen;           /* where it is shown; -EBADF: nothing is */
        const struct OutDir *out; /* path NULL: nothing is saved */
        struct Spool *spool;
        char *id;             /* of the forms that wait to be shown */
        struct DisplayForm forms[DISPLAY_FORMS_MAX];
        size_t n_forms;
        unsigned n;           /* objects so far */
        unsigned told;        /* lines about those that were neither shown nor saved */
        unsigned untold;
        size_t n_received;
        char **saved;         /* names of files */
};

/* Shows and saves what came before where this is another object. 0; STATUS_FAULT after saying what could not be saved; negative errno when
 * the terminal or the spool cannot be written. */
int displays_add(struct Displays *d, const Glovebox__V1__Display *display);
/* All forms are there, as far as is known. */
bool displays_are_whole(const struct Displays *d);
/* Shows and saves those that wait. Returns as displays_add. */
int displays_flush(struct Displays *d);
/* At the end: tells of those that no line was spent on. */
void displays_end(struct Displays *d);
/* "display-1.png" is a display's already. */
bool displays_own(const struct Displays *d, const char *name);
void displays_done(struct Displays *d);
