"""The Python runner without a cell: the conformance table, and user code that attacks the runner."""

import json
import shutil
import subprocess
import sys
import tomllib

import pytest

import direct

TABLE = tomllib.loads((direct.ROOT / "tests/conformance/python.toml").read_text())["case"]
KEYS = {"name", "ids", "code", "contract", "inputs", "variables", "args", "stdin", "allowed", "files", "value_bytes", "exit_code", "stdout", "stderr",
        "value", "value_error", "lossy", "error", "invalid", "incomplete", "note", "displays"}
sys.set_int_max_str_digits(0)  # values have all their digits
# What the shipped runtime's file sets.
ENV = {"MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}


WAYS = {"fresh": False, "waiting": True}


@pytest.fixture(autouse=True, params=WAYS)
def way(request, monkeypatch):
    """Each test is run by an interpreter that starts with its job, and by one that waited for it."""
    monkeypatch.setattr(f"{__name__}.waits", WAYS[request.param])


waits = False
# As it is built: the part that waits is compiled.
COMMAND = [*direct.COMMANDS["python"][:-1], str(direct.BUILD / "lib/glovebox/inside/python/runner.py")]


def run(code, **how):
    return direct.run("python", code, env=ENV, waits=waits, **{"command": COMMAND, **how})


def check_error(error, want, stderr):
    if want is None:
        assert error is None
        return
    assert error is not None, "no error was told"
    for key in ("type", "line", "column", "source_line"):
        if key in want:
            assert error[key] == want[key]
    assert want.get("message", "") in error["message"]
    if want.get("hint") == "":
        assert "hint" not in error
    elif "hint" in want:
        assert want["hint"] in error["hint"]
    for text in ("glovebox_runner", "runner.py", "/inside/"):
        assert text not in error["traceback"] and text not in stderr


@pytest.mark.parametrize("case", TABLE, ids=[case["name"].replace(" ", "_") for case in TABLE])
def test_conformance(case):
    assert not case.keys() - KEYS, "a key that means nothing"
    how = {key: case[key] for key in ("contract", "inputs", "variables", "args", "allowed") if key in case}
    out = run(case["code"], stdin=case.get("stdin", "").encode(), value_max=case.get("value_bytes", 1 << 20),
              files=[(name, text.encode()) for name, text in case.get("files", {}).items()], **how)
    stderr = out.stderr.decode()
    if out.error is not None or "error" in case:
        check_error(out.error, case.get("error"), stderr)
        if "excepthook" not in case["code"]:
            assert out.error["traceback"] in stderr and stderr.count(out.error["traceback"]) == 1
    assert out.exit_code == case.get("exit_code", 0), stderr
    assert out.stdout.decode() == case.get("stdout", "")
    at = 0
    for text in case.get("stderr", []):
        at = stderr.find(text, at)
        assert at >= 0, f"{text!r} is not in {stderr!r}"
    assert case.get("stderr") or not stderr
    assert (out.invalid, out.incomplete) == (case.get("invalid", False), case.get("incomplete", False))
    assert out.started != out.invalid
    assert out.raw == case.get("value") and out.has_value == ("value" in case)
    assert out.lossy == case.get("lossy", False)
    want = case.get("value_error")
    assert (out.value_error is None) == (want is None)
    if want:
        assert out.value_error["type"] == want["type"] and want.get("message", "") in out.value_error["message"]
        assert "path" not in want or out.value_error["path"] == want["path"]
    assert case["note"] in out.note if "note" in case else out.note is None
    assert [display["mime"] for display in out.displays] == case.get("displays", [])


def test_the_table_is_long_enough_and_names_are_unique():
    assert len(TABLE) >= 80 and len({case["name"] for case in TABLE}) == len(TABLE)


# ------------------------------------------------------- what user code does to the runner

GOOD = {"a": [1, 2.5, "x"], "b": None}


@pytest.mark.parametrize("attack", [
    "import builtins\nfor n in ('len', 'isinstance', 'type', 'open', 'repr', 'str', 'dict', 'list', 'iter', 'any'): setattr(builtins, n, None)",
    "import builtins\nbuiltins.__dict__.clear()",
    "import json\njson.dumps = json.JSONEncoder = lambda *a, **k: 'forged'",
    "import sys\nsys.modules.clear()",
    "import sys\nsys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear()",
    "import os, posix\nfor m in (os, posix):\n    m.write = m.getpid = m.fstat = m.close = lambda *a: 0",
    "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
    "import gc, sys\ngc.disable(); sys.setrecursionlimit(60)",
    "import signal\nfor n in (2, 10, 14, 15): signal.signal(n, signal.SIG_IGN)",
    "import sys\nsys.settrace(lambda *a: 1 / 0); sys.setprofile(lambda *a: None)",
    "import sys\ndel sys.modules['__main__']; del globals()['__builtins__']",
    "import os\nos.unlink(__file__); os.chdir('/')",
    "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
], ids=["builtins", "no_builtins", "json", "modules", "finders", "os", "streams", "recursion", "signals", "trace", "main", "unlinked", "files"])
def test_hostile_code_gets_its_value_all_the_same(attack):
    out = run(attack + "\n_result = " + repr(GOOD))
    assert out.value == GOOD and out.exit_code == 0, out.stderr
    out = run("error = KeyError('told')\n" + attack + "\nraise error")
    assert out.error["type"] == "KeyError" and out.error["message"] == "'told'" and out.exit_code == 1
    assert out.error["line"] == attack.count("\n") + 3
    assert "glovebox_runner" not in out.error["traceback"] and "KeyError" in out.error["traceback"]


def test_closing_every_descriptor_costs_the_value_and_nothing_else():
    out = run("import os\nprint('a', flush=True)\nos.closerange(3, 4096)\n5")
    assert out.exit_code == 0 and out.stdout == b"a\n" and not out.has_value
    out = run("import os\nos.closerange(0, 4096)\n1/0")
    assert out.exit_code != 0 and out.error is None


def test_a_descriptor_that_user_code_took_for_itself_is_not_written_to():
    out = run("import os\nfd = os.open('mine', os.O_CREAT | os.O_RDWR)\nfor n in range(900, 1024):\n    os.dup2(fd, n)\n"
              "import atexit\natexit.register(lambda: print(os.path.getsize('mine')))\n'value'")
    assert out.stdout == b"0\n" and not out.has_value and out.exit_code == 0


def test_a_process_with_threads_is_known():
    """A zygote may have one: a fork has no other, whatever they held."""
    path = direct.BUILD / "lib/glovebox/inside/python/glovebox_zygote.abi3.so"
    code = ("import _imp, importlib.util, sys, threading\nspec = importlib.util.spec_from_file_location('glovebox_zygote', sys.argv[1])\n"
            "module = _imp.create_dynamic(spec)\nprint(module.is_single())\ngo = threading.Event()\nthread = threading.Thread(target=go.wait)\nthread.start()\n"
            "print(module.is_single())\ngo.set()\nthread.join()")
    assert run(code, args=[str(path)]).stdout == b"True\nFalse\n"


def test_a_process_that_was_started_is_known():
    """It would outlive the zygote, and hold what that holds."""
    path = direct.BUILD / "lib/glovebox/inside/python/glovebox_zygote.abi3.so"
    code = ("import _imp, importlib.util, os, subprocess, sys\nspec = importlib.util.spec_from_file_location('glovebox_zygote', sys.argv[1])\n"
            "module = _imp.create_dynamic(spec)\nprint(module.has_children())\nif os.fork() == 0:\n    os._exit(0)\nended = os.wait()\n"
            "print(module.has_children())\nprocess = subprocess.Popen(['sleep', '99'])\nprint(module.has_children())\nprocess.kill()\n"
            "os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\nprint(module.has_children())")
    assert run(code, args=[str(path)]).stdout == b"False\nFalse\nTrue\nFalse\n"


def test_ESC_02_only_the_value_pipe_is_open_and_no_child_has_it():
    out = run("import os, subprocess\nmine = [n for n in map(int, os.listdir('/proc/self/fd')) if os.path.exists(f'/proc/self/fd/{n}')]\n"
              "[mine, subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout.split()]")
    mine, childs = out.value
    assert [n for n in mine if n > 2] == [1000] and childs == ["0", "1", "2", "3"]  # 3 is the listing itself


def test_records_that_user_code_forges_end_nothing():
    out = run("import os\nos.write(1000, bytes([3, 0, 0, 0, 1, 0, 0, 0]) + b'7' + bytes([4, 0, 0, 0, 1, 0, 0, 0, 0]))\n_result = 'true'")
    assert out.value == "true", "the last whole value counts"


def test_a_GiB_of_value_is_refused_in_bounded_memory():
    out = run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\n['x' * (1 << 20)] * 1024")
    assert out.exit_code == 0 and out.value_error["type"] == "TOO_LARGE"
    assert "more than " in out.value_error["message"] and str(1 << 20) in out.value_error["message"]
    out = run("'x' * (1 << 28)")
    assert out.value_error["type"] == "TOO_LARGE" and out.value_error["path"] == "$"
    out = run("range(10**18)")
    assert out.value_error["type"] == "TOO_LARGE"
    out = run("1 << (1 << 30)")
    assert out.value_error["type"] == "TOO_LARGE" and "at least" in out.value_error["message"]


def test_RES_11_all_digits_however_many():
    out = run("[10**5000, -7**9000]")
    assert out.raw.startswith("[1" + "0" * 5000 + ",-") and len(out.raw) > 12_000
    out = run("def main(args): return args.params", inputs="1" + "0" * 6000)
    assert out.raw == "1" + "0" * 6000


def test_a_million_displays_are_capped():
    out = run("for n in range(10**6): display(n)\n'end'", timeout=120)
    assert out.value == "end" and len(out.displays) == 1001
    assert out.displays[0]["data"] == b"0" and out.displays[999]["data"] == b"999"
    assert out.displays[1000]["left_out"] and out.displays[1000]["data"] == b""


def test_displays_above_the_cap_of_bytes_are_left_out_whole_which_is_told_once():
    out = run("display('x' * 60)\ndisplay('y' * 60)\ndisplay('y' * 30, metadata={'a': 1})\ndisplay('z')", content_max=100)
    assert [(len(d["data"]), d["left_out"]) for d in out.displays] == [(62, False), (0, True), (3, False)]


def test_displays_of_threads_stay_whole():
    out = run("import threading\nts = [threading.Thread(target=lambda n=n: [display(str(n) * 9000) for _ in range(50)]) for n in range(8)]\n"
              "[t.start() for t in ts]; [t.join() for t in ts]\nNone")
    assert len(out.displays) == 400 and all(len(set(d["data"][1:-1])) == 1 and len(d["data"]) == 9002 for d in out.displays)


def test_a_signal_handler_that_raises_leaves_no_half_record():
    code = ("import signal\nhits = 0\ndef handler(*_):\n    global hits\n    hits += 1\n    raise InterruptedError('now')\n"
            "signal.signal(signal.SIGPROF, handler)\nsignal.setitimer(signal.ITIMER_PROF, 0.005, 0.005)\n"
            "for n in range(300):\n    try:\n        display('x' * 200_000)\n    except InterruptedError:\n        pass\n"
            "signal.setitimer(signal.ITIMER_PROF, 0)\n_result = hits > 0\n")
    out = run(code, content_max=1 << 30)
    assert out.error is None or out.error["type"] == "InterruptedError"
    assert out.displays and all(len(d["data"]) == 200_002 for d in out.displays)


def test_a_handler_that_goes_off_after_the_code_is_told_as_its_error():
    code = ("import signal\ndef handler(*_):\n    raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, handler)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.2)\n_result = list(range(3_000_000))\n")
    out = run(code, value_max=64 << 20)
    assert out.has_value or out.value_error or out.error["type"] == "TimeoutError"
    assert b"glovebox_runner" not in out.stderr


@pytest.mark.parametrize("raised, kind", [
    ("class M(type):\n    __name__ = property(lambda c: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E('x')", "E"),
    ("class E(Exception):\n    __class__ = property(lambda s: 1 / 0)\n    __traceback__ = property(lambda s: 1 / 0)\nraise E('x')", "E"),
    ("class E(Exception):\n    def __getattribute__(self, n): raise RuntimeError(n)\nraise E('x')", "E"),
    ("a, b = ValueError('x'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a", "ValueError"),
    ("class E(Exception):\n    def __str__(self): return 5\nraise E('x')", "E"),
    ("class E(BaseException):\n    def __str__(self): raise SystemExit(0)\nraise E('x')", "E"),
    ("class E(Exception):\n    __module__ = 5\nraise E('x')", "E"),
    ("def f(n): return f(n + 1) if n < 900 else 1 / 0\nf(0)", "ZeroDivisionError"),
])
def test_hostile_exceptions_are_told(raised, kind):
    out = run(raised)
    assert out.exit_code == 1 and out.error["type"] == kind and out.error["line"] >= 1
    assert kind in out.stderr.decode() and b"glovebox_runner" not in out.stderr


@pytest.mark.parametrize("made, kind, path", [
    ("class M(type):\n    def __eq__(s, o): raise ValueError\n    def __hash__(s): raise ValueError\n"
     "    def __instancecheck__(s, o): return True\nclass C(metaclass=M): pass\n[C()]", "NOT_SERIALIZABLE", "$[0]"),
    ("class D(dict):\n    def items(self): return 5\n    def __iter__(self): raise ValueError\nD(a={1})", None, None),
    ("import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\nP.x = property(lambda s: 1 / 0)\np = object.__new__(P)\n{'p': p}",
     "NOT_SERIALIZABLE", "$.p"),
    ("import enum\nclass E(enum.Enum):\n    A = 1\nE.A._value_ = E.A\n[E.A]", "TOO_DEEP", "$[0]"),
    ("m = memoryview(b'x'); m.release()\nm", "NOT_SERIALIZABLE", "$"),
    ("class S:\n    @property\n    def __dict__(self): raise SystemExit(9)\n{'s': S()}", "NOT_SERIALIZABLE", "$.s"),
    ("import sys, types\nfake = sys.modules['numpy'] = types.ModuleType('numpy')\nclass ndarray: pass\nfake.ndarray = ndarray\n{'x': ndarray()}",
     "NOT_SERIALIZABLE", "$.x"),
    ("import decimal\ndecimal.Decimal.__str__ if 0 else None\n[decimal.Decimal(1), {2: lambda: 0}]", "NOT_SERIALIZABLE", '$[1]["2"]'),
    ("class S(str):\n    def replace(self, *a): return 5\n    def isprintable(self): return True\n[S('a\"b')]", None, None),
], ids=["metaclass", "dict", "property", "enum", "memory", "object", "numpy", "function", "str"])
def test_hostile_values_are_refused_or_read_as_what_they_are(made, kind, path):
    out = run(made)
    assert out.exit_code == 0, out.stderr
    if kind is None:
        assert out.has_value and out.raw in ('{"a":[1]}', '["a\\"b"]')
    else:
        assert out.value_error["type"] == kind and out.value_error["path"] == path


def test_a_dict_that_changes_while_it_is_written_is_refused_or_whole():
    out = run("import threading\nd = {str(n): n for n in range(200000)}\nstop = []\n"
              "def change():\n    n = 0\n    while not stop: d[f'x{n % 1000}'] = n; d.pop(f'x{(n + 500) % 1000}', None); n += 1\n"
              "threading.Thread(target=change, daemon=True).start()\nd", value_max=16 << 20)
    assert out.has_value or "changed" in out.value_error["message"]


def test_RES_23_a_recursion_limit_that_is_lifted():
    """As far as memory allows; without any, Python itself needs minutes to come back, which the timeout ends."""
    out = run("import sys\nsys.setrecursionlimit(200_000)\ndef f(): return f()\nf()", timeout=60)
    assert out.error["type"] == "RecursionError" and out.error["line"] == 3 and out.exit_code == 1 and len(out.error["traceback"]) < 2000


def test_GRP_13_a_long_odd_text_is_cut_and_said_to_be():
    out = run('raise Exception("x" * 200_000 + "\\n\\u2615")')
    assert out.error["truncated"] and len(out.error["message"].encode()) <= 32 * 1024
    assert len(out.error["traceback"].encode()) <= 128 * 1024 and out.error["traceback"].endswith("☕\n")
    assert len(out.stderr) > 200_000, "stderr has all of it"


def test_texts_of_recursion_are_short():
    out = run("def f(): return g()\ndef g(): return f()\nf()")
    assert out.error["type"] == "RecursionError" and len(out.error["traceback"]) <= 8 * 1024 and out.error["truncated"]


def test_memory_that_is_used_up_is_told():
    out = run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\nx = []\n"
              "while True: x.append('a' * 100_000 + str(len(x)))")
    assert out.error["type"] == "MemoryError" and "limits.memory_bytes" in out.error["hint"]


