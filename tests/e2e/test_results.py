"""Values, errors and exit statuses as users of other sandboxes missed them: the RES cases, and what a client gets of large answers (GRP-11, GRP-13). What each
language makes of single values is in tests/conformance; here the whole way to the caller counts: Execute, caps, outcomes, streams, time."""
import json

import pytest

from kit.call import request
from kit.machine import seconds
from kit.stubs import pb

TOO_LARGE, CIRCULAR = pb.VALUE_ERROR_TYPE_TOO_LARGE, pb.VALUE_ERROR_TYPE_CIRCULAR
BOTH = pytest.mark.parametrize("runtime", ["python", "javascript"])
MAIN = {"contract": pb.CONTRACT_MAIN}


def strict(text):
    """Parses it as a strict parser does: Python's own would take NaN and Infinity."""
    def no(name):
        raise ValueError(f"{name} is no JSON")
    return json.loads(text, parse_constant=no)


def value_of(call):
    assert call.outcome == "COMPLETED" and call.result.WhichOneof("value") == "value_json", call.result
    return strict(call.result.value_json)


def body(runtime, python, javascript):
    """Code whose main is this, in that language."""
    if runtime == "python":
        return "def main():\n" + "".join(f"    {line}\n" for line in python.splitlines())
    return "function main() {\n" + javascript + "\n}\n"


@BOTH
def test_RES_01_a_large_value_is_whole_or_not_there(daemon, runtime):
    """600 kB arrive with all items; above the cap there is TOO_LARGE with size and cap, and never half a JSON; both calls agree."""
    code = body(runtime, 'return ["x" * 3000] * 200', 'return new Array(200).fill("x".repeat(3000));')
    call = daemon.run(code, runtime, **MAIN)
    text = b"".join(c.data for c in call.of("content")) if call.result.value_content_id else call.result.value_json
    assert call.outcome == "COMPLETED" and strict(text) == ["x" * 3000] * 200
    reply = daemon.stub.Execute(request(code, runtime, **MAIN), timeout=seconds(30))
    assert strict(reply.result.value_json) == ["x" * 3000] * 200
    for result in (daemon.run(code, runtime, value_bytes=100_000, **MAIN).result,
                   daemon.stub.Execute(request(code, runtime, value_bytes=100_000, **MAIN), timeout=seconds(30)).result):
        assert result.outcome == pb.OUTCOME_COMPLETED and result.WhichOneof("value") == "value_error", result
        assert result.value_error.type == TOO_LARGE and pb.LIMIT_VALUE in result.limits_hit and "100000" in result.value_error.message, result


@BOTH
def test_RES_02_output_without_an_end_of_line(daemon, runtime):
    """What is printed without a line's end and the value are two things."""
    call = daemon.run(body(runtime, 'import sys\nsys.stdout.write("debug"); return {"v": 1}', 'process.stdout.write("debug"); return {v: 1};'), runtime, **MAIN)
    assert call.stdout == b"debug" and value_of(call) == {"v": 1} and not call.stderr


@BOTH
def test_RES_03_text_that_looks_like_control(daemon, runtime):
    """Printed lines that look like a result, ours or another product's, are text."""
    lines = ['<<RESULT>>{"v":666}<<RESULT>>', '{"exit_code":0,"result":666}', '{"valueJson":"666"}']
    code = body(runtime, f"for line in {lines!r}: print(line)\nreturn 2", f"for (const line of {json.dumps(lines)}) console.log(line);\nreturn 2;")
    call = daemon.run(code, runtime, **MAIN)
    assert value_of(call) == 2 and call.stdout.decode().split("\n") == [*lines, ""]


@BOTH
def test_RES_05_NaN_and_infinities(daemon, runtime):
    """They are null, said to be lossy, and whoever parses strictly can read them; stderr is empty."""
    code = body(runtime, 'return {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": -0.0}', "return {a: NaN, b: [Infinity, -Infinity], c: -0};")
    call = daemon.run(code, runtime, **MAIN)
    assert value_of(call) == {"a": None, "b": [None, None], "c": 0} and call.result.value_lossy and not call.stderr


@BOTH
def test_RES_06_one_date_does_not_spoil_the_answer(daemon, runtime):
    """The code ran, its output is there, and the date is ISO 8601."""
    code = body(runtime, 'import datetime as d\nprint("ran"); return {"d": d.date(2024, 6, 19)}', 'console.log("ran"); return {d: new Date(Date.UTC(2024, 5, 19))};')
    call = daemon.run(code, runtime, **MAIN)
    assert call.stdout == b"ran\n" and value_of(call) == {"d": "2024-06-19" if runtime == "python" else "2024-06-19T00:00:00.000Z"}


