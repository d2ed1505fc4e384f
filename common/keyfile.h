/* Reading a file of [sections] and key = value lines into structs, with errors that name file, line, key and cure.
 *
 * Lines begin with # or ; for comments, and " ;" ends a value; " #" outside of quotes is refused, except in KEY_LINES.
 * A key that holds a list may be repeated, or hold several words; a word with blanks stands in double quotes. Any other key may be
 * given once. */
#pragma once

#include "common/util.h"

enum KeyKind {
        KEY_STRING,
        KEY_PATH,  /* absolute */
        KEY_BOOL,  /* yes, no */
        KEY_COUNT, /* uint64_t, as KEY_BYTES and KEY_TIME; min and max apply to all three */
        KEY_BYTES,
        KEY_TIME,
        KEY_ID,    /* uint32_t */
        KEY_WORDS, /* char **; an empty value: the empty list */
        KEY_LINES, /* char **; each value is one entry, blanks included */
};

struct Key {
        const char *section, *name; /* the last has name = NULL */
        enum KeyKind kind;
        size_t offset;
        double min, max;
};

/* Where the reader is. Valid during a callback. */
struct Place {
        const char *file;
        unsigned line;
        const char *section, *key, *value; /* key and value are NULL for a section's own line */
        char **seen;                       /* keys that may not come again */
        char *error;
};

typedef int (*place_handler)(struct Place *place, void *userdata);

/* Calls on_section for each "[section]" line and on_entry for each key. -ENOENT: no such file. */
int keyfile_read(const char *file, place_handler on_section, place_handler on_entry, void *userdata, char **ret_error);
/* The error text "FILE:LINE: ..." and -EINVAL. */
int place_fail(struct Place *place, const char *format, ...) PRINTF_LIKE(2, 3);
/* Refuses a key that may be given once and came before. */
int place_once(struct Place *place);
/* How many characters must be put in, left out or changed to make one of the other; SIZE_MAX: b is longer than any name of ours. */
size_t edit_distance(const char *a, const char *b);
/* Refuses " # text" at the end of a value: whoever wrote it meant a comment, and it would become part of the value. */
int place_no_comment(struct Place *place);
/* Names the nearest of the candidates (a NULL-terminated array). what: "key" or "section". */
int place_unknown(struct Place *place, const char *what, const char *name, char *const *candidates);
/* Finds section and key in the table and stores the value in the object. */
int place_assign(struct Place *place, const struct Key *table, void *object);
