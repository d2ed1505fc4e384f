"""The JavaScript runner without a cell: the conformance table, and user code that attacks the runner. GLOVEBOX_NODE: another node than the PATH's."""

import json
import os
import subprocess
import tomllib

import pytest

import direct

TABLE = tomllib.loads((direct.ROOT / "tests/conformance/javascript.toml").read_text())["case"]
KEYS = {"name", "ids", "code", "contract", "inputs", "variables", "args", "stdin", "allowed", "files", "value_bytes", "code_name", "exit_code",
        "stdout", "stderr", "value", "value_error", "lossy", "error", "invalid", "incomplete", "note", "displays"}
NODE = os.environ.get("GLOVEBOX_NODE", "node")
COMMAND = [NODE, *direct.COMMANDS["javascript"][1:], "--memory=512"]
RUNNER = str(direct.ROOT / "inside/javascript")


WAYS = {"fresh": False, "waiting": True}


@pytest.fixture(autouse=True, params=WAYS)
def way(request, monkeypatch):
    """Each test is run by an interpreter that starts with its job, and by one that waited for it."""
    monkeypatch.setattr(f"{__name__}.waits", WAYS[request.param])


waits = False


def run(code, **how):
    return direct.run("javascript", code, command=COMMAND, waits=waits, **how)


def check_error(error, want, stderr):
    if want is None:
        assert error is None
        return
    assert error is not None, "no error was told"
    for key in ("type", "line", "column", "source_line"):
        if key in want:
            assert error.get(key) == want[key], key
    assert want.get("message", "") in error["message"]
    if want.get("hint") == "":
        assert "hint" not in error
    elif "hint" in want:
        assert want["hint"] in error["hint"]
    for text in (RUNNER, "node:internal", "$glovebox", "/main.js"):
        assert text not in error["traceback"] and text not in stderr
    if not error.get("truncated") and not error["type"] == "UnsettledPromise":
        assert stderr.count(error["traceback"]) == 1, "printed once, as it is told"


def check_value(out, case):
    assert out.raw == case.get("value") and out.has_value == ("value" in case)
    assert out.lossy == case.get("lossy", False)
    want = case.get("value_error")
    if want is None:
        assert out.value_error is None
        return
    assert out.value_error is not None, "there is no value_error"
    assert out.value_error["type"] == want["type"] and want.get("message", "") in out.value_error["message"]
    assert want.get("path", out.value_error["path"]) == out.value_error["path"]


@pytest.mark.parametrize("case", TABLE, ids=[case["name"].replace(" ", "_") for case in TABLE])
def test_conformance(case):
    assert not case.keys() - KEYS, "a key that means nothing"
    how = {key: case[key] for key in ("contract", "inputs", "variables", "args", "allowed", "code_name") if key in case}
    out = run(case["code"], stdin=case.get("stdin", "").encode(), value_max=case.get("value_bytes", 1 << 20),
              files=[(name, text.encode()) for name, text in case.get("files", {}).items()], **how)
    stderr = out.stderr.decode()
    assert (out.invalid, out.incomplete) == (case.get("invalid", False), case.get("incomplete", False)), out.error
    check_error(out.error, case.get("error"), stderr)
    assert out.exit_code == case.get("exit_code", 0), stderr
    assert out.stdout.decode() == case.get("stdout", "")
    at = 0
    for text in case.get("stderr", []):
        at = stderr.find(text, at)
        assert at >= 0, f"{text!r} is not in {stderr!r}"
    assert case.get("stderr") or not stderr
    assert out.started != out.invalid
    check_value(out, case)
    assert case["note"] in out.note if "note" in case else out.note is None
    assert [display["mime"] for display in out.displays] == case.get("displays", [])


def test_the_table_is_long_enough_and_names_are_unique():
    assert len(TABLE) >= 80 and len({case["name"] for case in TABLE}) == len(TABLE)


# ------------------------------------------------------- more than a table says

def test_256_levels_are_written():
    out = run("let a = 1; for (let i = 0; i < 256; i++) a = [a]; _result = a; 0")
    assert out.raw == "[" * 256 + "1" + "]" * 256


