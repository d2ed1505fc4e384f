"""A Python that waited for its job is like one that was started for it: what it sees, what it may do, how it ends; and no two are alike in what must be
random. What differs is told in docs/python.md."""
import json
import os
import pathlib
import re

import pytest

from kit.daemon import BUILD
from kit.machine import wait_until
from kit.stubs import pb

FACTS = (pathlib.Path(__file__).parent / "kit/python_facts.py").read_text()
POOL = {"preload": None, "pool-min": 2, "pool-max": 4, "zygote": "yes", "env-at-start": "PYTHON*"}
WAYS = {"WARM": {**POOL, "warm": "yes"}, "READY": {**POOL, "warm": "no"}}
FRESH = {"PYTHONDONTWRITEBYTECODE": "1"}  # it is set anyway: all that this changes is that no interpreter can have waited
IS_FORKED = "--zygote"

# After "main" is printed; each ends another way.
ENDING = """
import atexit, os, sys, threading, time, weakref
class Told:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("del", self.name, os is None, sys.path is None)
_private = Told("private")
public = Told("public")
cycle = Told("cycle")
cycle.itself = cycle
garbage = Told("garbage")
garbage.itself = garbage
del garbage
file = open("/workspace/out.txt", "w")
file.write("never closed")
atexit.register(print, "atexit 1")
atexit.register(lambda: 1 / 0)
weakref.finalize(public, print, "finalize")
threading.Thread(target=lambda: (threading.main_thread().join(), print("thread", public.name))).start()
import helper
def function(): return public
helper.keep = function
sys.stdout.reconfigure(line_buffering=False, write_through=False)
print("main")
"""
ENDS = ["", "sys.exit(3)", "sys.exit('said')", "sys.exit(-1)", "sys.exit(1 << 70)", "raise SystemExit(SystemExit)", "1 / 0", "raise KeyboardInterrupt", "os._exit(4)",
        "class Own(SystemExit): pass\nraise Own(5)", "os.abort()", "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "sys.modules['x'] = 5; sys.modules['os'] = None", "del sys.modules['sys'], sys.modules['builtins']", "del sys.stdout", "del sys.stderr", "del sys.modules",
        "sys.modules = 5", "sys.modules['threading'] = None",
        "import ctypes; ctypes.CDLL(None).printf(b'held back')", "sys.excepthook = lambda *_: print('hook')\n1 / 0",
        "atexit.register(lambda: sys.exit(9))", "atexit.register(lambda: os._exit(8))", "helper.h = public; sys.modules['helper'] = helper.h"]
HELPER = b"class Told:\n    def __del__(self):\n        print('del in helper', Told is None)\nh = Told()\n"

DRAWN = """
import multiprocessing, random, ssl, tempfile, uuid
import numpy
print([random.random(), random.SystemRandom().random(), numpy.random.rand(), numpy.random.default_rng().random(), str(uuid.uuid4()), str(uuid.uuid1()), uuid.getnode(),
       tempfile.mktemp(), ssl.RAND_bytes(8), bytes(multiprocessing.current_process().authkey)])
"""


def started(call):
    return pb.Start.Name(call.of("started")[0].start).removeprefix("START_")


@pytest.fixture
def pool(make_daemon):
    """A daemon whose cells are there to stay."""
    def make(**keys):
        daemon = make_daemon(start=False, config={"spawner": {"pool": "yes"}}, runtimes={"python": keys})
        daemon.take_baseline = lambda: None
        daemon.verify = lambda killed: None
        return daemon.start()
    return make


def run_forked(daemon, way, code, **fields):
    """What a fork of the zygote makes of it. Those of before the zygote was there, and of a moment when none waited, do not count."""
    seen = []

    def again():
        call = daemon.run("print(open('/proc/self/cmdline').read())", "python")
        if IS_FORKED.encode() in call.stdout and started(call) == way:
            seen.append(daemon.run(code, "python", **fields))
            return started(seen[-1]) == way
        return False
    assert wait_until(again, 30), f"none was forked and {way}: {seen}; the daemon said:\n{daemon.log}"
    return seen[-1]


