"""A server that was taken over: what its user can do to the spawner by talking to it, and to cells and the host beside it. The attacks are in
compromised_server.py, which runs with the server's ids and nothing else. And the spawner's own rights: each is needed, none is spare."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from kit import machine
from kit.daemon import BUILD, Cgroup, Lines, write_config
from kit.machine import seconds, wait_until
from kit.stubs import SOURCE

HERE = pathlib.Path(__file__).resolve().parent
SPARE_UID = 65533
MAX_CELLS = 6
CAPABILITIES = {0: "CHOWN", 5: "KILL", 18: "SYS_CHROOT", 19: "SYS_PTRACE", 21: "SYS_ADMIN"}
DAC_OVERRIDE = 1


@pytest.fixture(scope="module")
def attacker():
    """attacker(name, uid, gid, **arguments) runs one attack and returns what it found."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-attacker-"))
    folder.chmod(0o755)
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", str(SOURCE / "proto" / "internal"), f"--python_out={folder}", "spawner.proto"],
                   check=True)
    shutil.copy(HERE / "compromised_server.py", folder)

    def attack(name, uid, gid, deadline=90, **arguments):
        done = subprocess.run([sys.executable, str(folder / "compromised_server.py"), name, json.dumps(arguments)], user=uid, group=gid, extra_groups=[],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds(deadline), cwd="/")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    yield attack
    shutil.rmtree(folder)


class Spawner:
    """The real spawner, without a server: the attacker is its server."""

    def __init__(self, environment=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-spawner-"))
        self.folder.chmod(0o755)
        self.state = self.folder / "state"
        self.path = str(self.state / "spawner.sock")
        write_config(self.folder / "glovebox.conf", {"spawner": {"driver": "cgroupfs", "max-cells": MAX_CELLS, "spare-uid": SPARE_UID, "pool": "no"}})
        self.cgroup = Cgroup()
        waive = machine.missing_controllers()
        self.process = subprocess.Popen(
            [str(BUILD / "bin" / "glovebox-spawner"), "--state", str(self.state), "--config", str(self.folder / "glovebox.conf"),
             *(["--waive", ",".join(waive)] if waive else [])],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **(environment or {})}, preexec_fn=self.cgroup.enter)
        self.err = Lines(self.process.stderr)

    def wait_ready(self):
        assert self.err.wait(lambda line: line.endswith("Ready."), seconds(20)), self.log
        self.gid = os.stat(self.path).st_gid
        self.uid = SPARE_UID
        try:
            import pwd
            self.uid = pwd.getpwnam("glovebox").pw_uid
        except KeyError:
            pass
        self.descriptors = len(machine.descriptors(self.process.pid))
        self.size = machine.rss(self.process.pid)
        return self

    @property
    def log(self):
        return "\n".join(self.err.lines)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(seconds(20))
        finally:
            self.process.kill()
            for _ in self.err.lines:
                pass
            left = not wait_until(lambda: not self.cgroup.pids(), 5)
            self.cgroup.remove()
            shutil.rmtree(self.folder)
        assert not left

    def check(self):
        """It lives, and nothing of any cell is left."""
        assert self.process.poll() is None, self.log
        assert wait_until(lambda: not self.cgroup.folders("cell-"), 15), self.cgroup.folders("cell-")
        assert wait_until(lambda: len(machine.descriptors(self.process.pid)) <= self.descriptors + 1, 5), machine.descriptors(self.process.pid)
        machine.assert_grown_less(self.process.pid, self.size, 32 << 20)


@pytest.fixture
def spawner():
    spawner = Spawner().wait_ready()
    try:
        yield spawner
        spawner.check()
    finally:
        spawner.stop()


@pytest.fixture
def attack(attacker, spawner):
    """attack(name, **arguments) on the spawner, with the server's ids."""
    return lambda name, **arguments: attacker(name, spawner.uid, spawner.gid, path=spawner.path, **arguments)


# What it can say to the spawner.

def test_second_connection_is_refused(daemon, attacker):
    """While the server is connected nobody else is, and the server notices nothing."""
    path = str(daemon.state / "spawner.sock")
    ids = [int(machine.status_field(daemon.server, key)[0]) for key in ("Uid", "Gid")]
    call = daemon.call("sleep 2; echo done")
    for _ in range(5):
        assert attacker("second_connection", *ids, path=path) == {"closed": True}
    assert call.wait(30).outcome == "COMPLETED"


