"""Streaming: the STR cases. Every byte, in order, at once, and with bounded memory."""
import time

import pytest

from kit import machine
from kit.machine import repeats, seconds
from kit.stubs import pb


def test_STR_01_tail_of_output_is_never_lost(daemon):
    """The last bytes before exit always arrive, with the exit code: 200 of 200."""
    for _ in range(repeats(200)):
        run = daemon.run("head -c 300000 /dev/zero | tr '\\0' a; exit 3")
        assert run.stdout == b"a" * 300000 and run.outcome == "FAILED" and run.result.exit_code == 3


def test_STR_03_background_child_holds_the_pipe(daemon):
    """A background child that keeps the pipe open delays nothing."""
    run = daemon.run("sleep 300 &\necho hi", timeout=30)
    assert run.outcome == "COMPLETED" and run.result.exit_code == 0 and run.stdout == b"hi\n"
    assert run.ran < seconds(1)
    daemon.assert_no_run()


def test_STR_05_characters_cut_between_chunks(daemon):
    """Bytes, not text: half a character is delivered as it is, when it is written."""
    run = daemon.run("import os, time\nb = '\\u2615'.encode()\nos.write(1,b[:1]); time.sleep(.3); os.write(1,b[1:])", "python")
    assert run.stdout == b"\xe2\x98\x95" and len(run.of("output")) == 2
    long = daemon.run("print('\\u2615' * 100000, end='')", "python")
    assert long.stdout == "\u2615".encode() * 100000


def test_STR_06_bytes_that_are_not_text(daemon):
    """NUL and invalid UTF-8 come back unchanged, by both methods."""
    code = 'import os; os.write(1, b"\\xff\\xfe\\x00ok"); os.write(2, b"\\xc3(")'
    run = daemon.run(code, "python")
    assert run.outcome == "COMPLETED" and run.stdout == b"\xff\xfe\x00ok" and run.stderr == b"\xc3("
    from kit.call import request
    reply = daemon.stub.Execute(request(code, "python"), timeout=seconds(20))
    assert (reply.stdout, reply.stderr) == (b"\xff\xfe\x00ok", b"\xc3(")


def test_STR_08_last_line_without_newline(daemon):
    """No newline is added, and the bytes come before the result."""
    assert daemon.run("printf abc").stdout == b"abc"


def test_STR_09_empty_lines(daemon):
    """Empty lines stay."""
    assert daemon.run(r"printf 'a\n\nb\n\n\nc\n'").stdout == b"a\n\nb\n\n\nc\n"


def test_STR_11_one_very_long_line(daemon):
    """Five million characters without a newline: in order, in chunks, streaming before the line ends, memory flat."""
    daemon.run('print("a"*5_000_000)', "python")
    before = machine.rss(daemon.server)
    run = daemon.run('import sys, time\nsys.stdout.write("a"*2_500_000); sys.stdout.flush(); time.sleep(0.5)\nprint("a"*2_500_000)', "python")
    assert run.stdout == b"a" * 5_000_000 + b"\n"
    outputs = run.arrival("output")
    assert outputs[-1] - outputs[0] > 0.4, "the first chunk waited for the end of the line"
    machine.assert_grown_less(daemon.server, before, 8 << 20)


def test_STR_12_both_pipes_are_read(daemon):
    """A megabyte on each stream, one after the other: no dead-lock."""
    run = daemon.run('import sys\nsys.stderr.write("e"*1_000_000); sys.stderr.flush()\nsys.stdout.write("o"*1_000_000)', "python")
    assert run.outcome == "COMPLETED" and run.ran < seconds(2)
    assert run.stdout == b"o" * 1_000_000 and run.stderr == b"e" * 1_000_000


@pytest.mark.parametrize("runtime, code", [
    ("python", "import time\nfor i in range(5): print(i); time.sleep(1)"),
    ("javascript", "let i = 0; const t = setInterval(() => { console.log(i++); if (i == 5) { clearInterval(t); setTimeout(() => 0, 1000) } }, 1000)"),
    ("bash", "for i in 0 1 2 3 4; do echo $i; sleep 1; done"),
])
def test_STR_13_output_is_live(daemon, runtime, code):
    """Five prints a second apart arrive a second apart, each soon after it was printed."""
    run = daemon.run(code, runtime)
    assert run.stdout == b"".join(b"%d\n" % i for i in range(5))
    # Python writes a number and its newline apart, so a print may come in two messages: take the first of each
    times = [t for o, t in zip(run.of("output"), run.arrival("output")) if o.data[:1].isdigit()]
    assert len(times) == 5
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert all(0.5 < gap < 1.5 + seconds(0.2) for gap in gaps), gaps
    if runtime != "javascript":
        assert times[0] - run.arrival("started")[0] < seconds(0.5)
    assert run.arrival("result")[0] - times[-1] > 0.5, "the last print waited for the end"


