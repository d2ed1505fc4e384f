"""Cells beside and after one another: files, memory, keys, sockets, processes, users."""
import json
import os
import pathlib
import time

import pytest

from kit import machine
from kit.call import request
from range import programs
from range.programs import Tally

# Leaves something of every kind, says so, and stays.
LEAVE = """
import ctypes, os, signal, socket, subprocess, sys, time
for place in ('/tmp', '/dev/shm', '/workspace', os.path.expanduser('~'), '/var/tmp'):
    open(place + '/left', 'w').write('secret-of-A')
    os.chmod(place + '/left', 0o666)
subprocess.run('ipcmk -M 64 -p 0666; ipcmk -Q -p 0666; ipcmk -S 1 -p 0666', shell=True, stdout=subprocess.DEVNULL)
listeners = []
for port in (9000, 9001):
    s = socket.socket(); s.bind(('127.0.0.1', port)); s.listen(); listeners.append(s)
for name in ('\\0same', '/tmp/sock', '/dev/shm/sock'):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(); listeners.append(s)
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(248, b'user', b'k', b'secret-of-A', 11, -4)
assert libc.msgget(4711, 0o1666) >= 0
print('up', os.getpid(), flush=True)
time.sleep(60)
"""
LOOK = """
import ctypes, glob, json, os, signal, socket, subprocess
found = []
for place in ('/tmp', '/dev/shm', '/workspace', os.path.expanduser('~'), '/var/tmp', '/dev/mqueue'):
    try:
        found += [place + '/' + n for n in os.listdir(place) if n not in ('main.py',)]
    except OSError:
        pass
for kind in ('shm', 'msg', 'sem'):
    found += [kind + ' ' + l for l in open('/proc/sysvipc/' + kind).read().splitlines()[1:]]
for family, address in [(socket.AF_INET, ('127.0.0.1', p)) for p in (9000, 9001)] + [(socket.AF_UNIX, n) for n in ('\\0same', '/tmp/sock')]:
    s = socket.socket(family)
    s.settimeout(1)
    try:
        s.connect(address); found.append('connected %r' % (address,))
    except OSError:
        pass
s = socket.socket(socket.AF_UNIX); s.bind('\\0same')
pids = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (os.getpid(), 1)]
found += ['process %d' % p for p in pids]
for pid in range(2, 5000):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL); found.append('killed %d' % pid)
        except ProcessLookupError:
            pass
        except PermissionError:
            found.append('may not kill %d' % pid)
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(250, 10, -4, b'user', b'k', 0) >= 0:
    found.append('key')
if libc.msgget(4711, 0) >= 0:
    found.append('queue')
for path in ('/proc/keys', '/proc/key-users', '/proc/net/unix', '/proc/net/tcp'):
    try:
        found += [path + ' ' + l for l in open(path).read().splitlines() if l and not l.lstrip().startswith(('Num', 'sl')) and '@same' not in l]
    except OSError:
        pass
print(json.dumps([os.getuid(), found]))
"""


def test_ESC_15_16_18_SES_16_neighbours(daemon):
    """Two cells at once: the second finds nothing of the first, binds the same names, kills nobody; on the host their users differ."""
    first = daemon.call(LEAVE, "python")
    first.until_output(b"up ")
    users = {uid for pid in daemon.run_pids() for uid in machine.status_field(pid, "Uid")}
    second = daemon.run(LOOK + "\nimport time; time.sleep(0.2)", "python")
    assert second.outcome == "COMPLETED", second
    assert json.loads(second.stdout)[1] == []
    third = daemon.call("sleep 30")
    third.until("started")
    both = machine.wait_until(lambda: {u for p in daemon.run_pids() for u in machine.status_field(p, "Uid")} - users, 3)
    assert both and len(both) == 1 and not both & users, (users, both)
    assert first.ended is None, "the neighbour died of it"
    for call in (first, third):
        daemon.cancel(call.id)
        call.wait()


