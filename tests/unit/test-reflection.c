/* Reflection answers for every service that is served. */
#include "tests/unit/unit.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>

#include "google/protobuf/descriptor.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "server/accept/reflection.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest Request;
typedef Grpc__Reflection__V1__ServerReflectionResponse Response;

static Response *ask(const Request *q) {
        struct Reflection *r;
        grpc_byte_buffer_reader reader;
        grpc_byte_buffer *answer;
        Response *m;
        grpc_slice all;

        assert_ok(reflection_new(&r));
        answer = reflection_answer(r, &q->base);
        assert_true(grpc_byte_buffer_reader_init(&reader, answer));
        all = grpc_byte_buffer_reader_readall(&reader);
        m = grpc__reflection__v1__server_reflection_response__unpack(NULL, GRPC_SLICE_LENGTH(all), GRPC_SLICE_START_PTR(all));
        assert_non_null(m);
        grpc_slice_unref(all);
        grpc_byte_buffer_reader_destroy(&reader);
        grpc_byte_buffer_destroy(answer);
        reflection_free(r);
        return m;
}

static Response *ask_symbol(const char *symbol) {
        Request q = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;

        q.message_request_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
        q.file_containing_symbol = (char *) symbol;
        return ask(&q);
}

static void assert_file(Response *m, const char *name) {
        Google__Protobuf__FileDescriptorProto *file;
        ProtobufCBinaryData *bytes;

        assert_int_equal(m->message_response_case, GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE);
        assert_true(m->file_descriptor_response->n_file_descriptor_proto > 0);
        bytes = &m->file_descriptor_response->file_descriptor_proto[0];
        file = google__protobuf__file_descriptor_proto__unpack(NULL, bytes->len, bytes->data);
        assert_non_null(file);
        assert_string_equal(file->name, name);
        google__protobuf__file_descriptor_proto__free_unpacked(file, NULL);
        grpc__reflection__v1__server_reflection_response__free_unpacked(m, NULL);
}

static void assert_nothing(Response *m) {
        assert_int_equal(m->message_response_case, GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE);
        assert_int_equal(m->error_response->error_code, 5);
        grpc__reflection__v1__server_reflection_response__free_unpacked(m, NULL);
}

static void services_are_listed(void **state) {
        static const char *const expected[] = {"glovebox.v1.ExecutionService", "glovebox.v1.SystemService", "grpc.health.v1.Health",
                                               "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"};
        Request q = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
        Response *m;

        q.message_request_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
        q.list_services = (char *) "";
        m = ask(&q);
        assert_int_equal(m->list_services_response->n_service, ELEMENTSOF(expected));
        for (size_t i = 0; i < ELEMENTSOF(expected); i++)
                assert_string_equal(m->list_services_response->service[i]->name, expected[i]);
        grpc__reflection__v1__server_reflection_response__free_unpacked(m, NULL);
}

static void symbols_are_found(void **state) {
        static const char *const here[] = {
                "glovebox.v1.ExecutionService", "glovebox.v1.ExecutionService.Execute", "glovebox.v1.Result", "glovebox.v1.Result.outcome",
                "glovebox.v1.Result.exit", "glovebox.v1.Outcome", "glovebox.v1.OUTCOME_COMPLETED", "glovebox.v1.ExecuteRequest.EnvEntry",
                "glovebox.v1.ExecuteRequest.EnvEntry.key",
        };

        for (size_t i = 0; i < ELEMENTSOF(here); i++)
                assert_file(ask_symbol(here[i]), "glovebox/v1/execution.proto");
        assert_file(ask_symbol("glovebox.v1.SystemService.GetInfo"), "glovebox/v1/system.proto");
        assert_file(ask_symbol("grpc.health.v1.HealthCheckResponse.ServingStatus"), "grpc/health/v1/health.proto");
        assert_file(ask_symbol("grpc.reflection.v1alpha.ServerReflection"), "grpc/reflection/v1alpha/reflection.proto");
}

static void strangers_are_not_found(void **state) {
        static const char *const nowhere[] = {"", ".", "glovebox", "glovebox.v1", "glovebox.v1.", "glovebox.v1.Resul", "glovebox.v1.Result.",
                                              "glovebox.v1.Resultx", "glovebox.v1.ExecutionService.Nope",
                                              "glovebox.v1.ExecutionService.Execute.x", "google.rpc.Status"};

        for (size_t i = 0; i < ELEMENTSOF(nowhere); i++)
                assert_nothing(ask_symbol(nowhere[i]));
}

static void extensions_are_none(void **state) {
        Request q = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;

        q.message_request_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE;
        q.all_extension_numbers_of_type = (char *) "glovebox.v1.Result";
        assert_nothing(ask(&q));
        q.message_request_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET;
        assert_nothing(ask(&q));
}

RUN(T(services_are_listed), T(symbols_are_found), T(strangers_are_not_found), T(extensions_are_none))
