/* Texts for people, made of the tables of verbs and options. */
#include <stdio.h>

#include "client/console.h"
#include "client/verb.h"

#define COLUMN 32

static void print_option(const struct Option *option) {
        char letter[8] = "     ";
        char spelt[80];
        int n;

        if (option->letter)
                (void) snprintf(letter, sizeof(letter), "  -%c%s", option->letter, option->name ? "," : "");
        n = snprintf(spelt, sizeof(spelt), "%s%s%s%s%s", letter, option->name ? " --" : "", strempty(option->name),
                     option->value ? " " : "", strempty(option->value));
        printf("%-*s%s%s", COLUMN, spelt, n >= COLUMN ? "  " : "", option->help);
        if (option->variable)
                printf(" [$%s]", option->variable);
        putchar('\n');
}

static void print_options(unsigned bit) {
        const char *group = "";

        for (const struct Option *option = option_table; option->help; option++) {
                if (!(option->verbs & bit))
                        continue;
                if (!streq(group, option->group))
                        printf("\n%s:\n", option->group);
                group = option->group;
                print_option(option);
        }
}

static void print_overview(void) {
        puts("Usage: glovebox VERB [OPTION...]\n"
             "\n"
             "Runs code in sealed cells, shows what it prints while it runs, and says exactly how it ended.\n"
             "\n"
             "Verbs:");
        for (const struct Verb *verb = verb_table; verb->name; verb++)
                printf("  %-12s%s\n", verb->name, verb->summary);
        puts("\n"
             "Examples:\n"
             "  glovebox run hello.py\n"
             "  glovebox run -r bash -c 'for i in 1 2 3; do echo $i; sleep 1; done'\n"
             "  glovebox info\n"
             "\n"
             "`glovebox help VERB` explains one. The server is the one at unix:/run/glovebox/glovebox.sock unless --server ADDRESS or\n"
             "GLOVEBOX_SERVER name another.");
}

void help_print(const struct Verb *verb) {
        if (!verb) {
                print_overview();
                return;
        }
        printf("Usage: glovebox %s %s\n\n%s", verb->name, verb->usage, verb->text);
        print_options(verb->bit);
        printf("\n%s", verb->after);
}

int verb_help(const struct Options *o) {
        const struct Verb *verb = o->operands ? verb_find(o->operands[0]) : NULL;

        if (o->operands && !verb)
                return console_fault("there is no verb %s; `glovebox help` lists them", o->operands[0]);
        help_print(verb);
        return 0;
}
