"""Cells that are ready before anyone asks: how many there are, what a run gets in one, and what becomes of those that break."""
import contextlib
import os
import re
import signal
import time

import pytest

from kit import machine
from kit.machine import wait_until
from kit.stubs import pb

WAITING = {"bash": {"pool-min": 2, "pool-max": 4}}
WARM_NODE = {"javascript": {"pool-min": 2, "pool-max": 4, "warm": "yes", "env-at-start": "NODE_*"}}


def cells(daemon):
    return {f.name for f in daemon.cgroup.folders("cell-")}


def wait_for_cells(daemon, count, deadline=20):
    assert wait_until(lambda: len(cells(daemon)) == count, deadline), f"{len(cells(daemon))} cells wait, not {count}; the daemon said:\n{daemon.log}"


def started(call):
    return pb.Start.Name(call.of("started")[0].start).removeprefix("START_")


def zygotes(daemon):
    return [pid for pid in daemon.cgroup.pids() if machine.is_zygote(pid)]


@pytest.fixture
def pool(make_daemon):
    """A daemon whose pool is on, for these runtimes alone. It is not looked over like others: its cells are there to stay."""
    made = []

    def make(runtimes, **spawner):
        others = {name: {"pool-min": 0, "pool-max": 0}
                  for name in ("bash", "javascript", "javascript-module", "python", "python-data", "typescript")}
        daemon = make_daemon(start=False, config={"spawner": {"pool": "yes", **spawner}}, runtimes={**others, **runtimes})
        daemon.take_baseline = lambda: None
        daemon.verify = lambda killed: None
        made.append(daemon)
        return daemon.start()

    yield make
    for daemon in made:
        assert daemon.process.poll() is None, f"the daemon is gone; it said:\n{daemon.log}"


def test_a_ready_cell_is_taken_and_replaced(pool):
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    before = cells(daemon)
    call = daemon.run("echo hi")
    assert (call.outcome, call.stdout, started(call)) == ("COMPLETED", b"hi\n", "READY")
    assert wait_until(lambda: len(now := cells(daemon)) == 2 and len(now & before) == 1, 10), "one of the two is new"


def test_every_run_has_a_cell_of_its_own(pool):
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    seen = [daemon.run("ls -A . /tmp /dev/shm ~; echo mine > left; echo $$") for _ in range(6)]
    for call in seen:
        assert b"left" not in call.stdout and call.outcome == "COMPLETED"


def test_none_waits_and_all_run(pool):
    """More at once than the pool has: the others are made for them."""
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    calls = daemon.many(12, "sleep 0.3; echo done")
    assert [c.stdout for c in calls] == [b"done\n"] * 12
    assert {started(c) for c in calls} == {"READY", "COLD"}


def test_many_waiting_cells_do_not_use_up_descriptors_of_programs(pool):
    """A program starts as a child of the spawner, which has more descriptors open than it may have itself."""
    daemon = pool({"bash": {"pool-min": 120, "pool-max": 120}})
    assert wait_until(lambda: len(machine.descriptors(daemon.spawner)) > 1100, 30), len(machine.descriptors(daemon.spawner))
    for runtime, code in (("python", "print(1)"), ("bash", "echo 1")):
        run = daemon.run(code, runtime)
        assert (run.outcome, run.stdout) == ("COMPLETED", b"1\n"), run


def test_demand_makes_the_pool_larger_and_rest_smaller(pool):
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    daemon.many(8, "true")
    wait_for_cells(daemon, 4)
    wait_for_cells(daemon, 2, 60)


def test_limits_reach_a_cell_that_was_made_with_others(pool):
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    code = ("head -c 3000000 /dev/zero > big; echo $?; df -B1 --output=size . /tmp /dev/shm | tail -3;"
            "for i in $(seq 100); do : > f$i || break; done; echo $i")
    call = daemon.run(code, workspace_bytes=2 << 20, workspace_inodes=80)
    assert started(call) == "READY"
    words = call.stdout.split()
    assert words[0] == b"1" and words[1:4] == [b"%d" % (2 << 20), b"%d" % (2 << 20), b"%d" % (512 << 10)], call.stdout
    assert int(words[4]) < 80 and "WORKSPACE" in [pb.Limit.Name(n).removeprefix("LIMIT_") for n in call.result.limits_hit]
    larger = daemon.run("head -c 300000000 /dev/zero > big; echo $?", workspace_bytes=400 << 20)
    assert (larger.stdout, started(larger)) == (b"0\n", "READY")


