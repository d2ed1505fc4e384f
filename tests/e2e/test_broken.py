"""What once broke the daemon: each attack here got through before it was closed, so each must go on failing."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from kit import http2, machine
from kit.machine import repeats, seconds, wait_until

SYSTEM_CALLS = """
import ctypes, os, signal, sys, time
libc, rt = ctypes.CDLL(None, use_errno=True), ctypes.CDLL('librt.so.1', use_errno=True)
class Attributes(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ('flags', 'max', 'size', 'now')] + [('reserved', ctypes.c_long * 4)]
def watcher():
    return libc.inotify_init() >= 0
def queue(number):
    name = b'/glovebox-test-%d-%d' % (os.getpid(), number)
    made = rt.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(Attributes(0, 10, 8192, 0))) >= 0
    if len(sys.argv) > 1 and made: rt.mq_unlink(name)
    return made
def queued_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    return libc.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_void_p(0)) == 0
"""
TAKE_ALL = SYSTEM_CALLS + """
n = 0
while watcher() and n < 10000: n += 1
m = 0
while queue(m) and m < 10000: m += 1
k = 0
while queued_signal() and k < 1000000: k += 1
print(n, m, k, flush=True)
time.sleep(60)
"""
TAKE_ONE = SYSTEM_CALLS + "print(watcher(), queue(0), queued_signal())\n"
# add_key("user", "left", "secret"), and the content of the user's keyring
KEYS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(64)
print(libc.syscall(%d, b'user', b'left', b'secret', 6, -4), libc.syscall(%d, 11, -4, buffer, 64), buffer.raw.strip(b'\\0'))
"""
KEY_CALLS = {"x86_64": (248, 250), "aarch64": (217, 219)}


def test_a_cell_cannot_use_up_what_the_kernel_counts_for_all(daemon):
    """inotify instances, queued signals and message queues are counted for the owner of the cells' user namespace too: a cell that takes
    all it can get leaves some to the next cell, and root's untouched."""
    hog = daemon.call(TAKE_ALL, "python")
    assert wait_until(lambda: b"\n" in hog.stdout, 30), hog
    watchers, queues, signals = map(int, hog.stdout.split())
    assert watchers <= 8 and queues <= 4 and signals <= 1024, hog.stdout
    other = daemon.run(TAKE_ONE, "python")
    # watchers and queues may be refused to all cells, but not because another cell took them
    assert other.stdout == f"{watchers > 0} {queues > 0} True\n".encode(), other
    host = subprocess.run([sys.executable, "-c", TAKE_ONE, "host"], capture_output=True, timeout=30)
    assert host.stdout == b"True True True\n", host
    daemon.cancel(hog.id)
    hog.wait()


def test_keys_of_the_kernel_do_not_pass_from_cell_to_cell(daemon):
    """A uid's keyring outlives its processes, and the next cell gets the same uid."""
    code = KEYS % KEY_CALLS[os.uname().machine]
    for _ in range(2):
        run = daemon.run(code, "python")
        assert run.stdout == b"-1 -1 b''\n", run
    assert "left" not in daemon.run("cat /proc/keys").stdout.decode()


def test_calls_of_other_abis_are_not_answered(daemon):
    """x32 has its own number for keyctl; a filter that looks at the native one alone would be passed by."""
    if os.uname().machine != "x86_64":
        return  # aarch64 has no second table of numbers in 64 bit code
    run = daemon.run("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nprint(libc.syscall(0x40000000 + 250, 6, -4, None, 0))", "python")
    assert run.stdout == b"-1\n" or (run.outcome, run.result.signal) == ("SIGNALED", 31), run


def test_no_user_namespace_in_a_cell(daemon):
    """In a user namespace of its own a program would have capabilities to attack the kernel with."""
    run = daemon.run("unshare -Ur true && echo got one")
    assert run.outcome == "FAILED" and run.stdout == b"", run


def test_headers_without_end(daemon):
    """CONTINUATION frames without END_HEADERS: gRPC keeps them all, 1.4 GB in 4 s. The connection is cut, the server stays small."""
    daemon.run("true")
    before = machine.rss(daemon.server)
    connection = http2.Connection(str(daemon.socket_path))
    connection.send(http2.frame(http2.HEADERS, 0, 1, http2.request_headers("/glovebox.v1.ExecutionService/Execute")))
    filler = http2.frame(http2.CONTINUATION, 0, 1, http2.literal("x-filler", "b" * 8000))
    end = time.monotonic() + 5
    while time.monotonic() < end and connection.send(filler):
        pass
    assert connection.closed.wait(5), "the connection goes on"
    connection.close()
    assert machine.rss(daemon.server) - before < 64 << 20, f"{before >> 20} MiB before, {machine.rss(daemon.server) >> 20} after"


