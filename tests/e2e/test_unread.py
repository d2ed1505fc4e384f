"""Clients that take nothing: what they could make the server keep is bounded, and it is free again when they have gone."""
import grpc
import pytest

from kit import http2
from kit.call import Refused, request
from kit.machine import seconds, wait_until

SETTINGS = {"server": {"max-executions": 16, "max-waiting": 1000, "wait-deadline": "100s", "request-budget": "16M", "max-message": "8M"}}


def idle(daemon):
    info = daemon.info()
    return (info.running, info.waiting) == (0, 0)


def refusal(daemon, method):
    try:
        reply = getattr(daemon.stub, method)(request("true"), timeout=seconds(30))
        if method == "ExecuteStream":
            list(reply)
    except grpc.RpcError as error:
        return Refused(error)
    return None


@pytest.mark.limit(240)
@pytest.mark.parametrize("method, size, count", [("Execute", 3_000_000, 20), ("ExecuteStream", 250_000, 60)])
def test_what_nobody_reads_is_bounded(make_daemon, method, size, count):
    """One caller's unread answers and output: after so much of it the caller's next call is refused, with a hint when to try again."""
    daemon = make_daemon(config=SETTINGS)
    raw = http2.Connection(str(daemon.socket_path))
    body = request(f"head -c {size} /dev/zero").SerializeToString()
    for _ in range(count):
        raw.stream("/glovebox.v1.ExecutionService/" + method, body)
    assert wait_until(lambda: idle(daemon) and refusal(daemon, method), 120, 0.5), "never refused"
    refused = refusal(daemon, method)
    assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED and "wait to be read" in refused.message and refused.retry_after, refused
    raw.close()
    assert wait_until(lambda: not refusal(daemon, method), 20, 0.5), "still refused when the client has gone"
    reply = daemon.stub.Execute(request(f"head -c {size} /dev/zero"), timeout=seconds(60))
    assert len(reply.stdout) == size and not reply.result.stdout_truncated
