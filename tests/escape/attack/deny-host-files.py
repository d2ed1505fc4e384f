"""A thief: keys, passwords, environments and the host's files by any path. The arguments are files of the host that hold a secret.
CASES: SEED-12 ESC-26 FIL-01
ATTEMPTS: 60
"""
import ctypes
import glob
import os
import re
import sys

from attack import attempt, expect, finish

SECRET = re.compile("glovebox-canary-[0-9a-f]{32}")


def read(path):
    return lambda: open(path, "rb").read(64)


for path in sys.argv[1:]:
    for prefix in ("", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../..", "/workspace/../../../..", "/proc/thread-self/root", "/dev/fd/../../../.."):
        attempt(f"reading {prefix}{path}", read(prefix + path))
    os.symlink(path, "/workspace/link")
    attempt(f"reading a link to {path}", read("/workspace/link"))
    attempt(f"hard link to {path}", lambda: os.link(path, "/workspace/hard"))
    os.unlink("/workspace/link")

for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_rsa_key", "/root/.ssh/id_rsa", "/root/.bash_history", "~/.ssh/id_rsa",
             "~/.aws/credentials", "~/.netrc", "/etc/machine-id", "/proc/1/environ", "/proc/1/cmdline", "/proc/kcore", "/dev/mem",
             "/var/run/secrets/kubernetes.io/serviceaccount/token", "/etc/kubernetes/admin.conf", "/etc/glovebox/glovebox.conf", "/boot/config",
             "/sys/class/dmi/id/product_uuid", "/sys/kernel/vmcoreinfo", "/var/lib/dpkg/status", "/var/log/syslog", "/etc/crontab"):
    attempt(f"reading {path}", read(os.path.expanduser(path)))

# Up and out, by every way a folder can be entered.
root = os.stat("/")
here = os.open("/", os.O_RDONLY)
for _ in range(20):
    here = os.open("..", os.O_RDONLY, dir_fd=here)
expect("going up from the root", os.path.samestat(os.fstat(here), root))
os.makedirs("/workspace/a/b")
inside = os.open("/workspace/a/b", os.O_RDONLY)
os.rename("/workspace/a/b", "/workspace/b")
up = os.stat("../../../../..", dir_fd=inside)
expect("going up from a folder that was moved", os.path.samestat(up, root))
os.mkdir("/workspace/gone")
os.chdir("/workspace/gone")
os.rmdir("/workspace/gone")
expect("going up from a folder that was removed", os.path.samefile("../../../..", "/"))
os.chdir("/workspace")

# Not as a file, but wherever text of the host could have got to.
seen = []
for path in ["/proc/self/environ", "/proc/self/mountinfo", "/proc/self/cmdline", "/proc/self/cgroup", *glob.glob("/etc/*")]:
    try:
        seen.append(open(path, "rb").read().decode(errors="replace"))
    except OSError:
        pass
expect("a secret in what can be read", not SECRET.search("".join(seen) + str(os.environ)))
expect("passwords", not [line for line in open("/etc/passwd") if line.split(":")[1] not in ("x", "*", "!")])

# Language-level tricks find the same walls (the language never was one).
popen = [c for c in object.__subclasses__() if c.__name__ == "Popen"]
libc = ctypes.CDLL(None)
expect("a shell as another user", libc.system(b"test \"$(id -u)\" != 0 && ! cat /etc/shadow 2>/dev/null") == 0, popen)
expect("access to the shadow file", not os.access("/etc/shadow", os.R_OK))
finish()
