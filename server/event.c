/* What results own. */
#include "server/event.h"

#define MESSAGE_MAX (1 * MIB)
#define MESSAGE_REST (16 * KIB) /* of a result: everything short */
#define FILE_REST 64            /* of a file: what its fields take on the wire beyond their size here */

void value_done(struct Value *v) {
        free(v->json);
        free(v->path);
        free(v->message);
        *v = (struct Value) {};
}

void code_error_done(struct CodeError *e) {
        for (size_t i = 0; i < ERROR_TEXT_MAX_; i++)
                free(e->texts[i]);
        *e = (struct CodeError) {};
}

void result_done(struct Result *r) {
        value_done(&r->value);
        code_error_done(&r->error);
        for (size_t i = 0; i < r->n_files; i++)
                free(r->files[i].path);
        free(r->files);
        r->files = NULL;
        r->n_files = 0;
}

static size_t text_size(const char *s) {
        return s ? strlen(s) : 0;
}

size_t result_size(const struct Result *r) {
        size_t size = r->value.size + text_size(r->value.path) + text_size(r->value.message) + r->n_files * sizeof *r->files;

        for (size_t i = 0; i < ERROR_TEXT_MAX_; i++)
                size += text_size(r->error.texts[i]);
        for (size_t i = 0; i < r->n_files; i++)
                size += text_size(r->files[i].path);
        return size;
}

/* Error and files leave room for a value of the usual size, but not always. */
bool result_value_in_pieces(const struct Result *r) {
        if (r->value.kind != VALUE_KIND_JSON)
                return false;
        return r->value.size > CONTENT_WHOLE_MAX || result_size(r) + r->n_files * FILE_REST > MESSAGE_MAX - MESSAGE_REST;
}
