/* Looks through the bytes of a message before protobuf-c sees them: it has no bound on fields or depth, takes any bytes as text, cuts
 * text at NUL and keeps unknown enum values. */
#include "server/accept/message.h"

#include <stdio.h>

#define FIELDS_OF_A_TYPE 64

enum WireType {
        WIRE_VARINT,
        WIRE_FIXED64,
        WIRE_LENGTH,
        WIRE_START_GROUP,
        WIRE_END_GROUP,
        WIRE_FIXED32,
};

struct Place { /* where in the message: for the error */
        const char *name;
        bool repeated;
        unsigned index;
};

struct Check {
        size_t n_fields;
        unsigned depth;
        struct Place path[MESSAGE_DEPTH_MAX];
        struct Refusal *refusal;
};

struct Reader {
        const uint8_t *at, *end;
};

static int check_message(struct Check *c, const ProtobufCMessageDescriptor *type, struct Reader in);

static bool reader_varint(struct Reader *in, uint64_t *ret) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 70; shift += 7) {
                uint8_t byte;

                if (in->at == in->end)
                        return false;
                byte = *in->at++;
                if (shift < 64)
                        value |= (uint64_t) (byte & 0x7f) << shift;
                if (!(byte & 0x80)) {
                        *ret = value;
                        return true;
                }
        }
        return false;
}

static bool reader_skip(struct Reader *in, uint64_t n, struct Reader *ret) {
        if (n > (uint64_t) (in->end - in->at))
                return false;
        *ret = (struct Reader) {in->at, in->at + n};
        in->at += n;
        return true;
}

/* "files[2].path" */
static void check_path(const struct Check *c, char *out, size_t size) {
        size_t length = 0;

        out[0] = 0;
        for (unsigned i = 0; i < c->depth && length < size; i++) {
                const struct Place *p = &c->path[i];
                int n = p->repeated ? snprintf(out + length, size - length, "%s%s[%u]", i > 0 ? "." : "", p->name, p->index)
                                    : snprintf(out + length, size - length, "%s%s", i > 0 ? "." : "", p->name);

                if (n < 0)
                        return;
                length += (size_t) n;
        }
}

#define check_refuse(c, ...)                                                                            \
        ({                                                                                              \
                char path_[sizeof((c)->refusal->field)];                                                \
                check_path(c, path_, sizeof(path_));                                                    \
                refuse((c)->refusal, REFUSE_INVALID_ARGUMENT, path_, __VA_ARGS__);                      \
        })

static int check_malformed(struct Check *c) {
        return check_refuse(c, "the message is cut off or not protobuf here; generate the client from the server's .proto files");
}

static int check_text(struct Check *c, const uint8_t *bytes, size_t size) {
        const uint8_t *nul = memchr(bytes, 0, size);

        if (nul)
                return check_refuse(c, "has a NUL byte at offset %zu; text may hold none (bytes can go into `stdin` or `files`)",
                                    (size_t) (nul - bytes));
        if (!utf8_is_valid((const char *) bytes, size))
                return check_refuse(c, "is not valid UTF-8; encode text as UTF-8, and send other bytes in `stdin` or `files`");
        return 0;
}

static int check_enum(struct Check *c, const ProtobufCEnumDescriptor *type, uint64_t value) {
        char known[320] = "";
        size_t length = 0;

        for (unsigned i = 0; i < type->n_values; i++)
                if (type->values[i].value == (int32_t) value)
                        return 0;
        for (unsigned i = 0; i < type->n_values && length < sizeof(known); i++)
                length += (size_t) snprintf(known + length, sizeof(known) - length, "%s%s (%d)", i > 0 ? ", " : "", type->values[i].name,
                                            type->values[i].value);
        return check_refuse(c, "has no value %d; known are %s", (int32_t) value, known);
}

static int check_length_delimited(struct Check *c, const ProtobufCFieldDescriptor *field, struct Reader body) {
        switch (field->type) {
        case PROTOBUF_C_TYPE_STRING:
                return check_text(c, body.at, (size_t) (body.end - body.at));
        case PROTOBUF_C_TYPE_MESSAGE:
                return check_message(c, field->descriptor, body);
        case PROTOBUF_C_TYPE_ENUM: /* packed */
                while (body.at < body.end) {
                        uint64_t value;
                        int r;

                        if (!reader_varint(&body, &value))
                                return check_malformed(c);
                        if (++c->n_fields > MESSAGE_FIELDS_MAX)
                                return check_refuse(c, "the request has more than %d fields in all; send fewer", MESSAGE_FIELDS_MAX);
                        r = check_enum(c, field->descriptor, value);
                        if (r != 0)
                                return r;
                }
                return 0;
        default:
                return 0;
        }
}

/* One field's value, known (field) or not (NULL). */
static int check_value(struct Check *c, const ProtobufCFieldDescriptor *field, enum WireType wire, struct Reader *in) {
        struct Reader body;
        uint64_t value;

        switch (wire) {
        case WIRE_VARINT:
                if (!reader_varint(in, &value))
                        return check_malformed(c);
                return field && field->type == PROTOBUF_C_TYPE_ENUM ? check_enum(c, field->descriptor, value) : 0;
        case WIRE_FIXED64:
                return reader_skip(in, 8, &body) ? 0 : check_malformed(c);
        case WIRE_FIXED32:
                return reader_skip(in, 4, &body) ? 0 : check_malformed(c);
        case WIRE_LENGTH:
                if (!reader_varint(in, &value) || !reader_skip(in, value, &body))
                        return check_malformed(c);
                return field ? check_length_delimited(c, field, body) : 0;
        default: /* groups are older than proto3 */
                return check_malformed(c);
        }
}

static int check_message(struct Check *c, const ProtobufCMessageDescriptor *type, struct Reader in) {
        unsigned seen[FIELDS_OF_A_TYPE] = {};

        if (c->depth >= MESSAGE_DEPTH_MAX)
                return check_refuse(c, "is nested deeper than %d messages", MESSAGE_DEPTH_MAX);
        while (in.at < in.end) {
                const ProtobufCFieldDescriptor *field;
                struct Place *place = &c->path[c->depth];
                uint64_t tag;
                int r;

                if (!reader_varint(&in, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
                        return check_malformed(c);
                field = protobuf_c_message_descriptor_get_field(type, (unsigned) (tag >> 3));
                *place = (struct Place) {.name = "unknown"};
                if (field) {
                        unsigned number = (unsigned) (field - type->fields);

                        *place = (struct Place) {.name = field->name, .repeated = field->label == PROTOBUF_C_LABEL_REPEATED};
                        if (number < FIELDS_OF_A_TYPE)
                                place->index = seen[number]++;
                }
                c->depth++;
                if (++c->n_fields > MESSAGE_FIELDS_MAX)
                        return check_refuse(c, "the request has more than %d fields in all; send fewer", MESSAGE_FIELDS_MAX);
                r = check_value(c, field, (enum WireType) (tag & 7), &in);
                c->depth--;
                if (r != 0)
                        return r;
        }
        return 0;
}

int message_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size, struct Refusal *refusal) {
        struct Check c = {.refusal = refusal};

        return check_message(&c, type, (struct Reader) {bytes, bytes + size});
}
