"""Executions that find a cell ready, beside the bare interpreter and bwrap: the groups latency, sustained, burst, memory and soak.

Each comparison is of one run: bare, bwrap, Glovebox, bare, ... in turns, so that whatever else the machine does meets all of them. In `latency` all
of them begin at the same pace, at which a cell is made anew in between, so that each meets processors that have gone to sleep; bare programs run once
more one after the other without a pause, which is their best."""
import os
import pathlib
import time

from figures import (BASH, BWRAP, NODE, PYTHON, SECONDS, SYSTEMD, Cost, bare, bwrap_works, calls, cell_pids, cells, children, errors_text,
                     head, ms, of, row, running, settle, starts_text, target, zygotes)

from kit import machine
from kit.daemon import pids_in

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "8"))
SOAK = int(os.environ.get("BENCH_SOAK", "20000"))
CALLERS = 16
NO_PAUSE = "bare, no pause"
DESCRIBE = ("import pandas as pd\n"
            "print(pd.DataFrame({'a': range(1000), 'b': [x * 0.5 for x in range(1000)]}).describe())")
ZYGOTE = {"zygote": "yes", "warm": "yes"}


def pool(least, most=None, **keys):
    return {"pool-min": least, "pool-max": most or least, **keys}


WARM_RUNTIMES = {"python": pool(8, **ZYGOTE), "python-data": pool(4), "javascript": pool(4, warm="yes"), "bash": pool(8)}
# No cell is kept, but the zygote lives.
EMPTY_RUNTIMES = {"python": {"pool-min": 0, "pool-max": 0, "zygote": "yes", "warm": "no"}}


class Case:
    def __init__(self, name, runtime, code, command, rate, each, targets):
        self.name, self.runtime, self.code, self.command = name, runtime, code, command
        self.rate, self.each, self.targets = rate, each, targets  # calls a second; (bare, ours) in each round


PRINT = Case("Python print(1)", "python", "print(1)", [PYTHON, "-c", "print(1)"], 20, (15, 60),
             (("bare / ours, p50", "at least 25"), ("bare p50 / our p99", "at least 5")))
CASES = [
    PRINT,
    Case("Python DataFrame.describe()", "python-data", DESCRIBE, [PYTHON, "-c", DESCRIBE], 5, (3, 12), (("bare / ours, p50", "at least 25"),)),
    Case("Node console.log(1)", "javascript", "console.log(1)", [NODE, "-e", "console.log(1)"], 10, (5, 24), (("bare / ours, p50", "at least 15"),)),
    Case("bash echo hi", "bash", "echo hi", [BASH, "-c", "echo hi"], 20, (40, 60), (("ours / bare, p50", "at most 1.6"),)),
]
EMPTY = Case("Python print(1), no cell ready", "python", "print(1)", PRINT.command, 20, (15, 60), (("ours / bare, p50", "at most 0.5"),))


def three(daemon, case):
    """Times of bare, bwrap and ours in microseconds, taken in turns."""
    found, errors, late = {"bare": [], NO_PAUSE: [], "bwrap": [], "ours": []}, 0, 0
    pace = [("rate", case.rate)]
    programs = {"bare": (case.command, pace), NO_PAUSE: (case.command, [])}
    if not bwrap_works():
        programs["bwrap"] = [*BWRAP, *case.command], pace
    for _ in range(ROUNDS):
        for name, (command, how) in programs.items():
            found[name] += bare(command, ("count", case.each[0]), *how, "samples")["samples_us"]
        settle(daemon)
        got = calls(daemon, case.runtime, case.code, ("count", case.each[1]), ("rate", case.rate), ("callers", 4), "samples")
        found["ours"] += got["samples_us"]
        errors += got["errors"]
        late += got["late"]
    return found, errors, late


def ratio(words, found):
    p50, p99 = {name: of(values, 50) for name, values in found.items()}, of(found["ours"], 99)
    values = {"bare / ours, p50": (p50["bare"], p50["ours"]), "bare p50 / our p99": (p50["bare"], p99), "ours / bare, p50": (p50["ours"], p50["bare"])}
    above, below = values[words]
    return above / below if below else 0


