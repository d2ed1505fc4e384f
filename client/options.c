/* The table of options and its parser. */
#include "client/options.h"

#include <getopt.h>
#include <stdio.h>

#include "client/console.h"
#include "client/verb.h"
#include "common/keyfile.h"

#define AT(field) offsetof(struct Options, field)
#define CODE "What to run"
#define LIMITS "Limits (absent: the profile's, else the server's; see `glovebox info`)"
#define WATCH "While it runs"
#define BACK "What comes back"
#define NAMES "Names"
#define OUTPUT "Output"
#define SERVER "Server"
#define OTHER "Other"

const struct Option option_table[] = {
        { NULL, 'c', OPTION_TEXT, "CODE", CODE, VERB_RUN, AT(code), .help = "run this text instead of a file" },
        { "runtime", 'r', OPTION_TEXT, "NAME", CODE, VERB_RUN, AT(runtime), .field = "runtime", .ask = "runtimes",
          .help = "python, javascript, bash, ...; default: by the file's ending, then its #! line" },
        { "arg", 0, OPTION_LIST, "TEXT", CODE, VERB_RUN, AT(args), .field = "args",
          .help = "an argument of the program (again for more); or put them behind --" },
        { "env", 'e', OPTION_PAIR, "NAME=VALUE", CODE, VERB_RUN, AT(env), .field = "env",
          .help = "a variable of its environment (again for more)" },
        { "stdin", 0, OPTION_TEXT, "FILE", CODE, VERB_RUN, AT(stdin_file), .field = "stdin", .words = "FILE",
          .help = "its standard input, read to its end first; default: ours, when that is a file or a pipe" },
        { "no-stdin", 0, OPTION_FLAG, NULL, CODE, VERB_RUN, AT(no_stdin), .help = "pass no standard input on" },
        { "file", 'f', OPTION_LIST, "SRC[:DEST]", CODE, VERB_RUN, AT(files), .field = "files", .words = "FILE",
          .help = "put a file or folder into its /workspace (again for more); at most 1000 files, 64 MiB" },
        { "inputs", 0, OPTION_TEXT, "JSON|@FILE", CODE, VERB_RUN, AT(inputs), .field = "inputs_json",
          .help = "the inputs of its main(args), such as '{\"n\": 3}'" },
        { "variables", 0, OPTION_TEXT, "JSON|@FILE", CODE, VERB_RUN, AT(variables), .field = "variables_json",
          .help = "global variables for it: an object of names and values" },
        { "contract", 0, OPTION_CONTRACT, "WHAT", CODE, VERB_RUN, AT(contract), .field = "contract", .words = "auto main result script",
          .help = "what its value is: of main(args), of _result or the last expression (result), none (script); auto chooses" },
        { "import-only", 0, OPTION_TEXT, "LIST", CODE, VERB_RUN, AT(import_only), .field = "import_policy",
          .help = "the modules it may import, with commas between them; '' for none. A policy, not the wall" },
        { "working-dir", 0, OPTION_TEXT, "DIR", CODE, VERB_RUN, AT(working_dir), .field = "working_dir",
          .help = "where it starts; default /workspace" },
        { "timezone", 0, OPTION_TEXT, "NAME", CODE, VERB_RUN, AT(timezone), .field = "timezone",
          .help = "such as Europe/Oslo; default UTC" },

        { "profile", 'p', OPTION_TEXT, "NAME", LIMITS, VERB_RUN, AT(profile), .field = "profile", .ask = "profiles",
          .help = "a set of limits: quick, data, heavy, ..." },
        { "timeout", 't', OPTION_TIME, "TIME", LIMITS, VERB_RUN, AT(timeout), .field = "limits.timeout",
          .help = "on the clock: 500ms, 30s, 5m, 1h (shipped default 30s)" },
        { "cpu-time", 0, OPTION_TIME, "TIME", LIMITS, VERB_RUN, AT(cpu_time), .field = "limits.cpu_time",
          .help = "of all its processes together (default: no limit)" },
        { "memory", 'm', OPTION_SIZE, "SIZE", LIMITS, VERB_RUN, AT(memory), .field = "limits.memory_bytes",
          .help = "64M, 2G: processes and files together (512M)" },
        { "cpus", 0, OPTION_CORES, "NUMBER", LIMITS, VERB_RUN, AT(cpus), .field = "limits.cpus", .help = "cores, such as 0.5 or 2 (1)" },
        { "max-processes", 0, OPTION_COUNT, "NUMBER", LIMITS, VERB_RUN, AT(max_processes), .field = "limits.max_processes",
          .help = "threads count too (128)" },
        { "output-bytes", 0, OPTION_SIZE, "SIZE", LIMITS, VERB_RUN, AT(output_bytes), .field = "limits.output_bytes",
          .help = "of stdout, and of stderr (8M)" },
        { "workspace-bytes", 0, OPTION_SIZE, "SIZE", LIMITS, VERB_RUN, AT(workspace_bytes), .field = "limits.workspace_bytes",
          .help = "of files (256M)" },
        { "workspace-inodes", 0, OPTION_COUNT, "NUMBER", LIMITS, VERB_RUN, AT(workspace_inodes), .field = "limits.workspace_inodes",
          .help = "files and folders (65536)" },
        { "value-bytes", 0, OPTION_SIZE, "SIZE", LIMITS, VERB_RUN, AT(value_bytes), .field = "limits.value_bytes",
          .help = "of its value as JSON (1M)" },
        { "content-bytes", 0, OPTION_SIZE, "SIZE", LIMITS, VERB_RUN, AT(content_bytes), .field = "limits.content_bytes",
          .help = "of pictures and returned files together (16M)" },
        { "idle-timeout", 0, OPTION_TIME, "TIME", LIMITS, VERB_RUN, AT(idle_timeout), .field = "idle.timeout",
          .help = "end it when nothing happens for so long (default: never)" },
        { "idle-grace", 0, OPTION_PERIOD, "TIME", LIMITS, VERB_RUN, AT(idle_grace), .field = "idle.grace",
          .help = "but not before it has run for so long (0)" },
        { "idle-evidence", 0, OPTION_EVIDENCE, "WHAT", LIMITS, VERB_RUN, AT(idle_evidence), .field = "idle.evidence",
          .words = "output-and-cpu output",
          .help = "signs of life: output-and-cpu (default), output" },

        { "merge-streams", 0, OPTION_FLAG, NULL, WATCH, VERB_RUN, AT(merge_streams), .field = "merge_streams",
          .help = "stderr into stdout, in true order" },
        { "heartbeat-interval", 0, OPTION_TIME, "TIME", WATCH, VERB_RUN, AT(heartbeat_interval), .field = "heartbeat_interval",
          .help = "how often the server reports on it: 100ms to 60s (5s)" },
        { "detach", 'd', OPTION_FLAG, NULL, WATCH, VERB_RUN, AT(detach), .field = "detached",
          .help = "print the execution's id and leave; it runs on, what it prints cannot be read later" },

        { "verbose", 'v', OPTION_FLAG, NULL, WATCH, VERB_RUN, AT(verbose),
          .help = "say which limits the server does not enforce even where standard error is no terminal" },

        { "out", 'o', OPTION_TEXT, "DIR", BACK, VERB_RUN, AT(out), .words = "FILE",
          .help = "write the files it made or changed, and its pictures, below DIR" },
        { "collect", 0, OPTION_LIST, "PATTERN", BACK, VERB_RUN, AT(collect), .field = "collect",
          .help = "with --out: these files instead, such as 'report/**/*.csv' (again for more)" },
        { "value", 0, OPTION_FLAG, NULL, BACK, VERB_RUN, AT(value),
          .help = "stdout is its value alone, as JSON; what it prints goes to stderr; status 125 when there is no value" },
        { "show", 0, OPTION_SHOW, "HOW", BACK, VERB_RUN, AT(show), .words = "auto kitty iterm sixel none",
          .help = "pictures in the terminal: auto (if it can), kitty, iterm, sixel, none" },

        { "label", 'l', OPTION_PAIR, "NAME=VALUE", NAMES, VERB_RUN, AT(labels), .field = "labels",
          .help = "shown by ps and in the audit log (again for more)" },
        { "request-id", 0, OPTION_TEXT, "ID", NAMES, VERB_RUN, AT(request_id), .field = "request_id",
          .help = "yours: a second request with it is refused, not run twice" },

        { "all", 'a', OPTION_FLAG, NULL, OUTPUT, VERB_PS, AT(all), .help = "those that have ended, too" },
        { "caller", 0, OPTION_CALLER, "NAME", OUTPUT, VERB_PS | VERB_TOP, AT(caller),
          .help = "another caller's: uid:NUMBER or cert:NAME; * for everyone's (operators)" },
        { "interval", 'i', OPTION_TIME, "TIME", OUTPUT, VERB_TOP, AT(interval), .help = "between two looks: 100ms to 1h (1s)" },
        { "count", 'n', OPTION_COUNT, "NUMBER", OUTPUT, VERB_TOP, AT(count),
          .help = "end after so many looks (default: never); 1 prints plain lines, also on a terminal" },
        { "sort", 0, OPTION_SORT, "WHAT", OUTPUT, VERB_TOP, AT(sort), .words = "cpu memory processes age idle",
          .help = "largest first: cpu (default), memory, processes, age, idle" },
        { "json", 0, OPTION_FLAG, NULL, OUTPUT, VERB_RUN | VERB_INFO | VERB_PS | VERB_TOP, AT(json),
          .help = "each message as one line of JSON (protobuf's: bytes are base64)" },

        { "server", 's', OPTION_TEXT, "ADDRESS", SERVER, VERB_REMOTE, AT(server), .variable = "GLOVEBOX_SERVER", .words = "FILE",
          .help = "unix:PATH or HOST:PORT (TLS); default unix:/run/glovebox/glovebox.sock" },
        { "tls-ca", 0, OPTION_TEXT, "FILE", SERVER, VERB_REMOTE, AT(tls_ca), .variable = "GLOVEBOX_TLS_CA", .words = "FILE",
          .help = "who signed the server's certificate (default: the system's)" },
        { "tls-cert", 0, OPTION_TEXT, "FILE", SERVER, VERB_REMOTE, AT(tls_cert), .variable = "GLOVEBOX_TLS_CERT", .words = "FILE",
          .help = "our certificate: who we are" },
        { "tls-key", 0, OPTION_TEXT, "FILE", SERVER, VERB_REMOTE, AT(tls_key), .variable = "GLOVEBOX_TLS_KEY", .words = "FILE",
          .help = "its private key" },
        { "plaintext", 0, OPTION_FLAG, NULL, SERVER, VERB_REMOTE, AT(plaintext), .help = "TCP without TLS, to this machine only" },

        { "help", 'h', OPTION_FLAG, NULL, OTHER, VERB_ALL, AT(help), .help = "this text" },
        { "version", 0, OPTION_FLAG, NULL, OTHER, VERB_ALL, AT(version), .help = "the client's version (the server's: `glovebox info`)" },
        {},
};