def test_too_many_threads_are_told():
    out = run("import _thread\ndef no(*a): raise RuntimeError(\"can't start new thread\")\nno()")
    assert "limits.max_processes" in out.error["hint"]


def test_SEED_23_a_closed_network_is_told():
    out = run("import socket, urllib.request\ndef no(*a, **k): raise socket.gaierror(-3, 'Temporary failure in name resolution')\n"
              "socket.getaddrinfo = no\nurllib.request.urlopen('http://example.com')")
    assert out.error["type"] == "urllib.error.URLError" and out.error["hint"] == "The network is closed in this sandbox."
    out = run("import socket\nsocket.create_connection(('127.0.0.1', 1))")
    assert out.error["type"] == "ConnectionRefusedError" and "hint" not in out.error


def test_no_space_and_read_only_places_are_told():
    out = run("open('/dev/full', 'w', buffering=1).write('x\\n')")
    assert "No space is left" in out.error["hint"]
    out = run("raise PermissionError(13, 'Permission denied', '/etc/passwd')")
    assert "Only /workspace and /tmp are writable" in out.error["hint"]
    out = run("raise PermissionError(13, 'Permission denied', '/tmp/x')")
    assert "hint" not in out.error


def test_an_excepthook_that_fails():
    out = run("import sys\ndef hook(*a): raise ValueError('hook')\nsys.excepthook = hook\n1/0")
    text = out.stderr.decode()
    assert out.error["type"] == "ZeroDivisionError" and out.exit_code == 1
    places = [text.index(part) for part in ("Error in sys.excepthook:", "ValueError: hook", "Original exception was:", "ZeroDivisionError")]
    assert places == sorted(places)
    assert "glovebox_runner" not in text and "runner.py" not in text


