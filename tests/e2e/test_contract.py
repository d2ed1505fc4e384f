"""The contract, name by name: what a request may say, what its events say, and how executions are found again."""
import hashlib
import os
import time

import grpc
import pytest

from kit.call import CODES, Call, Refused, duration, request, to_seconds
from kit.machine import missing_controllers, seconds, wait_until
from kit.other import Other
from kit.stubs import pb, system_pb2

CONTROLLER_OF = {"memory_bytes": "memory", "cpus": "cpu", "max_processes": "pids"}


def error_of(call, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, **kwargs)
    return Refused(caught.value)


# events

def test_accepted_is_first_and_tells_what_is_in_force(daemon):
    """accepted carries the id, every limit with its default, the layers and what is not enforced."""
    run = daemon.run("true")
    accepted, info = run.accepted, daemon.info()
    assert "test-node" in accepted.execution_id and len(accepted.execution_id) > len("test-node") + 10
    for field in pb.Limits.DESCRIPTOR.fields:
        if field.name not in ("cpu_time", "value_bytes", "content_bytes"):
            assert getattr(accepted.limits, field.name) == getattr(info.defaults, field.name), field.name
    assert to_seconds(accepted.limits.timeout) == 30 and accepted.limits.output_bytes == 8 << 20
    assert accepted.limits.memory_bytes == 512 << 20 and accepted.limits.cpus == 1 and accepted.limits.max_processes == 128
    assert accepted.limits.workspace_bytes == 256 << 20 and accepted.limits.workspace_inodes == 65536
    assert not accepted.limits.HasField("cpu_time"), "cpu_time is off unless set"
    assert not accepted.idle.HasField("timeout")
    assert to_seconds(accepted.heartbeat_interval) == 5
    assert {layer.name for layer in accepted.isolation} == {layer.name for layer in info.isolation}
    assert sorted(accepted.limits_not_enforced) == sorted(f for f, c in CONTROLLER_OF.items() if c in missing_controllers())
    assert not accepted.queued


def test_accepted_comes_at_once(daemon):
    """accepted does not wait for the cell or the first output."""
    run = daemon.call("sleep 0.5")
    run.until("accepted")
    assert run.arrival("accepted")[0] - run.began < seconds(0.3)
    run.wait()


def test_started_tells_how_and_which_version(daemon):
    """started names the interpreter's version and how the code was started."""
    started = daemon.run("print(1)", "python").of("started")[0]
    assert started.runtime_version.startswith("Python 3.")
    assert started.start in (pb.START_COLD, pb.START_READY, pb.START_WARM)
    assert 0 <= to_seconds(started.queue_time) < seconds(1)
    assert daemon.run("", "bash").of("started")[0].runtime_version
    assert daemon.run("", "javascript").of("started")[0].runtime_version


def test_ids_are_unique_and_seq_starts_at_one(daemon):
    """Each execution has its own id; seq, elapsed and offsets are checked by every call of the suite."""
    runs = daemon.many(8, "echo $RANDOM")
    assert len({r.id for r in runs}) == 8
    assert all(r.events[0].seq == 1 for r in runs)


def test_heartbeats_tell_a_silent_program_from_a_busy_one(daemon):
    """A heartbeat comes every interval, printed or not; idle_for grows while nothing happens, cpu_time while it computes."""
    asleep = daemon.run("sleep 1.2", heartbeat_interval=0.1)
    beats = asleep.of("heartbeat")
    assert len(beats) >= 6, len(beats)
    idle = [to_seconds(b.idle_for) for b in beats]
    assert idle[-1] > idle[0] and idle[-1] > 0.6, idle
    assert all(b.processes >= 1 for b in beats[1:-1])
    busy = daemon.run("import time\nend = time.time() + 1.2\nwhile time.time() < end: pass", "python", heartbeat_interval=0.1)
    cpu = [to_seconds(b.cpu_time) for b in busy.of("heartbeat")]
    assert cpu[-1] > cpu[0] and cpu == sorted(cpu), cpu
    assert max(to_seconds(b.idle_for) for b in busy.of("heartbeat")) < seconds(0.6)
    printing = daemon.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; sleep 0.1; done", heartbeat_interval=0.3)
    assert len(printing.of("heartbeat")) >= 2, "no heartbeats while it prints"


def test_heartbeat_interval_is_5_s_unless_asked(daemon):
    """Without an interval there is no heartbeat in the first seconds."""
    assert not daemon.run("sleep 0.7").of("heartbeat")


@pytest.mark.skipif(not os.path.exists("/proc/pressure/cpu"), reason="this kernel does not tell pressure")
def test_usage_tells_what_it_waited_for(daemon):
    """cpu_stalled: more busy processes than processors wait for each other; the kernel's own figure."""
    busy = "for i in $(seq 8); do (timeout 0.6 sh -c 'while :; do :; done') & done; wait"
    usage = daemon.run(busy).result.usage
    assert 0.3 <= to_seconds(usage.cpu_stalled) <= to_seconds(usage.wall) + 0.01, usage
    assert to_seconds(usage.memory_stalled) < 0.1 and to_seconds(usage.io_stalled) < 0.1, usage


