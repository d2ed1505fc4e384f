# C code from the .proto files. Generated code is exempt from our warnings. `descriptors.fds` holds the public files for reflection.
find_program(PROTOC protoc REQUIRED)
find_program(PROTOC_C protoc-gen-c REQUIRED)
set(GENERATED ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${GENERATED})

function(protobuf_c_library name)
  set(sources)
  foreach(entry ${ARGN})
    string(REPLACE "|" ";" parts ${entry})
    list(GET parts 0 root)
    list(GET parts 1 file)
    string(REGEX REPLACE "\\.proto$" "" base ${file})
    add_custom_command(
      OUTPUT ${GENERATED}/${base}.pb-c.c ${GENERATED}/${base}.pb-c.h
      COMMAND ${PROTOC} --c_out=${GENERATED} -I${root} -I${CMAKE_SOURCE_DIR}/proto -I/usr/include ${root}/${file}
      # protoc-c knows the reserved words of C++, not this one of C: the member is restrict_, the field stays "restrict".
      COMMAND sed -i -E "s/(protobuf_c_boolean|ImportPolicy,) restrict\\b/\\1 restrict_/"
              ${GENERATED}/${base}.pb-c.h ${GENERATED}/${base}.pb-c.c
      DEPENDS ${root}/${file} VERBATIM)
    list(APPEND sources ${GENERATED}/${base}.pb-c.c)
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} SYSTEM PUBLIC ${GENERATED})
  target_link_libraries(${name} PUBLIC PkgConfig::PROTOBUF_C)
  target_compile_options(${name} PRIVATE -w)
  if(SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=address)
  endif()
endfunction()

protobuf_c_library(proto_internal ${CMAKE_SOURCE_DIR}/proto/internal|spawner.proto)

# Standard services: the files of Debian's grpc-proto package and of protobuf itself.
set(GRPC_PROTO /usr/share/grpc-proto)
protobuf_c_library(proto_public
  ${CMAKE_SOURCE_DIR}/proto|glovebox/v1/execution.proto
  ${CMAKE_SOURCE_DIR}/proto|glovebox/v1/system.proto
  /usr/include|google/protobuf/duration.proto
  /usr/include|google/protobuf/timestamp.proto
  /usr/include|google/protobuf/any.proto
  /usr/include|google/protobuf/descriptor.proto
  ${CMAKE_SOURCE_DIR}/proto|google/rpc/status.proto
  ${CMAKE_SOURCE_DIR}/proto|google/rpc/error_details.proto
  ${GRPC_PROTO}|grpc/health/v1/health.proto
  ${GRPC_PROTO}|grpc/reflection/v1/reflection.proto)

# What reflection tells: every service that is served, with all files it needs; server/accept/descriptors.c takes it in.
add_custom_command(
  OUTPUT ${GENERATED}/descriptors.fds
  COMMAND ${PROTOC} --include_imports --descriptor_set_out=${GENERATED}/descriptors.fds
          -I${CMAKE_SOURCE_DIR}/proto -I${GRPC_PROTO} -I/usr/include
          glovebox/v1/execution.proto glovebox/v1/system.proto grpc/health/v1/health.proto
          grpc/reflection/v1/reflection.proto grpc/reflection/v1alpha/reflection.proto
  DEPENDS ${CMAKE_SOURCE_DIR}/proto/glovebox/v1/execution.proto ${CMAKE_SOURCE_DIR}/proto/glovebox/v1/system.proto VERBATIM)
add_custom_target(descriptors DEPENDS ${GENERATED}/descriptors.fds)
add_dependencies(proto_public descriptors)
set_source_files_properties(${CMAKE_SOURCE_DIR}/server/accept/descriptors.c PROPERTIES
  COMPILE_DEFINITIONS "DESCRIPTORS=\"${GENERATED}/descriptors.fds\"" OBJECT_DEPENDS ${GENERATED}/descriptors.fds)
