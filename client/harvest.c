/* Values go to the terminal or, with --value, to standard output alone; displays and files go where displays.c and out-dir.c say. Nothing
 * that a server or a cell names is believed: a file is written only when it was asked for. */
#include "client/harvest.h"

#include <stdio.h>

#include "client/console.h"
#include "client/proto-json.h"
#include "client/sixel.h"
#include "common/path-pattern.h"

#define VALUE_MAX (16 * MIB)
#define VALUE_SHOWN_MAX (4 * KIB)

static const struct {
        const char *words;
} skipped[] = {
        [GLOVEBOX__V1__SKIPPED__SKIPPED_SYMLINK] = { "it is a symbolic link" },
        [GLOVEBOX__V1__SKIPPED__SKIPPED_SPECIAL] = { "it is a FIFO, a socket or a device" },
        [GLOVEBOX__V1__SKIPPED__SKIPPED_BUSY] = { "a process held it" },
        [GLOVEBOX__V1__SKIPPED__SKIPPED_TOO_LARGE] = { "it is larger than what was left of --content-bytes" },
        [GLOVEBOX__V1__SKIPPED__SKIPPED_TOO_MANY] = { "it is a folder more than 64 folders deep, whose files were not looked at" },
        [GLOVEBOX__V1__SKIPPED__SKIPPED_UNREADABLE] = { "its permissions forbade to read it" },
        [GLOVEBOX__V1__SKIPPED__SKIPPED_VANISHED] = { "it vanished meanwhile" },
};

int harvest_init(struct Harvest *h, const struct Options *o) {
        int screen = o->value ? STDERR_FILENO : STDOUT_FILENO;
        bool is_terminal = isatty(screen) && !streq(getenv("TERM"), "dumb");
        bool is_shown = !o->json && (is_terminal || (o->show != SHOW_AUTO && o->show != SHOW_NONE));

        if (o->show == SHOW_SIXEL && !sixel_is_built())
                return console_fault("--show sixel: this client was built without libpng, which it takes to draw sixels");
        *h = (struct Harvest) {
                .options = o,
                .out = OUT_DIR_NULL,
                .spool = SPOOL_NULL,
                .shows_value = !o->json && !o->value && isatty(STDOUT_FILENO),
                .is_off = o->json && !o->out,
        };
        h->displays = (struct Displays) {
                .protocol = is_shown ? picture_protocol(o->show, is_terminal) : SHOW_NONE,
                .shows_text = is_shown && is_terminal && o->show != SHOW_NONE,
                .screen = is_shown ? screen : -EBADF,
                .out = &h->out,
                .spool = &h->spool,
        };
        h->spool.only_counts = !o->out && !o->value && !h->shows_value && !is_shown;
        return o->out ? out_dir_open(&h->out, o->out) : 0;
}

/* r: of the spool, displays or the console. Told once; what the program prints goes on. */
static int settle(struct Harvest *h, int r) {
        if (r == -EPIPE)
                return r;
        if (r > 0)
                h->status = r;
        if (r < 0) {
                h->status = console_fault("cannot keep what it gives back besides its output: %s",
                                          r == -E2BIG     ? "the server sends more than the contract allows"
                                          : r == -EBADMSG ? "the server sends it in the wrong order"
                                                          : strerror(-r));
                h->is_off = true;
        }
        return 0;
}

bool harvest_is_ready(const struct Harvest *h) {
        return !h->is_off && h->displays.n_forms > 0 && displays_are_whole(&h->displays);
}

int harvest_before_output(struct Harvest *h) {
        return harvest_is_ready(h) ? settle(h, displays_flush(&h->displays)) : 0;
}

int harvest_on_display(struct Harvest *h, const Glovebox__V1__Display *display) {
        return h->is_off ? 0 : settle(h, displays_add(&h->displays, display));
}

int harvest_on_content(struct Harvest *h, const Glovebox__V1__Content *content) {
        return h->is_off ? 0 : settle(h, spool_add(&h->spool, h->out.fd, content));
}

/* --- the value --- */

static int print_value(struct Harvest *h, const char *json) {
        bool is_terminal = isatty(STDOUT_FILENO);
        bool dims = is_terminal && !h->options->value && isempty(getenv("NO_COLOR")) && !isempty(getenv("TERM")) && !streq(getenv("TERM"), "dumb");
        bool cuts = !h->options->value && strlen(json) > VALUE_SHOWN_MAX;
        char *start _cleanup_free_ = strndup(json, cuts ? utf8_fit(json, VALUE_SHOWN_MAX) : strlen(json));
        char *safe _cleanup_free_ = NULL, *line _cleanup_free_ = NULL;
        char size[32];
        int n;

        /* To a program byte for byte; a text in it could play with a terminal. */
        safe = start && is_terminal ? console_escape(start) : NULL;
        if (!start || (is_terminal && !safe))
                return -ENOMEM;
        if (h->options->value)
                n = asprintf(&line, "%s\n", safe ? safe : start);
        else if (cuts)
                n = asprintf(&line, "%svalue%s %s... (%s; --value prints all of it)\n", dims ? "\033[2m" : "", dims ? "\033[0m" : "", safe,
                             console_bytes(strlen(json), size, sizeof(size)));
        else
                n = asprintf(&line, "%svalue%s %s\n", dims ? "\033[2m" : "", dims ? "\033[0m" : "", safe ? safe : start);
        if (n < 0) {
                line = NULL;
                return -ENOMEM;
        }
        return console_write(STDOUT_FILENO, line, (size_t) n);
}