def test_nothing_stays_for_the_next(daemon):
    """The same, one after the other, until the same user comes again: nothing of the first is there."""
    for _ in range(machine.repeats(6)):
        first = daemon.call(LEAVE, "python")
        first.until_output(b"up ")
        daemon.cancel(first.id)
        first.wait()
        second = daemon.run(LOOK, "python")
        assert second.outcome == "COMPLETED" and json.loads(second.stdout)[1] == [], second


def test_maps_of_ids_cannot_hold_a_message(daemon):
    """The user namespace lives longer than a cell: nothing in it can be written by one and read by the next."""
    first = daemon.run("for m in uid_map gid_map projid_map setgroups; do echo '7 7 1' >/proc/self/$m && echo wrote $m; done; cat /proc/self/*_map")
    assert b"wrote" not in first.stdout
    second = daemon.run("cat /proc/self/*_map")
    assert second.stdout == first.stdout and b"7 7" not in b" ".join(second.stdout.split())


def test_settings_of_the_namespaces_stay(daemon):
    """Settings that belong to a network or IPC namespace are not written either, and no later cell sees a change."""
    read = "cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/shmmax /proc/sys/kernel/hostname /proc/sys/user/max_user_namespaces"
    before = daemon.run(read).stdout
    write = daemon.run("for f in net/ipv4/ip_local_port_range kernel/shmmax kernel/hostname user/max_user_namespaces; do echo 99 >/proc/sys/$f && echo wrote $f; done")
    assert write.stdout == b"" and daemon.run(read).stdout == before != b""


def test_every_cell_has_namespaces_of_its_own(daemon):
    """Those that were made ahead, too: cells at once, one after another in quiet moments, share none with each other, the spawner or the builder."""
    read = "for n in cgroup ipc mnt net pid uts; do readlink /proc/self/ns/$n; done; cat /proc/sys/kernel/hostname; exec 2>&1; (: >/dev/tcp/127.0.0.1/1); echo up; sleep 30"
    seen = [os.readlink(f"/proc/{p}/ns/{n}") for p in (daemon.spawner, *machine.children(daemon.spawner)) for n in ("cgroup", "ipc", "mnt", "net", "pid", "uts")]
    calls = []
    for _ in range(6):
        calls.append(daemon.call(read))
        calls[-1].until_output(b"up\n")
        time.sleep(0.1)
    for call in calls:
        names = call.stdout.decode().split()[:6]
        assert b"]\nglovebox\n" in call.stdout and b"Connection refused" in call.stdout, call.stdout
        assert len(names) == 6 and not set(names) & set(seen), (names, seen)
        seen += names
        daemon.cancel(call.id)


def test_ESC_30_a_set_uid_file_of_another_cell(daemon):
    """A set-uid file is of no use to its maker, and nobody else ever finds it."""
    make = "for d in /tmp /workspace /dev/shm ~; do cp /bin/bash $d/s; chmod 6777 $d/s; $d/s -p -c 'id -u; id -ru' | sort -u | wc -l; done"
    first = daemon.run(make)
    assert first.stdout.split() == [b"1"] * 4, first
    second = daemon.run("ls /tmp/s /workspace/s /dev/shm/s ~/s; true")
    assert second.stdout == b"", second


def test_uids_are_not_reused_while_anything_lives(daemon):
    """Many cells at once: every user is another one, and all of them are within the configured range."""
    calls = [daemon.call("echo up; sleep 20") for _ in range(8)]
    for call in calls:
        call.until_output(b"up\n")
    owners = [machine.status_field(pid, "Uid") for pid in daemon.run_pids() if machine.program(pid) in ("bash", "sleep")]
    uids = {u for four in owners for u in four}
    assert len(uids) == 8 and all(2130706432 <= int(u) < 2130706432 + 65536 for u in uids), uids
    for call in calls:
        daemon.cancel(call.id)
        call.wait()


