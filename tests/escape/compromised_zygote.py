"""What a zygote that was taken over tries. It runs as the interpreter of a runtime in the zygote's place, with its socket at 3 (spawner/zygote-wire.h),
and tells what it found as the reason why it cannot preload, the one text that leaves a zygote. Each attack that does not fail is named.

As `lie:WHAT` it says that it is ready, and answers every request with the pid of a process that is none of its children in a cell;
as `lie:dead`, which is none, with that of a child that has died and was reaped meanwhile."""
import ctypes
import errno
import itertools
import os
import signal
import socket
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
HOST = os.getppid()
READY = struct.Struct("<i200s")
REPLY = struct.Struct("<Qii32s")
PIDFD_OPEN, PIDFD_GETFD, PTRACE, VM_READ, UNSHARE_CGROUP, FSOPEN, KEYCTL = 434, 438, 101, 310, 0x02000000, 430, 250
CLONE, CLONE_PARENT, NEWPID = {"x86_64": 56}.get(os.uname().machine, 220), 0x8000, 0x20000000
PTRACE_ATTACH, MS_REMOUNT, MS_BIND, NAMESPACES, PR_SET_NAME = 16, 32, 4096, 0x2C020000, 15


def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])


def succeeds(attack):
    try:
        result = attack()
    except OSError:
        return False
    return result is not False and result != -1


def opens(path, flags=os.O_RDONLY):
    return lambda: os.close(os.open(path, flags))


def reaches(family, address):
    def attempt():
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(2)
            s.connect(address)
    return attempt


def reads_memory():
    here, size = ctypes.create_string_buffer(8), 8
    local, remote = (ctypes.c_size_t * 2)(ctypes.addressof(here), size), (ctypes.c_size_t * 2)(0x400000, size)
    return call(VM_READ, HOST, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) > 0


def joins_host():
    fd = call(PIDFD_OPEN, HOST, 0)
    return fd >= 0 and libc.setns(fd, NAMESPACES) == 0


def takes_descriptor():
    fd = call(PIDFD_OPEN, HOST, 0)
    return fd >= 0 and any(call(PIDFD_GETFD, fd, n, 0) >= 0 for n in range(64))


def writes_cgroup():
    if libc.unshare(UNSHARE_CGROUP) != 0 or libc.mount(b"none", b"/proc", b"cgroup2", 0, None) != 0:
        return False
    return any(succeeds(opens("/proc/" + name, os.O_WRONLY)) for name in ("cgroup.procs", "cgroup.kill", "cgroup.freeze"))


def descriptors():
    return [fd for fd in range(4, 4096) if succeeds(lambda n=fd: os.fstat(n))]


def proc():
    if libc.mount(b"none", b"/proc", b"proc", 0, None) != 0:
        return False
    return bool(os.listdir("/proc/1"))


def becomes(uid):
    """In a child: the way back would be gone."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def signals_strangers():
    """As each user that the namespace has, the root of cells in the making among them: a process that is neither this one nor comes of it."""
    def found(uid):
        os.setresuid(uid, uid, uid)
        own, end = {os.getpid(), os.getppid()}, time.monotonic() + (0.3 if uid else 4)
        while time.monotonic() < end:
            if any(succeeds(lambda n=pid: os.kill(n, 0)) for pid in range(HOST, max(own) + 1500) if pid not in own):
                return True
        return False

    hits = 0
    for uid in (0, *range(1000, 1012)):
        child = os.fork()
        if child == 0:
            os._exit(found(uid))
        hits += os.waitpid(child, 0)[1] != 0
    return hits > 0


ATTACKS = {
    "find a descriptor": lambda: bool(descriptors()),
    "signal the spawner": lambda: os.kill(HOST, 0),
    "signal a stranger": lambda: "LANDLOCK_SCOPES" in os.environ and signals_strangers(),
    "signal pid 1": lambda: os.kill(1, 0),
    "trace the spawner": lambda: call(PTRACE, PTRACE_ATTACH, HOST, 0, 0) == 0,
    "read the spawner's memory": reads_memory,
    "take the spawner's descriptors": takes_descriptor,
    "join the host's namespaces": joins_host,
    "see the host's processes": proc,
    "write to a cgroup": writes_cgroup,
    "read the host's passwords": opens("/etc/shadow"),
    "see the host's root": lambda: bool(os.listdir("/root")),
    "see the host's state": opens("/var/lib/dpkg/status"),
    "write to /usr": opens("/usr/attack", os.O_WRONLY | os.O_CREAT),
    "make / writable": lambda: libc.mount(None, b"/", None, MS_REMOUNT | MS_BIND, None) == 0,
    "make a device": lambda: os.mknod("/dev/sda", 0o60600, os.makedev(8, 0)),
    "be the host's root": lambda: becomes(4294967294),
    "be an unmapped user": lambda: becomes(999),
    "reach the host's loopback": reaches(socket.AF_INET, ("127.0.0.1", int(os.environ["HOST_PORT"]))),
    "reach the host's abstract socket": reaches(socket.AF_UNIX, "\0" + os.environ["HOST_ABSTRACT"]),
    "be nicer to itself": lambda: os.setpriority(os.PRIO_PROCESS, 0, -1),
    "gain by exec": lambda: libc.prctl(39, 0, 0, 0, 0) == 0,  # PR_GET_NO_NEW_PRIVS
    "read a secret": lambda: any("SECRET" in name for name in os.environ),
}


def thread():
    other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    other.start()
    return other.native_id


def short_lived(pid_namespace):
    """A child in the cell that is no more: the spawner has reaped it."""
    libc.setns(pid_namespace, NEWPID)
    pid = call(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    end = time.monotonic() + 8
    while (libc.kill(pid, 0) == 0 or ctypes.get_errno() != errno.ESRCH) and time.monotonic() < end:
        time.sleep(0.01)
    return pid


def liar(what):
    zygote = socket.socket(fileno=3)
    zygote.recv(4096)
    zygote.send(READY.pack(0, b""))
    pid = {"spawner": HOST, "itself": os.getpid(), "none": 0, "negative": -1, "far": 2 ** 22 - 1, "late": 0, "thread": thread()}.get(what)
    for asked in itertools.count(1):
        data, fds, _, _ = socket.recv_fds(zygote, 4096, 16)
        if not data:
            return
        libc.prctl(PR_SET_NAME, f"asked-{asked}".encode(), 0, 0, 0)
        if what == "late":
            time.sleep(3)
        if what == "dead":
            pid = short_lived(fds[0])
        for fd in fds:
            os.close(fd)
        zygote.send(REPLY.pack(struct.unpack_from("<Q", data)[0], 0, pid if pid is not None else HOST + int(what), b""))


mode = os.environ["ATTACK"]
if mode.startswith("lie:"):
    liar(mode[4:])
else:
    done = [name for name, attack in ATTACKS.items() if succeeds(attack)]
    zygote = socket.socket(fileno=3)
    zygote.send(READY.pack(-1, (f"{len(ATTACKS)} attacks, these succeed: " + ", ".join(done)).encode()[:199]))
sys.exit()
