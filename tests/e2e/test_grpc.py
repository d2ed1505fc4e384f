"""gRPC itself: slow, hostile, vanishing and old clients. The GRP cases, as far as their RPCs exist."""
import os
import random
import signal
import socket
import subprocess
import threading
import time

import grpc
import pytest

from kit import http2, machine
from kit.call import CODES, Call, Refused, request, to_seconds
from kit.machine import repeats, seconds, wait_until
from kit.stubs import pb

EXECUTE = "/glovebox.v1.ExecutionService/ExecuteStream"
UNARY = "/glovebox.v1.ExecutionService/Execute"
LINES = 'while True: print("x"*1000)'


def active(daemon):
    return daemon.list(active_only=True, caller="*").executions


def nothing_runs(daemon, deadline=3):
    assert wait_until(lambda: not active(daemon), deadline), active(daemon)
    assert wait_until(lambda: not daemon.cgroup.folders("run-"), deadline)
    # a place is given back once the cell is gone, which is after the result
    assert wait_until(lambda: (daemon.info().running, daemon.info().waiting) == (0, 0), deadline), daemon.info()


@pytest.mark.limit(180)
def test_GRP_01_slow_reader_costs_a_fixed_amount(daemon):
    """A reader of one message a second: the server stays flat, the program is slowed, twenty others keep their latency."""
    daemon.many(20, "echo warm")
    alone = max(c.took for c in daemon.many(20, "echo normal"))
    before = machine.rss(daemon.server)
    slow = daemon.call(LINES, "python", pause=1, output_bytes=1 << 30, timeout=30)
    slow.until("output")
    time.sleep(seconds(2))
    took = max(c.took for c in daemon.many(20, "echo normal"))
    machine.assert_grown_less(daemon.server, before, 8 << 20)
    assert took < alone * 2 + seconds(1), (alone, took)
    stopped = daemon.get(slow.id).stdout_bytes
    time.sleep(1.2)
    assert daemon.get(slow.id).stdout_bytes - stopped < 1 << 20, "the program was not held back"
    slow.leave()
    assert daemon.finished(slow.id, 3).result.outcome == pb.OUTCOME_CANCELLED


def test_GRP_02_readers_that_stop_delay_nobody(daemon):
    """Clients that stop reading but stay connected do not hold up others on the same or another connection."""
    gate = threading.Event()
    stuck = [daemon.call("yes", hold=gate, output_bytes=1 << 30) for _ in range(4)]
    for call in stuck:
        call.until("started")
    time.sleep(0.5)
    assert daemon.run("head -c 3000000 /dev/zero | tail -c 5").outcome == "COMPLETED"
    assert daemon.get(stuck[0].id).state == pb.STATE_RUNNING
    for call in stuck:
        call.leave()
    gate.set()
    for call in stuck:
        assert daemon.finished(call.id, 3).result.outcome == pb.OUTCOME_CANCELLED


def test_GRP_04_client_closes_the_connection(daemon):
    """After the client's connection closes both sleeps are dead within 2 s, and the audit says CLIENT_GONE."""
    channel = daemon.new_channel()
    run = daemon.call("sh -c 'sleep 300 & sleep 300'", stub=daemon.new_stub(channel))
    run.until("started")
    assert wait_until(lambda: len(daemon.run_pids()) >= 3, 3)
    pids = daemon.run_pids()
    channel.close()
    assert wait_until(lambda: not any(machine.alive(p) for p in pids), 2)
    end = daemon.audit_of(run.id)[1]
    assert (end["outcome"], end["cancel_reason"]) == ("CANCELLED", "CLIENT_GONE")


@pytest.mark.limit(240)
def test_GRP_06_cancel_before_the_first_message(make_daemon):
    """500 calls cancelled 0 to 5 ms after they began: no stuck handler, no process left, and the daemon stops in under 5 s."""
    daemon = make_daemon()
    for i in range(repeats(500)):
        rpc = daemon.stub.ExecuteStream(request("sleep 60"))
        time.sleep(0.005 * (i % 11) / 10)
        rpc.cancel()
    nothing_runs(daemon, 10)
    assert wait_until(lambda: not daemon.cgroup.folders("cell-"), 3)
    daemon.verify()
    assert daemon.stop() == 0 and daemon.stop_took < seconds(5)


