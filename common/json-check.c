/* One state for each place in the grammar; a character is looked at once. */
#include "common/json-check.h"

enum JsonState {
        JSON_VALUE,         /* a value must come */
        JSON_FIRST_ELEMENT, /* a value or ] */
        JSON_FIRST_KEY,     /* a key or } */
        JSON_KEY,           /* a key */
        JSON_COLON,
        JSON_NEXT,          /* , or the end of what is open */
        JSON_STRING,
        JSON_ESCAPE,        /* behind a backslash */
        JSON_HEX,           /* in \uXXXX */
        JSON_LOW_SLASH,     /* behind a high surrogate: \ */
        JSON_LOW_U,         /* and u */
        JSON_WORD,
        JSON_MINUS,         /* in numbers: behind - */
        JSON_ZERO,
        JSON_DIGITS,
        JSON_POINT,
        JSON_FRACTION,
        JSON_E,
        JSON_E_SIGN,
        JSON_EXPONENT,
        JSON_BAD,
};

static int fail(struct JsonCheck *c, const char *fault) {
        c->state = JSON_BAD;
        c->fault = fault;
        return -EBADMSG;
}

static bool is_space(uint8_t b) {
        return b == ' ' || b == '\n' || b == '\r' || b == '\t';
}

static bool is_digit(uint8_t b) {
        return b >= '0' && b <= '9';
}

static int push(struct JsonCheck *c, bool object) {
        if (c->depth == JSON_DEPTH_MAX)
                return fail(c, "is nested more than 1000 levels deep");
        uint8_t bit = (uint8_t) (1u << (c->depth % 8));
        if (object)
                c->open[c->depth / 8] |= bit;
        else
                c->open[c->depth / 8] &= (uint8_t) ~bit;
        c->depth++;
        c->state = object ? JSON_FIRST_KEY : JSON_FIRST_ELEMENT;
        return 0;
}

static bool in_object(const struct JsonCheck *c) {
        size_t top = c->depth - 1;
        return c->open[top / 8] & (1u << (top % 8));
}

static int on_string(struct JsonCheck *c, int after) {
        c->after = after;
        c->state = JSON_STRING;
        return 0;
}

static int on_word(struct JsonCheck *c, const char *rest) {
        c->word = rest;
        c->state = JSON_WORD;
        return 0;
}

static int on_value(struct JsonCheck *c, uint8_t b) {
        if (is_space(b))
                return 0;
        if (!c->first)
                c->first = b;
        if (is_digit(b)) {
                c->state = b == '0' ? JSON_ZERO : JSON_DIGITS;
                return 0;
        }
        switch (b) {
        case '{':
                return push(c, true);
        case '[':
                return push(c, false);
        case '"':
                return on_string(c, JSON_NEXT);
        case '-':
                c->state = JSON_MINUS;
                return 0;
        case 't':
                return on_word(c, "rue");
        case 'f':
                return on_word(c, "alse");
        case 'n':
                return on_word(c, "ull");
        default:
                return fail(c, "has something else where a value must stand");
        }
}

static int on_next(struct JsonCheck *c, uint8_t b) {
        if (is_space(b))
                return 0;
        if (c->depth == 0)
                return fail(c, "goes on behind its end");
        if (b == ',') {
                c->state = in_object(c) ? JSON_KEY : JSON_VALUE;
                return 0;
        }
        if (b != (in_object(c) ? '}' : ']'))
                return fail(c, in_object(c) ? "lacks a , or } here" : "lacks a , or ] here");
        c->depth--;
        c->state = JSON_NEXT;
        return 0;
}

static int on_key(struct JsonCheck *c, uint8_t b) {
        if (is_space(b))
                return 0;
        if (b == '"')
                return on_string(c, JSON_COLON);
        return fail(c, "has something else where a key in double quotes must stand");
}

/* The first byte of a character above U+007F, and what the next may be (RFC 3629). */
static int on_utf8(struct JsonCheck *c, uint8_t b) {
        c->utf8_low = 0x80;
        c->utf8_high = 0xbf;
        if (b >= 0xc2 && b <= 0xdf)
                c->utf8_left = 1;
        else if (b >= 0xe0 && b <= 0xef)
                c->utf8_left = 2;
        else if (b >= 0xf0 && b <= 0xf4)
                c->utf8_left = 3;
        else
                return fail(c, "is not valid UTF-8 here");
        if (b == 0xe0)
                c->utf8_low = 0xa0;
        if (b == 0xed)
                c->utf8_high = 0x9f;
        if (b == 0xf0)
                c->utf8_low = 0x90;
        if (b == 0xf4)
                c->utf8_high = 0x8f;
        return 0;
}

static int on_string_byte(struct JsonCheck *c, uint8_t b) {
        if (c->utf8_left) {
                if (b < c->utf8_low || b > c->utf8_high)
                        return fail(c, "is not valid UTF-8 here");
                c->utf8_low = 0x80;
                c->utf8_high = 0xbf;
                c->utf8_left--;
                return 0;
        }
        if (b == '"')
                c->state = c->after;
        else if (b == '\\')
                c->state = JSON_ESCAPE;
        else if (b < 0x20)
                return fail(c, "has a control character in a string; write \\n or \\u00XX");
        else if (b >= 0x80)
                return on_utf8(c, b);
        return 0;
}

static int on_escape(struct JsonCheck *c, uint8_t b) {
        if (b == 'u') {
                c->hex_left = 4;
                c->unit = 0;
                c->state = JSON_HEX;
                return 0;
        }
        if (b == 0 || !strchr("\"\\/bfnrt", b))
                return fail(c, "has an unknown escape in a string");
        c->state = JSON_STRING;
        return 0;
}

