/* The table of verbs. */
#include "client/verb.h"

const struct Verb verb_table[] = {
        {
                "run", VERB_RUN, "FILE | -c CODE | -  [OPTION...] [-- ARG...]", "run code in a cell and watch it live",
                "Runs a file, a text (-c) or what standard input holds (-) in a sealed cell. What the program prints comes out as it is\n"
                "printed, on stdout and stderr, byte for byte. Ctrl-C cancels it and waits for its end; a second one leaves.\n"
                "On a terminal the value of the code follows its output; --value prints it alone on stdout, for scripts. Pictures are drawn where\n"
                "the terminal can (kitty, Ghostty, iTerm2, WezTerm, or sixels); elsewhere a line on stderr tells of them. --out DIR saves them as\n"
                "display-1.png and so on, and the files that the program has made or changed, but for those whose names begin with a dot;\n"
                "what is in DIR already is replaced, links in it are not followed.\n",
                "Examples:\n"
                "  glovebox run hello.py\n"
                "  glovebox run -r python -c 'print(6 * 7)'\n"
                "  glovebox run --timeout 5m --memory 2G --file sales.csv --out results report.py -- --year 2024\n"
                "  total=$(glovebox run --value --inputs '{\"n\": 3}' sum.py)\n"
                "  sort names.txt | glovebox run count.js\n"
                "\n"
                "Exit status: that of the program · 128 + N: ended by signal N · 124: out of time (timeout, idle, cpu time) · 126: the code\n"
                "is not valid · 130: cancelled · 137: out of memory · 153: printed too much · 125: refused, unreachable, wrong usage, a failure\n"
                "of the sandbox, or all went well but for a file or value that could not be handed over (one line on stderr says which) · 141:\n"
                "nobody read our output any more.\n",
                "FILE", verb_run,
        },
        {
                "info", VERB_INFO, "[OPTION...]", "what the server offers: runtimes, limits, isolation",
                "Shows the server's version, its runtimes and profiles, the limits with their defaults and caps, and which layers of the wall\n"
                "around cells are in force.\n",
                "Examples:\n"
                "  glovebox info\n"
                "  glovebox info --server build7:7443 --tls-ca ca.pem --tls-cert me.pem --tls-key me.key\n"
                "  glovebox info --json\n",
                NULL, verb_info,
        },
        {
                "ps", VERB_PS, "[ID...] [OPTION...]", "list executions",
                "Lists your executions that run or wait, newest first; with ids, just those. CPU, MEMORY and IDLE are of\n"
                "now; of those that have ended (--all), STATE is the outcome and MEMORY the peak.\n",
                "Examples:\n"
                "  glovebox ps\n"
                "  glovebox ps --all --json\n"
                "  glovebox ps --caller '*'\n",
                NULL, verb_ps,
        },
        {
                "top", VERB_TOP, "[OPTION...]", "watch executions live",
                "Shows your executions that run or wait, again and again: on a terminal in place, else as one table after the other. CPU% is of\n"
                "one core since the look before. MEMORY, PROCS and IDLE are of now, OUTPUT is what was printed so far. The first line is about the\n"
                "whole server: how many run (cells that are being taken down included) and wait, how many may run at once, and which limits it does\n"
                "not enforce.\n"
                "Keys: q ends it; c, m, p, a, i order by cpu, memory, processes, age, idle.\n"
                "Where a terminal is too narrow to show the table up to IDLE, figures are written shorter and ids lose their front;\n"
                "`glovebox ps` has them whole.\n"
                "With --json each look is one object with the look's number (look), its time, the server's running, waiting, maxExecutions and\n"
                "spawnerConnected, and how many executions follow (executions, 0 when nothing runs); then an object per execution, with look, time,\n"
                "cpuPercent where it is known, and the execution (execution) as `glovebox ps --json` prints it.\n",
                "Examples:\n"
                "  glovebox top\n"
                "  glovebox top --caller '*' --sort memory\n"
                "  glovebox top --count 1\n"
                "  glovebox top --json --interval 10s >> executions.jsonl\n"
                "\n"
                "Exit status: 0 after q or --count; 125 when the server refuses, goes away or cannot be reached.\n",
                NULL, verb_top,
        },
        {
                "cancel", VERB_CANCEL, "ID...", "end executions",
                "Ends executions; their results say CANCELLED. One that has ended already is no error.\n",
                "Examples:\n"
                "  glovebox cancel ID\n"
                "  glovebox cancel ID1 ID2\n"
                "\n"
                "Exit status: 0, or 125 when one of them could not be cancelled.\n",
                NULL, verb_cancel,
        },
        {
                "completion", VERB_COMPLETION, "bash | zsh | fish", "print the completion script of a shell",
                "Prints a script that makes the shell complete verbs, options and their values. For the names of runtimes and profiles the script\n"
                "calls `glovebox completion runtimes` and `profiles`, which ask the server for at most a second and print nothing when it fails.\n",
                "Examples:\n"
                "  source <(glovebox completion bash)\n"
                "  glovebox completion zsh > ~/.zfunc/_glovebox\n"
                "  glovebox completion fish > ~/.config/fish/completions/glovebox.fish\n",
                "bash zsh fish", verb_completion,
        },
        {
                "help", VERB_HELP, "[VERB]", "explain a verb and its options",
                "Explains a verb; without one, gives an overview.\n",
                "Examples:\n"
                "  glovebox help\n"
                "  glovebox help run\n",
                "run info ps top cancel completion", verb_help,
        },
        {},
};

const struct Verb *verb_find(const char *name) {
        for (const struct Verb *verb = verb_table; verb->name; verb++)
                if (streq(verb->name, name))
                        return verb;
        return NULL;
}