def test_other_users_are_refused(spawner, attacker):
    """By the mode of the socket, and where that lets them through by who they are."""
    assert attacker("connect", 12345, 12345, path=spawner.path)["connect"].startswith("refused")
    assert attacker("connect", 12345, spawner.gid, path=spawner.path)["connect"] == "got 'closed at once'"


def test_garbage_ends_the_connection(attack):
    """Neither garbage nor what is only out of place does more than that."""
    results = attack("garbage")
    assert len(results) > 15 and all(results.values()), results


def test_descriptors_are_not_taken(attack):
    """Nor can one that blocks whoever closes it be left with the spawner."""
    results = attack("descriptors")
    assert len(results) == 5
    assert all(r == "closed" or r.startswith("refused") for r in results.values()), results


@pytest.mark.parametrize("read", [True, False], ids=["reading", "not-reading"])
def test_ten_thousand_cells(attack, spawner, read):
    """There are never more than the operator allows, and a server that does not read its answers is dropped."""
    result = attack("storm", count=10000, read=read)
    assert result["max_cells"] == MAX_CELLS
    if read:
        assert result["sent"] == 10000 and not result["ended"], result
        assert result["failed"] >= 10000 - 10 * MAX_CELLS, result
    else:
        assert "does not read its messages" in spawner.log or "closed it" in spawner.log
    assert len(spawner.cgroup.folders("cell-")) <= MAX_CELLS


def test_caps_are_checked_again(attack):
    """Whatever the server asks for, for a cell or for a run in one."""
    results = attack("above_caps")
    assert len(results) == 10 and set(results.values()) == {"caps of the spawner"}, results


def test_limits_that_are_no_limits(attack):
    """NaN, infinity, nothing, less than nothing."""
    results = attack("nonsense")
    assert len(results) == 11 and all(results.values()), results


def test_names_of_runtimes_are_no_paths(attack):
    """What is not the name of a configured runtime is refused; a NUL ends the name."""
    results = attack("names")
    assert len(results) == 9
    assert results.pop("bash\0/x") == "cell_closed"  # a cell of bash's
    assert set(results.values()) == {"runtimes of the spawner"}, results


def test_tags_do_not_forge_the_log(attack, spawner):
    """They end the connection before they get there."""
    results = attack("tags")
    assert len(results) == 4 and all(results.values()), results
    assert not re.search(r"^(glovebox-spawner: )?forged|\x1b", spawner.log, re.MULTILINE), spawner.log


def test_messages_at_the_wrong_time(attack):
    """Only the cell suffers that they name; nothing happens to others."""
    assert attack("confusion") == {
        "StartRun twice": "StartRun", "EndRun without a run": "EndRun", "EndRun of another run": "EndRun", "the first run": "alive",
        "MainOver without a run": "MainOver", "MainOver twice": 9, "the end of its run": "told", "MainOver of a run that has ended": "MainOver",
        "OpenCell twice": "closed"}


def test_flood(attack, spawner):
    """Five seconds of packets as fast as they go: cells are made and ended all the while."""
    result = attack("flood", seconds=5)
    assert result["packets"] > 10000 and result["cells"] > 3, result
    assert result["answer"] < seconds(1), result


def test_complaints_do_not_fill_the_log(attack, spawner):
    """A thousand cells that fail are a few lines."""
    before = len(spawner.err.lines)
    assert attack("complaints", count=1000) == {"failed": 1000}
    assert 5 < len(spawner.err.lines) - before < 60, spawner.log


# What it can do beside that.

@pytest.fixture
def running(daemon):
    """A cell that runs: its processes, and the ids of the server."""
    call = daemon.call("exec sleep 60")
    assert wait_until(lambda: [p for p in daemon.run_pids() if machine.program(p) == "sleep"], 20)
    main = next(p for p in daemon.run_pids() if machine.program(p) == "sleep")
    init = next(p for p in daemon.cell_pids() - daemon.run_pids())
    helpers = {pathlib.Path(f"/proc/{p}/comm").read_text().strip(): p for p in machine.children(daemon.spawner)}
    pids = {"main": main, "init": init, "spawner": daemon.spawner, "builder": helpers["gb-builder"], "janitor": helpers["gb-janitor"],
            "standalone": daemon.process.pid}
    ids = [int(machine.status_field(daemon.server, key)[0]) for key in ("Uid", "Gid")]
    yield daemon, pids, ids
    assert call.ended is None, "the cell was ended"
    daemon.cancel(call.id)
    call.wait(20)


def got(results):
    return {what: result for what, result in results.items() if not result.startswith("refused")}


