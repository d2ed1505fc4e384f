/* How an execution ended, from evidence: one pure function. */
#pragma once

#include "server/event.h"

/* What ended the run, in order of time; the first that happens is kept. */
enum Trigger {
        TRIGGER_NONE,
        TRIGGER_EXIT,          /* the main process ended by itself */
        TRIGGER_TIMEOUT,
        TRIGGER_IDLE,
        TRIGGER_CPU_TIME,
        TRIGGER_OUTPUT,
        TRIGGER_CANCEL,
        TRIGGER_SANDBOX,       /* our fault */
};

struct Case {
        enum Trigger trigger;
        enum CancelReason cancel_reason;
        bool main_exited, main_signaled;
        int main_status;
        bool claimed;         /* what was said of its end was not its own word, and killed it */
        bool ran;             /* the program was started */
        bool init_killed;     /* found while draining */
        bool out_over, err_over;
        uint32_t limits_hit;
        bool machine_oom;     /* killed for memory, but not for its own limit */
        usec_t timeout, idle_timeout, cpu_time; /* the limits */
        uint64_t output_bytes;
        usec_t since_output;  /* from the last output to the end; USEC_INFINITY = it printed nothing */
        bool idle_is_silence;    /* computing counted as idle, too */
        const char *waiting_for; /* what it waited for when idle; NULL or "" = not known */
        bool invalid;         /* the runner said so before the code ran */
        const struct CodeError *error; /* set = the runner told of one */
        const char *note;        /* ends the message; "" = none */
        const char *failed_step, *failed_detail;
        int failed_error;
};

/* Fills outcome, exit, cancel_reason, message, limits_hit and the truncated flags. */
void verdict(const struct Case *c, struct Result *result);

const char *outcome_to_string(enum Outcome o);       /* "COMPLETED" */
const char *cancel_reason_to_string(enum CancelReason r); /* "CALLER" */
/* "2 s", "1.3 s", "150 ms", "2 min 5 s": for sentences. Returns buffer. */
const char *format_time(usec_t t, char *buffer, size_t size);