@pytest.mark.limit(240)
def test_GRP_07_heavy_streams_cancelled_at_random(daemon):
    """200 streams of heavy output cancelled at random moments: no crash, counters back to 0."""
    dice = random.Random(7)

    def one():
        rpc = daemon.stub.ExecuteStream(request("yes", output_bytes=1 << 30))
        timer = threading.Timer(dice.uniform(0, 0.4), rpc.cancel)
        timer.start()
        try:
            for _ in rpc:
                pass
        except grpc.RpcError as error:
            assert error.code() in (CODES.CANCELLED, CODES.RESOURCE_EXHAUSTED), error

    for _ in range(repeats(200) // 20 + 1):
        threads = [threading.Thread(target=one) for _ in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    nothing_runs(daemon, 10)


def test_GRP_08_client_keepalive_pings(daemon):
    """Pings at the documented interval (5 s), also without calls, on a silent execution: no GOAWAY, and a normal end."""
    channel = daemon.new_channel(None, ("grpc.keepalive_time_ms", 6000), ("grpc.keepalive_permit_without_calls", 1),
                                 ("grpc.http2.max_pings_without_data", 0), ("grpc.http2.min_time_between_pings_ms", 6000))
    run = daemon.call("sleep 25; echo end", stub=daemon.new_stub(channel), heartbeat_interval=60)
    run.wait(60)
    assert run.outcome == "COMPLETED" and run.stdout == b"end\n"
    channel.close()
    raw = http2.Connection(str(daemon.socket_path))
    raw.stream(EXECUTE, request("sleep 12").SerializeToString())
    for _ in range(2):
        time.sleep(5.1)
        assert raw.ping()
    time.sleep(2.5)
    assert not raw.goaway and len(raw.of(http2.PING)) >= 2
    assert raw.of(http2.HEADERS)[-1][1] & http2.END_STREAM
    raw.close()


class IdleClosingProxy:
    """Forwards one Unix connection, and closes it when nothing passed for `idle` seconds."""

    def __init__(self, target, path, idle):
        self.target, self.idle, self.cut = target, idle, False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        client, _ = self.listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.target)
        self.last = time.monotonic()
        for a, b in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=(a, b), daemon=True).start()
        self.ends = (client, server)
        while time.monotonic() - self.last < self.idle:
            time.sleep(0.05)
        self.cut = True
        self.close()

    def _forward(self, source, target):
        try:
            while data := source.recv(65536):
                self.last = time.monotonic()
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        for end in (*self.ends, self.listener):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


def test_GRP_09_silent_execution_through_an_idle_closing_proxy(daemon):
    """Heartbeats keep a silent execution's stream alive through a proxy that closes idle connections (shortened: 2 s)."""
    path = str(daemon.folder / "proxy.sock")
    proxy = IdleClosingProxy(str(daemon.socket_path), path, idle=2)
    channel = daemon.new_channel("unix:" + path)
    run = daemon.call("sleep 8; echo end", stub=daemon.new_stub(channel), heartbeat_interval=0.5)
    run.wait(30)
    assert run.outcome == "COMPLETED" and run.stdout == b"end\n" and not proxy.cut and len(run.of("heartbeat")) >= 10
    # a client that leaves: nothing of its stream goes on
    second = daemon.call("sleep 60", stub=daemon.new_stub(channel), heartbeat_interval=0.1)
    second.until("heartbeat")
    channel.close()
    proxy.close()
    daemon.finished(second.id, 3)
    ticks = machine.cpu_ticks(daemon.server)
    time.sleep(2)
    assert machine.cpu_ticks(daemon.server) - ticks <= 3, "the server works on though nothing runs"