EVERYTHING = """
pwd; echo "$X|$HOME|$#|$1|$2"; cat; cat a; ./tool; date -d @0 +%H%Z; ls -A /workspace; echo err >&2
nproc; ulimit -u; grep -c . /proc/meminfo; awk '/MemTotal/ {print $2}' /proc/meminfo; ls /proc/self/fd | wc -l; nice; cat /proc/self/oom_score_adj
cut -d' ' -f3,5,6 /proc/self/stat | head -c 1; env | sort; grep -E '^(Cap|Seccomp|NoNewPrivs|Groups|Sig)' /proc/self/status; umask
"""
ASKED = {"env": {"X": "ü"}, "args": ["one", "two words"], "stdin": b"in\n", "files": {"sub/a": b"content\n", "sub/tool": (b"#!/bin/sh\necho tool\n",)},
         "working_dir": "sub", "timezone": "Asia/Tokyo"}


MORE = {"as-usual": {}, "merged": {"merge_streams": True}, "many-files": {"files": {f"f{i}": b"x" * 100 for i in range(900)}}}
if not {"cpu", "pids"} & set(machine.missing_controllers()):
    MORE |= {"cpus": {"cpus": 2.0}, "fewer-processes": {"max_processes": 20}, "more-processes": {"max_processes": 2000}}


@pytest.mark.parametrize("more", MORE)
def test_a_program_that_waited_behind_the_wall_is_as_any(pool, more):
    """What it becomes had nothing of its job when it began to wait."""
    asked = {**ASKED, **MORE[more], "files": {**ASKED["files"], **MORE[more].get("files", {})}}
    results = {}
    for name, daemon in (("waited", pool({"bash": {"pool-min": 1, "warm": "yes"}})), ("began", pool({"bash": {"pool-min": 0, "pool-max": 0, "warm": "no"}}))):
        assert name == "began" or wait_until(lambda: daemon.run_pids(), 20), daemon.log
        waiting = daemon.run_pids()
        call = daemon.run(EVERYTHING, **asked)
        results[name] = call.outcome, call.stdout, call.stderr
        assert started(call) == ("READY" if name == "waited" else "COLD") and call.outcome == "COMPLETED", call
        assert not waiting & daemon.run_pids()
    assert results["waited"] == results["began"]


def test_a_program_that_waits_has_no_job_before_it_comes(pool):
    daemon = pool({"bash": {"pool-min": 1, "warm": "yes", "read-only-workspace": "yes"}})
    assert wait_until(lambda: daemon.run_pids(), 20), daemon.log
    waiting, = daemon.run_pids()
    assert os.listdir(f"/proc/{waiting}/root/workspace") == []
    assert machine.status_field(waiting, "Seccomp") == ["2"] and machine.status_field(waiting, "CapPrm") == ["0" * 16]
    call = daemon.run("ls; touch x; touch /tmp/x && echo tmp; echo $$")
    assert call.outcome == "COMPLETED" and call.stdout.startswith(b"main.sh\ntmp\n") and b"Permission denied" in call.stderr, call


