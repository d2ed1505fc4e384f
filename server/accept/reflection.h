/* Server reflection: what the services look like, told by the server itself. */
#pragma once

#include <grpc/byte_buffer.h>
#include <protobuf-c/protobuf-c.h>

#include "common/util.h"

struct Reflection;

int reflection_new(struct Reflection **ret);
struct Reflection *reflection_free(struct Reflection *r);
/* Answers one ServerReflectionRequest. */
grpc_byte_buffer *reflection_answer(const struct Reflection *r, const ProtobufCMessage *message);
