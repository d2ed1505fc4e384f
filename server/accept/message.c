/* Parcels: bytes of a stranger become a message, with a price; and the way back. */
#include "server/accept/message.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

struct Budget {
        uint64_t limit, used;
        size_t n_parcels;
        bool left;
};

/* What one unpacking may take: the bytes themselves and a fixed sum for each field that the look-through let pass. */
struct Meter {
        size_t used, limit;
};

#define METER_PER_MESSAGE ((size_t) MESSAGE_FIELDS_MAX * 256)

struct Budget *budget_new(uint64_t limit) {
        struct Budget *b = calloc(1, sizeof(*b));

        if (b)
                b->limit = limit;
        return b;
}

void budget_set_limit(struct Budget *b, uint64_t limit) {
        b->limit = limit;
}

uint64_t budget_used(const struct Budget *b) {
        return b->used;
}

static void budget_free_if_unused(struct Budget *b) {
        if (b->left && b->n_parcels == 0)
                free(b);
}

void budget_leave(struct Budget *b) {
        if (!b)
                return;
        b->left = true;
        budget_free_if_unused(b);
}

static int budget_charge(struct Budget *b, size_t size, struct Refusal *refusal) {
        if (size > b->limit - MIN(b->used, b->limit)) {
                refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL,
                       "the server holds requests of %llu MiB and this one has %zu KiB, more than its request-budget of %llu MiB; try again later",
                       (unsigned long long) (b->used / MIB), size / KIB, (unsigned long long) (b->limit / MIB));
                refusal->retry_after = USEC_PER_SEC;
                return refusal->code;
        }
        b->used += size;
        return 0;
}

static void *meter_alloc(void *userdata, size_t size) {
        struct Meter *m = userdata;

        if (size > m->limit - m->used)
                return NULL;
        m->used += size;
        return malloc(size);
}

static void meter_free(void *userdata, void *pointer) {
        free(pointer);
}

static int parcel_unpack(struct Parcel *p, const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                         struct Refusal *refusal) {
        struct Meter meter = {.limit = size + METER_PER_MESSAGE};
        ProtobufCAllocator allocator = {.alloc = meter_alloc, .free = meter_free, .allocator_data = &meter};

        p->message = protobuf_c_message_unpack(type, &allocator, size, bytes);
        if (!p->message)
                return refuse(refusal, REFUSE_INVALID_ARGUMENT, NULL,
                              "the message is not a valid %s; generate the client from the server's .proto files", type->name);
        /* The price follows what it really takes, also above the budget: the next one is refused then. */
        p->budget->used += meter.used;
        p->budget->used -= p->charged;
        p->charged = meter.used;
        return 0;
}

int parcel_new(struct Budget *b, const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size, struct Parcel **ret,
               struct Refusal *refusal) {
        struct Parcel *p _cleanup_(parcel_freep) = NULL;
        int r;

        r = budget_charge(b, size, refusal);
        if (r != 0)
                return r;
        p = calloc(1, sizeof(*p));
        if (!p) {
                b->used -= size;
                return refuse(refusal, REFUSE_RESOURCE_EXHAUSTED, NULL, "the server has no memory left; try again later");
        }
        p->budget = b;
        p->charged = size;
        b->n_parcels++;
        r = message_check(type, bytes, size, refusal);
        if (r == 0)
                r = parcel_unpack(p, type, bytes, size, refusal);
        if (r != 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

int parcel_receive(struct Budget *b, const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer, struct Parcel **ret,
                   struct Refusal *refusal) {
        grpc_byte_buffer_reader reader;
        grpc_slice all;
        int r;

        /* A compressed message could unpack to any size. */
        if (buffer->type != GRPC_BB_RAW || buffer->data.raw.compression != GRPC_COMPRESS_NONE)
                return refuse(refusal, REFUSE_UNIMPLEMENTED, NULL, "compressed messages are not taken; turn compression off in the client");
        if (!grpc_byte_buffer_reader_init(&reader, buffer))
                return refuse(refusal, REFUSE_INTERNAL, NULL, "the message could not be read");
        all = grpc_byte_buffer_reader_readall(&reader);
        grpc_byte_buffer_reader_destroy(&reader);
        r = parcel_new(b, type, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all), ret, refusal);
        grpc_slice_unref(all);
        return r;
}

struct Parcel *parcel_free(struct Parcel *p) {
        if (!p)
                return NULL;
        if (p->message)
                protobuf_c_message_free_unpacked(p->message, NULL);
        p->budget->used -= p->charged;
        p->budget->n_parcels--;
        budget_free_if_unused(p->budget);
        free(p);
        return NULL;
}

grpc_byte_buffer *message_pack(const ProtobufCMessage *message) {
        size_t size = protobuf_c_message_get_packed_size(message);
        grpc_slice slice = grpc_slice_malloc(size);
        grpc_byte_buffer *buffer;

        protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
        buffer = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        return buffer;
}