def test_stderr_of_the_users_own_gets_the_traceback():
    out = run("import sys\nclass W:\n    def write(self, s): sys.stdout.write(s.upper())\nsys.stderr = W()\n1/0")
    assert b"ZERODIVISIONERROR: DIVISION BY ZERO" in out.stdout and out.stderr == b"" and out.error["type"] == "ZeroDivisionError"


def test_the_stack_below_the_code_is_one_frame():
    out = run("import sys, traceback\ndef depth():\n    f, n = sys._getframe(1), 0\n    while f: f, n = f.f_back, n + 1\n    return n\n"
              "def main(args): return depth()",
              inputs="{}")
    assert out.value == 2


def test_files_used_up_are_told():
    out = run("x = [open('/dev/null') for _ in range(10**6)]")
    assert out.error["type"] == "OSError" and out.error["line"] == 1 and out.exit_code == 1


def test_late_output_of_all_kinds_comes():
    out = run("import atexit, threading, time\natexit.register(print, 'exit')\n"
              "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
              "threading.Thread(target=lambda: time.sleep(60), daemon=True).start()\nprint('main')\n1")
    assert out.stdout == b"main\nthread\nexit\n" and out.value == 1


def test_an_error_in_an_exit_handler_changes_nothing():
    out = run("import atexit\natexit.register(lambda: 1 / 0)\n1")
    assert out.exit_code == 0 and out.value == 1 and b"ZeroDivisionError" in out.stderr