def test_few_interpreters_are_warmed_up_while_all_processors_are_busy(pool):
    """They would take more of them than they save. Executions get one that starts for them, and afterwards some wait again."""
    daemon = pool({**WARM_NODE, "javascript-module": WARM_NODE["javascript"], "bash": {"pool-min": 0, "pool-max": 0}})
    assert wait_until(lambda: len(daemon.run_pids()) == 4, 30), daemon.log
    count = (os.cpu_count() or 1) + 2
    for code, busy in (("while :; do :; done", True), ("sleep 60", False)):
        held = [daemon.call(code) for _ in range(count)]
        for call in held:
            call.until("started")
        if busy:  # those that wait already, and those that are about to, are used
            assert wait_until(lambda: [started(daemon.run("1", "javascript")) for _ in range(2)] == ["READY", "READY"], 30), daemon.log
            begin, found = time.monotonic(), []
            while len(found) < 30:
                found.append(started(daemon.run("1", "javascript")))
            assert found.count("WARM") <= time.monotonic() - begin + 2 and "READY" in found, found
            # But not none: of each runtime, in turns.
            for name in ("javascript", "javascript-module"):
                assert wait_until(lambda: started(daemon.run("1", name)) == "WARM", 30, 0.5), daemon.log
        else:  # nor are those that only wait
            assert all(wait_until(lambda: started(daemon.run("1", "javascript")) == "WARM", 20, 0.5) for _ in range(4)), daemon.log
        for call in held:
            daemon.cancel(call.id)
            call.wait()
        assert wait_until(lambda: len(daemon.run_pids()) == 4, 30), daemon.log


def test_a_zygote_that_dies_over_its_forks_holds_no_other_pool_up(pool):
    """What it was asked for is not being made any more: two of these would be all that the pool makes at a time."""
    daemon = pool({"python": {"pool-min": 2, "pool-max": 2}, "bash": {"pool-min": 2, "pool-max": 2}})
    assert wait_until(lambda: len(cells(daemon)) == 4 and len(daemon.run_pids()) == 4, 30), daemon.log
    zygote, = {pid for pid in zygotes(daemon) if machine.program(pid)} - set(daemon.run_pids())
    os.kill(zygote, signal.SIGSTOP)
    for _ in range(2):
        assert daemon.run("1", "python").outcome == "COMPLETED"
    assert wait_until(lambda: len(cells(daemon)) == 4, 20), daemon.log  # and their forks are asked for
    time.sleep(0.5)
    os.kill(zygote, signal.SIGKILL)
    for _ in range(4):
        assert wait_until(lambda: started(daemon.run("true")) == "READY", 10, 0.5), daemon.log
        assert wait_until(lambda: len(cells(daemon)) == 4, 10), daemon.log
    assert wait_until(lambda: started(daemon.run("1", "python")) == "WARM", 30, 0.5), daemon.log


def test_after_a_storm_all_wait_again(pool):
    """Also those whose turn it was not when the last execution ended."""
    daemon = pool({"javascript": {"pool-min": 2, "pool-max": 2}, "python": {"pool-min": 2, "pool-max": 2}, "bash": {"pool-min": 2, "pool-max": 2}})
    for _ in range(3):
        calls = [daemon.call(code, name) for _ in range(8) for name, code in (("javascript", "1"), ("python", "1"), ("bash", "true"))]
        assert {call.wait().outcome for call in calls} == {"COMPLETED"}
        assert wait_until(lambda: len(cells(daemon)) == 6 and len(daemon.run_pids()) == 6, 30), daemon.log
    assert [started(daemon.run(code, name)) for name, code in (("javascript", "1"), ("python", "1"), ("bash", "true"))] == ["WARM", "WARM", "READY"]


def test_a_cell_that_is_killed_while_it_waits_is_replaced(pool):
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    before = cells(daemon)
    for pid in daemon.cell_pids():
        with contextlib.suppress(ProcessLookupError):  # it went with its init
            os.kill(pid, signal.SIGKILL)
    call = daemon.run("echo hi")
    assert (call.outcome, call.stdout) == ("COMPLETED", b"hi\n")
    assert wait_until(lambda: len(cells(daemon)) == 2 and not cells(daemon) & before, 30), daemon.log


def test_an_interpreter_that_waits_is_used_once(pool):
    daemon = pool(WARM_NODE)
    assert wait_until(lambda: len(daemon.run_pids()) == 2, 30), daemon.log
    first = daemon.run("globalThis.left = 1; console.log(typeof left, process.pid)", "javascript")
    second = daemon.run("console.log(typeof left)", "javascript")
    assert (first.outcome, second.outcome, second.stdout) == ("COMPLETED", "COMPLETED", b"undefined\n")
    assert "WARM" in (started(first), started(second))