static int parse_flag(const char *s, void *field) {
        *(bool *) field = true;
        return 0;
}

static int parse_text(const char *s, void *field) {
        *(const char **) field = s;
        return 0;
}

/* The server knows callers by no other names, and says nothing of one that it never saw. */
static int parse_caller(const char *s, void *field) {
        const char *number = strncmp(s, "uid:", 4) == 0 ? s + 4 : NULL;
        size_t digits = number ? strspn(number, "0123456789") : 0;
        bool is_uid = digits > 0 && digits <= 10 && !number[digits] && (*number != '0' || digits == 1) && strtoull(number, NULL, 10) <= UINT32_MAX;
        bool is_certificate = strncmp(s, "cert:", 5) == 0 && s[5];

        return is_uid || is_certificate || streq(s, "loopback:") || streq(s, "*") ? parse_text(s, field) : -EINVAL;
}

static int parse_list(const char *s, void *field) {
        return strv_extend(field, s);
}

static int parse_pair(const char *s, void *field) {
        const char *equals = strchr(s, '=');

        return equals && equals != s ? strv_extend(field, s) : -EINVAL;
}

static int parse_period(const char *s, void *field) {
        return parse_time(s, field);
}

/* 0 would mean "the default" to the server, which is hardly what the user wants to say. */
static int parse_some_time(const char *s, void *field) {
        usec_t t;
        int r = parse_time(s, &t);

        if (r < 0 || t == 0)
                return r < 0 ? r : -ERANGE;
        *(usec_t *) field = t;
        return 0;
}

