"""Whole jobs, as users of other systems do them every day: the SEED cases. (SEED-12 is in tests/escape, SEED-17 in test_contract.py.)"""
import base64
import json
import re

import pytest

from kit.call import last_printed, to_seconds
from kit.machine import seconds
from kit.png import assert_drawn
from kit.stubs import pb
from test_files import changes, contents


def value_of(run):
    assert run.outcome == "COMPLETED" and run.result.WhichOneof("value") == "value_json", run.result
    return json.loads(run.result.value_json)


NODE = {"python": "class Args:\n    def __init__(self, inputs):\n        self.num = inputs['num']\n\ndef main(args):\n    return args.num * 2\n",
        "javascript": "class Args {\n  constructor(inputs) { this.num = inputs.num; }\n}\n\nfunction main(args) {\n  return args.num * 2;\n}\n"}


@pytest.mark.parametrize("runtime", NODE)
def test_SEED_01_a_code_node(daemon, runtime):
    """The code's own Args takes the inputs, main's value comes back, and nothing is printed."""
    run = daemon.run(NODE[runtime], runtime, inputs_json='{"num": 10}', timeout=5)
    assert value_of(run) == 20 and not run.stdout and not run.stderr


PASSWORD = """import random
import string

def main(args: Args) -> Outputs:
    size, symbol = args.params["len"], args.params["symbol"]
    letters = string.ascii_letters + string.digits + ("!@#$%^&*" if symbol else "")
    password = "".join(random.choice(letters) for _ in range(size))
    return {"res": password}
"""


def test_SEED_02_a_plugin_with_annotations_only(daemon):
    """Args and Outputs need no definition; two runs give two passwords."""
    passwords = set()
    for _ in range(2):
        value = value_of(daemon.run(PASSWORD, "python", inputs_json='{"len": 12, "symbol": true}'))
        assert value.keys() == {"res"} and re.fullmatch(r"[A-Za-z0-9!@#$%^&*]{12}", value["res"]), value
        passwords.add(value["res"])
    assert len(passwords) == 2, "the random numbers of two executions are the same"


def test_SEED_03_the_same_plugin_with_a_wrong_type(daemon):
    """FAILED with Python's own TypeError at the user's line, and no frame but the user's."""
    run = daemon.run(PASSWORD, "python", inputs_json='{"len": "12", "symbol": true}')
    error = run.result.error
    assert run.outcome == "FAILED" and (error.type, error.line) == ("TypeError", 7), run.result
    assert error.message == "'str' object cannot be interpreted as an integer" and error.source_line.strip().startswith("password ="), error
    assert set(re.findall(r'File "([^"]*)"', error.traceback)) == {"main.py"} and run.stderr.decode().strip() == error.traceback.strip(), error.traceback


@pytest.mark.parametrize("runtime, code", [
    ("python", "import asyncio\n\nasync def main(args):\n    await asyncio.sleep(0.1)\n    return args.params['a'] + 1\n"),
    ("javascript", "async function main(args) {\n  await new Promise(done => setTimeout(done, 100));\n  return args.params.a + 1;\n}\n")])
def test_SEED_04_an_async_main(daemon, runtime, code):
    """Its value is what it comes to, not the coroutine or the promise."""
    run = daemon.run(code, runtime, inputs_json='{"a": 1}')
    assert value_of(run) == 2 and to_seconds(run.result.usage.wall) >= 0.1 and not run.stderr


def test_SEED_05_a_code_node_in_JavaScript(daemon):
    """console.log is output, BigInt follows its rule, and neither disturbs the other."""
    code = 'function main(args) { console.log("hi"); return {n: args.params.a + 1, big: 2n} }'
    run = daemon.run(code, "javascript", inputs_json='{"a": 1}')
    assert value_of(run) == {"n": 2, "big": "2n"} and (run.stdout, run.stderr) == (b"hi\n", b"")


@pytest.mark.parametrize("runtime, code", [("python", "x = 1"), ("javascript", "const x = 1;")])
def test_SEED_06_code_without_main(daemon, runtime, code):
    """FAILED at once, with a message that says what to define."""
    run = daemon.run(code, runtime, contract=pb.CONTRACT_MAIN)
    assert run.outcome == "FAILED" and "main(args)" in run.result.error.message and "main" in run.result.message and run.ran < seconds(3), run.result


