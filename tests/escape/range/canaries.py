"""What on the host no attack may read or change: files with a secret, settings of the kernel, the mounts, the daemon's own programs."""
import ctypes
import glob
import hashlib
import os
import pathlib
import secrets
import socket
import threading

from kit.daemon import BUILD
from kit.machine import wait_until

_libc = ctypes.CDLL(None, use_errno=True)
SECRET = "glovebox-canary-" + secrets.token_hex(16)
NAME = f"glovebox-canary-{os.getpid()}"
# Folders of the host; a cell must not see what is in them.
HIDDEN = ("/root", "/home", "/etc", "/var/tmp", "/var/lib", "/run", "/opt", "/srv", "/tmp", "/dev/shm")
# Here a cell may see it, and no more.
SHARED = "/usr/local/share"
WATCHED = ("/", "/usr", "/etc", "/proc", "/sys", "/dev", "/tmp", "/home", "/root", "/run", "/var", "/workspace", "/bin", "/lib", "/sbin", "/lib64")
SETTINGS = ("kernel/core_pattern", "kernel/hostname", "kernel/domainname", "kernel/modprobe", "kernel/hotplug", "kernel/sysrq", "kernel/pid_max",
            "kernel/randomize_va_space", "kernel/yama/ptrace_scope", "kernel/dmesg_restrict", "kernel/unprivileged_bpf_disabled",
            "kernel/keys/maxkeys", "kernel/ns_last_pid_absent", "kernel/shmmax", "kernel/msgmax", "vm/overcommit_memory", "vm/swappiness",
            "vm/mmap_min_addr", "fs/suid_dumpable", "fs/protected_symlinks", "fs/protected_hardlinks", "fs/pipe-max-size",
            "net/ipv4/ip_forward", "net/core/somaxconn", "user/max_user_namespaces")


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def helpers():
    """The files that run with rights on the host or first in a cell."""
    return sorted(p for p in glob.glob(f"{BUILD}/bin/*") + glob.glob(f"{BUILD}/lib/glovebox/**", recursive=True) if os.path.isfile(p))


class Listener:
    """A socket of the host that counts who gets through to it."""

    def __init__(self, sock):
        self.socket, self.visits = sock, 0
        sock.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.visits += 1
            peer.close()


class Host:
    def __init__(self):
        self.files = []
        for folder in (*HIDDEN, SHARED):
            if os.path.isdir(folder):
                path = pathlib.Path(folder, NAME)
                path.write_text(SECRET + "\n" * 4096)
                path.chmod(0o644)
                self.files.append(path)
        self.shared = pathlib.Path(SHARED, NAME)
        self.hidden = [p for p in self.files if p != self.shared]
        self.stat = {p: self._stat(p) for p in self.files}
        self.programs = {p: digest(p) for p in helpers()}
        self.settings = self._settings()
        self.name = socket.gethostname()
        self.memory_key = 0x47420000 + os.getpid() % 0x10000
        self.memory = _libc.shmget(self.memory_key, 4096, 0o1666)
        assert self.memory >= 0, "no shared memory on the host"
        self._listen()

    def _listen(self):
        inet = socket.socket()
        inet.bind(("127.0.0.1", 0))
        self.port = inet.getsockname()[1]
        abstract = socket.socket(socket.AF_UNIX)
        self.abstract = f"{NAME}-abstract"
        abstract.bind("\0" + self.abstract)
        named = socket.socket(socket.AF_UNIX)
        self.socket_path = f"/run/{NAME}.sock"
        named.bind(self.socket_path)
        os.chmod(self.socket_path, 0o777)
        self.listeners = [Listener(inet), Listener(abstract), Listener(named)]

    @staticmethod
    def _stat(path):
        st = os.lstat(path)
        return (st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_nlink)

    @staticmethod
    def _settings():
        found = {}
        for name in SETTINGS:
            try:
                found[name] = pathlib.Path("/proc/sys", name).read_text()
            except OSError:
                pass
        return found

    @staticmethod
    def _mounts():
        """What is mounted where an attack would want it; other programs of the host may mount elsewhere meanwhile."""
        fields = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        return sorted((f[3], f[4], f[5]) for f in fields if f[4] in WATCHED or f[4].startswith(("/proc/", "/usr/", "/etc/", "/dev/", "/workspace")))

    def told(self, name):
        """What the attack of that name is told about the host."""
        arguments = {
            "deny-read-only.c": [self.shared],
            "deny-host-files.py": [*self.hidden, self.socket_path],
            "deny-host-files.js": [*self.hidden, self.socket_path],
            "deny-host-files.sh": [*self.hidden, self.socket_path],
            "deny-host-sockets.py": [self.port, self.abstract, self.socket_path],
            "deny-shared-facts.c": [self.name, self.memory_key],
            "deny-host-processes.c": [os.getpid()],
        }
        return [str(a) for a in arguments.get(name, ())]

    def look(self):
        self.mounts = self._mounts()

    def check(self):
        for path in self.files:
            assert path.read_text().startswith(SECRET) and self._stat(path) == self.stat[path], f"an attack changed {path}"
        assert {p: digest(p) for p in self.programs} == self.programs, "an attack changed a program of the daemon"
        assert self._settings() == self.settings, "an attack changed a setting of the kernel"
        mounts = self._mounts()
        assert mounts == self.mounts, f"an attack changed the host's mounts: {set(mounts) ^ set(self.mounts)}"
        assert [l.visits for l in self.listeners] == [0, 0, 0], "an attack reached a socket of the host"
        assert not glob.glob("/workspace*") and not os.path.exists("/tmp/PWNED"), "an attack left a file on the host"

    def visited(self):
        """Whether anybody came to a socket of the host, as a test of a layer that is off wants it; forgotten with the answer."""
        came = wait_until(lambda: any(l.visits for l in self.listeners), 1)
        for listener in self.listeners:
            listener.visits = 0
        return came

    def remove(self):
        for listener in self.listeners:
            listener.socket.close()
        os.unlink(self.socket_path)
        for path in self.files:
            path.unlink()
        _libc.shmctl(self.memory, 0, None)