def run_fresh(daemon, code, env=None, **fields):
    call = daemon.run(code, "python", env={**(env or {}), **FRESH}, **fields)
    assert call.of("started") and started(call) != "WARM"
    return call


@pytest.mark.parametrize("way", WAYS)
def test_what_a_program_sees(pool, way):
    daemon = pool(**WAYS[way])
    how = {"stdin": b"input\n", "args": ["a", "b c", "ü"], "timezone": "Asia/Tokyo", "files": {"data/x.txt": b"x"}}
    calls = [run_forked(daemon, way, FACTS, env={"OWN": "x=y z"}, **how), run_fresh(daemon, FACTS, env={"OWN": "x=y z"}, **how)]
    for call in calls:
        assert (call.outcome, call.stderr) == ("COMPLETED", b"through /dev/stderr\n")
    forked, fresh = (json.loads(call.stdout) for call in calls)
    # The whole order of the environment is the same, but for what asked for a fresh start, which was there before.
    assert IS_FORKED in forked.pop("cmdline") and IS_FORKED not in fresh.pop("cmdline")
    for name in fresh["facts"]:
        assert forked["facts"][name] == fresh["facts"][name], name
    assert forked == fresh
    assert forked["facts"]["words"][0] == ["/workspace/main.py", "a", "b c", "ü"] and ["OWN", "x=y z"] in forked["facts"]["environment"][0]
    assert forked["facts"]["clock"][1] == 9
    assert forked["facts"]["priority"][:3] == [os.getpriority(os.PRIO_PROCESS, 0), 0, 0]  # what the daemon was given is nobody's to take back


def test_how_it_ends(pool):
    daemon = pool(**WAYS["WARM"])

    def told(call):
        # Without source lines: a fork has them to the last.
        lines = [line for line in call.stderr.decode().splitlines() if not line.startswith("    ")]
        # In which order one collection of garbage takes its objects follows from when there were others.
        printed = sorted(call.stdout.splitlines(), key=lambda line: line if line.startswith(b"del") else b"")
        return (call.outcome, call.result.exit_code, call.result.signal, printed, re.sub("0x[0-9a-f]+", "0x", "\n".join(lines)), call.result.message,
                [file.path for file in call.result.files], call.result.error.type)
    for end in ENDS:
        how = {"files": {"helper.py": HELPER}, "collect": ["out.txt"]}
        forked, fresh = run_forked(daemon, "WARM", ENDING + end, **how), run_fresh(daemon, ENDING + end, **how)
        assert told(forked) == told(fresh), end
        if end == "":
            assert forked.stdout.split(b"\n")[:3] == [b"main", b"thread public", b"finalize"] and b"del cycle False True\n" in forked.stdout
            assert b"ZeroDivisionError" in forked.stderr, "of atexit"


# Each hangs from something that outlives the code, and the open file hangs from it, or from the code's names, which it keeps.
HOLDERS = [
    "import signal; signal.signal(signal.SIGALRM, hold)", "import sys; sys.excepthook = hold", "import threading; threading.excepthook = hold",
    "import warnings; warnings.showwarning = hold", "import logging; logging.getLogger().addFilter(hold)", "import codecs; codecs.register(hold)",
    "import json; json.JSONEncoder.default = hold", "import random; random.hold = hold", "import builtins; builtins.hold = hold",
    "import gc; gc.callbacks.append(hold)",
    "import sys; sys.meta_path.append(hold)", "import sys; sys.addaudithook(hold)", "import contextvars; v = contextvars.ContextVar('v'); v.set(hold)",
    "import builtins; builtins.f = f", "import sys; sys.f = f", "import random; random.f = f; del f", "import own; own.keep()", "",
]