def compare(daemon, case):
    if not any(r.name == case.runtime and r.available for r in daemon.info().runtimes):
        row(case.name, "-", f"the runtime {case.runtime} is not available")
        return
    found, errors, late = three(daemon, case)
    for name, values in found.items():
        if name == "bwrap" and bwrap_works():
            row(f"{case.name}: bwrap", "-", bwrap_works())
            continue
        row(f"{case.name}: {name}", ms(of(values, 50)), f"p50; p99 {ms(of(values, 99))}; {len(values)} times")
    settle(daemon)
    got = calls(daemon, case.runtime, case.code, ("count", case.each[1]), ("rate", case.rate), ("callers", 4), "stream")
    row("  as a stream", ms(got["p50_us"]), f"p50; first byte {ms(got['first_byte']['p50_us'])}; {starts_text(got)}"
        + errors_text({"errors": errors + got["errors"]}) + (f"; {late} began late" if late else ""))
    for words, wanted in case.targets:
        target(f"{case.name}: {words}", ratio(words, found), wanted, "{:.2f} times")
    for words, _ in case.targets:
        row(f"    with bare ones without a pause: {words}", f"{ratio(words, {**found, 'bare': found[NO_PAUSE]}):.2f} times")


def latency():
    head(f"Latency, all at the same pace; {ROUNDS} turns")
    with running(WARM_RUNTIMES) as daemon:
        for case in CASES:
            compare(daemon, case)
    with running(EMPTY_RUNTIMES) as daemon:
        compare(daemon, EMPTY)


# --- sustained ---------------------------------------------------------------------------------------------------------------

SUSTAINED = {"python": pool(8, 64, **ZYGOTE), "javascript": pool(4, 32, warm="yes")}


def drivers():
    """(name, settings, the target for Python) of what cells' cgroups this machine can have."""
    if SYSTEMD:
        yield "scope=shared", {"spawner": {"driver": "systemd", "scope": "shared"}}, "at least 1.5"
        yield "a scope per cell", {"spawner": {"driver": "systemd", "scope": "per-cell"}}, "at least 0.8"
    else:
        yield "cgroupfs", {}, "at least 1.5"


def rate(got):
    return got["count"] / got["seconds"]