def test_RES_08_BigInt(daemon):
    """A BigInt is its digits and n, as text."""
    call = daemon.run('function main(){ console.log("ran"); return {n: 2n**70n}; }', "javascript", **MAIN)
    assert call.stdout == b"ran\n" and value_of(call) == {"n": "1180591620717411303424n"}


@BOTH
def test_RES_09_a_value_in_itself(daemon, runtime):
    """CIRCULAR with its path, at once; the execution is COMPLETED."""
    call = daemon.run(body(runtime, "a = []; a.append(a); return a", "const a = {}; a.self = a; return a;"), runtime, **MAIN)
    assert call.outcome == "COMPLETED" and call.result.value_error.type == CIRCULAR and call.ran < seconds(3), call
    assert call.result.value_error.path == ("$[0]" if runtime == "python" else "$.self") and not call.stdout and not call.stderr


def test_RES_11_large_integers_and_odd_keys(daemon):
    """All digits of an integer arrive, a number as key is its text, and a key that has no text is named."""
    call = daemon.run('def main(): return {"big": 2**80, "f": 0.1, "k": {1: "a"}}', "python", **MAIN)
    assert value_of(call) == {"big": 2**80, "f": 0.1, "k": {"1": "a"}} and f'"big":{2**80}' in call.result.value_json
    call = daemon.run('def main(): return {"rows": [{(1, 2): "b"}]}', "python", **MAIN)
    assert call.outcome == "COMPLETED" and call.result.value_error.type == pb.VALUE_ERROR_TYPE_NOT_SERIALIZABLE, call.result
    assert call.result.value_error.path.startswith("$.rows[0]") and "tuple" in call.result.value_error.message, call.result


@BOTH
def test_RES_12_text_is_escaped_once(daemon, client, runtime):
    """The text that the code had is what the caller and a script behind the client read."""
    code = body(runtime, 'return {"s": "\\u7ed3\\u679c \\u2615 \\\\u2615"}', 'return {s: "\\u7ed3\\u679c \\u2615 \\\\u2615"};')
    assert value_of(daemon.run(code, runtime, **MAIN)) == {"s": "结果 ☕ \\u2615"}
    status, out, err = client.run(code, "--contract", "main", "--value", runtime=runtime)
    assert status == 0 and strict(out) == {"s": "结果 ☕ \\u2615"} and not err


@BOTH
def test_RES_13_the_cap_counts_bytes(daemon, runtime):
    """A value's cap is in bytes of UTF-8 JSON: a byte less and exactly so many are fine, one letter more is TOO_LARGE with both numbers."""
    for letters, cap, size in ((9998, 20_000, None), (9999, 20_000, None), (10_000, 20_000, 20_002)):
        call = daemon.run(body(runtime, f'return "\\u00e9" * {letters}', f'return "\\u00e9".repeat({letters});'), runtime, value_bytes=cap, **MAIN)
        if size is None:
            assert value_of(call) == "é" * letters
        else:
            assert call.outcome == "COMPLETED" and call.result.value_error.type == TOO_LARGE, call.result
            assert str(size) in call.result.value_error.message and str(cap) in call.result.value_error.message, call.result


def test_RES_14_no_value_is_not_None(daemon):
    """Without a value there is none, not "None" and not ""; both streams are there; a main that returns None has the value null."""
    call = daemon.run('import sys\nprint("o"); print("e", file=sys.stderr)', "python")
    assert call.outcome == "COMPLETED" and call.result.WhichOneof("value") is None and (call.stdout, call.stderr) == (b"o\n", b"e\n"), call
    call = daemon.run("def main(): return None", "python", **MAIN)
    assert call.result.WhichOneof("value") == "value_json" and call.result.value_json == "null", call.result
    call = daemon.run("echo o; echo e >&2")
    assert call.result.WhichOneof("value") is None and (call.stdout, call.stderr) == (b"o\n", b"e\n"), call