def test_a_file_that_is_not_closed_is_written(pool):
    daemon = pool(**WAYS["WARM"])
    own = b"import sys\nf = open('o.txt', 'w'); f.write('hello')\ndef keep(): sys.excepthook = lambda *a: f\n"
    for holder in HOLDERS:
        name = "main.txt" if "own" in holder else "o.txt"
        code = f"f = open({name!r}, 'w')\nf.write('hello')\ndef hold(*a): return None\n{holder}"
        call = run_forked(daemon, "WARM", code, files={"own.py": own}, collect=["o.txt"])
        assert call.outcome == "COMPLETED" and [file.size_bytes for file in call.result.files if file.path == "o.txt"] == [5], (holder, call)


def test_nothing_that_is_to_be_random_is_drawn_twice(pool):
    daemon = pool(**{**WAYS["WARM"], "preload": "numpy uuid tempfile ssl multiprocessing random secrets"})
    calls = [run_forked(daemon, "WARM", DRAWN) for _ in range(3)]
    drawn = [eval(call.stdout) for call in calls]
    for values in zip(*drawn):
        assert len(set(values)) == len(drawn), values
    assert not any(call.stderr for call in calls)


def test_what_is_preloaded_works_as_imported(pool):
    daemon = pool(**{**WAYS["WARM"], "preload": "pandas matplotlib.pyplot"})
    code = ("import os, sys\nthere = 'pandas' in sys.modules\nimport matplotlib.pyplot as plt, matplotlib, pandas as pd\nplt.plot([1, 2])\nplt.title('x')\n"
            "print(there, os.path.isdir(matplotlib.get_cachedir()), plt.get_backend(), plt.rcParams['font.family'])\npd.DataFrame({'a': [1, 2]})")
    forked, fresh = run_forked(daemon, "WARM", code), run_fresh(daemon, code)
    assert forked.stdout.split() == [b"True", *fresh.stdout.split()[1:]] and fresh.stdout.startswith(b"False True")
    for call in (forked, fresh):
        assert (call.outcome, call.stderr, call.result.value_json) == ("COMPLETED", b"", '[{"a":1},{"a":2}]')
        assert [display.mime_type for display in call.of("display")] == ["image/png"]


def test_what_comes_with_the_job_reaches_a_fork(pool):
    """Streams that are one, a read-only workspace, a folder."""
    daemon = pool(**WAYS["WARM"], **{"read-only-workspace": "yes"})
    code = ("import os, sys\nprint(1)\nprint(2, file=sys.stderr)\nos.system('echo 3; echo 4 >&2')\nprint(os.getcwd(), os.listdir())\n"
            "for path in ('x', '/workspace/main.py', '/tmp/x', '/home/sandbox/x'):\n    try:\n        open(path, 'w')\n        print('can', path)\n"
            "    except OSError as error:\n        print(error.errno, path)")
    how = {"merge_streams": True, "working_dir": "/workspace/in/here", "files": {"in/here/a.txt": b"a"}}
    forked, fresh = run_forked(daemon, "WARM", code, **how), run_fresh(daemon, code, **how)
    assert forked.stdout == (b"1\n2\n3\n4\n/workspace/in/here ['a.txt']\n13 x\n13 /workspace/main.py\ncan /tmp/x\ncan /home/sandbox/x\n")
    assert (forked.outcome, forked.stdout, forked.stderr) == (fresh.outcome, fresh.stdout, b"")


INTERRUPTED = """
import os, signal, time
signal.signal(signal.SIGUSR1, lambda *_: None)
if os.fork() == 0:
    for _ in range(300):
        os.kill(os.getppid(), signal.SIGUSR1)
        time.sleep(0.001)
    os._exit(0)
for _ in range(5):
    print("z" * 999_999)
os.wait()
"""
HANDLED = """
import signal, sys, types
class Told:
    def __init__(self, name): self.name = name
    def __del__(self): print("gone:", self.name)
{}
told = Told("main")
sys.modules["made"] = made = types.ModuleType("made")
made.told, made.main = Told("made"), lambda: told
def pausing():
    try: yield
    finally: print("closed")
paused = pausing()
next(paused)
class Number(int):
    def __ge__(self, other): raise ValueError("never asked")
sys.exit(Number(5))
"""