def test_large_headers_that_end_are_refused_by_name(daemon):
    """Headers above the bound of the server, but not absurd, cost their call alone."""
    connection = http2.Connection(str(daemon.socket_path))
    connection.stream("/glovebox.v1.ExecutionService/Execute", b"", extra=[("x-large", "a" * 12000)])
    assert wait_until(lambda: connection.of(http2.HEADERS) or connection.of(http2.RST_STREAM), 5), connection.frames
    connection.ping()
    assert wait_until(lambda: [f for f in connection.of(http2.PING) if f[1] & http2.ACK], 5), "the connection is gone"
    connection.close()


@pytest.mark.limit(180)
def test_a_builder_that_hangs_is_replaced(daemon):
    """The process that makes cells stops for ever: whoever waits for a cell hears of it, and the next one gets a cell of a new builder."""
    builder = next(p for p in machine.children(daemon.spawner) if pathlib.Path(f"/proc/{p}/comm").read_text() == "gb-builder\n")
    os.kill(builder, signal.SIGSTOP)
    assert daemon.run("echo lost").outcome == "SANDBOX_FAILED"
    assert wait_until(lambda: not machine.alive(builder), 10), "the builder still hangs"
    assert wait_until(lambda: daemon.run("echo fine").stdout == b"fine\n", 10)
    daemon.keepers = daemon.cgroup.pids() - daemon.cell_pids()


def stop_in_construction(builder, is_init):
    """Stops the process that clones a cell's init, or init before it has become its program: either lives for a millisecond or two."""
    for pid in machine.children(builder):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text() != "gb-builder\n" or (len(machine.status_field(pid, "NSpid")) == 2) != is_init:
                continue
            os.kill(pid, signal.SIGSTOP)
            if wait_until(lambda pid=pid: machine.status_field(pid, "State")[0] in "TZ", 1, 0) and machine.alive(pid) and \
                    pathlib.Path(f"/proc/{pid}/comm").read_text() == "gb-builder\n":
                return pid
            os.kill(pid, signal.SIGCONT)  # too late
        except (OSError, KeyError):
            pass
    return 0


@pytest.mark.limit(180)
@pytest.mark.parametrize("what", ["helper", "init"])
def test_a_cell_that_hangs_while_it_is_made_is_given_up(daemon, what):
    """What makes it has the builder's end of the socket, and the builder stands still meanwhile. A hanging init costs no other cell."""
    other = daemon.call("sleep 20; echo slept")
    assert wait_until(lambda: other.of("started"), 10)
    builder = next(p for p in machine.children(daemon.spawner) if pathlib.Path(f"/proc/{p}/comm").read_text() == "gb-builder\n")
    calls, stopped = [], 0
    for _ in range(repeats(40)):
        calls = [daemon.call("true") for _ in range(8)]
        # One may be stopped within a batch alone: until it is over nothing else is made.
        while not stopped and not all(c.of("started") or c.ended for c in calls):
            stopped = stop_in_construction(builder, what == "init")
        for call in calls:
            call.wait()
        if stopped:
            break
    assert stopped, "none could be stopped"
    assert wait_until(lambda: not machine.alive(stopped)), "what hung is still there"
    assert "SANDBOX_FAILED" in {c.outcome for c in calls}, calls
    assert wait_until(lambda: machine.alive(builder) == (what == "init")), daemon.log
    assert wait_until(lambda: daemon.run("echo fine").stdout == b"fine\n", 10), daemon.log
    other.wait()
    assert (other.outcome, other.stdout) == (("COMPLETED", b"slept\n") if what == "init" else ("SANDBOX_FAILED", b"")), other
    daemon.keepers = daemon.cgroup.pids() - daemon.cell_pids()


def test_an_observer_that_hangs_is_replaced(daemon):
    """The process that looks at what idle programs wait for stops for ever: the run ends in time all the same, and a new one looks at the next."""
    observer = next(p for p in machine.children(daemon.spawner) if pathlib.Path(f"/proc/{p}/comm").read_text() == "gb-observer\n")
    os.kill(observer, signal.SIGSTOP)
    first = daemon.run("sleep 60", idle_timeout=0.5)
    assert first.outcome == "IDLE_TIMED_OUT" and "sleeping" not in first.result.message and first.ran < seconds(3), first
    assert wait_until(lambda: not machine.alive(observer), 10), "the observer still hangs"
    second = daemon.run("sleep 60", idle_timeout=0.5)
    daemon.keepers = daemon.cgroup.pids() - daemon.cell_pids()
    assert second.outcome == "IDLE_TIMED_OUT" and "sleeping" in second.result.message, second


def test_a_janitor_that_hangs_is_replaced(daemon):
    """The process that removes cgroups stops for ever: executions go on, and a new one removes what is left."""
    janitor = next(p for p in machine.children(daemon.spawner) if pathlib.Path(f"/proc/{p}/comm").read_text() == "gb-janitor\n")
    os.kill(janitor, signal.SIGSTOP)
    assert daemon.run("echo fine").stdout == b"fine\n"
    assert wait_until(lambda: not machine.alive(janitor), 20), "the janitor still hangs"
    assert wait_until(lambda: daemon.run("echo fine").stdout == b"fine\n", 10)
    daemon.keepers = daemon.cgroup.pids() - daemon.cell_pids()
