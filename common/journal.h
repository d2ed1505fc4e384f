/* Records for systemd's journal, in its native protocol. Unlike libsystemd's own calls these never wait for a journal that does not read: a log
 * must not stop what it tells of. */
#pragma once

#include "common/util.h"

struct JournalField {
        const char *name;  /* "MESSAGE": capital letters, digits, _ */
        const char *value; /* NULL or empty: the field is left out */
};

/* 0, or a negative errno: -EAGAIN when the journal has not read for JOURNAL_PATIENCE; then the record is lost, at once for all that follow until it
 * reads again, and the first record behind them tells how many. From any thread. */
int journal_send(const struct JournalField *fields, size_t n);
/* Before a process ends over what it has just said: the journal looks up whose a record is when it reads it, and knows no unit of who has gone by
 * then, so that `systemctl status` would not show it. At most JOURNAL_SETTLE. */
void journal_settle(void);
/* Is there a journal to send to? */
bool journal_is_there(void);
/* For tests: another socket than the journal's. */
void journal_set_socket(const char *path);

#define JOURNAL_PATIENCE (100 * USEC_PER_MSEC)
#define JOURNAL_SETTLE USEC_PER_SEC
