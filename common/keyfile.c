/* Key files: libinih splits the lines, this file counts them, types the values and words the errors. */
#include "common/keyfile.h"

#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/limits.h"

#define FILE_MAX MIB
#define WORDS_MAX 256
#define SEEN_MAX 2048
#define NAME_LENGTH_MAX 64

struct Reader {
        struct Place place;
        place_handler on_section, on_entry;
        void *userdata;
        const char *text; /* what is left */
        int error;
};

PRINTF_LIKE(4, 0) static int fail_at(char **error, const char *file, unsigned line, const char *format, va_list ap) {
        char text[1024], where[32] = "";
        int n;

        (void) vsnprintf(text, sizeof(text), format, ap);
        for (char *c = text; *c; c++)
                if ((unsigned char) *c < 0x20 || *c == 0x7f)
                        *c = '?';
        if (line > 0)
                (void) snprintf(where, sizeof(where), ":%u", line);
        free(*error);
        n = asprintf(error, "%s%s: %s", file, where, text);
        if (n >= 0)
                return -EINVAL;
        *error = NULL;
        return -ENOMEM;
}

int place_fail(struct Place *place, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = fail_at(&place->error, place->file, place->line, format, ap);
        va_end(ap);
        return r;
}

size_t edit_distance(const char *a, const char *b) {
        size_t row[NAME_LENGTH_MAX + 1], n = strlen(b);

        if (n > NAME_LENGTH_MAX)
                return SIZE_MAX;
        for (size_t k = 0; k <= n; k++)
                row[k] = k;
        for (size_t i = 1; a[i - 1]; i++) {
                size_t diagonal = row[0];
                row[0] = i;
                for (size_t k = 1; k <= n; k++) {
                        size_t change = diagonal + (a[i - 1] != b[k - 1]), step = MIN(row[k], row[k - 1]) + 1;
                        diagonal = row[k];
                        row[k] = MIN(change, step);
                }
        }
        return row[n];
}

/* "memory-bytes" for memory, "mem" for it. */
static bool is_part(const char *a, const char *b) {
        size_t n = MIN(strlen(a), strlen(b));

        return n >= 3 && strncmp(a, b, n) == 0;
}

int place_unknown(struct Place *place, const char *what, const char *name, char *const *candidates) {
        char in[80] = "";
        const char *best = NULL;
        size_t best_distance = MAX((size_t) 3, strlen(name) / 3 + 1);

        for (size_t i = 0; candidates && candidates[i]; i++) {
                size_t distance = edit_distance(name, candidates[i]);
                if (distance < best_distance) {
                        best = candidates[i];
                        best_distance = distance;
                }
        }
        for (size_t i = 0; !best && candidates && candidates[i]; i++)
                if (is_part(name, candidates[i]))
                        best = candidates[i];
        if (place->key)
                (void) snprintf(in, sizeof(in), " in [%.64s]", place->section);
        if (best)
                return place_fail(place, "unknown %s '%.64s'%s; did you mean '%s'?", what, name, in, best);
        return place_fail(place, "unknown %s '%.64s'%s", what, name, in);
}

int place_once(struct Place *place) {
        char *id;

        if (asprintf(&id, "%s\n%s", place->section, place->key) < 0)
                return -ENOMEM;
        if (strv_contains(place->seen, id)) {
                free(id);
                return place_fail(place, "'%s' is given a second time in [%s]; keep one of them", place->key, place->section);
        }
        if (strv_length(place->seen) >= SEEN_MAX) {
                free(id);
                return place_fail(place, "more than %d keys in one file", SEEN_MAX);
        }
        return strv_push(&place->seen, id);
}

int place_no_comment(struct Place *place) {
        bool quoted = false;

        for (const char *s = place->value; *s; s++) {
                quoted ^= *s == '"';
                if (*s == '#' && !quoted && (s == place->value || s[-1] == ' ' || s[-1] == '\t'))
                        return place_fail(place, "'%s': a comment needs a line of its own; '%.40s' would be part of the value (a word with a # that "
                                          "is meant stands in double quotes)", place->key, s);
        }
        return 0;
}

static int assign_string(struct Place *place, const struct Key *key, char **field) {
        char *copy;

        if (key->kind == KEY_PATH && place->value[0] != '/' && place->value[0] != '\0')
                return place_fail(place, "'%s' must be an absolute path, not '%s'", place->key, place->value);
        copy = place->value[0] ? strdup(place->value) : NULL;
        if (place->value[0] && !copy)
                return -ENOMEM;
        free(*field);
        *field = copy;
        return 0;
}