def test_a_child_that_fails_after_a_fork_tells_nothing_of_ours():
    out = run("import os\npid = os.fork()\nif not pid:\n    1/0\n_, status = os.waitpid(pid, 0)\nos.waitstatus_to_exitcode(status)")
    assert out.value == 1 and out.error is None and out.stderr.decode().count("ZeroDivisionError") == 1


def test_code_with_nul_bytes_or_of_no_encoding_is_invalid():
    for code in (b"x = 1\0", b"x = '\xff'"):
        out = run(code)
        assert out.invalid and not out.incomplete and out.error["type"] in ("SyntaxError", "ValueError") and out.exit_code == 1


def test_an_encoding_that_the_code_names_holds():
    out = run("# -*- coding: latin-1 -*-\n'é'".encode("latin-1"))
    assert out.value == "é"


def test_RES_01_and_deep_sizes_come_whole():
    out = run("def main(args): return ['x' * 3000] * 200", inputs="{}")
    assert out.value == ["x" * 3000] * 200
    for size, has in ((9998, True), (9999, False)):
        out = run(f"'x' * {size}", value_max=10000)
        assert out.has_value == has


def test_bad_inputs_are_an_error_that_names_the_field():
    for text in ("{", "[1,]", '{"a": NaN}', "1 2", "\"\t\"", "[" * 100_000):
        out = run("def main(args): return 1", inputs=text)
        assert out.error["type"] == "ValueError" and "inputs_json" in out.error["message"] and out.exit_code == 1, text[:20]


