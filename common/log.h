/* Logging at the edge, once: to the journal with fields where there is one, else a line on standard error. */
#pragma once

#include <syslog.h>

#include "common/message-ids.h"
#include "common/util.h"

/* name: "gloveboxd". Call once, before any thread. */
void log_open(const char *name);
void log_set_max_level(int level);
/* Before an end over what was just logged, or the journal may not know whose it is. */
void log_settle(void);

/* error: a negative or positive errno that %m in the format refers to, 0 = none. execution: an id or NULL. Returns -|error|. */
int log_full(int level, int error, const char *execution, const char *format, ...) PRINTF_LIKE(4, 5);
/* The same for a message of note. id: one of common/message-ids.h. */
int log_event(int level, const char *id, int error, const char *execution, const char *format, ...) PRINTF_LIKE(5, 6);
/* An ordinary step in an execution's life: for the journal alone, since on standard error it would be a line for every execution. */
void log_step(const char *id, const char *execution, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_error_errno(error, ...) log_full(LOG_ERR, error, NULL, __VA_ARGS__)
#define log_error(...) log_full(LOG_ERR, 0, NULL, __VA_ARGS__)
#define log_warning_errno(error, ...) log_full(LOG_WARNING, error, NULL, __VA_ARGS__)
#define log_warning(...) log_full(LOG_WARNING, 0, NULL, __VA_ARGS__)
#define log_notice(...) log_full(LOG_NOTICE, 0, NULL, __VA_ARGS__)
#define log_info(...) log_full(LOG_INFO, 0, NULL, __VA_ARGS__)
#define log_debug(...) log_full(LOG_DEBUG, 0, NULL, __VA_ARGS__)
