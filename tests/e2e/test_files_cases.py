"""Files that a program leaves behind, as users of other sandboxes were hurt by them: the FIL cases, and names that other products gave to a shell (ESC-28).
What is listed and read of ordinary files is in test_files.py and test_collect.py."""
import os
import pathlib

import pytest

from kit.call import request
from kit.daemon import BUILD
from kit.machine import assert_grown_less, descriptors, repeats, rss, seconds
from kit.png import assert_drawn
from kit.stubs import pb
from test_files import changes, contents, skipped

ODD = ["a;touch PWN;.py", "$(touch PWN).py", "`touch PWN`.py", "-c.py", "a b'\".py"]


def no_trace_of(daemon, call, secret):
    """These bytes are in no message of the call, not in its answer by Execute, and not in the audit."""
    assert len(secret) > 8
    assert not any(secret in event.SerializeToString() for event in call.events)
    reply = daemon.stub.Execute(call.request, timeout=seconds(30))
    assert secret not in reply.SerializeToString() and secret not in daemon.audit_file.read_bytes()


@pytest.mark.parametrize("runtime, code", [
    ("bash", "mkdir out; ln -s /etc/shadow out/s; ln -s /etc/passwd out/p; ln -s /proc/self/environ out/e; ln -s / out/root; echo ok >out/real"),
    ("python", "import os\nos.mkdir('out')\nfor n, t in dict(s='/etc/shadow', p='/etc/passwd', e='/proc/self/environ', root='/').items(): os.symlink(t, 'out/' + n)\n"
               "with open('out/real', 'w') as f: print('ok', file=f)"),
    ("javascript", "const fs = require('fs'); fs.mkdirSync('out');\nfor (const [n, t] of [['s', '/etc/shadow'], ['p', '/etc/passwd'], ['e', '/proc/self/environ'], ['root', '/']])"
                   " fs.symlinkSync(t, 'out/' + n);\nfs.writeFileSync('out/real', 'ok\\n');")])
def test_FIL_01_links_are_told_and_not_followed(daemon, runtime, code):
    """Links are skipped as SYMLINK, whatever they point to; no byte of a target is in an answer or the audit."""
    call = daemon.run(code, runtime, collect=["out/", "out/**", "out/root/etc/passwd"], env={"CANARY": "canary-of-the-environment"})
    assert call.outcome == "COMPLETED" and contents(call) == {"out/real": b"ok\n"}, call.result
    assert skipped(call.result) == {f"out/{name}": "SYMLINK" for name in ("s", "p", "e", "root")}, call.result.files
    for secret in (b"canary-of-the-environment", pathlib.Path("/etc/passwd").read_bytes()[:16], pathlib.Path("/etc/shadow").read_bytes()[:16]):
        no_trace_of(daemon, call, secret)


@pytest.mark.limit(240)
def test_FIL_02_a_swap_never_wins(daemon):
    """Files and folders are swapped for links all the time by a process that outlives main: what comes is the file, or nothing."""
    code = """
import os, time
os.makedirs("out/d"); os.symlink("/etc/passwd", "out/link"); os.symlink("/etc", "out/folder")
for name in ("out/a", "out/d/passwd"):
    with open(name, "w") as f: f.write("x")
if os.fork() == 0:
    os.setsid()
    while True:
        for one, other in (("out/a", "out/link"), ("out/d", "out/folder")):
            os.rename(one, "out/t"); os.rename(other, one); os.rename("out/t", other)
time.sleep(0.05)
"""
    for _ in range(repeats(30)):
        call = daemon.run(code, "python", collect=["out/a", "out/d/passwd", "out/**"])
        assert call.outcome == "COMPLETED" and set(map(bytes, contents(call).values())) <= {b"x"}, call.result.files
        assert "out/folder/hostname" not in changes(call.result) and "out/d/hostname" not in changes(call.result), call.result.files