@pytest.mark.limit(180)
def test_GRP_10_rapid_reset(daemon):
    """10,000 HEADERS and RST_STREAM on one connection: no cell left, memory and descriptors back, others served throughout."""
    before = machine.rss(daemon.server)
    body = request("sleep 60").SerializeToString()
    raw = http2.Connection(str(daemon.socket_path))
    stop, served, worst = threading.Event(), [0], [0.0]

    def other():
        channel = daemon.new_channel()
        stub = daemon.new_stub(channel)
        while not stop.is_set():
            run = Call(stub, request("echo hi")).wait(30)
            assert run.outcome == "COMPLETED"
            served[0] += 1
            worst[0] = max(worst[0], run.took)
        channel.close()

    client = threading.Thread(target=other)
    client.start()
    for _ in range(repeats(10000)):
        number = raw.stream(EXECUTE, body)
        if not raw.reset(number):
            break
    time.sleep(seconds(1))
    stop.set()
    client.join(seconds(60))
    raw.close()
    assert served[0] >= 3, "another client was not served meanwhile"
    nothing_runs(daemon, 15)
    assert wait_until(lambda: not daemon.cgroup.folders("cell-"), 5)
    machine.assert_grown_less(daemon.server, before, 24 << 20)


def test_GRP_10_many_open_streams_are_bounded(daemon):
    """Streams beyond the connection's limit are refused by the transport, not run."""
    raw = http2.Connection(str(daemon.socket_path))
    for _ in range(1500):
        raw.stream(EXECUTE)  # headers alone: a call without a message
    assert wait_until(lambda: len(raw.of(http2.RST_STREAM)) >= 300 or raw.goaway or raw.closed.is_set(), 5), raw.counts
    assert daemon.run("echo hi").stdout == b"hi\n"
    raw.close()
    nothing_runs(daemon)


def test_GRP_11_default_clients_get_everything(daemon):
    """10 MB of output reach a client with gRPC's default message limit; no message is above 1 MiB, Execute's reply fits."""
    run = daemon.run('print("x"*10_000_000)', "python", output_bytes=32 << 20)
    assert len(run.stdout) == 10_000_001 and max(run.sizes) <= 1 << 20
    reply = daemon.stub.Execute(request('print("x"*10_000_000)', "python", output_bytes=32 << 20), timeout=seconds(30))
    assert reply.result.stdout_truncated and reply.result.usage.stdout_bytes == 10_000_001 and reply.ByteSize() < 3.5 * (1 << 20)


def test_GRP_13_long_and_odd_error_texts(daemon):
    """A huge exception text travels as output, never in trailers; trailers stay under 1 KiB, also of refusals."""
    run = daemon.run('raise Exception("x"*200_000 + "\\n\\u2615")', "python")
    assert run.outcome == "FAILED" and run.stderr.endswith("\n\u2615\n".encode())
    assert len(run.result.message.encode()) <= 512
    for req in (request(runtime="p" * 60 + "\u2615\n%"), request(profile="\u2615" * 5000), request(working_dir="\u2615/" * 2000),
                request(files={"\u2615" * 80 + "/" + "y" * 3000: b""}), request(labels={"\u2615" * 2000: "x"})):
        refused = daemon.refused(req)
        assert refused.code == CODES.INVALID_ARGUMENT and len(refused.message.encode()) < 1024
        size = sum(len(k) + len(v) for k, v in refused.trailers.items()) + len(refused.message.encode())
        assert size < 1024, (size, refused)


