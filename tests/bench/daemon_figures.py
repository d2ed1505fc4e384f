"""Groups of ./dev bench against one daemon as it is shipped: calls, streams, ends, a reader that stops, an idle daemon; and what machine this is."""
import os
import pathlib
import platform
import subprocess
import time

from figures import BASH, LOAD, NODE, PYTHON, SECONDS, bare, busy, cells, children, errors_text, head, load, more_config, ms, row, running
from figures import calls as run_calls

from kit import machine
from kit.daemon import pids_in

GIB = 1 << 30
LAYERS_OF = {"memory": "memory limit", "pids": "process limit", "cpu": "cpu limit", "io": "io figures"}


def facts():
    others = busy(2)
    with running(filled=False) as daemon:
        info = daemon.info()
        waived = daemon.waive
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) >> 20
    print(f"Glovebox {info.version} on {os.cpu_count()} × {cpu}, {memory} GiB, Linux {platform.release()}")
    print(f"Before:   {others:.0f} % of the processors in use by others" + ("; figures are of a machine that is NOT QUIET" if others > 5 else ""))
    print("Runtimes: " + ", ".join(f"{r.name} ({r.version})" for r in info.runtimes if r.available))
    print("Waived:   " + (", ".join(f"{c} ({LAYERS_OF[c]})" for c in waived) or "nothing"))
    print("In force: " + (", ".join(layer.name for layer in info.isolation if layer.in_force) or "nothing"))
    print("Not in force: " + (", ".join(layer.name for layer in info.isolation if not layer.in_force) or "nothing"))
    print(f"Cgroups:  {info.cgroup_driver}" + "".join(f"; {s}.{k} = {v}" for s, keys in more_config().items() for k, v in keys.items()))


def calls():
    head("Execute in a closed loop, answered when everything is over; runtimes as they are shipped")
    with running() as daemon:
        for runtime, code, command in (("bash", "echo hi", [BASH, "-c", "echo hi"]), ("python", "print(1)", [PYTHON, "-c", "print(1)"]),
                                       ("javascript", "console.log(1)", [NODE, "-e", "console.log(1)"])):
            row(f"{runtime} `{code}`: without any sandbox", ms(bare(command, ("count", 40))["p50_us"]), "p50")
            for callers in (1, 32):
                got = run_calls(daemon, runtime, code, ("callers", callers), ("seconds", SECONDS))
                row(f"{runtime} `{code}`: {callers} caller{'s' if callers > 1 else ''}", ms(got["p50_us"]),
                    f"p50; p99 {ms(got['p99_us'])}; {got['count'] / got['seconds']:.0f} requests/s" + errors_text(got))
        row("gRPC alone (GetInfo over one connection)", ms(get_info(daemon)), "p50, python client")


def get_info(daemon):
    times = []
    for _ in range(200):
        began = time.monotonic()
        daemon.info()
        times.append(time.monotonic() - began)
    return sorted(times)[100] * 1e6


def throughput(daemon, name):
    rates = sorted(load("stream", daemon.socket, GIB)["mb_per_s"] for _ in range(3))
    row(name, f"{rates[1]:.0f} MB/s", f"median of 3 ({rates[0]:.0f} to {rates[2]:.0f}), 64 KiB chunks")


def streams():
    head("Streams")
    with running() as daemon:
        throughput(daemon, "1 GiB to a fast reader")
        delay = load("delay", daemon.socket, 300)
    with running(audit=True) as daemon:
        throughput(daemon, "the same with an audit file (SHA-256 of the output)")
    row("write() in the cell to message at the client", ms(delay["p50_us"]), f"p50; p99 {ms(delay['p99_us'])}; {delay['count']} writes")


# Says with each 256 KiB what time it is: the last one is the moment of the kill.
GROWS = "import time\na = []\nwhile True: a.append(bytearray(b'x' * (256 << 10))); print(time.monotonic())"
FAMILY = "for i in 1 2 3 4 5 6 7 8; do setsid sleep 99 & done; echo up; sleep 99"


def out_of_memory(daemon):
    run = daemon.run(GROWS, "python", memory_bytes=64 << 20)
    return (run.arrival("result")[0] - float(run.stdout.split()[-1])) * 1e6 if run.outcome == "OUT_OF_MEMORY" else None


def timed_out(daemon):
    """From the timeout, a second after `started`, until no cgroup of the cell is left."""
    run = daemon.call(FAMILY, timeout=1)
    run.until_output(b"up\n")
    # Its own, and none of those that wait.
    mine = [cell for cell in cells(daemon) if len(pids_in(cell.glob("run-*"))) > 4]
    while any(cell.exists() for cell in mine):
        time.sleep(0.0005)
    gone = time.monotonic()
    run.wait()
    return (gone - run.arrival("started")[0] - 1) * 1e6 if run.outcome == "TIMED_OUT" and mine else None


def ends():
    head("Ends")
    with running() as daemon:
        for name, measure, count, controller in (("from out of memory (64 MiB) to the result", out_of_memory, 20, "memory"),
                                                 ("from a timeout (nine processes) to everything gone", timed_out, 10, None)):
            if controller in daemon.waive:
                row(name, "-", f"needs the {controller} controller of cgroup2, which this machine has not")
                continue
            times = sorted(measure(daemon) or 0 for _ in range(count))
            row(name, ms(times[count // 2]), f"p50; longest {ms(times[-1])}; {count} times" + ("; OTHER ENDS" if times[0] == 0 else ""))


def reader():
    head("A client that does not read")
    with running() as daemon:
        stop_reading(daemon)


def stop_reading(daemon):
    before = machine.rss(daemon.server)
    client = subprocess.Popen([str(LOAD), "stop", daemon.socket, str(GIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    client.stdout.readline()
    peak = 0
    for _ in range(50):
        time.sleep(0.1)
        peak = max(peak, machine.rss(daemon.server))
    row("server RSS growth, 1 GiB to send, reader stops", f"{(peak - before) / 1024:.0f} KiB", "highest of 5 s")
    client.communicate(b"\n")


def run_time(pid):
    """Nanoseconds on a processor, of all threads."""
    return sum(int(pathlib.Path(f"/proc/{pid}/task/{t}/schedstat").read_text().split()[0]) for t in os.listdir(f"/proc/{pid}/task"))


def idle():
    head("Idle daemon")
    with running() as daemon:
        watch_idle(daemon)


def watch_idle(daemon):
    daemon.channel.close()
    time.sleep(3)
    pids = {"server": daemon.server, "spawner": daemon.spawner, "standalone": daemon.process.pid}
    for number, pid in enumerate(children(daemon), 1):
        pids[f"spawner's child {number}"] = pid
    before = {name: (machine.cpu_ticks(pid), run_time(pid)) for name, pid in pids.items()}
    time.sleep(10)
    for name, pid in pids.items():
        ticks, ns = machine.cpu_ticks(pid) - before[name][0], run_time(pid) - before[name][1]
        row(f"{name}: cpu time in 10 s", f"{ticks} ticks", f"{ns / 1e6:.2f} ms on a processor; RSS {machine.rss(pid) / (1 << 20):.1f} MiB")
