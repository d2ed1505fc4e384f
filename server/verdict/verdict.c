/* How an execution ended, from evidence. */
#include "server/verdict/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const outcomes[] = {
        [OUTCOME_UNSPECIFIED] = "UNSPECIFIED",
        [OUTCOME_COMPLETED] = "COMPLETED",
        [OUTCOME_FAILED] = "FAILED",
        [OUTCOME_SIGNALED] = "SIGNALED",
        [OUTCOME_TIMED_OUT] = "TIMED_OUT",
        [OUTCOME_IDLE_TIMED_OUT] = "IDLE_TIMED_OUT",
        [OUTCOME_CPU_TIME_EXCEEDED] = "CPU_TIME_EXCEEDED",
        [OUTCOME_OUTPUT_LIMIT_EXCEEDED] = "OUTPUT_LIMIT_EXCEEDED",
        [OUTCOME_OUT_OF_MEMORY] = "OUT_OF_MEMORY",
        [OUTCOME_CANCELLED] = "CANCELLED",
        [OUTCOME_INVALID_CODE] = "INVALID_CODE",
        [OUTCOME_SANDBOX_FAILED] = "SANDBOX_FAILED",
};

static const char *const cancel_reasons[] = {
        [CANCEL_NOT] = "UNSPECIFIED",
        [CANCEL_CALLER] = "CALLER",
        [CANCEL_CLIENT_GONE] = "CLIENT_GONE",
        [CANCEL_OPERATOR] = "OPERATOR",
        [CANCEL_SHUTDOWN] = "SHUTDOWN",
};

static const char *const cancel_sentences[] = {
        [CANCEL_NOT] = "The execution was cancelled.",
        [CANCEL_CALLER] = "The caller cancelled the execution.",
        [CANCEL_CLIENT_GONE] = "The client went away, so the execution was cancelled; `detached` would let it go on.",
        [CANCEL_OPERATOR] = "An operator cancelled the execution.",
        [CANCEL_SHUTDOWN] = "The server is stopping and cancelled the execution.",
};

const char *outcome_to_string(enum Outcome o) {
        return (size_t) o < ELEMENTSOF(outcomes) ? outcomes[o] : outcomes[0];
}

const char *cancel_reason_to_string(enum CancelReason r) {
        return (size_t) r < ELEMENTSOF(cancel_reasons) ? cancel_reasons[r] : cancel_reasons[0];
}

const char *format_time(usec_t t, char *buffer, size_t size) {
        if (t < USEC_PER_SEC)
                (void) snprintf(buffer, size, "%llu ms", (unsigned long long) (t / USEC_PER_MSEC));
        else if (t < 120 * USEC_PER_SEC && t % USEC_PER_SEC < USEC_PER_SEC / 10)
                (void) snprintf(buffer, size, "%llu s", (unsigned long long) (t / USEC_PER_SEC));
        else if (t < 120 * USEC_PER_SEC)
                (void) snprintf(buffer, size, "%llu.%llu s", (unsigned long long) (t / USEC_PER_SEC),
                                (unsigned long long) (t % USEC_PER_SEC / (USEC_PER_SEC / 10)));
        else
                (void) snprintf(buffer, size, "%llu min %llu s", (unsigned long long) (t / USEC_PER_SEC / 60),
                                (unsigned long long) (t / USEC_PER_SEC % 60));
        return buffer;
}

#define TYPE_SHOWN 100
#define MESSAGE_SHOWN 250

/* A message that was cut in the middle of a character loses it. */
static void trim(char *text) {
        size_t n = strlen(text);
        while (n > 0 && !utf8_is_valid(text, n))
                text[--n] = 0;
}

static void PRINTF_LIKE(2, 3) say(struct Result *r, const char *format, ...) {
        va_list ap;
        va_start(ap, format);
        (void) vsnprintf(r->message, sizeof r->message, format, ap);
        va_end(ap);
        trim(r->message);
}