def test_result_tells_usage_times_and_hash(daemon):
    """The result carries exit code, wall and cpu time, totals, the code's hash and three times in order."""
    code = "import sys, time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ntime.sleep(0.2)\n" \
           "print('x' * 99)\nsys.stderr.write('e' * 7)\nsys.exit(7)\n"
    run = daemon.run(code, "python", request_id="")
    r = run.result
    assert (run.outcome, r.exit_code) == ("FAILED", 7)
    assert r.code_sha256 == hashlib.sha256(code.encode()).hexdigest()
    assert 0.5 <= to_seconds(r.usage.wall) < seconds(10)
    assert 0.28 <= to_seconds(r.usage.cpu_user) + to_seconds(r.usage.cpu_system) < seconds(1.5)
    assert (r.usage.stdout_bytes, r.usage.stderr_bytes) == (100, 7)
    assert r.usage.memory_peak_bytes > 1 << 20
    times = [t.seconds + t.nanos / 1e9 for t in (r.accepted_at, r.started_at, r.finished_at)]
    assert times == sorted(times) and abs(times[2] - time.time()) < seconds(5)
    assert not r.limits_hit and not r.stdout_truncated and not r.stderr_truncated
    assert "7" in r.message


def test_outcome_of_a_signal_is_signaled(daemon):
    """A main process that dies of a signal we did not send is SIGNALED with its number, for any signal."""
    for number in (9, 6, 11, 15):
        run = daemon.run(f"kill -{number} $$")
        assert (run.outcome, run.result.signal) == ("SIGNALED", number)
        assert not run.result.limits_hit
    assert daemon.run("exit 137").outcome == "FAILED", "an exit status of 137 is no evidence of anything"


@pytest.mark.parametrize("status", [0, 1, 2, 125, 126, 127, 128, 255])
def test_exit_codes_are_exact(daemon, status):
    """Every exit status arrives as it is, also those that helpers tend to use for themselves."""
    run = daemon.run(f"exit {status}")
    assert run.result.exit_code == status and run.outcome == ("FAILED" if status else "COMPLETED")


# what a request gives the program

def test_args_env_stdin_and_files_arrive(daemon):
    """Arguments, environment, standard input and files reach the program byte for byte."""
    code = ("import os, sys\nprint(sys.argv[1:])\nprint(os.environ['A'], os.environ['EMPTY'] == '')\n"
            "print(sys.stdin.buffer.read())\nprint(open('data/sales.csv', 'rb').read())\n"
            "print(oct(os.stat('tool.sh').st_mode & 0o777), oct(os.stat('data/sales.csv').st_mode & 0o777))\n")
    run = daemon.run(code, "python", args=["one", "", "--two", "drei é"], env={"A": "b=c\nd", "EMPTY": ""}, stdin=b"\0\xff in",
                     files={"data/sales.csv": b"\x00a,b\r\n", "tool.sh": (b"#!/bin/sh\necho tool\n", "x")})
    assert run.stdout.decode() == ("['one', '', '--two', 'drei é']\nb=c\nd True\nb'\\x00\\xff in'\nb'\\x00a,b\\r\\n'\n0o755 0o644\n")
    assert daemon.run("./tool.sh", files={"tool.sh": (b"#!/bin/sh\necho tool\n", "x")}).stdout == b"tool\n"