@pytest.mark.parametrize("runtime, code", [("bash", "exit 7"), ("python", "import sys; sys.exit(7)"), ("javascript", "process.exit(7)")])
def test_RES_15_an_exit_status_is_no_fault_of_ours(daemon, runtime, code):
    """Exit status 7 is FAILED with 7 and nothing else: no signal, no error, no limit, no word of the sandbox."""
    call = daemon.run(code, runtime)
    assert call.outcome == "FAILED" and call.result.WhichOneof("exit") == "exit_code" and call.result.exit_code == 7, call.result
    assert not call.result.HasField("error") and not call.result.limits_hit and not call.stderr and "sandbox" not in call.result.message.lower(), call.result
    assert daemon.stub.Execute(request(code, runtime), timeout=seconds(30)).result.exit_code == 7


@pytest.mark.parametrize("argument, status, stderr", [("'bye'", 1, b"bye\n"), ("3", 3, b""), ("257", 1, b""), ("True", 1, b""), ("None", 0, b"")])
def test_RES_16_sys_exit(daemon, argument, status, stderr):
    """The status is the one a plain run has, and a text is on stderr; it is no error."""
    call = daemon.run(f"import sys; sys.exit({argument})", "python")
    assert call.outcome == ("FAILED" if status else "COMPLETED") and call.result.exit_code == status and call.stderr == stderr, call
    assert not call.result.HasField("error") and call.result.WhichOneof("value") is None, call.result


@pytest.mark.parametrize("runtime, code", [("python", "import os\nprint('a'); os._exit(5)\n'value'"),
                                           ("javascript", "console.log('a'); process.reallyExit(5); 'value'")])
def test_RES_18_a_hard_exit(daemon, runtime, code):
    """An exit past all handlers is told at once, with its status, the output before it and no value."""
    call = daemon.run(code, runtime)
    assert call.outcome == "FAILED" and call.result.exit_code == 5 and call.stdout == b"a\n" and call.result.WhichOneof("value") is None, call
    assert call.ran < seconds(3) and not call.result.HasField("error"), call


@BOTH
def test_RES_19_a_warning_is_no_failure(daemon, runtime):
    """What is on stderr has nothing to do with how it ended."""
    code = body(runtime, 'import warnings\nwarnings.warn("careful"); return 1', 'process.emitWarning("careful"); return 1;')
    call = daemon.run(code, runtime, **MAIN)
    assert value_of(call) == 1 and b"careful" in call.stderr and not call.result.HasField("error") and not call.stdout, call


@BOTH
def test_RES_20_what_is_left_meets_the_timeout(daemon, runtime):
    """A thread (a timer) that main leaves is waited for until the timeout; TIMED_OUT then, and the value is kept."""
    code = body(runtime, "import threading, time\nthreading.Thread(target=lambda: time.sleep(600)).start()\nreturn 1", "setTimeout(() => {}, 600000); return 1;")
    call = daemon.run(code, runtime, timeout=3, **MAIN)
    assert call.outcome == "TIMED_OUT" and call.result.value_json == "1" and 3 <= call.ran + 0.05 and call.ran < 3 + seconds(0.5), call


@BOTH
def test_RES_21_output_at_exit(daemon, runtime):
    """What exit handlers print is part of the output, and the result comes after it."""
    code = body(runtime, 'import atexit\natexit.register(lambda: print("late")); return 1', 'process.on("exit", () => console.log("late")); return 1;')
    call = daemon.run(code, runtime, **MAIN)
    assert value_of(call) == 1 and call.stdout == b"late\n"


@pytest.mark.parametrize("runtime, code, kind, outcome, line", [
    ("python", "x = 1\ny = 0\nx/y", "ZeroDivisionError", "FAILED", 3),
    ("javascript", "const x = 1;\nconst y = 0;\nthrow new RangeError(x / y);", "RangeError", "FAILED", 3),
    ("python", "x = 1\ny = 0\nx//*y", "SyntaxError", "INVALID_CODE", 3),
    ("javascript", "const x = 1;\nconst y = 0;\nx **/ y;", "SyntaxError", "INVALID_CODE", 3)])
def test_RES_22_errors_are_where_the_user_wrote_them(daemon, runtime, code, kind, outcome, line):
    """The last frame is the user's file at the user's line; no path of the runner or the host is in error or on stderr."""
    call = daemon.run(code, runtime)
    name, error = "main.py" if runtime == "python" else "main.js", call.result.error
    assert call.outcome == outcome and (error.type, error.line) == (kind, line) and error.source_line.strip() == code.split("\n")[2].strip(), call.result
    for text in (error.traceback, call.stderr.decode()):
        assert name in text and "glovebox" not in text and "runner" not in text, text
    assert f'{name}", line {line}' in error.traceback or f"{name}:{line}" in error.traceback, error.traceback