def test_FIL_08_odd_names_are_exact(daemon, client, tmp_path):
    """A line's end, a dash, blanks: exact in both calls and on the caller's disk; the audit has one line for each event."""
    code = "mkdir out; echo 1 >\"out/$(printf 'a\\nb')\"; echo 2 >'out/-rf'; echo 3 >'out/ x '"
    want = {"out/a\nb": b"1\n", "out/-rf": b"2\n", "out/ x ": b"3\n"}
    size = daemon.audit_size()
    call = daemon.run(code, collect=["out/"])
    assert contents(call) == want, call.result.files
    assert {c["path"] for c in daemon.audit_of(call.id)[-1]["changes"]} == want.keys()
    assert len(daemon.audit(size)) == 2, "a line of the audit file for each event, whatever the names are"
    for name, data in want.items():
        assert contents(daemon.run(code, collect=[name])) == {name: data}
    status, _, _ = client.run(code, "--out", tmp_path)
    found = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert status == 0 and sorted(found.values()) == [b"1\n", b"2\n", b"3\n"] and found["out/ x "] == b"3\n" and found["out/-rf"] == b"2\n", found


@pytest.mark.parametrize("runtime, code", [("python", "import os\nos.mkdir('out')\nwith open('out/\\u62a5\\u544a \\u00e9.txt', 'w') as f: f.write('ok')"),
                                           ("javascript", "fs = require('fs'); fs.mkdirSync('out'); fs.writeFileSync('out/\\u62a5\\u544a \\u00e9.txt', 'ok')"),
                                           ("bash", "mkdir out; printf ok > $'out/\\u62a5\\u544a \\u00e9.txt'")])
def test_FIL_09_names_in_any_script(daemon, client, tmp_path, runtime, code):
    """A name of several scripts is the same in the list, as a pattern, in Execute and on the caller's disk."""
    name = "out/报告 é.txt"
    call = daemon.run(code, runtime, collect=[name])
    assert contents(call) == {name: b"ok"} and changes(call.result) == {name: "ADDED"}, call
    reply = daemon.stub.Execute(request(code, runtime, collect=["out/*.txt"]), timeout=seconds(30))
    assert [f.path for f in reply.result.files] == [name] and [c.data for c in reply.contents] == [b"ok"]
    assert client.run(code, "--out", tmp_path, runtime=runtime)[0] == 0 and (tmp_path / name).read_bytes() == b"ok"


@pytest.mark.parametrize("holder", ["", "(exec 3<>out/p; sleep 60) & ", "cat out/p & "])
def test_FIL_11_a_FIFO_holds_nobody_up(daemon, holder):
    """A FIFO, with or without somebody at its other end, is skipped as SPECIAL at once, and the file beside it comes."""
    call = daemon.run(f"mkdir out; mkfifo out/p; {holder}echo ok >out/real", collect=["out/", "out/p"])
    assert call.outcome == "COMPLETED" and call.took < seconds(3), call
    assert contents(call) == {"out/real": b"ok\n"} and skipped(call.result) == {"out/p": "SPECIAL"}, call.result.files


def test_FIL_12_sockets_and_devices(daemon):
    """A device cannot be made, a socket is skipped as SPECIAL, and nothing waits for either."""
    call = daemon.run("""
import os, socket
os.mkdir("out")
s = socket.socket(socket.AF_UNIX); s.bind("out/s.sock"); s.listen()
for mode, device in ((0o020666, (1, 3)), (0o060666, (7, 0))):
    try: os.mknod("out/dev", mode, os.makedev(*device))
    except OSError as e: print(e.errno)
""", "python", collect=["out/"])
    assert set(call.stdout.split()) <= {b"1", b"13"} and call.stdout.count(b"\n") == 2, call
    assert skipped(call.result) == {"out/s.sock": "SPECIAL"} and not contents(call) and call.ran < seconds(5), call.result.files


def test_FIL_13_a_sparse_giant(daemon):
    """A file of 1 TiB without content is TOO_LARGE, or cannot be made; nobody reads it, and the server does not grow."""
    before = rss(daemon.server)
    call = daemon.run("""
import os
f = open("big", "wb")
try:
    f.truncate(1 << 40); print("ok")
except OSError as e: print(e.errno)
f.close()
""", "python", collect=["big"])
    assert call.outcome == "COMPLETED" and call.ran < seconds(4), call
    assert skipped(call.result) == {"big": "TOO_LARGE"} if call.stdout == b"ok\n" else call.stdout == b"27\n", call
    assert not contents(call)
    assert_grown_less(daemon.server, before, 8 << 20)


