"""Runs a runner without a cell: it gets the rest of a job on descriptor 3 and writes the value pipe on descriptor 5 (common/job.h, common/value.h).
For the runners' own tests; what a caller sees is tested through the daemon (tests/e2e)."""

import json
import os
import pathlib
import struct
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACTS = {"AUTO": 1, "MAIN": 2, "RESULT": 3, "SCRIPT": 4}
PIECE = 1 << 20

JOB = {"CONTRACT": 14, "INPUTS": 15, "VARIABLES": 16, "IMPORT_RESTRICT": 17, "IMPORT_ALLOWED": 18, "VALUE_MAX": 19, "CONTENT_MAX": 20, "RUNNER_END": 21}
VALUE = ["", "STARTED", "INVALID", "JSON", "END", "ERROR", "ERROR_TYPE", "ERROR_MESSAGE", "ERROR_TRACEBACK", "ERROR_SOURCE_LINE", "ERROR_HINT",
         "ERROR_POSITION", "ERROR_END", "DISPLAY", "DISPLAY_DATA", "DISPLAY_END", "NOTE"]
VALUE_ERRORS = {1: "NOT_SERIALIZABLE", 2: "TOO_LARGE", 3: "TOO_DEEP", 4: "CIRCULAR"}
COMMANDS = {
    "python": ["/usr/bin/python3", "-u", "-X", "utf8", str(ROOT / "inside/python/runner.py")],
    "javascript": ["node", "--experimental-vm-modules", str(ROOT / "inside/javascript/runner.js")],
}
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


def job(contract="AUTO", inputs=None, variables=None, allowed=None, value_max=1 << 20, content_max=16 << 20):
    """The runner's part of a job. inputs, variables: JSON text or None; allowed: list of modules, None = no policy."""
    def record(name, data=b""):
        return struct.pack("<II", JOB[name], len(data)) + data
    out = [record("CONTRACT", bytes([CONTRACTS[contract]]))]
    for name, text in (("INPUTS", inputs), ("VARIABLES", variables)):
        data = (text or "").encode()
        out += [record(name, data[at:at + PIECE]) for at in range(0, len(data), PIECE)]
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


def run(language, code, *, args=(), stdin=b"", timeout=30, files=(), env=None, command=None, code_name=None, **how):
    """Runs code; how: see job(). files: (path, bytes) put beside the code before. The folder is the working directory."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / (code_name or CODE_NAMES[language])
        path.write_bytes(code if isinstance(code, bytes) else code.encode())
        for name, content in files:
            (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / name).write_bytes(content)
        job_out, job_in = os.pipe()
        value_out, value_in = os.pipe()

        def inherit():
            source_job, source_value = os.dup(job_out), os.dup(value_in)
            os.dup2(source_job, 3)
            os.dup2(source_value, 5)
            os.closerange(6, 256)
        process = subprocess.Popen([*(command or COMMANDS[language]), str(path), *args], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=inherit, close_fds=False, env={**os.environ, **(env or {})})
        os.close(job_out)
        os.close(value_in)
        value, bytes_of_job = [], job(**how)

        def feed():
            with open(job_in, "wb") as pipe:
                try:
                    pipe.write(bytes_of_job)
                except BrokenPipeError:
                    pass

        def drain():
            with open(value_out, "rb") as pipe:
                value.append(pipe.read())
        threads = [threading.Thread(target=feed), threading.Thread(target=drain)]
        for thread in threads:
            thread.start()
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        finally:
            process.kill()
            process.wait()
        for thread in threads:
            thread.join(10)
        out = _take(value[0])
        out.exit_code, out.stdout, out.stderr = process.returncode, stdout, stderr
        return out
