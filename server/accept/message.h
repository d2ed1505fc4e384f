/* Protobuf messages from strangers: looked through before they are unpacked, paid for while they are held. */
#pragma once

#include <grpc/byte_buffer.h>
#include <protobuf-c/protobuf-c.h>

#include "server/refusal.h"

#define MESSAGE_FIELDS_MAX 20000
#define MESSAGE_DEPTH_MAX 16

/* Bytes that requests may hold together. Lives until the last of them is given back, even after its owner has left it. */
struct Budget;

struct Budget *budget_new(uint64_t limit);
void budget_set_limit(struct Budget *b, uint64_t limit);
uint64_t budget_used(const struct Budget *b);
void budget_leave(struct Budget *b);

/* Looks through the bytes without unpacking: number of fields, nesting, text that is UTF-8 without NUL, known enum values. */
int message_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size, struct Refusal *refusal);

/* A message from a stranger, unpacked. */
struct Parcel {
        ProtobufCMessage *message;
        struct Budget *budget;
        size_t charged;
};

/* Checks and unpacks. 0 or a RefusalCode. */
int parcel_new(struct Budget *b, const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size, struct Parcel **ret,
               struct Refusal *refusal);
/* The same for what gRPC received; the buffer stays the caller's. */
int parcel_receive(struct Budget *b, const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer, struct Parcel **ret,
                   struct Refusal *refusal);
struct Parcel *parcel_free(struct Parcel *p);
DEFINE_CLEANUP(struct Parcel *, parcel_free)

/* Packs a message of ours right into the memory that gRPC sends. */
grpc_byte_buffer *message_pack(const ProtobufCMessage *message);