static int parse_some_bytes(const char *s, void *field) {
        uint64_t n;
        int r = parse_bytes(s, &n);

        if (r < 0 || n == 0)
                return r < 0 ? r : -ERANGE;
        *(uint64_t *) field = n;
        return 0;
}

static int parse_number(enum LimitKind kind, const char *s, double max, double *ret) {
        const struct LimitInfo info = { .kind = kind };
        int r = parse_limit(&info, s, ret);

        if (r < 0)
                return r;
        return *ret > 0 && *ret <= max ? 0 : -ERANGE;
}

static int parse_count(const char *s, void *field) {
        double number;
        int r = parse_number(LIMIT_COUNT, s, UINT32_MAX, &number);

        if (r == 0)
                *(uint64_t *) field = (uint64_t) number;
        return r;
}

static int parse_cores(const char *s, void *field) {
        double number;
        int r = parse_number(LIMIT_CORES, s, 1e6, &number);

        if (r == 0)
                *(double *) field = number;
        return r;
}

static int parse_signs(const char *s, void *field) {
        return parse_evidence(s, field);
}

const char *sort_name(enum Sort sort) {
        static const char *const names[SORT_END_] = {
                [SORT_CPU] = "cpu", [SORT_MEMORY] = "memory", [SORT_PROCESSES] = "processes", [SORT_AGE] = "age", [SORT_IDLE] = "idle",
        };

        return sort < SORT_END_ ? names[sort] : NULL;
}

