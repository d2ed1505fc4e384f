"""The command line client against the real daemon: what it prints, byte for byte, and what it exits with."""
import base64
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent import futures

import grpc
import pytest
from google.protobuf import json_format

from kit import machine, pki
from kit.client import LINE, Client
from kit.machine import seconds, wait_until
from kit.stubs import SOURCE, execution_pb2_grpc, pb, system_pb2


# output and input

def test_client_both_streams_byte_for_byte(client):
    """What the program prints comes out unchanged, each stream on its own."""
    code = "import os\nos.write(1, bytes(range(256)) * 5000)\nos.write(2, bytes(range(255, -1, -1)))"
    assert client.run(code, runtime="python") == (0, bytes(range(256)) * 5000, bytes(range(255, -1, -1)))


def test_client_prints_while_the_program_runs(client):
    process = client.start("run", "-r", "bash", "-c", "echo first; read -t 2 < <(sleep 9); echo second")
    began = time.monotonic()
    assert process.stdout.readline() == b"first\n"
    assert time.monotonic() - began < seconds(1.5) and process.poll() is None
    assert process.stdout.read() == b"second\n" and process.wait() == 0


def test_client_merge_streams_keeps_the_order(client):
    assert client.run("for i in 1 2 3; do echo o$i; echo e$i >&2; done", "--merge-streams") == (0, b"o1\ne1\no2\ne2\no3\ne3\n", b"")


STDIN = b"a\0b\xff\n" * 1000


@pytest.mark.parametrize("how", ["pipe", "file", "option", "socket"])
def test_client_passes_stdin_on(client, tmp_path, how):
    path = tmp_path / "input"
    path.write_bytes(STDIN)
    if how == "pipe":
        result = client.run("cat", input=STDIN)
    elif how == "file":
        with open(path, "rb") as file:
            result = client.run("cat", stdin=file)
    elif how == "option":
        result = client.run("cat", "--stdin", path, input=b"not this")
    else:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(STDIN)
            ours.shutdown(socket.SHUT_WR)
            result = client.run("cat", stdin=theirs)
    assert result == (0, STDIN, b"")


def test_client_passes_no_stdin_when_told_or_when_it_is_the_code(client):
    assert client.run("cat; echo end", "--no-stdin", input=b"text") == (0, b"end\n", b"")
    assert client("run", "-r", "python", "-", input=b"import sys\nprint(repr(sys.stdin.read()))") == (0, b"''\n", b"")


def test_client_never_reads_a_terminal(terminal):
    screen = terminal("run", "-r", "bash", "-c", "cat; echo end")
    assert screen.read(None) == b"end\r\n" and screen.process.wait() == 0


def test_client_bounds_what_it_reads(client, tmp_path):
    """Too much input is refused by name before anything is sent."""
    big = tmp_path / "big.py"
    with open(big, "wb") as file:
        file.truncate((16 << 20) + 1)
    status, out, err = client.run("cat", "--stdin", big)
    assert (status, out) == (125, b"") and b"at most 16 MiB" in err and LINE.fullmatch(err)
    status, out, err = client("run", big)
    assert (status, out) == (125, b"") and b"at most 1 MiB" in err and LINE.fullmatch(err)
    with open(big, "r+b") as file:
        file.truncate(65 << 20)
    status, out, err = client.run("true", "--file", big)
    assert (status, out) == (125, b"") and b"64 MiB" in err and LINE.fullmatch(err)
    binary = tmp_path / "x.py"
    binary.write_bytes(b"print(1)\0print(2)")
    status, out, err = client("run", binary)
    assert (status, out) == (125, b"") and b"NUL" in err
    binary.write_bytes(b"print('\xff')")
    status, out, err = client("run", binary)
    assert (status, out) == (125, b"") and b"UTF-8" in err


def test_client_sixteen_mebibytes_of_stdin_arrive(client):
    data = os.urandom(1 << 16) * 256
    assert client.run("wc -c", input=data) == (0, b"%d\n" % len(data), b"")


def test_client_args_env_and_places(client):
    code = 'printf "%s|" "$@"; echo "$WORD|$EMPTY|$PWD|$(date +%Z)"'
    status, out, err = client.run(code, "--arg", "one two", "--arg=-x", "-e", "WORD=a=b c", "--env", "EMPTY=", "--working-dir", "/tmp", "--timezone",
                                  "Asia/Shanghai", "--", "--json", "", "é")
    assert (status, out.decode(), err) == (0, "one two|-x|--json||é|a=b c||/tmp|CST\n", b"")


