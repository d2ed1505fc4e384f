/* Packets between server and spawner, in both directions: whatever arrives, unpacking stays within its bounds. */
#include "common/wire.h"
#include "spawner.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size) {
        ProtobufCMessage *m = wire_unpack(type, bytes, size);
        uint8_t *packed;

        if (!m)
                return;
        /* What was unpacked can be walked over: packing reads every field. */
        packed = malloc(protobuf_c_message_get_packed_size(m) + 1);
        if (packed)
                (void) protobuf_c_message_pack(m, packed);
        free(packed);
        protobuf_c_message_free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        unpack(&glovebox__internal__to_spawner__descriptor, bytes, size);
        unpack(&glovebox__internal__from_spawner__descriptor, bytes, size);
        return 0;
}
