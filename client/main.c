/* glovebox: the command line of Glovebox. Finds the verb and runs it. */
#include <signal.h>
#include <stdio.h>

#include "client/console.h"
#include "client/verb.h"

int main(int argc, char **argv) {
        struct Options o _cleanup_(options_done) = {};
        const struct Verb *verb;
        int at, r;

        /* A closed standard output is noticed where it is written to, so that the terminal is left tidy. */
        (void) signal(SIGPIPE, SIG_IGN);
        r = options_parse_common(&o, argc, argv, &at);
        if (r != 0)
                return r;
        if (o.version) {
                puts("glovebox " GLOVEBOX_VERSION);
                return 0;
        }
        if (o.help || at >= argc) {
                help_print(NULL);
                return o.help ? 0 : STATUS_FAULT;
        }
        verb = verb_find(argv[at]);
        if (!verb)
                return console_fault("there is no verb %s; `glovebox help` lists them (a program is run by `glovebox run FILE`)", argv[at]);
        r = options_parse(&o, verb, argc - at, argv + at);
        if (r != 0)
                return r;
        if (o.help) {
                help_print(verb);
                return 0;
        }
        if (o.version) {
                puts("glovebox " GLOVEBOX_VERSION);
                return 0;
        }
        options_from_environment(&o);
        return verb->run(&o);
}