static int parse_sort(const char *s, void *field) {
        for (enum Sort sort = 0; sort < SORT_END_; sort++)
                if (streq(s, sort_name(sort))) {
                        *(enum Sort *) field = sort;
                        return 0;
                }
        return -EINVAL;
}

static int parse_contract(const char *s, void *field) {
        static const char *const names[] = { "auto", "main", "result", "script" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq(s, names[i])) {
                        *(int *) field = (int) i + 1; /* CONTRACT_AUTO is 1 */
                        return 0;
                }
        return -EINVAL;
}

static int parse_show(const char *s, void *field) {
        static const char *const names[SHOW_END_] = {
                [SHOW_AUTO] = "auto", [SHOW_KITTY] = "kitty", [SHOW_ITERM] = "iterm", [SHOW_SIXEL] = "sixel", [SHOW_NONE] = "none",
        };

        for (enum Show show = 0; show < SHOW_END_; show++)
                if (streq(s, names[show])) {
                        *(enum Show *) field = show;
                        return 0;
                }
        return -EINVAL;
}

static const struct {
        int (*parse)(const char *s, void *field);
        const char *expects;
} kinds[] = {
        [OPTION_FLAG] = { parse_flag, "nothing" },
        [OPTION_TEXT] = { parse_text, "text" },
        [OPTION_CALLER] = { parse_caller, "uid:NUMBER, cert:NAME, loopback: (all that come by TCP without TLS), or * for everyone; `glovebox info` says who you are" },
        [OPTION_LIST] = { parse_list, "text" },
        [OPTION_PAIR] = { parse_pair, "NAME=VALUE" },
        [OPTION_TIME] = { parse_some_time, "a time above 0 in seconds, or with the unit ms, s, m or h, such as 500ms, 30s, 5m, 1h; leave it out for the default" },
        [OPTION_PERIOD] = { parse_period, "a time in seconds, or with the unit ms, s, m or h, such as 500ms, 30s, 5m, 1h" },
        [OPTION_SIZE] = { parse_some_bytes, "a size above 0 in bytes, or with the unit K, M or G (of 1024), such as 65536, 64K, 512M, 2G; leave it out for the default" },
        [OPTION_COUNT] = { parse_count, "a whole number above 0; leave it out for the default" },
        [OPTION_CORES] = { parse_cores, "a number above 0, such as 0.5; leave it out for the default" },
        [OPTION_EVIDENCE] = { parse_signs, "output-and-cpu or output" },
        [OPTION_SORT] = { parse_sort, "cpu, memory, processes, age or idle" },
        [OPTION_CONTRACT] = { parse_contract, "auto, main, result or script" },
        [OPTION_SHOW] = { parse_show, "auto, kitty, iterm, sixel or none" },
};

