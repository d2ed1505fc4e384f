"""Runs a runner without a cell: it gets the rest of a job on descriptor 3 and writes the value pipe on descriptor 5 (common/job.h, common/value.h).
One that waits (waits=True) gets all of the job there, code and files too, once descriptor 4 says that it is ready.
For the runners' own tests; what a caller sees is tested through the daemon (tests/e2e)."""

import json
import os
import pathlib
import struct
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GLOVEBOX_BUILD", ROOT / "build")).resolve()
CONTRACTS = {"AUTO": 1, "MAIN": 2, "RESULT": 3, "SCRIPT": 4}
PIECE = 1 << 20

JOB = {"ENV": 3, "ARG": 7, "CODE": 8, "FILE": 9, "FILE_DATA": 10, "WORKING_DIR": 11, "TIMEZONE": 12, "END": 13, "MERGE_STREAMS": 24, "CONTRACT": 14, "INPUTS": 15, "VARIABLES": 16, "IMPORT_RESTRICT": 17, "IMPORT_ALLOWED": 18, "VALUE_MAX": 19, "CONTENT_MAX": 20, "RUNNER_END": 21}
VALUE = ["", "STARTED", "INVALID", "JSON", "END", "ERROR", "ERROR_TYPE", "ERROR_MESSAGE", "ERROR_TRACEBACK", "ERROR_SOURCE_LINE", "ERROR_HINT",
         "ERROR_POSITION", "ERROR_END", "DISPLAY", "DISPLAY_DATA", "DISPLAY_END", "NOTE", "OVER"]
VALUE_ERRORS = {1: "NOT_SERIALIZABLE", 2: "TOO_LARGE", 3: "TOO_DEEP", 4: "CIRCULAR"}
COMMANDS = {
    "python": ["/usr/bin/python3", "-u", "-X", "utf8", str(ROOT / "inside/python/runner.py")],
    "javascript": ["node", "--experimental-vm-modules", str(ROOT / "inside/javascript/runner.js")],
}
READY = 3
CODE_NAMES = {"python": "main.py", "javascript": "main.js"}


class Outcome:
    """What a run came to. value: parsed JSON; raw: its text; None without one (has_value tells)."""

    def __init__(self):
        self.exit_code = None
        self.stdout = self.stderr = b""
        self.records = []
        self.started = self.invalid = self.incomplete = self.has_value = self.lossy = False
        self.raw = self.value = self.value_error = self.note = None
        self.error = None
        self.displays = []


def record(name, data=b""):
    return struct.pack("<II", JOB[name], len(data)) + data


def pieces(name, data):
    return [record(name, data[at:at + PIECE]) for at in range(0, len(data), PIECE)]


def body(code=b"", args=(), files=(), env=(), timezone=None, working_dir=None, merge=False):
    """What comes before the runner's part for a runner that waits. files: (path, bytes) or (path, bytes, executable)."""
    out = [record("ENV", f"{name}={value}".encode()) for name, value in env]
    out += [record("MERGE_STREAMS")] if merge else []
    out += [record("ARG", arg.encode()) for arg in args] + pieces("CODE", code)
    for path, content, *executable in files:
        out += [record("FILE", bytes([any(executable)]) + path.encode()), *pieces("FILE_DATA", content)]
    out += [record("TIMEZONE", timezone.encode())] if timezone else []
    out += [record("WORKING_DIR", working_dir.encode())] if working_dir else []
    return b"".join([*out, record("END")])


def job(contract="AUTO", inputs=None, variables=None, allowed=None, value_max=1 << 20, content_max=16 << 20):
    """The runner's part of a job. inputs, variables: JSON text or None; allowed: list of modules, None = no policy."""
    out = [record("CONTRACT", bytes([CONTRACTS[contract]]))]
    for name, text in (("INPUTS", inputs), ("VARIABLES", variables)):
        out += pieces(name, (text or "").encode())
    if allowed is not None:
        out.append(record("IMPORT_RESTRICT"))
        out += [record("IMPORT_ALLOWED", name.encode()) for name in allowed]
    out += [record("VALUE_MAX", struct.pack("<Q", value_max)), record("CONTENT_MAX", struct.pack("<Q", content_max)), record("RUNNER_END")]
    return b"".join(out)


def _records(data):
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert 0 < kind < len(VALUE) and at + 8 + size <= len(data), f"not a record at {at}: type {kind}, {size} bytes"
        yield VALUE[kind], data[at + 8:at + 8 + size]
        at += 8 + size


