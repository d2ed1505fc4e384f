"""What the command line client makes of values, pictures and files. The runner is plain Python that writes the records itself (see test_values.py);
where only a hostile server could send something, one is built here."""
import base64
import json
import os
import random
import re
import resource
import signal
import stat
import struct
import termios
import textwrap
import zlib
from concurrent import futures

import grpc
import pytest
from google.protobuf import json_format

from kit.client import LINE, Client, Terminal
from kit.daemon import Daemon
from kit.stubs import execution_pb2_grpc, pb
from test_values import RECORDS


def png(width=2, height=2):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    noise = random.Random(width)  # every worker of the tests makes the same picture
    rows = b"".join(b"\0" + noise.randbytes(3 * width) for _ in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PNG = png()
SHOW_PNG = f"import base64; picture = base64.b64decode('{base64.b64encode(PNG).decode()}')\n"


@pytest.fixture(scope="module")
def raw():
    d = Daemon()
    (d.folder / "runtimes.d").mkdir()
    (d.folder / "runtimes.d" / "raw.conf").write_text("[runtime]\nexec = /usr/bin/python3\nargs = -u {code}\ncode-name = main.py\nrunner = yes\nenv = PATH=/usr/bin:/bin\n")
    d.start()
    client = Client(d)
    client.daemon = d
    yield client
    client.stop()
    d.stop()
    d.remove()


def run(raw, code, *arguments, **options):
    return raw.run(RECORDS + "put(STARTED)\n" + textwrap.dedent(code), *arguments, runtime="raw", **options)


def screen_of(raw, code, *arguments, env=(), **options):
    """Everything that a terminal is sent, and the exit status."""
    clean = {k: v for k, v in raw.environment.items() if k not in ("TMUX", "STY", "TERM_PROGRAM", "LC_TERMINAL", "KITTY_WINDOW_ID", "NO_COLOR")}
    screen = Terminal(raw, "run", "-r", "raw", "-c", RECORDS + "put(STARTED)\n" + textwrap.dedent(code), *arguments, env={**clean, **dict(env)}, **options)
    try:
        return screen.read(None), screen.process.wait()
    finally:
        screen.close()


# flags

def test_client_flags_reach_the_runner(raw, tmp_path):
    """RES-10, RES-11: inputs, variables, contract, modules and caps arrive as they were given."""
    (tmp_path / "inputs.json").write_text('{\n "a": "é"\n}')
    code = """
        import sys
        while True:
            kind, size = struct.unpack("<II", os.read(3, 8))
            print(kind, os.read(3, size))
            if kind == 21: break
    """
    status, out, err = run(raw, code, "--inputs", f"@{tmp_path}/inputs.json", "--variables", '{"b": [1]}', "--contract", "main", "--import-only", "json, math",
                           "--value-bytes", "7", "--content-bytes", "1K")
    assert (status, err) == (0, b"")
    assert out.decode().split("\n") == ["14 b'\\x02'", "15 " + repr('{\n "a": "é"\n}'.encode()), "16 b'{\"b\": [1]}'", "17 b''", "18 b'json'", "18 b'math'",
                                        "19 b'\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00'", "20 b'\\x00\\x04\\x00\\x00\\x00\\x00\\x00\\x00'", "21 b''", ""]
    status, out, err = run(raw, code, "--import-only", "")
    assert status == 0 and b"17 b''" in out and b"18 " not in out  # restricted, and nothing allowed
    status, out, err = run(raw, code)
    assert status == 0 and b"17 " not in out


@pytest.mark.parametrize("arguments, words", [
    (["--inputs", "{\n  \"a\": 1,\n}"], [b"--inputs", b"key in double quotes", b"line 3, column 1"]),
    (["--inputs", "hello"], [b"--inputs", b"line 1, column 1", b"with its quotes"]),
    (["--inputs", ""], [b"--inputs", b"the JSON"]),
    (["--inputs", "\"é\" x"], [b"line 1, column 5"]),
    (["--inputs", "@/nonexistent.json"], [b"--inputs", b"/nonexistent.json", b"No such file"]),
    (["--variables", "[1]"], [b"--variables", b"JSON object"]),
    (["--contract", "maybe"], [b"--contract maybe", b"auto, main, result or script"]),
    (["--import-only", "a,,b"], [b"--import-only a,,b", b"json,math"]),
    (["--import-only", "a b"], [b"--import-only a b"]),
    (["--show", "gif"], [b"--show gif", b"auto, kitty, iterm, sixel or none"]),
    (["--value-bytes", "0"], [b"--value-bytes 0"]),
    (["--value-bytes", "17M"], [b"limits.value_bytes", b"(--value-bytes)"]),
    (["--content-bytes", "257M"], [b"limits.content_bytes", b"(--content-bytes)"]),
    (["--workspace-inodes", "63"], [b"limits.workspace_inodes", b"(--workspace-inodes)"]),
    (["--collect", "x"], [b"--collect", b"--out DIR"]),
    (["--collect", "/etc/passwd", "--json"], [b"--collect /etc/passwd", b"relative"]),
    (["--collect", "a/../b", "--json"], [b"--collect a/../b", b"'..'"]),
    (["--collect", "", "--json"], [b"--collect", b"is empty"]),
    (["--out", "/dev/null"], [b"--out /dev/null", b"no folder"]),
    (["--out", "/proc/nothing/here"], [b"--out /proc/nothing/here", b"No such file"]),
    (["--detach", "--out", "/tmp"], [b"--detach", b"--out"]),
    (["--detach", "--value"], [b"--detach", b"--value"]),
    (["--json", "--value"], [b"--json", b"valueJson"]),
])
def test_client_wrong_values(raw, arguments, words):
    """FIL-07 for patterns: one line that names the flag, what is wrong and what to do; nothing runs."""
    status, out, err = run(raw, "print('ran')", *arguments)
    assert (status, out) == (125, b"") and LINE.fullmatch(err) and all(word in err for word in words), err


# the value

def test_client_value_alone(raw):
    """RES-02: --value gives a script the value and nothing else, whatever the program prints."""
    status, out, err = run(raw, """print("noise"); os.write(2, b"more\\n"); value('{"v": "é\\\\u202e"}')""", "--value")
    assert (status, out) == (0, b'{"v": "\xc3\xa9\\u202e"}\n') and sorted(err.split()) == [b"more", b"noise"]


def test_client_value_that_came_in_pieces(raw):
    status, out, err = run(raw, "value('\"' + 'y' * 1500000 + '\"')", "--value", "--value-bytes", "2M")
    assert (status, out, err) == (0, b'"' + b"y" * 1500000 + b'"\n', b"")


def test_client_value_is_missing(raw):
    """RES-01: no value, and one that cannot be told, are said; only --value makes them a failure."""
    status, out, err = run(raw, "", "--value")
    assert (status, out) == (125, b"") and err.startswith(b"glovebox: it has no value to print (--value); ") and b"_result" in err and LINE.fullmatch(err)
    status, out, err = run(raw, "value('12345')", "--value", "--value-bytes", "3")
    assert (status, out) == (125, b"") and err.startswith(b"glovebox: value: TOO_LARGE: ") and err.endswith(b" (--value-bytes)\n") and LINE.fullmatch(err)
    status, out, err = run(raw, "put(ERROR, b'\\1$.a[3]\\0a socket'); print('x')")
    assert (status, out, err) == (0, b"x\n", b"glovebox: value: NOT_SERIALIZABLE at $.a[3]: a socket\n")
    status, out, err = run(raw, "value('1'); raise SystemExit(3)", "--value")
    assert (status, out) == (3, b"1\n")


def test_client_value_stays_out_of_a_pipeline(raw):
    assert run(raw, "print('only this'); value('1')") == (0, b"only this\n", b"")


def test_client_value_on_a_terminal(raw):
    """Behind the output, on a line of its own, harmless, and not longer than a screen or two."""
    seen, status = screen_of(raw, """print("out", end=""); value('["\\u202e", null]', 1)""")
    assert status == 0 and seen == b'out\r\nglovebox: value: something in it could not be told exactly (NaN became null, for example)\r\n' \
                                   b'\x1b[2mvalue\x1b[0m ["\\u{202e}", null]\r\n', seen
    seen, status = screen_of(raw, "value('\"' + 'z' * 100000 + '\"')", env={"NO_COLOR": "1"})
    assert re.fullmatch(rb'value "z+\.\.\. \(98 KiB; --value prints all of it\)\r\n', seen) and len(seen) < 5000, seen[-100:]
    assert screen_of(raw, "value('1')", "--show", "none", env={"TERM": "dumb"}) == (b"value 1\r\n", 0)


# errors

def test_client_error_is_told_once(raw):
    """ERR: the traceback is the program's own business; the client adds how it ended, and a hint."""
    status, out, err = run(raw, """
        os.write(2, b"Traceback: the one\\n")
        put(TYPE, b"ValueError"); put(MESSAGE, b"no luck"); put(TRACEBACK, b"Traceback: the one"); put(HINT, b"Use\\x1b g."); put(POSITION, struct.pack("<IIB", 3, 5, 0))
        put(ERROR_END); raise SystemExit(1)
    """)
    assert (status, out) == (1, b"") and err == (b"Traceback: the one\nglovebox: FAILED: The program ended with exit status 1: ValueError: no luck (line 3).\n"
                                                 b"glovebox: hint: Use\\x1b g.\n"), err


def test_client_invalid_code(raw):
    """Status 126; code that is cut off says so."""
    status, out, err = raw.run(RECORDS + 'put(TYPE, b"SyntaxError"); put(INVALID, b"\\1"); raise SystemExit(1)', runtime="raw")
    assert (status, out) == (126, b"") and err.startswith(b"glovebox: INVALID_CODE: ") and b"cut off" in err


def test_client_note_of_one_that_completed(raw):
    """SEED-22: what the runner wants a person to know is said."""
    assert run(raw, "put(NOTE, b'main was not called.')") == (0, b"", b"glovebox: The program ended with exit status 0. main was not called.\n")


def test_client_ps_tells_value_error_and_files(raw):
    code = RECORDS + 'put(STARTED); value(\'{"a": "\\u202e"}\'); put(TYPE, b"E"); put(MESSAGE, b"m"); put(HINT, b"h"); put(ERROR_END); open("f", "w"); raise SystemExit(1)'
    call = raw.daemon.run(code, "raw")
    status, out, err = raw("ps", call.id)
    table, details = out.decode().split("\n\n")
    assert (status, err) == (0, b"") and "FAILED" in table
    assert details.split("\n") == [call.id, "  message  The program ended with exit status 1: E: m.", '  value    {"a": "\\u{202e}"}', "  error    E: m", "  hint     h",
                                   "  files    1 added, 0 modified, 0 deleted", ""], details
    assert raw("ps", "--json", call.id)[1].count(b"\n") == 1


# displays

def test_client_displays_in_a_pipeline(raw):
    """Never on stdout; a line each says that there is something, and forms of one object count once."""
    status, out, err = run(raw, SHOW_PNG + """
        print("a"); display(picture, "image/png", "1"); display(b"<Figure>", "text/plain", "1"); print("b"); display(b"x" * 700000, "text/html", "2")
    """.replace("\n        ", "\n"))
    assert (status, out) == (0, b"a\nb\n")
    assert err == b"glovebox: picture 1: image/png, %d B (save with --out DIR)\nglovebox: display 2: text/html, 684 KiB (save with --out DIR)\n" % len(PNG), err


def test_client_displays_that_were_left_out_are_told(raw, tmp_path):
    """A picture that is missing in --out is never missing in silence."""
    code = "display(b'a' * 10, 'text/plain', '1')\n"
    status, out, err = run(raw, code, "--out", str(tmp_path / "all"))
    assert (status, out) == (0, b"") and b"left out" not in err, err
    status, out, err = run(raw, code + "display(b'b' * 2000, 'text/plain', '2')", "--content-bytes", "1K", "--out", str(tmp_path / "some"))
    assert (status, out) == (0, b"") and os.listdir(tmp_path / "some") == ["display-1.txt"], err
    assert b"some displays were left out: an execution may show 1000, and as many bytes as --content-bytes says\n" in err, err


def test_client_a_flood_of_displays_is_a_few_lines(raw):
    status, out, err = run(raw, "for i in range(1000): display(b'x', 'text/plain', str(i))")
    assert (status, out) == (0, b"") and err.count(b"\n") == 21 and b"and 980 more" in err, err


def kitty(data):
    """The PNG in a kitty sequence, and what was around it."""
    parts = re.findall(rb"\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\", data)
    return base64.b64decode(b"".join(text for _, text in parts)), [keys for keys, _ in parts], re.sub(rb"\x1b_G.*?\x1b\\", b"", data, flags=re.S)


@pytest.mark.parametrize("env", [{"TERM": "xterm-kitty"}, {"TERM": "xterm-ghostty"}, {"KITTY_WINDOW_ID": "1"}, {"TERM_PROGRAM": "ghostty"}])
def test_client_pictures_in_kitty(raw, env):
    big = png(100, 100)
    code = f"import base64; picture = base64.b64decode('{base64.b64encode(big).decode()}')\nprint('a'); settle(); display(b'<Figure>', 'text/plain'); display(picture); settle(); print('b')"
    code = "import time\ndef settle(): time.sleep(0.3)  # pipes of their own: no order is promised within moments\n" + code
    seen, status = screen_of(raw, code, env=env)
    data, keys, rest = kitty(seen)
    assert status == 0 and data == big and keys[0] == b"a=T,f=100,q=2,m=1" and keys[-1] == b"m=0" and set(keys[1:-1]) == {b"m=1"}, keys
    assert rest.replace(b"\r\x1b[K", b"") == b"a\r\n\r\nb\r\n", rest


@pytest.mark.parametrize("env", [{"TERM_PROGRAM": "iTerm.app"}, {"TERM_PROGRAM": "WezTerm"}, {"LC_TERMINAL": "iTerm2"}])
def test_client_pictures_in_iterm(raw, env):
    seen, status = screen_of(raw, SHOW_PNG + "display(picture)", env=env)
    found = re.search(rb"\x1b\]1337;File=inline=1;size=(\d+):([A-Za-z0-9+/=]*)\x07", seen)
    assert status == 0 and int(found[1]) == len(PNG) and base64.b64decode(found[2]) == PNG


@pytest.mark.parametrize("answer, drawn", [(b"\x1b[?62;4;22c", True), (b"\x1b[?4c", True), (b"\x1b[?62;14;22c", False), (b"\x1b[?c", False), (b"x" * 300, False), (None, False)])
def test_client_pictures_as_sixels(raw, answer, drawn):
    """Only where the terminal says that it can; one that says nothing is not waited for, and gets its settings back."""
    clean = {k: v for k, v in raw.environment.items() if k not in ("TMUX", "STY", "TERM_PROGRAM", "LC_TERMINAL", "KITTY_WINDOW_ID")}
    screen = Terminal(raw, "run", "-r", "raw", "-c", RECORDS + "put(STARTED)\n" + SHOW_PNG + "display(picture)", env=clean)
    try:
        screen.read(rb"\x1b\[c")
        if answer:
            screen.type(answer)
        seen = screen.read(None)
        assert screen.process.wait() == 0 and termios.tcgetattr(screen.master) == screen.before
    finally:
        screen.close()
    assert (b"\x1bP0;1;0q\"1;1;2;2#" in seen) == drawn and (b"picture 1: image/png" in seen) != drawn, seen


@pytest.mark.parametrize("env, arguments", [({"TERM": "linux"}, []), ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, []), ({"TMUX": "x", "TERM_PROGRAM": "iTerm.app"}, []),
                                            ({"TERM": "xterm-kitty"}, ["--show", "none"])])
def test_client_terminals_without_pictures(raw, env, arguments):
    seen, status = screen_of(raw, SHOW_PNG + "display(picture)", *arguments, env=env)
    assert status == 0 and seen == b"glovebox: picture 1: image/png, %d B (save with --out DIR)\r\n" % len(PNG), seen


@pytest.mark.parametrize("data", [b"\x1b[2J\x1b]0;owned\x07", b"", b"\x89PNG\r\n\x1a\n", PNG[:16] + struct.pack(">II", 1 << 30, 1 << 30) + PNG[24:], b"GIF89a" + b"\x1b\xff" * 50],
                         ids=["escapes", "empty", "head", "giant", "gif"])
@pytest.mark.parametrize("show", ["kitty", "iterm", "sixel"])
def test_client_what_is_no_picture_is_not_drawn(raw, data, show):
    """Nothing of the data reaches the terminal but as base64, and only of pictures of a size that can be drawn."""
    status, out, err = run(raw, f"display({data!r})", "--show", show)
    assert (status, out) == (0, b"") and err.startswith(b"glovebox: picture 1: image/png, ") and b"\x1b" not in err, (out, err)


def test_client_texts_on_a_terminal(raw):
    """Lines stay lines; what could play with the terminal is made visible; of two texts the richer one."""
    seen, status = screen_of(raw, "display(b'one\\ttwo\\r\\n\\x1b[31mred\\xff\\n', 'text/plain', '1'); display(b'<obj>', 'text/plain', '2'); display(b'# head', 'text/markdown', '2')")
    assert (seen, status) == ("one\ttwo\r\n\\x1b[31mred\ufffd\r\n# head\r\n".encode(), 0), seen


def test_client_json_has_displays_and_contents_as_base64(raw):
    """RES-02: the proto3 mapping, which can be read back."""
    status, out, err = run(raw, SHOW_PNG + "display(picture); display(b'x' * 700000, 'text/html', '2'); value('\"' + 'y' * 600000 + '\"')", "--json")
    assert (status, err) == (0, b"")
    events = [json_format.Parse(line, pb.ExecutionEvent()) for line in out.splitlines()]
    assert [e.display.data for e in events if e.HasField("display")] == [PNG, b""]
    contents = {}
    for e in events:
        if e.HasField("content"):
            contents[e.content.content_id] = contents.get(e.content.content_id, b"") + e.content.data
    assert sorted(contents.values()) == [b'"' + b"y" * 600000 + b'"', b"x" * 700000] and base64.b64encode(PNG) in out


# with the runner of Python

def test_client_SEED_08_a_picture_of_python(raw, tmp_path):
    """SEED-08, RES-02: the figure is a picture, the table goes in and its sum comes out, prints stay apart."""
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    code = "import pandas, matplotlib.pyplot as plt\nt = pandas.read_csv('data.csv'); print(len(t)); t.plot(); t.to_csv('report.csv'); int(t.a.sum()) + n"
    status, out, err = raw.run(code, "--file", tmp_path / "data.csv", "--out", tmp_path / "out", "--value", "--variables", '{"n": 10}', runtime="python")
    assert (status, out) == (0, b"14\n") and err.startswith(b"2\n"), err
    found = tree(tmp_path / "out")
    assert sorted(found) == [b"display-1.png", b"report.csv"] and found[b"display-1.png"].startswith(b"\x89PNG") and found[b"report.csv"] == b",a,b\n0,1,2\n1,3,4\n"


def test_client_SEED_22_main_by_its_flags(raw):
    """SEED-22: main is called when inputs are given; without them the way to it is told in the client's own flags."""
    assert raw.run("def main(args): return args.params", "--inputs", '{"n": 1}', "--value", runtime="python") == (0, b'{"n":1}\n', b"")
    status, out, err = raw.run("def main(args): return 1", runtime="python")
    assert (status, out) == (0, b"") and LINE.fullmatch(err) and b"main was not called" in err and b"(--inputs '{}', --contract main)" in err
    assert raw.run("def main(args): return 1", "--contract", "main", "--value", runtime="python") == (0, b"1\n", b"")
    status, out, err = raw.run("x = [1,", "--value", runtime="python")
    assert (status, out) == (126, b"") and err.count(b"cut off") == 1, err


# files that go in

def test_client_folders_go_in_whole(raw, tmp_path):
    """Everything below, links not followed, executable bits kept."""
    folder = tmp_path / "data"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a").write_text("a")
    (folder / "deep" / "er" / "é b").write_text("b")
    (folder / "tool").write_text("#!/bin/sh\necho tool\n")
    (folder / "tool").chmod(0o700)
    (folder / "secret").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("..")
    os.mkfifo(folder / "fifo")
    (folder / "empty").mkdir()
    look = "import subprocess; print(sorted(os.path.join(t, f) for t, _, fs in os.walk('.') for f in fs if f != 'main.py')); print(subprocess.run('find . -name tool -exec {} \\\\;', shell=True, capture_output=True).stdout)"
    left_out = b"glovebox: --file: left out of folders: 3 links, FIFOs, sockets or devices; name a link itself to send what it leads to\n"
    for argument, below in ((folder, "./data/"), (f"{folder}/", "./data/"), (f"{folder}:.", "./"), (f"{folder}:x/y", "./x/y/"), (f"{folder}:x/", "./x/data/"), (f"{folder}/.", "./")):
        status, out, err = run(raw, look, "-f", argument)
        wanted = sorted(below + name for name in ("a", "deep/er/é b", "tool"))
        assert (status, out.decode(), err) == (0, f"{wanted}\n{b'tool' + bytes([10])!r}\n", left_out), (argument, out, err)


@pytest.mark.parametrize("dest", ["../x", "/etc/x", "a/../../x", "a/./../..//x", "..", "x/", "a//b", "300*a"])
def test_client_FIL_07_where_files_may_go(raw, tmp_path, dest):
    """FIL-07: a destination that leads out is refused by name, before anything is sent; a folder in it is fine."""
    (tmp_path / "f").write_text("here")
    dest = "a" * 300 if dest == "300*a" else dest
    status, out, err = run(raw, "print(open('x/f').read())", "-f", f"{tmp_path}/f:{dest}")
    if dest == "x/":
        assert (status, out, err) == (0, b"here\n", b"")
    else:
        assert (status, out) == (125, b"") and LINE.fullmatch(err) and b"(-f, --file)" in err, err


def test_client_files_in_have_bounds(raw, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for i in range(1001):
        (many / str(i)).touch()
    status, out, err = run(raw, "print('ran')", "-f", many)
    assert (status, out) == (125, b"") and b"at most 1000 files" in err and LINE.fullmatch(err)
    (many / "1000").unlink()
    assert run(raw, "print(len(os.listdir('many')))", "-f", many) == (0, b"1000\n", b"")
    with open(many / "0", "wb") as file:
        file.truncate((64 << 20) + 1)
    status, out, err = run(raw, "print('ran')", "-f", many)
    assert (status, out) == (125, b"") and b"64 MiB" in err and LINE.fullmatch(err)
    loop = tmp_path / "loop"
    loop.mkdir()
    deep = loop
    for _ in range(70):
        deep = deep / "d"
        deep.mkdir()
    (deep / "f").touch()
    status, out, err = run(raw, "print('ran')", "-f", loop)
    assert (status, out) == (125, b"") and b"64 deep" in err and LINE.fullmatch(err)


# files and displays that come out

def tree(folder):
    """Everything below a folder: bytes of files, targets of links, None for folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def test_client_out_has_what_the_program_made(raw, tmp_path):
    """FIL-01: new and changed files, whole, at their places; nothing of what was there before, and no link is followed."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "same").write_text("same")
    (tmp_path / "in" / "other").write_text("before")
    out_dir = tmp_path / "new" / "out"
    status, out, err = run(raw, """
        os.makedirs("deep/er"); open("deep/er/big", "wb").write(b"x" * 3_000_000); open("empty", "w"); open("in/other", "w").write("after")
        open("run.sh", "w").write("#!"); os.chmod("run.sh", 0o4777); open(".hidden", "w"); os.symlink("/etc/passwd", "link"); os.symlink("deep", "folder"); os.mkfifo("fifo")
        open("locked", "w").write("x"); os.chmod("locked", 0)
    """, "-f", tmp_path / "in", "--out", out_dir)
    assert (status, out) == (0, b""), err
    assert tree(out_dir) == {b"deep": None, b"deep/er": None, b"deep/er/big": b"x" * 3_000_000, b"empty": b"", b"in": None, b"in/other": b"after", b"run.sh": b"#!"}
    assert {stat.S_IMODE(p.stat().st_mode) for p in out_dir.rglob("*") if p.is_file()} == {0o644}
    for line in (f"wrote {out_dir}/deep/er/big (2.9 MiB)", f"wrote {out_dir}/empty (0 B)", "not returned: link: it is a symbolic link", "not returned: folder: it is a symbolic link",
                 "not returned: fifo: it is a FIFO, a socket or a device", "not returned: locked: its permissions forbade to read it"):
        assert f"glovebox: {line}\n" in err.decode(), (line, err)


def test_client_out_replaces_whole_files(raw, tmp_path):
    """An old file is replaced at once, by a new one: who has it open keeps it. Patterns may name files that were not changed."""
    (tmp_path / "f").write_text("old and long")
    (tmp_path / "data").write_text("data")
    with open(tmp_path / "f", encoding="utf-8") as old:
        status, out, err = run(raw, "open('f', 'w').write('new'); open('g', 'w')", "--out", tmp_path, "--collect", "f", "--collect", "in/*", "-f", f"{tmp_path}/data:in/")
        assert (status, out) == (0, b"") and old.read() == "old and long"
    assert tree(tmp_path) == {b"f": b"new", b"data": b"data", b"in": None, b"in/data": b"data"}


def test_client_out_FIL_08_FIL_09_odd_names(raw, tmp_path):
    """FIL-08, FIL-09: names with newlines, blanks, dashes, backslashes, other scripts and bytes that are no UTF-8 come out exactly."""
    names = [b"out/a\nb", b"out/-rf", b"out/ x ", "out/報告 é.txt".encode(), b"out/\xff\xfe", b"out/back\\slash", b"out/\\x41", b"out/mixed\\\xff", b"out/\x1b[31m", b"out/x..."]
    status, out, err = run(raw, f"os.mkdir('out')\nfor i, n in enumerate({names!r}): open(n, 'w').write(str(i))", "--out", tmp_path)
    assert (status, out) == (0, b""), err
    assert tree(tmp_path) == {b"out": None, **{n: str(i).encode() for i, n in enumerate(names)}}
    assert err.count(b"\n") == len(names) and b"\x1b" not in err and "報告 é.txt (1 B)".encode() in err and b"a\\nb (1 B)" in err, err


def test_client_out_never_goes_through_links(raw, tmp_path):
    """What is in the folder already may lead elsewhere; the client does not follow, says so, and fails."""
    elsewhere, out_dir = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    out_dir.mkdir()
    (elsewhere / "victim").write_text("whole")
    (out_dir / "folder").symlink_to(elsewhere)
    (out_dir / "file").symlink_to(elsewhere / "victim")
    (out_dir / "taken").mkdir()
    (out_dir / "plain").write_text("plain")
    os.mkfifo(out_dir / "fifo")
    before = tree(out_dir)
    code = "os.mkdir('folder'); open('folder/victim', 'w'); open('file', 'w'); open('taken', 'w'); os.mkdir('plain'); open('plain/x', 'w'); open('fifo', 'w'); open('good', 'w').write('good')"
    status, out, err = run(raw, code, "--out", out_dir)
    assert (status, out) == (125, b"") and tree(elsewhere) == {b"victim": b"whole"} and tree(out_dir) == {**before, b"good": b"good"}, err
    for name, words in (("folder/victim", "link"), ("file", "link"), ("taken", "a folder is in its place"), ("plain/x", "no folder"), ("fifo", "no plain file")):
        assert re.search(rf"glovebox: cannot write {out_dir}/{name}: [^\n]*{words}".encode(), err), (name, err)
    assert run(raw, code + "; raise SystemExit(7)", "--out", out_dir)[0] == 7  # the program's own status comes first


def test_client_out_full_disk_is_said(raw, tmp_path):
    """A write that fails is told, the old file stays, and nothing half-written is left."""
    (tmp_path / "f").write_text("old")
    command = ["run", "-r", "raw", "-c", RECORDS + "put(STARTED); open('f', 'wb').write(b'x' * 1000000)", "--out", tmp_path]
    process = raw.start(*command, preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 125 and b"File too large" in err and out == b"", err
    assert tree(tmp_path) == {b"f": b"old"}


def test_client_out_has_displays(raw, tmp_path):
    """Named by number and kind, never by what the cell says; a file of the same name does not take a display's place."""
    status, out, err = run(raw, SHOW_PNG + """
display(picture, 'image/png', '1'); display(b'<b>', 'text/html', '1'); display(b'two', 'image/png', '1'); display(b'x' * 700000, 'application/vnd.x+json', 'b')
display(b'?', 'application/x-odd', 'c'); display(b'svg', 'image/svg+xml', '../../d'); print('out'); open('display-1.png', 'w').write('mine'); open('display-9.png', 'w').write('mine')
""", "--out", tmp_path)
    assert (status, out) == (125, b"out\n") and b"cannot write display-1.png: a display has this name" in err, err
    assert tree(tmp_path) == {b"display-1.png": PNG, b"display-1.html": b"<b>", b"display-1-2.png": b"two", b"display-2.json": b"x" * 700000, b"display-3.bin": b"?",
                              b"display-4.svg": b"svg", b"display-9.png": b"mine"}, err


def test_client_out_with_json_writes_too(raw, tmp_path):
    status, out, err = run(raw, "open('f', 'w').write('x')", "--out", tmp_path, "--json")
    assert status == 0 and tree(tmp_path) == {b"f": b"x"} and json.loads(out.splitlines()[-1])["result"]["files"][0]["path"] == "f"


def test_client_FIL_15_more_files_than_are_listed(raw, tmp_path):
    """FIL-15: what came is written, and that there is more is said."""
    status, out, err = run(raw, "for i in range(2100): open(f'f{i}', 'w')", "--out", tmp_path)
    assert (status, out) == (0, b"") and len(tree(tmp_path)) == 2000 and b"there may be more files" in err


class Hostile(execution_pb2_grpc.ExecutionServiceServicer):
    """A server that sends what it likes."""
    def __init__(self, path):
        self.events = []
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        execution_pb2_grpc.add_ExecutionServiceServicer_to_server(self, self.server)
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()
        self.address = f"unix:{path}"

    def ExecuteStream(self, req, context):
        yield pb.ExecutionEvent(seq=1, accepted=pb.Accepted(execution_id="x"))
        yield from self.events


@pytest.fixture
def hostile(tmp_path, raw):
    server = Hostile(tmp_path / "sock")

    def play(*events, arguments=()):
        server.events = events
        return raw("-s", server.address, "run", "-r", "x", "-c", "", *arguments)
    yield play
    server.server.stop(None).wait()


def content(ident, data, offset=0, last=True):
    return pb.ExecutionEvent(content=pb.Content(content_id=ident, offset=offset, data=data, last=last))


def ended(*files, **fields):
    return pb.ExecutionEvent(result=pb.Result(**{"outcome": pb.OUTCOME_COMPLETED, "files": files, **fields}))


def added(path, ident="f", **fields):
    return pb.ResultFile(path=path, change=pb.CHANGE_ADDED, content_id=ident, size_bytes=3, **fields)


@pytest.mark.parametrize("path, escaped", [
    ("../x", False), ("{outside}/x", False), ("/etc/x", False), ("a/../../x", False), ("a/./../..//x", False), ("", False), (".", False), ("..", False), ("a/", False), ("a//x", False),
    ("sub/../../x", False), ("\\x2e\\x2e\\x2fx", True), ("..\\x2fx", True), ("a\\x00b", True), ("\\q", True), ("\\x", True), ("\\xg1", True), ("\\xf", True), ("a\\", True),
    ("link/x", False), ("link", False), ("a" * 300, False), ("a/" * 3000 + "x", False), (".bashrc", False), (".config/x", False)])
def test_client_FIL_07_a_server_cannot_write_elsewhere(hostile, tmp_path, path, escaped):
    """FIL-07: whatever a server or a cell calls a file, it lands below --out or nowhere; each refusal is told, and is status 125."""
    out_dir, outside = tmp_path / "out", tmp_path / "outside"
    out_dir.mkdir()
    outside.mkdir()
    (outside / "x").write_text("whole")
    (tmp_path / "x").write_text("whole")
    (out_dir / "link").symlink_to(outside)
    before = tree(tmp_path)
    status, out, err = hostile(content("f", b"bad"), ended(added(path.format(outside=outside), path_escaped=escaped), added("good")), arguments=["--out", out_dir])
    made = {k: v for k, v in tree(tmp_path).items() if k not in before and k not in (b"out/a",)}
    assert made == {b"out/good": b"bad"} and all(tree(tmp_path)[k] == v for k, v in before.items()), made
    assert (status, out) == (125, b"") and re.match(rb"glovebox: (not written|cannot write)[^\n]*\nglovebox: wrote [^\n]*good \(3 B\)\n$", err), err


def test_client_a_server_sends_what_was_not_asked_for(hostile, tmp_path):
    status, out, err = hostile(content("f", b"bad"), ended(added("etc/x"), added("report.md")), arguments=["--out", tmp_path / "out", "--collect", "*.md"])
    assert status == 125 and tree(tmp_path / "out") == {b"report.md": b"bad"} and b"not asked for" in err
    odd = [pb.ResultFile(path="x", skipped=99), pb.ResultFile(path="y", skipped=-1, change=-1), pb.ResultFile(path="z", change=77, content_id="f")]
    status, out, err = hostile(content("f", b"bad"), ended(*odd, outcome=99), arguments=["--out", tmp_path / "odd"])
    assert status == 125 and tree(tmp_path / "odd") == {} and err.count(b"for a reason of a newer server") == 2, err
    assert hostile(content("f", b"bad"), ended(added("x"))) == (0, b"", b"")


@pytest.mark.parametrize("pieces", [
    [("f", b"abc", 0, False)], [("f", b"abc", 1, True)], [("f", b"a", 0, False), ("f", b"b", 2, True)], [("f", b"a", 0, True), ("f", b"b", 1, True)], [("other", b"abc", 0, True)]])
def test_client_pieces_that_do_not_fit(hostile, tmp_path, pieces):
    """What did not come whole is not written."""
    status, out, err = hostile(*[content(*p) for p in pieces], ended(added("x")), arguments=["--out", tmp_path / "out"])
    assert status == 125 and tree(tmp_path / "out") == {} and LINE.match(err), err
    assert hostile(*[content(*p) for p in pieces], ended(value_content_id="f"), arguments=["--value"])[:2] == (125, b"")


def test_client_pieces_that_are_mixed(hostile, tmp_path):
    pieces = [content("f", b"one", 0, False), content("g", b"two", 0, False), content("f", b"ONE", 3), content("g", b"TWO", 3)]
    status, out, err = hostile(*pieces, ended(added("x"), added("y", "g")), arguments=["--out", tmp_path / "out"])
    assert status == 0 and tree(tmp_path / "out") == {b"x": b"oneONE", b"y": b"twoTWO"}


@pytest.mark.limit(240)
def test_client_more_than_the_contract_allows(hostile, tmp_path):
    """The disk and the memory of the client's machine are not the server's to fill."""
    def endless():
        for i in range(1200):
            yield content("f", bytes(1 << 18), i << 18, False)
    status, out, err = hostile(*endless(), ended(added("x")), arguments=["--out", tmp_path / "out"])
    assert status == 125 and b"more than the contract allows" in err and tree(tmp_path / "out") == {}
    many = [content(str(i), b"x") for i in range(5000)]
    status, out, err = hostile(*many, ended(added("x")), arguments=["--out", tmp_path / "out"])
    assert status == 125 and b"more than the contract allows" in err and tree(tmp_path / "out") == {}


def test_client_displays_of_a_hostile_server(hostile, tmp_path):
    """MIME types and ids are text of others: they name no file and move no cursor."""
    events = [pb.ExecutionEvent(display=pb.Display(id=f"../{i}\x1b[2J", mime_type=mime, data=b"d")) for i, mime in enumerate(("image/../../../x", "\x1b]0;x\x07", "", "a/b\n"))]
    status, out, err = hostile(*events, ended(), arguments=["--out", tmp_path / "out"])
    assert (status, out) == (0, b"") and sorted(tree(tmp_path / "out")) == [b"display-%d.bin" % i for i in (1, 2, 3, 4)] and b"\x1b" not in err
    status, out, err = hostile(*events, ended())
    assert (status, out) == (0, b"") and b"\x1b" not in err and b"\x07" not in err and err.count(b"\n") == 4, err


# help

def test_client_help_and_completion_of_values(raw):
    status, out, err = raw("help", "run")
    for flag in "file collect out inputs variables contract import-only value value-bytes content-bytes workspace-inodes show".split():
        assert re.search(rf"--{flag}\b".encode(), out), flag
    for shell, words in (("bash", b"-W 'auto main result script'"), ("zsh", b"(auto kitty iterm sixel none)"), ("fish", b"auto main result script")):
        assert words in raw("completion", shell)[1], shell