static int assign_bool(struct Place *place, bool *field) {
        static const char *const words[2][4] = { { "no", "false", "off", "0" }, { "yes", "true", "on", "1" } };

        for (int yes = 0; yes < 2; yes++)
                for (size_t i = 0; i < ELEMENTSOF(words[yes]); i++)
                        if (streq(place->value, words[yes][i])) {
                                *field = yes;
                                return 0;
                        }
        return place_fail(place, "'%s' must be yes or no, not '%s'", place->key, place->value);
}

static int assign_number(struct Place *place, const struct Key *key, void *field) {
        static const char *const examples[] = {
                [KEY_COUNT] = "a whole number such as 128",
                [KEY_BYTES] = "a size such as 512M, 2G or 65536",
                [KEY_TIME] = "a time such as 500ms, 30s, 5m or 1h",
                [KEY_ID] = "a whole number such as 100000",
        };
        struct LimitInfo shape = { .kind = key->kind == KEY_TIME ? LIMIT_TIME : key->kind == KEY_BYTES ? LIMIT_BYTES : LIMIT_COUNT };
        char low[40], high[40];
        double value;
        int r;

        r = parse_limit(&shape, place->value, &value);
        if (r == -EINVAL)
                return place_fail(place, "'%s' must be %s, not '%s'", place->key, examples[key->kind], place->value);
        if (r < 0 || value < key->min || value > key->max)
                return place_fail(place, "'%s' must be from %s to %s, not '%s'", place->key,
                                  limit_format(&shape, key->min, low, sizeof(low)), limit_format(&shape, key->max, high, sizeof(high)),
                                  place->value);
        if (key->kind == KEY_ID)
                *(uint32_t *) field = (uint32_t) value;
        else
                *(uint64_t *) field = (uint64_t) value;
        return 0;
}

static int push_word(struct Place *place, char ***field, const char *word, size_t length) {
        if (strv_length(*field) >= WORDS_MAX)
                return place_fail(place, "'%s' has more than %d entries", place->key, WORDS_MAX);
        return strv_push(field, strndup(word, length));
}

/* The next word of *s, without its quotes; false at the end. *ret_length is SIZE_MAX when a quote is not closed. */
static bool next_word(const char **s, const char **ret_word, size_t *ret_length) {
        const char *word = *s + strspn(*s, " \t"), *end;

        if (!*word)
                return false;
        if (*word != '"') {
                end = word + strcspn(word, " \t");
                *ret_length = (size_t) (end - word);
                *s = end;
        } else {
                end = strchr(++word, '"');
                *ret_length = end ? (size_t) (end - word) : SIZE_MAX;
                *s = end ? end + 1 : word;
        }
        *ret_word = word;
        return true;
}

