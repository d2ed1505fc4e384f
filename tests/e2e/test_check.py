"""glovebox-spawner --check: every layer attacked from inside a cell, what is missing by name, cause and cure; and the start that refuses.

GLOVEBOX_TEST_BREAK makes the spawner build cells without a layer while it believes the layer is there: what the probes do not find out
then, they would not find out on a machine that breaks it either."""
import errno
import json
import os
import signal
import subprocess
import time

import pytest

from kit import machine
from kit.daemon import BUILD, Cgroup
from kit.filter import fail_call
from kit.machine import seconds, wait_until

SPAWNER = str(BUILD / "bin" / "glovebox-spawner")
CONTROLLERS = list(machine.CONTROLLERS)
# Those that cells can be made without, with the words of the attack that must find it out.
BREAKABLE = {
    "ipc_namespace": "IPC namespace",
    "uts_namespace": "UTS namespace",
    "network_namespace": "network namespace",
    "cgroup_namespace": "cgroup namespace",
    "masked_proc": "/proc",
    "no_capabilities": "capability",
    "no_new_privs": "set-uid",
    "keyring": "session keyring",
    "landlock": "Landlock",
    "seccomp": "io_uring",
}
LAYERS = {
    "user_namespace", "mount_namespace", "pid_namespace", "read_only_root", "private_proc", "separate_uids", "closed_descriptors",
    "core_limit", "cgroup", *BREAKABLE,
}


@pytest.fixture
def cgroup():
    """A cgroup of the test's own: when it is over nothing may be in it, neither processes nor folders."""
    cgroup = Cgroup()
    yield cgroup
    try:
        assert wait_until(lambda: not cgroup.pids(), 3), {p: machine.program(p) for p in cgroup.pids()}
        assert not cgroup.folders(), cgroup.folders()
    finally:
        for pid in cgroup.pids():
            os.kill(pid, 9)
        wait_until(lambda: not cgroup.pids(), 3)
        cgroup.remove()


def run(cgroup, *arguments, wrapper=(), environment=None, before=None):
    def enter():
        cgroup.enter()
        if before:
            before()
    return subprocess.run([*wrapper, SPAWNER, *arguments], capture_output=True, text=True, timeout=seconds(60), preexec_fn=enter,
                          env={**os.environ, **(environment or {})})


def check(cgroup, waive=None, **how):
    """(exit status, the JSON, layers by name). What this machine has not is waived unless told otherwise."""
    waive = machine.missing_controllers() if waive is None else waive
    done = run(cgroup, "--check", "--json", *(["--waive", ",".join(waive)] if waive else []), **how)
    assert done.returncode in (0, 1) and done.stdout, done
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["complete"] else 1), (done.returncode, report)
    return done.returncode, report, {layer["name"]: layer for layer in report["layers"]}


def missing(layers):
    return {name for name, layer in layers.items() if layer["state"] in ("missing", "unknown")}


def test_all_layers_hold_here(cgroup):
    """On this machine every layer but the waived controllers is in force, and nothing is left of the cells that showed it."""
    mounts = open("/proc/self/mountinfo").read()
    status, report, layers = check(cgroup)
    assert status == 0, report
    assert set(layers) == LAYERS | set(CONTROLLERS)
    assert {name for name in layers if layers[name]["state"] == "in_force"} >= LAYERS
    assert not report["blocked"]
    assert open("/proc/self/mountinfo").read() == mounts


def test_table_is_for_people(cgroup):
    """The table says of each layer in one line what it does, and at the end what will happen."""
    waive = machine.missing_controllers()
    done = run(cgroup, "--check", *(["--waive", ",".join(waive)] if waive else []))
    assert done.returncode == 0, done.stdout + done.stderr
    for name in LAYERS:
        line = next(text for text in done.stdout.splitlines() if text.split()[:1] == [name])
        assert "in force" in line and len(line) > 40, line
    assert done.stdout.splitlines()[-1].endswith("The spawner starts.")
    assert not done.stderr, done.stderr


def test_missing_controllers_have_cause_and_cure(cgroup):
    """A controller that the machine lacks is missing with cause and cure, until it is waived."""
    lacking = machine.missing_controllers()
    status, _, layers = check(cgroup, waive=[])
    assert status == (1 if lacking else 0)
    for name in CONTROLLERS:
        assert (layers[name]["state"] == "missing") == (name in lacking), layers[name]
        if name in lacking:
            assert layers[name]["cause"] and layers[name]["cure"], layers[name]
    if lacking:
        done = run(cgroup, "--check")
        assert done.returncode == 1 and "cure: " in done.stdout and done.stdout.splitlines()[-1].endswith("refuses to start.")


