"""What the groups of ./dev bench share: rows, the programs that measure, daemons with runtimes of their own, and targets."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / "e2e"), str(SOURCE / "tests" / "escape")]

from kit import machine  # noqa: E402
from kit.daemon import BUILD, Daemon, pids_in  # noqa: E402

SECONDS = int(os.environ.get("BENCH_SECONDS", "8"))
LOAD, BARE = BUILD / "bench" / "load", BUILD / "bench" / "bare"
RUNTIMES = SOURCE / "systemd" / "runtimes.d"
PYTHON, NODE, BASH = "/usr/bin/python3", "/usr/bin/node", "/usr/bin/bash"
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
# Programs of the spawner's children; any other is a zygote.
SPAWNER = ("glovebox-spawner", "")
# Of bare programs: what cells have. Somebody's own may have variables that slow a start down (NODE_EXTRA_CA_CERTS doubles Node's).
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
SYSTEMD = os.path.isdir("/run/systemd/system")
# Quiet: what is made in the background is ready when the daemon has used less than this part of a processor for so long.
QUIET_SHARE, QUIET_SECONDS, QUIET_DEADLINE = 0.03, 0.6, 40


def row(name, value, note=""):
    print(f"  {name:<52} {value:>16}  {note}", flush=True)


def head(text):
    print(f"\n{text}", flush=True)


def ms(us):
    return f"{us / 1000:.2f} ms"


def of(values, percent):
    """A percentile; 0 where nothing was measured."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)] if values else 0


# --- targets: figures beside what they are meant to be; nothing passes or fails --------------------------------------------

targets = []


def target(what, value, wanted, text="{:.1f} times"):
    """wanted: "at least 25", "at most 0.5" of the same unit as value."""
    word, bound = wanted.rsplit(" ", 1)
    met = value >= float(bound) if word == "at least" else value <= float(bound)
    targets.append((what, text.format(value), wanted, met))
    row(f"  {what}", text.format(value), f"wanted: {wanted}")


def show_targets():
    if targets:
        head("What was wanted, and what this run gave")
    for what, value, wanted, met in targets:
        row(what, value, f"wanted: {wanted}{'' if met else '   <- not in this run'}")


# --- the programs that measure ---------------------------------------------------------------------------------------------

def measured(program, *arguments, **how):
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, **how)
    if not done.stdout:
        sys.exit(f"{program.name} {arguments[0]}: {done.stderr}")
    if done.stderr:
        print("  ", done.stderr.strip(), file=sys.stderr)
    return json.loads(done.stdout)


def load(*arguments):
    return measured(LOAD, *arguments)


def calls(daemon, runtime, code, *options):
    """Options as calls.c has them, without their dashes: ("rate", 20), "stream"."""
    words = [w for o in options for w in ([f"--{o}"] if isinstance(o, str) else [f"--{o[0]}", o[1]])]
    return load("calls", daemon.socket, runtime, code, *words)


def bare(command, *options):
    words = [w for o in options for w in ([f"--{o}"] if isinstance(o, str) else [f"--{o[0]}", o[1]])]
    return measured(BARE, *words, "--", *command, env=ENVIRONMENT)


_bwrap = None


def bwrap_works():
    """Why there are no figures of bwrap here; empty: there are."""
    global _bwrap
    if _bwrap is None:
        if not shutil.which("bwrap"):
            _bwrap = "bwrap is not installed (Debian: bubblewrap)"
        else:
            done = subprocess.run([*BWRAP, "/bin/true"], capture_output=True, text=True)
            _bwrap = f"bwrap does not work here: {done.stderr.strip()[-90:]}" if done.returncode else ""
    return _bwrap


def starts_text(got):
    """How the calls of a run with "stream" started: "480 warm"."""
    found = [f"{n} {kind}" for kind, n in got["starts"].items() if n]
    return "started " + (", ".join(found) or "in no way that is known")


def errors_text(got):
    return f"; {got['errors']} ERRORS" if got["errors"] else ""


# --- the machine -----------------------------------------------------------------------------------------------------------