@pytest.mark.parametrize("code", ["def f(): return f()\nf()", "import sys; sys.setrecursionlimit(10**9)\ndef f(): return f()\nf()", "function f() { return f() + 1 }\nf()"])
def test_RES_23_endless_recursion(daemon, code):
    """It ends the program, by an error, a signal or a limit, and never the sandbox; the next run is fine."""
    call = daemon.run(code, "javascript" if "function" in code else "python", timeout=20)
    if "setrecursionlimit" in code:
        assert call.outcome in ("OUT_OF_MEMORY", "TIMED_OUT", "SIGNALED", "FAILED"), call
    else:
        assert call.outcome == "FAILED" and call.result.error.type in ("RecursionError", "RangeError") and call.result.error.line == 1, call.result
        assert len(call.result.error.traceback) < 20_000 and not call.result.limits_hit, call.result
    assert daemon.run("print(1)", "python").stdout == b"1\n"


@pytest.mark.parametrize("runtime, code", [("bash", "exit 137"), ("python", "raise SystemExit(137)"), ("javascript", "process.exit(137)")])
def test_RES_25_137_proves_nothing(daemon, runtime, code):
    """Exit status 137 is FAILED with 137, a kill by the code itself is SIGNALED with 9: memory is named only where memory ran out."""
    call = daemon.run(code, runtime)
    assert call.outcome == "FAILED" and call.result.exit_code == 137 and not call.result.limits_hit and "memory" not in call.result.message, call.result
    kill = {"bash": "kill -9 $$", "python": "import os; os.kill(os.getpid(), 9)", "javascript": "process.kill(process.pid, 'SIGKILL'); setTimeout(() => {}, 9000)"}
    call = daemon.run(kill[runtime], runtime)
    assert call.outcome == "SIGNALED" and call.result.signal == 9 and not call.result.limits_hit and "memory" not in call.result.message, call.result


@pytest.mark.parametrize("code", ['async function main(){ setTimeout(()=>console.log("tick"),50); throw new Error("boom"); }',
                                  'function main(){ setTimeout(()=>console.log("tick"),50); Promise.reject(new Error("boom")); return 1; }'])
def test_RES_26_rejections_fail(daemon, code):
    """A rejected main, or a rejection that nobody handles, is FAILED with status 1 and the error."""
    call = daemon.run(code, "javascript", **MAIN)
    assert call.outcome == "FAILED" and call.result.exit_code == 1 and (call.result.error.type, call.result.error.message) == ("Error", "boom"), call.result
    if "async" in code:
        assert call.result.WhichOneof("value") is None, call.result


def test_RES_28_a_command_that_is_not_there(daemon):
    """127 at once with the shell's own words; a program that Python starts is told with a hint."""
    call = daemon.run("no_such_command_xyz")
    assert call.outcome == "FAILED" and call.result.exit_code == 127 and b"no_such_command_xyz: command not found" in call.stderr and call.took < seconds(3), call
    call = daemon.run("import subprocess\nsubprocess.run(['no_such_command_xyz'])", "python")
    assert call.result.error.type == "FileNotFoundError" and "no_such_command_xyz" in call.result.error.hint and call.result.error.line == 2, call.result


def test_RES_28_a_runtime_that_is_not_there(make_daemon):
    """A runtime without a file, and one whose interpreter is not installed, are refused by name: nothing is recorded as running."""
    d = make_daemon(start=False)
    (d.folder / "runtimes.d").mkdir()
    (d.folder / "runtimes.d" / "ruby.conf").write_text("[runtime]\nexec = /usr/bin/no-such-ruby\ncode-name = main.rb\n")
    d.start()
    refused = d.refused(request("puts 1", "perl9"))
    assert refused.code.name == "INVALID_ARGUMENT" and list(refused.fields) == ["runtime"] and "perl9" in refused.fields["runtime"], refused
    refused = d.refused(request("puts 1", "ruby"))
    assert refused.code.name in ("FAILED_PRECONDITION", "INVALID_ARGUMENT") and "not installed" in refused.fields["runtime"], refused
    ruby = next(r for r in d.info().runtimes if r.name == "ruby")
    assert not ruby.available and not d.list(active_only=True).executions, ruby
    told = "the interpreter is not installed: there is no /usr/bin/no-such-ruby in a cell, which has the host's /usr"
    assert ruby.detail == told and f"Runtime ruby cannot run anything: {told}." in d.log, ruby


