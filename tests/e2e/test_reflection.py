"""Server reflection, v1 and v1alpha: a client without proto files finds everything and can run code through it."""
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kit.call import to_seconds
from kit.machine import seconds
from kit.stubs import reflection_alpha_pb2, reflection_alpha_pb2_grpc, reflection_pb2, reflection_pb2_grpc

VERSIONS = {"v1": (reflection_pb2, reflection_pb2_grpc), "v1alpha": (reflection_alpha_pb2, reflection_alpha_pb2_grpc)}
SERVICES = {"glovebox.v1.ExecutionService", "glovebox.v1.SystemService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection"}


class Reflection:
    def __init__(self, daemon, version):
        self.pb, grpc_module = VERSIONS[version]
        self.stub = grpc_module.ServerReflectionStub(daemon.channel)

    def ask(self, *requests):
        requests = [self.pb.ServerReflectionRequest(**r) for r in requests]
        return list(self.stub.ServerReflectionInfo(iter(requests), timeout=seconds(10)))

    def files(self, **request):
        answer = self.ask(request)[0]
        assert answer.WhichOneof("message_response") == "file_descriptor_response", answer
        return [descriptor_pb2.FileDescriptorProto.FromString(f) for f in answer.file_descriptor_response.file_descriptor_proto]


@pytest.fixture(params=VERSIONS)
def reflection(daemon, request):
    return Reflection(daemon, request.param)


def test_list_services(reflection):
    """Every service is listed, and nothing else."""
    answer = reflection.ask({"list_services": ""})[0]
    assert {s.name for s in answer.list_services_response.service} == SERVICES
    assert answer.original_request.list_services == ""


@pytest.mark.parametrize("symbol", [
    "glovebox.v1.ExecutionService", "glovebox.v1.ExecutionService.ExecuteStream", "glovebox.v1.ExecuteRequest", "glovebox.v1.Outcome",
    "glovebox.v1.ExecuteRequest.EnvEntry", "glovebox.v1.SystemService", "grpc.health.v1.Health", "grpc.health.v1.HealthCheckResponse",
    "grpc.health.v1.HealthCheckResponse.ServingStatus", "google.protobuf.Duration", "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
])
def test_every_symbol_has_its_file(reflection, symbol):
    """Services, methods, messages, nested messages, enums: each answers with the file that defines it."""
    file = reflection.files(file_containing_symbol=symbol)[0]
    assert symbol.startswith(file.package)


def test_unknown_symbols_and_files(reflection):
    """What is not there is error 5, and the stream goes on."""
    answers = reflection.ask({"file_containing_symbol": "no.such.Thing"}, {"file_by_filename": "../../etc/passwd"},
                             {"file_containing_symbol": "glovebox.v1"}, {"file_containing_symbol": ""}, {"list_services": "x"})
    assert [a.WhichOneof("message_response") for a in answers] == ["error_response"] * 4 + ["list_services_response"]
    assert {a.error_response.error_code for a in answers[:4]} == {5}


def test_extension_queries_are_answered(reflection):
    """Queries about extensions (there are none) are answered, not dropped."""
    answers = reflection.ask({"all_extension_numbers_of_type": "glovebox.v1.ExecuteRequest"},
                             {"file_containing_extension": {"containing_type": "glovebox.v1.ExecuteRequest", "extension_number": 1}})
    assert len(answers) == 2


def test_a_whole_execute_through_reflection(daemon, reflection):
    """Descriptors fetched by reflection alone are enough to build a request, call ExecuteStream and read its events."""
    pool, todo, done = descriptor_pool.DescriptorPool(), reflection.files(file_containing_symbol="glovebox.v1.ExecutionService"), {}
    while todo:
        file = todo.pop()
        done[file.name] = file
        todo += [f for name in file.dependency if name not in done for f in reflection.files(file_by_filename=name)]

    def add(name):
        for dependency in done[name].dependency:
            add(dependency)
        try:
            pool.FindFileByName(name)
        except KeyError:
            pool.Add(done[name])

    for name in done:
        add(name)
    method = pool.FindServiceByName("glovebox.v1.ExecutionService").FindMethodByName("ExecuteStream")
    factory = message_factory.MessageFactory(pool)
    request_class, event_class = factory.GetPrototype(method.input_type), factory.GetPrototype(method.output_type)
    assert method.input_type.fields_by_name["merge_streams"].number == 22
    call = daemon.channel.unary_stream("/glovebox.v1.ExecutionService/ExecuteStream", request_serializer=request_class.SerializeToString,
                                       response_deserializer=event_class.FromString)
    request = request_class(runtime="bash", code="echo reflected")
    request.limits.timeout.seconds = 5
    events = list(call(request, timeout=seconds(20)))
    assert b"".join(e.output.data for e in events if e.WhichOneof("event") == "output") == b"reflected\n"
    assert to_seconds(events[0].accepted.limits.timeout) == 5 and events[-1].result.exit_code == 0