def test_SEED_07_analysis_of_a_given_table(daemon):
    """variables_json gives a DataFrame; its description is printed and the means are the value."""
    table = {"df": {"type": "pandas.DataFrame", "data": {"A": [1, 2, 3, 4, 5], "B": [10, 20, 30, 40, 50]}}}
    run = daemon.run("print(df.describe())\n_result = df.mean().to_dict()", "python", variables_json=json.dumps(table))
    assert value_of(run) == {"A": 3.0, "B": 30.0} and not run.stderr
    assert [line.split()[0] for line in run.stdout.decode().split("\n")[1:5]] == ["count", "mean", "std", "min"], run.stdout


def test_SEED_08_a_picture(daemon):
    """A sine that is drawn and left alone is one display, a whole PNG; stderr is empty."""
    code = "import matplotlib.pyplot as plt\nimport numpy as np\nx = np.linspace(0, 6.28, 100)\nplt.plot(x, np.sin(x))\nplt.title('sine')"
    run = daemon.run(code, "python")
    picture, = run.of("display")
    assert run.outcome == "COMPLETED" and not run.stderr and not run.stdout and picture.mime_type == "image/png", run
    assert_drawn(picture.data)
    assert not run.result.files and not run.result.HasField("error"), run.result


SALES = b"region,amount\nnorth,10.5\nsouth,20\nnorth,4.5\n"
REPORT = """
import matplotlib.pyplot as plt
import pandas as pd

sales = pd.read_csv("sales.csv")
totals = sales.groupby("region")["amount"].sum()
print(totals.to_string())
with open("report.md", "w") as report:
    report.write("# Sales\\n" + "".join(f"* {region}: {amount}\\n" for region, amount in totals.items()))
totals.plot.bar()
plt.savefig("chart.png")
plt.close()
"""


def test_SEED_09_a_file_is_analysed_and_a_report_comes_back(daemon):
    """A CSV goes in, a report and a chart come back to the byte; the input file is not among the changes."""
    run = daemon.run(REPORT, "python", files={"sales.csv": SALES}, collect=["report.md", "*.png"])
    assert run.outcome == "COMPLETED" and not run.stderr and run.stdout.split() == [b"region", b"north", b"15.0", b"south", b"20.0"], run
    assert changes(run.result) == {"report.md": "ADDED", "chart.png": "ADDED"}, run.result.files
    back = contents(run)
    assert back.keys() == {"report.md", "chart.png"} and back["report.md"] == b"# Sales\n* north: 15.0\n* south: 20.0\n", back.keys()
    assert_drawn(bytes(back["chart.png"]))
    assert {f.path: (f.size_bytes, f.mime_type) for f in run.result.files} == {"report.md": (len(back["report.md"]), "text/markdown"),
                                                                                "chart.png": (len(back["chart.png"]), "image/png")}


def test_SEED_09_the_same_by_hand(client, tmp_path):
    """`glovebox run --file sales.csv --out DIR`: what the program made is on the caller's disk."""
    (tmp_path / "sales.csv").write_bytes(SALES)
    (tmp_path / "report.py").write_text(REPORT + "plt.plot([1, 2, 3])\n")  # and one picture that is left open
    status, out, err = client("run", "--file", "sales.csv", "--out", "results", "report.py", cwd=tmp_path)
    assert status == 0 and out.split() == [b"region", b"north", b"15.0", b"south", b"20.0"], (out, err)
    made = {str(p.relative_to(tmp_path / "results")) for p in (tmp_path / "results").rglob("*") if p.is_file()}
    shown = made - {"report.md", "chart.png"}
    assert len(made) == 3 and len(shown) == 1 and (tmp_path / "results/report.md").read_bytes().startswith(b"# Sales\n* north: 15.0\n"), made
    for name in ("chart.png", *shown):
        assert_drawn((tmp_path / "results" / name).read_bytes())


