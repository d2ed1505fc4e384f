"""The figures of cells' cgroups for ./dev bench: making, a run's leaf, removing, by driver and by how many cells are there already.

The driver systemd needs a systemd that is PID 1: this machine's, else that of the program which GLOVEBOX_LAB names (tests/lab/run says what it is)."""
import json
import os
import shutil
import subprocess
import tempfile

from figures import SOURCE, SYSTEMD, head, ms, row

from kit import machine
from kit.daemon import BUILD, Cgroup

PROGRAM = BUILD / "bench" / "cgroups"
LIVE = (0, 100, 1000)
COUNT = 200


def here(driver, scope, live):
    """On this machine, in a cgroup of its own."""
    cgroup, state = Cgroup(), tempfile.mkdtemp(prefix="glovebox-bench-")
    try:
        done = subprocess.run([str(PROGRAM), driver, scope, state, str(live), str(COUNT), *machine.missing_controllers()],
                              capture_output=True, text=True, preexec_fn=cgroup.enter, timeout=600)
    finally:
        machine.wait_until(lambda: not cgroup.pids(), 5)
        cgroup.remove()
        shutil.rmtree(state)
    return done


def in_the_lab(driver, scope, live):
    """Natively fast, but on a hybrid machine: without controllers."""
    command = f"/bench/cgroups {driver} {scope} /tmp/state {live} {COUNT} memory pids cpu io"
    return subprocess.run([os.environ["GLOVEBOX_LAB"], "box", "--packages", str(SOURCE / "tests/lab/packages"), "--timeout", "300",
                           "--share", f"{PROGRAM.parent}:/bench:ro", "--", "sh", "-c", command], capture_output=True, text=True, timeout=400)


def show(name, run, *which):
    for live in LIVE:
        done = run(*which, live)
        found = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not found:
            row(f"{name}, {live} cells there", "-", (done.stderr or done.stdout).strip()[-120:])
            continue
        got = json.loads(found[0])
        text = ", ".join(f"{what} {ms(got[what]['p50'])} (p99 {ms(got[what]['p99'])})" for what in ("leaf", "remove"))
        row(f"{name}, {live} cells there", ms(got["make"]["p50"]), f"make, p50; p99 {ms(got['make']['p99'])}; {text}; {got['per_second']:.0f}/s, 4 at a time")


def cgroups():
    head("The cgroup of a cell")
    show("cgroupfs", here, "cgroupfs", "per-cell")
    if SYSTEMD:
        run = here
    elif os.environ.get("GLOVEBOX_LAB"):
        run = in_the_lab
    else:
        row("systemd", "-", "systemd is not PID 1 here, and GLOVEBOX_LAB names no machine where it is")
        return
    show("systemd, a scope for each cell", run, "systemd", "per-cell")
    show("systemd, scopes that cells share", run, "systemd", "shared")
