/* glovebox completion: scripts for bash, zsh and fish, made of the tables of verbs and options. */
#include <stdio.h>

#include "client/console.h"
#include "client/verb.h"

static void print_flags(const struct Option *option, const char *separator) {
        if (option->letter)
                printf("-%c%s", option->letter, option->name ? separator : "");
        if (option->name)
                printf("--%s", option->name);
}

/* --- bash --- */

static void bash_values(const struct Option *option) {
        if (option->kind == OPTION_FLAG)
                return;
        printf("        ");
        print_flags(option, "|");
        if (!option->words)
                puts(") return ;;");
        else if (streq(option->words, "FILE"))
                puts(") compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;");
        else
                printf(") COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n", option->words);
}

static void bash_verb(const struct Verb *verb) {
        printf("        %s) options='", verb->name);
        for (const struct Option *option = option_table; option->help; option++)
                if (option->verbs & verb->bit) {
                        print_flags(option, " ");
                        putchar(' ');
                }
        printf("'; operands='%s' ;;\n", strempty(verb->operands));
}

static void print_bash(void) {
        printf("# bash completion of glovebox %s\n"
               "_glovebox() {\n"
               "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb= options= operands= i\n"
               "    COMPREPLY=()\n"
               "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
               "        case ${COMP_WORDS[i]} in\n"
               "        --) return ;;\n"
               "        -*) ;;\n"
               "        *) case \"$verb  $(_glovebox_verbs) \" in \" \"*\" ${COMP_WORDS[i]} \"*) verb=${COMP_WORDS[i]} ;; esac ;;\n"
               "        esac\n"
               "    done\n"
               "    case $before in\n", GLOVEBOX_VERSION);
        for (const struct Option *option = option_table; option->help; option++)
                bash_values(option);
        puts("    esac\n"
             "    case $verb in");
        for (const struct Verb *verb = verb_table; verb->name; verb++)
                bash_verb(verb);
        puts("        *) options='--server --help --version'; operands=$(_glovebox_verbs) ;;\n"
             "    esac\n"
             "    if [[ $word == -* ]]; then\n"
             "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
             "    elif [[ $operands == FILE ]]; then\n"
             "        compopt -o filenames\n"
             "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
             "    else\n"
             "        COMPREPLY=($(compgen -W \"$operands\" -- \"$word\"))\n"
             "    fi\n"
             "}");
        printf("_glovebox_verbs() { echo '");
        for (const struct Verb *verb = verb_table; verb->name; verb++)
                printf("%s%s", verb == verb_table ? "" : " ", verb->name);
        puts("'; }\n"
             "complete -F _glovebox glovebox");
}

/* --- zsh --- */

/* Text inside '...[text]...' of _arguments: quotes end the string, brackets the text, colons the field. */
static void zsh_text(const char *s) {
        for (; *s; s++) {
                if (*s == '\'')
                        fputs("'\\''", stdout);
                else {
                        if (strchr("[]:\\", *s))
                                putchar('\\');
                        putchar(*s);
                }
        }
}

static void zsh_option(const struct Option *option, bool letter) {
        bool repeatable = option->kind == OPTION_LIST || option->kind == OPTION_PAIR;

        printf("        '%s", repeatable ? "*" : "");
        if (letter)
                printf("-%c", option->letter);
        else
                printf("--%s", option->name);
        printf("%s[", option->kind == OPTION_FLAG || letter ? "" : "=");
        zsh_text(option->help);
        putchar(']');
        if (option->kind != OPTION_FLAG) {
                putchar(':');
                zsh_text(option->value);
                putchar(':');
                if (option->words && streq(option->words, "FILE"))
                        fputs("_files", stdout);
                else if (option->words)
                        printf("(%s)", option->words);
        }
        puts("' \\");
}

static void zsh_verb(const struct Verb *verb) {
        printf("    %s)\n      _arguments -s \\\n", verb->name);
        for (const struct Option *option = option_table; option->help; option++) {
                if (!(option->verbs & verb->bit))
                        continue;
                if (option->letter)
                        zsh_option(option, true);
                if (option->name)
                        zsh_option(option, false);
        }
        if (!verb->operands)
                puts("        '*: :' ;;");
        else if (streq(verb->operands, "FILE"))
                puts("        '1:file:_files' '*::argument: ' ;;");
        else
                printf("        '1:word:(%s)' ;;\n", verb->operands);
}

static void print_zsh(void) {
        puts("#compdef glovebox\n"
             "_glovebox() {\n"
             "  local -a verbs\n"
             "  verbs=(");
        for (const struct Verb *verb = verb_table; verb->name; verb++) {
                printf("    '%s:", verb->name);
                zsh_text(verb->summary);
                puts("'");
        }
        puts("  )\n"
             "  local context state state_descr line\n"
             "  typeset -A opt_args\n"
             "  _arguments -C '--server=[unix\\:PATH or HOST\\:PORT]:address:_files' '--help[explain]' '--version[version]' \\\n"
             "    '1:verb:->verb' '*::word:->words'\n"
             "  case $state in\n"
             "  verb) _describe verb verbs ;;\n"
             "  words)\n"
             "    case $line[1] in");
        for (const struct Verb *verb = verb_table; verb->name; verb++)
                zsh_verb(verb);
        puts("    esac ;;\n"
             "  esac\n"
             "}\n"
             "if [[ $funcstack[1] == _glovebox ]]; then _glovebox \"$@\"; else compdef _glovebox glovebox; fi");
}

/* --- fish --- */

static void fish_text(const char *s) {
        putchar('\'');
        for (; *s; s++) {
                if (*s == '\'' || *s == '\\')
                        putchar('\\');
                putchar(*s);
        }
        putchar('\'');
}

static void fish_option(const struct Verb *verb, const struct Option *option) {
        printf("complete -c glovebox -n '__fish_seen_subcommand_from %s'", verb->name);
        if (option->letter)
                printf(" -s %c", option->letter);
        if (option->name)
                printf(" -l %s", option->name);
        if (option->kind != OPTION_FLAG)
                fputs(option->words && streq(option->words, "FILE") ? " -r -F" : " -x", stdout);
        if (option->words && !streq(option->words, "FILE"))
                printf(" -a '%s'", option->words);
        fputs(" -d ", stdout);
        fish_text(option->help);
        putchar('\n');
}

static void print_fish(void) {
        for (const struct Verb *verb = verb_table; verb->name; verb++) {
                printf("complete -c glovebox -n __fish_use_subcommand -f -a %s -d ", verb->name);
                fish_text(verb->summary);
                putchar('\n');
                if (!verb->operands || !streq(verb->operands, "FILE"))
                        printf("complete -c glovebox -n '__fish_seen_subcommand_from %s' -f", verb->name);
                if (verb->operands && !streq(verb->operands, "FILE"))
                        printf(" -a '%s'", verb->operands);
                putchar('\n');
                for (const struct Option *option = option_table; option->help; option++)
                        if (option->verbs & verb->bit)
                                fish_option(verb, option);
        }
}

static const struct {
        const char *name;
        void (*print)(void);
} shells[] = {
        { "bash", print_bash },
        { "fish", print_fish },
        { "zsh", print_zsh },
};

int verb_completion(const struct Options *o) {
        const char *name = o->operands ? o->operands[0] : NULL;

        for (size_t i = 0; name && i < ELEMENTSOF(shells); i++)
                if (streq(shells[i].name, name)) {
                        shells[i].print();
                        return 0;
                }
        return console_fault("completion of which shell? Say bash, zsh or fish");
}
