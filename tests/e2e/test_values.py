"""The value pipe as the server reads it. The runner here is plain Python, and the code of a test writes the records itself (common/value.h): what a runner
would send, and what only an attacker would."""
import json
import os
import signal
import textwrap
import threading
import time

import pytest

from kit.call import request
from kit.daemon import Daemon
from kit.machine import assert_grown_less, rss, seconds
from kit.stubs import pb

RECORDS = """
import os, struct
STARTED, INVALID, JSON, END, ERROR, TYPE, MESSAGE, TRACEBACK, SOURCE_LINE, HINT, POSITION, ERROR_END, DISPLAY, DISPLAY_DATA, DISPLAY_END, NOTE, OVER = range(1, 18)
def raw(data):
    while data:
        data = data[os.write(5, data):]
def put(kind, data=b""):
    raw(struct.pack("<II", kind, len(data)) + data)
def value(text, lossy=0):
    data = text if isinstance(text, bytes) else text.encode()
    for at in range(0, len(data), 65536):
        put(JSON, data[at:at + 65536])
    put(END, bytes([lossy]))
def display(data, mime="image/png", ident="1", metadata=""):
    put(DISPLAY, b"\\0".join(s.encode() for s in (ident, mime, metadata)))
    for at in range(0, len(data), 65536):
        put(DISPLAY_DATA, data[at:at + 65536])
    put(DISPLAY_END)
"""


@pytest.fixture(scope="module")
def raw():
    d = Daemon()
    (d.folder / "runtimes.d").mkdir()
    (d.folder / "runtimes.d" / "raw.conf").write_text("[runtime]\nexec = /usr/bin/python3\nargs = -u {code}\ncode-name = main.py\nrunner = yes\nenv = PATH=/usr/bin:/bin\n")
    d.start()
    yield d
    d.stop()


def run(raw, code, **fields):
    call = raw.run(RECORDS + textwrap.dedent(code), "raw", **fields)
    assert call.result, call
    return call


def test_a_value_and_no_value(raw):
    """What a runner says is the result's value, apart from everything printed (RES-02, RES-03)."""
    call = run(raw, """
        put(STARTED); print("debug", end=""); value('{"v": 1, "s": "結果 ☕"}')
    """)
    assert json.loads(call.result.value_json) == {"v": 1, "s": "結果 ☕"} and not call.result.value_lossy and call.stdout == b"debug", call
    call = run(raw, "put(STARTED)")
    assert call.result.WhichOneof("value") is None and call.result.outcome == pb.OUTCOME_COMPLETED and not call.result.HasField("error"), call
    call = run(raw, "put(STARTED); value('1'); value('null', 1)")
    assert call.result.value_json == "null" and call.result.value_lossy, call


def test_values_have_a_cap_to_the_byte(raw):
    """RES-13: the cap counts bytes of JSON; at it is fine, one more is TOO_LARGE with both numbers, and the execution is COMPLETED (RES-01)."""
    for size, fits in ((9, True), (10, True), (11, False)):
        call = run(raw, f"put(STARTED); value('\"' + 'x' * {size - 2} + '\"')", value_bytes=10)
        assert call.result.outcome == pb.OUTCOME_COMPLETED, call
        if fits:
            assert call.result.value_json == '"' + "x" * (size - 2) + '"', call
        else:
            assert call.result.value_error.type == pb.VALUE_ERROR_TYPE_TOO_LARGE and pb.LIMIT_VALUE in call.result.limits_hit, call
            assert "11" in call.result.value_error.message and "10" in call.result.value_error.message, call


@pytest.mark.parametrize("text", [b"{", b"NaN", b"[1,]", b"\xff", b"1 2", b'"\\ud800"', b"", b"[" * 100000])
def test_what_is_no_json_is_no_value(raw, text):
    """Whatever comes as the value, clients can parse what they get."""
    call = run(raw, f"put(STARTED); value({text!r})")
    assert call.result.outcome == pb.OUTCOME_COMPLETED and call.result.value_error.type == pb.VALUE_ERROR_TYPE_NOT_SERIALIZABLE, call
    assert "is not JSON" in call.result.value_error.message, call


