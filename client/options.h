/* The command line. One table of options makes parsing, --help and the shells' completions. */
#pragma once

#include "common/limits.h"
#include "common/util.h"

struct Verb;

enum OptionKind {
        OPTION_FLAG,     /* bool */
        OPTION_TEXT,     /* const char *, of argv or the environment */
        OPTION_CALLER,   /* const char *, uid:NUMBER, cert:NAME or * */
        OPTION_LIST,     /* char **, repeatable */
        OPTION_PAIR,     /* char **, NAME=VALUE, repeatable */
        OPTION_TIME,     /* usec_t, above 0 */
        OPTION_PERIOD,   /* usec_t, 0 allowed */
        OPTION_SIZE,     /* uint64_t, above 0 */
        OPTION_COUNT,    /* uint64_t, above 0 */
        OPTION_CORES,    /* double, above 0 */
        OPTION_EVIDENCE, /* enum Evidence */
        OPTION_SORT,     /* enum Sort */
        OPTION_CONTRACT, /* int, of the proto's Contract */
        OPTION_SHOW,     /* enum Show */
};

/* What `top` orders executions by. */
enum Sort {
        SORT_CPU,
        SORT_MEMORY,
        SORT_PROCESSES,
        SORT_AGE,
        SORT_IDLE,
        SORT_END_,
};

/* How pictures are drawn on a terminal. */
enum Show {
        SHOW_AUTO,
        SHOW_KITTY,
        SHOW_ITERM,
        SHOW_SIXEL,
        SHOW_NONE,
        SHOW_END_,
};

struct Options {
        const char *server;
        const char *tls_ca;
        const char *tls_cert;
        const char *tls_key;
        const char *tls_flag; /* one of these three that the command line has, not the environment; NULL: none */
        bool plaintext;
        bool help;
        bool version;
        bool json;

        /* run */
        const char *code;
        const char *runtime;
        char **args;
        char **env;
        const char *stdin_file;
        bool no_stdin;
        char **files;
        const char *inputs; /* JSON or @FILE */
        const char *variables;
        int contract;
        const char *import_only; /* names and commas; NULL: anything may be imported */
        const char *working_dir;
        const char *timezone;
        const char *profile;
        usec_t timeout;
        usec_t cpu_time;
        uint64_t memory;
        double cpus;
        uint64_t max_processes;
        uint64_t output_bytes;
        uint64_t workspace_bytes;
        uint64_t workspace_inodes;
        uint64_t value_bytes;
        uint64_t content_bytes;
        usec_t idle_timeout;
        usec_t idle_grace;
        enum Evidence idle_evidence;
        usec_t heartbeat_interval;
        bool merge_streams;
        bool detach;
        char **collect;
        const char *out;
        bool value;
        enum Show show;
        const char *request_id;
        char **labels;

        bool verbose;

        /* ps, top */
        bool all;
        const char *caller;
        usec_t interval; /* 0: not given */
        uint64_t count;  /* 0: without end */
        enum Sort sort;

        char **operands; /* FILE, ID, SHELL: what is not an option */
};

struct Option {
        const char *name; /* without dashes; NULL: only a letter */
        char letter;      /* 0: none */
        enum OptionKind kind;
        const char *value; /* how help calls it; NULL for flags */
        const char *group; /* heading in help */
        unsigned verbs;    /* VERB_* */
        size_t offset;     /* in struct Options */
        const char *variable; /* of the environment, used when the flag is not given */
        const char *field;    /* of ExecuteRequest that it sets, to name the flag in the server's errors */
        const char *words;    /* completion: these; "FILE": names of files; NULL: nothing */
        const char *ask;      /* completion: what `glovebox completion ASK` prints */
        const char *help;
};

/* In the order of help; ends with an entry without help. */
extern const struct Option option_table[];

/* Options in front of the verb. *ret_verb: index in argv of the verb, argc when there is none. 0 or STATUS_FAULT. */
int options_parse_common(struct Options *o, int argc, char **argv, int *ret_verb);
/* argv[0] is the verb. 0, or STATUS_FAULT after saying what is wrong. */
int options_parse(struct Options *o, const struct Verb *verb, int argc, char **argv);
/* From the environment, what the command line left open. */
void options_from_environment(struct Options *o);
void options_done(struct Options *o);

/* "cpu", ...; NULL behind the last one. */
const char *sort_name(enum Sort sort);

/* The option for the field at the start of "limits.timeout: ...", NULL when there is none. */
const struct Option *options_find_field(const char *message);
