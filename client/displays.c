/* Forms wait in the spool until the next object or the next output, so that the best form is known, and a picture is shown before what is
 * printed after it. */
#include "client/displays.h"

#include <ctype.h>
#include <stdio.h>

#include "client/console.h"
#include "client/text.h"

#define LINES_MAX 20               /* about displays that are not shown: the rest is counted */
#define TEXT_SHOWN_MAX (64 * KIB)

static const struct {
        const char *mime_type, *ending;
} endings[] = {
        { "application/javascript", "js" }, { "application/json", "json" }, { "application/pdf", "pdf" }, { "audio/mpeg", "mp3" },
        { "audio/wav", "wav" },             { "image/gif", "gif" },         { "image/jpeg", "jpg" },      { "image/png", "png" },
        { "image/svg+xml", "svg" },         { "image/webp", "webp" },       { "text/csv", "csv" },        { "text/html", "html" },
        { "text/latex", "tex" },            { "text/markdown", "md" },      { "text/plain", "txt" },      { "video/mp4", "mp4" },
};

/* Never taken from the type itself: it comes from the cell. */
static const char *ending_of(const char *mime_type) {
        size_t n = strcspn(mime_type, "; "), whole = strlen(mime_type);

        for (size_t i = 0; i < ELEMENTSOF(endings); i++)
                if (strlen(endings[i].mime_type) == n && strncasecmp(endings[i].mime_type, mime_type, n) == 0)
                        return endings[i].ending;
        return whole > 5 && streq(mime_type + whole - 5, "+json") ? "json" : "bin";
}

bool displays_own(const struct Displays *d, const char *name) {
        return strv_contains(d->saved, name);
}

/* "display-3.png"; a second PNG of the same object is "display-3-2.png". */
static void choose_name(const struct Displays *d, struct DisplayForm *form) {
        const char *ending = ending_of(form->mime_type);
        unsigned again = 1;

        for (size_t i = 0; i < d->n_forms; i++)
                again += streq(ending_of(d->forms[i].mime_type), ending);
        if (again == 1)
                (void) snprintf(form->name, sizeof(form->name), "display-%u.%s", d->n, ending);
        else
                (void) snprintf(form->name, sizeof(form->name), "display-%u-%u.%s", d->n, again, ending);
}

static const struct SpoolItem *item_of(const struct Displays *d, const struct DisplayForm *form) {
        return spool_find(d->spool, form->content);
}

bool displays_are_whole(const struct Displays *d) {
        for (size_t i = 0; i < d->n_forms; i++) {
                const struct SpoolItem *item = item_of(d, &d->forms[i]);

                if (!item || !item->whole)
                        return false;
        }
        return true;
}

/* A text of others: its lines stay lines, everything else that moves a cursor is made visible. */
static int write_text(int fd, const struct Bytes *text, size_t limit) {
        char *mended _cleanup_free_ = utf8_mend(text->data, MIN(text->size, limit));
        char *whole _cleanup_free_ = NULL;
        size_t size = 0;
        FILE *out = mended ? open_memstream(&whole, &size) : NULL;

        if (!out)
                return -ENOMEM;
        for (char *line = mended, *next; line && *line; line = next) {
                char *safe _cleanup_free_ = NULL;
                size_t n = strcspn(line, "\n");

                next = line[n] ? line + n + 1 : NULL;
                line[n] = '\0';
                if (n > 0 && line[n - 1] == '\r')
                        line[n - 1] = '\0';
                for (char *tab; (tab = strchr(line, '\t')); line = tab + 1) {
                        char *part _cleanup_free_ = NULL;

                        *tab = '\0';
                        part = console_escape(line);
                        fprintf(out, "%s\t", strempty(part));
                }
                safe = console_escape(line);
                fprintf(out, "%s\n", strempty(safe));
        }
        if (fclose(out) != 0)
                return -ENOMEM;
        return console_write(fd, whole, size);
}

static bool is_text(const char *mime_type) {
        return streq(mime_type, "text/plain") || streq(mime_type, "text/markdown");
}

static bool is_picture(const char *mime_type) {
        return strncmp(mime_type, "image/", 6) == 0;
}

/* 0: shown; 1: it cannot be. */
static int show_form(struct Displays *d, const struct DisplayForm *form) {
        const struct SpoolItem *item = item_of(d, form);
        struct Bytes data _cleanup_(bytes_done) = {};
        bool picture = is_picture(form->mime_type);
        size_t limit = picture ? PICTURE_BYTES_MAX : TEXT_SHOWN_MAX;
        int r;

        if (!item || !item->whole || item->size > limit)
                return 1;
        r = spool_read(d->spool, item, limit, &data);
        if (r < 0)
                return r;
        return picture ? picture_write(d->protocol, d->screen, &data) : write_text(d->screen, &data, limit);
}