def _take_value(out, kind, data, pieces):
    if kind == "JSON":
        pieces.append(data)
    elif kind == "END":
        out.raw, out.has_value, out.lossy, out.value_error = b"".join(pieces).decode(), True, data == b"\1", None
        out.value = json.loads(out.raw, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
        pieces.clear()
    elif kind == "ERROR":
        path, message = data[1:].split(b"\0", 1)
        out.value_error = {"type": VALUE_ERRORS[data[0]], "path": path.decode(), "message": message.decode()}


def _take(data):
    out, pieces, error = Outcome(), [], {}
    for kind, body in _records(data):
        out.records.append(kind)
        if kind in ("JSON", "END", "ERROR"):
            _take_value(out, kind, body, pieces)
        elif kind == "STARTED":
            out.started = True
        elif kind in ("INVALID", "ERROR_END"):
            if kind == "INVALID":
                assert not out.started
                out.invalid, out.incomplete = True, body == b"\1"
            out.error, error = error, {}
        elif kind == "ERROR_POSITION":
            error["line"], error["column"], error["truncated"] = struct.unpack("<IIB", body)
        elif kind.startswith("ERROR_"):
            error[kind[6:].lower()] = body.decode()
        elif kind == "DISPLAY":
            ident, mime, metadata = body.split(b"\0")
            out.displays.append({"id": ident.decode(), "mime": mime.decode(), "metadata": metadata.decode(), "data": b""})
        elif kind == "DISPLAY_DATA":
            out.displays[-1]["data"] += body
        elif kind == "DISPLAY_END":
            out.displays[-1]["left_out"] = body == b"\1"
        elif kind == "NOTE":
            out.note = body.decode()
    return out


class Pipes:
    """Descriptors 3, 4 and 5 of a runner, and its report."""

    def __init__(self):
        (self.job_out, self.job), (self.report, self.report_in), (self.value, self.value_in) = os.pipe(), os.pipe(), os.pipe()

    def inherit(self, waits):
        passed = [os.dup(fd) for fd in (self.job_out, self.report_in, self.value_in)]
        for number, fd in enumerate(passed, 3):
            os.dup2(fd, number)
        os.closerange(6, 256)
        if not waits:
            os.close(4)  # as glovebox-start does

    def close_inner(self):
        for fd in (self.job_out, self.report_in, self.value_in):
            os.close(fd)

    def feed(self, data):
        with open(self.job, "wb") as pipe:
            try:
                pipe.write(data)
            except BrokenPipeError:
                pass


def start(command, folder, env=None, waits=False):
    """A runner that has its pipes: (process, pipes)."""
    pipes = Pipes()
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: pipes.inherit(waits), close_fds=False, env={**os.environ, **(env or {})})
    pipes.close_inner()
    return process, pipes


def finish(process, pipes, data, stdin=b"", timeout=30):
    """Sends the job, and reads everything: what the report pipe said, and the outcome."""
    said = {}

    def drain(name, fd):
        with open(fd, "rb") as pipe:
            said[name] = pipe.read()
    threads = [threading.Thread(target=pipes.feed, args=(data,)), threading.Thread(target=drain, args=("report", pipes.report)),
               threading.Thread(target=drain, args=("value", pipes.value))]
    for thread in threads:
        thread.start()
    try:
        stdout, stderr = process.communicate(stdin, timeout=timeout)
    finally:
        process.kill()
        process.wait()
    for thread in threads:
        thread.join(10)
    out = _take(said["value"])
    out.exit_code, out.stdout, out.stderr = process.returncode, stdout, stderr
    return said["report"], out


def await_ready(pipes):
    said = os.read(pipes.report, 4096)
    assert said == struct.pack("<II", READY, 0), said


def run(language, code, *, args=(), stdin=b"", timeout=30, files=(), env=None, command=None, code_name=None, waits=False, **how):
    """Runs code; how: see job(). files: (path, bytes) put beside the code before. The folder is the working directory."""
    code = code if isinstance(code, bytes) else code.encode()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / (code_name or CODE_NAMES[language])
        command = command or COMMANDS[language]
        if waits:
            process, pipes = start([*command, f"--wait={path}"], folder, env, waits=True)
            await_ready(pipes)
            report, out = finish(process, pipes, body(code, args, files) + job(**how), stdin, timeout)
            assert len(report) == 40 * (1 + len(files)), f"not the stamps of code and files: {report}"
            return out
        for name, content in [(path.name, code), *files]:
            (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / name).write_bytes(content)
        return finish(*start([*command, str(path), *args], folder, env), job(**how), stdin, timeout)[1]