def test_GRP_15_end_of_stream_follows_the_result(daemon):
    """END_STREAM within 100 ms of the result; a plain client process ends by itself."""
    for _ in range(5):
        run = daemon.run("print(1)", "python")
        assert run.ended - run.arrival("result")[0] < seconds(0.1)
    began = time.monotonic()
    done = subprocess.run([str(daemon.client), "--server", daemon.socket, "run", "--runtime", "bash", "-c", "echo 1"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=seconds(10))
    assert done.stdout == b"1\n" and done.returncode == 0 and time.monotonic() - began < seconds(3)


def test_GRP_17_who_calls_is_never_believed_from_the_wire(daemon):
    """Metadata cannot make a caller another one: identity is the peer's uid alone."""
    from kit.stubs import system_pb2
    for metadata in ((("authorization", "Bearer admin"),), (("x-forwarded-user", "uid:1"), ("caller", "cert:root")), (("user", ""),)):
        info = daemon.system.GetInfo(system_pb2.GetInfoRequest(), metadata=metadata, timeout=5)
        assert info.caller == "uid:0"


@pytest.mark.limit(180)
def test_GRP_19_sigterm_with_twenty_running(make_daemon):
    """SIGTERM with 20 running and new calls coming in: new ones UNAVAILABLE, each running one ends, exit in under 10 s, nothing left."""
    daemon = make_daemon(config={"server": {"drain-deadline": "3s", "max-executions": 30}})
    runs = [daemon.call("echo up; sleep 100") for _ in range(20)]
    for run in runs:
        run.until_output(b"up\n", 30)
    codes, stop = set(), threading.Event()

    def knock():
        while not stop.is_set():
            try:
                daemon.stub.Execute(request("true"), timeout=5)
                codes.add("OK")
            except grpc.RpcError as error:
                codes.add(error.code().name)
            time.sleep(0.02)

    began = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    time.sleep(0.4)
    threads = [threading.Thread(target=knock) for _ in range(4)]
    for t in threads:
        t.start()
    status = daemon.process.wait(seconds(10))
    took = time.monotonic() - began
    stop.set()
    for t in threads:
        t.join()
    assert status == 0 and took < seconds(10)
    assert codes == {"UNAVAILABLE"}, codes
    for run in runs:
        run.wait(5)
        assert run.refused and run.refused.code == CODES.UNAVAILABLE or run.result.cancel_reason == pb.CANCEL_REASON_SHUTDOWN
    assert sum(not run.refused for run in runs) == 20, "some did not get their result"


ODD = [
    ("runtime", dict(runtime="")), ("runtime", dict(runtime="perl")), ("code", dict(code="a\0b")), ("code", dict(code="x" * 10_000_000)),
    ("env", dict(env={f"K{i}": "v" for i in range(10_000)})), ("contract", dict(contract=99)),
]


@pytest.mark.parametrize("field, values", ODD, ids=[f"{i}-{o[0]}" for i, o in enumerate(ODD)])
def test_GRP_21_odd_requests(daemon, field, values):
    """Odd requests are INVALID_ARGUMENT naming the field; no process starts."""
    assert wait_until(lambda: not daemon.cgroup.folders("run-"))  # of the test before
    refused = daemon.refused(request(**{"code": "true", **values}))
    assert refused.code == CODES.INVALID_ARGUMENT and field in list(refused.fields)[0], refused
    assert not daemon.cgroup.folders("run-")


def raw_string(number, data):
    return bytes((number << 3 & 127 | 2 | (128 if number > 15 else 0),)) + (bytes((number >> 4,)) if number > 15 else b"") + \
        bytes((len(data),)) + data


@pytest.mark.parametrize("number, field", [(1, "request_id"), (2, "runtime"), (3, "code"), (12, "profile"), (25, "working_dir"),
                                           (26, "timezone"), (4, "args[0]")])
def test_GRP_21_invalid_utf8(daemon, number, field):
    """Bytes that are no UTF-8 in any string field are refused by name."""
    body = (b"" if number == 2 else request("true").SerializeToString()) + raw_string(number, b"\xff\xfe\xc3(")
    call = daemon.channel.unary_unary(UNARY, request_serializer=bytes, response_deserializer=bytes)
    with pytest.raises(grpc.RpcError) as caught:
        call(body, timeout=seconds(5))
    refused = Refused(caught.value)
    assert refused.code == CODES.INVALID_ARGUMENT and list(refused.fields) == [field], refused


def test_GRP_21_missing_and_empty_message(daemon):
    """A call without any message, with an empty one, and with two: a status each, and the daemon lives."""
    raw = http2.Connection(str(daemon.socket_path))
    numbers = [raw.stream(UNARY, b""), raw.stream(UNARY)]
    raw.send(http2.frame(http2.DATA, http2.END_STREAM, numbers[1], b""))
    assert wait_until(lambda: all(raw.of(http2.HEADERS, n) or raw.of(http2.RST_STREAM, n) for n in numbers), 5), raw.counts
    raw.close()


@pytest.mark.parametrize("code", ["while :; do :; done", "sleep 999", "kill -STOP $$"])
def test_GRP_23_cancel_of_busy_stuck_and_stopped(daemon, code):
    """Cancel after 1 s ends it within 2 s, with a result; a second Cancel is fine."""
    run = daemon.call(code)
    run.until("started")
    time.sleep(1)
    began = time.monotonic()
    daemon.cancel(run.id)
    daemon.cancel(run.id)
    run.wait()
    assert run.outcome == "CANCELLED" and time.monotonic() - began < seconds(2)
    assert daemon.cancel(run.id) == pb.STATE_FINISHED


# attackers on the wire

def test_garbage_half_messages_and_floods(daemon):
    """Bytes that are no HTTP/2, half a message, a flood of settings and pings, enormous headers: others are served throughout."""
    path = str(daemon.socket_path)
    before = machine.rss(daemon.server)
    garbage = []
    for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), http2.PREFACE + os.urandom(4096), b"", http2.PREFACE[:10]):
        connection = http2.Connection(path, preface=False)
        connection.send(data)
        garbage.append(connection)
    half = http2.Connection(path)
    for _ in range(50):
        number = half.stream(UNARY, None)
        half.send(http2.frame(http2.DATA, 0, number, b"\0\0\x10\0\0" + b"x" * 1000))  # says 1 MiB, sends 1000 bytes, waits
    flood = http2.Connection(path, answer=False)
    for _ in range(2000):
        if not flood.send(http2.frame(http2.PING, 0, 0, b"12345678") + http2.frame(http2.SETTINGS, 0, 0)):
            break
    headers = http2.Connection(path)
    number = headers._next
    block = http2.request_headers(UNARY, [("x-big", "y" * 16000)])
    headers.send(http2.frame(http2.HEADERS, 0, number, block[:16000]))
    for _ in range(80):
        if not headers.send(http2.frame(http2.CONTINUATION, 0, number, http2.literal("x-more", "z" * 16000))):
            break
    assert daemon.run("echo fine").stdout == b"fine\n"
    assert not active(daemon)
    machine.assert_grown_less(daemon.server, before, 32 << 20)
    for connection in (*garbage, half, flood, headers):
        connection.close()


