/* The proto3 JSON mapping of any protobuf-c message, by its descriptor. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "common/util.h"

/* One line without its newline; fields without a value are left out. NULL: out of memory. */
char *proto_json(const ProtobufCMessage *message);
/* The same, and a newline, to standard output. Negative errno as of console_write. */
int proto_json_print(const ProtobufCMessage *message);

/* "STATE_RUNNING" of the enum, NULL for a number it does not have. */
const char *proto_enum_name(const ProtobufCEnumDescriptor *type, int value);
/* The same without the prefix: "RUNNING", "?" for a number it does not have. */
const char *proto_enum_word(const ProtobufCEnumDescriptor *type, int value);
