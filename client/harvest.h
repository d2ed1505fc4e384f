/* What an execution gives back besides its output: the value, displays, files. */
#pragma once

#include "client/displays.h"
#include "client/options.h"

struct Harvest {
        const struct Options *options;
        struct OutDir out;
        struct Spool spool;
        struct Displays displays;
        bool shows_value; /* behind the output, on a terminal */
        bool is_off;      /* nothing is kept: --json, or the spool has failed */
        int status;       /* STATUS_FAULT: something could not be written, or --value has none; said already */
};

/* Makes the folder of --out. 0, or STATUS_FAULT after saying why it cannot be used. */
int harvest_init(struct Harvest *h, const struct Options *o);
/* A display is to be shown or told of, at the start of a line, before anything else is. */
bool harvest_is_ready(const struct Harvest *h);
/* The four: 0, or the negative errno of a write to standard output or error that failed. What else goes wrong is told and noted in status. */
int harvest_before_output(struct Harvest *h);
int harvest_on_display(struct Harvest *h, const Glovebox__V1__Display *display);
int harvest_on_content(struct Harvest *h, const Glovebox__V1__Content *content);
int harvest_on_result(struct Harvest *h, const Glovebox__V1__Result *result);
/* Also of one that ended without a result: displays that came are saved. */
void harvest_done(struct Harvest *h);
