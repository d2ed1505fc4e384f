/* proto3 JSON: lowerCamelCase names, 64-bit numbers as text, bytes in base64, enums by name, Duration and Timestamp as text, maps as
 * objects. protobuf-c's descriptors do not mark maps; they are told by the name that protoc gives their entries. */
#include "client/proto-json.h"

#include <ctype.h>
#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "client/console.h"

typedef json_t *(*Writer)(const ProtobufCFieldDescriptor *field, const void *value);

static json_t *message_json(const ProtobufCMessage *message);

const char *proto_enum_name(const ProtobufCEnumDescriptor *type, int value) {
        const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

        return found ? found->name : NULL;
}

const char *proto_enum_word(const ProtobufCEnumDescriptor *type, int value) {
        const char *name = proto_enum_name(type, value);
        const char *p = type->short_name;

        if (!name)
                return "?";
        /* CancelReason: CANCEL_REASON_CALLER */
        for (; *p; p++) {
                if (isupper((unsigned char) *p) && p != type->short_name && *name++ != '_')
                        return "?";
                if (*name++ != toupper((unsigned char) *p))
                        return "?";
        }
        return *name == '_' ? name + 1 : "?";
}

static json_t *text_json(const char *s) {
        json_t *text = json_string(s);
        char *safe _cleanup_free_ = NULL;

        if (text)
                return text;
        /* Not UTF-8: JSON cannot hold it as it is. */
        safe = console_escape(s);
        return safe ? json_string(safe) : NULL;
}

static json_t *printed(const char *format, ...) PRINTF_LIKE(1, 2);
static json_t *printed(const char *format, ...) {
        char buffer[80];
        va_list list;

        va_start(list, format);
        (void) vsnprintf(buffer, sizeof(buffer), format, list);
        va_end(list);
        return json_string(buffer);
}

static json_t *write_int32(const ProtobufCFieldDescriptor *field, const void *value) {
        return json_integer(*(const int32_t *) value);
}

static json_t *write_uint32(const ProtobufCFieldDescriptor *field, const void *value) {
        return json_integer(*(const uint32_t *) value);
}

static json_t *write_int64(const ProtobufCFieldDescriptor *field, const void *value) {
        return printed("%" PRId64, *(const int64_t *) value);
}

static json_t *write_uint64(const ProtobufCFieldDescriptor *field, const void *value) {
        return printed("%" PRIu64, *(const uint64_t *) value);
}

static json_t *number_json(double d) {
        if (isnan(d))
                return json_string("NaN");
        if (isinf(d))
                return json_string(d > 0 ? "Infinity" : "-Infinity");
        if (d == floor(d) && fabs(d) < 1e15)
                return json_integer((json_int_t) d);
        return json_real(d);
}

static json_t *write_float(const ProtobufCFieldDescriptor *field, const void *value) {
        return number_json(*(const float *) value);
}

static json_t *write_double(const ProtobufCFieldDescriptor *field, const void *value) {
        return number_json(*(const double *) value);
}

static json_t *write_bool(const ProtobufCFieldDescriptor *field, const void *value) {
        return json_boolean(*(const protobuf_c_boolean *) value);
}

static json_t *write_enum(const ProtobufCFieldDescriptor *field, const void *value) {
        int number = *(const int *) value;
        const char *name = proto_enum_name(field->descriptor, number);

        return name ? json_string(name) : json_integer(number);
}

static json_t *write_string(const ProtobufCFieldDescriptor *field, const void *value) {
        return text_json(strempty(*(char *const *) value));
}

static json_t *write_bytes(const ProtobufCFieldDescriptor *field, const void *value) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const ProtobufCBinaryData *bytes = value;
        char *text _cleanup_free_ = malloc(4 * (bytes->len / 3 + 1) + 1);
        char *out = text;

        if (!text)
                return NULL;
        for (size_t i = 0; i < bytes->len; i += 3) {
                size_t left = bytes->len - i;
                uint32_t three = (uint32_t) bytes->data[i] << 16 | (left > 1 ? (uint32_t) bytes->data[i + 1] << 8 : 0) |
                                 (left > 2 ? bytes->data[i + 2] : 0);
                *out++ = digits[three >> 18];
                *out++ = digits[three >> 12 & 63];
                *out++ = left > 1 ? digits[three >> 6 & 63] : '=';
                *out++ = left > 2 ? digits[three & 63] : '=';
        }
        return json_stringn_nocheck(text, (size_t) (out - text));
}