def test_what_an_interpreter_used_while_it_warmed_up_is_not_the_runs(pool):
    daemon = pool(WARM_NODE)
    assert wait_until(lambda: len(daemon.run_pids()) == 2, 30), daemon.log

    def warm_one():  # on a busy machine none may wait at first
        call = daemon.run("console.log(1)", "javascript")
        return started(call) == "WARM" and call
    assert wait_until(warm_one, 20, 1), daemon.log
    warm = wait_until(warm_one, 20, 1)
    assert warm, daemon.log
    fresh = daemon.run("console.log(1)", "javascript", env={"NODE_NO_WARNINGS": "1"})
    used = [c.result.usage.cpu_user.nanos + c.result.usage.cpu_system.nanos for c in (warm, fresh)]
    assert started(fresh) in ("READY", "COLD") and 0 < used[0] < used[1] / 2, used


def test_a_job_that_an_interpreter_cannot_take_any_more_gets_another(pool):
    daemon = pool(WARM_NODE)
    assert wait_until(lambda: len(daemon.run_pids()) == 2, 30), daemon.log
    call = daemon.run("console.log(process.env.NODE_ENV); console.error('e')", "javascript", env={"NODE_ENV": "test"}, merge_streams=True)
    assert (call.outcome, call.stdout, started(call)) == ("COMPLETED", b"test\ne\n", "READY")


def test_an_interpreter_that_is_killed_while_it_waits_is_replaced(pool):
    daemon = pool(WARM_NODE)
    assert wait_until(lambda: len(daemon.run_pids()) == 2, 30), daemon.log
    before = daemon.run_pids()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    call = daemon.run("console.log(1)", "javascript")
    assert (call.outcome, call.stdout) == ("COMPLETED", b"1\n"), call.result
    assert wait_until(lambda: len(daemon.run_pids()) == 2 and not daemon.run_pids() & before, 30), daemon.log


def test_an_interpreter_that_dies_just_before_its_run_is_nobodys_fault(pool):
    """Not the code's, which has not been there yet: it gets another one."""
    daemon = pool(WARM_NODE)
    assert wait_until(lambda: started(daemon.run("1", "javascript")) == "WARM", 20, 1)
    assert wait_until(lambda: len(daemon.run_pids()) == 2, 30), daemon.log
    os.kill(daemon.spawner, signal.SIGSTOP)
    try:
        call = daemon.call("console.log(1)", "javascript")
        call.until("accepted")
        wait_until(lambda: False, 0.3)
        for pid in daemon.run_pids():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: False, 0.3)  # they have ended
    finally:
        os.kill(daemon.spawner, signal.SIGCONT)
    call.wait()
    assert (call.outcome, call.stdout) == ("COMPLETED", b"1\n"), call.result


def test_an_interpreter_that_cannot_wait_is_started_for_each(pool):
    """A runner that has never heard of waiting fails ahead of every run, and serves all the same: later and later tries, no storm."""
    runner = "/usr/bin/python3"
    daemon = pool({"odd": {"exec": runner, "args": "-c exit(7) {code}", "version-args": "--version", "code-name": "x.py", "runner": "yes",
                           "warm": "yes", "pool-min": 2, "env": "PATH=/usr/bin:/bin"}})
    assert wait_until(lambda: daemon.log.count("failed at step") >= 2, 20), daemon.log
    call = daemon.run("x", "odd")
    assert call.result.exit_code == 7, call.result
    assert daemon.log.count("failed at step") < 40


def all_pipes(pid):
    return {name for name in machine.descriptors(pid).values() if name.startswith("pipe:")}


def whole_pipes(pid):
    """Those of which a process has both ends."""
    ends = {}
    for fd in machine.descriptors(pid):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
            flags = re.search(r"flags:\s*(\d+)", open(f"/proc/{pid}/fdinfo/{fd}").read()).group(1)
        except OSError:
            continue
        if name.startswith("pipe:"):
            ends.setdefault(name, set()).add(int(flags, 8) & os.O_ACCMODE)
    return {name for name, both in ends.items() if len(both) == 2}


