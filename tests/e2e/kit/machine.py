"""The machine the tests run on: its cgroup2 tree, its processes, and how much slower than usual it is.

GLOVEBOX_TIME_FACTOR stretches every deadline (sanitizers), GLOVEBOX_REPEAT_DIVISOR shortens the tests that repeat something.
"""
import os
import pathlib
import subprocess
import sys
import time

TIME_FACTOR = float(os.environ.get("GLOVEBOX_TIME_FACTOR", "1"))
REPEAT_DIVISOR = int(os.environ.get("GLOVEBOX_REPEAT_DIVISOR", "1"))
CONTROLLERS = ("memory", "pids", "cpu", "io")


def seconds(value):
    """A deadline or a tolerance, stretched for a slow build."""
    return value * TIME_FACTOR


def repeats(count):
    return max(3, count // REPEAT_DIVISOR)


def wait_until(condition, deadline=5.0, step=0.01):
    """The first true value of condition(), or its last false one once the deadline has passed."""
    end = time.monotonic() + seconds(deadline)
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(step)


def is_zygote(pid):
    """An interpreter that the spawner keeps to fork others from; it may be replaced at any time."""
    try:
        return b"--zygote" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return True  # gone


def cgroup2_mount():
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        if right.split()[0] == "cgroup2":
            return pathlib.Path(left.split()[4])
    raise RuntimeError("this machine has no cgroup2 file system; mount one: mount -t cgroup2 none /sys/fs/cgroup/unified")


def own_cgroup():
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return cgroup2_mount() / line[3:].lstrip("/")
    raise RuntimeError("this process is in no cgroup2 cgroup")


_base = None


def base_cgroup():
    """Our own cgroup. Where it has controllers to give away, this process first moves into a leaf, as cgroup2 demands."""
    global _base
    if _base is not None:
        return _base
    _base = own_cgroup()
    wanted = [c for c in (_base / "cgroup.controllers").read_text().split() if c in CONTROLLERS]
    if wanted and _base != cgroup2_mount():
        leaf = _base / "tests"
        leaf.mkdir(exist_ok=True)
        for pid in (_base / "cgroup.procs").read_text().split():
            (leaf / "cgroup.procs").write_text(pid)
        (_base / "cgroup.subtree_control").write_text(" ".join("+" + c for c in wanted))
    return _base


def missing_controllers():
    have = (base_cgroup() / "cgroup.controllers").read_text().split()
    return [c for c in CONTROLLERS if c not in have]


def children(pid):
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    except FileNotFoundError:
        pass
    return found


def program(pid):
    """Name of the program a process runs, "" when it is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        return ""


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def status_field(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return line.split(":", 1)[1].split()
    raise KeyError(field)


def rss(pid):
    return int(status_field(pid, "VmRSS")[0]) * 1024


def assert_grown_less(pid, before, bound):
    """A program built with AddressSanitizer keeps what it freed for a while (its quarantine): there the bound is that much larger."""
    if "libasan" in pathlib.Path(f"/proc/{pid}/maps").read_text():
        bound += 512 << 20
    grown = rss(pid) - before
    assert grown < bound, f"{program(pid)} grew by {grown / (1 << 20):.1f} MiB, allowed are {bound / (1 << 20):.0f}"


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def descriptors(pid):
    links = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            links[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
        except FileNotFoundError:
            pass
    return links


def set_descriptor_limit(pid, soft):
    """Sets the soft RLIMIT_NOFILE of a process and returns the old one. As that process's own user: root may lack CAP_SYS_RESOURCE."""
    uid, gid = int(status_field(pid, "Uid")[0]), int(status_field(pid, "Gid")[0])
    code = ("import os, resource, sys\n"
            f"os.setgroups([]); os.setresgid({gid}, {gid}, {gid}); os.setresuid({uid}, {uid}, {uid})\n"
            f"soft, hard = resource.prlimit({pid}, resource.RLIMIT_NOFILE)\n"
            f"resource.prlimit({pid}, resource.RLIMIT_NOFILE, ({soft}, hard)); print(soft)")
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


def thread_count(pid):
    return len(os.listdir(f"/proc/{pid}/task"))
