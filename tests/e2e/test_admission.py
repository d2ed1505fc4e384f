"""Who may run now: the bound on executions, the fair waiting list, and refusals that say when to come back."""
import threading
import time

import grpc
import pytest

from kit.call import CODES, Refused, request, to_seconds
from kit.machine import seconds, wait_until
from kit.other import Other
from kit.stubs import pb


def test_GRP_20_never_more_than_the_bound(make_daemon):
    """100 calls at one instant with room for 10: never more than 10 cells, none lost, all end, the counter returns to 0."""
    daemon = make_daemon(config={"server": {"max-executions": 10, "max-waiting": 200, "wait-deadline": "60s"}})
    peak, stop = [0], threading.Event()

    def watch():
        while not stop.is_set():
            runs = [f for f in daemon.cgroup.folders("run-")]
            peak[0] = max(peak[0], len(runs))
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    runs = daemon.many(100, "sleep 0.1; echo ok")
    stop.set()
    watcher.join()
    assert all(r.outcome == "COMPLETED" and r.stdout == b"ok\n" for r in runs)
    assert sum(r.accepted.queued for r in runs) >= 80
    assert peak[0] <= 10, f"{peak[0]} cells at once"
    assert wait_until(lambda: (daemon.info().running, daemon.info().waiting) == (0, 0), 2)


def test_full_means_resource_exhausted_with_a_hint(make_daemon):
    """With the waiting list full a call is refused at once, and told when to try again."""
    daemon = make_daemon(config={"server": {"max-executions": 1, "max-waiting": 2}})
    running = daemon.call("sleep 2")
    running.until("started")
    waiting = [daemon.call("echo later") for _ in range(2)]
    for call in waiting:
        assert call.until("accepted").queued
    began = time.monotonic()
    refused = daemon.refused(request("true"))
    assert time.monotonic() - began < seconds(1)
    assert refused.code == CODES.RESOURCE_EXHAUSTED and refused.retry_after > 0, refused
    assert int(refused.trailers["grpc-retry-pushback-ms"]) == pytest.approx(refused.retry_after * 1000, abs=2)
    assert daemon.info().waiting == 2 and daemon.info().running == 1
    for call in waiting:
        assert call.wait().stdout == b"later\n"
        assert to_seconds(call.of("started")[0].queue_time) > 0.5
    running.wait()


def test_waiting_has_a_deadline(make_daemon):
    """Who waits longer than wait-deadline is told so, with a hint; it never ran."""
    daemon = make_daemon(config={"server": {"max-executions": 1, "wait-deadline": "1s"}})
    running = daemon.call("sleep 4")
    running.until("started")
    call = daemon.call("echo never")
    call.until("accepted")
    call._thread.join(seconds(5))
    assert call.refused and call.refused.code == CODES.RESOURCE_EXHAUSTED and call.refused.retry_after > 0, call
    assert 0.9 < call.ended - call.began < 1 + seconds(1)
    with pytest.raises(grpc.RpcError) as caught:
        daemon.stub.Execute(request("echo never"), timeout=seconds(10))
    assert Refused(caught.value).code == CODES.RESOURCE_EXHAUSTED
    running.wait()
    daemon.calls.remove(call)


def test_waiting_is_fair_between_callers(make_daemon):
    """One caller's long line does not keep another waiting behind all of it."""
    daemon = make_daemon(config={"server": {"max-executions": 1, "wait-deadline": "60s"}})
    with Other(daemon, 4711) as other:
        first = daemon.call("sleep 1")
        first.until("started")
        line = [daemon.call("sleep 0.2") for _ in range(10)]
        for call in line:
            call.until("accepted")
        other.send("ExecuteStream", request("echo other"))
        other.answer()
        ended_before = sum(call.ended is not None for call in line)
        assert ended_before <= 3, f"the other caller waited for {ended_before} of 10"
        for call in [first, *line]:
            call.wait()


