/* Pictures in terminals that can draw them. */
#pragma once

#include "client/input.h"
#include "client/options.h"

#define PICTURE_BYTES_MAX (8 * MIB)

/* What the terminal speaks, by what it says of itself in the environment. SHOW_AUTO: perhaps sixels; it is asked when there is a picture. asked: of
 * --show. */
enum Show picture_protocol(enum Show asked, bool is_terminal);
/* Whether it draws this kind at fd; SHOW_AUTO becomes what the terminal says. */
bool picture_is_shown(enum Show *protocol, int fd, const char *mime_type);
/* Draws it, and goes to the next line. 1: it is not what it says, and nothing was written; else 0 or negative errno. */
int picture_write(enum Show protocol, int fd, const struct Bytes *picture);
