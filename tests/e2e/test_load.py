"""Many at once: fifty concurrent streams, each with its own bytes and its own end."""
import hashlib
import time

import pytest

from kit import machine
from kit.machine import repeats, wait_until

ENDS = [("exit 0", "COMPLETED", {}), ("exit 7", "FAILED", {}), ("kill -9 $$", "SIGNALED", {}), ("sleep 60", "TIMED_OUT", {"timeout": 4}),
        ("sleep 60", "IDLE_TIMED_OUT", {"idle_timeout": 3})]


@pytest.mark.limit(240)
def test_fifty_concurrent_streams(make_daemon):
    """50 streams at once with different languages, sizes and ends: every byte right, every outcome right, all in parallel."""
    daemon = make_daemon(config={"server": {"max-executions": 60}})
    began = time.monotonic()
    calls = []
    for i in range(50):
        end, outcome, fields = ENDS[i % len(ENDS)]
        size = 1000 + 137 * i * i
        code = f"head -c {size} /dev/zero | tr '\\0' {chr(97 + i % 26)}; echo {i} >&2; {end}"
        calls.append((daemon.call(code, **fields), i, size, outcome))
    for call, i, size, outcome in calls:
        call.wait(120)
        assert call.outcome == outcome, call
        assert call.stdout == bytes([97 + i % 26]) * size and call.stderr == b"%d\n" % i
    assert not any(c[0].accepted.queued for c in calls)
    assert len({c[0].id for c in calls}) == 50
    assert wait_until(lambda: (daemon.info().running, daemon.info().waiting) == (0, 0), 2)
    assert time.monotonic() - began < machine.seconds(60)


@pytest.mark.limit(240)
def test_fifty_heavy_streams(make_daemon):
    """50 streams of 4 MB each at once: every byte by hash, memory bounded and back."""
    daemon = make_daemon(config={"server": {"max-executions": 60}})
    daemon.many(50, "echo warm")
    before = machine.rss(daemon.server)
    code = "i={n}; for k in $(seq 1 40); do head -c 100000 /dev/zero | tr '\\0' \\\\$((101 + i % 7)); done"
    calls = [daemon.call(code.format(n=i)) for i in range(50)]
    for i, call in enumerate(calls):
        call.wait(180)
        expected = bytes([int(str(101 + i % 7), 8)]) * 4_000_000
        assert hashlib.sha256(call.stdout).digest() == hashlib.sha256(expected).digest(), call
    machine.assert_grown_less(daemon.server, before, 64 << 20)


@pytest.mark.limit(240)
def test_many_short_ones_leave_no_trace(daemon):
    """300 short executions from 10 clients: memory, threads and descriptors of server and spawner do not grow."""
    def batch(rounds):
        for _ in range(rounds):
            for call in daemon.many(10, "echo $((1 + 1))"):
                assert call.stdout == b"2\n"
            daemon.calls.clear()
    batch(repeats(10))
    before = {p: (machine.rss(p), machine.thread_count(p)) for p in (daemon.server, daemon.spawner)}
    batch(repeats(30))
    for pid, (memory, threads) in before.items():
        machine.assert_grown_less(pid, memory, 6 << 20)
        assert machine.thread_count(pid) <= threads + 1


@pytest.mark.limit(240)
def test_many_cells_at_once(make_daemon):
    """The spawner has more open then than a program in a cell may have (1024), and starts programs all the same."""
    daemon = make_daemon(config={"server": {"max-executions": 120}})
    calls = [daemon.call("sleep 60") for _ in range(100)]
    for call in calls:
        call.until("started")
    assert len(machine.descriptors(daemon.spawner)) > 1024
    last = daemon.call("echo done").wait()
    assert (last.outcome, last.stdout) == ("COMPLETED", b"done\n"), last.result
    for call in calls:
        daemon.cancel(call.id)
    assert {call.wait().outcome for call in calls} == {"CANCELLED"}
