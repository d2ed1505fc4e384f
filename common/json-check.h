/* Is this JSON (RFC 8259), as it comes in pieces? Nothing is built and nothing allocated: what a caller or a cell sends is only passed on, and a tree
 * of it could take fifty times its size. Strings must be valid UTF-8; \ud800 alone is refused, since no text could hold it. */
#pragma once

#include "common/util.h"

#define JSON_DEPTH_MAX 1000

struct JsonCheck {
        uint8_t open[(JSON_DEPTH_MAX + 7) / 8]; /* a bit for each level: 1 = object, 0 = array */
        size_t depth;
        size_t offset;         /* bytes taken so far */
        int state;             /* enum JsonState */
        int after;             /* state behind the string: it was a key or a value */
        const char *word;      /* what is left of true, false, null */
        uint8_t utf8_left, utf8_low, utf8_high; /* bytes of a character that are to come, and the bounds of the next */
        uint8_t hex_left;
        uint32_t unit, high;   /* the \u unit so far; a high surrogate that waits for its low one */
        uint8_t first;         /* the value's first character: '{', '[', '"', … */
        const char *fault;     /* what is wrong, at offset; NULL = nothing so far */
};

void json_check_start(struct JsonCheck *c);
/* -EBADMSG once something is wrong; fault and offset then tell what and where. */
int json_check_add(struct JsonCheck *c, const void *bytes, size_t size);
/* Nothing more comes: 0, or -EBADMSG when the value is not whole. */
int json_check_end(struct JsonCheck *c);