def sustain(daemon, name, runtime, code, command, wanted):
    bares, ours, costs, errors = [], [], [], 0
    for _ in range(3):
        bares.append(bare(command, ("callers", CALLERS), ("seconds", SECONDS)))
        cost = Cost(daemon)
        got = calls(daemon, runtime, code, ("callers", CALLERS), ("seconds", SECONDS))
        costs.append(cost.text(got))
        ours.append(got)
        errors += got["errors"]
        settle(daemon)
    theirs, mine = (sum(map(rate, runs)) / len(runs) for runs in (bares, ours))
    got = bares[-1]
    each = (got["cpu_us"] + got["starter_cpu_us"]) / 1000 / max(got["count"], 1)
    row(f"{name}: bare", f"{theirs:.0f}/s", f"p50 {ms(got['p50_us'])}; {each:.2f} ms of processor time each")
    got = calls(daemon, runtime, code, ("callers", CALLERS), ("seconds", max(SECONDS // 2, 1)), "stream")
    row(f"{name}: Glovebox", f"{mine:.0f}/s", f"p50 {ms(ours[-1]['p50_us'])}; p99 {ms(ours[-1]['p99_us'])}; {starts_text(got)}"
        + errors_text({"errors": errors + got["errors"]}))
    row("  processor time each", f"{costs[-1][0]:.2f} ms", costs[-1][1])
    target(f"{name}: ours / bare", mine / theirs if theirs else 0, wanted, "{:.2f} times")
    settle(daemon)


def sustained():
    head(f"Sustained: {CALLERS} callers, three times {SECONDS} s each, bare and Glovebox in turns")
    for name, settings, wanted in drivers():
        with running(SUSTAINED, settings) as daemon:
            sustain(daemon, f"Python, {name}", "python", "print(1)", PRINT.command, wanted)
            if any(r.name == "javascript" and r.available for r in daemon.info().runtimes):
                sustain(daemon, f"Node, {name}", "javascript", "console.log(1)", [NODE, "-e", "console.log(1)"], "at least 0.9")


# --- burst -------------------------------------------------------------------------------------------------------------------

def burst():
    count, times = 100, 5
    head(f"A burst of {count} calls at once, eight cells ready")
    with running({"python": pool(8, 8, **ZYGOTE)}) as daemon:
        runs = []
        for _ in range(times):
            settle(daemon)
            runs.append(calls(daemon, "python", "print(1)", ("callers", count), ("count", count)))
        settle(daemon)
        streamed = calls(daemon, "python", "print(1)", ("callers", count), ("count", count), "stream")
    ended = sum(got["count"] for got in runs)
    row("ended as they should", f"{ended} of {count * times}", starts_text(streamed) + errors_text({"errors": sum(got["errors"] for got in runs)}))
    row("p50", ms(of([got["p50_us"] for got in runs], 50)), f"median of {times} bursts")
    row("p99", ms(of([got["p99_us"] for got in runs], 50)), f"median; longest of all {ms(max(got['max_us'] for got in runs))}")
    target("burst of 100, pool of 8: p99, the worst burst", max(got["p99_us"] for got in runs) / 1e6, "at most 1", "{:.2f} s")


# --- memory ------------------------------------------------------------------------------------------------------------------

def rollup(pid):
    """(PSS, private) in bytes."""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        found[name] = int(value.split()[0]) * 1024
    return found["Pss"], found["Private_Clean"] + found["Private_Dirty"]


def kernel_bytes():
    """What the kernel uses that is counted as no process's memory."""
    lines = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return sum(int(lines[name].split()[0]) for name in ("Slab", "KernelStack", "PageTables", "Percpu")) * 1024


def waiting_memory(name, runtime, keys, count, wanted):
    mib, kernel = 1 << 20, kernel_bytes()
    with running({runtime: pool(count, **keys)}) as daemon:
        kernel = kernel_bytes() - kernel
        folders = cells(daemon)
        inits = {pid: rollup(pid) for pid in pids_in(cell / "init" for cell in folders)}
        waiting = {pid: rollup(pid) for pid in cell_pids(daemon) if pid not in inits}
        parents = [rollup(pid) for pid in zygotes(daemon)] if "zygote" in keys else []
    if not waiting:
        row(f"{name}: a waiting cell", "-", f"{len(folders)} cells are there, and in none of them an interpreter waits")
        return
    n = len(waiting)
    pss, private = (sum(both[i] for pids in (waiting, inits) for both in pids.values()) / n / mib for i in (0, 1))
    init = sum(both[0] for both in inits.values()) / n / mib
    row(f"{name}: a waiting cell", f"{pss:.2f} MB",
        f"PSS, of {n}; of that its init {init:.2f}; private {private:.2f} MB; in the kernel about {kernel / n / mib:.2f} MB")
    for pss_bytes, private_bytes in parents:
        row("  the zygote", f"{pss_bytes / mib:.1f} MB", f"PSS; private {private_bytes / mib:.1f} MB")
    target(f"{name}: PSS of a waiting cell", pss, wanted, "{:.2f} MB")


def memory():
    head("Memory of cells that wait")
    waiting_memory("Python", "python", ZYGOTE, 16, "at most 4")
    waiting_memory("Node", "javascript", {"warm": "yes"}, 8, "at most 12")


# --- soak --------------------------------------------------------------------------------------------------------------------

FIGURES = (("RSS", machine.rss, 1 << 20, "{:.1f} MiB"), ("descriptors", lambda pid: len(machine.descriptors(pid)), 1, "{}"),
           ("threads", machine.thread_count, 1, "{}"))
# More than this between the first thousand and the last is called growth.
SLACK = {"RSS": 1.0, "descriptors": 2, "threads": 0}


def soak():
    head(f"Soak: {SOAK} executions, 4 callers")
    step = min(1000, SOAK)
    with running({"python": pool(8, 16, **ZYGOTE)}) as daemon:
        seen, done, errors, began = [], 0, 0, time.monotonic()
        row("after", " ".join(("server", "spawner")), "RSS, descriptors, threads of each; children of the spawner")
        while done < SOAK:
            got = calls(daemon, "python", "print(1)", ("callers", 4), ("count", min(step, SOAK - done)))
            done += got["count"] + got["errors"]
            errors += got["errors"]
            settle(daemon)
            now = {(who, name): figure(pid) / unit for who, pid in (("server", daemon.server), ("spawner", daemon.spawner))
                   for name, figure, unit, _ in FIGURES}
            seen.append(now)
            texts = {who: " ".join(form.format(now[who, name] if "." in form else int(now[who, name])) for name, _, _, form in FIGURES)
                     for who in ("server", "spawner")}
            row(f"{done}", "", f"server {texts['server']}; spawner {texts['spawner']}; {len(children(daemon))} children")
        took = time.monotonic() - began
    row("rate, pauses included", f"{SOAK / took:.0f}/s", f"{errors} errors")
    for key in seen[0]:
        change = seen[-1][key] - seen[0][key]
        row(f"{key[0]}: {key[1]}", "flat" if change <= SLACK[key[1]] else "grows", f"{change:+.1f} between the first {step} and the last")