static int tell_value_error(struct Harvest *h, const Glovebox__V1__ValueError *e) {
        bool is_all = isempty(e->path) || streq(e->path, "$");
        bool is_long = e->type == GLOVEBOX__V1__VALUE_ERROR_TYPE__VALUE_ERROR_TYPE_TOO_LARGE;

        if (h->options->json)
                return 0;
        console_note("value: %s%s%s: %s%s", proto_enum_word(&glovebox__v1__value_error_type__descriptor, (int) e->type), is_all ? "" : " at ",
                     is_all ? "" : e->path, strempty(e->message), is_long ? " (--value-bytes)" : "");
        if (h->options->value)
                h->status = STATUS_FAULT;
        return 0;
}

static int give_value(struct Harvest *h, const Glovebox__V1__Result *result) {
        const struct SpoolItem *item = NULL;
        struct Bytes whole _cleanup_(bytes_done) = {};
        const char *json = NULL;
        int r;

        if (result->value_case == GLOVEBOX__V1__RESULT__VALUE_VALUE_ERROR)
                return tell_value_error(h, result->value_error);
        if (!h->options->value && !h->shows_value)
                return 0;
        if (result->value_case == GLOVEBOX__V1__RESULT__VALUE_VALUE_JSON)
                json = result->value_json;
        if (result->value_case == GLOVEBOX__V1__RESULT__VALUE_VALUE_CONTENT_ID) {
                item = spool_find(&h->spool, result->value_content_id);
                r = item && item->whole && !h->is_off ? spool_read(&h->spool, item, VALUE_MAX, &whole) : -ENODATA;
                if (r < 0) {
                        h->status = console_fault("cannot read the value: %s", r == -ENODATA ? "it did not come whole" : strerror(-r));
                        return 0;
                }
                json = whole.data;
        }
        /* Of one that failed, how it ended is told instead. */
        if (!json && h->options->value && result->outcome == GLOVEBOX__V1__OUTCOME__OUTCOME_COMPLETED)
                h->status = console_fault("it has no value to print (--value); Python and JavaScript give what main(args) returns, _result, or the last expression");
        if (!json)
                return 0;
        if (result->value_lossy)
                console_note("value: something in it could not be told exactly (NaN became null, for example)");
        return print_value(h, json);
}

/* --- files --- */

static bool is_asked_for(const struct Options *o, const char *name) {
        if (!o->collect)
                return path_pattern_matches("**", 2, name, strlen(name));
        for (size_t i = 0; o->collect[i]; i++)
                if (path_pattern_matches(o->collect[i], strlen(o->collect[i]), name, strlen(name)))
                        return true;
        return false;
}

static void write_file_of(struct Harvest *h, const Glovebox__V1__ResultFile *file, const char *name) {
        const struct SpoolItem *item = spool_find(&h->spool, file->content_id);
        char got[32], size[32];

        if (displays_own(&h->displays, name))
                h->status = console_fault("cannot write %s: a display has this name; give the file another", name);
        else if (!item || !item->whole)
                h->status = console_fault("cannot write %s: it did not come whole", name);
        else if (out_dir_write(&h->out, name, &h->spool, item) != 0)
                h->status = STATUS_FAULT;
        else if (item->size < file->size_bytes)
                console_note("%s had %s when it was listed, and only %s when it was read", name, console_bytes(file->size_bytes, size, sizeof(size)),
                             console_bytes(item->size, got, sizeof(got)));
}

static void take_file(struct Harvest *h, const Glovebox__V1__ResultFile *file) {
        bool changed = file->change == GLOVEBOX__V1__CHANGE__CHANGE_ADDED || file->change == GLOVEBOX__V1__CHANGE__CHANGE_MODIFIED;
        bool has_content = !isempty(file->content_id);
        const char *fault;
        char *name _cleanup_free_ = NULL;

        /* --out alone is about what the program has made. */
        if (has_content && !changed && !h->options->collect)
                return;
        if (!has_content && !file->skipped)
                return;
        name = out_dir_name(file->path, file->path_escaped, &fault);
        if (!name) {
                h->status = console_fault("not written: %s: %s", file->path, fault);
                return;
        }
        if (!is_asked_for(h->options, name)) {
                if (has_content)
                        h->status = console_fault("not written: %s: the server sent it although it was not asked for", name);
                return;
        }
        if (has_content)
                write_file_of(h, file, name);
        else
                console_note("not returned: %s: %s", name, file->skipped < ELEMENTSOF(skipped) ? skipped[file->skipped].words : "for a reason of a newer server");
}

static void take_files(struct Harvest *h, const Glovebox__V1__Result *result) {
        if (!h->out.path || h->is_off)
                return;
        for (size_t i = 0; i < result->n_files; i++)
                take_file(h, result->files[i]);
        if (result->files_truncated)
                console_note("there may be more files than were returned: at most 2000 are listed, and the cell is asked for a limited time");
}

static void tell_left_out(const Glovebox__V1__Result *result) {
        for (size_t i = 0; i < result->n_limits_hit; i++)
                if (result->limits_hit[i] == GLOVEBOX__V1__LIMIT__LIMIT_CONTENT)
                        console_note("some displays were left out: an execution may show 1000, and as many bytes as --content-bytes says");
}

int harvest_on_result(struct Harvest *h, const Glovebox__V1__Result *result) {
        int r = h->is_off ? 0 : settle(h, displays_flush(&h->displays));

        if (!h->options->json) {
                displays_end(&h->displays);
                tell_left_out(result);
        }
        take_files(h, result); /* also where nobody reads our output any more */
        return r < 0 ? r : give_value(h, result);
}

void harvest_done(struct Harvest *h) {
        if (!h->is_off && h->displays.spool)
                (void) displays_flush(&h->displays);
        displays_done(&h->displays);
        spool_done(&h->spool);
        out_dir_done(&h->out);
}
