/* The table of methods. */
#include "server/accept/method.h"

#include "server/accept/follow.h"

#include <grpc/slice.h>

#include "glovebox/v1/execution.pb-c.h"
#include "glovebox/v1/system.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

#define EXECUTION "/glovebox.v1.ExecutionService/"
#define SYSTEM "/glovebox.v1.SystemService/"
#define HEALTH "/grpc.health.v1.Health/"

/* The two versions of reflection are the same on the wire. */
#define REFLECTION(version)                                                                                        \
        {                                                                                                          \
                .path = "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo",                      \
                .request = &grpc__reflection__v1__server_reflection_request__descriptor,                           \
                .message = method_reflection, .half_closed = method_reflection_half_closed,                        \
                .written = method_reflection_written,                                                              \
        }

static const struct Method methods[] = {
        {.path = EXECUTION "Cancel", .request = &glovebox__v1__cancel_request__descriptor, .message = method_cancel},
        {.path = EXECUTION "Execute", .request = &glovebox__v1__execute_request__descriptor, .message = method_execute,
         .gone = follow_gone, .done = method_execute_done},
        {.path = EXECUTION "ExecuteStream", .request = &glovebox__v1__execute_request__descriptor, .message = method_execute_stream,
         .written = method_execute_stream_written, .gone = follow_gone, .stalled = method_execute_stream_stalled,
         .done = follow_done},
        {.path = EXECUTION "GetExecution", .request = &glovebox__v1__get_execution_request__descriptor, .message = method_get_execution},
        {.path = EXECUTION "ListExecutions", .request = &glovebox__v1__list_executions_request__descriptor,
         .message = method_list_executions},
        {.path = HEALTH "Check", .request = &grpc__health__v1__health_check_request__descriptor, .message = method_health_check},
        {.path = HEALTH "Watch", .request = &grpc__health__v1__health_check_request__descriptor, .message = method_health_watch,
         .written = method_health_watch_written, .ends_with_server = true, .done = method_health_watch_done},
        {.path = SYSTEM "GetInfo", .request = &glovebox__v1__get_info_request__descriptor, .message = method_get_info},
        REFLECTION("v1"),
        REFLECTION("v1alpha"),
};

const struct Method *method_find(grpc_slice path) {
        for (size_t i = 0; i < ELEMENTSOF(methods); i++)
                if (grpc_slice_str_cmp(path, methods[i].path) == 0)
                        return &methods[i];
        return NULL;
}