def test_a_large_value_comes_in_pieces(raw):
    """Above 512 KiB the value goes before the result in content messages; GetExecution and Execute give it whole up to 2 MiB."""
    size = 1_500_000
    code = f"put(STARTED); value('\"' + 'y' * {size - 2} + '\"')"
    call = run(raw, code, value_bytes=2_000_000)
    assert call.result.WhichOneof("value") == "value_content_id", call
    pieces = [e.content for e in call.events if e.WhichOneof("event") == "content"]
    assert [p.content_id for p in pieces] == [call.result.value_content_id] * len(pieces) and len(pieces) > 1
    assert [p.last for p in pieces] == [False] * (len(pieces) - 1) + [True] and all(len(p.data) <= 256 * 1024 for p in pieces)
    assert b"".join(p.data for p in pieces) == b'"' + b"y" * (size - 2) + b'"'
    assert len(raw.get(call.result.execution_id).result.value_json) == size
    reply = raw.stub.Execute(request(RECORDS + code, "raw", value_bytes=2_000_000), timeout=30)
    assert len(reply.result.value_json) == size
    reply = raw.stub.Execute(request(RECORDS + code.replace(str(size - 2), str(3_000_000)), "raw", value_bytes=4_000_000), timeout=30)
    assert reply.result.value_error.type == pb.VALUE_ERROR_TYPE_TOO_LARGE and "ExecuteStream" in reply.result.value_error.message, reply.result


def test_no_message_is_above_its_bound(raw):
    """A value that would be whole alone goes in pieces beside a large error and a long list of files: no message is above 1 MiB."""
    call = run(raw, """
        put(STARTED)
        for i in range(2000): open(f"{i:04d}" + "n" * 240, "w").close()
        put(MESSAGE, b"m" * 32768); put(TRACEBACK, b"t" * 131072); put(ERROR_END)
        value('"' + "x" * 500000 + '"')
    """)
    assert max(call.sizes) <= 1 << 20, sorted(call.sizes)[-3:]
    pieces = [e.content for e in call.events if e.WhichOneof("event") == "content"]
    assert len(call.result.files) == 2000 and call.result.value_content_id == "value" and len(b"".join(p.data for p in pieces)) == 500002, call.result.message


def test_errors_are_told(raw):
    """Type, message, traceback, position, source line and hint; the message has the gist."""
    call = run(raw, """
        put(STARTED); put(TYPE, b"ValueError"); put(MESSAGE, b"no \\xff luck"); put(TRACEBACK, b"Traceback ..."); put(SOURCE_LINE, b"x = f()")
        put(HINT, b"Use g."); put(POSITION, struct.pack("<IIB", 3, 5, 1)); put(ERROR_END); raise SystemExit(1)
    """)
    e = call.result.error
    assert (e.type, e.message, e.traceback, e.source_line, e.hint, e.line, e.column, e.incomplete, e.truncated) == (
        "ValueError", "no � luck", "Traceback ...", "x = f()", "Use g.", 3, 5, False, True), call
    assert call.result.outcome == pb.OUTCOME_FAILED and call.result.message == "The program ended with exit status 1: ValueError: no � luck (line 3).", call


def test_invalid_code_is_said_before_anything_ran(raw):
    """INVALID_CODE only before STARTED: code that runs cannot claim that nothing ran."""
    call = run(raw, 'put(TYPE, b"SyntaxError"); put(MESSAGE, b"invalid syntax"); put(POSITION, struct.pack("<IIB", 2, 1, 0)); put(INVALID, b"\\0"); raise SystemExit(1)')
    assert call.result.outcome == pb.OUTCOME_INVALID_CODE and call.result.WhichOneof("exit") is None and call.result.error.type == "SyntaxError", call
    assert call.result.message == "Nothing ran, because the code is not valid: SyntaxError: invalid syntax (line 2).", call
    call = run(raw, 'put(TYPE, b"SyntaxError"); put(INVALID, b"\\1"); raise SystemExit(1)')
    assert call.result.outcome == pb.OUTCOME_INVALID_CODE and call.result.error.incomplete and "cut off" in call.result.message, call
    call = run(raw, 'put(STARTED); print("ran"); put(INVALID, b"\\0"); raise SystemExit(3)')
    assert call.result.outcome == pb.OUTCOME_FAILED and call.result.exit_code == 3 and call.stdout == b"ran\n", call