/* As many digits of a second's fraction as it needs: none, 3, 6 or 9. */
static void fraction_print(int32_t nanos, char *buffer, size_t size) {
        if (nanos == 0)
                *buffer = '\0';
        else if (nanos % 1000000 == 0)
                (void) snprintf(buffer, size, ".%03" PRId32, nanos / 1000000);
        else if (nanos % 1000 == 0)
                (void) snprintf(buffer, size, ".%06" PRId32, nanos / 1000);
        else
                (void) snprintf(buffer, size, ".%09" PRId32, nanos);
}

static json_t *duration_json(const ProtobufCMessage *message) {
        const Google__Protobuf__Duration *d = (const Google__Protobuf__Duration *) message;
        bool negative = d->seconds < 0 || d->nanos < 0;
        uint64_t seconds = d->seconds < 0 ? 0 - (uint64_t) d->seconds : (uint64_t) d->seconds;
        int32_t nanos = (int32_t) (d->nanos < 0 ? -(int64_t) d->nanos % 1000000000 : d->nanos % 1000000000);
        char fraction[16];

        fraction_print(nanos, fraction, sizeof(fraction));
        return printed("%s%" PRIu64 "%ss", negative ? "-" : "", seconds, fraction);
}

static json_t *timestamp_json(const ProtobufCMessage *message) {
        const Google__Protobuf__Timestamp *t = (const Google__Protobuf__Timestamp *) message;
        time_t seconds = (time_t) t->seconds;
        char text[40], fraction[16];
        struct tm tm;

        /* What RFC 3339 can hold ends with the year 9999. */
        if (t->seconds < -62135596800 || t->seconds > 253402300799 || t->nanos < 0 || t->nanos > 999999999 || !gmtime_r(&seconds, &tm))
                return printed("%" PRId64, t->seconds);
        (void) strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        fraction_print(t->nanos, fraction, sizeof(fraction));
        return printed("%s%sZ", text, fraction);
}

static json_t *write_message(const ProtobufCFieldDescriptor *field, const void *value) {
        return message_json(*(ProtobufCMessage *const *) value);
}

static const struct {
        Writer write;
        size_t size;
} types[] = {
        [PROTOBUF_C_TYPE_INT32] = { write_int32, 4 },     [PROTOBUF_C_TYPE_SINT32] = { write_int32, 4 },
        [PROTOBUF_C_TYPE_SFIXED32] = { write_int32, 4 },  [PROTOBUF_C_TYPE_INT64] = { write_int64, 8 },
        [PROTOBUF_C_TYPE_SINT64] = { write_int64, 8 },    [PROTOBUF_C_TYPE_SFIXED64] = { write_int64, 8 },
        [PROTOBUF_C_TYPE_UINT32] = { write_uint32, 4 },   [PROTOBUF_C_TYPE_FIXED32] = { write_uint32, 4 },
        [PROTOBUF_C_TYPE_UINT64] = { write_uint64, 8 },   [PROTOBUF_C_TYPE_FIXED64] = { write_uint64, 8 },
        [PROTOBUF_C_TYPE_FLOAT] = { write_float, 4 },     [PROTOBUF_C_TYPE_DOUBLE] = { write_double, 8 },
        [PROTOBUF_C_TYPE_BOOL] = { write_bool, sizeof(protobuf_c_boolean) },
        [PROTOBUF_C_TYPE_ENUM] = { write_enum, sizeof(int) },
        [PROTOBUF_C_TYPE_STRING] = { write_string, sizeof(char *) },
        [PROTOBUF_C_TYPE_BYTES] = { write_bytes, sizeof(ProtobufCBinaryData) },
        [PROTOBUF_C_TYPE_MESSAGE] = { write_message, sizeof(ProtobufCMessage *) },
};