def test_what_is_written_to_a_full_pipe_is_whole(pool):
    """Python itself drops the rest of an unbuffered write that a signal has cut short."""
    daemon = pool(**WAYS["WARM"])
    for call in (run_forked(daemon, "WARM", INTERRUPTED), run_fresh(daemon, INTERRUPTED)):
        assert (call.outcome, len(call.stdout), set(call.stdout.splitlines())) == ("COMPLETED", 5_000_000, {b"z" * 999_999}), call.result


@pytest.mark.parametrize("handler", ["", "signal.signal(signal.SIGTERM, lambda *_: None)", "signal.signal(signal.SIGCHLD, lambda *_: told)"])
def test_signal_handlers_go_before_what_they_hold(pool, handler):
    daemon = pool(**WAYS["WARM"])
    forked, fresh = run_forked(daemon, "WARM", HANDLED.format(handler)), run_fresh(daemon, HANDLED.format(handler))
    assert sorted(forked.stdout.splitlines()) == sorted(fresh.stdout.splitlines()) == [b"closed", b"gone: made", b"gone: main"]
    assert (forked.result.exit_code, forked.stderr) == (fresh.result.exit_code, fresh.stderr) == (5, b"")


@pytest.fixture
def preloaded_file():
    """In a place that cells see."""
    path = BUILD / "lib" / "glovebox" / "inside" / "python" / f"preloaded-{os.getpid()}.py"
    path.write_text("import builtins, random, sys, warnings\nprint('to nobody')\nprint('to nobody', file=sys.stderr)\nwarnings.warn('to nobody')\n"
                    "random.seed(1)\nsys.path.insert(0, '/elsewhere')\nsys.argv.append('more')\nbuiltins.runs = getattr(builtins, 'runs', 0) + 1\n")
    yield f"/glovebox/python/{path.name}"
    path.unlink()


@pytest.mark.parametrize("way, runs", [("WARM", 4), ("READY", 3)])
def test_what_a_preloaded_file_does_is_not_the_executions(pool, preloaded_file, way, runs):
    """It runs three times in the zygote, and once in each fork that waits. What it prints is nobody's, and forks are as random as before."""
    daemon = pool(**{**WAYS[way], "preload": f"random {preloaded_file}"})
    code = "import random, sys\nprint(runs, sys.argv, '/elsewhere' in sys.path)\nprint(random.random())"
    calls = [run_forked(daemon, way, code) for _ in range(3)]
    assert {call.stdout.splitlines()[0] for call in calls} == {f"{runs} ['/workspace/main.py'] False".encode()}, [call.stdout for call in calls]
    assert len({call.stdout.splitlines()[1] for call in calls}) == 3, [call.stdout for call in calls]
    assert not any(call.stderr for call in calls), [call.stderr for call in calls]


def test_the_file_that_is_shipped_leaves_nothing(pool):
    daemon = pool(**{**WAYS["WARM"], "preload": "numpy pandas /glovebox/python/rehearse-data.py"})
    call = run_forked(daemon, "WARM", "import sys, os\nprint('rehearsal' in sys.modules, 'pandas.io.formats.string' in sys.modules, os.listdir('/workspace'))\n"
                                      "import pandas; print(pandas.DataFrame({'a': [1]}).describe().loc['count', 'a'])")
    assert (call.outcome, call.stdout, call.stderr) == ("COMPLETED", b"False True ['main.py']\n1.0\n", b"")


@pytest.mark.parametrize("preload, told", [("json no_such.module", "no_such.module"), ("this._is_no_package", "this._is_no_package"),
                                           ("json /nowhere/file.py no.module", "/nowhere/file.py: FileNotFoundError")])
def test_what_cannot_be_preloaded_is_told_and_nothing_is_the_worse(pool, preload, told):
    daemon = pool(**{**WAYS["READY"], "preload": preload})
    assert wait_until(lambda: told in daemon.log, 20), daemon.log
    assert "ModuleNotFoundError" in daemon.log or "FileNotFoundError" in daemon.log
    call = daemon.run("print(1)", "python")
    assert (call.outcome, call.stdout) == ("COMPLETED", b"1\n")