@pytest.mark.parametrize("layer", BREAKABLE)
def test_each_broken_layer_is_found_out(cgroup, layer):
    """A cell that silently lacks one layer: exactly this layer is reported, by what code in the cell could do."""
    status, _, layers = check(cgroup, environment={"GLOVEBOX_TEST_BREAK": layer})
    assert status == 1
    assert layers[layer]["state"] == "missing" and BREAKABLE[layer] in layers[layer]["cause"], layers[layer]
    # Without no_new_privs the kernel refuses the three that need it.
    cascade = {"keyring", "landlock", "seccomp"} if layer == "no_new_privs" else set()
    assert missing(layers) - cascade == {layer}, layers


@pytest.mark.parametrize("layer", BREAKABLE)
def test_start_refuses_what_is_broken(cgroup, tmp_path, layer):
    """The same, not as a check: the start ends with a line that names layer and flag; no socket is left that would serve."""
    state = tmp_path / "state"
    waive = ",".join(machine.missing_controllers())
    done = run(cgroup, "--state", str(state), *(["--waive", waive] if waive else []), environment={"GLOVEBOX_TEST_BREAK": layer})
    assert done.returncode == 78, done
    line = next(text for text in done.stderr.splitlines() if layer in text)
    assert "--waive" in line and BREAKABLE[layer] in line, line


@pytest.mark.parametrize("layer", sorted(LAYERS - set(BREAKABLE)))
def test_what_no_cell_can_be_made_without_cannot_be_waived(cgroup, layer):
    """Waiving such a layer is an error that lists what may be waived."""
    done = run(cgroup, "--check", "--waive", layer)
    assert done.returncode == 64 and layer in done.stderr and "landlock" in done.stderr and "memory" in done.stderr, done


def test_unknown_names_are_errors(cgroup, tmp_path):
    """A misspelt waiver is no waiver, on the command line and in the config; --json alone means nothing."""
    done = run(cgroup, "--check", "--waive", "landlok")
    assert done.returncode == 64 and "landlok" in done.stderr
    config = tmp_path / "glovebox.conf"
    config.write_text("[spawner]\nwaive = landlok\n")
    done = run(cgroup, "--check", "--config", str(config))
    assert done.returncode == 78 and "landlok" in done.stderr
    assert run(cgroup, "--json").returncode == 64


def test_waiver_in_the_config(cgroup, tmp_path):
    """[spawner] waive does what the flag does."""
    config = tmp_path / "glovebox.conf"
    config.write_text("[spawner]\nwaive = " + " ".join([*machine.missing_controllers(), "landlock"]) + "\n")
    status, _, layers = check_config(cgroup, config)
    assert status == 0 and layers["landlock"]["state"] == "waived"


def check_config(cgroup, config, **how):
    done = run(cgroup, "--check", "--json", "--config", str(config), **how)
    report = json.loads(done.stdout)
    return done.returncode, report, {layer["name"]: layer for layer in report["layers"]}


@pytest.mark.parametrize("line", ["seccomp-deny = socket kill fork clone getresuid statfs", "seccomp-allow = keyctl io_uring_setup userfaultfd",
                                  "seccomp-deny = socket\nseccomp-allow = keyctl"])
def test_changed_policy_is_no_missing_layer(cgroup, tmp_path, line):
    """What the operator allows is no hole that was found, and what he denies does not keep the other layers from being probed."""
    config = tmp_path / "glovebox.conf"
    config.write_text("[spawner]\nwaive = " + " ".join(machine.missing_controllers()) + "\n" + line + "\n")
    status, report, layers = check_config(cgroup, config)
    assert status == 0 and not missing(layers), report
    status, _, layers = check_config(cgroup, config, environment={"GLOVEBOX_TEST_BREAK": "network_namespace"})
    assert status == 1 and missing(layers) == {"network_namespace"}


# Kernels that lack something: their answer comes from a filter around the spawner.

@pytest.mark.parametrize("error, word", [(errno.EOPNOTSUPP, "lsm="), (errno.ENOSYS, "Landlock")])
def test_kernel_without_landlock(cgroup, error, word):
    """Landlock switched off at boot or not built: it alone is missing, its cure is told, and waived it is no obstacle."""
    how = {"before": fail_call("landlock_create_ruleset", error)}
    status, _, layers = check(cgroup, **how)
    assert status == 1 and missing(layers) == {"landlock"}, layers
    assert word in layers["landlock"]["cause"] + layers["landlock"]["cure"] and layers["landlock"]["cure"], layers["landlock"]
    status, _, layers = check(cgroup, waive=[*machine.missing_controllers(), "landlock"], **how)
    assert status == 0 and layers["landlock"]["state"] == "waived"


