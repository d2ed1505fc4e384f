"""The basic wall: what code in a cell is, what it sees, and what it cannot reach. (Attacks proper are in tests/escape.)"""
import json
import os
import re
import socket


import pytest

from kit import machine
from kit.call import CODES, request

NAMESPACES = ("mnt", "pid", "ipc", "uts", "net", "cgroup", "user")


def python(daemon, code, **fields):
    """Runs Python code in a cell that prints one JSON value, and gives that value."""
    run = daemon.run("import json, os, socket, sys\n" + code, "python", **fields)
    assert run.outcome == "COMPLETED", run
    return json.loads(run.stdout)


SELF = """
status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)
"""


@pytest.mark.parametrize("working_dir", ["/proc/self/fd/7", "/proc/1/cwd", "../../..", "/workspace/lnk", "/workspace/../etc", "/tmp/../usr",
                                         "/", "/proc/self/cwd", "lnk", "/workspace/../../proc/1/root"])
def test_ESC_01_working_dir_leaves_the_cell(daemon, working_dir):
    """A working folder that would lead out is refused by name."""
    refused = daemon.refused(request("ls ../../..", working_dir=working_dir))
    assert refused.code == CODES.INVALID_ARGUMENT and list(refused.fields) == ["working_dir"], refused


def test_ESC_01_going_up_shows_the_cells_root(daemon):
    """Going up from the working folder ends at the cell's own root."""
    run = daemon.run("ls ../../..; echo; ls -A /home /root /run; echo; pwd; ls -A", working_dir="a/b", files={"a/b/c": b""})
    top, empty, own = run.stdout.decode().split("\n\n", 1)[0], None, run.stdout.decode().rsplit("\n\n", 1)[1]
    empty = run.stdout.decode()[len(top) + 2:-len(own) - 2]
    names = set(top.split())
    assert {"usr", "workspace", "proc"} <= names and not names & {"work", "boot", "srv", "opt", "mnt", "media", "sys"}, names
    assert [line for line in empty.split("\n") if line] == ["/home:", "sandbox", "/root:", "/run:"], empty
    assert own == "/workspace/a/b\nc\n"


def test_every_namespace_is_its_own(daemon):
    """mnt, pid, ipc, uts, net, cgroup and user differ from the host's, and (user apart) from another cell's."""
    code = f"import time\ntime.sleep(0.3)\nprint(json.dumps({{n: os.readlink('/proc/self/ns/' + n) for n in {NAMESPACES!r}}}))"
    calls = [daemon.call("import json, os\n" + code, "python") for _ in range(2)]
    seen = [json.loads(c.wait().stdout) for c in calls]
    for name in NAMESPACES:
        host = os.readlink(f"/proc/self/ns/{name}")
        assert host not in (seen[0][name], seen[1][name]), name
        assert name == "user" or seen[0][name] != seen[1][name], name


def test_user_is_nobody_at_all(daemon):
    """An unprivileged uid, no groups, no capability in any set, no_new_privs."""
    got = python(daemon, SELF + "print(json.dumps([os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), status]))")
    uid, euid, gid, groups, status = got
    assert uid == euid != 0 and gid != 0 and groups in ([], [gid])
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"


def test_host_uids_are_the_cells_own(daemon):
    """On the host each cell has two uids of its own: init's and the user's, used by nobody else at that time."""
    calls = [daemon.call("echo up; sleep 20") for _ in range(3)]
    for call in calls:
        call.until_output(b"up\n")
    owners = {}
    for folder in daemon.cgroup.folders("cell-"):
        uids, for_files = set(), set()
        for file in folder.rglob("cgroup.procs"):
            for pid in file.read_text().split():
                real, effective, saved, files = machine.status_field(pid, "Uid")
                assert real == effective == saved, f"differing uids {real} {effective} {saved}"
                for_files.add(files)
                gids = set(machine.status_field(pid, "Gid"))
                assert "0" not in gids and not machine.status_field(pid, "Groups")
                uids.add(real)
        assert len(for_files) == 1 and for_files < uids, "init, too, looks at files as the user"
        owners[folder] = uids
    assert len(owners) == 3
    assert all(len(uids) == 2 and "0" not in uids for uids in owners.values()), owners
    everyone = [u for uids in owners.values() for u in uids]
    assert len(set(everyone)) == 6 and str(machine.status_field(daemon.server, "Uid")[0]) not in everyone
    for call in calls:
        daemon.cancel(call.id)
        call.wait()


