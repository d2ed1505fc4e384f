"""Rooms of trust: what each program may do, and what never passes between them."""
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from kit import machine
from kit.daemon import BUILD
from kit.machine import wait_until

# Names of capabilities by number, as far as the spawner may hold them.
SPAWNER_MAY = {0: "chown", 1: "dac_override", 2: "dac_read_search", 3: "fowner", 5: "kill", 6: "setgid", 7: "setuid", 8: "setpcap",
               12: "net_admin", 18: "sys_chroot", 19: "sys_ptrace", 21: "sys_admin", 23: "sys_nice", 24: "sys_resource", 27: "mknod"}


def capabilities(pid, which):
    mask = int(machine.status_field(pid, which)[0], 16)
    return {n for n in range(64) if mask >> n & 1}


def running(daemon):
    call = daemon.call("echo up; sleep 30")
    call.until_output(b"up\n")
    return call


def end(daemon, call):
    daemon.cancel(call.id)
    call.wait()


def test_server_is_nobody(daemon):
    """The server: not root, no group of root, no capability, cannot get any."""
    pid = daemon.server
    assert "0" not in machine.status_field(pid, "Uid") + machine.status_field(pid, "Gid") + machine.status_field(pid, "Groups")
    for which in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert not capabilities(pid, which), which
    assert machine.status_field(pid, "NoNewPrivs") == ["1"]
    if "libasan" not in open(f"/proc/{pid}/maps").read():
        assert machine.status_field(pid, "Seccomp") == ["2"], "the server could start processes"


def test_server_never_forks(daemon):
    """The server has no child, before, during and after executions."""
    call = running(daemon)
    assert not machine.children(daemon.server)
    end(daemon, call)
    assert not machine.children(daemon.server)


def test_spawner_holds_only_what_it_needs(daemon):
    """The spawner's capabilities are a short list; those that would give the machine away otherwise are not in it, nor in its bounding set."""
    for which in ("CapPrm", "CapEff", "CapBnd"):
        extra = capabilities(daemon.spawner, which) - set(SPAWNER_MAY)
        assert not extra, (which, extra)
    assert not capabilities(daemon.spawner, "CapAmb")