def test_kernel_without_seccomp(cgroup):
    """No filters: seccomp is missing, the others are still probed."""
    status, _, layers = check(cgroup, before=fail_call("seccomp"))
    assert status == 1 and missing(layers) == {"seccomp"}, layers


@pytest.mark.parametrize("call, layer", [("clone3", "pid_namespace"), ("setns", "mount_namespace")])
def test_calls_that_every_cell_needs(cgroup, call, layer):
    """A machine (or a container's filter) that refuses a call that every cell needs: the layer is named, nothing is waived into being."""
    status, report, layers = check(cgroup, before=fail_call(call))
    assert status == 1 and layers[layer]["state"] == "missing" and "Function not implemented" in layers[layer]["cause"], layers[layer]
    assert report["blocked"]
    assert not [n for n in LAYERS if layers[n]["state"] == "in_force"], layers


# Containers without rights, imitated.

def no_layer_in_force(layers):
    return all(layers[name]["state"] in ("missing", "unknown") for name in LAYERS)


def test_inside_a_rootless_container(cgroup):
    """Root of a user namespace is not root."""
    status, report, layers = check(cgroup, wrapper=("unshare", "-r"))
    assert status == 1 and no_layer_in_force(layers)
    assert report["blocked"] and "user namespace" in report["obstacle"] and report["cure"], report


def test_inside_a_container_without_rights(cgroup):
    """Root without CAP_SYS_ADMIN, in a place that says it is a container."""
    status, report, layers = check(cgroup, wrapper=("setpriv", "--bounding-set=-sys_admin"), environment={"container": "docker"})
    assert status == 1 and no_layer_in_force(layers)
    assert "container" in report["obstacle"] and "CAP_SYS_ADMIN" in report["obstacle"] and "privileged" in report["cure"], report


def test_read_only_settings_of_a_container(cgroup):
    """/proc/sys read-only, as container managers mount it: no user namespace can be bounded."""
    script = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"'
    status, _, layers = check(cgroup, wrapper=("unshare", "-m", "sh", "-c", script, "sh"))
    assert status == 1 and layers["user_namespace"]["state"] == "missing"
    assert "masked" in layers["user_namespace"]["cause"] and "systempaths" in layers["user_namespace"]["cure"], layers["user_namespace"]


def test_not_root(cgroup):
    """Somebody else than root sees the reason, not a crash."""
    status, report, layers = check(cgroup, wrapper=("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"))
    assert status == 1 and no_layer_in_force(layers) and "root" in report["obstacle"], report


def test_without_cgroup2(cgroup):
    """No cgroup2 hierarchy to be seen: named, with the command that helps."""
    script = 'for m in $(grep " - cgroup2 " /proc/self/mountinfo | cut -d" " -f5); do umount -l "$m" || exit 9; done; exec "$@"'
    status, _, layers = check(cgroup, wrapper=("unshare", "-m", "sh", "-c", script, "sh"))
    assert status == 1 and layers["cgroup"]["state"] == "missing", layers["cgroup"]
    assert "cgroup2" in layers["cgroup"]["cause"] and "mount" in layers["cgroup"]["cure"], layers["cgroup"]


def test_without_a_runtime(cgroup, tmp_path):
    """A configuration without runtimes cannot be probed, and says so instead of passing."""
    folder = tmp_path / "runtimes.d"
    folder.mkdir()
    for file in (BUILD / "lib" / "glovebox" / "runtimes.d").glob("*.conf"):
        (folder / file.name).write_text("")
    config = tmp_path / "glovebox.conf"
    config.write_text("[spawner]\nwaive = memory pids cpu io\n")
    status, report, layers = check_config(cgroup, config)
    assert status == 1 and "no runtime" in report["blocked"] and no_layer_in_force(layers)


def test_every_root_is_probed(cgroup, tmp_path):
    """A runtime with a root of its own: its cells are attacked, too, although its interpreter is not there."""
    tmp_path.chmod(0o755)
    (tmp_path / "root" / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "runtimes.d").mkdir()
    (tmp_path / "runtimes.d" / "other.conf").write_text(f"[runtime]\nexec = /usr/bin/nothing\ncode-name = x\nroot = {tmp_path}/root\n")
    config = tmp_path / "glovebox.conf"
    config.write_text("[spawner]\nwaive = " + " ".join(machine.missing_controllers()) + "\n")
    status, report, layers = check_config(cgroup, config)
    assert status == 0 and not missing(layers), report