@pytest.mark.parametrize("forged", [
    "raw(b'garbage that is no record at all')", "put(99)", "put(0)", "put(JSON, b'x' * 65537)", "raw(struct.pack('<II', JSON, 0xffffffff) + b'x' * 100)",
    "put(DISPLAY_DATA, b'x')", "put(DISPLAY_END)", "put(DISPLAY, b'no nul')", "put(ERROR, b'\\x09$\\0m')",
    "put(ERROR, b'\\1')", "put(POSITION, b'x')", "put(INVALID, b'\\0')", "put(TRACEBACK, b'x' * 131073)", "put(DISPLAY, b'1\\0image/png\\0'); put(JSON, b'1')",
    "put(DISPLAY, b'1\\0image/png\\0'); put(DISPLAY, b'1\\0image/png\\0')", "os.close(5)"])
def test_forged_records_end_the_reading(raw, forged):
    """What came before counts, what comes behind does not, and nothing else of the execution suffers."""
    call = run(raw, f"""
        put(STARTED); value('"before"'); print("out", flush=True)
        try:
            {forged}
            for _ in range(100): value('"behind"')
        except OSError: pass
        print("end")
    """)
    assert call.result.outcome == pb.OUTCOME_COMPLETED and call.stdout == b"out\nend\n" and call.result.value_json == '"before"', call


# The process of a runner takes a name, and waits to be killed.
NAMED = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'glovebox-over', 0, 0, 0)\n"
OVER = "put(OVER, bytes([7])); time.sleep(100)"


@pytest.mark.parametrize("code, status, out", [
    ("print('said', end='', flush=True); " + OVER, 7, b"said"),
    # What a child says before the end counts, and it goes with its parent.
    ("r, w = os.pipe()\nif os.fork() == 0: os.write(1, b'child'); os.write(w, b'.'); time.sleep(100)\nos.read(r, 1); " + OVER, 7, b"child"),
    # Nothing counts behind it.
    ("raw(struct.pack('<II', OVER, 1) + b'\\x07' + struct.pack('<II', OVER, 1) + b'\\x09' + b'garbage'); value('2'); time.sleep(100)", 7, b""),
    # Another end, which the kernel tells, may come first or last; whatever comes first counts.
    ("os.close(1); os.close(2); " + OVER, 7, b""),
    ("import threading; threading.Thread(target=time.sleep, args=(100,)).start(); " + OVER, 7, b""),
])
def test_a_program_that_is_over_says_so(raw, code, status, out):
    call = run(raw, f"{NAMED}put(STARTED); value('1')\n{code}", timeout=seconds(60))
    assert (call.outcome, call.result.exit_code, call.stdout, call.result.value_json) == ("FAILED", status, out, "1"), call
    assert call.result.usage.memory_peak_bytes > 1 << 20 and call.result.usage.wall.seconds < 50


@pytest.mark.parametrize("forged", ["put(OVER, b'')", "put(OVER, b'ab')", "put(DISPLAY, b'1\\0image/png\\0'); put(OVER, b'\\0')"])
def test_who_is_not_over_as_a_runner_is_goes_on(raw, forged):
    call = run(raw, f"import signal; signal.signal(signal.SIGPIPE, signal.SIG_IGN); put(STARTED); value('1'); {forged}; print('on'); raise SystemExit(3)")
    assert (call.outcome, call.result.exit_code, call.stdout, call.result.value_json) == ("FAILED", 3, b"on\n", "1"), call
    call = run(raw, "put(OVER, b'\\0'); print('on'); raise SystemExit(3)")  # before it began
    assert (call.outcome, call.result.exit_code, call.stdout) == ("FAILED", 3, b"on\n"), call


@pytest.mark.parametrize("code", [
    "if os.fork() == 0: " + OVER,
    "if os.fork() == 0: " + NAMED.replace("\n", "; ") + OVER,
    # Whatever runs as the same user may open the pipe by its path.
    "import subprocess, sys; subprocess.Popen([sys.executable, '-c', f\"open('/proc/{os.getpid()}/fd/5', 'wb').write(bytes([17, 0, 0, 0, 1, 0, 0, 0, 0]))\"])",
    "open('/proc/self/comm', 'w').write('glovebox-oveR'); put(OVER, b'\\0')"])
