"""Each layer by itself. Where it and those that overlap it are off its attack works, so the attack is a real one; where it is the only one
that is not off, of those that can be, the attack fails, so it is this layer that stops it.

What cannot be waived is never off in a cell: there the attack is shown to work outside of all cells, as an ordinary user of the host."""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import types

import pytest

from kit import machine
from range import programs
from range.programs import Tally

OPTIONAL = ["ipc_namespace", "uts_namespace", "network_namespace", "cgroup_namespace", "masked_proc", "no_capabilities", "no_new_privs", "keyring",
            "landlock", "seccomp"]
# What a layer cannot be without.
NEEDS = {"seccomp": ["no_new_privs"], "landlock": ["no_new_privs"], "keyring": ["no_new_privs"]}
STRANGER = 47110815  # a uid that nobody has

# layer, layers that would stop the attack as well, program, what it prints when it works
WAIVABLE = [
    ("seccomp", [], "deny-io-uring.c", "io_uring_setup"),
    ("seccomp", [], "deny-kernel-calls.c", "userfaultfd"),
    ("seccomp", [], "deny-namespaces.c", "clone3 without flags"),
    ("seccomp", [], "deny-sockets.c", "family 16"),
    ("seccomp", [], "deny-core-dump.c", "setrlimit to 0"),
    ("seccomp", [], "deny-parent.c", "a sibling"),
    ("seccomp", [], "deny-host-watch.c", "a signal for each file of /usr"),
    ("seccomp", [], "deny-host-watch.c", "flushing the host's disk by fsync"),
    ("seccomp", ["keyring"], "deny-foreign-abi.c", "int80 getpid"),
    ("landlock", [], "deny-devices.c", "making /workspace/xwhiteout"),
    ("landlock", ["network_namespace"], "deny-host-sockets.py", "an abstract socket of the host '"),
    ("network_namespace", [], "deny-host-sockets.py", "a port of the host '"),
    ("network_namespace", ["landlock"], "deny-host-sockets.py", "an abstract socket of the host '"),
    ("ipc_namespace", [], "deny-shared-facts.c", "the host's shared memory"),
    ("uts_namespace", [], "deny-shared-facts.c", "the host's name"),
    ("cgroup_namespace", [], "deny-shared-facts.c", "the cgroups above"),
    ("masked_proc", [], "deny-kernel-settings.sh", "grep -q . /proc/cmdline"),
    ("masked_proc", [], "deny-kernel-settings.sh", "nothing in /proc/sys opens"),
    ("no_capabilities", [], "deny-identity.c", "capability 21 in the bounding set"),
    ("no_new_privs", ["seccomp", "landlock"], "deny-identity.c", "new privileges ("),
]
FIXED = [
    ("mount_namespace", "deny-host-files.sh", "cat /tmp/"),
    ("pid_namespace", "deny-host-processes.c", "knowing of it"),
    ("private_proc", "deny-host-processes.c", "open /proc/"),
    ("read_only_root", "deny-read-only.c", "open "),
    ("user_namespace", "deny-identity.c", "the host's users by their own numbers"),
    ("closed_descriptors", "deny-descriptors.c", "descriptor 3 is"),
    ("core_limit", "deny-core-dump.c", "limit is not 1 at first"),
]


def name_of(case):
    return f"{case[0]}-{case[-2]}-{case[-1].split(' ')[0]}"


def attack(daemon, host, program):
    program = programs.named(program)
    return Tally(program.run(daemon, args=host.told(program.name), timeout=20))


def check_what_is_told(daemon, waived):
    """A waived layer is never silent: GetInfo and accepted say so, and so does the log."""
    told = {layer.name: layer.in_force for layer in daemon.run("true").accepted.isolation}
    assert {name for name, in_force in told.items() if not in_force} == set(waived), told
    info = {layer.name: layer.in_force for layer in daemon.info().isolation}
    assert info == told
    assert all(f"Layer {name} is waived" in daemon.log for name in waived), daemon.log


def start(make_daemon, waived):
    daemon = make_daemon(waive=machine.missing_controllers() + sorted(waived))
    check_what_is_told(daemon, waived)
    return daemon


@pytest.mark.parametrize("case", WAIVABLE, ids=name_of)
def test_layer_that_can_be_waived(make_daemon, host, case):
    """Off: the attack works. Alone: it fails."""
    layer, overlap, program, name = case
    needed_by = [other for other, needs in NEEDS.items() if layer in needs]
    off = start(make_daemon, {layer, *overlap, *needed_by})
    attack(off, host, program).check_some_escaped(name)
    if program == "deny-host-sockets.py":
        assert host.visited(), "nobody came to the host's socket"
    off.stop()
    alone = start(make_daemon, set(OPTIONAL) - {layer, *NEEDS.get(layer, [])})
    tally = attack(alone, host, program)
    host.visited()
    assert tally.lines and not [line for line in tally.escaped if line.startswith(f"ESCAPED {name}")], tally.escaped
    assert any(line.startswith("refused " + name.rstrip("'( ")) for line in tally.refused), tally.lines


def test_keyring(make_daemon):
    """Off, one cell reads what another left in the session keyring of both; alone, nothing can be left, and nothing is found."""
    program = programs.named("left-keys.c")
    off = start(make_daemon, {"keyring", "seccomp"})
    left = program.run(off, args=["leave"])
    assert left.stdout.startswith(b"left ") and b"left -1" not in left.stdout, left
    Tally(program.run(off, args=["look"])).check_some_escaped("a key of another cell")
    off.stop()
    for alone in ({"keyring", "no_new_privs"}, {"seccomp", "no_new_privs"}):
        daemon = start(make_daemon, set(OPTIONAL) - alone)
        program.run(daemon, args=["leave"])
        Tally(program.run(daemon, args=["look"])).check_all_refused(1)
        daemon.stop()


