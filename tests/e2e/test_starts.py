"""How executions start: what is told of it, the priority of those who start them, and the first moments of a daemon."""
import collections
import concurrent.futures
import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time

import grpc
import pytest

from kit import machine
from kit.call import CODES, Refused, request
from kit.daemon import BUILD
from kit.machine import seconds, wait_until
from kit.stubs import health_pb2, pb

STARTS = {"COLD", "READY", "WARM"}


def test_the_audit_has_the_start_that_was_told(daemon):
    for runtime, code in (("bash", "true"), ("python", "print(1)")):
        run = daemon.run(code, runtime)
        told = pb.Start.Name(run.of("started")[0].start).removeprefix("START_")
        assert told in STARTS and daemon.audit_of(run.id)[1]["start"] == told


def test_the_audit_has_the_start_of_an_answer_in_one_piece(daemon):
    """The answer of Execute has no field for it."""
    daemon.stub.Execute(request("true", request_id="in-one-piece"), timeout=seconds(30))

    def look():
        return [r["start"] for r in daemon.audit() if r.get("request_id") == "in-one-piece" and r["event"] == "end"]
    found = wait_until(look, 3)
    assert len(found) == 1 and found[0] in STARTS


def test_get_info_counts_how_executions_began(make_daemon):
    """By runtime, over a reload, and without the runs that ask for versions; the client says it too."""
    daemon = make_daemon(start=False, config={"spawner": {"pool": "yes"}}, runtimes={
        "bash": {"pool-min": 0, "pool-max": 0}, "python": {"pool-min": 1, "pool-max": 1, "warm": "yes", "zygote": "yes"}})
    daemon.take_baseline = daemon.verify = lambda *_: None  # cells that wait are there to stay
    daemon.start()
    told = {"bash": collections.Counter(), "python": collections.Counter()}

    def run(runtime):
        start = pb.Start.Name(daemon.run("true" if runtime == "bash" else "pass", runtime).of("started")[0].start)
        told[runtime][start] += 1
        return start

    def counted():
        return {r.name: {k: n for k, n in (("START_COLD", r.started_cold), ("START_READY", r.started_ready), ("START_WARM", r.started_warm)) if n}
                for r in daemon.info().runtimes}
    assert set(counted()) > set(told) and not any(counted().values())
    assert wait_until(lambda: run("python") == "START_WARM", 20)
    assert {run("bash") for _ in range(3)} == {"START_COLD"}
    daemon.stub.Execute(request("true"), timeout=seconds(30))
    told["bash"]["START_COLD"] += 1
    assert {name: n for name, n in counted().items() if n} == told
    reloads = daemon.log.count("Reloaded the configuration")
    os.kill(daemon.server, signal.SIGHUP)
    assert wait_until(lambda: daemon.log.count("Reloaded the configuration") > reloads, 10), daemon.log
    assert {name: n for name, n in counted().items() if n} == told
    shown = subprocess.run([daemon.client, "--server", daemon.socket, "info"], capture_output=True, text=True, timeout=seconds(20)).stdout
    assert "  began 4 cold\n" in shown and f"began {told['python']['START_WARM']} warm" in shown, shown


# A Node.js that waits has threads that may still be at work on what it did before.
@pytest.mark.parametrize("pooled, runtime, code", [("pool", "python", "1"), ("cold", "python", "1"), ("pool", "bash", "true"), ("cold", "bash", "true"),
                                                   ("cold", "javascript", "1")])
def test_a_short_run_took_no_less_time_than_its_processors(make_daemon, pooled, runtime, code):
    """The server may hear of its start when it has ended."""
    others = {name: {"pool-min": 0, "pool-max": 0} for name in ("bash", "javascript", "javascript-module", "python", "python-data", "typescript")}
    daemon = make_daemon(start=False, config={"spawner": {"pool": "yes"}},
                         runtimes={**others, runtime: {"pool-min": 4, "pool-max": 4} if pooled == "pool" else others[runtime]})
    daemon.take_baseline = daemon.verify = lambda *_: None  # cells that wait are there to stay
    daemon.start()
    for _ in range(40):
        result = daemon.stub.Execute(request(code, runtime=runtime), timeout=seconds(30)).result
        usage = result.usage
        used = usage.cpu_user.ToMicroseconds() + usage.cpu_system.ToMicroseconds()
        assert usage.wall.ToMicroseconds() * os.cpu_count() >= used > 0, result
        times = [at.ToMicroseconds() for at in (result.accepted_at, result.started_at, result.finished_at)]
        assert times == sorted(times) and times[2] - times[1] >= usage.wall.ToMicroseconds() - 1000, result
        time.sleep(0.02)