def test_STR_19_all_that_was_printed_arrives_before_an_exit():
    out = run("process.stdout.write('a'.repeat(1 << 20)); process.stderr.write('b'.repeat(1 << 20)); process.exit(3)")
    assert out.stdout == b"a" * (1 << 20) and out.stderr == b"b" * (1 << 20) and out.exit_code == 3


def test_RES_13_a_value_is_bounded_in_bytes_around_the_limit():
    for letters, fits in ((49, True), (50, False)):
        out = run("function main(args) { return 'é'.repeat(args.params.n) }", inputs=json.dumps({"n": letters}), value_max=100)
        assert out.has_value == fits and (fits or "102 bytes of JSON, more than the limit of 100" in out.value_error["message"])
    assert run("'é'.repeat(49)", value_max=100).raw == '"' + "é" * 49 + '"'


def test_RES_01_a_value_of_a_megabyte_is_whole():
    out = run("function main() { return Array(300).fill('☕'.repeat(3000)) }", contract="MAIN", value_max=16 << 20)
    assert out.value == ["☕" * 3000] * 300


def test_a_value_of_gigabytes_is_refused_and_the_program_goes_on():
    out = run("const part = 'x'.repeat(500e6); _result = [part, part, part, part]; setTimeout(() => console.log('on'), 1); 0")
    assert out.value_error["type"] == "TOO_LARGE" and out.stdout == b"on\n" and out.exit_code == 0


def test_GRP_13_long_texts_are_shortened_and_say_so():
    out = run("throw new Error('☕'.repeat(200000))")
    error = out.error
    assert error["truncated"] == 1 and len(error["message"].encode()) <= 32 << 10 and len(error["traceback"].encode()) <= 128 << 10
    assert error["traceback"].endswith("at Object.<anonymous> (main.js:1:7)"), "the middle is left out, not the end"


def test_a_mistake_far_to_the_right_has_no_column_and_prints_no_long_line():
    out = run("x = " + "1+" * 100000 + ";")
    assert out.invalid and (out.error["line"], out.error["column"], out.error["truncated"]) == (1, 0, 1) and len(out.stderr) < 200
    assert out.error["source_line"].startswith("x = 1+1+") and len(out.error["source_line"].encode()) <= 4096


def test_code_of_a_megabyte():
    lines = [f"const s{i} = `t${{x}}`, r{i} = /a'b/g; x = a / b / c; // it's foo" for i in range(16000)]
    out = run("let x = 1, a = 8, b = 2, c = 1;\n" + "\n".join(lines) + "\nx + 1")
    assert out.value == 5
    out = run("\n".join(lines) + "\nconst q = ;")
    assert out.invalid and (out.error["line"], out.error["column"]) == (16001, 11)


def test_a_million_displays_cost_a_thousand_and_one_records():
    out = run("for (let i = 0; i < 1e6; i++) display('x'); _result = 'done'; 0")
    assert len(out.displays) == 1001 and out.displays[-1]["left_out"] and out.value == "done"


def test_displays_beyond_the_bytes_are_left_out_whole_which_is_told_once():
    out = run("display('x'.repeat(40)); display('y'.repeat(100)); display('y', { metadata: { a: 1234 } }); display('z')", content_max=50)
    assert [(display["data"], display["left_out"]) for display in out.displays] == [(b"x" * 40, False), (b"", True), (b"z", False)]


def test_the_forms_of_one_display_have_one_id_and_their_bytes():
    out = run("display({ _repr_png_: () => Buffer.from([1, 255]), _repr_json_: () => ({a: 1}) }); display(new Uint16Array([513]), {mime: 'image/x'});"
              "display('AQI=', {mime: 'image/png'})")
    assert [(d["id"], d["mime"], d["data"]) for d in out.displays] == [
        ("1", "image/png", b"\1\xff"), ("1", "application/json", b'{"a":1}'), ("1", "text/plain", out.displays[2]["data"]), ("2", "image/x", b"\1\2"),
        ("3", "image/png", b"\1\2")]