/* lowerCamelCase of lower_snake_case; with `first`, UpperCamelCase. */
static void camel(const char *name, bool first, char *buffer, size_t size) {
        size_t n = 0;

        for (bool upper = first; *name && n + 1 < size; name++) {
                if (*name == '_') {
                        upper = true;
                        continue;
                }
                buffer[n++] = upper ? (char) toupper((unsigned char) *name) : *name;
                upper = false;
        }
        buffer[n] = '\0';
}

static bool is_map(const ProtobufCFieldDescriptor *field) {
        const ProtobufCMessageDescriptor *entry = field->descriptor;
        char name[128];

        if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE || entry->n_fields != 2)
                return false;
        camel(field->name, true, name, sizeof(name) - 5);
        return streq(entry->short_name, strcat(name, "Entry")) && entry->fields[0].id == 1 && entry->fields[1].id == 2;
}

static json_t *map_json(const ProtobufCFieldDescriptor *field, ProtobufCMessage *const *entries, size_t n) {
        const ProtobufCMessageDescriptor *entry = field->descriptor;
        json_t *object = json_object();

        for (size_t i = 0; object && i < n; i++) {
                const char *base = (const char *) entries[i];
                json_t *key = types[entry->fields[0].type].write(&entry->fields[0], base + entry->fields[0].offset);
                json_t *value = types[entry->fields[1].type].write(&entry->fields[1], base + entry->fields[1].offset);
                char *name _cleanup_free_ = key && !json_is_string(key) ? json_dumps(key, JSON_ENCODE_ANY) : NULL;

                (void) json_object_set_new(object, name ? name : strempty(json_string_value(key)), value);
                json_decref(key);
        }
        return object;
}

static json_t *array_json(const ProtobufCFieldDescriptor *field, const char *items, size_t n) {
        json_t *array = json_array();

        for (size_t i = 0; array && i < n; i++)
                (void) json_array_append_new(array, types[field->type].write(field, items + i * types[field->type].size));
        return array;
}

/* Whether a field that is neither repeated nor of a oneof holds something else than its default. */
static bool is_set(const ProtobufCFieldDescriptor *field, const void *value) {
        static const char zeros[16];

        switch (field->type) {
        case PROTOBUF_C_TYPE_STRING:
                return !isempty(*(char *const *) value);
        case PROTOBUF_C_TYPE_BYTES:
                return ((const ProtobufCBinaryData *) value)->len > 0;
        default:
                return memcmp(value, zeros, types[field->type].size) != 0;
        }
}

static json_t *field_json(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        const char *base = (const char *) message;
        const void *value = base + field->offset;
        size_t n;

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
                n = *(const size_t *) (base + field->quantifier_offset);
                if (n == 0)
                        return NULL;
                return is_map(field) ? map_json(field, *(ProtobufCMessage ***) value, n) : array_json(field, *(char *const *) value, n);
        }
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
                if (*(const uint32_t *) (base + field->quantifier_offset) != field->id)
                        return NULL;
        } else if (!is_set(field, value))
                return NULL;
        return types[field->type].write(field, value);
}

static json_t *message_json(const ProtobufCMessage *message) {
        json_t *object;

        if (!message)
                return json_null();
        if (message->descriptor == &google__protobuf__duration__descriptor)
                return duration_json(message);
        if (message->descriptor == &google__protobuf__timestamp__descriptor)
                return timestamp_json(message);
        object = json_object();
        for (unsigned i = 0; object && i < message->descriptor->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
                json_t *value = field_json(message, field);
                char name[128];

                camel(field->name, false, name, sizeof(name));
                if (value)
                        (void) json_object_set_new(object, name, value);
        }
        return object;
}

char *proto_json(const ProtobufCMessage *message) {
        json_t *json = message_json(message);
        char *text;

        if (!json)
                return NULL;
        /* 15 digits: 0.1 stays 0.1. */
        text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        json_decref(json);
        return text;
}

int proto_json_print(const ProtobufCMessage *message) {
        char *text _cleanup_free_ = proto_json(message);
        size_t n;

        if (!text)
                return -ENOMEM;
        n = strlen(text);
        text[n] = '\n'; /* in place of its NUL: it goes out in one write */
        return console_write(STDOUT_FILENO, text, n + 1);
}