@BOTH
def test_GRP_11_large_values_and_many_files(daemon, runtime):
    """A value of 10 MB and 20 000 files: no message is above 1 MiB, the stream has all of the value, Execute says what did not fit."""
    python = 'import os\nos.mkdir("out")\nfor i in range(20_000): open(f"out/{i}", "w").close()\nreturn "x" * 10_000_000'
    javascript = 'const fs = require("fs"); fs.mkdirSync("out");\nfor (let i = 0; i < 20000; i++) fs.writeFileSync("out/" + i, "");\nreturn "x".repeat(10_000_000);'
    fields = {"value_bytes": 16 << 20, "collect": ["out/"], **MAIN}
    call = daemon.run(body(runtime, python, javascript), runtime, **fields)
    assert call.outcome == "COMPLETED" and max(call.sizes) <= 1 << 20, sorted(call.sizes)[-3:]
    value = b"".join(c.data for c in call.of("content") if c.content_id == call.result.value_content_id)
    assert value == b'"' + b"x" * 10_000_000 + b'"' and call.result.files_truncated and 1000 <= len(call.result.files) <= 2000
    reply = daemon.stub.Execute(request(body(runtime, python, javascript), runtime, **fields), timeout=seconds(60))
    assert reply.ByteSize() < 3.5 * (1 << 20) and reply.result.value_error.type == TOO_LARGE and reply.result.files_truncated, reply.result.value_error


@BOTH
def test_GRP_13_a_long_error_is_told_in_the_result(daemon, runtime):
    """An error text of 200 kB is in the result, cut and said to be, as UTF-8; its whole is on stderr."""
    code = 'raise Exception("\\u2615" * 200_000 + "\\n\\u2615")' if runtime == "python" else 'throw new Error("\\u2615".repeat(200_000) + "\\n\\u2615")'
    call = daemon.run(code, runtime)
    error = call.result.error
    assert call.outcome == "FAILED" and error.truncated and error.line == 1, call.result.outcome
    assert error.message.startswith("☕" * 1000) and "�" not in error.message + error.traceback and len(error.message.encode()) <= 32 << 10
    assert len(error.traceback.encode()) <= 128 << 10 and len(call.result.message.encode()) <= 512 and call.stderr.decode().count("☕") >= 200_001
    assert daemon.stub.Execute(request(code, runtime), timeout=seconds(30)).result.error.truncated


@pytest.mark.parametrize(("runtime", "code"), [
    ("python", "for n in (900_000, 300_000, 1_000): display({'image/png': bytes(n)}, raw=True)"),
    ("python", "for n in ((1 << 20) - 1, 1_000): display({'image/png': bytes(n)}, raw=True, metadata={'width': 1})"),
    ("javascript", "for (const n of [900_000, 300_000, 1_000]) display(Buffer.alloc(n), { mime: 'image/png' });"),
    ("javascript", "for (const n of [(1 << 20) - 1, 1_000]) display(Buffer.alloc(n), { mime: 'image/png', metadata: { width: 1 } });"),
])
def test_a_picture_that_does_not_fit_is_left_out_whole(daemon, runtime, code):
    """Never half a picture that looks like a whole one: what is above content_bytes, with its metadata, is not sent at all, and limits_hit says so."""
    call = daemon.run(code, runtime, content_bytes=1 << 20)
    pieces = {}
    for piece in call.of("content"):
        pieces[piece.content_id] = pieces.get(piece.content_id, b"") + piece.data
    sizes = [len(pieces[d.content_id]) if d.content_id else len(d.data) for d in call.of("display")]
    assert sizes == ([900_000, 1_000] if "900" in code else [1_000]) and pb.LIMIT_CONTENT in call.result.limits_hit, call


@pytest.mark.parametrize(("runtime", "code", "field"), [
    ("python", "open('f', 'wb').write(bytes(4 << 20))", "limits.workspace_bytes"),
    ("javascript", "require('fs').writeFileSync('f', Buffer.alloc(4 << 20))", "limits.workspace_bytes"),
    ("python", "bytearray(1 << 50)", "limits.memory_bytes"),
    ("javascript", "new ArrayBuffer(2 ** 52)", "limits.memory_bytes"),
])
def test_a_hint_names_the_field_of_the_limit(daemon, runtime, code, field):
    """Whoever reads it, person or agent, can set what it names: the same in both languages."""
    call = daemon.run(code, runtime, workspace_bytes=1 << 20)
    assert call.outcome == "FAILED" and field in call.result.error.hint, call.result