/* ": ZeroDivisionError: division by zero (line 3)", as far as the runner told it. The first line says enough. */
static const char *what_error(const struct Case *c, char *buffer, size_t size) {
        const struct CodeError *e = c->error;
        char line[32] = "";

        buffer[0] = 0;
        if (!e || !e->set || isempty(e->texts[ERROR_TEXT_TYPE]))
                return buffer;
        const char *type = e->texts[ERROR_TEXT_TYPE], *message = strempty(e->texts[ERROR_TEXT_MESSAGE]);
        size_t first_line = strcspn(message, "\n"), n = MIN(utf8_fit(message, MESSAGE_SHOWN), first_line);
        if (e->line)
                (void) snprintf(line, sizeof line, " (line %u)", e->line);
        (void) snprintf(buffer, size, ": %.*s%s%.*s%s%s", (int) utf8_fit(type, TYPE_SHOWN), type, n > 0 ? ": " : "", (int) n, message,
                        n < first_line ? "…" : "", line);
        return buffer;
}

static void by_invalid(const struct Case *c, struct Result *r) {
        char error[400];
        r->outcome = OUTCOME_INVALID_CODE;
        r->exit = EXIT_UNSET;
        r->status = 0;
        if (c->error && c->error->incomplete)
                say(r, "Nothing ran, because the code looks cut off; generate it again, whole%s.", what_error(c, error, sizeof error));
        else
                say(r, "Nothing ran, because the code is not valid%s.", what_error(c, error, sizeof error));
}

static void by_exit(const struct Case *c, struct Result *r) {
        char error[400];

        if (c->main_signaled) {
                const char *name = sigabbrev_np(c->main_status);
                r->outcome = OUTCOME_SIGNALED;
                r->exit = EXIT_SIGNAL;
                if (c->claimed)
                        say(r, "A process of the program said in its place that it had ended, on the pipe of values, and so it was killed.");
                else if (name)
                        say(r, "The program was ended by signal %d (SIG%s), which the sandbox did not send.", c->main_status, name);
                else
                        say(r, "The program was ended by signal %d, which the sandbox did not send.", c->main_status);
        } else if (c->main_status != 0) {
                r->outcome = OUTCOME_FAILED;
                r->exit = EXIT_CODE;
                say(r, "The program ended with exit status %d%s.", c->main_status, what_error(c, error, sizeof error));
        } else {
                r->outcome = OUTCOME_COMPLETED;
                r->exit = EXIT_CODE;
                say(r, "The program ended with exit status 0.");
        }
        r->status = c->main_status;
}

/* How long before the end it last printed tells a slow program from a stuck one. */
static const char *last_print(const struct Case *c, char *buffer, size_t size) {
        char t[32];

        if (c->since_output == USEC_INFINITY)
                (void) snprintf(buffer, size, "it printed nothing");
        else
                (void) snprintf(buffer, size, "it last printed %s before the end", format_time(c->since_output, t, sizeof t));
        return buffer;
}

static void by_timeout(const struct Case *c, struct Result *r) {
        char limit[32], printed[64];
        r->outcome = OUTCOME_TIMED_OUT;
        say(r, "The program did not end within %s (limits.timeout); %s.", format_time(c->timeout, limit, sizeof limit), last_print(c, printed, sizeof printed));
}

static void by_idle(const struct Case *c, struct Result *r) {
        char limit[32], printed[64];
        bool known = c->waiting_for && *c->waiting_for;
        r->outcome = OUTCOME_IDLE_TIMED_OUT;
        say(r, "The program %s nothing for %s (idle.timeout)%s%s; %s.", c->idle_is_silence ? "printed" : "did", format_time(c->idle_timeout, limit, sizeof limit),
            known ? ": it was " : "", known ? c->waiting_for : "", last_print(c, printed, sizeof printed));
}

static void by_cpu_time(const struct Case *c, struct Result *r) {
        char limit[32], printed[64];
        r->outcome = OUTCOME_CPU_TIME_EXCEEDED;
        r->limits_hit |= 1u << LIMIT_HIT_CPU_TIME;
        say(r, "The program used up its %s of cpu time (limits.cpu_time); %s.", format_time(c->cpu_time, limit, sizeof limit), last_print(c, printed, sizeof printed));
}