def test_client_files_reach_the_workspace(client, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\0\xff")
    (tmp_path / "with:colon").write_text("colon")
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho tool runs\n")
    program.chmod(0o755)
    code = "od -An -tx1 a.txt; cat with:colon deep/er/b; bin/tool; ls -d a.txt bin deep with:colon"
    status, out, err = client.run(code, "-f", tmp_path / "a.txt", "-f", tmp_path / "with:colon", "-f", f"{tmp_path}/a.txt:deep/er/b", "-f",
                                  f"{program}:bin/")
    assert (status, err) == (0, b"")
    assert out == b" 00 ff\ncolon\0\xfftool runs\na.txt\nbin\ndeep\nwith:colon\n"


# the client of the README

def readme_client():
    """(shell line that makes the stubs, Python program) as the README has them."""
    text = (SOURCE / "README.md").read_text().split("## Clients in other languages", 1)[1].split("\n## ", 1)[0]
    block = "\n".join(line[4:] for line in text.split("\n") if line.startswith("    ") or not line)
    shell, program = block.split("import sys\n", 1)
    return shell, "import sys\n" + program


def test_readme_python_client(client, tmp_path):
    """Made and run as the README says: characters that arrive in pieces come out whole, each stream on its own, and both services have stubs."""
    shell, program = readme_client()
    (tmp_path / "proto").symlink_to(SOURCE / "proto")
    subprocess.run(["sh", "-ec", shell], cwd=tmp_path, check=True)
    words = ("é漢🙂\n", "ß€𝄞\n")
    code = f"import os, time\nfor one, two in zip(*map(str.encode, {words!r})):\n    os.write(1, bytes([one])); os.write(2, bytes([two])); time.sleep(0.03)"
    for old, new in (("unix:/run/glovebox/glovebox.sock", client.daemon.socket), ("\"print('hello')\"", repr(code))):
        assert program.count(old) == 1
        program = program.replace(old, new)
    done = subprocess.run(["/usr/bin/python3", "-c", program], cwd=tmp_path, capture_output=True, timeout=seconds(30))
    assert (done.returncode, done.stderr.decode()) == (0, words[1])
    assert done.stdout.decode().startswith(words[0] + "OUTCOME_COMPLETED")
    subprocess.run(["/usr/bin/python3", "-c", "from glovebox.v1 import system_pb2_grpc as s; s.SystemServiceStub"], cwd=tmp_path, check=True)


# which runtime

@pytest.mark.parametrize("name,code,expected", [
    ("a.py", "import sys; print(sys.version_info[0])", b"3\n"),
    ("a.js", "console.log(typeof process)", b"object\n"),
    ("a.sh", "echo $BASH_SUBSHELL", b"0\n"),
    ("noending", "#!/usr/bin/env python3\nprint('py')", b"py\n"),
    ("other", "#!/bin/sh\necho sh", b"sh\n"),
])
def test_client_tells_the_runtime(client, tmp_path, name, code, expected):
    (tmp_path / name).write_text(code)
    assert client("run", tmp_path / name) == (0, expected, b"")


def test_client_says_when_it_cannot_tell_the_runtime(client, tmp_path):
    (tmp_path / "x.rb").write_text("puts 1")
    for arguments in (["run", tmp_path / "x.rb"], ["run", "-c", "x"]):
        status, out, err = client(*arguments)
        assert (status, out) == (125, b"") and LINE.fullmatch(err)
        assert b"--runtime" in err and b"python (.py)" in err and b"bash" in err


# ends

@pytest.mark.parametrize("code,arguments,status,word", [
    ("true", [], 0, None),
    ("exit 7", [], 7, b"FAILED"),
    ("exit 255", [], 255, b"FAILED"),
    ("kill -TERM $$", [], 143, b"SIGNALED"),
    ("kill -KILL $$", [], 137, b"SIGNALED"),
    ("sleep 60", ["-t", "300ms"], 124, b"TIMED_OUT"),
    ("sleep 60", ["--idle-timeout", "200ms"], 124, b"IDLE_TIMED_OUT"),
    ("while :; do :; done", ["--cpu-time", "200ms"], 124, b"CPU_TIME_EXCEEDED"),
    ("yes", ["--output-bytes", "100K"], 153, b"OUTPUT_LIMIT_EXCEEDED"),
])
def test_client_exit_status_and_last_line(client, code, arguments, status, word):
    """Nothing is said of a program that completed; of others one line, the outcome first."""
    found, out, err = client.run(code, *arguments)
    assert found == status
    if code == "yes":
        assert out == b"y\n" * (50 << 10)
    if word is None:
        assert err == b""
    else:
        assert LINE.fullmatch(err) and err.startswith(b"glovebox: " + word + b": ")


def test_client_json_has_no_line_on_stderr_but_the_same_status(client):
    status, out, err = client.run("exit 7", "--json")
    assert (status, err) == (7, b"") and json.loads(out.splitlines()[-1])["result"]["exitCode"] == 7


def test_client_cancelled_by_another_client(client):
    process = client.start("run", "-r", "bash", "-c", "echo on; sleep 60", "--json")
    first = json.loads(process.stdout.readline())
    execution_id = first["accepted"]["executionId"]
    wait_until(lambda: client.daemon.get(execution_id).state == pb.STATE_RUNNING)
    assert client("cancel", execution_id) == (0, f"{execution_id}: cancelled\n".encode(), b"")
    rest, err = process.communicate(timeout=seconds(10))
    assert (process.returncode, err) == (130, b"")
    assert json.loads(rest.splitlines()[-1])["result"]["outcome"] == "OUTCOME_CANCELLED"
    status, out, err = client("cancel", execution_id, "test-node.nonsense")
    assert status == 125 and out == f"{execution_id}: had ended before\n".encode() and err.startswith(b"glovebox: test-node.nonsense: NOT_FOUND: ")


def execution_of(client, label):
    found = wait_until(lambda: [e for e in client.daemon.list().executions if e.labels.get("test") == label], 5)
    assert found, f"no execution with the label {label}"
    return found[0].execution_id


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_client_first_signal_cancels_and_waits_for_the_end(client, kind):
    process = client.start("run", "-r", "bash", "-c", "echo on; sleep 60", "-l", f"test=signal{kind}")
    assert process.stdout.readline() == b"on\n"
    process.send_signal(kind)
    out, err = process.communicate(timeout=seconds(10))
    assert process.returncode == 130 and out == b"" and err.startswith(b"glovebox: CANCELLED: ") and LINE.fullmatch(err)
    result = client.daemon.get(execution_of(client, f"signal{kind}")).result
    assert (result.outcome, result.cancel_reason) == (pb.OUTCOME_CANCELLED, pb.CANCEL_REASON_CALLER)


def test_client_second_signal_leaves_even_when_its_output_is_stuck(client):
    """Nobody reads the client's stdout: the first Ctrl-C cancels, the second one leaves at once."""
    process = client.start("run", "-r", "bash", "-c", "yes", "--output-bytes", "1G", "-l", "test=stuck")
    execution_id = execution_of(client, "stuck")
    time.sleep(seconds(0.5))
    process.send_signal(signal.SIGINT)
    assert wait_until(lambda: client.daemon.get(execution_id).state in (pb.STATE_DRAINING, pb.STATE_FINISHED)), "was not cancelled"
    assert process.poll() is None, "left although its output was not written"
    process.send_signal(signal.SIGINT)
    assert process.wait(seconds(3)) == 130
    assert client.daemon.finished(execution_id).result.cancel_reason == pb.CANCEL_REASON_CALLER


def test_client_ignored_signals_stay_ignored(client):
    """In the background of a script SIGINT is ignored, and must stay so."""
    process = client.start("run", "-r", "bash", "-c", "echo on; sleep 1; echo off", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == b"off\n" and process.wait() == 0


def test_client_signal_while_stdin_is_read(client):
    process = client.start("run", "-r", "bash", "-c", "cat", stdin=subprocess.PIPE)
    time.sleep(seconds(0.3))
    process.send_signal(signal.SIGINT)
    assert process.wait(seconds(5)) == 130


def test_client_closed_stdout_ends_it_as_any_program_in_a_pipeline(client):
    process = client.start("run", "-r", "bash", "-c", "while :; do echo line; done", "--output-bytes", "1G", "-l", "test=pipe")
    assert process.stdout.readline() == b"line\n"
    process.stdout.close()
    assert process.wait(seconds(10)) == -signal.SIGPIPE
    assert process.stderr.read() == b""
    result = client.daemon.finished(execution_of(client, "pipe")).result
    assert (result.outcome, result.cancel_reason) == (pb.OUTCOME_CANCELLED, pb.CANCEL_REASON_CLIENT_GONE)


def test_client_full_disk_is_said(client):
    with open("/dev/full", "wb") as full:
        status, _, err = client.run("echo x", stdout=full)
    assert status == 125 and b"No space left" in err and LINE.fullmatch(err)


def test_client_slow_reader_slows_the_program_and_costs_no_memory(client):
    """400 MB to send to somebody who waits: neither client nor server grow, and every byte arrives in the end."""
    size = 400 << 20
    process = client.start("run", "-r", "bash", "-c", f"head -c {size} /dev/zero", "--output-bytes", "1G", "-l", "test=slow")
    execution_id = execution_of(client, "slow")
    time.sleep(seconds(2))
    taken = client.daemon.get(execution_id).stdout_bytes
    assert taken < 16 << 20, f"{taken} bytes were taken from the program although nobody reads"
    assert machine.rss(process.pid) < 64 << 20
    total = 0
    while data := process.stdout.read(1 << 20):
        total += len(data)
    assert (total, process.wait()) == (size, 0)


class Pinging(execution_pb2_grpc.ExecutionServiceServicer):
    """A server that wants its pings answered every second."""
    SIZE = 8 << 20

    def ExecuteStream(self, req, context):
        yield pb.ExecutionEvent(seq=1, accepted=pb.Accepted(execution_id="x"))
        for offset in range(0, self.SIZE, 65536):
            yield pb.ExecutionEvent(seq=2, output=pb.Output(stream=pb.STREAM_STDOUT, offset=offset, data=bytes(65536)))
        yield pb.ExecutionEvent(seq=3, result=pb.Result(outcome=pb.OUTCOME_COMPLETED))


def test_client_answers_pings_while_its_terminal_is_paused(client, tmp_path):
    """Nobody may take a client for dead that is stuck in a write."""
    options = [("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 1000), ("grpc.http2.max_pings_without_data", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(2), options=options)
    execution_pb2_grpc.add_ExecutionServiceServicer_to_server(Pinging(), server)
    server.add_insecure_port(f"unix:{tmp_path}/s")
    server.start()
    try:
        process = client.start("-s", f"unix:{tmp_path}/s", "run", "-r", "bash", "-c", "")
        time.sleep(6)
        data, err = process.communicate(timeout=seconds(20))
        assert (len(data), process.returncode, err) == (Pinging.SIZE, 0, b"")
    finally:
        server.stop(None).wait()


# JSON, detached, ps

def test_client_json_is_the_proto3_mapping(client):
    """Every line can be read back into an ExecutionEvent, and says what the program printed."""
    status, out, err = client.run("echo out; echo err >&2; sleep 0.3; exit 3", "--json", "--heartbeat-interval", "100ms", "--output-bytes", "64K", "-l",
                                  "a b=é")
    assert (status, err) == (3, b"")
    events = [json_format.Parse(line, pb.ExecutionEvent()) for line in out.splitlines()]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert events[0].WhichOneof("event") == "accepted" and events[-1].WhichOneof("event") == "result"
    assert any(e.WhichOneof("event") == "heartbeat" for e in events)
    assert b"".join(e.output.data for e in events if e.output.stream == pb.STREAM_STDOUT) == b"out\n"
    assert b"".join(e.output.data for e in events if e.output.stream == pb.STREAM_STDERR) == b"err\n"
    assert (events[-1].result.outcome, events[-1].result.exit_code) == (pb.OUTCOME_FAILED, 3)
    kept = client.daemon.get(events[0].accepted.execution_id).result
    assert events[-1].result == kept
    for line, event in zip(out.splitlines(), events):
        # the other direction: python's own mapping gives the same object
        assert json.loads(line) == json.loads(json_format.MessageToJson(event))
    raw = next(json.loads(line) for line in out.splitlines() if b'"output"' in line)
    assert base64.b64decode(raw["output"]["data"]) == b"out\n"


def test_client_detach_prints_the_id_and_leaves(client):
    began = time.monotonic()
    status, out, err = client.run("sleep 1; exit 4", "--detach", "-l", "job=é")
    assert (status, err) == (0, b"") and time.monotonic() - began < seconds(0.9)
    execution_id = out.decode().strip()
    status, out, _ = client("ps")
    head, *rows = out.decode().splitlines()
    assert head.split() == ["ID", "RUNTIME", "STATE", "AGE", "CPU", "MEMORY", "IDLE", "LABELS"]
    mine = [row for row in rows if row.startswith(execution_id)]
    assert len(mine) == 1 and mine[0].endswith("job=é") and "bash" in mine[0]
    client.daemon.finished(execution_id)
    assert execution_id not in client("ps")[1].decode()
    status, out, _ = client("ps", "--all")
    assert status == 0 and re.search(re.escape(execution_id) + r"\s+bash\s+FAILED\s", out.decode())
    status, out, _ = client("ps", "--json", execution_id)
    assert json_format.Parse(out, pb.Execution()) == client.daemon.get(execution_id)
    status, out, err = client("ps", "test-node.nonsense")
    assert (status, out) == (125, b"") and b"NOT_FOUND" in err


@pytest.mark.limit(180)
def test_client_ps_shows_every_page(client):
    calls = [client.daemon.call("true", labels={"page": "yes"}) for _ in range(130)]
    ids = {c.wait(100).id for c in calls}
    status, out, err = client("ps", "-a", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (0, b"") and ids <= {e["executionId"] for e in lines}
    assert len(lines) == len({e["executionId"] for e in lines})
    status, out, err = client("ps", "--all")
    assert len(out.splitlines()) == len(lines) + 1


def test_client_ps_of_others_is_for_operators(make_daemon):
    daemon = make_daemon(config={"server": {"operators": "uid:1"}})
    client = Client(daemon)
    status, out, err = client("ps", "--caller", "uid:7")
    assert (status, out) == (125, b"") and b"PERMISSION_DENIED" in err


def test_client_request_id_runs_once(client):
    assert client.run("echo once", "--request-id", "client-test-1") == (0, b"once\n", b"")
    status, out, err = client.run("echo once", "--request-id", "client-test-1")
    assert (status, out) == (125, b"") and err.startswith(b"glovebox: ALREADY_EXISTS: ") and LINE.fullmatch(err)


# info

def test_client_info_says_what_get_info_says(client):
    status, out, err = client("info")
    info = client.daemon.info()
    text = out.decode()
    assert (status, err) == (0, b"") and info.version in text and "uid:0" in text
    for runtime in info.runtimes:
        assert runtime.name in text and runtime.version in text
    for profile in info.profiles:
        assert profile.name in text
    for layer in info.isolation:
        assert re.search(rf"{layer.name}\s+{'in force' if layer.in_force else 'MISSING'}", text)
    assert text.count("NOT ENFORCED") == len(info.limits_not_enforced)
    assert re.search(r"timeout\s+30 s\s+1 h\n", text) and "waiting for at most 10 s" in text
    assert not re.search(r" \n", text), "a line ends in spaces"
    status, out, err = client("info", "--json")
    found = json_format.Parse(out, system_pb2.GetInfoResponse())
    found.running = info.running
    assert (status, err, found) == (0, b"", info)


# errors

def test_client_refusal_names_code_field_bound_and_flag(client):
    status, out, err = client.run("true", "-t", "2h")
    assert (status, out) == (125, b"") and LINE.fullmatch(err)
    assert err.startswith(b"glovebox: INVALID_ARGUMENT: limits.timeout: ") and b"3600" in err and b"(--timeout)" in err
    status, out, err = client.run("true", "-r", "cobol")
    assert status == 125 and b"runtime: " in err and b"(--runtime)" in err


@pytest.mark.parametrize("address,words", [
    ("unix:/nonexistent/gb.sock", [b"No such file", b"is gloveboxd running?", b"GLOVEBOX_SERVER"]),
    ("127.0.0.1:1", [b"Connection refused", b"is gloveboxd running?"]),
    ("unix:" + "x" * 200, [b"107 bytes"]),
    ("nonsense", [b"unix:PATH or HOST:PORT"]),
    ("name.invalid:7443", [b"cannot reach name.invalid:7443"]),
])
def test_client_unreachable_server(client, address, words):
    for arguments in (["info"], ["run", "-r", "bash", "-c", "x"], ["ps"], ["top"], ["cancel", "x"]):
        began = time.monotonic()
        status, out, err = client("-s", address, *arguments)
        assert (status, out) == (125, b"") and LINE.fullmatch(err) and time.monotonic() - began < seconds(8)
        for word in words:
            assert word in err


def test_client_socket_without_permission(client, tmp_path):
    os.chmod(client.daemon.socket_path, 0o600)
    try:
        status, out, err = client("info", preexec_fn=lambda: os.setresuid(65533, 65533, 65533))
    finally:
        os.chmod(client.daemon.socket_path, 0o666)
    assert (status, out) == (125, b"") and b"Permission denied" in err and b"group" in err


def test_client_dead_socket_and_mute_server(client, tmp_path):
    """A socket nobody listens on is refused at once; a server that never answers does not hold the client for ever."""
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead"))
    dead.close()
    status, _, err = client("-s", f"unix:{tmp_path}/dead", "info")
    assert status == 125 and b"Connection refused" in err
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute"))
        mute.listen(5)
        began = time.monotonic()
        status, _, err = client("-s", f"unix:{tmp_path}/mute", "info")
        assert status == 125 and LINE.fullmatch(err) and time.monotonic() - began < seconds(45)


@pytest.mark.kills("server")
def test_client_server_dies_while_it_runs(client):
    process = client.start("run", "-r", "bash", "-c", "echo on; sleep 60")
    assert process.stdout.readline() == b"on\n"
    client.daemon.restart_server()
    assert process.wait(seconds(10)) == 125
    err = process.stderr.read()
    assert LINE.fullmatch(err) and re.match(rb"glovebox: test-node\.\S+: UNAVAILABLE: ", err)
    execution_id = err.split(b": ")[1]
    assert b"may have run" in err and b"`glovebox ps " + execution_id + b"`" in err and b"try again" not in err
    client.daemon.audit_start = client.daemon.audit_size()


class Breaking(execution_pb2_grpc.ExecutionServiceServicer):
    """Refuses code that says so; else it is gone before it has answered."""
    def __init__(self):
        self.begun = threading.Event()

    def ExecuteStream(self, req, context):
        if req.code == "refuse":
            context.abort(grpc.StatusCode.UNAVAILABLE, "the spawner is away; try again later")
        self.begun.set()
        time.sleep(30)
        yield pb.ExecutionEvent()


@pytest.mark.parametrize("arguments,words", [
    ([], [b"`glovebox ps --all`", b"--request-id"]),
    (["--request-id", "mine-1"], [b"`glovebox ps --all --json`", b"requestId mine-1"]),
])
def test_client_connection_that_breaks_before_the_answer(client, tmp_path, arguments, words):
    """The program may have run or not: nobody is told to try again. A refusal of the server's own is one, and may be tried again."""
    service, path = Breaking(), tmp_path / "s"
    server = grpc.server(futures.ThreadPoolExecutor(2))
    execution_pb2_grpc.add_ExecutionServiceServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{path}")
    server.start()
    relay = Relay(tmp_path / "relay", path)
    try:
        status, out, err = client("-s", f"unix:{path}", "run", "-r", "bash", "-c", "refuse", *arguments)
        assert (status, out) == (125, b"") and err == b"glovebox: UNAVAILABLE: the spawner is away; try again later\n", err
        process = client.start("-s", f"unix:{relay.path}", "run", "-r", "bash", "-c", "x", *arguments)
        assert service.begun.wait(seconds(10))
        relay.cut()
        assert process.wait(seconds(10)) == 125
        err = process.stderr.read()
        assert LINE.fullmatch(err) and b"UNAVAILABLE" in err and b"may have run or not" in err and b"try again" not in err, err
        assert all(word in err for word in words), err
    finally:
        relay.cut()
        server.stop(0)


class Relay:
    """Passes bytes between a Unix socket of its own and another, until it is cut."""
    def __init__(self, path, target):
        self.path, self.target = path, str(target)
        self.ends = [socket.socket(socket.AF_UNIX)]
        self.ends[0].bind(str(path))
        self.ends[0].listen(5)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        ours, _ = self.ends[0].accept()
        theirs = socket.socket(socket.AF_UNIX)
        theirs.connect(self.target)
        self.ends += [ours, theirs]
        for source, sink in ((ours, theirs), (theirs, ours)):
            threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def copy(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass

    def cut(self):
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


@pytest.mark.parametrize("arguments,words", [
    ([], None),
    (["fly"], [b"no verb fly"]),
    (["run"], [b"FILE, -c CODE or -"]),
    (["run", "a", "b"], [b"go behind --"]),
    (["run", "-c", "x", "file"], [b"exclude each other"]),
    (["run", "/nonexistent.py"], [b"/nonexistent.py", b"No such file"]),
    (["run", "--timeout", "0", "x"], [b"--timeout 0", b"30s"]),
    (["run", "--timeout", "soon", "x"], [b"--timeout soon"]),
    (["run", "--env", "A", "x"], [b"NAME=VALUE"]),
    (["run", "--frobnicate", "x"], [b"unknown option --frobnicate; `glovebox help run`"]),
    (["run", "--tiemout", "5s", "x"], [b"unknown option --tiemout; did you mean --timeout? `glovebox help run`"]),
    (["run", "--memroy=1G", "x"], [b"unknown option --memroy=1G; did you mean --memory? "]),
    (["run", "--time", "5s", "x"], [b"ambiguous option --time; did you mean --timezone or --timeout? "]),
    (["--serevr", "x", "ps"], [b"unknown option --serevr; did you mean --server? "]),
    (["run", "--memory", "1T", "x"], [b"--memory 1T", b"K, M or G"]),
    (["run", "--timeout", "1d", "x"], [b"--timeout 1d", b"ms, s, m or h"]),
    (["run", "-f", "nosuch", "-c", "x"], [b"cannot read nosuch (-f, --file): No such file"]),
    (["run", "--file", "nosuch", "-c", "x"], [b"cannot read nosuch (-f, --file): No such file"]),
    (["ps", "--caller", "bob"], [b"--caller bob", b"uid:NUMBER", b"cert:NAME", b"or *"]),
    (["top", "--caller", "uid:bob"], [b"--caller uid:bob", b"uid:NUMBER", b"cert:NAME", b"or *"]),
    (["ps", "--plaintext"], [b"--plaintext is for TCP", b"leave it out"]),
    (["ps", "--tls-ca", "x"], [b"--tls-ca is for TLS", b"over a Unix socket", b"--server HOST:PORT"]),
    (["top", "--tls-cert", "x", "--tls-key", "x"], [b"--tls-cert is for TLS", b"over a Unix socket"]),
    (["-s", "127.0.0.1:1", "info", "--plaintext", "--tls-key", "x"], [b"--tls-key is for TLS", b"with --plaintext"]),
    (["run", "x", "--memory"], [b"--memory needs a value"]),
    (["ps", "--timeout", "1s"], [b"--timeout", b"glovebox help ps"]),
    (["--json", "ps"], [b"behind the verb"]),
    (["cancel"], [b"cancel which?"]),
    (["top", "x"], [b"no operand", b"glovebox ps"]),
    (["top", "--sort", "name"], [b"--sort name", b"cpu, memory, processes, age or idle"]),
    (["top", "--count", "0"], [b"--count 0", b"above 0"]),
    (["top", "--interval", "99ms"], [b"--interval", b"at least 100ms", b"at most 1h"]),
    (["top", "--interval", "3601s"], [b"--interval", b"at least 100ms", b"at most 1h"]),
    (["info", "x"], [b"no operand"]),
    (["completion", "csh"], [b"bash, zsh or fish"]),
    (["run", "-c", "x", "-r", "a\x1b[31m\nb"], [b"\\x1b[31m\\nb"]),
])
def test_client_wrong_usage(client, arguments, words):
    """One line on stderr that tells what is wrong and what to do; status 125; nothing on stdout."""
    status, out, err = client(*arguments)
    assert status == 125
    if words is not None:
        assert out == b"" and LINE.fullmatch(err)
        assert all(word in err for word in words)
    assert b"\x1b" not in err


def test_client_help_and_version(client):
    status, out, err = client("--help")
    assert (status, err) == (0, b"") and all(word in out for word in (b"run", b"info", b"ps", b"top", b"cancel", b"completion", b"Examples:"))
    status, version, err = client("--version")
    assert (status, err) == (0, b"") and re.fullmatch(rb"glovebox \d+\.\d+\.\d+\n", version)
    contract = """runtime arg env stdin no-stdin profile timeout cpu-time memory cpus max-processes output-bytes workspace-bytes idle-timeout idle-grace
                  idle-evidence heartbeat-interval working-dir timezone label merge-streams request-id detach json file server tls-ca tls-cert tls-key"""
    status, out, err = client("help", "run")
    assert (status, err) == (0, b"") and client("run", "--help") == (0, out, b"")
    for flag in contract.split():
        assert re.search(rf"--{flag}\b".encode(), out), flag
    for verb in ("info", "ps", "top", "cancel", "completion", "help"):
        status, out, err = client("help", verb)
        assert (status, err) == (0, b"") and b"Examples:" in out and out.startswith(f"Usage: glovebox {verb}".encode())


def complete(client, *words):
    """What bash offers for the last of these words."""
    script = client("completion", "bash")[1].decode()
    quoted = " ".join("'" + w + "'" for w in words)
    run = f"{script}\ncompopt() {{ :; }}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _glovebox; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return set(subprocess.run(["bash", "-euc", run], check=True, capture_output=True, text=True).stdout.split())


def test_client_completion(client, tmp_path):
    """bash: verbs, options of the verb, values of the option. zsh and fish: scripts that name every option of run."""
    assert complete(client, "glovebox", "") == {"run", "info", "ps", "top", "cancel", "completion", "help"}
    assert complete(client, "glovebox", "run", "--idle-e") == {"--idle-evidence"}
    assert complete(client, "glovebox", "run", "--idle-evidence", "") == {"output-and-cpu", "output"}
    assert complete(client, "glovebox", "ps", "--a") == {"--all"}
    assert complete(client, "glovebox", "top", "--c") == {"--caller", "--count"}
    assert complete(client, "glovebox", "top", "--sort", "") == {"cpu", "memory", "processes", "age", "idle"}
    assert complete(client, "glovebox", "help", "to") == {"top"}
    assert complete(client, "glovebox", "--server", "x", "completion", "b") == {"bash"}
    assert complete(client, "glovebox", "run", "x.py", "--", "--t") == set()
    (tmp_path / "code.py").write_text("")
    assert complete(client, "glovebox", "run", f"{tmp_path}/co") == {f"{tmp_path}/code.py"}
    for shell in ("zsh", "fish"):
        status, out, err = client("completion", shell)
        assert (status, err) == (0, b"")
        for flag in ("runtime", "idle-evidence", "merge-streams", "detach", "server", "interval", "count", "sort"):
            assert flag.encode() in out


# on a terminal

def test_client_status_line_on_a_terminal(terminal):
    """It tells time, cpu and what runs while nothing is printed, and is gone before anything else and at the end."""
    screen = terminal("run", "-r", "bash", "-c", "echo one; while [ $SECONDS -lt 3 ]; do :; done; echo two; exit 5")
    seen = screen.read(None)
    assert screen.process.wait() == 5
    assert re.search(rb"\r\[\d\.\d s, cpu \d", seen), seen
    assert b"one\r\n" in seen and b"\r\x1b[Ktwo\r\nglovebox: FAILED: " in seen, seen
    assert not re.search(rb"\][^\r\n]*two", seen.replace(b"\x1b[K", b"", 1)) or b"\r\x1b[Ktwo" in seen


def test_client_status_line_keeps_off_unfinished_lines(terminal):
    """A prompt without a newline is not painted over, and what we say comes on a line of its own."""
    screen = terminal("run", "-r", "bash", "-c", "printf 'name? '; sleep 2.5; exit 1")
    assert re.fullmatch(rb"name\? \r\nglovebox: FAILED: [^\r\n]*\r\n", screen.read(None))


def test_client_status_line_fits_a_narrow_terminal(terminal):
    screen = terminal("run", "-r", "bash", "-c", "sleep 2.5", columns=16)
    lines = re.findall(rb"\r\[([^\]]*)\]", screen.read(None))
    assert lines and all(len(line) + 2 < 16 for line in lines)


def test_client_no_status_line_where_nobody_looks(client, terminal):
    assert client.run("sleep 1.8") == (0, b"", b"")
    screen = terminal("run", "-r", "bash", "-c", "sleep 1.8", "--json")
    assert b"\x1b" not in screen.read(None)


def test_client_ctrl_c_on_a_terminal(client, terminal):
    screen = terminal("run", "-r", "bash", "-c", "trap '' INT TERM; echo on; sleep 60", "-l", "test=ctrl-c")
    screen.read(rb"on\r\n")
    screen.type(b"\x03")
    assert re.search(rb"glovebox: CANCELLED: [^\r\n]*\r\n$", screen.read(None))
    assert screen.process.wait() == 130
    assert client.daemon.get(execution_of(client, "ctrl-c")).result.cancel_reason == pb.CANCEL_REASON_CALLER


def test_client_output_of_the_program_passes_unchanged_on_a_terminal(terminal):
    screen = terminal("run", "-r", "bash", "-c", r"printf '\033[31mred\033[0m\n'")
    assert screen.read(None) == b"\x1b[31mred\x1b[0m\r\n"


# TCP

@pytest.fixture
def tls(make_daemon, tmp_path):
    right, wrong = pki.Authority(tmp_path, "right"), pki.Authority(tmp_path, "wrong")
    daemon = make_daemon(start=False)
    certificate, key = right.issue("server", "DNS:localhost,IP:127.0.0.1")
    for source, name in ((certificate, "server.pem"), (key, "server.key"), (right.certificate, "ca.pem")):
        (daemon.folder / name).write_bytes(source.read_bytes())
        (daemon.folder / name).chmod(0o644)
    daemon.config["tls"] = {"certificate": daemon.folder / "server.pem", "key": daemon.folder / "server.key", "client-ca": daemon.folder / "ca.pem"}
    daemon.write_config()
    with socket.create_server(("127.0.0.1", 0)) as free:
        daemon.port = free.getsockname()[1]
    daemon.listen += [f"127.0.0.1:{daemon.port}", f"127.0.0.2:{daemon.port}"]  # the second one is not in the certificate
    daemon.right, daemon.wrong = right, wrong
    return daemon.start()


def test_client_mutual_tls(tls):
    """By flags and by environment; a wrong authority or no certificate is one line with the cure."""
    client = Client(tls)
    certificate, key = tls.right.issue("me", "DNS:me")
    ours = ["-s", f"localhost:{tls.port}", "--tls-ca", tls.right.certificate, "--tls-cert", certificate, "--tls-key", key]
    status, out, err = client("info", *ours)
    assert (status, err) == (0, b"") and b"cert:me" in out
    client.environment.update(GLOVEBOX_SERVER=f"127.0.0.1:{tls.port}", GLOVEBOX_TLS_CA=str(tls.right.certificate), GLOVEBOX_TLS_CERT=str(certificate),
                              GLOVEBOX_TLS_KEY=str(key))
    assert client.run("echo over tls; exit 2")[:2] == (2, b"over tls\n")
    assert client("info", "-s", tls.socket)[0] == 0, "what the environment says of TLS counts for a Unix socket"

    def refused(*arguments):
        status, out, err = client("info", *arguments)
        assert (status, out) == (125, b"") and LINE.fullmatch(err) and b": the TLS handshake failed: " in err, err
        return err.decode()

    assert f"the server's certificate is not signed by --tls-ca {tls.wrong.certificate}" in refused("--tls-ca", tls.wrong.certificate)
    bad, bad_key = tls.wrong.issue("bad", "DNS:bad")
    for _ in range(10):  # now and then the server's reset overtakes its reason
        assert re.search(rf"the server (refuses|hung up when it had) our certificate, --tls-cert {bad}: ", refused("--tls-cert", bad, "--tls-key", bad_key))
    assert 'does not name "127.0.0.2"' in refused("-s", f"127.0.0.2:{tls.port}")
    del client.environment["GLOVEBOX_TLS_CA"]
    assert "no --tls-ca was given: say --tls-ca FILE" in refused()
    client.environment["GLOVEBOX_TLS_CA"] = str(tls.right.certificate)
    for name in ("GLOVEBOX_TLS_CERT", "GLOVEBOX_TLS_KEY"):
        del client.environment[name]
    for _ in range(10):
        assert "the server wants a certificate, and no --tls-cert was given: say --tls-cert FILE --tls-key FILE" in refused()
    status, out, err = client("info", "--tls-cert", certificate)
    assert status == 125 and b"go together" in err
    status, out, err = client("info", "--plaintext")
    assert (status, out) == (125, b"") and LINE.fullmatch(err)
    status, out, err = client("info", "--plaintext", "-s", "192.0.2.1:1")
    assert status == 125 and b"this machine only" in err


def test_client_plaintext_to_loopback(make_daemon):
    daemon = make_daemon(start=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    daemon.config["server"]["plain-tcp"] = "yes"
    daemon.write_config()
    daemon.listen.append(f"127.0.0.1:{port}")
    daemon.start()
    client = Client(daemon)
    client.environment.update(GLOVEBOX_SERVER=f"127.0.0.1:{port}", http_proxy="http://127.0.0.1:1", https_proxy="http://127.0.0.1:1")
    assert client.run("echo plain", "--plaintext") == (0, b"plain\n", b"")