#define LONG_BASE 256
#define TABLE_MAX 128

/* What getopt_long wants, made of the part of the table that belongs to these verbs. */
struct Getopt {
        struct option longs[TABLE_MAX];
        char letters[2 * TABLE_MAX + 3];
        char *end; /* of letters */
};

static void getopt_init(struct Getopt *g, const char *prefix, unsigned verbs) {
        size_t n = 0;

        *g = (struct Getopt) {};
        g->end = stpcpy(g->letters, prefix);
        for (size_t i = 0; option_table[i].help && n < TABLE_MAX - 1; i++) {
                const struct Option *option = &option_table[i];
                int has_value = option->kind == OPTION_FLAG ? no_argument : required_argument;

                if (!(option->verbs & verbs))
                        continue;
                if (option->letter) {
                        *g->end++ = option->letter;
                        if (has_value != no_argument)
                                *g->end++ = ':';
                }
                if (option->name)
                        g->longs[n++] = (struct option) { option->name, has_value, NULL, LONG_BASE + (int) i };
        }
}

static const struct Option *option_of(int c) {
        if (c >= LONG_BASE)
                return &option_table[c - LONG_BASE];
        for (const struct Option *option = option_table; option->help; option++)
                if (option->letter && option->letter == c)
                        return option;
        return NULL;
}

static const char *option_spell(const struct Option *option, char *buffer, size_t size) {
        if (option->name)
                (void) snprintf(buffer, size, "--%s", option->name);
        else
                (void) snprintf(buffer, size, "-%c", option->letter);
        return buffer;
}

static int take(struct Options *o, const struct Option *option, const char *value) {
        char name[64];
        int r;

        r = kinds[option->kind].parse(value, (char *) o + option->offset);
        if (r == 0)
                return 0;
        if (r == -ENOMEM)
                return console_fault("out of memory");
        return console_fault("%s %s: it takes %s", option_spell(option, name, sizeof(name)), value, kinds[option->kind].expects);
}

/* How like the option is to what was typed; 0: it begins with that. */
static size_t unlikeness(const struct Option *option, const char *typed, size_t length) {
        char word[64];

        if (strncmp(option->name, typed, length) == 0)
                return 0;
        (void) snprintf(word, sizeof(word), "%.*s", (int) MIN(length, sizeof(word) - 1), typed);
        return edit_distance(word, option->name);
}

/* "--timeout or --timezone": those of these verbs that are most like "--time=5s". *ret_begin: they begin with it. NULL: none is like it. */
static char *options_like(unsigned verbs, const char *typed, bool *ret_begin) {
        size_t length, best, size = 0;
        char *text = NULL;
        FILE *out;

        *ret_begin = false;
        if (strncmp(typed, "--", 2) != 0)
                return NULL;
        typed += 2;
        length = strcspn(typed, "=");
        if (length == 0)
                return NULL;
        best = MAX((size_t) 1, length / 3);
        for (const struct Option *option = option_table; option->help; option++)
                if (option->verbs & verbs && option->name)
                        best = MIN(best, unlikeness(option, typed, length));
        out = open_memstream(&text, &size);
        for (const struct Option *option = option_table; out && option->help; option++)
                if (option->verbs & verbs && option->name && unlikeness(option, typed, length) == best)
                        fprintf(out, "%s--%s", ftell(out) > 0 ? " or " : "", option->name);
        if (!out || fclose(out) != 0 || size == 0) {
                free(text);
                return NULL;
        }
        *ret_begin = best == 0;
        return text;
}