def test_FIL_15_a_hundred_thousand_files(daemon):
    """More files than the workspace may hold end in "no space" with the limit's name, and those that are there in a list with a cap."""
    before, fds = rss(daemon.server), len(descriptors(daemon.server))
    call = daemon.run("import os\nos.mkdir('out')\nfor i in range(100_000): open(f'out/{i}', 'w').close()", "python", collect=["out/"])
    assert call.outcome == "FAILED" and pb.LIMIT_WORKSPACE in call.result.limits_hit and call.result.error.type == "OSError", call
    assert "workspace_inodes" in call.result.error.hint and call.result.error.line == 3, call.result.error
    assert call.result.files_truncated and 1000 <= len(call.result.files) <= 2000 and max(call.sizes) <= 1 << 20
    assert len(descriptors(daemon.server)) <= fds + 4
    assert_grown_less(daemon.server, before, 32 << 20)


def test_FIL_16_folders_that_nobody_may_enter(daemon):
    """What may not be read is skipped as UNREADABLE, nothing of it is left (see kit/daemon.py), and the log does not complain."""
    before = len(daemon.log)
    call = daemon.run("mkdir -p d/e/f; echo x >d/e/f/g; echo y >ok; chmod 000 d/e d; chattr +i d 2>/dev/null; true", collect=["**"])
    assert call.outcome == "COMPLETED" and contents(call) == {"ok": b"y\n"} and skipped(call.result) == {"d": "UNREADABLE"}, call.result.files
    assert "ermission denied" not in daemon.log[before:], daemon.log[before:]


@pytest.mark.parametrize("name", ODD)
def test_ESC_28_names_are_no_commands(daemon, client, tmp_path, name):
    """Names of files, folders and patterns, arguments and labels reach the program letter by letter; no part of them is run, here or in the cell."""
    show = "import os, sys\nprint(sys.argv[1], os.path.basename(os.getcwd()), open(sys.argv[1]).read(), sorted(os.listdir('..')), sep='\\n')"
    call = daemon.run(show, "python", args=[name], files={f"{name}/{name}": b"text"}, working_dir=name, collect=[f"{name}/{name}"], labels={"name": name})
    assert call.stdout.decode() == f"{name}\n{name}\ntext\n{sorted([name, 'main.py'])}\n" and contents(call) == {f"{name}/{name}": b"text"}, call
    (tmp_path / name).write_text("import sys\nprint(sys.argv[1:], open(sys.argv[1]).read())\nopen('made', 'w').close()")
    (tmp_path / "out").mkdir()
    status, out, err = client("run", f"--file={name}", "--out", "out", f"./{name}", "--", name, cwd=tmp_path)
    assert (status, err) == (0, b"glovebox: wrote out/made (0 B)\n") and out.decode().startswith(f"{[name]} import sys"), (out, err)
    assert sorted(p.name for p in tmp_path.rglob("*")) == sorted([name, "out", "made"])
    for folder in (daemon.folder, BUILD, pathlib.Path.cwd(), pathlib.Path("/")):
        assert "PWN" not in os.listdir(folder), folder


def test_SES_14_matplotlib_saves_a_picture(daemon):
    """The first call that saves a picture works, warns of nothing and makes no list of fonts; so does the next."""
    code = "import os\nos.mkdir('out')\nimport matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as p; p.plot([1, 2]); p.savefig('out/p.png'); p.close()"
    for _ in range(2):
        call = daemon.run(code, "python", collect=["out/"])
        assert call.outcome == "COMPLETED" and not call.stderr and not call.of("display"), call
        assert_drawn(contents(call)["out/p.png"])
        assert [(f.path, f.mime_type) for f in call.result.files] == [("out/p.png", "image/png")], call.result.files