def test_SEED_10_endless_loop(daemon):
    """An endless loop ends at its timeout, has used the processor, and what it printed before is there."""
    run = daemon.run("print('before')\nwhile True: pass", "python", timeout=2)
    assert run.outcome == "TIMED_OUT" and run.stdout == b"before\n"
    assert 2.0 <= to_seconds(run.result.usage.wall) < 2 + seconds(0.5)
    usage = run.result.usage
    used, wanted = to_seconds(usage.cpu_user) + to_seconds(usage.cpu_system), to_seconds(usage.cpu_stalled)  # what a busy machine did not give
    assert used < 2.5 and used + wanted > 1 and used > 0.1, "cpu time of an endless loop"


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


WHOLE, MISTAKE, CUT = "COMPLETED", "a mistake", "cut off"


@pytest.mark.parametrize("runtime, code, what", [
    ("python", "print('ran')\ndef f(:\n    pass", MISTAKE), ("python", 'print("ran")\nprint("abc', CUT), ("python", "print('ran')\nfor i in range(3):", CUT),
    ("python", "print('ran')\ndef total(rows):\n    return sum(row['amount'] for row in rows", CUT),
    ("python", "```python\nprint('ran')\n```\n", WHOLE), ("python", "```python\nprint('ran')\n", CUT),
    ("javascript", "console.log('ran');\nfunction f(: { }", MISTAKE), ("javascript", "console.log('ran');\nconsole.log(\"abc", CUT),
    ("javascript", "console.log('ran');\nfor (let i = 0; i < 3; i++) {", CUT),
    ("javascript", "console.log('ran');\nfunction total(rows) {\n  return rows.reduce((sum, row) => sum + row.amount", CUT),
    ("javascript", "```js\nconsole.log('ran');\n```\n", WHOLE), ("javascript", "```js\nconsole.log('ran');\n", CUT)])
def test_SEED_15_code_cut_off_by_the_model(daemon, runtime, code, what):
    """Code that does not compile is INVALID_CODE and nothing of it ran; where it was cut off, that is said, and what to do."""
    run = daemon.run(code, runtime)
    if what == WHOLE:
        assert run.outcome == "COMPLETED" and run.stdout == b"ran\n", run
        return
    assert run.outcome == "INVALID_CODE" and not run.stdout and run.result.error.type and run.result.WhichOneof("exit") is None, run
    assert run.result.error.incomplete == (what == CUT) and ("cut off" in run.result.message) == (what == CUT), run.result
    assert "again" in run.result.message + run.result.error.hint or what != CUT, run.result


LISTED = {"python": ("import math, json\nprint(math.sqrt(9))", b"3.0\n", "print('ran')\nimport os", "print('ran')\n__import__('sub' + 'process')", ("os", "subprocess")),
          "javascript": ("const math = require('path');\nconsole.log(math.join('a', 'b'))", b"a/b\n", "console.log('ran');\nconst os = require('os');",
                         "console.log('ran');\nrequire('child' + '_process');", ("os", "child_process"))}


@pytest.mark.parametrize("runtime", LISTED)
def test_SEED_16_only_listed_modules(daemon, runtime):
    """A module that is not listed: nothing runs where the code names it, FAILED where it is reached; an empty list allows none; without a policy any."""
    fine, printed, named, hidden, modules = LISTED[runtime]
    policy = {"import_policy": pb.ImportPolicy(restrict=True, allowed=["math", "json", "path"])}
    good = daemon.run(fine, runtime, **policy)
    assert good.outcome == "COMPLETED" and good.stdout == printed, good
    before = daemon.run(named, runtime, **policy)
    assert before.outcome == "INVALID_CODE" and not before.stdout, before
    reached = daemon.run(hidden, runtime, **policy)
    assert reached.outcome == "FAILED" and reached.stdout == b"ran\n", reached
    for run, module in ((before, modules[0]), (reached, modules[1])):
        error = run.result.error
        assert (error.type, error.line) == ("ImportError", 2) and module in error.message and "math" in error.message and "json" in error.message, error
    none = daemon.run(fine, runtime, import_policy=pb.ImportPolicy(restrict=True))
    assert none.outcome == "INVALID_CODE" and none.result.error.type == "ImportError" and not none.stdout, none
    for code in (named, hidden):
        assert daemon.run(code, runtime).outcome == "COMPLETED"


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