@pytest.mark.parametrize("runtime, code", [("python", "import os\nprint(os.stat('big').st_ctime_ns)"), ("bash", "stat -c %.Z big")])
def test_the_writing_of_its_files_is_not_the_programs_time(daemon, runtime, code):
    call = daemon.run(code, runtime, files={"big": bytes(24 << 20)})
    written = int(call.stdout) / 1e9 if runtime == "python" else float(call.stdout)
    assert call.result.started_at.ToMicroseconds() / 1e6 >= written - 1e-5, call.result
    assert call.result.usage.wall.ToMicroseconds() / 1e6 <= call.result.finished_at.ToMicroseconds() / 1e6 - written + 1e-3, call.result


def test_what_never_started_has_no_start(make_daemon):
    daemon = make_daemon(config={"server": {"max-executions": 1}})
    running = daemon.call("sleep 30")
    running.until("started")
    waiting = daemon.call("true")
    waiting.until("accepted")
    daemon.cancel(waiting.id)
    assert waiting.wait().outcome == "CANCELLED" and "start" not in daemon.audit_of(waiting.id)[1]
    daemon.cancel(running.id)
    running.wait()


CAP_SYS_NICE = 23
EX_CONFIG = 78
# What user code finds: policy, nice value, and how far it could raise them.
FAVOURS = """
import os, resource
print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), resource.getrlimit(resource.RLIMIT_RTPRIO), resource.getrlimit(13))
for name, ask in (("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -1)), ("rr", lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))):
    try:
        ask()
        print(name)
    except OSError:
        pass
"""


def without_sys_nice():
    ctypes.CDLL(None).prctl(24, CAP_SYS_NICE, 0, 0, 0)  # PR_CAPBSET_DROP


def priority_of(task):
    policy = os.sched_getscheduler(task)
    return policy & ~os.SCHED_RESET_ON_FORK, os.getpriority(os.PRIO_PROCESS, task), bool(policy & os.SCHED_RESET_ON_FORK)


def priorities_of(tasks):
    """Threads and processes come and go."""
    found = {}
    for task in tasks:
        with contextlib.suppress(ProcessLookupError):
            found[task] = priority_of(task)
    return found


@pytest.fixture(scope="module")
def may_raise():
    child = subprocess.run(["chrt", "-r", "1", "nice", "-n", "-10", "true"], capture_output=True, text=True)
    if child.returncode or child.stderr:
        pytest.skip(f"this machine gives no better priority: {child.stderr}")


@pytest.mark.parametrize("name, wanted", [("high", (os.SCHED_OTHER, -10)), ("realtime", (os.SCHED_RR,))])
def test_priority_is_for_server_and_spawner_alone(make_daemon, may_raise, name, wanted):
    """All threads of the server, the spawner, and nobody that it starts, neither its helpers nor programs in cells."""
    daemon = make_daemon(start=False, config={"server": {"priority": name}, "spawner": {"priority": name, "pool": "yes"}},
                         runtimes={"bash": {"pool-min": 1, "pool-max": 1}, "python": {"pool-min": 1, "pool-max": 1, "warm": "yes", "zygote": "yes"}})
    daemon.take_baseline = daemon.verify = lambda *_: None  # cells that wait are there to stay
    daemon.start()
    tasks = [int(t) for t in os.listdir(f"/proc/{daemon.server}/task")]
    assert len(tasks) > 1 and {p[:len(wanted)] for p in priorities_of(tasks).values()} == {wanted}
    assert priority_of(daemon.spawner)[:len(wanted)] == wanted and priority_of(daemon.spawner)[2]
    others = daemon.cgroup.pids() - {daemon.server, daemon.spawner, daemon.process.pid}
    assert others, "the spawner has helpers"
    bad = {machine.program(p): found for p, found in priorities_of(others).items() if found[0] != os.SCHED_OTHER or found[1] < 0}
    assert not bad
    for runtime in ("python", "bash"):
        wait_until(lambda: daemon.run("true" if runtime == "bash" else "pass", runtime).of("started")[0].start != pb.START_COLD, 10)
    assert daemon.run(FAVOURS, "python").stdout == b"0 0 (0, 0) (0, 0)\n"
    in_pool = daemon.run("read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ priority nice _ < /proc/$BASHPID/stat; echo $priority $nice; ulimit -e; ulimit -r")
    assert in_pool.stdout == b"20 0\n0\n0\n"
    assert daemon.log.count(f"Runs with priority {name}") == 2