@pytest.mark.parametrize("code", ["rm -rf --no-preserve-root /", "rm -rf / /* ~ /tmp/* /dev/shm/* /workspace/.[!.]* 2>/dev/null; find / -delete",
                                  "chmod -R 777 / ; chown -R $(id -u) /; mv /usr /usr2; mv /workspace /w", "shred -u /usr/bin/env /etc/passwd",
                                  ": >/etc/passwd; dd if=/dev/zero of=/dev/vda; dd if=/dev/zero of=/usr/bin/env bs=1M count=1",
                                  "kill -9 -1", "kill -STOP -1; kill -STOP 1"])
def test_SEED_19_destruction(daemon, code):
    """All that can be destroyed is one's own; the next execution is fresh."""
    started = time.monotonic()
    call = daemon.run(code, timeout=20, deadline=40)
    assert call.outcome in ("COMPLETED", "FAILED", "SIGNALED", "TIMED_OUT", "OUTPUT_LIMIT_EXCEEDED"), call
    assert time.monotonic() - started < machine.seconds(30)
    after = daemon.run("ls -d /usr /workspace; head -n 1 /etc/passwd | cut -d: -f1; env true && echo fine; ls -A /workspace /tmp | grep -v main.sh")
    assert after.stdout.split() == [b"/usr", b"/workspace", b"root", b"fine", b"/tmp:", b"/workspace:"], after


def test_FIL_13_16_files_that_are_hard_to_remove(daemon):
    """Sparse, deep, unreadable, many, oddly named files: the cell goes all the same."""
    code = r"""
import os, socket
os.chdir('/workspace')
try:
    f = open('big', 'wb'); f.truncate(1 << 40); print('sparse')
except OSError as e:
    print(e.errno)
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('sock')
os.makedirs('d/e/f'); open('d/e/f/g', 'w').write('x'); os.chmod('d/e', 0); os.chmod('d', 0)
open('a\nb', 'w'); open('-rf', 'w'); open(' x ', 'w'); open(b'\xff\xfe', 'w'); open('\u62a5\u544a \u00e9.txt', 'w')
os.symlink('/etc/shadow', 'link'); os.symlink('/proc/self/environ', 'env'); os.symlink('loop', 'loop')
for i in range(20000): open(f'/tmp/{i}', 'w').close()
depth = 0
while depth < 1000:
    os.mkdir('deep'); os.chdir('deep'); depth += 1
print('made')
"""
    for _ in range(2):
        call = daemon.run(code, "python")
        assert call.outcome == "COMPLETED" and call.stdout.endswith(b"made\n"), call


def test_kernel_memory_is_bounded(daemon):
    """A cell that takes all descriptors and pipes it can get takes none from its neighbours, and not without end."""
    take = """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
kept = []
try:
    while len(kept) < 100000:
        kept.append(os.pipe())
        os.set_blocking(kept[-1][1], False)
        try:
            os.write(kept[-1][1], bytes(65536))
        except BlockingIOError:
            pass
except OSError as e:
    print('full', len(kept), flush=True)
time.sleep(30)
"""
    first = daemon.call(take, "python")
    first.until_output(b"\n", 30)
    assert 100 < int(first.stdout.split()[1]) < 10000
    second = daemon.run("import os, socket\nfor _ in range(100): r, w = os.pipe(); os.write(w, bytes(65536)); socket.socketpair()\nprint('ok')", "python")
    assert second.stdout == b"ok\n", second
    daemon.cancel(first.id)
    first.wait()


def test_FIL_06_files_of_the_request_stay_in_the_workspace(daemon):
    """Paths that would lead out, or are written in two ways, are refused, and nothing is made anywhere."""
    for path in ("../x", "/etc/x", "a/../../x", "a/./../..//x", "", ".", "a/", "x\0y", "a" * 300, "/workspace/x", "..", "a//b"):
        refused = daemon.refused(request("true", files={path: b"x"}))
        assert refused.code.name == "INVALID_ARGUMENT", (path, refused)
    assert not pathlib.Path("/etc/x").exists() and not pathlib.Path("/x").exists()


