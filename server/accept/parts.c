/* Displays and collected files that one answer gathers. */
#include "server/accept/parts.h"

#define PARTS_MAX (2 * MIB + 512 * KIB)
#define PARTS_COUNT_MAX 4096 /* displays and files are fewer by their own bounds */

static struct Part *find(const struct Parts *p, const char *content_id) {
        for (size_t i = p->n; i-- > 0;)
                if (*p->list[i].content_id && streq(p->list[i].content_id, content_id))
                        return &p->list[i];
        return NULL;
}

static void let_go(struct Parts *p, struct Part *part) {
        p->bytes -= part->size + strlen(part->metadata);
        part->metadata = "";
        free(part->data);
        part->data = NULL;
        part->size = 0;
        part->cut = true;
}

static char *join(const char *const strings[4], struct Part *part) {
        const char **const to[4] = {&part->id, &part->mime_type, &part->metadata, &part->content_id};
        size_t size = 0, at = 0;

        for (size_t i = 0; i < 4; i++)
                size += strlen(strings[i]) + 1;
        part->strings = malloc(size);
        for (size_t i = 0; part->strings && i < 4; i++) {
                size_t n = strlen(strings[i]) + 1;
                memcpy(part->strings + at, strings[i], n);
                *to[i] = part->strings + at;
                at += n;
        }
        return part->strings;
}

/* strings: id, MIME type, metadata, content id. Metadata can be long; the others are short. */
static struct Part *new_part(struct Parts *p, struct Call *c, const char *const strings[4], bool is_display) {
        size_t size = strlen(strings[2]);
        bool cut = size > 0 && (p->bytes + size > PARTS_MAX || call_memory_is_short(c));
        const char *const kept[4] = {strings[0], strings[1], cut ? "" : strings[2], strings[3]};

        if (p->n == PARTS_COUNT_MAX)
                return NULL;
        if (p->n == p->allocated) {
                size_t allocated = MAX(2 * p->allocated, (size_t) 8);
                struct Part *larger = realloc(p->list, allocated * sizeof(*larger));

                if (!larger)
                        return NULL;
                p->list = larger;
                p->allocated = allocated;
        }
        struct Part *part = &p->list[p->n];
        *part = (struct Part) {.is_display = is_display, .cut = cut};
        if (!join(kept, part))
                return NULL;
        p->n++;
        p->bytes += strlen(part->metadata);
        call_charge(c, sizeof(*part) + strlen(part->metadata));
        return part;
}

static void add_bytes(struct Parts *p, struct Call *c, struct Part *part, const uint8_t *data, size_t size) {
        if (part->cut || size == 0)
                return;
        uint8_t *larger = p->bytes + size > PARTS_MAX || call_memory_is_short(c) ? NULL : realloc(part->data, part->size + size);
        if (!larger) {
                let_go(p, part);
                return;
        }
        call_charge(c, size);
        part->data = larger;
        memcpy(part->data + part->size, data, size);
        part->size += size;
        p->bytes += size;
}

void parts_add(struct Parts *p, struct Call *c, const struct Event *event) {
        struct Part *part;

        if (event->kind == EVENT_DISPLAY) {
                const char *const strings[4] = {event->display.id, event->display.mime_type, event->display.metadata, event->display.content_id};
                part = new_part(p, c, strings, true);
                if (part)
                        add_bytes(p, c, part, event->display.data, event->display.size);
                return;
        }
        /* The result brings its value along. */
        if (streq(event->content.id, VALUE_CONTENT_ID))
                return;
        const char *const strings[4] = {"", "", "", event->content.id};
        part = find(p, event->content.id);
        if (!part)
                part = new_part(p, c, strings, false);
        if (part)
                add_bytes(p, c, part, event->content.data, event->content.size);
}

void parts_cut(struct Parts *p, size_t bytes) {
        for (size_t i = p->n; i-- > 0 && p->bytes > bytes;)
                let_go(p, &p->list[i]);
}

const struct Part *parts_content(const struct Parts *p, const char *content_id) {
        const struct Part *part = *content_id ? find(p, content_id) : NULL;
        return part && !part->cut ? part : NULL;
}

void parts_done(struct Parts *p) {
        for (size_t i = 0; i < p->n; i++) {
                free(p->list[i].strings);
                free(p->list[i].data);
        }
        free(p->list);
        *p = (struct Parts) {};
}