def test_interrupted_check_leaves_nothing(cgroup):
    """Ctrl-C at any moment: no process and no cgroup stays behind (the fixture looks)."""
    for delay in (0.005, 0.02, 0.04, 0.06):
        process = subprocess.Popen([SPAWNER, "--check"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=cgroup.enter)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        assert process.wait(seconds(20)) in (0, 1, -signal.SIGINT)
        assert wait_until(lambda: not cgroup.folders(), 3), (delay, cgroup.folders())


def test_killed_check_is_swept_by_the_next(cgroup):
    """kill -9 leaves folders that the next check removes; two at once do not get in each other's way."""
    left = 0
    for delay in (0.02, 0.03, 0.04, 0.05, 0.06, 0.07):
        process = subprocess.Popen([SPAWNER, "--check"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=cgroup.enter)
        time.sleep(delay)
        process.kill()
        process.wait()
        wait_until(lambda: not cgroup.pids(), 3)
        left += bool(cgroup.folders())
    assert left, "none was killed in the middle"
    assert check(cgroup)[0] == 0
    assert not cgroup.folders()
    both = [subprocess.Popen([SPAWNER, "--check", "--waive", ",".join(CONTROLLERS)], stdout=subprocess.DEVNULL, preexec_fn=cgroup.enter)
            for _ in range(2)]
    assert [process.wait(seconds(30)) for process in both] == [0, 0]


def test_beside_a_running_daemon(daemon, cgroup):
    """A check takes nothing from a spawner that serves on the same machine: neither its lock nor its uids."""
    call = daemon.call("echo up; sleep 3; echo end")
    call.until_output(b"up\n")
    status, report, _ = check(cgroup)
    assert status == 0, report
    call.wait()
    assert call.outcome == "COMPLETED" and call.stdout == b"up\nend\n"


# What the daemon tells.

def isolation(daemon):
    return {layer.name: layer for layer in daemon.info().isolation}


def test_info_tells_what_was_probed(daemon):
    """GetInfo and accepted name every layer, all in force here, as `glovebox info` shows."""
    told = isolation(daemon)
    assert set(told) == LAYERS
    assert all(layer.in_force and layer.detail for layer in told.values()), told
    accepted = {layer.name: layer.in_force for layer in daemon.run("true").accepted.isolation}
    assert accepted == {name: True for name in LAYERS}
    shown = subprocess.run([str(daemon.client), "--server", daemon.socket, "info"], capture_output=True, text=True, timeout=seconds(20)).stdout
    for name in LAYERS:
        assert any(line.split()[:1] == [name] and "in force" in line for line in shown.splitlines()), (name, shown)


@pytest.mark.parametrize("layer", ["landlock", "seccomp", "network_namespace", "no_new_privs"])
def test_waiver_is_never_silent(make_daemon, layer):
    """With the flag it starts without the layer, and GetInfo, accepted, `glovebox info` and the log all say so."""
    waive = [*machine.missing_controllers(), layer]
    if layer == "no_new_privs":
        waive += ["keyring", "landlock", "seccomp"]
    daemon = make_daemon(waive=waive)
    told = isolation(daemon)
    assert not told[layer].in_force and "waived" in told[layer].detail
    assert {name for name in told if not told[name].in_force} == set(waive) - set(CONTROLLERS)
    accepted = {entry.name: entry for entry in daemon.run("true").accepted.isolation}
    assert not accepted[layer].in_force and "waived" in accepted[layer].detail
    shown = subprocess.run([str(daemon.client), "--server", daemon.socket, "info"], capture_output=True, text=True, timeout=seconds(20)).stdout
    assert any(line.split()[:1] == [layer] and "MISSING" in line and "waived" in line for line in shown.splitlines()), shown
    assert any(layer in line and "waived" in line for line in daemon.log.splitlines()), daemon.log
    assert daemon.run("echo works").stdout == b"works\n"


def test_refusal_reaches_the_operator(make_daemon):
    """glovebox-standalone ends too, with the spawner's line, instead of starting it for ever."""
    daemon = make_daemon(start=False, environment={"GLOVEBOX_TEST_BREAK": "landlock"})
    daemon.spawn()
    assert daemon.process.wait(seconds(20)) != 0
    assert wait_until(lambda: "landlock" in daemon.log and "--waive" in daemon.log, 2), daemon.log
