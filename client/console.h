/* What reaches the person at the terminal: bytes of the program unchanged, words of ours and names of others made harmless. */
#pragma once

#include "common/util.h"

/* The client itself failed: refused, unreachable, wrong usage. Programs' own statuses are below. */
#define STATUS_FAULT 125
#define STATUS_GAVE_UP 130

/* Writes all of it, waiting where it must. -EPIPE: nobody reads any more. */
int console_write(int fd, const void *data, size_t size);
/* Our reader is gone: ends as any program in a pipeline does, by SIGPIPE. Returns its status where that does not end us. */
int console_end_by_sigpipe(void);

/* Text that cannot move the cursor, change colours or reverse lines: control characters, directional overrides and bytes that are
 * not UTF-8 become \n, \t, \xNN or \u{NNNN}. Never fails: where memory ends, so does the text. */
char *console_escape(const char *s);

/* Columns of a terminal that escaped text takes: wide characters count as two. Marks that have no width of their own count as one:
 * a line may come out shorter than reckoned, never longer. */
size_t console_width(const char *s);
/* How many bytes of escaped text fit into so many columns; never half a character. */
size_t console_fit(const char *s, size_t columns);

/* "glovebox: ..." as one harmless line on standard error. Returns STATUS_FAULT. */
int console_fault(const char *format, ...) PRINTF_LIKE(1, 2);
/* The same without the verdict, for what is worth knowing. */
void console_note(const char *format, ...) PRINTF_LIKE(1, 2);
/* Called before each of those two, by whoever has changed the terminal, to give it back; NULL: nobody has. */
void console_set_before(void (*before)(void));
/* For who leaves without a word. */
void console_give_back(void);

/* What was measured, rounded: "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min". They all return buffer. */
const char *console_time(usec_t t, char *buffer, size_t size);
/* What was set, to the microsecond: "1.5 ms", "30 s", "1 min 30.5 s", "1 h". */
const char *console_period(usec_t t, char *buffer, size_t size);
/* "1023 B", "1.5 MiB". */
const char *console_bytes(uint64_t bytes, char *buffer, size_t size);
