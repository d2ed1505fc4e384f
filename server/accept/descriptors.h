/* The FileDescriptorSet of all served services and what they need, as protoc wrote it. */
#pragma once

#include <stdint.h>

extern const uint8_t descriptors_start[], descriptors_end[];
