"""Every way an execution can end: its own outcome, a sentence for a person, and nothing left behind."""
import os
import signal
import time

import grpc
import pytest

from kit import machine
from kit.call import CODES, Refused, last_printed, request, to_seconds
from kit.machine import seconds, wait_until
from kit.stubs import health_pb2, pb

STUCK = "import time\nprint('early')\ntime.sleep(99)\n"
BUSY = "while True: pass\n"
# Children that a tidy end must reach: in a session of their own, ignoring signals, holding the output open, stopped.
STUBBORN = """
setsid bash -c 'trap "" TERM INT HUP; while :; do sleep 100; done' &
setsid sleep 999 &
sleep 998 &
bash -c 'kill -STOP $$' &
"""


def test_timeout_says_when_it_last_printed(daemon):
    """TIMED_OUT delivers what was printed before, and its message says how long ago that was."""
    run = daemon.run("import time\nprint('early')\ntime.sleep(0.5)\nprint('later')\ntime.sleep(99)\n", "python", timeout=1.5)
    assert run.outcome == "TIMED_OUT" and run.stdout == b"early\nlater\n"
    assert run.result.WhichOneof("exit") is None and not run.result.limits_hit
    assert 1.4 < run.ran < 1.5 + seconds(0.5)
    assert 0.7 < last_printed(run.result) < 1.3, run.result.message
    silent = daemon.run("sleep 99", timeout=0.4)
    assert "printed nothing" in silent.result.message or "never printed" in silent.result.message, silent.result.message


def test_timeout_counts_from_started(daemon):
    """The clock starts at `started`, outside the cell, and wall says the same."""
    run = daemon.run("sleep 99", timeout=1)
    assert abs(to_seconds(run.result.usage.wall) - 1) < seconds(0.3)


def test_timeout_of_a_fork_bomb(daemon):
    """A fork bomb ends at its limit and leaves nothing; others go on."""
    bomb = daemon.call("f() { f | f & }; f; sleep 99", timeout=3)
    bomb.until("started")
    time.sleep(0.5)
    other = daemon.run("echo fine", timeout=20)
    assert other.outcome == "COMPLETED" and other.stdout == b"fine\n"
    bomb.wait(30)
    assert bomb.outcome in ("TIMED_OUT", "FAILED", "COMPLETED", "SIGNALED")


@pytest.mark.parametrize("code, runtime, word", [
    ("import time\ntime.sleep(60)", "python", "sleeping"),
    ("sleep 60; true", "bash", "sleeping"),
    ("import threading\nthreading.Lock().acquire()\nl = threading.Lock(); l.acquire(); l.acquire()", "python", "lock"),
    ("import os\nr, w = os.pipe()\nos.read(r, 1)", "python", ""),
    ("import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()", "python", "network"),
    ("kill -STOP $$", "bash", "stopped"),
])
def test_idle_says_what_it_waited_for(daemon, code, runtime, word):
    """IDLE_TIMED_OUT fires after the silence asked for and says what the code was waiting for."""
    run = daemon.run(code, runtime, idle_timeout=0.6)
    assert run.outcome == "IDLE_TIMED_OUT" and word in run.result.message, run
    assert 0.6 <= run.ran + 0.05 and run.ran < 0.6 + seconds(0.9)
    assert run.result.WhichOneof("exit") is None


def test_idle_grace_only_forbids_firing_early(daemon):
    """Silence from the beginning with a grace longer than the timeout fires when the grace is over, not a timeout later."""
    run = daemon.run("sleep 60", idle_timeout=0.3, idle_grace=1.2)
    assert run.outcome == "IDLE_TIMED_OUT" and 1.2 <= run.ran + 0.05 and run.ran < 1.2 + seconds(0.6)


def test_idle_is_not_for_who_prints_or_computes(daemon):
    """A printing or computing program is never idle; with EVIDENCE_OUTPUT a silent computing one is."""
    printing = daemon.run("for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done", idle_timeout=0.8)
    assert printing.outcome == "COMPLETED"
    computing = "import time\nend = time.time() + 1.6\nwhile time.time() < end: pass\n"
    assert daemon.run(computing, "python", idle_timeout=0.6).outcome == "COMPLETED"
    silent = daemon.run(computing, "python", idle_timeout=0.6, idle_evidence=pb.EVIDENCE_OUTPUT)
    assert silent.outcome == "IDLE_TIMED_OUT"


def test_idle_clock_stands_still_for_a_slow_client(daemon):
    """Output that waits for a slow client is no idleness of the code."""
    run = daemon.call("head -c 12000000 /dev/zero; sleep 0.2; echo end", pause=0.02, idle_timeout=0.5, output_bytes=1 << 28)
    run.wait(120)
    assert run.outcome == "COMPLETED" and run.result.usage.stdout_bytes == 12_000_004, run.result


