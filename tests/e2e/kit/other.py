"""Another caller on the same Unix socket: a client process with a uid of its own."""
import json
import os
import subprocess
import sys

from . import stubs
from .stubs import pb, system_pb2

REPLIES = {"Execute": pb.ExecuteResponse, "ExecuteStream": pb.ExecutionEvent, "Cancel": pb.CancelResponse,
           "GetExecution": pb.GetExecutionResponse, "ListExecutions": pb.ListExecutionsResponse, "GetInfo": system_pb2.GetInfoResponse}


class Answer:
    def __init__(self, method, raw):
        self.code, self.message = raw["code"], raw["message"]
        self.replies = [REPLIES[method].FromString(bytes.fromhex(r)) for r in raw["replies"]]

    @property
    def reply(self):
        assert self.code == "OK", f"{self.code}: {self.message}"
        return self.replies[0]


class Other:
    """with Other(daemon, 4711) as other: other.call("GetInfo", GetInfoRequest()).reply"""

    def __init__(self, daemon, uid):
        self.uid = uid
        script = os.path.join(os.path.dirname(__file__), "as_uid.py")
        self.process = subprocess.Popen([sys.executable, script, str(uid), daemon.socket, stubs.folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def send(self, method, request):
        self.process.stdin.write(json.dumps({"method": method, "request": request.SerializeToString().hex()}) + "\n")
        self.process.stdin.flush()
        self.method = method

    def answer(self):
        return Answer(self.method, json.loads(self.process.stdout.readline()))

    def call(self, method, request):
        self.send(method, request)
        return self.answer()

    def __enter__(self):
        assert self.call("GetInfo", system_pb2.GetInfoRequest()).reply.caller == f"uid:{self.uid}"
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