@pytest.mark.parametrize(("code", "status"), [("process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 5000)", -15), ("process.abort()", -6),
                                              ("process.kill(process.pid, 'SIGKILL')", -9)])
def test_RES_25_death_by_a_signal_is_left_as_it_is(code, status):
    out = run(code)
    assert out.exit_code == status and out.error is None


def test_the_command_line_of_a_child_has_nothing_of_the_runner():
    out = run("const { fork } = require('child_process');\n"
              "if (process.send) { process.send([process.execArgv, typeof display, process.argv.length]) }\n"
              "else { fork(__filename).on('message', m => { _result = m }) }")
    assert out.value == [[], "undefined", 2] and out.exit_code == 0


def test_no_child_has_the_value_pipe():
    out = run("const pipe = require('fs').readlinkSync('/proc/self/fd/64');\n"
              "[/^pipe:/.test(pipe), require('child_process').execSync('ls -l /proc/self/fd').toString().includes(pipe)]")
    assert out.value == [True, False]


@pytest.mark.parametrize("name", ["main.ts", "main.mts"])
def test_typescript_runs_or_says_which_node_it_needs(name):
    code = ("interface Args { params: { a: number } }\nexport function main(args: Args): number {\n"
            "  console.log(args.params.a);\n  return args.params.a + 1;\n}\n")
    out = run(code, code_name=name, inputs='{"a": 1}')
    asked = "typeof require('module').stripTypeScriptTypes + process.version"
    version = subprocess.run([NODE, "-p", asked], capture_output=True, text=True).stdout.strip()
    if version.startswith("function"):
        assert out.value == 2 and out.stdout == b"1\n" and not out.stderr
        out = run("let a: number = null;\n  a.b", code_name=name)
        assert (out.error["type"], out.error["line"], out.error["column"], out.error["source_line"]) == ("TypeError", 2, 5, "  a.b")
        assert run("function f(a: number) {\n  return [a,", code_name=name).incomplete
    else:
        assert out.invalid and not out.incomplete and out.exit_code == 1
        assert out.error["type"] == "TypeScriptError" and version[len("undefined"):] in out.error["message"]
        assert "Node.js 22.13 or newer" in out.error["message"] and out.error["message"] in out.stderr.decode()


# ------------------------------------------------------- user code against the runner

GOOD = {"a": [1, 2.5, "x"], "b": None}


@pytest.mark.parametrize("attack", [
    "const all = globalThis; for (const name of Object.getOwnPropertyNames(all)) { if (name !== '_result') delete all[name] }",
    "JSON.stringify = JSON.parse = () => 'forged'; Object.keys = () => ['forged']; Reflect.ownKeys = Reflect.apply = null",
    "Object.prototype.toJSON = Array.prototype.toJSON = String.prototype.toJSON = Number.prototype.toJSON = () => 'forged'",
    "Array.prototype[Symbol.iterator] = String.prototype[Symbol.iterator] = function* () { throw new Error('iterated') }",
    "for (const i of [0, 1, 2, 3]) Object.defineProperty(Array.prototype, i, { set() { throw new Error('set') }, get() { return 'forged' } })",
    "for (const C of [Map, Set, String, RegExp, Date, Promise, Uint8Array]) for (const k of Object.getOwnPropertyNames(C.prototype))"
    " try { C.prototype[k] = null } catch {}",
    "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = null",
    "Object.defineProperty(Promise.prototype, 'constructor', { get() { throw new Error('species') } }); Promise.prototype.then = null",
    "const fs = require('fs'); for (const name of Object.keys(fs)) fs[name] = () => 0",
    "require('util').inspect = require('module')._load = process.emitWarning = process.reallyExit = () => 'forged'",
    "Buffer.from = Buffer.prototype.latin1Slice = Buffer.prototype.base64Slice = TextEncoder.prototype.encode = null",
    "Object.freeze(Object.prototype); Object.freeze(Array.prototype); Object.freeze(globalThis.process)",
    "process.removeAllListeners(); process.exitCode = 0",
    "Error.prepareStackTrace = () => { throw new Error('frames') }; Error.stackTraceLimit = 0",
    "require('fs').unlinkSync(__filename); process.chdir('/')",
    "Object.defineProperty(globalThis, 'Error', { get() { throw 1 } })",
], ids=["globals", "json", "toJSON", "iterators", "indexes", "prototypes", "functions", "promises", "fs", "modules", "buffers", "frozen",
        "listeners", "stacks", "unlinked", "getter"])