static void by_output(const struct Case *c, struct Result *r) {
        r->outcome = OUTCOME_OUTPUT_LIMIT_EXCEEDED;
        r->exit = EXIT_UNSET;
        r->status = 0;
        say(r, "The program printed more than %llu bytes on %s (limits.output_bytes); what came before is delivered.", (unsigned long long) c->output_bytes,
            c->out_over ? "standard output" : "standard error");
}

static void by_memory(const struct Case *c, struct Result *r) {
        r->outcome = OUTCOME_OUT_OF_MEMORY;
        r->exit = EXIT_UNSET;
        r->status = 0;
        if (c->limits_hit & 1u << LIMIT_HIT_MEMORY)
                say(r, "The program needed more memory than limits.memory_bytes, and the kernel killed it; ask for more, or work on less at a time.");
        else
                say(r, "The kernel killed the program for memory, though it stayed within limits.memory_bytes: the machine was full, or the cell "
                       "with what earlier executions left in it.");
}

static void by_cancel(const struct Case *c, struct Result *r) {
        r->outcome = OUTCOME_CANCELLED;
        r->cancel_reason = c->cancel_reason;
        say(r, "%s", cancel_sentences[c->cancel_reason]);
}

static void by_sandbox(const struct Case *c, struct Result *r) {
        const char *step = c->failed_step && *c->failed_step ? c->failed_step : "init";
        const char *detail = c->failed_detail && *c->failed_detail ? c->failed_detail : NULL;

        if (c->failed_error && detail && streq(detail, strerrordesc_np(c->failed_error)))
                detail = NULL; /* once is enough */
        r->outcome = OUTCOME_SANDBOX_FAILED;
        r->exit = EXIT_UNSET;
        r->status = 0;
        if (c->failed_error && detail)
                say(r, "The sandbox failed at step '%s': %s: %s.", step, detail, strerrordesc_np(c->failed_error));
        else if (c->failed_error)
                say(r, "The sandbox failed at step '%s': %s.", step, strerrordesc_np(c->failed_error));
        else
                say(r, "The sandbox failed at step '%s': %s.", step, detail ? detail : "the first process of the cell was killed from outside");
}

/* The main process ended unprompted: what was found while draining may override its wait status, in the contract's order. */
static void by_unprompted_exit(const struct Case *c, struct Result *r) {
        if (c->init_killed)
                by_sandbox(c, r);
        else if (c->limits_hit & 1u << LIMIT_HIT_MEMORY || c->machine_oom)
                by_memory(c, r);
        else if (c->out_over || c->err_over)
                by_output(c, r);
        else if (c->invalid)
                by_invalid(c, r);
        else
                by_exit(c, r);
}

/* What a runner says of errors may hold line ends and worse; this is one sentence, which also goes into the journal. */
static void make_one_line(char *text) {
        for (; *text; text++)
                if ((uint8_t) *text < 0x20 || *text == 0x7f)
                        *text = ' ';
}

void verdict(const struct Case *c, struct Result *r) {
        static void (*const by[])(const struct Case *c, struct Result *r) = {
                [TRIGGER_NONE] = by_sandbox,    [TRIGGER_EXIT] = by_unprompted_exit, [TRIGGER_TIMEOUT] = by_timeout,
                [TRIGGER_IDLE] = by_idle,       [TRIGGER_CPU_TIME] = by_cpu_time,    [TRIGGER_OUTPUT] = by_output,
                [TRIGGER_CANCEL] = by_cancel,   [TRIGGER_SANDBOX] = by_sandbox,
        };

        r->limits_hit = c->limits_hit;
        r->stdout_truncated = c->out_over;
        r->stderr_truncated = c->err_over;
        if (c->out_over || c->err_over)
                r->limits_hit |= 1u << LIMIT_HIT_OUTPUT;
        by[c->trigger](c, r);
        if (!isempty(c->note)) {
                size_t n = strlen(r->message);
                (void) snprintf(r->message + n, sizeof r->message - n, " %s", c->note);
                trim(r->message);
        }
        make_one_line(r->message);
}
