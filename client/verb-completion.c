/* glovebox completion: scripts for bash, zsh and fish, made of the tables of verbs and options; and for them, names that only the
 * server knows. */
#include <fcntl.h>
#include <glovebox/v1/system.pb-c.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#include "client/channel.h"
#include "client/console.h"
#include "client/rpc.h"
#include "client/verb.h"

/* All of it, from our start to our end: a person waits for it with a finger on the Tab key. */
#define ASK_DEADLINE (900 * USEC_PER_MSEC)

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
        if (option->ask)
                printf(") COMPREPLY=($(compgen -W \"$(_glovebox_ask %s)\" -- \"$word\")); return ;;\n", option->ask);
        else if (!option->words)
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
             "_glovebox_ask() {\n"
             "    local server=()\n"
             "    if [[ ${COMP_LINE-} =~ [[:space:]](-s|--server)[[:space:]=]+([^[:space:]]+) ]]; then server=(--server \"${BASH_REMATCH[2]}\"); fi\n"
             "    \"${COMP_WORDS[0]}\" ${server[@]+\"${server[@]}\"} completion \"$1\" 2>/dev/null\n"
             "}\n"
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
                else if (option->ask)
                        printf("{_glovebox_ask %s}", option->ask);
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
             "_glovebox_ask() {\n"
             "  local -a names server\n"
             "  local at=${words[(I)(-s|--server)]}\n"
             "  (( at > 0 && at < $#words )) && server=(--server $words[at+1])\n"
             "  at=${words[(I)--server=*]}\n"
             "  (( at > 0 )) && server=($words[at])\n"
             "  names=(${(f)\"$(command glovebox $server completion $1 2>/dev/null)\"})\n"
             "  compadd -a names\n"
             "}\n"
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
             "    '(-)1:verb:->verb' '(-)*::word:->words'\n"
             "  case $state in\n"
             "  verb) _describe verb verbs ;;\n"
             "  words)\n"
             "    case $line[1] in");
        for (const struct Verb *verb = verb_table; verb->name; verb++)
                zsh_verb(verb);
        /* 0 even when there is nothing to offer: zsh would offer files instead. */
        puts("    esac ;;\n"
             "  esac\n"
             "  return 0\n"
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
        if (option->ask)
                printf(" -a '(command glovebox completion %s 2>/dev/null)'", option->ask);
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

/* --- names that the server knows --- */

/* bash expands the words it is given, as if they stood in a script: only what cannot mean anything in one is passed on. */
static void print_name(const char *name) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:+-";

        if (*name && *name != '-' && name[strspn(name, allowed)] == '\0')
                puts(name);
}

static void print_runtimes(const Glovebox__V1__GetInfoResponse *info) {
        for (size_t i = 0; i < info->n_runtimes; i++)
                if (info->runtimes[i]->available)
                        print_name(info->runtimes[i]->name);
}

static void print_profiles(const Glovebox__V1__GetInfoResponse *info) {
        for (size_t i = 0; i < info->n_profiles; i++)
                print_name(info->profiles[i]->name);
}

static void on_deadline(int signal_number) {
        _exit(STATUS_FAULT);
}

/* Whatever fails or hangs does so without a word: complaints would stand in the middle of the line that is being typed. */
static int ask(const struct Options *o, void (*print)(const Glovebox__V1__GetInfoResponse *)) {
        const struct itimerval deadline = { .it_value.tv_usec = ASK_DEADLINE };
        Glovebox__V1__GetInfoRequest request = GLOVEBOX__V1__GET_INFO_REQUEST__INIT;
        struct Channel *channel _cleanup_(channel_closep) = NULL;
        Glovebox__V1__GetInfoResponse *info = NULL;
        int nowhere _cleanup_close_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
        int r;

        if (nowhere >= 0)
                (void) dup2(nowhere, STDERR_FILENO);
        (void) signal(SIGALRM, on_deadline);
        if (setitimer(ITIMER_REAL, &deadline, NULL) < 0)
                return STATUS_FAULT;
        r = channel_open(o, &channel);
        if (r == 0)
                r = rpc_unary(channel, "/glovebox.v1.SystemService/GetInfo", &request.base,
                              &glovebox__v1__get_info_response__descriptor, NULL, (ProtobufCMessage **) &info);
        if (r != 0)
                return r;
        print(info);
        glovebox__v1__get_info_response__free_unpacked(info, NULL);
        return 0;
}

static const struct {
        const char *name;
        void (*print)(const Glovebox__V1__GetInfoResponse *info);
} asked[] = {
        { "profiles", print_profiles },
        { "runtimes", print_runtimes },
};

int verb_completion(const struct Options *o) {
        const char *name = o->operands ? o->operands[0] : NULL;

        for (size_t i = 0; name && i < ELEMENTSOF(shells); i++)
                if (streq(shells[i].name, name)) {
                        shells[i].print();
                        return 0;
                }
        for (size_t i = 0; name && i < ELEMENTSOF(asked); i++)
                if (streq(asked[i].name, name))
                        return ask(o, asked[i].print);
        return console_fault("completion of which shell? Say bash, zsh or fish");
}