@pytest.mark.parametrize("program", ["gloveboxd", "glovebox-spawner"])
@pytest.mark.parametrize("name, setting", [("high", "Nice=-10"), ("realtime", "CPUSchedulingPolicy=rr")])
def test_a_priority_that_is_not_allowed_is_no_start(tmp_path, program, name, setting):
    """The line says which key it is, and what the operator can do."""
    section = "server" if program == "gloveboxd" else "spawner"
    config = tmp_path / "glovebox.conf"
    config.write_text(f"[server]\nlisten = unix:{tmp_path}/gb.sock\n[{section}]\npriority = {name}\n")
    done = subprocess.run([BUILD / "bin" / program, "--config", config, "--state", tmp_path / "state"], capture_output=True, text=True,
                          timeout=seconds(20), preexec_fn=without_sys_nice)
    assert done.returncode == EX_CONFIG, done.stderr
    assert f"[{section}] priority = {name} is not allowed" in done.stderr and setting in done.stderr and f"systemctl edit {program}" in done.stderr


CALLS = 50
STATUS = health_pb2.HealthCheckResponse


class Health:
    """What Watch says, in order."""

    def __init__(self, daemon):
        self.said = []
        self._watch = daemon.health.Watch(health_pb2.HealthCheckRequest(), wait_for_ready=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for answer in self._watch:
                self.said.append(answer.status)
        except grpc.RpcError:
            pass

    def serving(self):
        return self.said[-1:] == [STATUS.SERVING]

    def stop(self):
        self._watch.cancel()
        self._thread.join()


def execute(daemon, number, patient):
    """The answer and how often it was refused before; whoever is patient asks again, as the refusal says."""
    req = request(f"echo {number}" if number % 2 else f"print({number})", "bash" if number % 2 else "python")
    refusals = 0
    while True:
        try:
            answer = daemon.stub.Execute(req, timeout=seconds(60), wait_for_ready=True)
            assert pb.Outcome.Name(answer.result.outcome) == "OUTCOME_COMPLETED" and answer.stdout == b"%d\n" % number, answer
            return refusals
        except grpc.RpcError as error:
            refused = Refused(error)
            assert refused.code == CODES.UNAVAILABLE and refused.retry_after, refused
            if not patient:
                return 1
            refusals += 1
            time.sleep(min(refused.retry_after, 0.2))


def all_at_once(daemon, patient):
    with concurrent.futures.ThreadPoolExecutor(CALLS) as pool:
        return sum(pool.map(lambda n: execute(daemon, n, patient), range(CALLS)))


@pytest.mark.parametrize("held", [True, False], ids=["without-spawner", "as-it-comes"])
def test_SES_12_calls_right_after_the_start(make_daemon, held):
    """Before anything is warm, calls succeed, or are UNAVAILABLE and say when to ask again; health is NOT_SERVING until all can run."""
    warm = {"pool-min": 2, "pool-max": 2}
    daemon = make_daemon(start=False, config={"spawner": {"pool": "yes"}}, runtimes={"bash": warm, "python": {**warm, "warm": "yes", "zygote": "yes"}})
    daemon.take_baseline = daemon.verify = lambda *_: None  # cells that wait are there to stay
    daemon.spawn()
    assert wait_until(lambda: daemon.spawner, 10, 0.001)
    if held:
        os.kill(daemon.spawner, signal.SIGSTOP)
    daemon.connect()
    health = Health(daemon)
    if held:
        assert all_at_once(daemon, patient=False) == CALLS
        assert health.said == [STATUS.NOT_SERVING]
        os.kill(daemon.spawner, signal.SIGCONT)
    all_at_once(daemon, patient=True)
    assert wait_until(health.serving, 60), f"{health.said}; the daemon said:\n{daemon.log}"
    assert health.said in ([STATUS.NOT_SERVING, STATUS.SERVING], [STATUS.SERVING])
    assert all_at_once(daemon, patient=False) == 0
    health.stop()
