/* Sixels: six rows of pixels at a time, one colour after the other. The colours are a cube of 6 * 6 * 6, with an ordered dither between them; plain
 * white, black and full colours stay plain. PNGs are unpacked by libpng, with bounds on what it may need. */
#include "client/sixel.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#ifdef GLOVEBOX_PNG
#include <png.h>
#endif

#include "client/console.h"

#define ANSWER_DEADLINE (200 * USEC_PER_MSEC)
#define PIXELS_MAX (16u << 20)
#define LEVELS 6
#define COLOURS (LEVELS * LEVELS * LEVELS)
#define BAND 6

struct Image {
        unsigned width, height;
        uint8_t *rgb;     /* 3 bytes a pixel */
        uint8_t *colours; /* one a pixel */
};

static void image_done(struct Image *i) {
        free(i->rgb);
        free(i->colours);
        *i = (struct Image) {};
}

bool sixel_is_built(void) {
#ifdef GLOVEBOX_PNG
        return true;
#else
        return false;
#endif
}

/* --- asking the terminal --- */

static struct termios saved;

static void give_back(void) {
        (void) tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

/* "\033[?62;4;6c": 4 stands for sixels. */
static bool answer_has_sixels(const char *answer) {
        const char *p = strstr(answer, "\033[?");

        for (p = p ? p + 3 : ""; *p && *p != 'c'; p += strcspn(p, ";c"), p += *p == ';')
                if (p[0] == '4' && (p[1] == ';' || p[1] == 'c'))
                        return true;
        return false;
}

static bool read_answer(char *answer, size_t size) {
        usec_t end = now_monotonic() + ANSWER_DEADLINE;
        size_t n = 0;

        while (n + 1 < size) {
                struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
                usec_t now = now_monotonic();
                ssize_t got;

                if (now >= end || poll(&p, 1, (int) ((end - now) / USEC_PER_MSEC) + 1) <= 0)
                        return false;
                got = read(STDIN_FILENO, answer + n, size - 1 - n);
                if (got <= 0)
                        return false;
                n += (size_t) got;
                answer[n] = '\0';
                if (strstr(answer, "\033[?") && strchr(strstr(answer, "\033[?"), 'c'))
                        return true;
        }
        return false;
}

static bool ask(int fd) {
        struct termios quiet;
        char answer[128] = "";
        int typed = 0;
        bool found;

        /* What somebody has typed already is for the program behind us, and one in the background may not touch the terminal. */
        if (!isatty(STDIN_FILENO) || !isatty(fd) || tcgetpgrp(STDIN_FILENO) != getpgrp() || ioctl(STDIN_FILENO, FIONREAD, &typed) < 0 || typed > 0 ||
            tcgetattr(STDIN_FILENO, &saved) < 0)
                return false;
        quiet = saved;
        quiet.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        quiet.c_cc[VMIN] = 0;
        quiet.c_cc[VTIME] = 0;
        console_set_before(give_back);
        found = tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0 && console_write(fd, "\033[c", 3) == 0 && read_answer(answer, sizeof(answer)) &&
                answer_has_sixels(answer);
        give_back();
        console_set_before(NULL);
        return found;
}

bool sixel_is_spoken(int fd) {
        static int spoken = -1;

        if (spoken < 0)
                spoken = sixel_is_built() && ask(fd);
        return spoken;
}

unsigned sixel_columns(int fd) {
        struct winsize size = {};

        if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_xpixel < 100)
                return 800;
        return size.ws_xpixel;
}

/* --- drawing --- */

#ifdef GLOVEBOX_PNG
/* 0, 1 or -ENOMEM. White is put behind what is transparent. */
static int unpack(const struct Bytes *bytes, struct Image *ret) {
        png_image png = { .version = PNG_IMAGE_VERSION };
        png_color white = { 255, 255, 255 };
        uint8_t *rgb;

        if (!png_image_begin_read_from_memory(&png, bytes->data, bytes->size))
                return 1;
        png.format = PNG_FORMAT_RGB;
        if (png.width == 0 || png.height == 0 || (uint64_t) png.width * png.height > PIXELS_MAX) {
                png_image_free(&png);
                return 1;
        }
        rgb = malloc(PNG_IMAGE_SIZE(png));
        if (!rgb) {
                png_image_free(&png);
                return -ENOMEM;
        }
        if (!png_image_finish_read(&png, &white, rgb, 0, NULL)) {
                free(rgb);
                return 1;
        }
        *ret = (struct Image) { .width = png.width, .height = png.height, .rgb = rgb };
        return 0;
}
#else
static int unpack(const struct Bytes *bytes, struct Image *ret) {
        return 1;
}
#endif