def test_spawner_listens_to_the_server_alone(daemon):
    """Another uid cannot talk to the spawner, and root that says nonsense is cut off without harm."""
    path = str(daemon.state / "spawner.sock")
    code = (f"import os, socket\nos.setgroups([]); os.setgid(4711); os.setuid(4711)\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            f"s.settimeout(3)\ns.connect({path!r})\ns.send(b'x')\nassert s.recv(10) == b''")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 0 or b"PermissionError" in done.stderr or b"ConnectionReset" in done.stderr or b"BrokenPipe" in done.stderr, done
    pid = daemon.spawner
    for data in (b"", b"\xff" * 60000, b"\x12\x02\x08\x63", b"x"):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(3)
        s.connect(path)
        try:
            s.send(data)
            s.recv(10)
        except OSError:
            pass
        s.close()
    assert daemon.spawner == pid and daemon.run("echo fine").stdout == b"fine\n"


def test_server_has_no_way_into_a_cell(daemon):
    """While a cell runs the server holds pipes and cgroup files of it: no socket, no folder, no process handle, no file of a cell."""
    before = {t for t in machine.descriptors(daemon.server).values() if t.startswith("socket:")}
    call = running(daemon)
    now = machine.descriptors(daemon.server)
    new_sockets = {t for t in now.values() if t.startswith("socket:")} - before
    assert len(new_sockets) <= 1, "sockets that came with a cell"
    for number, target in now.items():
        assert not target.startswith(("/workspace", "/proc/")) and "pidfd" not in target, target
        if target.startswith("/"):
            assert not os.path.isdir(target) or target in ("/", str(BUILD / "lib" / "glovebox")), target
    cell = daemon.cell_pids()
    assert len(cell) >= 2
    inside = {t for pid in cell for t in machine.descriptors(pid).values()}
    assert not {t for t in inside if t.startswith("socket:")}, "a process in a cell holds a socket"
    shared = {t for t in inside & set(now.values()) if not t.startswith(("pipe:", "/dev/null"))}
    assert not shared, shared
    end(daemon, call)


def test_servers_user_cannot_look_into_a_cell(daemon):
    """Somebody with the server's uid finds no way to a cell's files, memory or environment through /proc."""
    call = running(daemon)
    uid = int(machine.status_field(daemon.server, "Uid")[0])
    pids = sorted(daemon.cell_pids())
    code = f"""
import os
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
for pid in {pids!r}:
    for name in ('root', 'cwd', 'environ', 'mem', 'fd', 'maps', 'ns/mnt'):
        path = f'/proc/{{pid}}/{{name}}'
        try:
            os.listdir(path) if name in ('root', 'cwd', 'fd') else os.readlink(path) if name == 'ns/mnt' else open(path, 'rb').read(1)
            print('REACHED', path)
        except OSError:
            pass
    try:
        os.kill(pid, 0)
        print('SIGNAL', pid)
    except OSError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"", done.stdout
    end(daemon, call)


def test_standalone_is_small(daemon):
    """glovebox-standalone has one thread and no gRPC in it."""
    assert machine.thread_count(daemon.process.pid) == 1
    maps = pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()
    assert "libgrpc" not in maps
    assert "libgrpc" not in pathlib.Path(f"/proc/{daemon.spawner}/maps").read_text()
    assert "libgrpc" in pathlib.Path(f"/proc/{daemon.server}/maps").read_text()


def test_second_instance_refuses(daemon):
    """A second spawner on the same state folder refuses with one clear line, and the first goes on."""
    from kit.daemon import BUILD
    done = subprocess.run([str(BUILD / "bin" / "glovebox-spawner"), "--state", str(daemon.state / "spawner"), "--config",
                           str(daemon.config_file), "--waive", ",".join(daemon.waive)], capture_output=True, timeout=20)
    assert done.returncode != 0 and str(daemon.state).encode() in done.stderr, done
    other = subprocess.run(daemon.command(), capture_output=True, timeout=20)
    assert other.returncode != 0 and str(daemon.state).encode() in other.stderr, other
    assert daemon.run("echo fine").stdout == b"fine\n"


@pytest.mark.parametrize("text, words", [
    ("[server]\nmax-exections = 4\n", ["glovebox.conf:2", "max-exections", "max-executions"]),
    ("[servr]\n", ["glovebox.conf:1", "servr"]),
    ("[server]\nmax-executions = many\n", ["glovebox.conf:2", "max-executions"]),
    ("[limits]\ntimeout = 2h\n[caps]\ntimeout = 1h\n", ["timeout"]),
    ("[spawner]\nuid-range = 0:65536\n", ["uid-range"]),
])
def test_wrong_config_stops_the_start(make_daemon, text, words):
    """A wrong configuration ends the start with a line that names file, line and cure, instead of a restart for ever."""
    daemon = make_daemon(start=False)
    daemon.config_file.write_text(text)
    daemon.spawn()
    assert daemon.process.wait(machine.seconds(15)) != 0
    wait_until(lambda: all(w in daemon.log for w in words), 2)
    assert all(w in daemon.log for w in words), daemon.log


def test_missing_controllers_are_an_error_unless_waived(make_daemon):
    """Without the waiver a machine that lacks a controller is refused with a line that names it and the flag."""
    missing = machine.missing_controllers()
    daemon = make_daemon(start=False, waive=[])
    daemon.spawn()
    if not missing:
        assert daemon.out.wait(lambda line: line.startswith("ready"), machine.seconds(20))
        return
    assert daemon.process.wait(machine.seconds(15)) != 0
    wait_until(lambda: "--waive" in daemon.log, 2)
    assert "--waive" in daemon.log and all(c in daemon.log for c in missing), daemon.log


def test_unknown_waiver_is_an_error(make_daemon):
    """A misspelt waiver is not taken for one."""
    daemon = make_daemon(start=False, waive=[*machine.missing_controllers(), "memroy"])
    daemon.spawn()
    assert daemon.process.wait(machine.seconds(15)) != 0
    wait_until(lambda: "memroy" in daemon.log, 2)
    assert "memroy" in daemon.log


@pytest.mark.parametrize("given, inside", [(10, 10), (-5, 0)])
def test_priority_of_the_daemon(make_daemon, given, inside):
    """Started nicer the daemon serves and its cells are as nice; started with a better priority than the default, cells do not get it."""
    daemon = make_daemon(start=False)
    command = ["nice", "-n", str(given - os.nice(0)), *daemon.command()]
    daemon.command = lambda: command
    daemon.start()
    assert daemon.run("nice").stdout == b"%d\n" % inside
