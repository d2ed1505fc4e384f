"""What code is told of processors, memory and itself agrees with its limits, however it asks a file."""
import json
import os

import pytest

MIB = 1 << 20

ASK = {
    "python": "import json, os\nm = {l.split(':')[0]: int(l.split()[1]) for l in open('/proc/meminfo') if l.endswith('kB\\n')}\n"
              "load = float(open('/proc/loadavg').read().split()[0])\n"
              "print(json.dumps([os.cpu_count(), m['MemTotal'] // 1024, m['MemAvailable'] // 1024, m['SwapTotal'], load]))",
    "javascript": "const os = require('os')\n"
                  "console.log(JSON.stringify([os.cpus().length, os.totalmem() / 2 ** 20, os.freemem() / 2 ** 20, 0, os.loadavg()[0]]))",
    "bash": "echo [$(getconf _NPROCESSORS_ONLN), $(free -m | awk '/Mem:/ {print $2\", \"$7} /Swap:/ {print \", \"$2}' | tr -d '\\n'), "
            "$(cut -d ' ' -f 1 /proc/loadavg)]",
}
THREADS = ("GOMAXPROCS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


@pytest.mark.parametrize("cpus, memory, processors", [(0.5, 192, 1), (1, 512, 1), (1.5, 300, 2), (2, 1024, 2)])
def test_processors_and_memory_are_the_limits(make_daemon, cpus, memory, processors):
    """Half a processor is one, one and a half are two, never more than there are; memory is the limit to the MiB, and there is no swap. Also
    where the limits cannot be enforced, so by default and not by request."""
    daemon = make_daemon(config={"limits": {"cpus": cpus, "memory": f"{memory}M"}})
    for runtime, code in ASK.items():
        run = daemon.run(code, runtime)
        assert run.outcome == "COMPLETED", run
        told = json.loads(run.stdout)
        assert told == [min(processors, os.cpu_count()), memory, memory, 0, 0], f"{runtime}: {told}"


@pytest.mark.parametrize("cpus, threads", [(1.5, 2), (0.25, 1), (4096, 4096)])
def test_threads_of_libraries(make_daemon, cpus, threads):
    """Variables that libraries size themselves by follow the limit, but never above what the machine has; the request may set them otherwise."""
    daemon = make_daemon(config={"limits": {"cpus": cpus}, "caps": {"cpus": 4096}})
    threads = str(min(threads, os.cpu_count()))
    told = json.loads(daemon.run("import json, os\nprint(json.dumps(dict(os.environ)))", "python", env={"OMP_NUM_THREADS": "7"}).stdout)
    assert {name: told[name] for name in THREADS} == {**{name: threads for name in THREADS}, "OMP_NUM_THREADS": "7"}
    assert told["UV_THREADPOOL_SIZE"] == "4"


def test_two_cells_are_told_apart(daemon):
    """Nothing says that two cells are on one machine: the boot's number is each one's own."""
    calls = [daemon.run("cat /proc/sys/kernel/random/boot_id").stdout for _ in range(2)]
    with open("/proc/sys/kernel/random/boot_id", "rb") as own:
        assert len({*calls, own.read()}) == 3


def test_who_the_code_is(daemon):
    """One user with a name, a group and a home of its own; whatever is left there is gone with the cell."""
    ask = "id -un; id -gn; pwd -P; cd; pwd -P; ls -A; echo x >left; cat /etc/passwd | cut -d : -f 1 | tr '\\n' ' '"
    for _ in range(2):
        assert daemon.run(ask).stdout == b"sandbox\nsandbox\n/workspace\n/home/sandbox\nroot sandbox nobody "


def test_home_counts_against_the_workspace(daemon):
    """One cap holds for both, in bytes and in files."""
    code = "head -c 20M /dev/zero >~/a; head -c 20M /dev/zero >/workspace/b; du -cm ~/a /workspace/b | tail -1 | cut -f 1"
    run = daemon.run(code, workspace_bytes=24 * MIB)
    assert 22 <= int(run.stdout) <= 24, run