def test_descriptors_are_three(daemon):
    """0, 1 and 2 are pipes; nothing else is open but a runner's value pipe, and none is a socket."""
    for runtime, code in (("python", "import os\nfor f in sorted(os.listdir('/proc/self/fd'), key=int):\n    try: print(f, os.readlink('/proc/self/fd/' + f))\n    except OSError: pass"),
                          ("bash", "find /proc/$$/fd -type l -printf '%f %l\\n'")):
        lines = [line.split(" ", 1) for line in daemon.run(code, runtime).stdout.decode().splitlines()]
        kinds = {int(number): target.split(":")[0] for number, target in lines}
        assert {kinds[n] for n in (0, 1, 2)} <= {"pipe", "/dev/null"}, kinds
        rest = {n: t for n, t in ((int(a), b) for a, b in lines) if n > 2 and "/proc/" not in t and not t.startswith("/workspace/main")}
        assert list(rest.values()) == [] if runtime == "bash" else all(t.startswith("pipe:") for t in rest.values()) and len(rest) == 1, rest


def test_root_is_read_only(daemon):
    """Nothing can be written but /workspace, /tmp, /dev/shm and the user's home; the places that can are nosuid and nodev."""
    code = """
failed = []
for place in ('/', '/usr', '/usr/bin', '/etc', '/bin', '/lib', '/dev', '/proc', '/glovebox', '/var'):
    try:
        open(place + '/x', 'w')
        failed.append(place)
    except OSError:
        pass
for file in ('/etc/passwd', '/etc/hosts', '/usr/bin/env', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/vm/drop_caches'):
    try:
        open(file, 'r+b').write(b'x')
        failed.append(file)
    except OSError:
        pass
mounts = [l.split() for l in open('/proc/self/mountinfo')]
print(json.dumps([failed, [(m[4], m[5]) for m in mounts]]))
"""
    failed, mounts = python(daemon, code)
    assert not failed, failed
    writable = {place for place, options in mounts if "rw" in options.split(",")} - {"/proc"}
    for place, options in mounts:
        if "rw" in options.split(",") and not place.startswith("/dev/") or place == "/dev/shm":
            assert {"nosuid", "nodev"} <= set(options.split(",")), (place, options)
    devices = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
    assert writable - devices == {"/workspace", "/home/sandbox", "/tmp", "/dev/shm"}, writable


def test_proc_shows_the_cell_alone(daemon):
    """/proc is the cell's own; other users' processes are hidden, host pids do not exist."""
    pids, hostname = python(daemon, "print(json.dumps([[p for p in os.listdir('/proc') if p.isdigit()], socket.gethostname()]))")
    assert 1 <= len(pids) <= 3 and hostname == "glovebox", (pids, hostname)
    run = daemon.run(f"kill -0 {os.getpid()}; cat /proc/1/environ; cat /proc/{daemon.server}/cmdline; ls /proc/1/root/")
    assert run.stdout == b"" and run.result.exit_code != 0, run


def test_nothing_of_the_host_is_seen(daemon):
    """No home, no /sys, no /run, no host file by any name; no name of this machine, no variable of the daemon."""
    import tempfile
    with tempfile.NamedTemporaryFile(prefix="host-canary-") as canary:
        canary.write(b"canary")
        canary.flush()
        run = daemon.run(f"cat {canary.name} /proc/1/root{canary.name} /etc/shadow; ls -A /home /root /sys /run /boot /srv {daemon.folder} "
                         "/var/lib /var/log; find / -xdev -name 'host-canary-*' 2>/dev/null; env; cat /etc/passwd /etc/hosts /proc/mounts")
    text = run.stdout.decode(errors="replace")
    assert "canary" not in text
    with open("/etc/passwd") as passwd:
        host = {line.strip() for line in passwd if not line.startswith("nobody:")}  # the same everywhere
    assert not host & set(text.splitlines()), "lines of the host's passwd"
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text) or socket.gethostname() in ("localhost", "glovebox")
    assert str(daemon.folder) not in text


def test_network_is_loopback_alone(daemon):
    """Only lo, and it works; nothing outside can be reached, not even the host's abstract sockets and loopback."""
    host = socket.socket()
    host.bind(("127.0.0.1", 0))
    host.listen()
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0glovebox-e2e-{os.getpid()}")
    abstract.listen()
    code = f"""
out = [sorted(line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line)]
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); c = socket.create_connection(s.getsockname(), 1)
for family, address in ((socket.AF_INET, ('127.0.0.1', {host.getsockname()[1]})), (socket.AF_INET, ('192.0.2.1', 80)),
                        (socket.AF_INET, ('169.254.169.254', 80)), (socket.AF_UNIX, '\\0glovebox-e2e-{os.getpid()}')):
    try:
        x = socket.socket(family); x.settimeout(1); x.connect(address); out.append('CONNECTED')
    except OSError as e:
        out.append(e.errno)
print(json.dumps(out))
"""
    got = python(daemon, code)
    host.close(), abstract.close()
    assert got[0] == ["lo"] and "CONNECTED" not in got and len(got) == 5, got


