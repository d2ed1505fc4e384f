/* grpc.reflection.v1 and v1alpha, the same on the wire: files of the descriptor set, found by their name or by a symbol in them. */
#include "server/accept/reflection.h"

#include <stdio.h>

#include "server/accept/arena.h"
#include "server/accept/descriptors.h"
#include "server/accept/method.h"

#include "google/protobuf/descriptor.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

typedef Google__Protobuf__FileDescriptorProto File;
typedef Google__Protobuf__DescriptorProto Type;
typedef Google__Protobuf__EnumDescriptorProto Enum;
typedef Grpc__Reflection__V1__ServerReflectionRequest Request;
typedef Grpc__Reflection__V1__ServerReflectionResponse Response;

#define FILES_MAX 32
#define REQUESTS_ECHOED_MAX 1024 /* bytes of a name that are worth looking up */

struct Reflection {
        Google__Protobuf__FileDescriptorSet *set;
        ProtobufCBinaryData bytes[FILES_MAX]; /* each file as it is on the wire */
};

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
                uint8_t byte = *(*at)++;

                value |= (uint64_t) (byte & 0x7f) << shift;
                if (byte < 0x80) {
                        *ret = value;
                        return true;
                }
        }
        return false;
}

/* Field 1 of the set, again and again: the raw bytes keep what our unpacked form might not know. */
static int reflection_slice(struct Reflection *r) {
        const uint8_t *at = descriptors_start;

        for (size_t i = 0; i < r->set->n_file; i++) {
                uint64_t tag, size;

                if (!read_varint(&at, descriptors_end, &tag) || tag != (1 << 3 | 2) || !read_varint(&at, descriptors_end, &size) ||
                    size > (uint64_t) (descriptors_end - at))
                        return -EBADMSG;
                r->bytes[i] = (ProtobufCBinaryData) {.data = (uint8_t *) at, .len = size};
                at += size;
        }
        return 0;
}

int reflection_new(struct Reflection **ret) {
        struct Reflection *r = calloc(1, sizeof(*r));
        int k;

        if (!r)
                return -ENOMEM;
        r->set = google__protobuf__file_descriptor_set__unpack(NULL, (size_t) (descriptors_end - descriptors_start), descriptors_start);
        k = r->set && r->set->n_file <= FILES_MAX ? reflection_slice(r) : -EBADMSG;
        if (k < 0) {
                reflection_free(r);
                return k;
        }
        *ret = r;
        return 0;
}

struct Reflection *reflection_free(struct Reflection *r) {
        if (!r)
                return NULL;
        if (r->set)
                google__protobuf__file_descriptor_set__free_unpacked(r->set, NULL);
        free(r);
        return NULL;
}

/* What is left of a dotted name behind this prefix: "" when they are equal, NULL when it is not a prefix. */
static const char *symbol_behind(const char *symbol, const char *prefix) {
        size_t n = strlen(prefix);

        if (n == 0)
                return symbol;
        if (strncmp(symbol, prefix, n) != 0 || (symbol[n] && (symbol[n] != '.' || !symbol[n + 1])))
                return NULL;
        return symbol[n] ? symbol + n + 1 : symbol + n;
}

static bool enum_has(const Enum *e, const char *symbol) {
        const char *rest = symbol_behind(symbol, e->name);

        return rest && !*rest;
}

/* A value of an enum is a sibling of its enum. */
static bool enums_have(size_t n, Enum *const *enums, const char *symbol) {
        for (size_t i = 0; i < n; i++) {
                if (enum_has(enums[i], symbol))
                        return true;
                for (size_t k = 0; k < enums[i]->n_value; k++)
                        if (streq(enums[i]->value[k]->name, symbol))
                                return true;
        }
        return false;
}

static bool type_has(const Type *t, const char *symbol) {
        const char *rest = symbol_behind(symbol, t->name);

        if (!rest)
                return false;
        if (!*rest || enums_have(t->n_enum_type, t->enum_type, rest))
                return true;
        for (size_t i = 0; i < t->n_field; i++)
                if (streq(t->field[i]->name, rest))
                        return true;
        for (size_t i = 0; i < t->n_oneof_decl; i++)
                if (streq(t->oneof_decl[i]->name, rest))
                        return true;
        for (size_t i = 0; i < t->n_nested_type; i++)
                if (type_has(t->nested_type[i], rest))
                        return true;
        return false;
}

static bool service_has(const Google__Protobuf__ServiceDescriptorProto *s, const char *symbol) {
        const char *rest = symbol_behind(symbol, s->name);

        if (!rest)
                return false;
        for (size_t i = 0; *rest && i < s->n_method; i++)
                if (streq(s->method[i]->name, rest))
                        return true;
        return !*rest;
}

static bool file_has(const File *f, const char *symbol) {
        const char *rest = symbol_behind(symbol, strempty(f->package));

        if (!rest || !*rest)
                return false;
        if (enums_have(f->n_enum_type, f->enum_type, rest))
                return true;
        for (size_t i = 0; i < f->n_message_type; i++)
                if (type_has(f->message_type[i], rest))
                        return true;
        for (size_t i = 0; i < f->n_service; i++)
                if (service_has(f->service[i], rest))
                        return true;
        return false;
}