/* A picture that the terminal draws; where it has none, a text: the richer one of two. */
static const struct DisplayForm *best_form(struct Displays *d) {
        const struct DisplayForm *best = NULL;
        bool has_picture = false;

        for (size_t i = 0; i < d->n_forms; i++) {
                if (picture_is_shown(&d->protocol, d->screen, d->forms[i].mime_type))
                        return &d->forms[i];
                has_picture |= is_picture(d->forms[i].mime_type);
                if (is_text(d->forms[i].mime_type) && (!best || streq(d->forms[i].mime_type, "text/markdown")))
                        best = &d->forms[i];
        }
        /* "<Figure size 640x480>" says less than that there is a picture. */
        return d->shows_text && !has_picture ? best : NULL;
}

static void tell(struct Displays *d) {
        const struct DisplayForm *form = &d->forms[0];
        const struct SpoolItem *item;
        char size[32];

        if (d->told == LINES_MAX) {
                d->untold++;
                return;
        }
        for (size_t i = 0; i < d->n_forms; i++)
                if (is_picture(d->forms[i].mime_type)) {
                        form = &d->forms[i];
                        break;
                }
        item = item_of(d, form);
        d->told++;
        console_note("%s %u: %s, %s (save with --out DIR)", is_picture(form->mime_type) ? "picture" : "display", d->n, form->mime_type,
                     console_bytes(item ? item->size : 0, size, sizeof(size)));
}

static int save(struct Displays *d) {
        int worst = 0;

        for (size_t i = 0; i < d->n_forms; i++) {
                const struct DisplayForm *form = &d->forms[i];
                const struct SpoolItem *item = item_of(d, form);
                int r;

                if (!item || !item->whole)
                        r = console_fault("cannot write %s: it did not come whole", form->name);
                else
                        r = out_dir_write(d->out, form->name, d->spool, item);
                if (r == 0 && strv_extend(&d->saved, form->name) < 0)
                        r = console_fault("out of memory");
                worst = MAX(worst, r);
        }
        return worst;
}

static void forget(struct Displays *d) {
        for (size_t i = 0; i < d->n_forms; i++) {
                free(d->forms[i].mime_type);
                free(d->forms[i].content);
                d->forms[i] = (struct DisplayForm) {};
        }
        d->n_forms = 0;
        free(d->id);
        d->id = NULL;
}

int displays_flush(struct Displays *d) {
        const struct DisplayForm *best = d->n_forms > 0 && d->screen >= 0 ? best_form(d) : NULL;
        int r = 1, saved = 0;

        if (d->n_forms == 0)
                return 0;
        if (best)
                r = show_form(d, best);
        if (r >= 0 && d->out->path)
                saved = save(d);
        else if (r == 1)
                tell(d);
        forget(d);
        return r < 0 ? r : saved;
}

static int add_form(struct Displays *d, const Glovebox__V1__Display *display) {
        struct DisplayForm *form = &d->forms[d->n_forms];
        bool in_pieces = display->body_case == GLOVEBOX__V1__DISPLAY__BODY_CONTENT_ID;
        int r = 0;

        form->mime_type = strdup(isempty(display->mime_type) ? "application/octet-stream" : display->mime_type);
        /* No id of the server's begins so, and if one did, its pieces would only be refused. */
        if (in_pieces)
                form->content = strdup(display->content_id);
        else if (asprintf(&form->content, "= %zu", d->n_received) < 0)
                form->content = NULL;
        if (!form->mime_type || !form->content)
                r = -ENOMEM;
        else {
                choose_name(d, form);
                d->n_forms++;
        }
        if (r == 0 && !in_pieces)
                r = spool_put(d->spool, d->out->fd, form->content, display->data.data,
                              display->body_case == GLOVEBOX__V1__DISPLAY__BODY_DATA ? display->data.len : 0);
        return r;
}

int displays_add(struct Displays *d, const Glovebox__V1__Display *display) {
        int shown = 0, r;

        if (!d->id || !streq(d->id, display->id) || d->n_forms == DISPLAY_FORMS_MAX) {
                shown = displays_flush(d);
                if (shown < 0)
                        return shown;
                d->n++;
                free(d->id);
                d->id = strdup(display->id);
                if (!d->id)
                        return -ENOMEM;
        }
        if (d->n_received++ >= DISPLAYS_MAX)
                return -E2BIG;
        r = add_form(d, display);
        return r < 0 ? r : shown;
}

void displays_end(struct Displays *d) {
        if (d->untold > 0)
                console_note("and %u more that are not shown (save them with --out DIR)", d->untold);
        d->untold = 0;
}

void displays_done(struct Displays *d) {
        forget(d);
        d->saved = strv_free(d->saved);
}