def processors():
    """(seconds worked, seconds passed) of all processors together, since the start; what another guest took is worked, too."""
    fields = [int(n) for n in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / tick, sum(fields) / tick


def busy(seconds):
    """How much of the processors is in use while we do nothing, in percent."""
    before = processors()
    time.sleep(seconds)
    after = processors()
    return 100 * (after[0] - before[0]) / max(after[1] - before[1], 1e-9)


def process_seconds(pid):
    """Processor time of a live process, all its threads, without its children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cgroups(daemon):
    """What holds all of a daemon's processes: its own; with systemd the spawner has a scope of its own, and cells are in slices."""
    found = [daemon.cgroup.path]
    own = pathlib.Path(f"/proc/{daemon.spawner}/cgroup").read_text().strip().rsplit("0::", 1)[1].lstrip("/")
    for path in (machine.cgroup2_mount() / own, machine.cgroup2_mount() / "glovebox.slice"):
        if path.is_dir() and not path.is_relative_to(daemon.cgroup.path):
            found.append(path)
    return found


def cells(daemon):
    """Its cells' cgroups: those with a leaf for their init."""
    return [pathlib.Path(top) for cgroup in cgroups(daemon) for top, names, _ in os.walk(cgroup) if "init" in names]


def cell_pids(daemon):
    return pids_in(f for f in daemon.cgroup.folders() if "/cell-" in str(f))  # cells come and go meanwhile


def children(daemon):
    """Of the spawner; main processes of cells are its children, too, and left out."""
    return sorted(set(machine.children(daemon.spawner)) - cell_pids(daemon))


def zygotes(daemon):
    return [pid for pid in children(daemon) if machine.program(pid) not in SPAWNER]


def daemon_seconds(daemon):
    """Processor time of everything that is or was in its cgroups."""
    texts = [(path / "cpu.stat").read_text() for path in cgroups(daemon)]
    return sum(int(re.search(r"^usage_usec (\d+)", text, re.M).group(1)) for text in texts) / 1e6


class Cost:
    """Where the processor time of a measurement went."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.helpers = children(daemon)
        self.zygotes = zygotes(daemon)
        self.before, self.machine = self._read(), processors()

    def _read(self):
        now = {"server": process_seconds(self.daemon.server), "spawner": process_seconds(self.daemon.spawner), "helpers": 0, "zygotes": 0}
        for pid in self.helpers:
            with contextlib.suppress(OSError):  # it has ended: what it used is then with the cells'
                now["zygotes" if pid in self.zygotes else "helpers"] += process_seconds(pid)
        now["all"] = daemon_seconds(self.daemon)
        return now

    def text(self, got):
        """Milliseconds of processor time for each execution."""
        now, whole = self._read(), processors()[0] - self.machine[0]
        each = {name: 1000 * (now[name] - self.before[name]) / max(got["count"], 1) for name in now}
        own = sum(each[name] for name in ("server", "spawner", "helpers", "zygotes"))
        client = got["client_cpu_us"] / 1000 / max(got["count"], 1)
        other = 1000 * whole / max(got["count"], 1) - each["all"] - client
        kinds = (("server", each["server"]), ("spawner", each["spawner"]), ("its helpers", each["helpers"]), ("zygotes", each["zygotes"]),
                 ("cells", each["all"] - own), ("client", client), ("kernel and others", other))
        return sum(v for _, v in kinds), ", ".join(f"{name} {max(value, 0):.2f}" for name, value in kinds)


# --- daemons ---------------------------------------------------------------------------------------------------------------

def more_config():
    """BENCH_CONFIG="server.max-executions=32;spawner.driver=systemd": keys for every daemon of the bench."""
    found = {}
    for entry in filter(None, os.environ.get("BENCH_CONFIG", "").split(";")):
        name, _, value = entry.partition("=")
        section, _, key = name.strip().partition(".")
        found.setdefault(section, {})[key] = value.strip()
    return found


@contextlib.contextmanager
def running(runtimes=None, settings=None, filled=True, audit=False):
    """A daemon. runtimes: keys of shipped ones ({"python": {"pool-min": 8}}), and no other runtime has a pool then; None: runtimes as they are
    shipped."""
    # The kit's own defaults are cgroupfs and no pool.
    config = {"spawner": {"pool": None, **({"driver": None} if SYSTEMD else {})},
              "server": {"max-executions": 64, **({} if audit else {"audit-file": None})}}
    for more in (settings or {}, more_config()):
        for section, keys in more.items():
            config.setdefault(section, {}).update(keys)
    others = {} if runtimes is None else {path.stem: {"pool-min": 0, "pool-max": 0} for path in RUNTIMES.glob("*.conf")}
    daemon = Daemon(config=config, runtimes={**others, **(runtimes or {})})
    try:
        daemon.start()
        daemon.wait_serving()
        if filled:
            settle(daemon)
        yield daemon
    finally:
        daemon.stop()
        daemon.remove()


def settle(daemon):
    """Until what the daemon makes in the background is ready."""
    end = time.monotonic() + QUIET_DEADLINE
    while time.monotonic() < end:
        before = daemon_seconds(daemon)
        time.sleep(QUIET_SECONDS)
        if daemon_seconds(daemon) - before < QUIET_SHARE * QUIET_SECONDS:
            return
    print("   the daemon does not come to rest", file=sys.stderr)
