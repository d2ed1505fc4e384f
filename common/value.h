/* Records of the value pipe (runner → server). They have the header of common/job.h: type and length, 32-bit little-endian, then the bytes.
 *
 * Whoever writes here is believed in nothing: user code may find the descriptor and write what it likes. The order makes the one thing that
 * counts true: VALUE_INVALID is taken only before VALUE_STARTED, and a runner writes VALUE_STARTED before the first byte of user code runs.
 *
 *      { ERROR_… } VALUE_INVALID [VALUE_OVER]                         nothing ran
 *      VALUE_STARTED { displays } { ERROR_… ERROR_END } { value }     in any order; of several errors, values or notes the last whole one counts
 *                                                       [VALUE_OVER]
 *
 * A display: DISPLAY, DISPLAY_DATA…, DISPLAY_END, with nothing of another kind between. A value: VALUE_JSON…, VALUE_END; or VALUE_ERROR.
 * A record of an unknown type, too long, or out of its place ends the reading: what came before counts, and the pipe is closed.
 * Texts are UTF-8; others are mended by the server. */
#pragma once

#include "common/util.h"

#define VALUE_PIECE_MAX (64 * KIB)      /* VALUE_JSON, DISPLAY_DATA */
#define VALUE_DISPLAYS_MAX 1000         /* of an execution; more are dropped, with LIMIT_CONTENT in limits_hit */
#define VALUE_DISPLAY_HEAD_MAX (64 * KIB)
#define ERROR_TYPE_MAX 1024
#define ERROR_MESSAGE_MAX (32 * KIB)
#define ERROR_TRACEBACK_MAX (128 * KIB)
#define ERROR_SOURCE_LINE_MAX (4 * KIB)
#define ERROR_HINT_MAX 1024
#define VALUE_PATH_MAX 4096
#define VALUE_NOTE_MAX 512
#define OVER_NAME "glovebox-over"

enum ValueRecord {
        VALUE_STARTED = 1,    /* empty: it compiled; user code runs from here on */
        VALUE_INVALID,        /* one byte, 1 = looks cut off: it does not compile, or imports what it may not. Nothing will run */
        VALUE_JSON,           /* a piece of the value */
        VALUE_END,            /* one byte, 1 = lossy (NaN became null, …): the value is whole */
        VALUE_ERROR,          /* one byte: glovebox.v1.ValueErrorType; then the path ("$.a[3]"), NUL, one sentence, cut after 512 bytes */
        ERROR_TYPE,           /* "ZeroDivisionError" */
        ERROR_MESSAGE,
        ERROR_TRACEBACK,
        ERROR_SOURCE_LINE,
        ERROR_HINT,
        ERROR_POSITION,       /* line, column: 32-bit little-endian, from 1, 0 = not known; one byte, 1 = texts were shortened */
        ERROR_END,            /* empty: the error is whole */
        DISPLAY,              /* id, NUL, MIME type, NUL, metadata as a JSON object or nothing. An id is cut after 64 bytes; parameters of
                                 the type go, and a display without a good type is not shown */
        DISPLAY_DATA,         /* a piece of its bytes */
        DISPLAY_END,          /* empty; or one byte, 1 = what should be here did not fit and is left out, which limits_hit then tells */
        VALUE_NOTE,           /* one sentence that Result.message ends with: "main was not called: …" */
        VALUE_OVER,           /* one byte, the exit status: the program has ended, and its process waits to be killed, with nothing left to
                                 say. The last record. Nobody then has to wait until the kernel has taken its memory apart. Other
                                 processes may write it, too: so the process first takes OVER_NAME as its name, which no other can give
                                 it, and without that name it has been killed and that is its end */
        VALUE_RECORD_MAX_,
};
