"""The real daemon, started by glovebox-standalone in a cgroup and a folder of its own, and what must be true of it after every test."""
import ctypes
import itertools
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import grpc

from . import machine
from .call import Call, Refused, request
from .machine import seconds, wait_until
from .stubs import SOURCE, execution_pb2_grpc, health_pb2, health_pb2_grpc, pb, system_pb2, system_pb2_grpc

BUILD = pathlib.Path(os.environ.get("GLOVEBOX_BUILD", SOURCE / "build")).resolve()
PR_SET_PDEATHSIG = 1
SANITIZER = re.compile(r"(Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|runtime error:")
_numbers = itertools.count()


def write_config(path, sections):
    """sections: {"server": {"max-executions": 4, "listen": [..]}}; a list repeats its key, None leaves it out."""
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        for key, value in keys.items():
            if value is None:
                continue
            lines += [f"{key} = {v}" for v in (value if isinstance(value, list) else [value])]
    path.write_text("\n".join(lines) + "\n")


class Lines:
    """Text a program prints, gathered by a thread."""

    def __init__(self, stream):
        self.lines, self._queue = [], queue.Queue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            self.lines.append(text)
            self._queue.put(text)
        self._queue.put(None)

    def wait(self, wanted, deadline):
        end = time.monotonic() + deadline
        while True:
            try:
                line = self._queue.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                return None
            if line is None or wanted(line):
                return line


def pids_in(cgroups):
    found = set()
    for cgroup in cgroups:
        try:
            found |= {int(p) for p in (cgroup / "cgroup.procs").read_text().split()}
        except OSError:
            pass
    return found