def test_processes_are_out_of_reach(running, attacker):
    """Of cells and of the spawner: no memory, namespace, root, descriptor, signal or tracing. Among them are the builder's and the janitor's sockets."""
    daemon, pids, ids = running
    results = attacker("processes", *ids, pids=pids)
    assert len(results) > 300
    harmless = re.compile(r": (open (stat|status)|list root/)$")
    reached = {what: r for what, r in got(results).items() if not harmless.search(what)}
    assert not reached, reached
    for pid in pids.values():
        assert machine.alive(pid)


def test_these_attacks_work_where_they_may(attacker):
    """On a process of the same user: so it is the wall that refuses the others, and not the attack that is wrong."""
    victim = subprocess.Popen(["sleep", "60"], user=SPARE_UID, group=SPARE_UID, extra_groups=[])
    try:
        results = attacker("processes", SPARE_UID, SPARE_UID, pids={"own": victim.pid})
        for what in ("open mem", "read link root", "list fd", "open root/etc/passwd", "open ns/mnt", "kill", "pidfd_send_signal", "ptrace seize"):
            assert results[f"own: {what}"].startswith("got"), (what, results)
    finally:
        victim.kill()
        victim.wait()


def test_files_are_out_of_reach(running, attacker):
    """The host's secrets, the state folder, and the cgroups of cells beyond the files it was handed."""
    daemon, pids, ids = running
    cell = next(f for f in daemon.cgroup.folders("cell-"))
    leaf = next(f for f in daemon.cgroup.folders("run-"))
    secret = daemon.folder / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    read = ["/etc/shadow", "/proc/kcore", "/proc/1/environ", "/dev/mem", "/dev/kmsg", str(secret), str(daemon.state / "spawner")]
    write = ["/etc/passwd", str(daemon.config_file), "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
             *[str(f / n) for f in (cell, leaf, cell.parent) for n in ("cgroup.procs", "cgroup.freeze", "cgroup.kill", "cgroup.threads")],
             str(daemon.cgroup.path / "cgroup.procs"), str(leaf / "cgroup.max.depth")]
    folders = [str(f) for f in (cell, leaf, cell.parent, daemon.state, daemon.folder, "/usr", "/etc")]
    results = attacker("files", *ids, read=read, write=write, folders=folders)
    assert len(results) > 30 and not got(results), got(results)


def test_standalone_receives_nothing_from_it(daemon, attacker):
    """Once it serves: its messages could carry a socket that blocks root's process."""
    ids = [int(machine.status_field(daemon.server, key)[0]) for key in ("Uid", "Gid")]
    assert attacker("notify", *ids, path=str(daemon.state / "notify.sock"))["notify"] == "refused: Broken pipe"


# The spawner's own rights.

def capability_set(pid, field):
    return int(machine.status_field(pid, field)[0], 16)


def test_rights_of_the_spawner_and_its_helpers(daemon):
    """No more than the capabilities that it cannot do without, none to be gained, and no network."""
    most = sum(1 << c for c in CAPABILITIES) | 1 << DAC_OVERRIDE
    helpers = {pathlib.Path(f"/proc/{p}/comm").read_text().strip(): p for p in machine.children(daemon.spawner)}
    for name, pid, may in (("spawner", daemon.spawner, most), ("builder", helpers["gb-builder"], most & ~(1 << 0 | 1 << 19 | 1 << DAC_OVERRIDE)),
                           ("janitor", helpers["gb-janitor"], 0)):
        for field in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert capability_set(pid, field) & ~may == 0, f"{name}: {field} {capability_set(pid, field):x}"
        assert capability_set(pid, "CapBnd") & ~most == 0, f"{name}: {capability_set(pid, 'CapBnd'):x}"
        assert machine.status_field(pid, "NoNewPrivs") == ["1"], name
        interfaces = [line.split(":")[0].strip() for line in pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]]
        if name != "janitor":
            assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"), name
            assert not pathlib.Path(f"/proc/{pid}/net/route").read_text().splitlines()[1:], (name, interfaces)


@pytest.mark.parametrize("number, lost", [
    (0, 'at step "pipes": Operation not permitted'),
    (5, "Failed to kill the init of cell"),
    (18, 'at step "join the template": Operation not permitted'),
    (19, 'at step "file systems": Permission denied'),
    (21, "cannot make the template of the cells"),
], ids=CAPABILITIES.values())
def test_each_capability_is_needed(number, lost):
    """Without it the start fails, or a cell's init cannot be killed directly."""
    spawner = Spawner({"GLOVEBOX_TEST_WITHOUT_CAPABILITY": str(number)})
    try:
        assert spawner.err.wait(lambda line: lost in line, seconds(20)), spawner.log
    finally:
        spawner.stop()