def test_bad_variables_are_named():
    for text in ("[]", '{"1x": 1}', '{"__builtins__": 1}', '{"df": {"type": "pandas.DataFrame", "data": 5}}',
                 '{"df": {"type": "pandas.DataFrame", "data": [1]}}',
                 '{"b": {"type": "bytes", "base64": "?a"}}', '{"d": {"type": "datetime", "value": 5}}', '{"m": {"type": "module", "name": "io..x"}}',
                 '{"m": {"type": "module", "name": "io.Nothing"}}'):
        out = run("print('never')", variables=text)
        assert "variables_json" in out.error["message"] and out.stdout == b"" and out.exit_code == 1, text


def test_the_import_policy_holds_for_variables():
    out = run("print('never')", variables='{"m": {"type": "module", "name": "io.BytesIO"}}', allowed=["math"])
    assert out.error["type"] == "ImportError" and "variables_json: m: import of 'io" in out.error["message"]


def test_import_policy_from_other_ways():
    out = run("import importlib.util, importlib\nfor way in (lambda: importlib.util.find_spec('ftplib'), lambda: importlib.__import__('ftplib')):\n"
              "    try:\n        way()\n        print('passed')\n    except ImportError as e:\n        print(e.name)\n", allowed=["importlib"])
    assert out.stdout == b"ftplib\nftplib\n"
    out = run("from . import x", allowed=["math"])
    assert out.invalid and out.error["type"] == "ImportError"