@pytest.mark.parametrize("runtime, code, mend", [
    ("python", "def total(rows):\n    return sum(r['amout'] for r in rows)\n\ntotal([{'amount': 2}, {'amount': 3}])", ("KeyError", 2, "amout", "amount")),
    ("javascript", "const rows = [{amount: 2}, {amount: 3}];\nconst total = rows.reduce((sum, row) => sum + row.amuont.valueOf(), 0);\ntotal;",
     ("TypeError", 2, "amuont", "amount"))])
def test_SEED_20_an_agent_mends_its_code(daemon, runtime, code, mend):
    """From type, message, line and source line alone the next try is made, and it works."""
    kind, line, wrong, right = mend
    first = daemon.run(code, runtime)
    error = first.result.error
    assert first.outcome == "FAILED" and (error.type, error.line) == (kind, line) and (wrong in error.message or wrong in error.source_line), error
    lines = code.split("\n")
    assert lines[error.line - 1].strip() == error.source_line.strip(), error
    lines[error.line - 1] = lines[error.line - 1].replace(wrong, right)
    assert value_of(daemon.run("\n".join(lines), runtime)) == 5


def test_SEED_21_a_chart_handed_back_as_text(daemon):
    """Modules are given as variables; the chart is the value, as base64, and since its figure is closed there is no display."""
    given = {"BytesIO": {"type": "module", "name": "io.BytesIO"}, "base64": {"type": "module", "name": "base64"}}
    code = """
import math
import matplotlib.pyplot as plt

x = [i * 2 * math.pi / 99 for i in range(100)]
plt.plot(x, [math.sin(v) for v in x])
buffer = BytesIO()
plt.savefig(buffer, format="png")
plt.close()
_result = base64.b64encode(buffer.getvalue()).decode()
"""
    run = daemon.run(code, "python", variables_json=json.dumps(given))
    assert_drawn(base64.b64decode(value_of(run), validate=True))
    assert not run.of("display") and not run.stderr
    assert to_seconds(run.result.usage.wall) > 0 and run.result.usage.memory_peak_bytes > 16 << 20


@pytest.mark.parametrize("runtime, code", [("python", "def main(args): return 1"), ("javascript", "function main(args) { return 1 }")])
def test_SEED_22_a_main_that_is_not_called(daemon, runtime, code):
    """With inputs, even empty ones, main is called; without them it is not, and the message says so and how to ask for it."""
    assert value_of(daemon.run(code, runtime, inputs_json="{}")) == 1
    run = daemon.run(code, runtime)
    assert run.outcome == "COMPLETED" and run.result.WhichOneof("value") is None, run.result
    assert "main" in run.result.message and "inputs_json" in run.result.message and "MAIN" in run.result.message, run.result.message


@pytest.mark.parametrize("runtime, code, hint", [
    ("python", "1 + 1\n{}['key']", ""), ("python", "import requests_that_are_not_there", "requests_that_are_not_there"),
    ("python", "import urllib.request\nurllib.request.urlopen('http://example.com/', timeout=9)", "network"),
    ("python", "x = bytearray(1 << 50)", "memory"),
    ("javascript", "null.f()", ""), ("javascript", "require('lodash-that-is-not-there')", "lodash-that-is-not-there"),
    ("javascript", "fetch('http://example.com/').then(r => console.log(r.status))", "network")])
def test_SEED_23_the_agent_mends_itself(daemon, runtime, code, hint):
    """An uncaught error is in the result and on stderr, with the user's frames only; where the cause is certain, one sentence says what helps."""
    run = daemon.run(code, runtime, contract=pb.CONTRACT_RESULT)
    error = run.result.error
    assert run.outcome == "FAILED" and run.result.exit_code == 1 and run.result.WhichOneof("value") is None, run.result
    assert error.traceback.strip() in run.stderr.decode() and "glovebox/" not in run.stderr.decode(), (error, run.stderr)
    assert hint in error.hint if hint else not error.hint, error
    assert not hint or (error.hint.endswith(".") and len(error.hint) < 300), error.hint


def test_SEED_23_time_has_a_hint(daemon):
    """A timeout says how much it was, and which field asks for more."""
    run = daemon.run("while True: pass", "python", timeout=0.5)
    assert run.outcome == "TIMED_OUT" and "500 ms (limits.timeout)" in run.result.message, run.result.message


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
