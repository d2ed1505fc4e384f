/* Patterns of paths, for choosing files of the workspace: as in glob(7), with "**".
 *
 *      *        any characters of one name           [a-z] [!a]   one of these characters, or none of them
 *      ?        one character of a name              \*           the character itself
 *      **       as a whole name: any number of folders; at the end everything below
 *
 * A name that begins with a dot is only matched by a pattern that begins with one there. A pattern whose last name has no wildcard matches the file
 * of that name and everything in a folder of that name; one that ends with "/" everything in the folders it matches. "./" means nothing.
 * Characters are UTF-8; a byte that is no UTF-8 is a character of its own. The time is bounded by the product of both lengths. */
#pragma once

#include "common/util.h"

#define PATH_PATTERN_MAX 1024

struct PathPart {
        const char *start, *end;
};

/* The next name of a path or pattern, without empty ones and ".". */
static inline bool path_part_next(const char **p, const char *end, struct PathPart *ret) {
        while (*p < end) {
                const char *start = *p, *slash = memchr(start, '/', (size_t) (end - start));
                const char *stop = slash ? slash : end;
                *p = slash ? slash + 1 : end;
                if (stop == start || (stop - start == 1 && *start == '.'))
                        continue;
                *ret = (struct PathPart) {start, stop};
                return true;
        }
        return false;
}

static inline uint32_t path_char(const char **p, const char *end) {
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        const uint8_t *s = (const uint8_t *) *p;
        size_t n = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
        bool good = n > 0 && n <= (size_t) (end - *p);
        uint32_t c = n == 1 ? s[0] : s[0] & (0x7fU >> n);
        for (size_t i = 1; good && i < n; i++) {
                good = (s[i] & 0xc0) == 0x80;
                c = c << 6 | (s[i] & 0x3f);
        }
        if (!good || c < least[n]) {
                (*p)++;
                return 0x80000000U | s[0];
        }
        *p += n;
        return c;
}

/* A character of a pattern, behind its backslash if it has one. */
static inline uint32_t path_pattern_char(const char **p, const char *end) {
        if (**p == '\\' && *p + 1 < end)
                (*p)++;
        return path_char(p, end);
}

/* At "[": 1 = c is in the set, 0 = it is not, and *p is behind the set; -1 = no set, since it is not closed. */
static inline int path_set_matches(const char **p, const char *end, uint32_t c) {
        const char *s = *p + 1;
        bool found = false, negated = s < end && (*s == '!' || *s == '^');
        s += negated;
        for (bool first = true; s < end; first = false) {
                if (*s == ']' && !first) {
                        *p = s + 1;
                        return found != negated;
                }
                uint32_t low = path_pattern_char(&s, end), high = low;
                if (end - s >= 2 && s[0] == '-' && s[1] != ']') {
                        s++;
                        high = path_pattern_char(&s, end);
                }
                found |= low <= c && c <= high;
        }
        return -1;
}

/* One item of a pattern that is not "*". */
static inline bool path_item_matches(const char **p, const char *end, uint32_t c) {
        if (**p == '?') {
                (*p)++;
                return true;
        }
        int r = **p == '[' ? path_set_matches(p, end, c) : -1;
        return r < 0 ? path_pattern_char(p, end) == c : r > 0;
}

static inline bool path_part_is_hidden(const struct PathPart *name) {
        return name->start < name->end && *name->start == '.';
}

/* After a mismatch only the last "*" has to take more: whatever an earlier one would take, it can take too. */
static inline bool path_part_matches(const struct PathPart *pattern, const struct PathPart *name) {
        const char *p = pattern->start, *n = name->start, *star = NULL, *resume = NULL;
        bool escaped = pattern->end - p >= 2 && *p == '\\';
        if (path_part_is_hidden(name) && p[escaped] != '.')
                return false;
        for (;;) {
                if (p < pattern->end && *p == '*') {
                        star = ++p;
                        resume = n;
                        continue;
                }
                if (p == pattern->end && n == name->end)
                        return true;
                const char *next_p = p, *next_n = n;
                if (p < pattern->end && n < name->end && path_item_matches(&next_p, pattern->end, path_char(&next_n, name->end))) {
                        p = next_p;
                        n = next_n;
                        continue;
                }
                if (!star || resume == name->end)
                        return false;
                path_char(&resume, name->end);
                p = star;
                n = resume;
        }
}