static int on_hex(struct JsonCheck *c, uint8_t b) {
        uint8_t lower = b | 0x20;
        if (!is_digit(b) && (lower < 'a' || lower > 'f'))
                return fail(c, "has a \\u without four hexadecimal digits");
        c->unit = c->unit << 4 | (uint32_t) (is_digit(b) ? b - '0' : lower - 'a' + 10);
        if (--c->hex_left > 0)
                return 0;
        bool low = c->unit >= 0xdc00 && c->unit <= 0xdfff, high = c->unit >= 0xd800 && c->unit <= 0xdbff;
        if (low != (c->high != 0))
                return fail(c, "has half of a surrogate pair");
        c->high = high ? c->unit : 0;
        c->state = high ? JSON_LOW_SLASH : JSON_STRING;
        return 0;
}

static int on_low(struct JsonCheck *c, uint8_t b) {
        if (b != (c->state == JSON_LOW_SLASH ? '\\' : 'u'))
                return fail(c, "has half of a surrogate pair");
        if (c->state == JSON_LOW_SLASH)
                c->state = JSON_LOW_U;
        else
                return on_escape(c, 'u');
        return 0;
}

static int on_word_byte(struct JsonCheck *c, uint8_t b) {
        if (b != (uint8_t) *c->word)
                return fail(c, "has a word that is not true, false or null");
        if (!*++c->word)
                c->state = JSON_NEXT;
        return 0;
}

/* 1 = the number ended before this character. */
static int on_number(struct JsonCheck *c, uint8_t b) {
        switch (c->state) {
        case JSON_MINUS:
                if (!is_digit(b))
                        return fail(c, "has a - without digits");
                c->state = b == '0' ? JSON_ZERO : JSON_DIGITS;
                return 0;
        case JSON_POINT:
                if (!is_digit(b))
                        return fail(c, "has a number that ends with its point");
                c->state = JSON_FRACTION;
                return 0;
        case JSON_E:
        case JSON_E_SIGN:
                if (c->state == JSON_E && (b == '+' || b == '-')) {
                        c->state = JSON_E_SIGN;
                        return 0;
                }
                if (!is_digit(b))
                        return fail(c, "has a number without digits in its exponent");
                c->state = JSON_EXPONENT;
                return 0;
        default:
                break;
        }
        if (is_digit(b) && c->state != JSON_ZERO)
                return 0;
        if (is_digit(b))
                return fail(c, "has a number that begins with 0");
        if (b == '.' && (c->state == JSON_ZERO || c->state == JSON_DIGITS)) {
                c->state = JSON_POINT;
                return 0;
        }
        if ((b == 'e' || b == 'E') && c->state != JSON_EXPONENT) {
                c->state = JSON_E;
                return 0;
        }
        c->state = JSON_NEXT;
        return 1;
}

static int on_byte(struct JsonCheck *c, uint8_t b) {
        switch (c->state) {
        case JSON_STRING:
                return on_string_byte(c, b);
        case JSON_NEXT:
                return on_next(c, b);
        case JSON_FIRST_ELEMENT:
                return b == ']' ? on_next(c, b) : on_value(c, b);
        case JSON_VALUE:
                return on_value(c, b);
        case JSON_FIRST_KEY:
                return b == '}' ? on_next(c, b) : on_key(c, b);
        case JSON_KEY:
                return on_key(c, b);
        case JSON_COLON:
                if (is_space(b))
                        return 0;
                if (b != ':')
                        return fail(c, "lacks a : behind a key");
                c->state = JSON_VALUE;
                return 0;
        case JSON_ESCAPE:
                return on_escape(c, b);
        case JSON_HEX:
                return on_hex(c, b);
        case JSON_LOW_SLASH:
        case JSON_LOW_U:
                return on_low(c, b);
        case JSON_WORD:
                return on_word_byte(c, b);
        case JSON_BAD:
                return -EBADMSG;
        default: {
                int r = on_number(c, b);
                return r > 0 ? on_next(c, b) : r;
        }
        }
}

void json_check_start(struct JsonCheck *c) {
        *c = (struct JsonCheck) {.state = JSON_VALUE};
}

/* Bytes of which each leaves the state as it is: most of any large text. Whoever checks 16 MiB keeps everybody else waiting. */
static size_t count_plain(const struct JsonCheck *c, const uint8_t *p, size_t size) {
        size_t n = 0;

        if (c->state == JSON_STRING && c->utf8_left == 0)
                while (n < size && p[n] >= 0x20 && p[n] < 0x80 && p[n] != '"' && p[n] != '\\')
                        n++;
        else if (c->state == JSON_DIGITS || c->state == JSON_FRACTION)
                while (n < size && is_digit(p[n]))
                        n++;
        return n;
}

int json_check_add(struct JsonCheck *c, const void *bytes, size_t size) {
        const uint8_t *p = bytes;
        size_t i = 0;
        int r = 0;

        while (i < size) {
                i += count_plain(c, p + i, size - i);
                if (i == size)
                        break;
                r = on_byte(c, p[i]);
                if (r < 0)
                        break;
                i++;
        }
        c->offset += i;
        return r;
}

int json_check_end(struct JsonCheck *c) {
        if (c->state == JSON_BAD)
                return -EBADMSG;
        /* A number at the top has no end of its own. */
        if (c->depth == 0 && (c->state == JSON_ZERO || c->state == JSON_DIGITS || c->state == JSON_FRACTION || c->state == JSON_EXPONENT))
                c->state = JSON_NEXT;
        if (c->depth > 0 || c->state != JSON_NEXT)
                return fail(c, c->first ? "ends before it is whole" : "is empty");
        return 0;
}