def test_large_inputs_arrive(daemon):
    """1 MiB of code, 16 MiB of stdin and 40 MiB of files arrive whole."""
    pad = "#" + "x" * 1000 + "\n"
    code = pad * ((1 << 20) // len(pad) - 1) + "import sys, hashlib\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())\n" \
        "print(hashlib.sha256(open('big', 'rb').read()).hexdigest())\n"
    stdin, big = bytes(range(256)) * 65536, b"0123456789abcdef" * (40 << 16)
    run = daemon.run(code, "python", stdin=stdin, files={"big": big})
    assert run.outcome == "COMPLETED", run
    assert run.stdout.decode().split() == [hashlib.sha256(stdin).hexdigest(), hashlib.sha256(big).hexdigest()]


def test_caller_env_replaces_the_cells(daemon):
    """A name in the request replaces what the cell sets; the server's own environment is not there."""
    run = daemon.run("env | sort", env={"HOME": "/tmp", "LD_PRELOAD": ""})
    lines = run.stdout.decode().splitlines()
    assert "HOME=/tmp" in lines
    names = {line.split("=", 1)[0] for line in lines}
    assert not names & {"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "INVOCATION_ID", "PYTEST_CURRENT_TEST"}, names


def test_merge_streams_keeps_true_order(daemon):
    """With merge_streams both streams come as stdout in the order they were written."""
    code = "import os\nfor i in range(500):\n    os.write(1, b'o%d\\n' % i)\n    os.write(2, b'e%d\\n' % i)\n"
    run = daemon.run(code, "python", merge_streams=True)
    assert run.stdout == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(500))
    assert run.stderr == b"" and run.result.usage.stdout_bytes == len(run.stdout)


@pytest.mark.parametrize("runtime, code", [
    ("python", "import datetime; print(datetime.datetime.now().astimezone().utcoffset())"),
    ("javascript", "console.log(-new Date().getTimezoneOffset() / 60)"),
    ("bash", "date +%z"),
])
def test_SEED_17_timezone_acts(daemon, runtime, code):
    """The time zone of the request holds; without one it is UTC."""
    shanghai = {"python": b"8:00:00\n", "javascript": b"8\n", "bash": b"+0800\n"}
    utc = {"python": b"0:00:00\n", "javascript": (b"0\n", b"-0\n"), "bash": b"+0000\n"}
    assert daemon.run(code, runtime, timezone="Asia/Shanghai").stdout == shanghai[runtime]
    assert daemon.run(code, runtime).stdout in utc[runtime]


def test_empty_code_completes(daemon):
    """Empty code is allowed and does nothing."""
    for runtime in ("python", "javascript", "bash"):
        run = daemon.run("", runtime)
        assert run.outcome == "COMPLETED" and run.stdout == b"" and run.stderr == b""


def test_script_contracts_run_as_scripts(daemon):
    """UNSPECIFIED, AUTO and SCRIPT run as a script."""
    for contract in (pb.CONTRACT_UNSPECIFIED, pb.CONTRACT_AUTO, pb.CONTRACT_SCRIPT):
        assert daemon.run("echo hi", contract=contract).stdout == b"hi\n"


def test_profile_sets_limits_and_request_overrides(daemon):
    """A profile's limits hold where the request says nothing."""
    run = daemon.run("true", profile="data")
    assert run.accepted.profile == "data"
    assert to_seconds(run.accepted.limits.timeout) == 120 and run.accepted.limits.memory_bytes == 2 << 30
    assert to_seconds(run.accepted.idle.timeout) == 10 and to_seconds(run.accepted.idle.grace) == 60
    own = daemon.run("true", profile="data", timeout=3)
    assert to_seconds(own.accepted.limits.timeout) == 3 and own.accepted.limits.memory_bytes == 2 << 30


def test_set_limits_are_echoed(daemon):
    """Every limit a caller may set here is in force as set."""
    wanted = dict(timeout=12.5, cpu_time=3.25, output_bytes=12345, workspace_bytes=1 << 20, workspace_inodes=100)
    wanted.update({k: v for k, v in dict(memory_bytes=64 << 20, cpus=0.5, max_processes=17).items()
                   if CONTROLLER_OF[k] not in missing_controllers()})
    accepted = daemon.run("true", idle_timeout=4, idle_grace=2, idle_evidence=pb.EVIDENCE_OUTPUT, heartbeat_interval=0.5, **wanted).accepted
    for name, value in wanted.items():
        got = getattr(accepted.limits, name)
        assert (to_seconds(got) if name in ("timeout", "cpu_time") else got) == value, name
    assert (to_seconds(accepted.idle.timeout), to_seconds(accepted.idle.grace)) == (4, 2)
    assert accepted.idle.evidence == pb.EVIDENCE_OUTPUT and to_seconds(accepted.heartbeat_interval) == 0.5


def test_limit_of_a_waived_controller_is_refused(daemon):
    """A limit the machine cannot enforce is not promised: FAILED_PRECONDITION naming the field; as a default it is listed."""
    values = dict(memory_bytes=64 << 20, cpus=0.5, max_processes=17)
    for field, value in values.items():
        req = request("true", **{field: value})
        if CONTROLLER_OF[field] in missing_controllers():
            refused = daemon.refused(req)
            assert refused.code == CODES.FAILED_PRECONDITION and f"limits.{field}" in refused.message, refused
            assert field in daemon.info().limits_not_enforced
        else:
            assert daemon.run("true", **{field: value}).outcome == "COMPLETED"
            assert field not in daemon.info().limits_not_enforced


# Execute

def test_execute_answers_result_and_output(daemon):
    """Execute gives the result and both streams in one answer."""
    reply = daemon.stub.Execute(request("echo out; echo err >&2; exit 3"), timeout=seconds(30))
    assert (reply.stdout, reply.stderr) == (b"out\n", b"err\n")
    assert reply.result.outcome == pb.OUTCOME_FAILED and reply.result.exit_code == 3
    assert reply.result.execution_id and not reply.result.stdout_truncated


def test_execute_cuts_large_output_with_true_totals(daemon):
    """Execute's reply stays below 3.5 MiB for a client with default settings; the totals stay true and truncation is said."""
    code = "import sys\nsys.stdout.write('a' * 5_000_000)\nsys.stderr.write('b' * 2_000_000)\n"
    reply = daemon.stub.Execute(request(code, "python"), timeout=seconds(30))
    assert reply.ByteSize() <= 3.5 * (1 << 20)
    assert len(reply.stdout) + len(reply.stderr) > 2_000_000
    assert set(reply.stdout) == {ord("a")}
    assert (reply.result.usage.stdout_bytes, reply.result.usage.stderr_bytes) == (5_000_000, 2_000_000)
    assert reply.result.stdout_truncated and reply.result.outcome == pb.OUTCOME_COMPLETED
    assert reply.result.stderr_truncated == (len(reply.stderr) < 2_000_000)


def test_execute_ends_with_its_clients_deadline(daemon):
    """A deadline of the call ends the execution: CANCELLED, client gone."""
    with pytest.raises(grpc.RpcError) as caught:
        daemon.stub.Execute(request("sleep 60", request_id="deadline-of-execute"), timeout=1)
    assert caught.value.code() == CODES.DEADLINE_EXCEEDED
    found = next(e for e in daemon.list().executions if e.request_id == "deadline-of-execute")
    result = daemon.finished(found.execution_id).result
    assert (result.outcome, result.cancel_reason) == (pb.OUTCOME_CANCELLED, pb.CANCEL_REASON_CLIENT_GONE)


# request_id

def test_request_id_is_idempotent(daemon):
    """A repeated request_id gives ALREADY_EXISTS with the execution's id, while it runs and after it ended."""
    key = f"job-{time.time()}"
    first = daemon.call("sleep 0.7; echo once", request_id=key)
    first.until("accepted")
    while_running = daemon.refused(request("echo twice", request_id=key))
    assert while_running.code == CODES.ALREADY_EXISTS and while_running.resource == first.id, while_running
    assert first.wait().result.request_id == key
    after = daemon.refused(request("echo twice", request_id=key))
    assert after.code == CODES.ALREADY_EXISTS and after.resource == first.id
    assert [e.execution_id for e in daemon.list(page_size=100).executions if e.request_id == key] == [first.id]


def test_request_id_belongs_to_its_caller(daemon):
    """The same request_id of two callers is two executions."""
    key = f"shared-{time.time()}"
    mine = daemon.run("echo mine", request_id=key)
    with Other(daemon, 4711) as other:
        theirs = other.call("Execute", request("echo theirs", request_id=key)).reply
    assert theirs.stdout == b"theirs\n" and theirs.result.execution_id != mine.id


def test_request_id_race_runs_once(daemon):
    """Twenty calls with one request_id at the same instant start exactly one execution."""
    key = f"race-{time.time()}"
    calls = [daemon.call("sleep 0.3; echo ran", request_id=key) for _ in range(20)]
    for call in calls:
        call.wait()
    ran = [c for c in calls if not c.refused]
    assert len(ran) == 1
    assert {(c.refused.code, c.refused.resource) for c in calls if c.refused} == {(CODES.ALREADY_EXISTS, ran[0].id)}


def test_a_refused_request_does_not_use_up_its_request_id(daemon):
    """After a refusal the same request_id may be used by the mended request."""
    key = f"mended-{time.time()}"
    assert daemon.refused(request("true", runtime="nothing", request_id=key)).code == CODES.INVALID_ARGUMENT
    assert daemon.run("true", request_id=key).outcome == "COMPLETED"


# finding executions again

def test_get_execution_follows_its_life(daemon):
    """GetExecution shows a running execution with its numbers, and the result once it has ended."""
    run = daemon.call("echo hello; sleep 0.6", labels={"job": "x"}, heartbeat_interval=0.1)
    run.until("output")
    now = daemon.get(run.id)
    assert now.state == pb.STATE_RUNNING and now.runtime == "bash" and now.labels == {"job": "x"}
    assert now.stdout_bytes == 6 and now.caller == "uid:0" and not now.HasField("result")
    assert now.processes >= 1 and to_seconds(now.limits.timeout) == 30
    run.wait()
    then = daemon.get(run.id)
    assert then.state == pb.STATE_FINISHED and then.result == run.result
    assert then.accepted_at == run.result.accepted_at and then.started_at == run.result.started_at


@pytest.mark.parametrize("identifier", ["", "nothing", "test-node", "../../etc/passwd", "x" * 5000, "é", "%s%n"])
def test_unknown_executions_are_not_found(daemon, identifier):
    """An id that does not exist, whatever it looks like, is NOT_FOUND or a named bad argument."""
    for method in (daemon.get, daemon.cancel):
        error = error_of(method, identifier)
        assert error.code in (CODES.NOT_FOUND, CODES.INVALID_ARGUMENT), error
        assert error.code == CODES.NOT_FOUND or "execution_id" in error.fields
        assert len(error.message) < 1024


def test_executions_of_another_uid_are_not_found(daemon):
    """Another uid can neither see, list, cancel nor guess an execution; the answer is the same as for one that is not there."""
    run = daemon.call("sleep 1; echo done", labels={"secret": "no"})
    run.until("started")
    with Other(daemon, 4719) as other:
        assert other.call("GetInfo", system_pb2.GetInfoRequest()).reply.caller == "uid:4719"
        get = other.call("GetExecution", pb.GetExecutionRequest(execution_id=run.id))
        guess = run.id[:-1] + ("0" if run.id[-1] != "0" else "1")
        none = other.call("GetExecution", pb.GetExecutionRequest(execution_id=guess))
        cancel = other.call("Cancel", pb.CancelRequest(execution_id=run.id))
        assert {get.code, none.code, cancel.code} == {"NOT_FOUND"}
        assert get.message.replace(run.id, "ID") == none.message.replace(guess, "ID"), "the answer tells that it exists"
        assert not other.call("ListExecutions", pb.ListExecutionsRequest()).reply.executions
        for name in ("*", "uid:0"):
            assert other.call("ListExecutions", pb.ListExecutionsRequest(caller=name)).code == "PERMISSION_DENIED"
    assert run.wait().stdout == b"done\n"


def test_an_operator_sees_and_cancels_for_others(daemon):
    """uid 0 is an operator: it lists another caller's executions and ends them, and the result says who did."""
    with Other(daemon, 4712) as other:
        other.send("ExecuteStream", request("echo up; sleep 60"))
        found = wait_until(lambda: [e for e in daemon.list(caller="uid:4712", active_only=True).executions if e.stdout_bytes], 5)
        assert len(found) == 1 and found[0].caller == "uid:4712"
        assert found[0].execution_id not in [e.execution_id for e in daemon.list().executions], "an empty filter means one's own"
        assert found[0].execution_id in [e.execution_id for e in daemon.list(caller="*").executions]
        daemon.cancel(found[0].execution_id)
        last = other.answer().replies[-1]
    assert (last.result.outcome, last.result.cancel_reason) == (pb.OUTCOME_CANCELLED, pb.CANCEL_REASON_OPERATOR)
    assert daemon.audit_of(found[0].execution_id)[1]["cancelled_by"] == "uid:0"


def test_list_is_newest_first_and_pages(daemon):
    """Pages follow each other without holes or repeats, newest first."""
    ids = [daemon.run("true", labels={"n": str(i)}).id for i in range(5)]
    got, token = [], ""
    for _ in range(1000):
        page = daemon.list(page_size=2, page_token=token)
        assert len(page.executions) <= 2
        got += [e.execution_id for e in page.executions]
        token = page.next_page_token
        if not token or set(ids) <= set(got):
            break
    assert got[:5] == ids[::-1] and len(set(got)) == len(got)
    everything = daemon.list(page_size=1000)
    assert len(everything.executions) >= 5


def test_list_active_only(daemon):
    """active_only leaves out what has ended."""
    ended = daemon.run("true").id
    run = daemon.call("sleep 1")
    run.until("started")
    active = [e.execution_id for e in daemon.list(active_only=True).executions]
    assert run.id in active and ended not in active
    run.wait()


def test_list_refuses_what_makes_no_sense(daemon):
    """A page above 1000 and a token we did not make are named."""
    for fields, name in (({"page_size": 1001}, "page_size"), ({"page_token": "forged"}, "page_token"),
                         ({"page_token": "x" * 10000}, "page_token"), ({"page_token": "99999999999999999999999"}, "page_token")):
        error = error_of(daemon.list, **fields)
        assert error.code == CODES.INVALID_ARGUMENT and name in error.fields, (fields, error)


def test_detached_goes_on_without_its_client(daemon):
    """A detached execution survives its client; its result is found with GetExecution."""
    channel = daemon.new_channel()
    run = daemon.call("sleep 0.7; echo still here", stub=daemon.new_stub(channel), detached=True)
    run.until("started")
    channel.close()
    execution = daemon.finished(run.id)
    assert execution.detached and execution.result.outcome == pb.OUTCOME_COMPLETED and execution.result.usage.stdout_bytes == 11


def test_detached_output_does_not_wait_for_anyone(daemon):
    """Nobody reads a detached execution: it must not be held back by that."""
    channel = daemon.new_channel()
    run = daemon.call("head -c 6000000 /dev/zero", stub=daemon.new_stub(channel), detached=True, keep_output=False)
    run.until("accepted")
    channel.close()
    assert daemon.finished(run.id).result.usage.stdout_bytes == 6_000_000


def test_labels_are_shown_in_list_get_and_audit(daemon):
    """Labels are for the caller's own use, and come back as they were."""
    labels = {"team": "blue", "k" * 64: "v" * 256, "ü": "日本"}
    run = daemon.run("true", labels=labels)
    assert daemon.get(run.id).labels == labels
    assert next(e for e in daemon.list().executions if e.execution_id == run.id).labels == labels
    assert daemon.audit_of(run.id)[0]["labels"] == labels


# what is refused

NOT_BUILT = {
    "network": request(network=pb.NetworkPolicy()),
    "packages": request(packages=["numpy"]),
    "session_id": request(session_id="s"),
    "mounts": pb.ExecuteRequest(runtime="bash", mounts=[pb.Mount(name="m", path="/x")]),
    "secrets": pb.ExecuteRequest(runtime="bash", secrets=[pb.Secret(env="A", value="b")]),
    "isolation": request(isolation="gvisor"),
}


@pytest.mark.parametrize("field", NOT_BUILT)
def test_what_is_not_built_is_refused(daemon, field):
    """A field the server does not act on yet is UNIMPLEMENTED and named, never ignored."""
    refused = daemon.refused(NOT_BUILT[field])
    assert refused.code == CODES.UNIMPLEMENTED and field in refused.message, refused


def test_native_isolation_may_be_named(daemon):
    """The kind of cell that exists may be asked for by name."""
    assert daemon.run("true", isolation="native").outcome == "COMPLETED"


def big_dict(count, size):
    return {f"K{i}": "x" * size for i in range(count)}


# field → (request, what the sentence must hold)
INVALID = {
    "runtime missing": ("runtime", request(runtime=""), "runtime"),
    "runtime unknown": ("runtime", request(runtime="perl"), "python"),
    "runtime version unknown": ("runtime", request(runtime="python:9.9"), ""),
    "runtime long": ("runtime", request(runtime="p" * 65), ""),
    "code too long": ("code", request("x" * ((1 << 20) + 1)), "1048576|1 MiB"),
    "code with NUL": ("code", request("a\0b"), "NUL"),
    "request_id long": ("request_id", request(request_id="a" * 129), "128"),
    "request_id not ASCII": ("request_id", request(request_id="é"), "ASCII"),
    "request_id control character": ("request_id", request(request_id="a\nb"), "ASCII"),
    "args NUL": ("args[1]", request(args=["ok", "a\0b"]), "NUL"),
    "args too many": ("args", request(args=["a"] * 1025), "1024"),
    "args too long": ("args", request(args=["a" * 70000, "b" * 70000]), "131072|128 KiB"),
    "env name": ("env", request(env={"1A": "b"}), ""),
    "env name empty": ("env", request(env={"": "b"}), ""),
    "env name with =": ("env", request(env={"A=B": "c"}), ""),
    "env NUL": ("env", request(env={"A": "b\0c"}), "NUL"),
    "env too long": ("env", request(env={"A": "x" * (129 << 10)}), "131072|128 KiB"),
    "env too many": ("env", request(env=big_dict(1025, 1)), "1024"),
    "stdin too long": ("stdin", request(stdin=b"x" * ((16 << 20) + 1)), "16777216|16 MiB"),
    "contract unknown": ("contract", request(contract=77), "77"),
    "files path empty": ("files[0].path", request(files={"": b""}), ""),
    "files path absolute": ("files[0].path", request(files={"/etc/passwd": b""}), ""),
    "files path dotdot": ("files[0].path", request(files={"a/../../b": b""}), ""),
    "files path dot": ("files[0].path", request(files={"./a": b""}), ""),
    "files path slashes": ("files[0].path", request(files={"a//b": b""}), ""),
    "files path trailing slash": ("files[0].path", request(files={"a/": b""}), ""),
    "files path NUL": ("files[0].path", request(files={"a\0b": b""}), "NUL"),
    "files path component long": ("files[0].path", request(files={"a/" + "b" * 256: b""}), "255"),
    "files path long": ("files[0].path", request(files={"/".join(["a" * 200] * 21): b""}), "4096"),
    "files twice": ("files[1].path", pb.ExecuteRequest(runtime="bash", files=[pb.InputFile(path="a"), pb.InputFile(path="a")]), ""),
    "files too many": ("files", request(files={f"f{i}": b"" for i in range(1001)}), "1000"),
    "files too large": ("files", request(files={"a": b"x" * (33 << 20), "b": b"x" * (32 << 20)}), "67108864|64 MiB"),
    "profile unknown": ("profile", request(profile="gigantic"), "data"),
    "profile long": ("profile", request(profile="p" * 5000), ""),
    "timeout negative": ("limits.timeout", request(timeout=-1), ""),
    "timeout tiny": ("limits.timeout", request(timeout=0.0001), "1 ms"),
    "timeout above cap": ("limits.timeout", request(timeout=3601), "3600 s"),
    "timeout nanos out of range": ("limits.timeout", pb.ExecuteRequest(runtime="bash", limits=pb.Limits(timeout={"seconds": 1, "nanos": 10**9})), ""),
    "timeout signs differ": ("limits.timeout", pb.ExecuteRequest(runtime="bash", limits=pb.Limits(timeout={"seconds": 1, "nanos": -5})), ""),
    "timeout enormous": ("limits.timeout", pb.ExecuteRequest(runtime="bash", limits=pb.Limits(timeout={"seconds": 2**63 - 1})), "3600 s|10000000000 s"),
    "cpu_time negative": ("limits.cpu_time", request(cpu_time=-0.5), ""),
    "cpu_time above cap": ("limits.cpu_time", request(cpu_time=3600.5), "3600 s"),
    "memory tiny": ("limits.memory_bytes", request(memory_bytes=1 << 20), "16 MiB"),
    "memory above cap": ("limits.memory_bytes", request(memory_bytes=(4 << 30) + 1), "4 GiB"),
    "memory largest": ("limits.memory_bytes", request(memory_bytes=2**64 - 1), "4 GiB"),
    "cpus NaN": ("limits.cpus", request(cpus=float("nan")), ""),
    "cpus infinite": ("limits.cpus", request(cpus=float("inf")), ""),
    "cpus negative": ("limits.cpus", request(cpus=-1.0), ""),
    "cpus tiny": ("limits.cpus", request(cpus=0.001), "0.01"),
    "cpus above cap": ("limits.cpus", request(cpus=2.5), "2"),
    "processes above cap": ("limits.max_processes", request(max_processes=1025), "1024"),
    "output above cap": ("limits.output_bytes", request(output_bytes=(1 << 30) + 1), "1 GiB"),
    "workspace tiny": ("limits.workspace_bytes", request(workspace_bytes=1000), "64 KiB"),
    "workspace above cap": ("limits.workspace_bytes", request(workspace_bytes=(4 << 30) + 1), "4 GiB"),
    "inodes tiny": ("limits.workspace_inodes", request(workspace_inodes=1), "64"),
    "inodes above cap": ("limits.workspace_inodes", request(workspace_inodes=65537), "65536"),
    "idle tiny": ("idle.timeout", request(idle_timeout=0.01), "50 ms"),
    "idle above cap": ("idle.timeout", request(idle_timeout=3601), "3600 s"),
    "idle negative": ("idle.timeout", request(idle_timeout=-1), ""),
    "idle grace negative": ("idle.grace", request(idle_timeout=1, idle_grace=-1), ""),
    "idle evidence unknown": ("idle.evidence", request(idle_timeout=1, idle_evidence=9), "9"),
    "heartbeat fast": ("heartbeat_interval", request(heartbeat_interval=0.01), "100 ms"),
    "heartbeat slow": ("heartbeat_interval", request(heartbeat_interval=61), "60 s"),
    "heartbeat negative": ("heartbeat_interval", request(heartbeat_interval=-1), ""),
    "working_dir outside": ("working_dir", request(working_dir="/etc"), "/workspace"),
    "working_dir dotdot": ("working_dir", request(working_dir="a/../../.."), ""),
    "working_dir long": ("working_dir", request(working_dir="a/" * 3000), ""),
    "working_dir NUL": ("working_dir", request(working_dir="a\0"), "NUL"),
    "timezone path": ("timezone", request(timezone="../../etc/passwd"), ""),
    "timezone absolute": ("timezone", request(timezone="/etc/localtime"), ""),
    "timezone long": ("timezone", request(timezone="A" * 65), "64"),
    "timezone folder": ("timezone", request(timezone="Europe"), "Europe"),
    "timezone folder with slash": ("timezone", request(timezone="Europe/"), "Europe/"),
    "timezone with two slashes": ("timezone", request(timezone="Europe//Berlin"), ""),
    "timezone unknown": ("timezone", request(timezone="Mars/Olympus"), ""),
    "labels too many": ("labels", request(labels={f"k{i}": "" for i in range(33)}), "32"),
    "label key long": ("labels", request(labels={"k" * 65: ""}), "64"),
    "label value long": ("labels", request(labels={"k": "v" * 257}), "256"),
    "isolation NUL": ("isolation", request(isolation="native\0x"), "NUL"),
    "profile NUL": ("profile", request(profile="data\0x"), "NUL"),
    "runtime NUL": ("runtime", request(runtime="bash\0x"), "NUL"),
}


@pytest.mark.parametrize("name", INVALID)
def test_wrong_values_are_named_with_their_bound(daemon, name):
    """Each wrong value is INVALID_ARGUMENT; BadRequest names the field, the sentence its bound, and nothing starts."""
    field, req, holds = INVALID[name]
    refused = daemon.refused(req)
    assert refused.code == CODES.INVALID_ARGUMENT, refused
    named = list(refused.fields)
    assert len(named) == 1 and (named[0] == field or field in ("env", "labels", "files") and named[0].startswith(field)), refused
    assert any(h in refused.message for h in holds.split("|")), refused
    assert field.split("[")[0] in refused.message and len(refused.message.encode()) < 1024
    assert refused.status.code == CODES.INVALID_ARGUMENT.value[0] and refused.fields[named[0]]


def test_bounds_themselves_are_allowed(daemon):
    """Values exactly at a bound pass."""
    run = daemon.run("true", timeout=3600, cpu_time=3600, output_bytes=1 << 30, workspace_bytes=64 << 10, workspace_inodes=64,
                     idle_timeout=0.05, idle_grace=3600, heartbeat_interval=60, request_id="a" * 100 + str(time.time())[:28],
                     labels={f"k{i}": "" for i in range(32)}, args=["a"] * 1000)
    assert run.outcome == "COMPLETED", run
    # 1 ms is allowed and ends nearly everything
    assert daemon.run("sleep 1", timeout=0.001).outcome == "TIMED_OUT"


def test_zero_means_the_default(daemon):
    """0 is the default, as the contract says, and the default is echoed."""
    accepted = daemon.run("true", timeout=0, output_bytes=0, heartbeat_interval=0).accepted
    assert to_seconds(accepted.limits.timeout) == 30 and accepted.limits.output_bytes == 8 << 20
    assert to_seconds(accepted.heartbeat_interval) == 5


def test_unknown_method_and_service(daemon):
    """A method that does not exist is UNIMPLEMENTED at once."""
    for path in ("/glovebox.v1.ExecutionService/Attach", "/glovebox.v1.SessionService/Create", "/x/y", "/"):
        call = daemon.channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
        began = time.monotonic()
        assert error_of(call, b"", timeout=seconds(5)).code == CODES.UNIMPLEMENTED
        assert time.monotonic() - began < seconds(2)


def test_garbage_instead_of_a_request(daemon):
    """Bytes that are no message are refused, not executed."""
    call = daemon.channel.unary_unary("/glovebox.v1.ExecutionService/Execute", request_serializer=bytes, response_deserializer=bytes)
    for body in (b"\xff" * 50, b"\x0a\x7f", b"\x08", b"\x1b" * 1000, b"\x82\x06\xff\xff\xff\xff\x0f"):
        assert error_of(call, body, timeout=seconds(5)).code in (CODES.INVALID_ARGUMENT, CODES.INTERNAL)


# GetInfo

def test_get_info_tells_what_this_server_is(daemon):
    """GetInfo: version, runtimes with versions, profiles, defaults and caps, layers, limits not enforced, who asks."""
    info = daemon.info()
    assert info.version and info.node == "test-node"
    assert (info.caller, info.caller_is_operator) == ("uid:0", True)
    runtimes = {r.name: r for r in info.runtimes}
    assert {"python", "javascript", "bash"} <= set(runtimes)
    for name, ending in (("python", ".py"), ("javascript", ".js"), ("bash", ".sh")):
        assert runtimes[name].available and not runtimes[name].detail and ending in runtimes[name].endings
        assert any(c.isdigit() for c in runtimes[name].version)
    profiles = {p.name: p for p in info.profiles}
    assert {"quick", "data", "heavy"} <= set(profiles)
    assert to_seconds(profiles["heavy"].limits.timeout) == 300 and profiles["heavy"].limits.cpus == 2
    assert to_seconds(info.caps.timeout) == 3600 and info.caps.memory_bytes == 4 << 30 and info.caps.cpus == 2
    assert info.caps.output_bytes == 1 << 30 and info.caps.max_processes == 1024 and to_seconds(info.caps.cpu_time) == 3600
    layers = {layer.name: layer for layer in info.isolation}
    for name in ("mount_namespace", "pid_namespace", "ipc_namespace", "uts_namespace", "network_namespace", "cgroup_namespace",
                 "user_namespace", "no_new_privs"):
        assert layers[name].in_force, name
    assert all(layer.in_force or layer.detail for layer in info.isolation), "a layer is missing without a reason"
    assert info.cgroup_driver in ("cgroupfs", "systemd")
    assert info.max_executions > 0 and info.max_waiting == 256 and to_seconds(info.wait_deadline) == 10
    assert info.spawner_connected and info.max_message_bytes >= 64 << 20


def test_get_info_counts_running(daemon):
    """running follows what runs."""
    assert wait_until(lambda: daemon.info().running == 0, 5)  # the cell of the one before may be going still
    run = daemon.call("sleep 1")
    run.until("started")
    assert daemon.info().running == 1
    run.wait()
    assert wait_until(lambda: daemon.info().running == 0, 2)


def test_health_check_and_watch(daemon):
    """grpc.health.v1: each service by name, an unknown one NOT_FOUND, Watch tells the state at once."""
    from kit.stubs import health_pb2
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ("", "glovebox.v1.ExecutionService", "glovebox.v1.SystemService"):
        assert daemon.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5).status == serving
        watch = daemon.health.Watch(health_pb2.HealthCheckRequest(service=service), timeout=10)
        assert next(watch).status == serving
        watch.cancel()
    assert error_of(daemon.health.Check, health_pb2.HealthCheckRequest(service="nope"), timeout=5).code == CODES.NOT_FOUND
    watch = daemon.health.Watch(health_pb2.HealthCheckRequest(service="nope"), timeout=10)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_kept_results_are_bounded(make_daemon):
    """Only the configured number of finished executions is kept per caller; older ones are NOT_FOUND."""
    daemon = make_daemon(config={"server": {"keep-finished": 3}})
    ids = [daemon.run("true").id for _ in range(6)]
    assert len(daemon.list(page_size=1000).executions) <= 3
    assert error_of(daemon.get, ids[0]).code == CODES.NOT_FOUND
    assert daemon.get(ids[-1]).state == pb.STATE_FINISHED