def test_nobody_else_can_say_how_a_program_ended(raw, code):
    """To say so kills it, as any process of its user can."""
    call = run(raw, f"import time\nput(STARTED); value('1')\n{code}\ntime.sleep(100); raise SystemExit(7)", timeout=seconds(60))
    assert (call.outcome, call.result.signal, call.result.value_json) == ("SIGNALED", 9, "1") and "in its place" in call.result.message, call
    assert call.result.usage.wall.seconds < 50


@pytest.mark.kills("spawner")
@pytest.mark.parametrize("spawner", [signal.SIGKILL, None], ids=["dies", "hangs"])
def test_a_word_that_nobody_could_look_at_is_not_believed(make_daemon, spawner):
    """Another process says that the program is over while the spawner does not look: that is no end of it that could be told."""
    runtime = {"exec": "/usr/bin/python3", "args": "-u {code}", "code-name": "main.py", "runner": "yes", "env": "PATH=/usr/bin:/bin"}
    daemon = make_daemon(runtimes={"raw": runtime})
    call = daemon.call(RECORDS + "import time\nput(STARTED); value('1'); print('up')\nif os.fork() == 0: time.sleep(1); " + OVER + "\ntime.sleep(100)", "raw",
                       timeout=60)
    call.until_output(b"up")
    stopped = daemon.spawner
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(2.5)
    if spawner:
        os.kill(stopped, spawner)
    call.wait(40)
    if not spawner:
        os.kill(stopped, signal.SIGCONT)
    daemon.wait_serving()
    assert call.outcome == "SANDBOX_FAILED" and "'spawner'" in call.result.message, call.result


def test_a_program_whose_first_thread_has_ended_is_killed_all_the_same(raw):
    """Neither its word nor a limit waits for more than it should."""
    leave = "import ctypes, threading, time; threading.Thread(target=rest, daemon=True).start(); time.sleep(.2); ctypes.CDLL(None).syscall(60, 0)"
    call = run(raw, f"def rest(): time.sleep(.5); {OVER}\nput(STARTED)\n{leave}", timeout=seconds(60))
    assert call.outcome == "SIGNALED" and "did not tell the end" not in raw.log, (call, raw.log)
    busy = """
        import ctypes
        def rest():
            libc = ctypes.CDLL(None)
            libc.mmap.restype = ctypes.c_void_p
            while True: libc.munmap(ctypes.c_void_p(libc.mmap(None, 1 << 30, 3, 0x8022, -1, 0)), ctypes.c_size_t(1 << 30))
        put(STARTED)
    """
    call = run(raw, textwrap.dedent(busy) + leave, timeout=1)
    assert call.outcome == "TIMED_OUT" and "did not end the run in time" not in raw.log, (call, raw.log)


def test_what_children_took_counts_for_one_that_is_over(raw):
    """Without a memory controller the largest of them is known only from the kernel's last word on the process."""
    call = run(raw, """
        import ctypes, time
        if os.fork() == 0:
            data = b"x" * (200 << 20)
            os._exit(0)
        os.wait()
        ctypes.CDLL(None).prctl(15, b"glovebox-over", 0, 0, 0)
        put(STARTED); put(OVER, b"\\0"); time.sleep(100)
    """)
    assert (call.outcome, call.result.exit_code) == ("COMPLETED", 0) and call.result.usage.memory_peak_bytes > 200 << 20, call


def test_a_full_file_system_is_told_of_one_that_is_over(daemon):
    code = "try { require('fs').writeFileSync('f', Buffer.alloc(64 << 20)) } catch (e) { console.log(e.code) }"
    call = daemon.run(code, "javascript", workspace_bytes=32 << 20)
    assert (call.outcome, call.stdout, list(call.result.limits_hit)) == ("COMPLETED", b"ENOSPC\n", [pb.LIMIT_WORKSPACE]), call


def test_a_flood_on_the_value_pipe(raw):
    """1 GiB of value: the server keeps the cap's worth, stops reading at some point, and the program is not hung up by that."""
    before = rss(raw.server)
    call = run(raw, """
        put(STARTED)
        try:
            for _ in range(16384): put(JSON, b"1" * 65536)
        except BrokenPipeError: print("stopped")
    """, value_bytes=1 << 20)
    assert call.result.outcome == pb.OUTCOME_COMPLETED and call.stdout == b"stopped\n" and call.result.WhichOneof("value") is None, call
    assert_grown_less(raw.server, before, 32 << 20)


