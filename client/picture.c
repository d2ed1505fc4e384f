/* The protocols of kitty (chunks of base64 in APC sequences; PNG only) and iTerm2 (one OSC 1337 sequence); sixels are drawn in sixel.c. A picture
 * comes from a cell: it reaches the terminal only as base64, which holds no control character, or as sixels that we make of its pixels, and only
 * when it begins as pictures of a reasonable size do. */
#include "client/picture.h"

#include <stdio.h>

#include "client/console.h"
#include "client/sixel.h"

#define CHUNK 4096 /* kitty takes no more at once */
#define SIDE_MAX 10000
#define SIXEL_ROWS_MAX 1000

enum Show picture_protocol(enum Show asked, bool is_terminal) {
        const char *term = strempty(getenv("TERM")), *program = strempty(getenv("TERM_PROGRAM"));

        if (asked != SHOW_AUTO)
                return asked;
        /* screen and tmux hand the variables of the terminal around them on, but not its pictures. */
        if (!is_terminal || getenv("TMUX") || getenv("STY") || strncmp(term, "screen", 6) == 0 || strncmp(term, "tmux", 4) == 0)
                return SHOW_NONE;
        if (streq(program, "iTerm.app") || streq(program, "WezTerm") || streq(getenv("LC_TERMINAL"), "iTerm2"))
                return SHOW_ITERM;
        if (streq(term, "xterm-kitty") || streq(term, "xterm-ghostty") || streq(program, "ghostty") || getenv("KITTY_WINDOW_ID"))
                return SHOW_KITTY;
        return *term && !streq(term, "dumb") && !streq(term, "linux") ? SHOW_AUTO : SHOW_NONE;
}

bool picture_is_shown(enum Show *protocol, int fd, const char *mime_type) {
        if (streq(mime_type, "image/png")) {
                if (*protocol == SHOW_AUTO)
                        *protocol = sixel_is_spoken(fd) ? SHOW_SIXEL : SHOW_NONE;
                return *protocol != SHOW_NONE;
        }
        return *protocol == SHOW_ITERM && (streq(mime_type, "image/jpeg") || streq(mime_type, "image/gif"));
}

static uint32_t big_endian(const uint8_t *b) {
        return (uint32_t) b[0] << 24 | (uint32_t) b[1] << 16 | (uint32_t) b[2] << 8 | b[3];
}

/* A small file may say that it is a billion pixels wide, which the terminal would then try to unpack. */
static bool is_png(const uint8_t *b, size_t size) {
        uint32_t width, height;

        if (size < 24 || memcmp(b, "\x89PNG\r\n\x1a\n", 8) != 0 || memcmp(b + 12, "IHDR", 4) != 0)
                return false;
        width = big_endian(b + 16);
        height = big_endian(b + 20);
        return width > 0 && width <= SIDE_MAX && height > 0 && height <= SIDE_MAX;
}

/* The first frame header (SOF) tells the size. */
static bool is_jpeg(const uint8_t *b, size_t size) {
        if (size < 4 || memcmp(b, "\xff\xd8\xff", 3) != 0)
                return false;
        for (size_t at = 2; at + 9 <= size && b[at] == 0xff;) {
                uint8_t kind = b[at + 1];
                size_t length = (size_t) b[at + 2] << 8 | b[at + 3];
                unsigned height = (unsigned) b[at + 5] << 8 | b[at + 6], width = (unsigned) b[at + 7] << 8 | b[at + 8];

                if (kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc)
                        return width > 0 && width <= SIDE_MAX && height > 0 && height <= SIDE_MAX;
                at += 2 + length;
        }
        return false;
}

static bool is_gif(const uint8_t *b, size_t size) {
        return size >= 10 && (memcmp(b, "GIF87a", 6) == 0 || memcmp(b, "GIF89a", 6) == 0) && (b[6] | b[7] << 8) <= SIDE_MAX &&
               (b[8] | b[9] << 8) <= SIDE_MAX;
}

/* Room for 4 * (size / 3 + 1) + 1. Returns the length. */
static size_t base64(const uint8_t *b, size_t size, char *out) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char *to = out;

        for (size_t i = 0; i < size; i += 3) {
                size_t left = size - i;
                uint32_t three = (uint32_t) b[i] << 16 | (left > 1 ? (uint32_t) b[i + 1] << 8 : 0) | (left > 2 ? b[i + 2] : 0);

                *to++ = digits[three >> 18];
                *to++ = digits[three >> 12 & 63];
                *to++ = left > 1 ? digits[three >> 6 & 63] : '=';
                *to++ = left > 2 ? digits[three & 63] : '=';
        }
        *to = '\0';
        return (size_t) (to - out);
}

static void write_kitty(FILE *out, const char *text, size_t length) {
        for (size_t at = 0; at < length; at += CHUNK) {
                size_t n = MIN((size_t) CHUNK, length - at);

                /* q=2: the terminal does not answer, since we do not read what it types. */
                fprintf(out, "\033_G%sm=%d;%.*s\033\\", at == 0 ? "a=T,f=100,q=2," : "", at + n < length, (int) n, text + at);
        }
        fputc('\n', out);
}

static void write_iterm(FILE *out, const char *text, size_t size) {
        fprintf(out, "\033]1337;File=inline=1;size=%zu:%s\a\n", size, text);
}

/* Returns as picture_write. */
static int compose(enum Show protocol, int fd, const struct Bytes *picture, FILE *out) {
        char *text _cleanup_free_ = NULL;
        size_t length;

        if (protocol == SHOW_SIXEL)
                return sixel_print(out, picture, sixel_columns(fd), SIXEL_ROWS_MAX);
        text = malloc(4 * (picture->size / 3 + 1) + 1);
        if (!text)
                return -ENOMEM;
        length = base64((const uint8_t *) picture->data, picture->size, text);
        if (protocol == SHOW_KITTY)
                write_kitty(out, text, length);
        else
                write_iterm(out, text, picture->size);
        return 0;
}

int picture_write(enum Show protocol, int fd, const struct Bytes *picture) {
        const uint8_t *b = (const uint8_t *) picture->data;
        char *whole _cleanup_free_ = NULL;
        size_t size = 0;
        FILE *out;
        int r;

        if (!is_png(b, picture->size) && (protocol != SHOW_ITERM || (!is_jpeg(b, picture->size) && !is_gif(b, picture->size))))
                return 1;
        out = open_memstream(&whole, &size);
        if (!out)
                return -ENOMEM;
        r = compose(protocol, fd, picture, out);
        if (fclose(out) != 0)
                return -ENOMEM;
        return r != 0 ? r : console_write(fd, whole, size);
}
