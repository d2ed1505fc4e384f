"""A zygote runs code of third parties, so it may be taken over: what it can do to the host, and what its lies do to the spawner. The attacks are in
compromised_zygote.py, which takes the place of the interpreter in a runtime of the test's own."""
import ctypes
import os
import pathlib
import re
import signal
import socket

import pytest

from kit import machine
from kit.machine import wait_until

HERE = pathlib.Path(__file__).resolve().parent
# Also the pids of the spawner's own helpers, which are its children as the zygote's are.
LIES = ["spawner", "itself", "none", "negative", "far", "thread", *[str(n) for n in range(1, 5)]]


@pytest.fixture
def host():
    """A service on the host's loopback, and one with an abstract name."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix:
        name = f"glovebox-test-{os.getpid()}"
        unix.bind("\0" + name)
        unix.listen()
        yield {"HOST_PORT": tcp.getsockname()[1], "HOST_ABSTRACT": name}


def zygotes(daemon):
    return [p for p in daemon.cgroup.pids() - daemon.cell_pids() if machine.is_zygote(p) and machine.program(p)]


@pytest.fixture
def taken_over(make_daemon, host):
    def make(attack):
        code = (HERE / "compromised_zygote.py").read_bytes().hex()
        pieces = [code[at:at + 180] for at in range(0, len(code), 180)]
        args = ["-c exec(bytes.fromhex(''.join(__import__('sys').argv[1:-1])))", *pieces, "{code}"]
        # Before Linux 6.12 there is nothing that could keep it from signals to users of its namespace.
        scopes = {"LANDLOCK_SCOPES": "yes"} if ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6 else {}
        env = [f"{k}={v}" for k, v in {"ATTACK": attack, "PATH": "/usr/bin:/bin", **host, **scopes}.items()]
        runtime = {"exec": "/usr/bin/python3", "args": args, "code-name": "x.py", "runner": "yes", "zygote": "yes", "env": env}
        # The code runs in every interpreter of the runtime; only in the zygote's place does it find a socket.
        return make_daemon(runtimes={"rogue": runtime})
    return make


def test_a_zygote_has_no_right_on_the_host(taken_over):
    daemon = taken_over("all")
    others = [daemon.call("sleep 25") for _ in range(3)]
    daemon.run("x", "rogue")  # it starts when it is wanted
    # Meanwhile cells are being made, of this runtime and another.
    assert wait_until(lambda: daemon.many(4, "x", "rogue") and daemon.many(2, "true") and "attacks, these succeed" in daemon.log, 30), daemon.log
    for call in others:
        daemon.cancel(call.id)
        call.wait()
    count, found = re.search(r"(\d+) attacks, these succeed: ([^)]*)\)", daemon.log).groups()
    assert int(count) >= 20 and found == "", found


@pytest.mark.parametrize("lie", LIES)
def test_a_zygote_that_lies_about_its_child_is_not_believed(taken_over, lie):
    """The execution is started without it, and what it named is left alone."""
    daemon = taken_over(f"lie:{lie}")
    pids = {name: daemon.child(name) for name in ("glovebox-spawner", "gloveboxd")}
    calls = [daemon.run("x", "rogue")]  # the zygote starts when it is wanted
    assert wait_until(lambda: zygotes(daemon), 20), daemon.log
    wait_until(lambda: False, 1)
    calls += [daemon.run("x", "rogue") for _ in range(3)]
    assert {c.outcome for c in calls} == {"FAILED"}, [c.result for c in calls]  # there is no socket for the code in a cell
    assert pids == {name: daemon.child(name) for name in pids}
    # Who comes before the zygote serves does not ask it.
    assert wait_until(lambda: "named a process that is none of its own" in daemon.log or not daemon.run("x", "rogue"), 20, 0.5), daemon.log


def test_a_child_that_has_died_before_it_is_named_is_no_lie(taken_over):
    """Cells that go meanwhile have the spawner reap what it does not know. The zygote stays, and the execution starts without it."""
    daemon = taken_over("lie:dead")

    def rogues():
        return [p for p in zygotes(daemon) if runtime_of(p) == "rogue"]

    daemon.run("x", "rogue")  # the zygote starts when it is wanted
    assert wait_until(rogues, 20), daemon.log
    before, = rogues()

    def asked():  # who comes before the zygote serves does not ask it
        call = daemon.call("x", "rogue")
        assert wait_until(lambda: daemon.run("true") and call.of("result"), 20), call  # each cell that goes has the spawner look
        assert call.wait().outcome == "FAILED", call  # there is no socket for the code in a cell
        return pathlib.Path(f"/proc/{before}/comm").read_text() == "asked-3\n"
    assert wait_until(asked, 30), daemon.log
    assert rogues() == [before] and "named a process" not in daemon.log, daemon.log


def test_what_the_host_sees_of_a_zygote(daemon):
    daemon.run("print(1)", "python")
    assert wait_until(lambda: zygotes(daemon), 20), daemon.log
    spawner = pathlib.Path(f"/proc/{daemon.spawner}")
    for pid in zygotes(daemon):
        proc = pathlib.Path(f"/proc/{pid}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
        assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split() and not status["Groups"].split()
        assert status["NoNewPrivs"] == "1" and status["Threads"] == "1"
        assert int(status["CapPrm"], 16) == 1 << 6 | 1 << 7 | 1 << 8 | 1 << 18 | 1 << 21  # SETGID SETUID SETPCAP SYS_CHROOT SYS_ADMIN, of its own namespace
        assert int(status["CapBnd"], 16) == int(status["CapPrm"], 16)
        for kind in ("user", "mnt", "net", "ipc", "uts"):
            assert os.readlink(proc / "ns" / kind) != os.readlink(spawner / "ns" / kind), kind
            assert os.readlink(proc / "ns" / kind) != os.readlink(f"/proc/self/ns/{kind}"), kind
        wait_until(lambda: set(machine.descriptors(pid)) == {0, 1, 2, 3}, 20)  # it may be importing still
        open_files = machine.descriptors(pid)
        assert set(open_files) == {0, 1, 2, 3} and open_files[3].startswith("socket:"), open_files
        assert (proc / "oom_score_adj").read_text() == "1000\n"


def runtime_of(zygote):
    """Of a daemon of this file: rogue has no modules to preload, which are named last."""
    return "rogue" if pathlib.Path(f"/proc/{zygote}/cmdline").read_bytes().endswith(b"\0--zygote\0") else "other"


def test_the_successor_of_a_zygote_that_lies_late_goes_on(taken_over):
    """Only who told it is killed: another one serves when the answer comes."""
    daemon = taken_over("lie:late")

    def rogues():
        return {p for p in machine.children(daemon.spawner) if machine.is_zygote(p) and machine.program(p) and runtime_of(p) == "rogue"}

    daemon.run("x", "rogue")  # it starts when it is wanted
    first = wait_until(rogues, 20)
    assert first and len(first) == 1, daemon.log
    late, answered = [], daemon.log.count("named a process")

    def asked():  # who comes before the zygote serves does not ask it
        late.append(daemon.call("x", "rogue"))
        return not wait_until(lambda: late[-1].of("started"), 1)
    assert wait_until(asked, 20), daemon.log
    daemon.process.send_signal(signal.SIGHUP)
    both = wait_until(lambda: len(rogues()) == 2 and rogues(), 2)
    assert both, daemon.log
    assert wait_until(lambda: daemon.log.count("named a process") > answered, 10), daemon.log
    for call in late:
        call.wait()
    assert wait_until(lambda: rogues() == both - first, 5), daemon.log
    assert not wait_until(lambda: rogues() != both - first, 2), daemon.log