def test_rlimits_nice_and_oom_score(daemon):
    """No core for a helper (exactly 1), processes bounded, no address-space limit, nothing inherited from the daemon."""
    code = """
import resource as r
print(json.dumps([r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_NPROC), r.getrlimit(r.RLIMIT_AS), os.nice(0),
                  int(open('/proc/self/oom_score_adj').read()), os.getsid(0) == os.getpid(), oct(os.umask(0))]))
"""
    core, processes, space, nice, oom, leader, umask = python(daemon, code)
    # the pids controller's own limit has to be met first, where there is one
    most = 128 if "pids" in machine.missing_controllers() else 144
    assert core == [1, 1] and processes == [most, most] and space == [-1, -1] and nice == 0 and oom >= 0, (core, processes, space, nice, oom)
    assert leader and umask in ("0o22", "0o77")


def test_max_processes_holds_without_the_controller(daemon):
    """Even where the pids controller is waived a fork bomb meets its bound."""
    code = """
import time
children = 0
try:
    while children < 1000:
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        children += 1
except OSError:
    pass
print(json.dumps(children))
"""
    assert 32 <= python(daemon, code) <= 128


def test_devices_are_five(daemon):
    """The five harmless devices and the links to the streams; they work."""
    run = daemon.run("ls /dev; echo o >/dev/stdout; echo e >/dev/stderr; head -c 3 /dev/zero | od -An -tx1; echo x >/dev/null; "
                     "head -c 8 /dev/urandom | wc -c; echo x >/dev/full; cat /dev/stdin", stdin=b"from stdin")
    assert run.stdout.decode().split() == sorted(["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]) \
        + ["o", "00", "00", "00", "8", "from", "stdin"], run
    assert run.stderr.startswith(b"e\n") and b"No space left" in run.stderr


@pytest.mark.parametrize("code", ["mount -t tmpfs x /tmp", "mount --bind /tmp /usr", "umount /proc", "mknod /tmp/sda b 8 0", "chroot / true",
                                  "hostname evil", "date -s 2000-01-01", "ip link set lo down", "dmesg | grep .", "renice -n -5 $$",
                                  "chown root /workspace", "setpriv --reuid 0 true", "nsenter -t 1 -m true", "su -c true"])
def test_privileged_things_fail(daemon, code):
    """What needs privilege fails; so does a tool that is not there."""
    assert daemon.run(code).outcome == "FAILED"


def test_cells_do_not_see_each_other(daemon):
    """Files, processes, shared memory and abstract sockets of one cell are not there in another at the same time."""
    first = daemon.call("import socket, time\nopen('/tmp/secret', 'w').write('x'); open('/dev/shm/secret', 'w').write('x')\n"
                        "s = socket.socket(socket.AF_UNIX); s.bind('\\0cell-one'); s.listen()\nprint('up')\ntime.sleep(30)", "python")
    first.until_output(b"up\n")
    code = """
try:
    s = socket.socket(socket.AF_UNIX); s.connect('\\0cell-one'); reached = True
except OSError:
    reached = False
print(json.dumps([os.listdir('/tmp'), os.listdir('/dev/shm'), [p for p in os.listdir('/proc') if p.isdigit()], reached]))
"""
    tmp, shm, pids, reached = python(daemon, code)
    assert not tmp and not shm and len(pids) <= 3 and not reached
    daemon.cancel(first.id)
    first.wait()


def test_a_fresh_cell_each_time(daemon):
    """Nothing of one execution is there for the next: files, processes, even the random uid's."""
    for _ in range(3):
        run = daemon.run("ls -A /workspace /tmp /dev/shm | grep -v main.sh | grep -v : | grep .; (sleep 100 &) ; echo x >/workspace/f; echo x >/tmp/f")
        assert run.stdout == b""


def test_streams_cannot_be_opened_for_others(daemon):
    """The program may reopen its own stdout and stderr by name, and only these."""
    run = daemon.run("echo a >/proc/self/fd/1; echo b >/proc/self/fd/2; ls /proc/1/fd && echo bad")
    assert run.stdout == b"a\n" and run.stderr.startswith(b"b\n")


def test_accepted_names_the_layers(daemon):
    """What accepted says of the layers is what the tests above found."""
    layers = {layer.name: layer.in_force for layer in daemon.run("true").accepted.isolation}
    for name in ("mount_namespace", "pid_namespace", "network_namespace", "ipc_namespace", "uts_namespace", "cgroup_namespace", "user_namespace",
                 "read_only_root", "no_capabilities", "no_new_privs", "closed_descriptors"):
        assert layers.get(name), (name, layers)