@pytest.mark.parametrize("runtime", programs.C_RUNTIMES)
def test_ESC_23_variables_that_load_code(daemon, runtime):
    """What a caller's variables bring into the first program already runs behind the whole wall, or is dropped."""
    library = programs.Program.built / "preloaded.so"
    shown = "for l in open('/proc/self/status'):\n    if l.startswith(('CapEff', 'CapBnd', 'Seccomp:', 'NoNewPrivs', 'Uid')): print('HOOK', l.strip().replace('\\t', ' '))\n"
    script = "const f = require('fs').readFileSync('/proc/self/status', 'utf8'); " \
             "for (const l of f.split('\\n')) if (/^(CapEff|CapBnd|Seccomp:|NoNewPrivs|Uid)/.test(l)) console.log('HOOK ' + l.replace(/\\t/g, ' '));"
    shell = "while read -r k v; do case $k in CapEff:|CapBnd:|Seccomp:|NoNewPrivs:|Uid:) echo HOOK $k $v ;; esac; done </proc/$$/status"
    files = {"a.so": (library.read_bytes(), True), "hook/sitecustomize.py": shown.encode(), "hook/usercustomize.py": b"", "a.py": shown.encode(),
             "a.js": script.encode(), "a.sh": shell.encode()}
    env = {"LD_PRELOAD": "/workspace/a.so", "LD_LIBRARY_PATH": "/workspace", "LD_AUDIT": "/workspace/a.so", "PYTHONSTARTUP": "/workspace/a.py",
           "PYTHONPATH": "/workspace/hook", "NODE_OPTIONS": "--require /workspace/a.js", "BASH_ENV": "/workspace/a.sh", "ENV": "/workspace/a.sh",
           "PYTHONHOME_": "x", "GCONV_PATH": "/workspace", "MALLOC_CHECK_": "3", "GLIBC_TUNABLES": "glibc.malloc.check=3"}
    call = daemon.run({"bash": "echo main", "python": "print('main')", "javascript": "console.log('main')"}[runtime], runtime, files=files, env=env)
    lines = call.stdout.decode().splitlines()
    assert call.outcome == "COMPLETED" and "main" in lines, call
    hooks = [line.split() for line in lines if line.startswith("HOOK")]
    for _, name, *values in hooks:
        want = {"CapEff:": ["0" * 16], "CapBnd:": ["0" * 16], "Seccomp:": ["2"], "NoNewPrivs:": ["1"]}.get(name)
        assert values == want if want else "0" not in values, f"something ran in front of the wall: {hooks}"
    assert hooks, "no hook ran at all: then this test shows nothing"


def test_ESC_20_environment_of_the_daemon(daemon):
    """A secret in the environment of the daemon is in no file, no variable and no process that a cell can see."""
    assert os.environ["GLOVEBOX_TEST_SECRET"] in pathlib.Path(f"/proc/{daemon.process.pid}/environ").read_text()
    call = daemon.run("cat /proc/*/environ /proc/self/task/*/environ | tr '\\0' '\\n'; env; set; declare -x")
    assert b"PATH=" in call.stdout and os.environ["GLOVEBOX_TEST_SECRET"].encode() not in call.stdout + call.stderr


def test_attacks_in_a_row_leave_the_daemon_alone(daemon, host):
    """All attacks once more, at the same time: the daemon, its neighbours and the host stand."""
    calls = []
    for program in programs.all_in("attack", "deny"):
        if program.is_c and program.name not in ("deny-read-only.c",):
            code, files = program.request("bash")
            calls.append((program, daemon.call(code, "bash", files=files, args=host.told(program.name), timeout=60)))
    for program, call in calls:
        Tally(call.wait(90)).check_all_refused(program.attempts)