static int assign_words(struct Place *place, const struct Key *key, char ***field) {
        const char *s = place->value, *word;
        size_t length;
        int r;

        if (!*field && !(*field = calloc(1, sizeof(char *))))
                return -ENOMEM;
        if (key->kind == KEY_LINES)
                return *s ? push_word(place, field, s, strlen(s)) : 0;
        while (next_word(&s, &word, &length)) {
                if (length == SIZE_MAX)
                        return place_fail(place, "a double quote in '%s' is not closed", place->key);
                r = push_word(place, field, word, length);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int assign(struct Place *place, const struct Key *key, void *object) {
        void *field = (char *) object + key->offset;
        int r = key->kind == KEY_LINES ? 0 : place_no_comment(place);

        if (r < 0)
                return r;
        if (key->kind == KEY_WORDS || key->kind == KEY_LINES)
                return assign_words(place, key, field);
        r = place_once(place);
        if (r < 0)
                return r;
        switch (key->kind) {
        case KEY_STRING:
        case KEY_PATH:
                return assign_string(place, key, field);
        case KEY_BOOL:
                return assign_bool(place, field);
        default:
                return assign_number(place, key, field);
        }
}

int place_assign(struct Place *place, const struct Key *table, void *object) {
        char **here _cleanup_strv_ = NULL;
        const struct Key *elsewhere = NULL;

        for (const struct Key *key = table; key->name; key++) {
                bool same_section = streq(key->section, place->section);
                if (same_section && streq(key->name, place->key))
                        return assign(place, key, object);
                if (streq(key->name, place->key))
                        elsewhere = key;
                if (same_section && strv_extend(&here, key->name) < 0)
                        return -ENOMEM;
        }
        if (elsewhere)
                return place_fail(place, "'%s' belongs into [%s], not into [%s]", place->key, elsewhere->section, place->section);
        return place_unknown(place, "key", place->key, here);
}

/* A "[section]" line in the reader's text: a section without keys would otherwise never be seen. */
static int read_section(struct Reader *reader, const char *line, size_t length) {
        const char *end = memchr(line, ']', length);
        char name[NAME_LENGTH_MAX];
        size_t n;

        if (!end)
                return place_fail(&reader->place, "a section looks like [name]: the closing ] is missing");
        n = (size_t) (end - line) - 1;
        /* libinih cuts longer ones. */
        if (n >= 50)
                return place_fail(&reader->place, "a section's name has at most 49 bytes");
        memcpy(name, line + 1, n);
        name[n] = '\0';
        reader->place.section = name;
        reader->place.key = reader->place.value = NULL;
        return reader->on_section(&reader->place, reader->userdata);
}

/* fgets() on a text in memory, for libinih; counts the lines. */
static char *next_line(char *buffer, int size, void *stream) {
        struct Reader *reader = stream;
        const char *line = reader->text;
        size_t length = strcspn(line, "\n");

        if (reader->error < 0 || !*line)
                return NULL;
        reader->place.line++;
        if (length + 2 > (size_t) size)
                reader->error = place_fail(&reader->place, "the line has more than %d bytes; give a list in several lines that repeat the key",
                                           size - 2);
        else if (line[0] == '[')
                reader->error = read_section(reader, line, length);
        if (reader->error < 0)
                return NULL;
        memcpy(buffer, line, length);
        buffer[length] = '\0';
        reader->text += length + (line[length] == '\n');
        return buffer;
}

static int on_entry(void *user, const char *section, const char *name, const char *value) {
        struct Reader *reader = user;

        if (reader->error < 0)
                return 0;
        reader->place.section = section;
        reader->place.key = name;
        reader->place.value = value;
        reader->error = reader->on_entry(&reader->place, reader->userdata);
        return reader->error >= 0;
}

static int load_text(const char *file, char **ret, char **ret_error) {
        int fd _cleanup_close_ = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct Place place = { .file = file };
        char *text _cleanup_free_ = NULL;
        struct stat st;
        ssize_t n = 0;
        int r = 0;

        if (fd < 0 || fstat(fd, &st) < 0) {
                r = -errno;
                (void) place_fail(&place, "cannot be read by uid %u: %s", (unsigned) geteuid(), strerror(errno));
        } else if (!S_ISREG(st.st_mode))
                r = place_fail(&place, "is not a regular file");
        else if (st.st_mode & 0002)
                r = place_fail(&place, "may be written by everyone; run: chmod o-w %s", file);
        else if (st.st_size > (off_t) FILE_MAX)
                r = place_fail(&place, "is larger than 1 MiB");
        else if (!(text = malloc(FILE_MAX + 2)))
                r = -ENOMEM;
        else if ((n = read_small(fd, text, FILE_MAX + 2)) < 0)
                r = (int) n;
        else if ((size_t) n > FILE_MAX || strlen(text) != (size_t) n || !utf8_is_valid(text, (size_t) n))
                r = place_fail(&place, "is not text in UTF-8 of at most 1 MiB");
        if (r < 0) {
                *ret_error = place.error;
                return r;
        }
        *ret = TAKE_PTR(text);
        return 0;
}

int keyfile_read(const char *file, place_handler on_section, place_handler on_key, void *userdata, char **ret_error) {
        struct Reader reader = { .place.file = file, .on_section = on_section, .on_entry = on_key, .userdata = userdata };
        char *text _cleanup_free_ = NULL;
        int r;

        r = load_text(file, &text, ret_error);
        if (r < 0)
                return r;
        reader.text = text;
        r = ini_parse_stream(next_line, &reader, on_entry, &reader);
        if (reader.error >= 0 && r > 0) {
                reader.place.line = (unsigned) r;
                reader.error = place_fail(&reader.place, "neither a [section], nor key = value, nor a # comment");
        } else if (reader.error >= 0 && r < 0)
                reader.error = -ENOMEM;
        strv_free(reader.place.seen);
        if (reader.error < 0)
                *ret_error = reader.place.error;
        return MIN(reader.error, 0);
}
