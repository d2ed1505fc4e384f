/* Displays and collected files that one answer gathers. */
#pragma once

#include "server/accept/call.h"

struct Part {
        bool is_display, cut; /* cut: it did not fit; its data and metadata were let go */
        char *strings;        /* of the following, in one piece */
        const char *id, *mime_type, *metadata, *content_id;
        uint8_t *data;
        size_t size;
};

struct Parts {
        struct Part *list;
        size_t n, allocated, bytes; /* bytes: of data and metadata */
};

/* One EVENT_DISPLAY or EVENT_CONTENT. What does not fit any more is kept without its bytes. */
void parts_add(struct Parts *p, struct Call *c, const struct Event *event);
/* Lets the last ones go until their bytes are at most this many. */
void parts_cut(struct Parts *p, size_t bytes);
/* The part of a file's content, NULL when there is none or it was cut. */
const struct Part *parts_content(const struct Parts *p, const char *content_id);
void parts_done(struct Parts *p);