def test_kept_results_expire(make_daemon):
    """A finished execution is forgotten after the configured time, without anyone asking; its request_id is free again."""
    daemon = make_daemon(config={"server": {"keep-finished-for": "1s"}})
    run = daemon.run("true", request_id="again")
    time.sleep(1.6)
    assert error_of(daemon.get, run.id).code == CODES.NOT_FOUND
    assert daemon.run("true", request_id="again").outcome == "COMPLETED"


def test_call_helper_sees_holes():
    """The checks every stream goes through do fail on a stream that breaks the contract."""
    def stream(*events):
        class Stub:
            @staticmethod
            def ExecuteStream(req, timeout=None):  # noqa: ARG004
                return iter(events)
        return Call(Stub, request("true"))
    accepted = pb.ExecutionEvent(seq=1, accepted=pb.Accepted(execution_id="a"))
    started = pb.ExecutionEvent(seq=2, started=pb.Started())
    result = pb.Result(execution_id="a", outcome=pb.OUTCOME_COMPLETED, exit_code=0, code_sha256="0" * 64, accepted_at={"seconds": 1},
                       finished_at={"seconds": 1})
    stream(accepted, started, pb.ExecutionEvent(seq=3, result=result)).wait()
    for broken in (
        (accepted, started),
        (accepted, started, pb.ExecutionEvent(seq=4, result=result)),
        (started, pb.ExecutionEvent(seq=3, result=result)),
        (accepted, started, pb.ExecutionEvent(seq=3, result=result), pb.ExecutionEvent(seq=4, result=result)),
        (accepted, started, pb.ExecutionEvent(seq=3, output=pb.Output(stream=1, offset=1, data=b"x")), pb.ExecutionEvent(seq=4, result=result)),
        (accepted, started, pb.ExecutionEvent(seq=3, elapsed=duration(1), heartbeat=pb.Heartbeat()), pb.ExecutionEvent(seq=4, result=result)),
    ):
        with pytest.raises(AssertionError):
            stream(*broken).wait()