def test_displays(raw):
    """Small ones whole, large ones in pieces, each in order; caps on number and bytes."""
    call = run(raw, """
        put(STARTED); display(b"small", "image/svg+xml", "a", '{"width": 3}'); display(b"x" * 700000, "image/png", "b"); display(b"", "text/plain", "b", "no json")
    """)
    shown = [e.display for e in call.events if e.WhichOneof("event") == "display"]
    assert [(d.id, d.mime_type, d.metadata_json, d.data) for d in shown] == [("a", "image/svg+xml", '{"width": 3}', b"small"), ("b", "image/png", "", b""),
                                                                             ("b", "text/plain", "", b"")], call
    assert shown[1].content_id and not shown[0].content_id
    pieces = [e.content for e in call.events if e.WhichOneof("event") == "content"]
    assert {p.content_id for p in pieces} == {shown[1].content_id} and b"".join(p.data for p in pieces) == b"x" * 700000 and pieces[-1].last
    assert [p.offset for p in pieces] == [sum(len(q.data) for q in pieces[:i]) for i in range(len(pieces))]
    reply = raw.stub.Execute(request(RECORDS + 'put(STARTED); display(b"x" * 700000, "image/png", "b")', "raw"), timeout=30)
    assert [(d.id, d.data) for d in reply.displays] == [("b", b"x" * 700000)]


def test_odd_displays_do_not_cost_the_value(raw):
    """Programs choose ids and types: parameters go, and what has no type is left out; the value behind it comes."""
    call = run(raw, """
        put(STARTED); display(b"<p>", "text/html; charset=utf-8", "my figure é" * 20); display(b"x", "plain"); value("1")
    """)
    shown = [(e.display.id, e.display.mime_type) for e in call.events if e.WhichOneof("event") == "display"]
    assert shown == [(("my figure é" * 20).encode()[:64].decode(errors="ignore"), "text/html")] and call.result.value_json == "1", call


def test_displays_have_caps(raw):
    """10^6 displays: the first 1000 are sent; more bytes than content_bytes: what does not fit is left out, whole. limits_hit says so."""
    call = run(raw, """
        put(STARTED)
        try:
            for i in range(1000000): display(b"x", "text/plain")
        except BrokenPipeError: pass
    """, content_bytes=1 << 20)
    assert sum(e.WhichOneof("event") == "display" for e in call.events) == 1000 and pb.LIMIT_CONTENT in call.result.limits_hit, call
    call = run(raw, 'put(STARTED); display(b"a" * 60); display(b"b" * 60); display(b"c" * 40)', content_bytes=100)
    assert [e.display.data[:1] for e in call.events if e.WhichOneof("event") == "display"] == [b"a", b"c"] and pb.LIMIT_CONTENT in call.result.limits_hit, call


def test_a_slow_reader_holds_displays_back(raw):
    """As with output: the server keeps a fixed amount for a reader that does not read."""
    before = rss(raw.server)
    call = raw.call(RECORDS + textwrap.dedent("""
        put(STARTED)
        for i in range(60): display(bytes([i]) * 1000000, "image/png", str(i))
    """), "raw", pause=0.01, content_bytes=100 << 20)
    call.wait(60)
    assert sum(len(e.content.data) for e in call.events if e.WhichOneof("event") == "content") == 60_000_000, call.result
    assert_grown_less(raw.server, before, 16 << 20)


def test_who_waits_for_a_client_is_not_idle(raw):
    """A program that cannot go on, because its client takes no displays, does nothing wrong: the idle clock stands still."""
    gate = threading.Event()
    call = raw.call(RECORDS + textwrap.dedent("""
        put(STARTED); print("go", flush=True)
        for i in range(60): display(bytes([i]) * 1000000, "image/png", str(i))
    """), "raw", hold=gate, idle_timeout=1, content_bytes=100 << 20)
    call.until("output")
    time.sleep(seconds(3))
    assert not call.of("result"), call
    gate.set()
    assert call.wait(60).outcome == "COMPLETED", call


