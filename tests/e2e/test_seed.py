"""Whole jobs, as users of other systems do them every day: the SEED cases of this issue."""
import pytest

from kit.call import last_printed, to_seconds
from kit.machine import seconds
from kit.stubs import pb


def test_SEED_10_endless_loop(daemon):
    """An endless loop ends at its timeout, has used the processor, and what it printed before is there."""
    run = daemon.run("print('before')\nwhile True: pass", "python", timeout=2)
    assert run.outcome == "TIMED_OUT" and run.stdout == b"before\n"
    assert 2.0 <= to_seconds(run.result.usage.wall) < 2 + seconds(0.5)
    used = to_seconds(run.result.usage.cpu_user) + to_seconds(run.result.usage.cpu_system)
    assert 0.5 < used < 2.5, "cpu time of an endless loop"


@pytest.mark.parametrize("runtime, code", [
    ("python", "import os\nprint('up', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
    ("javascript", "const { spawn } = require('child_process')\nconsole.log('up')\n"
                   "function f() { for (let i = 0; i < 9; i++) spawn(process.execPath, [__filename]).on('error', () => {}); setTimeout(f, 50) }\nf()"),
    ("bash", "echo up; f() { f | f & }; f; while :; do f; done"),
], ids=["python", "javascript", "bash"])
def test_SEED_11_fork_bomb(daemon, runtime, code):
    """A bomb in each language ends by its limit; meanwhile and afterwards others run, and nothing of it is left."""
    bomb = daemon.call(code, runtime, timeout=4)
    bomb.until_output(b"up\n")
    for _ in range(3):
        other = daemon.run("echo fine", timeout=20)
        assert other.outcome == "COMPLETED" and other.stdout == b"fine\n" and other.took < seconds(5), other
    bomb.wait(30)
    # a shell gives up by itself when it cannot fork any more
    assert bomb.outcome == "TIMED_OUT" or (runtime == "bash" and bomb.outcome == "FAILED"), bomb
    assert daemon.run("print(1)", "python").stdout == b"1\n"


@pytest.mark.parametrize("runtime, code, expect", [
    ("python", "input()", ("FAILED", b"", b"EOFError")),
    ("javascript", "process.stdin.on('data', d => console.log('data')).on('end', () => console.log('end'))", ("COMPLETED", b"end\n", b"")),
    ("bash", "read x; echo \"$? <$x>\"", ("COMPLETED", b"1 <>\n", b"")),
])
def test_SEED_13_waits_for_input(daemon, runtime, code, expect):
    """With no stdin given, reading it is the end of it at once, in every language."""
    run = daemon.run(code, runtime)
    outcome, stdout, stderr = expect
    assert run.outcome == outcome and run.stdout == stdout and stderr in run.stderr and run.took < seconds(2)


def test_SEED_14_silent_but_busy(daemon):
    """(a) 15 s of computing without output under idle 3 s runs on, and heartbeats show the cpu time."""
    code = "import time\nend = time.time() + 15\nwhile time.time() < end: pass\nprint('computed')"
    run = daemon.run(code, "python", idle_timeout=3, heartbeat_interval=1)
    assert run.outcome == "COMPLETED" and run.stdout == b"computed\n"
    cpu = [to_seconds(b.cpu_time) for b in run.of("heartbeat")]
    assert len(cpu) >= 10 and cpu[-1] > cpu[0] + 2


def test_SEED_14_silent_and_stuck(daemon):
    """(b) sleeping under idle 3 s ends at about 3 s, and the message says that it was sleeping."""
    run = daemon.run("import time\ntime.sleep(60)", "python", idle_timeout=3)
    assert run.outcome == "IDLE_TIMED_OUT" and "sleeping" in run.result.message
    assert 3 <= run.ran + 0.05 and run.ran < 3 + seconds(1)


def test_SEED_14_prints_now_and_then(daemon):
    """(c) printing every 2 s under idle 3 s runs on."""
    run = daemon.run("for i in 1 2 3; do echo $i; sleep 2; done", idle_timeout=3)
    assert run.outcome == "COMPLETED" and run.stdout == b"1\n2\n3\n"


def test_SEED_18_shell_one_liner_and_script(daemon):
    """Pipes, exact exit codes, both streams apart."""
    line = daemon.run("printf 'b\\na\\nc\\n' | sort | head -2 | tr '\\n' ' '; echo oops >&2; exit 42")
    assert (line.result.exit_code, line.stdout, line.stderr) == (42, b"a b ", b"oops\n")
    script = daemon.run("set -euo pipefail\nsum=0\nfor i in $(seq 1 10); do sum=$((sum + i)); done\necho $sum\nfalse | true\necho never")
    assert script.stdout == b"55\n" and script.outcome == "FAILED" and script.result.exit_code == 1


def test_SEED_19_rm_rf(daemon):
    """rm -rf / destroys nothing but its own workspace; the next execution is fresh."""
    run = daemon.run("echo mine > /workspace/f; echo t > /tmp/t; rm -rf --no-preserve-root / 2>/dev/null; echo survived")
    assert run.stdout.endswith(b"survived\n")
    fresh = daemon.run("ls -A /workspace | grep -v '^main.sh$'; ls -A /tmp; ls /usr/bin | wc -l; python3 -c 'print(1)'")
    lines = fresh.stdout.decode().split()
    assert len(lines) == 2 and int(lines[0]) > 50 and lines[1] == "1", fresh


def test_SEED_24_slow_or_stuck(daemon):
    """Two endless programs at 3 s: the messages tell the one that prints from the one that is stuck."""
    slow = daemon.call("while :; do echo tick; sleep 1; done", timeout=3.5)
    stuck = daemon.call("echo once; while :; do sleep 1; done", timeout=3.5)
    slow.wait(), stuck.wait()
    assert slow.outcome == stuck.outcome == "TIMED_OUT"
    ago = [last_printed(r.result) for r in (slow, stuck)]
    assert ago[0] < 1.5 and ago[1] > 2.5, (slow.result.message, stuck.result.message)


IDLE_RULE = {"profile platform": {"timeout": "30s", "idle-timeout": "10s", "idle-grace": "15s", "idle-evidence": "output"},
             "profile evidence": {"timeout": "30s", "idle-timeout": "10s", "idle-grace": "15s"}}


@pytest.mark.limit(120)
def test_SEED_25_idle_rule_of_an_agent_platform(make_daemon):
    """10 s of silence, output alone, once half of 30 s is over: IDLE_TIMED_OUT at 15 s; by the default evidence TIMED_OUT at 30 s."""
    daemon = make_daemon(config=IDLE_RULE)
    code = "import time\nprint('start')\nend = time.time() + 40\nwhile time.time() < end: pass"
    output = daemon.call(code, "python", profile="platform")
    default = daemon.call(code, "python", profile="evidence")
    output.wait(60), default.wait(60)
    assert output.outcome == "IDLE_TIMED_OUT" and 15 <= output.ran + 0.05 and output.ran < 15 + seconds(1)
    assert default.outcome == "TIMED_OUT" and 30 <= default.ran + 0.05 and default.ran < 30 + seconds(1)
    assert output.accepted.idle.evidence == pb.EVIDENCE_OUTPUT