class Cgroup:
    """A cgroup2 cgroup for one daemon, so that nobody else's processes are ever taken for its own."""

    def __init__(self):
        self.path = machine.base_cgroup() / f"e2e-{os.getpid()}-{next(_numbers)}"
        self.path.mkdir()

    def enter(self):
        """In a child, before exec. It ends with the tests, however they end."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    def folders(self, prefix=""):
        """All cgroups below whose name begins so; they may vanish at any moment."""
        return [pathlib.Path(top, name) for top, names, _ in os.walk(self.path) for name in names if name.startswith(prefix)]

    def pids(self):
        return pids_in([self.path, *self.folders()])

    def remove(self):
        for folder in sorted(self.folders(), reverse=True):
            try:
                folder.rmdir()
            except OSError:
                pass
        self.path.rmdir()


class Daemon:
    def __init__(self, config=None, listen=None, waive=None, environment=None, arguments=(), open_socket=True, runtimes=None):
        """Without a pool, unless config or runtimes want one: then nothing is left when nothing runs. runtimes: as for write_runtimes."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-e2e-"))
        self.folder.chmod(0o755)
        # a folder for every uid, so that the unprivileged server may make its audit file in it
        self.audit_folder = self.folder / "audit"
        self.audit_folder.mkdir()
        self.audit_folder.chmod(0o777)
        self.audit_file = self.audit_folder / "audit.jsonl"
        self.state = self.folder / "state"
        self.socket_path = self.folder / "gb.sock"
        self.socket = f"unix:{self.socket_path}"
        self.config_file = self.folder / "glovebox.conf"
        self.config = {"server": {"audit-file": str(self.audit_file), "node": "test-node"}, "spawner": {"driver": "cgroupfs", "pool": "no"}}
        for section, keys in (config or {}).items():
            self.config.setdefault(section, {}).update(keys)
        self.write_config()
        self.write_runtimes(runtimes or {})
        self.waive = machine.missing_controllers() if waive is None else waive
        self.listen = [self.socket] if listen is None else listen
        self.client = BUILD / "bin" / "glovebox"
        self.cgroup = Cgroup()
        self.calls, self.uid_calls = [], []
        self._environment, self._arguments = environment or {}, arguments
        self.open_socket = open_socket
        self.process = None
        self.channel = None

    def write_config(self):
        write_config(self.config_file, self.config)

    def write_runtimes(self, runtimes):
        """{"bash": {"pool-min": 4}}: the shipped file of that name with these keys of [runtime] in place of its own; a name that is not shipped:
        all of them. None leaves a key out, a list repeats it."""
        if runtimes:
            (self.folder / "runtimes.d").mkdir(exist_ok=True)
        for name, keys in runtimes.items():
            shipped = BUILD / "lib" / "glovebox" / "runtimes.d" / f"{name}.conf"
            lines = shipped.read_text().splitlines() if shipped.exists() else ["[runtime]"]
            lines = [line for line in lines if line.split("=")[0].strip() not in keys]
            at = lines.index("[runtime]") + 1
            lines[at:at] = [f"{key} = {v}" for key, value in keys.items() if value is not None for v in (value if isinstance(value, list) else [value])]
            (self.folder / "runtimes.d" / f"{name}.conf").write_text("\n".join(lines) + "\n")

    # starting and stopping

    def command(self):
        listen = [part for address in self.listen for part in ("--listen", address)]
        waive = ["--waive", ",".join(self.waive)] if self.waive else []
        return [str(BUILD / "bin" / "glovebox-standalone"), *listen, "--state", str(self.state), "--config", str(self.config_file), *waive,
                *self._arguments]

    def spawn(self):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **self._environment}, preexec_fn=self.cgroup.enter)
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)

    def start(self, deadline=60):
        try:
            self.spawn()
        except OSError as error:
            self.remove()
            raise AssertionError(f"the daemon cannot be started: {error}") from error
        line = self.out.wait(lambda text: text.startswith("ready"), seconds(deadline))
        if line is None:
            self.stop()
            log = self.log
            self.remove()
            raise AssertionError(f"the daemon was not ready within {deadline} s; it said:\n{log}")
        if self.open_socket and self.socket_path.exists():
            os.chmod(self.socket_path, 0o666)  # other uids are callers in some tests
        if self.socket in self.listen:
            self.connect()
            self.take_baseline()
        return self

    def connect(self):
        self.channel = self.new_channel()
        self.stub = execution_pb2_grpc.ExecutionServiceStub(self.channel)
        self.system = system_pb2_grpc.SystemServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def new_channel(self, address=None, *options):
        """A connection of its own (gRPC would share one between channels of a process)."""
        return grpc.insecure_channel(address or self.socket, options=[("grpc.use_local_subchannel_pool", 1),
                                                                      ("grpc.max_reconnect_backoff_ms", 300),
                                                                      ("grpc.initial_reconnect_backoff_ms", 100),
                                                                      ("grpc.min_reconnect_backoff_ms", 100), *options])

    def new_stub(self, channel):
        return execution_pb2_grpc.ExecutionServiceStub(channel)

    def take_baseline(self):
        self.run("true").wait()
        self.run("print(1)", "python").wait()
        wait_until(lambda: not self.cgroup.folders("cell-"), 3)
        self.pids = {"standalone": self.process.pid, "server": self.server, "spawner": self.spawner}
        self.keepers = self.cgroup.pids()
        self.baseline = {name: len(machine.descriptors(self.pids[name])) for name in ("server", "spawner")}
        self.audit_start = self.audit_size()
        self.calls.clear()
        self.uid_calls.clear()

    def stop(self, deadline=20, kind=signal.SIGTERM):
        """Ends it as an operator would, and says how long that took and with what status."""
        if self.channel:
            self.channel.close()
        began = time.monotonic()
        status = self.process.poll()
        if status is None:
            self.process.send_signal(kind)
            try:
                status = self.process.wait(seconds(deadline))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the daemon did not stop within {deadline} s of {kind!r}; it said:\n{self.log}") from None
        self.stop_took = time.monotonic() - began
        return status

    def remove(self):
        """After the end: nothing of it may be left."""
        if not self.cgroup.path.exists():
            return  # a start that failed has done it already
        left = wait_until(lambda: not self.cgroup.pids(), 3)
        pids = self.cgroup.pids()
        names = {p: machine.program(p) for p in pids}
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.cgroup.pids(), 3)
        folders = [str(p) for p in self.cgroup.folders("cell-")]
        self.cgroup.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not SANITIZER.search(self.log), f"a sanitizer reported:\n{self.log[-8000:]}"
        assert left, f"the daemon has ended and left processes: {names}"
        assert not folders, f"the daemon has ended and left cgroups: {folders}"

    # its programs

    def child(self, name):
        found = [p for p in machine.children(self.process.pid) if machine.program(p) == name]
        return found[0] if found else 0

    @property
    def server(self):
        return self.child("gloveboxd")

    @property
    def spawner(self):
        return self.child("glovebox-spawner")

    @property
    def log(self):
        return "\n".join(self.out.lines + self.err.lines) if self.process else ""

    def cell_pids(self):
        """Processes inside cells."""
        return pids_in(f for f in self.cgroup.folders() if "/cell-" in str(f))

    def run_pids(self):
        """Processes of executions, without the cells' own."""
        return pids_in(self.cgroup.folders("run-"))

    def assert_no_run(self, deadline=1.0):
        """Every process of every execution is dead, at the latest a second after the results."""
        assert wait_until(lambda: not self.run_pids(), deadline), {p: machine.program(p) for p in self.run_pids()}

    def restart_server(self):
        """kill -9, and wait until its successor serves."""
        old = self.server
        os.kill(old, signal.SIGKILL)
        assert wait_until(lambda: self.server not in (0, old), 10), "standalone did not start the server again"
        self.wait_serving()

    def kill_spawner(self):
        old = self.spawner
        os.kill(old, signal.SIGKILL)
        return old

    def wait_serving(self, deadline=15):
        def serving():
            try:
                return self.health.Check(health_pb2.HealthCheckRequest(), timeout=1).status == health_pb2.HealthCheckResponse.SERVING
            except grpc.RpcError:
                return False
        assert wait_until(serving, deadline, 0.05), f"not SERVING within {deadline} s; the daemon said:\n{self.log}"

    # calls

    def call(self, code="", runtime="bash", stub=None, pause=0.0, call_deadline=None, hold=None, keep_output=True, **fields):
        """Starts an execution and returns its Call at once."""
        call = Call(stub or self.stub, request(code, runtime, **fields), pause, call_deadline, hold, keep_output)
        self.calls.append(call)
        return call

    def run(self, code="", runtime="bash", deadline=60.0, **fields):
        """Runs code to its end."""
        return self.call(code, runtime, **fields).wait(deadline)

    def refused(self, req):
        """The refusal of a request that must be refused, by both methods."""
        call = Call(self.stub, req).wait(15)
        assert call.refused, f"was not refused: {call!r}"
        assert not call.events, f"events before the refusal: {call!r}"
        try:
            self.stub.Execute(req, timeout=seconds(15))
        except grpc.RpcError as error:
            unary = Refused(error)
        else:
            raise AssertionError("Execute took what ExecuteStream refused")
        assert (unary.code, unary.fields.keys()) == (call.refused.code, call.refused.fields.keys())
        return call.refused

    def many(self, count, code, runtime="bash", deadline=120.0, **fields):
        """Runs it `count` times at once, and waits for all."""
        calls = [self.call(code, runtime, **fields) for _ in range(count)]
        return [c.wait(deadline) for c in calls]

    def get(self, execution_id, stub=None):
        return (stub or self.stub).GetExecution(pb.GetExecutionRequest(execution_id=execution_id), timeout=seconds(10)).execution

    def cancel(self, execution_id, stub=None):
        return (stub or self.stub).Cancel(pb.CancelRequest(execution_id=execution_id), timeout=seconds(10)).state

    def list(self, stub=None, **fields):
        return (stub or self.stub).ListExecutions(pb.ListExecutionsRequest(**fields), timeout=seconds(10))

    def info(self):
        return self.system.GetInfo(system_pb2.GetInfoRequest(), timeout=seconds(10))

    def finished(self, execution_id, deadline=10.0):
        """The execution, once it is FINISHED."""
        def look():
            e = self.get(execution_id)
            return e if e.state == pb.STATE_FINISHED else None
        found = wait_until(look, deadline)
        assert found, f"not finished within {deadline} s: {self.get(execution_id)}"
        return found

    # audit

    def audit_size(self):
        return self.audit_file.stat().st_size if self.audit_file.exists() else 0

    def audit(self, start=0):
        """The records from byte `start` on; every line must be one JSON object."""
        if not self.audit_file.exists():
            return []
        def whole():
            with open(self.audit_file, "rb") as file:
                file.seek(start)
                data = file.read()
            return (data,) if not data or data.endswith(b"\n") else None
        data, = wait_until(whole, 2) or (None,)  # a line across two pages may be seen half written
        assert data is not None, "a torn line in the audit file"
        records = [json.loads(line) for line in data.decode().split("\n")[:-1]]
        assert all(isinstance(r, dict) for r in records)
        return records

    def audit_of(self, execution_id, start=0):
        """(start record, end record) of one execution."""
        def look():
            mine = [r for r in self.audit(start) if r["execution_id"] == execution_id]
            return mine if len(mine) >= 2 else None
        mine = wait_until(look, 3) or []
        assert [r["event"] for r in mine] == ["start", "end"], f"audit records of {execution_id}: {mine}"
        return mine

    # what must be true after every test

    def verify(self, killed=()):
        """Raises when something of the executions of a test is left, or anything of the daemon was lost."""
        assert self.process.poll() is None, f"the daemon is gone; it said:\n{self.log}"
        if killed:
            self.wait_serving()
        for call in self.calls:
            if call.ended is None:
                call.leave()
        self._verify_programs(killed)
        self._verify_nothing_left()
        self._verify_audit()
        probe = self.run("print(1)", "python")
        assert probe.outcome == "COMPLETED" and probe.stdout == b"1\n", f"print(1) after the test: {probe!r}\n{self.log}"
        self._verify_descriptors(killed)
        self.audit_of(probe.id, self.audit_start)
        self.audit_start = self.audit_size()
        self.calls.clear()
        self.uid_calls.clear()

    def _verify_programs(self, killed):
        now = {"standalone": self.process.pid, "server": self.server, "spawner": self.spawner}
        changed = {name for name in now if now[name] != self.pids[name]}
        self.pids = now
        if killed:
            self.keepers = {p for p in self.cgroup.pids() - self.cell_pids()}
        unexpected = changed - set(killed)
        assert not unexpected, f"{unexpected} died during the test; the daemon said:\n{self.log}"

    def _verify_nothing_left(self):
        assert wait_until(lambda: not self.cgroup.folders("cell-"), 1.5), \
            f"left behind: {self.cgroup.folders('cell-')} with {[(p, machine.program(p)) for p in self.cell_pids()]}"
        def others():
            return {p for p in self.cgroup.pids() - self.keepers if not machine.is_zygote(p)}
        extra = wait_until(lambda: not others(), 1) or others()
        assert extra is True, f"processes left: { {p: machine.program(p) for p in extra} }"

    def _verify_audit(self):
        def look():
            by_id = {}
            for record in self.audit(self.audit_start):
                by_id.setdefault(record["execution_id"], []).append(record)
            bad = {i: [r["event"] for r in rs] for i, rs in by_id.items() if [r["event"] for r in rs] != ["start", "end"]}
            return None if bad else (by_id,)
        found = wait_until(look, 3)
        assert found, f"executions without one start and one end record in {self.audit(self.audit_start)[-6:]}"
        by_id = found[0]
        for call in self.calls:
            if call.of("result"):
                start, end = by_id[call.id]
                assert end["outcome"] == call.outcome, f"audit says {end['outcome']}, the result {call.outcome}"

    def _verify_descriptors(self, killed):
        """A few more are allowed: connections that tests opened close with a delay."""
        slack = {"server": 8, "spawner": 4}
        for name in ("server", "spawner"):
            if name in killed:
                self.baseline[name] = len(machine.descriptors(self.pids[name]))
            fits = lambda: len(machine.descriptors(self.pids[name])) <= self.baseline[name] + slack[name]  # noqa: E731
            assert wait_until(fits, 4), f"{name} keeps descriptors: {self.baseline[name]} before, now {machine.descriptors(self.pids[name])}"