def test_hostile_code_gets_its_value_all_the_same(attack):
    good = json.dumps(GOOD)
    out = run(f"var keep = {{}};\n{attack};\n_result = {good};")
    assert out.value == GOOD and out.exit_code == 0, (out.value, out.stderr)
    out = run(f"{attack};\n(async () => ({good}))()")
    assert out.value == GOOD or "Promise" in attack or "delete" in attack, (out.value, out.stderr)
    out = run(f"const Mine = TypeError;\n{attack};\nthrow new Mine('told')")
    assert out.exit_code == 1, out.stderr
    assert out.error["type"] == "TypeError" and out.error["message"] == "told"
    assert out.error["line"] in (3, 0) and RUNNER not in out.error["traceback"]


def test_code_that_closes_the_value_pipe_loses_the_value_and_nothing_else():
    out = run("const fs = require('fs'); console.log('a');\nfor (let fd = 40; fd < 1024; fd++) try { fs.closeSync(fd) } catch {}\n5")
    assert out.exit_code == 0 and out.stdout == b"a\n" and not out.has_value and not out.stderr
    out = run("const fs = require('fs');\nfor (let fd = 40; fd < 1024; fd++) try { fs.closeSync(fd) } catch {}\nnull.x")
    assert out.exit_code == 1 and b"TypeError" in out.stderr


def test_a_descriptor_that_user_code_took_for_itself_is_not_written_to():
    out = run("const fs = require('fs'); fs.closeSync(64); let fd; do fd = fs.openSync('mine', 'w'); while (fd < 64);\n"
              "process.on('exit', () => console.log(fs.statSync('mine').size)); 'value'")
    assert out.stdout == b"0\n" and not out.has_value and out.exit_code == 0


def test_records_that_user_code_writes_are_its_own_and_cannot_undo_that_it_started():
    forged = ("require('fs').writeSync(64, Buffer.concat([Buffer.from([3, 0, 0, 0, 3, 0, 0, 0]), Buffer.from('666'),"
              " Buffer.from([4, 0, 0, 0, 1, 0, 0, 0, 0])]))")
    out = run(f"{forged}; _result = 1; 0")
    assert out.records[0] == "STARTED" and out.value == 1, "the last whole value counts"


def test_a_reader_that_goes_away_costs_no_error(tmp_path):
    (tmp_path / "main.js").write_text("process.on('exit', () => console.log('end')); display('x'); _result = 'y'.repeat(1e6); null.x")
    read, write = os.pipe()
    os.close(read)
    job_read, job_write = os.pipe()
    os.write(job_write, direct.job())
    os.close(job_write)

    def inherit():
        source, value = os.dup(job_read), os.dup(write)
        os.dup2(source, 3)
        os.dup2(value, 5)
    done = subprocess.run([*COMMAND, "main.js"], cwd=tmp_path, capture_output=True, preexec_fn=inherit, close_fds=False, timeout=30)
    os.close(job_read)
    os.close(write)
    assert done.returncode == 1 and done.stdout == b"end\n" and done.stderr.startswith(b"main.js:1\n") and b"EPIPE" not in done.stderr


def test_a_job_that_ends_too_early_runs_nothing():
    done = subprocess.run([*COMMAND, "main.js"], capture_output=True, preexec_fn=lambda: os.dup2(os.open("/dev/null", os.O_RDONLY), 3),
                          close_fds=False, timeout=30)
    assert done.returncode == 1 and b"the job ended before it was whole" in done.stderr