def test_a_job_that_is_cut_off_is_our_fault_and_said(monkeypatch):
    whole = direct.job()
    monkeypatch.setattr(direct, "job", lambda **_: whole[:-4])
    out = run("print('never')")
    assert out.exit_code == 125 and b"the job ends too early" in out.stderr and out.stdout == b""


def test_pictures_have_the_bytes_of_pictures():
    out = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure(); plt.plot([3])\nplt.figure(2); plt.title('$x^{$')\nNone")
    assert [d["mime"] for d in out.displays] == ["image/png"] and out.displays[0]["data"].startswith(b"\x89PNG\r\n\x1a\n")
    assert b"figure 2 could not be drawn: ValueError" in out.stderr and out.exit_code == 0


@pytest.mark.parametrize("command", [COMMAND, direct.COMMANDS["python"]], ids=["built", "without-the-module"])
def test_what_is_written_to_a_full_pipe_is_whole(command):
    """Python itself drops the rest of an unbuffered write that a signal has cut short; also of what is no bytes."""
    code = ("import array, os, signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nif os.fork() == 0:\n    for _ in range(300):\n"
            "        os.kill(os.getppid(), signal.SIGUSR1)\n        time.sleep(0.001)\n    os._exit(0)\nfor _ in range(3):\n    print('z' * 999_999)\n"
            "told = sys.stdout.buffer.write(array.array('i', [0x7a7a7a7a]) * 250_000)\nos.wait()\nprint(told, file=sys.stderr)")
    out = direct.run("python", code, env=ENV, command=command, waits=waits and command is COMMAND)  # nothing waits without the module
    assert (out.exit_code, out.stderr, len(out.stdout), set(out.stdout)) == (0, b"1000000\n", 4_000_000, set(b"z\n")), out.stderr