static ssize_t reflection_find_file(const struct Reflection *r, const char *name) {
        for (size_t i = 0; i < r->set->n_file; i++)
                if (streq(r->set->file[i]->name, name))
                        return (ssize_t) i;
        return -1;
}

static ssize_t reflection_find_symbol(const struct Reflection *r, const char *symbol) {
        for (size_t i = 0; i < r->set->n_file; i++)
                if (file_has(r->set->file[i], symbol))
                        return (ssize_t) i;
        return -1;
}

/* A file and all it imports, itself first. Imports cannot form a circle. */
static void reflection_collect(const struct Reflection *r, size_t file, uint32_t *seen, Grpc__Reflection__V1__FileDescriptorResponse *m) {
        if (*seen & UINT32_C(1) << file)
                return;
        *seen |= UINT32_C(1) << file;
        m->file_descriptor_proto[m->n_file_descriptor_proto++] = r->bytes[file];
        for (size_t i = 0; i < r->set->file[file]->n_dependency; i++) {
                ssize_t other = reflection_find_file(r, r->set->file[file]->dependency[i]);

                if (other >= 0)
                        reflection_collect(r, (size_t) other, seen, m);
        }
}

static void answer_error(struct Arena *arena, Response *m, const char *text) {
        m->error_response = ARENA_MESSAGE(arena, Grpc__Reflection__V1__ErrorResponse, GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT);
        m->error_response->error_code = REFUSE_NOT_FOUND;
        m->error_response->error_message = (char *) text;
        m->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
}

static void answer_file(struct Arena *arena, const struct Reflection *r, ssize_t file, Response *m) {
        Grpc__Reflection__V1__FileDescriptorResponse *files;
        uint32_t seen = 0;

        if (file < 0) {
                answer_error(arena, m, "there is no such file or symbol here");
                return;
        }
        files = ARENA_MESSAGE(arena, Grpc__Reflection__V1__FileDescriptorResponse, GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT);
        files->file_descriptor_proto = arena_get_array(arena, FILES_MAX, sizeof(ProtobufCBinaryData));
        reflection_collect(r, (size_t) file, &seen, files);
        m->file_descriptor_response = files;
        m->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
}

static void answer_services(struct Arena *arena, const struct Reflection *r, Response *m) {
        Grpc__Reflection__V1__ListServiceResponse *list =
                ARENA_MESSAGE(arena, Grpc__Reflection__V1__ListServiceResponse, GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT);

        list->service = arena_get_array(arena, FILES_MAX * 4, sizeof(*list->service));
        for (size_t i = 0; i < r->set->n_file; i++)
                for (size_t k = 0; k < r->set->file[i]->n_service && list->n_service < FILES_MAX * 4; k++) {
                        const char *package = strempty(r->set->file[i]->package), *name = r->set->file[i]->service[k]->name;
                        size_t size = strlen(package) + strlen(name) + 2;
                        Grpc__Reflection__V1__ServiceResponse *s =
                                ARENA_MESSAGE(arena, Grpc__Reflection__V1__ServiceResponse, GRPC__REFLECTION__V1__SERVICE_RESPONSE__INIT);

                        s->name = arena_get(arena, size);
                        (void) snprintf(s->name, size, "%s%s%s", package, *package ? "." : "", name);
                        list->service[list->n_service++] = s;
                }
        m->list_services_response = list;
        m->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
}

grpc_byte_buffer *reflection_answer(const struct Reflection *r, const ProtobufCMessage *message) {
        struct Arena arena _cleanup_(arena_done) = {};
        Response m = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
        const Request *q = (const Request *) message;

        m.valid_host = q->host;
        m.original_request = (Request *) q;
        switch (q->message_request_case) {
        case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
                answer_file(&arena, r, reflection_find_file(r, q->file_by_filename), &m);
                break;
        case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
                answer_file(&arena, r, reflection_find_symbol(r, q->file_containing_symbol), &m);
                break;
        case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
                answer_services(&arena, r, &m);
                break;
        default:
                answer_error(&arena, &m, "there are no extensions here; ask for files, symbols or services");
        }
        return message_pack(&m.base);
}

/* One question at a time: the next is read when the answer was taken. */
void method_reflection(struct Call *c, struct Parcel *p) {
        struct Parcel *parcel _cleanup_(parcel_freep) = p;
        struct Refusal refusal;

        if (protobuf_c_message_get_packed_size(p->message) > REQUESTS_ECHOED_MAX) {
                refuse(&refusal, REFUSE_INVALID_ARGUMENT, NULL, "a reflection request has at most %d bytes", REQUESTS_ECHOED_MAX);
                call_refuse(c, &refusal);
        } else
                call_send(c, reflection_answer(c->accept->reflection, p->message));
}

void method_reflection_written(struct Call *c) {
        call_receive(c);
}

void method_reflection_half_closed(struct Call *c) {
        call_finish(c, NULL, NULL);
}