def outside(folder, program, arguments, uid=STRANGER):
    """Runs the attack on the host itself, outside of all cells, as a user that has nothing."""
    code, files = program.request("bash")
    for name, content in files.items():
        executable = isinstance(content, tuple)
        (folder / name).write_bytes(content[0] if executable else content)
        (folder / name).chmod(0o755 if executable else 0o644)
    (folder / "main").write_text(code)
    os.chown(folder, uid, uid)
    fds = [os.open("/etc", os.O_RDONLY)] if program.name == "deny-descriptors.c" else []

    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number, fd in enumerate(fds, 3):
            os.dup2(fd, number)
            os.set_inheritable(number, True)

    done = subprocess.run(["/bin/bash", "main", *arguments], cwd=folder, user=uid, group=uid, extra_groups=[], capture_output=True, timeout=60,
                          stdin=subprocess.DEVNULL, preexec_fn=prepare, close_fds=not fds)
    for fd in fds:
        os.close(fd)

    return Tally(types.SimpleNamespace(stdout=done.stdout, stderr=done.stderr, outcome="COMPLETED", status=done.returncode))


@pytest.fixture(scope="module")
def only_what_cannot_be_waived():
    """A daemon without any layer that can be waived; shared by the tests of those that cannot."""
    from kit.daemon import Daemon
    daemon = Daemon(waive=machine.missing_controllers() + OPTIONAL).start()
    yield daemon
    daemon.stop()
    daemon.remove()


@pytest.mark.parametrize("case", FIXED, ids=name_of)
def test_layer_that_is_always_there(only_what_cannot_be_waived, host, tmp_path, case):
    """Outside of a cell the attack works; with all waived that can be, it fails."""
    layer, name, escaped = case
    program = programs.named(name)
    arguments = host.told(name)
    for parent in (tmp_path, *tmp_path.parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    if name == "deny-read-only.c":
        victim = tmp_path / "victim"
        victim.write_bytes(b"x" * 8192)
        os.chown(victim, STRANGER, STRANGER)
        arguments = [str(victim)]
    outside(tmp_path, program, arguments).check_some_escaped(escaped)
    tally = attack(only_what_cannot_be_waived, host, name)
    bad = [line for line in tally.escaped if line.startswith(f"ESCAPED {escaped}")]
    assert tally.lines and not bad and (layer == "closed_descriptors" or any(escaped in line for line in tally.refused)), tally.lines


def test_separate_uids(only_what_cannot_be_waived):
    """A process of one cell's user cannot end one of another cell, even from where it sees it; one of the same user can."""
    daemon = only_what_cannot_be_waived
    calls = [daemon.call("echo up; exec sleep 30") for _ in range(2)]
    for call in calls:
        call.until_output(b"up\n")
    sleeping = lambda: [p for p in daemon.run_pids() if machine.program(p) == "sleep"]  # noqa: E731
    assert machine.wait_until(lambda: len(sleeping()) == 2, 5), sleeping()
    first, second = sleeping()
    uid = int(machine.status_field(first, "Uid")[0])

    def end(pid):
        code = f"import os, signal\ntry:\n    os.kill({pid}, signal.SIGKILL)\nexcept OSError as e:\n    raise SystemExit(e.errno)"
        return subprocess.run([sys.executable, "-c", code], user=uid, group=uid, extra_groups=[]).returncode
    assert end(second) == 1, "EPERM was expected"
    assert machine.alive(second)
    assert end(first) == 0 and machine.wait_until(lambda: not machine.alive(first), 2)
    assert machine.wait_until(lambda: any(call.ended for call in calls), 5), calls
    for call in calls:
        daemon.cancel(call.id)
        call.wait()
    assert sorted(c.outcome for c in calls) == ["CANCELLED", "SIGNALED"] and signal.SIGKILL in [c.result.signal for c in calls]


def test_a_sibling_of_the_main_process_is_buried(make_daemon):
    """Without seccomp a program can make children of the spawner's (CLONE_PARENT): their cells end all the same, and their places come back."""
    daemon = make_daemon(config={"spawner": {"max-cells": 2}}, waive=machine.missing_controllers() + ["seccomp"])
    code = "import ctypes, os\nfor _ in range(20):\n    ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0) or os._exit(0)\nprint('made')"
    for _ in range(6):
        assert daemon.run(code, "python").stdout == b"made\n"
    assert machine.wait_until(lambda: not [p for p in machine.children(daemon.spawner) if machine.status_field(p, "State")[0] == "Z"], 3)


def test_the_table_is_whole(daemon):
    """Every layer that is told of has its test here; and those that are said to be optional can be waived, the others cannot."""
    told = {layer.name for layer in daemon.info().isolation}
    tested = {case[0] for case in WAIVABLE + FIXED} | {"keyring", "separate_uids"}
    assert told - {"cgroup"} == tested, told ^ tested  # cgroup: freeze, kill and accounting have their tests with the limits
    spawner = pathlib.Path(programs.BUILD) / "bin" / "glovebox-spawner"
    for name in sorted({case[0] for case in FIXED} | {"separate_uids", "cgroup", "nonsense"}):
        done = subprocess.run([spawner, "--waive", name, "--check"], capture_output=True, text=True)
        assert done.returncode != 0 and "cannot be waived" in done.stderr, (name, done)