def test_STR_14_endless_output_to_a_slow_client(daemon):
    """`yes` with a cap and a slow client: exactly the cap, memory flat, `yes` dead."""
    before = machine.rss(daemon.server)
    run = daemon.run("yes", output_bytes=1 << 20, pause=0.01)
    assert run.outcome == "OUTPUT_LIMIT_EXCEEDED" and len(run.stdout) == 1 << 20
    machine.assert_grown_less(daemon.server, before, 8 << 20)
    daemon.assert_no_run()
    fast = daemon.run("yes", output_bytes=1 << 20)
    assert fast.ran < seconds(2) and len(fast.stdout) == 1 << 20


def test_STR_15_no_stdin_is_end_of_file(daemon):
    """Without stdin code reads end of file at once; with stdin nobody reads, the program ends normally."""
    run = daemon.run('input("name? ")', "python")
    assert run.outcome == "FAILED" and run.result.exit_code == 1
    assert run.stdout == b"name? " and b"EOFError" in run.stderr and run.took < seconds(1.5)
    node = daemon.run("console.log(JSON.stringify(require('fs').readFileSync(0, 'utf8')))", "javascript")
    assert node.stdout == b'""\n'
    assert daemon.run("exit 0", stdin=b"x" * (1 << 20)).outcome == "COMPLETED"


@pytest.mark.parametrize("env", [{}, {"LANG": "C"}, {"LANG": "C", "LC_ALL": "C"}])
def test_STR_16_non_ascii_without_a_locale(daemon, env):
    """Printing non-ASCII works whatever the locale variables say."""
    run = daemon.run('print("\\u00e9\\u6f22")', "python", env=env)
    assert run.outcome == "COMPLETED" and run.stdout == b"\xc3\xa9\xe6\xbc\xa2\n"


def test_STR_18_order_of_the_two_streams(daemon):
    """Order inside each stream is exact, seq rises over both, no byte on the wrong stream."""
    run = daemon.run("import sys\nfor i in range(50):\n    print(i, flush=True); print(i, file=sys.stderr, flush=True)", "python")
    expected = b"".join(b"%d\n" % i for i in range(50))
    assert run.stdout == expected and run.stderr == expected


def test_STR_19_node_exit_loses_nothing(daemon):
    """process.exit() right after a megabyte: every byte arrives."""
    run = daemon.run('process.stdout.write("a".repeat(1<<20)); process.exit(0)', "javascript")
    assert run.outcome == "COMPLETED" and run.stdout == b"a" * (1 << 20)
    err = daemon.run('process.stderr.write("e".repeat(1<<20)); process.exit(3)', "javascript")
    assert err.result.exit_code == 3 and err.stderr == b"e" * (1 << 20)


def test_small_writes_are_gathered_not_delayed(daemon):
    """A thousand tiny writes make few messages; a single one does not wait noticeably."""
    run = daemon.run("import os\nfor i in range(1000): os.write(1, b'x')", "python")
    assert run.stdout == b"x" * 1000 and len(run.of("output")) < 300


def test_chunks_are_at_most_64_KiB_and_mostly_full(daemon):
    """Fast output comes in large chunks."""
    run = daemon.run("head -c 6500000 /dev/zero")
    sizes = [len(o.data) for o in run.of("output")]
    assert sum(sizes) == 6_500_000 and max(sizes) <= 65536


def test_output_while_both_streams_race(daemon):
    """Two writers at full speed on two streams: totals and per-stream order hold."""
    code = ("import os, threading\n"
            "def w(fd):\n    for i in range(20000): os.write(fd, b'%07d\\n' % i)\n"
            "t = threading.Thread(target=w, args=(2,)); t.start(); w(1); t.join()\n")
    run = daemon.run(code, "python")
    expected = b"".join(b"%07d\n" % i for i in range(20000))
    assert run.stdout == expected and run.stderr == expected


def test_back_pressure_reaches_the_program(daemon):
    """A reader that stops holds the program back; nothing is lost once it goes on."""
    import threading
    gate = threading.Event()
    run = daemon.call("import os, sys, time\nfor i in range(1200):\n    os.write(1, b'%01023d\\n' % i * 64)\nos.write(2, b'finished')\n",
                      "python", hold=gate, output_bytes=1 << 30)
    run.until("output")
    time.sleep(seconds(2))
    assert not run.of("result")
    stopped_at = daemon.get(run.id).stdout_bytes
    assert stopped_at < 1200 * 65536, "the program was not held back"
    time.sleep(0.5)
    assert daemon.get(run.id).stdout_bytes == stopped_at, "bytes are still taken though nobody reads"
    gate.set()
    run.wait(120)
    assert run.outcome == "COMPLETED" and len(run.stdout) == 1200 * 65536 and run.stderr == b"finished"
