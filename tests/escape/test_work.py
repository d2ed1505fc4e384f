"""Every program in work/, in every runtime where it applies: the wall lets ordinary work through."""
import pytest

from kit import machine
from range import programs

CASES = [pytest.param(p, r, id=f"{p.name}-{r}") for p in programs.all_in("work", "allow") for r in p.runtimes]


@pytest.mark.parametrize("program, runtime", CASES)
def test_work_succeeds(daemon, program, runtime):
    """It prints "works" last and ends well."""
    call = program.run(daemon, runtime, timeout=100, deadline=110)
    assert call.outcome == "COMPLETED" and call.stdout.endswith(b"works\n"), f"{call!r}\n{call.stderr.decode(errors='replace')[-3000:]}"


@pytest.mark.limit(600)
def test_ESC_32_a_thousand_runs(daemon):
    """No run in a thousand, sixteen at once, meets a call that is sometimes refused."""
    code = ("import json, os, subprocess, asyncio, ssl\n"
            "os.sched_getaffinity(0); os.stat('/'); subprocess.run(['true']); print('ok')")
    count = machine.repeats(1000)
    started = []
    for _ in range(count):
        while sum(1 for c in started if c.ended is None) >= 16:
            next(c for c in started if c.ended is None).wait(60)
        started.append(daemon.call(code, "python"))
    bad = [c for c in started if c.wait(60).outcome != "COMPLETED" or c.stdout != b"ok\n"]
    assert not bad, f"{len(bad)} of {count} failed, the first so: {bad[0]!r} {bad[0].stderr!r}"
