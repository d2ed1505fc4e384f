"""The figures of the wall for ./dev bench: making a cell step by step, loading the filter of system calls, calls with and without it, and
killing fork bombs."""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from figures import SOURCE, head, ms, of, row, settle, target, zygotes

from kit import machine
from kit.daemon import BUILD, Cgroup, Daemon, write_config
from kit.machine import wait_until

CELLS = 400
WARM_UP = 50
RECORD = struct.Struct("=Qi36s")
BOMB = """
import os, sys, time
while True:
    try:
        if os.fork() == 0: continue
    except OSError:
        break
while True: pass
"""


class TracedSpawner:
    """The spawner with trace points, and nobody but us as its server."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-bench-"))
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", str(SOURCE / "proto" / "internal"), f"--python_out={self.folder}",
                        "spawner.proto"], check=True)
        sys.path.insert(0, str(self.folder))
        self.trace, self.state = self.folder / "trace", self.folder / "state"
        write_config(self.folder / "glovebox.conf", {"spawner": {"pool": "no"}})
        waive = machine.missing_controllers()
        self.cgroup = Cgroup()
        self.process = subprocess.Popen(
            [str(BUILD / "bench" / "spawner-traced"), "--state", str(self.state), "--config", str(self.folder / "glovebox.conf"),
             *(["--waive", ",".join(waive)] if waive else [])],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"GLOVEBOX_TRACE": str(self.trace)}, preexec_fn=self.cgroup.enter)
        return self

    def connect(self):
        from compromised_server import Spawner

        def attempt():
            try:
                return Spawner(str(self.state / "spawner.sock"))
            except OSError:
                return None
        return wait_until(attempt, 20)

    def records(self):
        data = self.trace.read_bytes()
        count = struct.unpack_from("=I", data)[0]
        for i in range(count):
            nanoseconds, pid, what = RECORD.unpack_from(data, 48 + i * RECORD.size)
            yield nanoseconds, pid, what.split(b"\0")[0].decode()

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        wait_until(lambda: not self.cgroup.pids(), 5)
        self.cgroup.remove()
        shutil.rmtree(self.folder)


def make_cells(spawner):
    """Microseconds of each, as the server sees it."""
    connection, times = spawner.connect(), []
    limits = {"memory_bytes": 64 << 20, "cpus": 1.0, "max_processes": 64, "workspace_bytes": 64 << 20, "workspace_inodes": 1024}
    for number in range(1, CELLS + WARM_UP + 1):
        began = time.monotonic()
        connection.send(open_cell={"cell": number, "runtime": "bash", "limits": limits})
        connection.send(start_run={"cell": number, "run": 1, "limits": limits})
        connection.until("run_started", number)
        times.append((time.monotonic() - began) * 1e6)
        connection.until("main_exited", number)
        connection.send(close_cell={"cell": number})
        connection.until("cell_closed", number)
        time.sleep(0.002)  # what removes the last cell is not to run beside the next one
    return times[WARM_UP:]


def steps():
    head("Making a cell (cold: nothing is kept ready)")
    with TracedSpawner() as spawner:
        whole = make_cells(spawner)
        last, found, order = {}, {}, []
        begun = {}
        to_start, inside = [], []
        for nanoseconds, pid, what in spawner.records():
            if what == "":
                begun[pid] = nanoseconds
            elif pid in last:
                if what not in found:
                    found[what] = []
                    order.append(what)
                found[what].append((nanoseconds - last[pid]) / 1e3)
            last[pid] = nanoseconds
            if what == "spawner: RunStarted":
                inside.append((nanoseconds - begun[pid]) / 1e3)
            if what in ("seccomp", "verify") and spawner.process.pid in begun:
                to_start.append((what, (nanoseconds - begun[spawner.process.pid]) / 1e3))
        final = [t for what, t in to_start if what == to_start[-1][0]][-CELLS:]
    for what in order:
        values = found[what][-CELLS:]
        name = what if ":" in what or what.startswith("init") else f"main: {what}"
        row(f"  {name}", f"{of(values, 50):.0f} us", f"p50; p99 {of(values, 99):.0f} us")
    inside = inside[-CELLS:]
    row("OpenCell to RunStarted, in the spawner", ms(of(inside, 50)), f"p50; p99 {ms(of(inside, 99))}")
    target("Making a cell, in the spawner, p50", of(inside, 50) / 1e3, "at most 1", "{:.2f} ms")
    row("OpenCell to RunStarted, as the server sees it", ms(of(whole, 50)), f"p50; p99 {ms(of(whole, 99))}; {CELLS} cells; here the server is Python")
    row("OpenCell to the last step before user code's exec", ms(of(final, 50)), f"p50; p99 {ms(of(final, 99))}")


def calls():
    head("The filter of system calls and Landlock")
    done = subprocess.run([str(BUILD / "bench" / "wall"), str(SOURCE / "spawner" / "policy" / "default.policy"), "100"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    got = json.loads(done.stdout)
    row("seccomp: compiled once at start", f"{got['compile'] / 1e6:.1f} ms", f"{got['instructions']} instructions")
    row("seccomp: loaded", f"{got['with']['load_p50'] / 1e3:.0f} us", f"p50; p99 {got['with']['load_p99'] / 1e3:.0f} us")
    for name, what in (("getpid", "getpid"), ("read", "read of /dev/null"), ("ioctl", "ioctl of a pipe")):
        row(f"{what}: without the wall", f"{got['without'][name]:.0f} ns", "p50 of 100 processes")
        row(f"{what}: with it", f"{got['with'][name]:.0f} ns", f"{got['with'][name] - got['without'][name]:+.0f} ns")


def bombs():
    head("Killing a fork bomb (cancel to result: every process is dead and reaped then)")
    for count, how in ((256, "forked"), (1000, "forked"), (1000, "started")):
        name = f"{count} processes of a Python that was {how}"
        daemon = Daemon(config={"server": {"audit-file": None}, "limits": {"max-processes": count}},
                        runtimes={"python": {"pool-min": 0, **({} if how == "forked" else {"zygote": "no", "preload": None})}})
        try:
            daemon.start()
            if how == "forked" and not wait_until(lambda: daemon.run("", "python") and zygotes(daemon), 30):
                sys.exit("fork bomb: there is no zygote")
            settle(daemon)
            times = []
            for _ in range(7):
                call = daemon.call(BOMB, "python", timeout=120)
                if not wait_until(lambda: len(daemon.run_pids()) >= count - 2, 60, 0.1):
                    row(name, "-", f"only {len(daemon.run_pids())} came to life on this machine")
                    break
                time.sleep(0.3)
                if not call.of("accepted"):
                    sys.exit(f"fork bomb: {call.wait(1)!r}")
                began = time.monotonic()
                daemon.cancel(call.id)
                call.wait(60)
                times.append((time.monotonic() - began) * 1e6)
            if times:
                row(name, ms(of(times, 50)), f"p50; longest {ms(max(times))}; {len(times)} bombs")
                target(f"{name}, killed, p50", of(times, 50) / 1e3, "at most 200", "{:.0f} ms")
        finally:
            daemon.stop()
            daemon.remove()


def wall():
    steps()
    calls()
    bombs()