def test_prepare_compiles_the_runner_and_lists_the_fonts(tmp_path):
    copy = tmp_path / "python"
    shutil.copytree(direct.ROOT / "inside/python", copy, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["/usr/bin/python3", copy / "prepare.py"], check=True, env={"PATH": "/usr/bin", "HOME": str(tmp_path)}, capture_output=True)
    assert len(list(copy.glob("glovebox_runner/__pycache__/*.pyc"))) == len(list(copy.glob("glovebox_runner/*.py")))
    fonts = list(copy.glob("matplotlib/fontlist-*.json"))
    assert len(fonts) == 1
    command = ["/usr/bin/python3", "-u", "-X", "utf8", str(copy / "runner.py")]
    home = tmp_path / "home"
    home.mkdir()
    fonts[0].write_text(fonts[0].read_text().replace("DejaVu Sans Mono", "Prepared Sans"))
    out = direct.run("python", "from matplotlib import font_manager\nany(f.name == 'Prepared Sans' for f in font_manager.fontManager.ttflist)",
                     command=command, env={**ENV, "HOME": str(home)})
    assert out.value is True and len(list(home.rglob("fontlist-*.json"))) == 1
    (copy / "matplotlib/folders").write_text("others")
    shutil.rmtree(home / ".cache")
    out = direct.run("python", "from matplotlib import font_manager\nany(f.name == 'Prepared Sans' for f in font_manager.fontManager.ttflist)",
                     command=command, env={**ENV, "HOME": str(home)})
    assert out.value is False, "a list that is out of date is not used"


def test_display_takes_bundles_and_metadata():
    out = run("display({'text/html': '<i>', 'application/x+json': {'a': 1}}, raw=True, metadata={'k': 1}, display_id='mine')")
    assert [(d["id"], d["mime"], d["data"], d["metadata"]) for d in out.displays] == [
        ("mine", "text/html", b"<i>", '{"k":1}'), ("mine", "application/x+json", b'{"a":1}', '{"k":1}')]


def test_display_of_data_that_cannot_be_made():
    out = run("display({'application/json': {1: object}}, raw=True)")
    assert out.error["type"] == "TypeError" and "display: the application/json cannot be made" in out.error["message"] and out.error["line"] == 1
    out = run("class R:\n    def _repr_json_(self): return object\n    def _repr_png_(self): return 'abcde'\ndisplay(R())")
    assert [d["mime"] for d in out.displays] == ["text/plain"] and out.error is None


@pytest.mark.parametrize("code, exit_code, kind", [
    ("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(3)", 3, None),
    ("import asyncio\nawait asyncio.sleep(0)\n{}['k']", 1, "KeyError"),
    ("import asyncio\nawait asyncio.sleep(0)\nraise KeyboardInterrupt", -2, "KeyboardInterrupt"),
    ("import asyncio\nasync def f():\n    async with asyncio.timeout(0.01):\n        await asyncio.sleep(5)\nawait f()", 1, "TimeoutError"),
    ("class M(type):\n    __dict__ = property(lambda c: 1 / 0)\n    def __getattribute__(c, n): raise SystemExit(9)\n"
     "class C(metaclass=M):\n    def __call__(self, args): return 1\nmain = C()", 9, None),
])
def test_ends_of_all_kinds(code, exit_code, kind):
    out = run(code, contract="MAIN" if "main" in code else "AUTO")
    assert (out.error["type"] if out.error else None) == kind and out.exit_code == exit_code and not out.has_value, out.stderr
    assert b"glovebox_runner" not in out.stderr and b"asyncio/base_events" not in out.stderr
    if kind:
        assert out.error["line"] >= 1 and "asyncio/runners" not in out.error["traceback"]


def test_the_table_parses_as_strict_json():
    for case in TABLE:
        for key in ("inputs", "variables", "value"):
            if key in case:
                json.loads(case[key])


@pytest.mark.parametrize("contract", ["AUTO", "SCRIPT"])
@pytest.mark.parametrize("code", ["x = " + "+".join(["1"] * 2800), "x = [len]\nx" + "[:]" * 2800, "x = 5\nif x == 0: pass\n" + "elif x < 0: pass\n" * 2800])
def test_code_may_be_as_deep_as_in_a_plain_run(code, contract):
    out = run(code, contract=contract)
    assert not out.invalid and out.exit_code == 0, out.stderr[-500:]
    out = run("x = " + "+".join(["1"] * 300000), contract=contract)
    assert out.invalid and out.error["type"] == "RecursionError" and out.exit_code == 1, out.stderr[-500:]
