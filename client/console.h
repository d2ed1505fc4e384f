/* What reaches the person at the terminal: bytes of the program unchanged, words of ours and names of others made harmless. */
#pragma once

#include "common/util.h"

/* The client itself failed: refused, unreachable, wrong usage. Programs' own statuses are below. */
#define STATUS_FAULT 125
#define STATUS_GAVE_UP 130

/* Writes all of it, waiting where it must. -EPIPE: nobody reads any more. */
int console_write(int fd, const void *data, size_t size);

/* Text that cannot move the cursor, change colours or reverse lines: control characters, directional overrides and bytes that are
 * not UTF-8 become \n, \t, \xNN or \u{NNNN}. Never fails: where memory ends, so does the text. */
char *console_escape(const char *s);

/* "glovebox: ..." as one harmless line on standard error. Returns STATUS_FAULT. */
int console_fault(const char *format, ...) PRINTF_LIKE(1, 2);
/* The same without the verdict, for what is worth knowing. */
void console_note(const char *format, ...) PRINTF_LIKE(1, 2);

/* "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min"; "1.5 MiB". They return buffer. */
const char *console_time(usec_t t, char *buffer, size_t size);
const char *console_bytes(uint64_t bytes, char *buffer, size_t size);
