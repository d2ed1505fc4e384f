"""Calls as a test wants them: one request, its events with the time each arrived, and what ended it."""
import re
import threading
import time

import grpc
from google.protobuf import duration_pb2

from .machine import seconds
from .stubs import details, pb

CODES = grpc.StatusCode
LIMIT_FIELDS = {f.name for f in pb.Limits.DESCRIPTOR.fields}
TIME_FIELDS = {"timeout", "cpu_time"}


def duration(value):
    """Seconds as a Duration, exact to the microsecond."""
    nanos = round(value * 1_000_000) * 1000
    sign = -1 if nanos < 0 else 1
    return duration_pb2.Duration(seconds=sign * (abs(nanos) // 10**9), nanos=sign * (abs(nanos) % 10**9))


def to_seconds(d):
    return d.seconds + d.nanos / 1e9


def last_printed(result):
    """How many seconds before the end the code last printed, as the message of a timeout says it."""
    found = re.search(r"last printed ([\d.]+) (ms|s) before", result.message)
    assert found, result.message
    return float(found.group(1)) / (1000 if found.group(2) == "ms" else 1)


def request(code="", runtime="bash", **fields):
    """An ExecuteRequest. Names of limits may be given flat (timeout=2); times are numbers of seconds; idle, idle_grace, idle_evidence."""
    r = pb.ExecuteRequest(code=code, runtime=runtime)
    for name, value in fields.items():
        if name in LIMIT_FIELDS:
            if name in TIME_FIELDS:
                getattr(r.limits, name).CopyFrom(duration(value))
            else:
                setattr(r.limits, name, value)
        elif name == "idle_timeout":
            r.idle.timeout.CopyFrom(duration(value))
        elif name == "idle_grace":
            r.idle.grace.CopyFrom(duration(value))
        elif name == "idle_evidence":
            r.idle.evidence = value
        elif name == "heartbeat_interval":
            r.heartbeat_interval.CopyFrom(duration(value))
        elif name in ("env", "labels"):
            getattr(r, name).update(value)
        elif name == "files":
            for path, content in value.items():
                executable = isinstance(content, tuple)
                r.files.add(path=path, content=content[0] if executable else content, executable=executable)
        elif isinstance(value, (list, tuple)):
            getattr(r, name).extend(value)
        elif hasattr(value, "DESCRIPTOR"):
            getattr(r, name).CopyFrom(value)
        else:
            setattr(r, name, value)
    return r


class Refused:
    """A gRPC error and what its details say."""

    def __init__(self, error):
        self.code = error.code()
        self.message = error.details() or ""
        self.trailers = {k: v for k, v in (error.trailing_metadata() or ())}
        self.fields, self.retry_after, self.resource = {}, None, None
        packed = self.trailers.get("grpc-status-details-bin")
        self.status = details.Status.FromString(packed) if packed else None
        for any_ in self.status.details if self.status else ():
            self._take(any_)

    def _take(self, any_):
        bad, retry, resource = details.BadRequest(), details.RetryInfo(), details.ResourceInfo()
        if any_.Unpack(bad):
            self.fields.update({v.field: v.description for v in bad.field_violations})
        elif any_.Unpack(retry):
            self.retry_after = to_seconds(retry.retry_delay)
        elif any_.Unpack(resource):
            self.resource = resource.resource_name

    def __repr__(self):
        return f"<refused {self.code.name}: {self.message!r} fields={self.fields} retry={self.retry_after} resource={self.resource}>"


class Call:
    """One ExecuteStream, read by a thread of its own. `pause` seconds between two messages make it a slow reader; with the event `hold`
    it reads nothing after the first output until that is set."""

    def __init__(self, stub, req, pause=0.0, call_deadline=None, hold=None, keep_output=True):
        self.request = req
        self.events, self.arrivals = [], []
        self.refused = None
        self.pause, self.hold, self.keep_output = pause, hold, keep_output
        self.sizes = []
        self.counted = {pb.STREAM_STDOUT: 0, pb.STREAM_STDERR: 0}
        self.began = time.monotonic()
        self.ended = None
        self._news = threading.Condition()
        self._rpc = stub.ExecuteStream(req, timeout=call_deadline)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for event in self._rpc:
                self._take(event)
                if self.hold is not None and event.WhichOneof("event") == "output":
                    self.hold.wait()
                if self.pause:
                    time.sleep(self.pause)
        except grpc.RpcError as error:
            self.refused = Refused(error)
        finally:
            with self._news:
                self.ended = time.monotonic()
                self._news.notify_all()

    def _take(self, event):
        with self._news:
            if event.WhichOneof("event") == "output":
                self.counted[event.output.stream] += len(event.output.data)
            self.sizes.append(event.ByteSize())
            if self.keep_output or event.WhichOneof("event") != "output":
                self.events.append(event)
                self.arrivals.append(time.monotonic())
            self._news.notify_all()

    # waiting

    def wait(self, deadline=60.0):
        """Until the call is over; then itself, checked."""
        with self._news:
            assert self._news.wait_for(lambda: self.ended, seconds(deadline)), f"no end of the call within {deadline} s: {self!r}"
        if self.keep_output:
            self.check()
        return self

    def until(self, kind, deadline=10.0, condition=lambda event: True):
        """The first event of that kind (and that fulfils the condition)."""
        def find():
            return next((e for e in self.events if e.WhichOneof("event") == kind and condition(getattr(e, kind))), None)
        with self._news:
            self._news.wait_for(lambda: find() or self.ended, seconds(deadline))
            found = find()
        assert found is not None, f"no {kind} within {deadline} s: {self!r}"
        return getattr(found, kind)

    def until_output(self, text, deadline=10.0):
        with self._news:
            self._news.wait_for(lambda: text in self.stdout or self.ended, seconds(deadline))
        assert text in self.stdout, f"{text!r} was not printed within {deadline} s: {self!r}"

    def leave(self):
        """The client goes away."""
        self._rpc.cancel()

    # what came

    def of(self, kind):
        return [getattr(e, kind) for e in self.events if e.WhichOneof("event") == kind]

    def arrival(self, kind):
        """When the events of this kind arrived."""
        return [t for e, t in zip(self.events, self.arrivals) if e.WhichOneof("event") == kind]

    def _bytes(self, stream):
        return b"".join(o.data for o in self.of("output") if o.stream == stream)

    @property
    def stdout(self):
        return self._bytes(pb.STREAM_STDOUT)

    @property
    def stderr(self):
        return self._bytes(pb.STREAM_STDERR)

    @property
    def accepted(self):
        return self.of("accepted")[0]

    @property
    def id(self):
        return self.accepted.execution_id

    @property
    def result(self):
        results = self.of("result")
        assert len(results) == 1, f"{len(results)} results: {self!r}"
        return results[0]

    @property
    def outcome(self):
        return pb.Outcome.Name(self.result.outcome).removeprefix("OUTCOME_")

    @property
    def took(self):
        """Seconds from the call to the result's arrival."""
        return self.arrival("result")[0] - self.began

    @property
    def ran(self):
        """Seconds between the arrivals of `started` and of the result."""
        return self.arrival("result")[0] - self.arrival("started")[0]

    def check(self):
        """What holds for every stream."""
        assert all(size <= 1 << 20 for size in self.sizes), "a message above 1 MiB"
        if self.refused:
            assert not self.of("result"), f"a result and an error: {self!r}"
            return
        assert self.events, "the call ended well without any event"
        kinds = [e.WhichOneof("event") for e in self.events]
        assert None not in kinds, "an event without content"
        assert kinds[0] == "accepted" and kinds.count("accepted") == 1, kinds[:5]
        assert kinds[-1] == "result" and kinds.count("result") == 1, kinds[-5:]
        assert kinds.count("started") <= 1 and "gap" not in kinds
        if "output" in kinds or "heartbeat" in kinds:
            assert "started" in kinds
        assert [e.seq for e in self.events] == list(range(1, len(self.events) + 1)), "holes in seq"
        elapsed = [to_seconds(e.elapsed) for e in self.events]
        assert elapsed == sorted(elapsed) and elapsed[0] >= 0, elapsed
        self._check_offsets()
        self._check_result()

    def _check_offsets(self):
        have = {pb.STREAM_STDOUT: 0, pb.STREAM_STDERR: 0}
        for output in self.of("output"):
            assert 0 < len(output.data) <= 65536
            assert output.offset == have[output.stream], "bytes missing or twice"
            have[output.stream] += len(output.data)
        if not self.request.merge_streams:
            usage = self.result.usage
            assert have[pb.STREAM_STDERR] <= usage.stderr_bytes
        assert have[pb.STREAM_STDOUT] <= self.result.usage.stdout_bytes

    def _check_result(self):
        r = self.result
        assert r.execution_id == self.id and r.request_id == self.request.request_id
        assert r.outcome != pb.OUTCOME_UNSPECIFIED
        ended_by_itself = r.outcome in (pb.OUTCOME_COMPLETED, pb.OUTCOME_FAILED, pb.OUTCOME_SIGNALED)
        want = {pb.OUTCOME_COMPLETED: "exit_code", pb.OUTCOME_FAILED: "exit_code", pb.OUTCOME_SIGNALED: "signal"}
        if ended_by_itself:
            assert r.WhichOneof("exit") == want[r.outcome]
            assert (r.exit_code == 0) == (r.outcome != pb.OUTCOME_FAILED)
        assert (r.cancel_reason != 0) == (r.outcome == pb.OUTCOME_CANCELLED)
        assert r.message or r.outcome == pb.OUTCOME_COMPLETED, "an end without a sentence for a person"
        assert len(r.code_sha256) == 64
        assert r.accepted_at.seconds > 0 and r.finished_at.seconds > 0

    def __repr__(self):
        if self.refused:
            return repr(self.refused)
        kinds = [e.WhichOneof("event") for e in self.events]
        results = self.of("result")
        tail = f" {pb.Outcome.Name(results[0].outcome)} {results[0].message!r}" if results else ""
        return f"<call {len(kinds)} events {kinds[:6]}…{tail} stdout={self.stdout[:200]!r} stderr={self.stderr[:600]!r}>"