/* Each pixel becomes the mean of a square of `by` pixels. In place: a pixel is read before its place is written. */
static void shrink(struct Image *i, unsigned by) {
        unsigned width = MAX(i->width / by, 1u), height = MAX(i->height / by, 1u);

        for (unsigned y = 0; y < height; y++)
                for (unsigned x = 0; x < width; x++) {
                        unsigned sums[3] = {}, n = 0;

                        for (unsigned from_y = y * by; from_y < MIN((y + 1) * by, i->height); from_y++)
                                for (unsigned from_x = x * by; from_x < MIN((x + 1) * by, i->width); from_x++, n++)
                                        for (unsigned c = 0; c < 3; c++)
                                                sums[c] += i->rgb[3 * ((size_t) from_y * i->width + from_x) + c];
                        for (unsigned c = 0; c < 3; c++)
                                i->rgb[3 * ((size_t) y * width + x) + c] = (uint8_t) (sums[c] / n);
                }
        i->width = width;
        i->height = height;
}

/* 0 and 255 are levels themselves, so that no dither touches them. */
static unsigned level(uint8_t value, unsigned x, unsigned y) {
        static const uint8_t bayer[4][4] = { { 0, 8, 2, 10 }, { 12, 4, 14, 6 }, { 3, 11, 1, 9 }, { 15, 7, 13, 5 } };
        unsigned sixteenths = value * (LEVELS - 1) * 16 / 255;

        return MIN((sixteenths + bayer[y % 4][x % 4]) / 16, LEVELS - 1u);
}

static int choose_colours(struct Image *i) {
        i->colours = malloc((size_t) i->width * i->height);
        if (!i->colours)
                return -ENOMEM;
        for (unsigned y = 0; y < i->height; y++)
                for (unsigned x = 0; x < i->width; x++) {
                        const uint8_t *p = &i->rgb[3 * ((size_t) y * i->width + x)];

                        i->colours[(size_t) y * i->width + x] =
                                (uint8_t) ((level(p[0], x, y) * LEVELS + level(p[1], x, y)) * LEVELS + level(p[2], x, y));
                }
        return 0;
}

static void print_run(FILE *out, char sixel, unsigned n) {
        if (n > 3)
                fprintf(out, "!%u%c", n, sixel);
        else
                for (; n > 0; n--)
                        fputc(sixel, out);
}

/* One colour of six rows. */
static void print_colour(FILE *out, const struct Image *i, unsigned top, unsigned colour) {
        unsigned n = 0;
        char last = 0;

        fprintf(out, "#%u", colour);
        for (unsigned x = 0; x < i->width; x++) {
                unsigned bits = 0;
                char sixel;

                for (unsigned row = 0; row < BAND && top + row < i->height; row++)
                        bits |= (unsigned) (i->colours[(size_t) (top + row) * i->width + x] == colour) << row;
                sixel = (char) ('?' + bits);
                if (n > 0 && sixel != last) {
                        print_run(out, last, n);
                        n = 0;
                }
                last = sixel;
                n++;
        }
        if (last != '?')
                print_run(out, last, n);
        fputc('$', out);
}

static void print_bands(FILE *out, const struct Image *i) {
        for (unsigned top = 0; top < i->height; top += BAND) {
                bool used[COLOURS] = {};

                for (size_t at = (size_t) top * i->width; at < (size_t) MIN(top + BAND, i->height) * i->width; at++)
                        used[i->colours[at]] = true;
                for (unsigned colour = 0; colour < COLOURS; colour++)
                        if (used[colour])
                                print_colour(out, i, top, colour);
                fputc('-', out);
        }
}

int sixel_print(FILE *out, const struct Bytes *png, unsigned width_max, unsigned height_max) {
        struct Image image _cleanup_(image_done) = {};
        unsigned by;
        int r = unpack(png, &image);

        if (r != 0)
                return r;
        by = MAX((image.width + width_max - 1) / width_max, (image.height + height_max - 1) / height_max);
        if (by > 1)
                shrink(&image, by);
        r = choose_colours(&image);
        if (r < 0)
                return r;
        fprintf(out, "\033P0;1;0q\"1;1;%u;%u", image.width, image.height);
        for (unsigned colour = 0; colour < COLOURS; colour++)
                fprintf(out, "#%u;2;%u;%u;%u", colour, colour / (LEVELS * LEVELS) * 20, colour / LEVELS % LEVELS * 20, colour % LEVELS * 20);
        print_bands(out, &image);
        fputs("\033\\\n", out);
        return 0;
}
