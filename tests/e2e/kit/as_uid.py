"""A client that runs as another uid: one JSON request a line on stdin ({"method", "request" in hex}), one JSON answer a line on stdout."""
import json
import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, sys.argv[3])
    import details_pb2  # noqa: F401
    import grpc
    from glovebox.v1 import execution_pb2, execution_pb2_grpc, system_pb2, system_pb2_grpc

    uid = int(sys.argv[1])
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    channel = grpc.insecure_channel(sys.argv[2])
    execution, system = execution_pb2_grpc.ExecutionServiceStub(channel), system_pb2_grpc.SystemServiceStub(channel)
    METHODS = {
        "Execute": (execution.Execute, execution_pb2.ExecuteRequest),
        "ExecuteStream": (execution.ExecuteStream, execution_pb2.ExecuteRequest),
        "Cancel": (execution.Cancel, execution_pb2.CancelRequest),
        "GetExecution": (execution.GetExecution, execution_pb2.GetExecutionRequest),
        "ListExecutions": (execution.ListExecutions, execution_pb2.ListExecutionsRequest),
        "GetInfo": (system.GetInfo, system_pb2.GetInfoRequest),
    }
    for line in sys.stdin:
        order = json.loads(line)
        method, kind = METHODS[order["method"]]
        answer = {"code": "OK", "message": "", "replies": []}
        try:
            reply = method(kind.FromString(bytes.fromhex(order["request"])), timeout=60)
            replies = reply if order["method"] == "ExecuteStream" else [reply]
            answer["replies"] = [r.SerializeToString().hex() for r in replies]
        except grpc.RpcError as error:
            answer.update(code=error.code().name, message=error.details())
        print(json.dumps(answer), flush=True)
