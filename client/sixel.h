/* Pictures as sixels, the oldest protocol for them: xterm, foot, mlterm, Konsole, Windows Terminal. */
#pragma once

#include <stdio.h>

#include "client/input.h"

/* This client can: it was built with libpng. */
bool sixel_is_built(void);
/* Asks the terminal at standard input what it can, for at most 200 ms. fd: where pictures would go. Asked once. */
bool sixel_is_spoken(int fd);
/* A PNG of at most 16 million pixels, made smaller until it fits so many pixels. 0, -ENOMEM, or 1: it is no PNG that can be read. */
int sixel_print(FILE *out, const struct Bytes *png, unsigned width_max, unsigned height_max);
/* Pixels of the terminal's width; a guess where it does not tell. */
unsigned sixel_columns(int fd);
