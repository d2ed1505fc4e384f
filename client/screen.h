/* The whole terminal, drawn again and again in place, and given back as it was however we end: by return, Ctrl-C, a signal, Ctrl-Z. */
#pragma once

#include "common/util.h"

#define SCREEN_GONE (-1)
#define SCREEN_CHANGED 1 /* another size, or back from Ctrl-Z: draw again */

/* Standard output is a terminal on which the cursor can be moved. */
bool screen_is_possible(void);
/* Takes the terminal, until screen_close. Call once; standard output must be a terminal. */
void screen_open(void);
/* Gives the terminal back. Does nothing when there is nothing to give back. */
void screen_close(void);
/* How many columns of the terminal are drawn on, by its size of now. */
size_t screen_columns(void);
/* Lines of escaped text, each ended by a newline; cut to the size that the terminal has now, and the last row says how many did not
 * fit. Negative errno as of console_write. */
int screen_draw(const char *lines);
/* Waits until a time of CLOCK_MONOTONIC. 0: it has come; SCREEN_CHANGED; SCREEN_GONE: nobody sits at the terminal any more; above
 * ' ' the key that was pressed. */
int screen_wait(usec_t until);