static inline bool path_part_is_any(const struct PathPart *part) {
        return part->end - part->start == 2 && part->start[0] == '*' && part->start[1] == '*';
}

static inline bool path_part_has_wildcard(const struct PathPart *part) {
        for (const char *p = part->start; p < part->end; p++) {
                if (*p == '*' || *p == '?' || *p == '[')
                        return true;
                p += *p == '\\';
        }
        return false;
}

/* What follows the pattern's last name in the path: nothing, or anything, or at least something. */
enum PathRest {
        PATH_REST_NONE,
        PATH_REST_ANY,
        PATH_REST_SOME,
};

static inline enum PathRest path_pattern_rest(const char *pattern, const char *end) {
        struct PathPart part, last = {};
        while (path_part_next(&pattern, end, &part))
                last = part;
        if (!last.start || (!path_part_has_wildcard(&last) && end[-1] != '/'))
                return PATH_REST_ANY;
        return end[-1] == '/' && !path_part_is_any(&last) ? PATH_REST_SOME : PATH_REST_NONE;
}

/* Everything that is left of a path is below folders that "**" may enter, and there is something. */
static inline bool path_rest_is_plain(const char *n, const char *end) {
        struct PathPart name;
        bool some = false;
        while (path_part_next(&n, end, &name)) {
                if (path_part_is_hidden(&name))
                        return false;
                some = true;
        }
        return some;
}

/* Of a pattern that path_pattern_check has passed, and a path without a slash at its start. As with "*" in a name, only the last "**" ever
 * has to take more. */
static inline bool path_pattern_matches(const char *pattern, size_t pattern_length, const char *path, size_t path_length) {
        const char *p = pattern, *end = pattern + pattern_length, *n = path, *path_end = path + path_length;
        const char *star = NULL, *resume = NULL;
        enum PathRest rest = path_pattern_rest(pattern, end);
        for (;;) {
                struct PathPart part = {}, name = {};
                const char *next_p = p, *next_n = n;
                bool has_part = path_part_next(&next_p, end, &part), has_name = path_part_next(&next_n, path_end, &name);
                if (has_part && path_part_is_any(&part)) {
                        const char *behind = next_p;
                        if (!path_part_next(&behind, end, &part))
                                return path_rest_is_plain(n, path_end);
                        star = p = next_p;
                        resume = n;
                        continue;
                }
                if (!has_part && (has_name ? rest != PATH_REST_NONE : rest != PATH_REST_SOME))
                        return true;
                if (has_part && has_name && path_part_matches(&part, &name)) {
                        p = next_p;
                        n = next_n;
                        continue;
                }
                if (!star || !path_part_next(&resume, path_end, &name) || path_part_is_hidden(&name))
                        return false;
                p = star;
                n = resume;
        }
}

static inline const char *path_part_check(const struct PathPart *part) {
        if (part->end - part->start == 2 && memcmp(part->start, "..", 2) == 0)
                return "may not contain '..'";
        for (const char *p = part->start; p < part->end;) {
                if (*p == '\\' && p + 1 == part->end)
                        return "has a '\\' that no character follows; write '\\\\' for the character itself";
                if (*p != '[') {
                        path_pattern_char(&p, part->end);
                        continue;
                }
                const char *set = p + 1;
                if (path_set_matches(&p, part->end, 0) < 0)
                        return "has a '[' that is not closed in the same name; write '\\[' for the character itself";
                for (; set + 1 < p; set++)
                        if (set[0] == '[' && strchr(":.=", set[1]))
                                return "has a class such as [:alpha:], which is not supported; write a range such as [A-Za-z]";
        }
        return NULL;
}

/* NULL = good; else what is wrong, in words that follow "the pattern". That it is UTF-8 is the caller's to check. */
static inline const char *path_pattern_check(const char *pattern, size_t length) {
        const char *p = pattern, *end = pattern + length, *wrong = NULL;
        struct PathPart part;
        if (length == 0)
                return "is empty; '**' matches everything";
        if (length > PATH_PATTERN_MAX)
                return "is longer than 1024 bytes";
        if (memchr(pattern, 0, length))
                return "contains a NUL";
        if (*pattern == '/')
                return "is absolute; it must be relative to the workspace";
        while (!wrong && path_part_next(&p, end, &part))
                wrong = path_part_check(&part);
        return wrong;
}