def test_cpu_time(daemon):
    """cpu_time counts all processes together and ends the execution with its own outcome."""
    run = daemon.run(BUSY, "python", cpu_time=0.7, timeout=20)
    assert run.outcome == "CPU_TIME_EXCEEDED" and pb.LIMIT_CPU_TIME in run.result.limits_hit
    used = to_seconds(run.result.usage.cpu_user) + to_seconds(run.result.usage.cpu_system)
    assert 0.7 <= used < 0.7 + seconds(0.4) and run.result.WhichOneof("exit") is None
    two = daemon.run("(while :; do :; done) & (while :; do :; done) & wait", cpu_time=1, timeout=20)
    assert two.outcome == "CPU_TIME_EXCEEDED"
    assert daemon.run("sleep 1.2", cpu_time=0.5).outcome == "COMPLETED", "sleeping costs no cpu time"


@pytest.mark.parametrize("cap", [1, 1000, 65536, 65537, 1 << 20])
def test_output_cap_is_exact(daemon, cap):
    """Exactly the capped number of bytes is delivered, on either stream; exactly the cap is no excess."""
    for stream, redirect in (("stdout", ""), ("stderr", ">&2")):
        over = daemon.run(f"head -c {cap + 1} /dev/zero {redirect}; sleep 5", output_bytes=cap)
        assert over.outcome == "OUTPUT_LIMIT_EXCEEDED" and over.result.limits_hit == [pb.LIMIT_OUTPUT]
        assert len(getattr(over, stream)) == cap and getattr(over.result, f"{stream}_truncated")
        assert getattr(over.result.usage, f"{stream}_bytes") == cap
        exact = daemon.run(f"head -c {cap} /dev/zero {redirect}", output_bytes=cap)
        assert exact.outcome == "COMPLETED" and len(getattr(exact, stream)) == cap
        assert not getattr(exact.result, f"{stream}_truncated")


def test_output_cap_counts_each_stream_alone(daemon):
    """Each stream has the cap for itself; merged, both count together."""
    code = "head -c 900 /dev/zero; head -c 900 /dev/zero >&2"
    assert daemon.run(code, output_bytes=1000).outcome == "COMPLETED"
    merged = daemon.run(code, output_bytes=1000, merge_streams=True)
    assert merged.outcome == "OUTPUT_LIMIT_EXCEEDED" and len(merged.stdout) == 1000


def test_cancel_is_noted_and_the_result_follows(daemon):
    """Cancel answers at once with the state found; the stream ends with CANCELLED by the caller; a second one finds FINISHED."""
    run = daemon.call("echo up; sleep 60")
    run.until_output(b"up\n")
    began = time.monotonic()
    assert daemon.cancel(run.id) in (pb.STATE_RUNNING, pb.STATE_DRAINING)
    run.wait()
    assert time.monotonic() - began < seconds(1.5)
    assert (run.outcome, run.result.cancel_reason) == ("CANCELLED", pb.CANCEL_REASON_CALLER) and run.stdout == b"up\n"
    assert run.result.WhichOneof("exit") is None
    assert daemon.cancel(run.id) == pb.STATE_FINISHED


def test_client_gone_cancels(daemon):
    """A client that goes away ends its execution within a second, whatever the code does; nothing of it survives."""
    for code in ("sleep 600", "while :; do :; done", "yes", STUBBORN + "wait"):
        channel = daemon.new_channel()
        run = daemon.call(code, stub=daemon.new_stub(channel), keep_output=False, output_bytes=1 << 30)
        run.until("started")
        time.sleep(0.2)
        channel.close()
        result = daemon.finished(run.id, 2).result
        assert (result.outcome, result.cancel_reason) == (pb.OUTCOME_CANCELLED, pb.CANCEL_REASON_CLIENT_GONE)
        assert wait_until(lambda: not daemon.run_pids(), 1), "a process survived its client"


