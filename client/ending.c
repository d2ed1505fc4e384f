/* The table of outcomes and exit statuses. */
#include "client/ending.h"

#include <stdio.h>

#include "client/console.h"
#include "client/proto-json.h"

#define OUTCOME(name) GLOVEBOX__V1__OUTCOME__OUTCOME_##name

#define ALL_IS_WELL "The program ended with exit status 0."

/* COMPLETED, FAILED and SIGNALED are not here: the program's own status is told. */
static const int statuses[] = {
        [OUTCOME(TIMED_OUT)] = 124,
        [OUTCOME(IDLE_TIMED_OUT)] = 124,
        [OUTCOME(CPU_TIME_EXCEEDED)] = 124,
        [OUTCOME(OUTPUT_LIMIT_EXCEEDED)] = 153,
        [OUTCOME(OUT_OF_MEMORY)] = 137,
        [OUTCOME(CANCELLED)] = 130,
        [OUTCOME(INVALID_CODE)] = 126,
        [OUTCOME(SANDBOX_FAILED)] = STATUS_FAULT,
};

int ending_status(const Glovebox__V1__Result *result) {
        int outcome = result->outcome;

        if (outcome == OUTCOME(COMPLETED))
                return 0;
        if (outcome == OUTCOME(SIGNALED) && result->exit_case == GLOVEBOX__V1__RESULT__EXIT_SIGNAL)
                return 128 + (result->signal & 0x7f);
        if (outcome == OUTCOME(FAILED)) {
                int code = result->exit_case == GLOVEBOX__V1__RESULT__EXIT_EXIT_CODE ? result->exit_code & 0xff : 1;
                return code ? code : 1; /* FAILED is never success */
        }
        if (outcome > 0 && (size_t) outcome < ELEMENTSOF(statuses) && statuses[outcome])
                return statuses[outcome];
        return STATUS_FAULT; /* an outcome of a newer server */
}

char *ending_line(const Glovebox__V1__Result *result) {
        char *line;

        /* The server may have more to say than that all is well: that main was not called, for example. It names fields; the user has flags. */
        if (result->outcome == OUTCOME(COMPLETED)) {
                if (isempty(result->message) || streq(result->message, ALL_IS_WELL))
                        return NULL;
                return asprintf(&line, "%s%s", result->message, strstr(result->message, "inputs_json") ? " (--inputs '{}', --contract main)" : "") < 0 ? NULL : line;
        }
        if (asprintf(&line, "%s%s%s", proto_enum_word(&glovebox__v1__outcome__descriptor, (int) result->outcome),
                     isempty(result->message) ? "" : ": ", strempty(result->message)) < 0)
                return NULL;
        return line;
}