/* c is '?' or ':', which getopt returns for options it cannot use. */
static int complain(const struct Verb *verb, int c, char **argv) {
        const struct Option *option = optopt ? option_of(optopt) : NULL;
        char *like _cleanup_free_ = NULL;
        bool ambiguous;
        char name[64];
        const char *spelt = argv[optind - 1];

        if (option && c == ':')
                return console_fault("%s needs a value: %s", option_spell(option, name, sizeof(name)), kinds[option->kind].expects);
        if (option && option->kind == OPTION_FLAG && strchr(spelt, '='))
                return console_fault("%s takes no value", option_spell(option, name, sizeof(name)));
        if (optopt && optopt < LONG_BASE) {
                (void) snprintf(name, sizeof(name), "-%c", optopt);
                spelt = name;
        }
        like = options_like(verb ? verb->bit : VERB_HELP | VERB_REMOTE, spelt, &ambiguous);
        return console_fault("%s option %s; %s%s%s`glovebox help%s%s` lists them%s", ambiguous ? "ambiguous" : "unknown", spelt,
                             like ? "did you mean " : "", strempty(like), like ? "? " : "", verb ? " " : "", verb ? verb->name : "",
                             verb && verb->bit == VERB_RUN ? ", and arguments of the program go behind --" : "");
}

int options_parse_common(struct Options *o, int argc, char **argv, int *ret_verb) {
        struct Getopt g;
        int c, r = 0;

        getopt_init(&g, "+:", VERB_HELP | VERB_REMOTE);
        opterr = 0;
        optind = 0;
        while (r == 0 && (c = getopt_long(argc, argv, g.letters, g.longs, NULL)) != -1) {
                const struct Option *option = c == '?' || c == ':' ? NULL : option_of(c);
                if (!option)
                        return complain(NULL, c, argv);
                /* In front of the verb stands only what every remote verb takes. */
                if (option->verbs != VERB_REMOTE && option->verbs != VERB_ALL)
                        return console_fault("%s belongs behind the verb: glovebox VERB %s", argv[optind - 1], argv[optind - 1]);
                r = take(o, option, optarg);
        }
        if (r == 0)
                *ret_verb = optind;
        return r;
}

int options_parse(struct Options *o, const struct Verb *verb, int argc, char **argv) {
        char ***rest = verb->bit == VERB_RUN ? &o->args : &o->operands;
        struct Getopt g;
        int c, r = 0;

        getopt_init(&g, "-:", verb->bit); /* "-": operands come as option 1, in their place */
        opterr = 0;
        optind = 0;
        while (r == 0 && (c = getopt_long(argc, argv, g.letters, g.longs, NULL)) != -1) {
                const struct Option *option = c == '?' || c == ':' || c == 1 ? NULL : option_of(c);
                if (c == 1)
                        r = strv_extend(&o->operands, optarg) < 0 ? console_fault("out of memory") : 0;
                else if (option)
                        r = take(o, option, optarg);
                else
                        r = complain(verb, c, argv);
        }
        for (; r == 0 && optind < argc; optind++)
                if (strv_extend(rest, argv[optind]) < 0)
                        return console_fault("out of memory");
        return r;
}

void options_from_environment(struct Options *o) {
        o->tls_flag = o->tls_ca ? "--tls-ca" : o->tls_cert ? "--tls-cert" : o->tls_key ? "--tls-key" : NULL;
        for (const struct Option *option = option_table; option->help; option++) {
                const char **field = (const char **) ((char *) o + option->offset);
                const char *value = option->variable ? getenv(option->variable) : NULL;

                if (value && *value && !*field)
                        *field = value;
        }
}

void options_done(struct Options *o) {
        for (const struct Option *option = option_table; option->help; option++) {
                char ***field = (char ***) ((char *) o + option->offset);

                if (option->kind == OPTION_LIST || option->kind == OPTION_PAIR)
                        *field = strv_free(*field);
        }
        o->operands = strv_free(o->operands);
}

const struct Option *options_find_field(const char *message) {
        const char *end = strchrnul(message, ':');

        for (const struct Option *option = option_table; option->help; option++) {
                size_t n = option->field ? strlen(option->field) : 0;

                if (n == 0 || !option->name || n > (size_t) (end - message) || strncmp(message, option->field, n) != 0)
                        continue;
                /* "files[2].path" is --file's business as well. */
                if (*end && strchr(":[.", message[n]))
                        return option;
        }
        return NULL;
}