def test_empty_map_entries_without_end(daemon):
    """A message of half a million empty map entries is refused without growing the server."""
    before = machine.rss(daemon.server)
    body = request("true").SerializeToString() + b"\x2a\x00" * 500_000
    call = daemon.channel.unary_unary(UNARY, request_serializer=bytes, response_deserializer=bytes)
    for _ in range(5):
        with pytest.raises(grpc.RpcError) as caught:
            call(body, timeout=seconds(10))
        assert caught.value.code() in (CODES.INVALID_ARGUMENT, CODES.RESOURCE_EXHAUSTED), caught.value
    machine.assert_grown_less(daemon.server, before, 32 << 20)


def test_message_above_the_limit(daemon):
    """A message above the server's maximum is RESOURCE_EXHAUSTED or INVALID_ARGUMENT, not read to its end."""
    size = daemon.info().max_message_bytes
    body = request("true").SerializeToString() + b"\xba\x3e" + b"\x80\x80\x80\x40"  # an unknown field of 128 MiB
    call = daemon.channel.unary_unary(UNARY, request_serializer=bytes, response_deserializer=bytes)
    with pytest.raises(grpc.RpcError) as caught:
        call(body + b"x" * size, timeout=seconds(60))
    assert caught.value.code() in (CODES.RESOURCE_EXHAUSTED, CODES.INVALID_ARGUMENT), caught.value


def test_deadlines_of_calls_are_kept_by_the_server(daemon):
    """A client that is stopped, not gone, loses its execution at its deadline."""
    raw = http2.Connection(str(daemon.socket_path))
    raw.stream(EXECUTE, request("sleep 60", request_id="deadline-raw").SerializeToString(), extra=[("grpc-timeout", "1S")])
    assert wait_until(lambda: active(daemon), 5)
    began = time.monotonic()
    nothing_runs(daemon, 5)
    assert time.monotonic() - began < 1 + seconds(1.5)
    raw.close()


def test_a_reader_that_never_reads_does_not_hold_a_finished_cell(daemon):
    """A client with a closed window: the program ends, its cell goes, though nobody takes the output."""
    raw = http2.Connection(str(daemon.socket_path), window=1)
    raw.stream(EXECUTE, request("echo small").SerializeToString())
    assert wait_until(lambda: daemon.list().executions, 5)
    assert wait_until(lambda: not daemon.cgroup.folders("run-"), 5), "the cell waits for the client"
    raw.close()
    nothing_runs(daemon)