def test_waiting_ones_can_be_cancelled_and_left(make_daemon):
    """A waiting execution is QUEUED, can be cancelled, and goes when its client goes; it never ran."""
    daemon = make_daemon(config={"server": {"max-executions": 1}})
    running = daemon.call("sleep 3")
    running.until("started")
    cancelled, left = daemon.call("echo never"), daemon.call("echo never")
    for call in (cancelled, left):
        assert call.until("accepted").queued
        assert daemon.get(call.id).state == pb.STATE_QUEUED
    assert daemon.cancel(cancelled.id) == pb.STATE_QUEUED
    cancelled.wait()
    assert daemon.cancel(cancelled.id) == pb.STATE_FINISHED
    assert cancelled.outcome == "CANCELLED" and not cancelled.of("started") and not cancelled.result.HasField("started_at")
    left.leave()
    result = daemon.finished(left.id, 2).result
    assert (result.outcome, result.cancel_reason) == (pb.OUTCOME_CANCELLED, pb.CANCEL_REASON_CLIENT_GONE)
    assert (daemon.info().waiting, daemon.info().running) == (0, 1)
    assert running.wait().outcome == "COMPLETED"


def test_a_caller_has_a_bound_of_its_own(make_daemon):
    """max-executions-per-caller holds back one caller while another still gets in."""
    daemon = make_daemon(config={"server": {"max-executions": 8, "max-executions-per-caller": 1, "wait-deadline": "60s"}})
    first = daemon.call("sleep 100", timeout=200)
    first.until("started")
    second = daemon.call("echo second")
    assert second.until("accepted").queued
    with Other(daemon, 4711) as other:
        assert other.call("Execute", request("echo theirs")).reply.stdout == b"theirs\n"
    assert second.ended is None, "the second of one caller did not wait"
    daemon.cancel(first.id)
    first.wait()
    assert second.wait().stdout == b"second\n"


def test_a_callers_executions_have_a_sum(make_daemon):
    """[caller NAME]: what would break the sum of limits waits for its own; what never fits is refused by field; others are not held back."""
    daemon = make_daemon(config={"server": {"wait-deadline": "60s"}, "limits": {"memory": "512M"},
                                 "caller *": {"memory": "1G", "cpus": "64"}, "caller uid:4711": {"max-processes": 100}})
    first, second = (daemon.call("sleep 100", timeout=200) for _ in range(2))
    for call in (first, second):
        call.until("started")
    third = daemon.call("echo third")
    assert third.until("accepted").queued
    with Other(daemon, 4711) as other:
        refused = other.call("Execute", request("true"))
        assert refused.code == "INVALID_ARGUMENT", refused.message
        assert "limits.max_processes: 128 is above the 100 that the operator allows all executions of uid:4711 together" in refused.message
    assert third.ended is None
    daemon.cancel(first.id)
    first.wait()
    assert third.wait().stdout == b"third\n"
    daemon.cancel(second.id)
    second.wait()


def test_request_bytes_have_one_budget(make_daemon):
    """Requests being held share one budget: past it RESOURCE_EXHAUSTED with a hint, and the server does not grow beyond it."""
    from kit import machine
    daemon = make_daemon(config={"server": {"request-budget": "64M", "max-message": "32M", "max-executions": 1, "max-waiting": 100}})
    before = machine.rss(daemon.server)
    running = daemon.call("sleep 3")
    running.until("started")
    big = {"data": b"x" * (10 << 20)}
    calls = [daemon.call("wc -c < data", files=big) for _ in range(16)]
    for call in calls:
        call.wait(60)
    refused = [c.refused for c in calls if c.refused]
    assert refused and all(r.code == CODES.RESOURCE_EXHAUSTED for r in refused), refused
    assert any(r.retry_after for r in refused)
    assert any(not c.refused for c in calls)
    machine.assert_grown_less(daemon.server, before, (64 << 20) * 3)
    running.wait()
    assert daemon.run("wc -c < data", files=big).stdout.strip() == b"10485760", "the budget did not come back"
