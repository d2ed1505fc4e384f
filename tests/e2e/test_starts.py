"""How executions start: what is told of it, and the first moments of a daemon."""
from kit.call import request
from kit.machine import seconds, wait_until
from kit.stubs import pb

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