def test_while_a_zygote_forks_the_spawner_does_not_hold_the_programs_ends_of_pipes(pool):
    """A main process that it cloned meanwhile would hold them as well, and a short program could end before its report did: SANDBOX_FAILED."""
    daemon = pool({"python": {"preload": None, "pool-min": 0, "pool-max": 0}})
    assert wait_until(lambda: daemon.run("1", "python") and zygotes(daemon), 20, 0.5), daemon.log
    assert wait_until(lambda: not cells(daemon), 10), daemon.log
    before, everything = whole_pipes(daemon.spawner), all_pipes(daemon.spawner)
    for pid in zygotes(daemon):
        os.kill(pid, signal.SIGSTOP)
    call = daemon.call("print(1)", "python")
    try:
        assert wait_until(lambda: all_pipes(daemon.spawner) - everything, 4), "no run begins"
        assert wait_until(lambda: not whole_pipes(daemon.spawner) - before, 2), whole_pipes(daemon.spawner) - before
    finally:
        for pid in zygotes(daemon):
            os.kill(pid, signal.SIGCONT)
    assert call.wait().stdout == b"1\n"


def test_a_reload_makes_all_cells_anew(pool):
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    before = cells(daemon)
    daemon.write_runtimes({"bash": {"pool-min": 3}})
    os.kill(daemon.spawner, signal.SIGHUP)
    assert wait_until(lambda: len(cells(daemon)) == 3 and not cells(daemon) & before, 20), daemon.log
    daemon.config["spawner"]["pool"] = "no"
    daemon.write_config()
    os.kill(daemon.spawner, signal.SIGHUP)
    wait_for_cells(daemon, 0)
    call = daemon.run("echo hi")
    assert (call.stdout, started(call)) == (b"hi\n", "COLD")


def test_the_pool_leaves_room_for_executions(pool):
    """A pool larger than the machine's cells takes a part of them."""
    daemon = pool({"bash": {"pool-min": 200, "pool-max": 256}}, **{"max-cells": 20})
    wait_for_cells(daemon, 5)
    assert "Runtime bash has pool-max = 5 and not 256: all pools together want 256 cells, and a quarter of all cells is 5" in daemon.log
    calls = daemon.many(10, "sleep 0.2; echo done")
    assert [c.stdout for c in calls] == [b"done\n"] * 10


def test_nothing_is_left_when_it_stops(pool):
    """remove() looks for processes and cgroups."""
    daemon = pool({**WAITING, **WARM_NODE})
    wait_for_cells(daemon, 4)
    assert daemon.stop() == 0
    assert not daemon.cgroup.folders("cell-")
    daemon.start()


def test_nothing_is_left_of_a_spawner_that_is_killed(pool):
    daemon = pool(WAITING)
    wait_for_cells(daemon, 2)
    before = daemon.cell_pids()
    old = daemon.kill_spawner()
    assert wait_until(lambda: daemon.spawner not in (0, old), 15)
    daemon.wait_serving()
    assert wait_until(lambda: len(cells(daemon)) == 2 and not daemon.cell_pids() & before, 20), daemon.log


def test_another_warm_needs_a_restart(pool):
    daemon = pool({"python": {"pool-min": 2, "pool-max": 4}})
    assert wait_until(lambda: started(daemon.run("1", "python")) == "WARM", 20, 1), daemon.log
    daemon.write_runtimes({"python": {"pool-min": 2, "pool-max": 4, "warm": "no"}})
    os.kill(daemon.spawner, signal.SIGHUP)
    assert wait_until(lambda: "taken over when the spawner is started again" in daemon.log, 10), daemon.log
    wait_for_cells(daemon, 2)
    for _ in range(3):
        call = daemon.run("print(1)", "python")
        assert (call.outcome, call.stdout) == ("COMPLETED", b"1\n"), daemon.log