def test_killed_client_cancels(daemon):
    """A client that is killed, not closed, counts as gone too."""
    import subprocess
    client = subprocess.Popen([str(daemon.client), "--server", daemon.socket, "run", "--runtime", "bash", "--request-id", "killed-client",
                               "-c", "echo up; sleep 600"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert client.stdout.readline() == b"up\n"
    client.kill()
    client.wait()
    client.stdout.close()
    found = next(e for e in daemon.list().executions if e.request_id == "killed-client")
    assert daemon.finished(found.execution_id, 2).result.cancel_reason == pb.CANCEL_REASON_CLIENT_GONE


def test_background_children_neither_delay_nor_survive(daemon):
    """The result comes when the main program has ended; all of its children are dead then."""
    run = daemon.run(STUBBORN + "echo main done; exit 4")
    assert run.outcome == "FAILED" and run.result.exit_code == 4 and run.stdout == b"main done\n"
    assert run.ran < seconds(1.5)
    daemon.assert_no_run()


def test_children_cannot_write_after_the_result(daemon):
    """A background child that prints without end neither delays the result nor writes past it."""
    run = daemon.run("(while :; do echo child; done) & sleep 0.2; echo main", output_bytes=1 << 28)
    assert run.outcome == "COMPLETED" and b"main\n" in run.stdout


def test_the_first_trigger_wins(daemon):
    """Timeout and exit race for the same moment many times: always one outcome that fits its evidence."""
    for _ in range(machine.repeats(30)):
        run = daemon.run("sleep 0.2; exit 5", timeout=0.2)
        assert run.outcome in ("TIMED_OUT", "FAILED")
        assert (run.result.WhichOneof("exit") is None) == (run.outcome == "TIMED_OUT")


def test_cancel_racing_with_the_end(daemon):
    """Cancel at about the moment of a normal end: exactly one outcome, never an error."""
    for i in range(machine.repeats(40)):
        run = daemon.call("echo x")
        accepted = run.until("accepted")
        time.sleep(0.002 * (i % 20))
        daemon.cancel(accepted.execution_id)
        run.wait()
        assert run.outcome in ("COMPLETED", "CANCELLED")


# the other rooms fail

@pytest.mark.kills("spawner")
def test_spawner_killed(daemon):
    """kill -9 of the spawner: running executions are SANDBOX_FAILED, new ones UNAVAILABLE until it is back, and then all is well."""
    run = daemon.call("echo up; sleep 60")
    run.until_output(b"up\n")
    cell = daemon.cell_pids()
    assert cell
    daemon.kill_spawner()
    run.wait(10)
    assert run.outcome == "SANDBOX_FAILED" and "spawner" in run.result.message and run.stdout == b"up\n"
    assert wait_until(lambda: not any(machine.alive(p) for p in cell), 3), "processes of the cell outlived the spawner"
    daemon.wait_serving()
    assert daemon.run("echo back").stdout == b"back\n"


@pytest.mark.kills("spawner")
def test_without_a_spawner_calls_are_unavailable(make_daemon):
    """While the spawner cannot come back, Execute is UNAVAILABLE, health NOT_SERVING, and everything else still answers."""
    daemon = make_daemon()
    finished = daemon.run("echo kept").id
    spawner = daemon.spawner
    os.kill(daemon.process.pid, signal.SIGSTOP)  # nobody restarts it
    try:
        os.kill(spawner, signal.SIGKILL)
        def refusal():
            try:
                daemon.stub.Execute(request("true"), timeout=seconds(15))
            except grpc.RpcError as error:
                return Refused(error)
            return None
        refused = wait_until(refusal, 5)
        assert refused and refused.code == CODES.UNAVAILABLE and "spawner" in refused.message, refused
        info = daemon.info()
        assert not info.spawner_connected
        assert daemon.get(finished).state == pb.STATE_FINISHED
        check = daemon.health.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert check.status == health_pb2.HealthCheckResponse.NOT_SERVING
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    daemon.wait_serving()
    assert daemon.run("echo back").stdout == b"back\n"


@pytest.mark.kills("spawner")
def test_health_watch_follows_the_spawner(daemon):
    """Watch tells NOT_SERVING when the spawner dies and SERVING when it is back, on one stream."""
    watch = daemon.health.Watch(health_pb2.HealthCheckRequest(service="glovebox.v1.ExecutionService"), timeout=seconds(30))
    states = [next(watch).status]
    daemon.kill_spawner()
    states += [next(watch).status, next(watch).status]
    watch.cancel()
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    assert states == [serving, not_serving, serving]


def init_of(daemon):
    """Host pid of the only cell's PID 1. The one before may still be going."""
    def folders():
        return [f for f in daemon.cgroup.folders("cell-") if (f / "init").is_dir()]
    assert wait_until(lambda: len(folders()) == 1, 3), folders()
    return int((folders()[0] / "init" / "cgroup.procs").read_text().split()[0])


def test_init_killed(daemon):
    """PID 1 of a cell killed from outside: SANDBOX_FAILED, never FAILED or SIGNALED."""
    for code in ("echo up; sleep 60", "echo up; while :; do :; done"):
        run = daemon.call(code)
        run.until_output(b"up\n")
        os.kill(init_of(daemon), signal.SIGKILL)
        run.wait(10)
        assert run.outcome == "SANDBOX_FAILED" and run.result.WhichOneof("exit") is None, run


def test_GRP_14_helper_killed_in_the_middle(daemon):
    """kill -9 of a cell's PID 1 in the middle of a run, 100 times: always our fault, never success."""
    for i in range(machine.repeats(100)):
        run = daemon.call("echo up; sleep 0.5")
        run.until_output(b"up\n")
        time.sleep(0.001 * (i % 10))
        os.kill(init_of(daemon), signal.SIGKILL)
        run.wait(10)
        assert run.outcome == "SANDBOX_FAILED"
        assert wait_until(lambda: not daemon.cgroup.folders("cell-"), 2)


@pytest.mark.kills("server")
def test_server_killed(daemon):
    """kill -9 of the server: the spawner cleans its cells, the next server serves, and the client is told UNAVAILABLE."""
    run = daemon.call("echo up; sleep 60")
    run.until_output(b"up\n")
    cell = daemon.cell_pids()
    spawner = daemon.spawner
    daemon.restart_server()
    run.wait(10)
    assert run.refused and run.refused.code == CODES.UNAVAILABLE
    assert wait_until(lambda: not any(machine.alive(p) for p in cell), 3), "cells outlived their server"
    assert wait_until(lambda: not daemon.cgroup.folders("cell-"), 3)
    assert daemon.spawner == spawner, "the spawner did not survive the server"
    # the killed life could write no end record: start the count afresh
    daemon.audit_start = daemon.audit_size()
    daemon.calls.clear()
    assert daemon.run("echo back").stdout == b"back\n"


@pytest.mark.kills("spawner", "server")
def test_both_killed_at_once(daemon):
    """Server and spawner killed together: both come back and sweep."""
    run = daemon.call("sleep 60")
    run.until("started")
    cell = daemon.cell_pids()
    os.kill(daemon.spawner, signal.SIGKILL)
    os.kill(daemon.server, signal.SIGKILL)
    run.wait(10)
    assert wait_until(lambda: not any(machine.alive(p) for p in cell), 3)
    daemon.wait_serving()
    daemon.audit_start = daemon.audit_size()
    daemon.calls.clear()


def test_shutdown_drains_then_cancels(make_daemon):
    """SIGTERM: running ones may end until the drain deadline, the rest is CANCELLED with SHUTDOWN; new calls are refused."""
    daemon = make_daemon(config={"server": {"drain-deadline": "2s"}})
    short, long_ = daemon.call("sleep 0.8; echo done"), daemon.call("echo up; sleep 60")
    short.until("started")
    long_.until_output(b"up\n")
    daemon.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with pytest.raises(grpc.RpcError) as caught:
        daemon.stub.Execute(request("true"), timeout=seconds(5))
    assert caught.value.code() == CODES.UNAVAILABLE
    short.wait(10)
    long_.wait(10)
    assert short.outcome == "COMPLETED" and short.stdout == b"done\n"
    assert (long_.outcome, long_.result.cancel_reason) == ("CANCELLED", pb.CANCEL_REASON_SHUTDOWN)
    assert daemon.process.wait(seconds(10)) == 0
    ends = {r["execution_id"]: r["outcome"] for r in daemon.audit() if r["event"] == "end"}
    assert ends[short.id] == "COMPLETED" and ends[long_.id] == "CANCELLED"


def test_standalone_killed_leaves_nothing(make_daemon):
    """kill -9 of glovebox-standalone itself: server, spawner and cells end with it."""
    daemon = make_daemon()
    run = daemon.call("sleep 60")
    run.until("started")
    daemon.process.kill()
    daemon.process.wait()
    run.wait(10)
    assert wait_until(lambda: not daemon.cgroup.pids(), 5), [machine.program(p) for p in daemon.cgroup.pids()]


def test_a_runtime_that_cannot_start(make_daemon):
    """An interpreter that is there but cannot be executed: never a success, and the step or the runtime is named."""
    daemon = make_daemon(start=False)
    folder = daemon.folder / "runtimes.d"
    folder.mkdir()
    (folder / "broken.conf").write_text("[runtime]\nexec = /usr/lib/os-release\ncode-name = main.txt\n")
    daemon.start()
    assert not next(r for r in daemon.info().runtimes if r.name == "broken").available
    run = daemon.run("x", "broken")
    if run.refused:
        assert "broken" in run.refused.message, run
    else:
        assert run.outcome == "SANDBOX_FAILED" and "exec" in run.result.message, run