def test_a_detached_execution_gives_its_large_value_whole(raw):
    """Output that nobody reads in time goes; a value does not, however late its reader is."""
    gate = threading.Event()
    call = raw.call(RECORDS + 'put(STARTED); print("go", flush=True); value(b\'"\' + b"x" * 12000000 + b\'"\')', "raw", hold=gate, detached=True,
                    value_bytes=16 << 20)
    call.until("output")
    time.sleep(seconds(2))
    assert raw.get(call.id).state == pb.STATE_FINISHED
    gate.set()
    call.wait(60)
    pieces = [e.content for e in call.events if e.WhichOneof("event") == "content"]
    assert b"".join(p.data for p in pieces) == b'"' + b"x" * 12000000 + b'"' and pieces[-1].last and call.result.value_content_id == "value", call.result


def test_the_timeout_keeps_the_value(raw):
    """RES-20: a value that was there stays when what is left runs into the timeout."""
    call = run(raw, "put(STARTED); value('1'); import time; time.sleep(60)", timeout=1)
    assert call.result.outcome == pb.OUTCOME_TIMED_OUT and call.result.value_json == "1", call


def test_a_note_ends_the_message(raw):
    """SEED-22: what the runner wants a person to know."""
    call = run(raw, 'put(STARTED); put(NOTE, b"main was not called.")')
    assert call.result.message == "The program ended with exit status 0. main was not called.", call


def test_the_job_of_a_runner(raw):
    """Contract, inputs, variables, import policy and caps arrive on descriptor 3; other runtimes get neither 3 nor 5."""
    call = run(raw, """
        put(STARTED)
        while True:
            kind, size = struct.unpack("<II", os.read(3, 8))
            data = os.read(3, size)
            print(kind, size if size > 100 else data)
            if kind == 21: break
    """, inputs_json='{"a": "é"}', variables_json='{"b": "' + "x" * 2000 + '"}', contract=pb.CONTRACT_MAIN,
               import_policy=pb.ImportPolicy(restrict=True, allowed=["math", "json"]), value_bytes=7, content_bytes=258)
    assert call.stdout.decode().split("\n") == ["14 b'\\x02'", "15 " + repr('{"a": "é"}'.encode()), "16 2009", "17 b''", "18 b'math'", "18 b'json'",
                                                "19 b'\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00'", "20 b'\\x02\\x01\\x00\\x00\\x00\\x00\\x00\\x00'", "21 b''", ""], call
    assert raw.run("ls /proc/self/fd", "bash").stdout == b"0\n1\n2\n3\n"  # 3 is the folder that ls reads


@pytest.mark.parametrize("field, fields", [
    ("inputs_json", {"inputs_json": "{"}), ("inputs_json", {"inputs_json": "nothing"}), ("variables_json", {"variables_json": "[]"}),
    ("inputs_json", {"inputs_json": "1", "contract": pb.CONTRACT_SCRIPT}), ("contract", {"contract": 9}), ("import_policy.restrict", {"import_policy": pb.ImportPolicy(allowed=["a"])}),
    ("import_policy.allowed", {"import_policy": pb.ImportPolicy(restrict=True, allowed=["a b"])}), ("import_policy.allowed", {"import_policy": pb.ImportPolicy(restrict=True, allowed=["a"] * 257)}),
    ("collect[1]", {"collect": ["ok", "/etc/passwd"]}), ("collect[0]", {"collect": ["a/../b"]}), ("collect[0]", {"collect": [""]}), ("collect", {"collect": ["x"] * 65}),
    ("limits.value_bytes", {"value_bytes": 17 << 20}), ("limits.content_bytes", {"content_bytes": 257 << 20})])
def test_wrong_requests_name_the_field(raw, field, fields):
    """INVALID_ARGUMENT with the field, its bound and the cure (FIL-07 for patterns)."""
    refused = raw.refused(request("", "raw", **fields))
    assert refused.code.name == "INVALID_ARGUMENT" and list(refused.fields) == [field], refused


@pytest.mark.parametrize("fields", [{"inputs_json": "{}"}, {"variables_json": "{}"}, {"contract": pb.CONTRACT_RESULT}, {"import_policy": pb.ImportPolicy(restrict=True)}])
def test_a_runtime_without_runner_gives_no_value(raw, fields):
    """Never ignored: bash has no values."""
    refused = raw.refused(request("", "bash", **fields))
    assert refused.code.name == "INVALID_ARGUMENT" and "runner" in str(refused.fields), refused
