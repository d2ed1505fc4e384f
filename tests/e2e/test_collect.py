"""What has become of the workspace's files: listed and read by the cell's init, whatever a program leaves behind."""
import hashlib

import pytest

from kit.stubs import pb

DELETED, ADDED, MODIFIED = pb.CHANGE_DELETED, pb.CHANGE_ADDED, pb.CHANGE_MODIFIED


def told(call):
    """{path: (change, skipped)}"""
    assert call.result, call
    return {f.path: (f.change, f.skipped) for f in call.result.files}


def contents(call):
    """{path: content}, as pieced together by offsets."""
    ids = {f.content_id: f.path for f in call.result.files if f.content_id}
    out = {}
    for piece in call.of("content"):
        if piece.content_id in ids:
            path = ids[piece.content_id]
            assert piece.offset == len(out.get(path, b"")), piece
            out[path] = out.get(path, b"") + piece.data
    return out


def test_changes_are_told_and_nothing_else(daemon):
    files = {"data/kept.csv": b"1", "data/changed.csv": b"2", "gone.txt": b"3", "same-size": b"4"}
    call = daemon.run("rm gone.txt; echo more >>data/changed.csv; echo new >new.txt; mkdir empty; printf 5 >same-size", files=files)
    assert told(call) == {"data/changed.csv": (MODIFIED, 0), "gone.txt": (DELETED, 0), "new.txt": (ADDED, 0), "same-size": (MODIFIED, 0)}, call
    assert not call.result.files_truncated
    call = daemon.run("echo nothing")
    assert told(call) == {}, call


def test_FIL_01_FIL_11_FIL_12_only_files_are_read(daemon):
    """Links, FIFOs, sockets are told with the reason, and only a real file is read."""
    call = daemon.run("""
import os, socket
os.mkdir("out"); os.chdir("out")
os.symlink("/etc/shadow", "s"); os.symlink("/proc/self/environ", "e"); os.mkfifo("p")
socket.socket(socket.AF_UNIX).bind("s.sock")
open("real", "w").write("ok")
try: os.mknod("dev", 0o020666, os.makedev(1, 3))
except OSError as e: print(e.errno)
""", "python", collect=["out"])
    assert call.stdout in (b"1\n", b"13\n"), call
    assert told(call) == {"out/e": (ADDED, pb.SKIPPED_SYMLINK), "out/s": (ADDED, pb.SKIPPED_SYMLINK), "out/p": (ADDED, pb.SKIPPED_SPECIAL),
                          "out/s.sock": (ADDED, pb.SKIPPED_SPECIAL), "out/real": (ADDED, 0)}, call
    assert contents(call) == {"out/real": b"ok"}


def test_FIL_02_a_swap_leads_nowhere(daemon):
    """A program that swaps a file for a link all the time is frozen and killed before anybody looks."""
    call = daemon.run("""
import os
os.mkdir("out"); open("out/a", "w").write("x"); os.symlink("/etc/passwd", "out/b")
while True: os.rename("out/a", "out/t"); os.rename("out/b", "out/a"); os.rename("out/t", "out/b")
""", "python", collect=["out"], timeout=1)
    assert call.result.outcome == pb.OUTCOME_TIMED_OUT and set(contents(call).values()) == {b"x"}, call


def test_FIL_08_FIL_09_odd_names(daemon):
    """Names are exact, whatever is in them; one that is no UTF-8 is marked."""
    call = daemon.run(r"""
mkdir out; echo 1 >"out/$(printf 'a\nb')"; echo 2 >out/-rf; echo 3 >'out/ x '; echo 4 >"out/報告 é.txt"; echo 5 >"out/$(printf '\377')"
""", collect=["out/*"])
    paths = {f.path: f.path_escaped for f in call.result.files}
    assert {p for p, escaped in paths.items() if not escaped} == {"out/a\nb", "out/-rf", "out/ x ", "out/報告 é.txt"}, call
    assert sorted(contents(call).values()) == [b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"], call


def test_FIL_13_a_sparse_giant_is_not_read(daemon):
    """What is larger than content_bytes is skipped, and what is small beside it comes."""
    call = daemon.run("truncate -s 200M big; truncate -s 1T giant; echo small >small", collect=["[!m]*"])
    files = told(call)
    assert files["big"] == (ADDED, pb.SKIPPED_TOO_LARGE) and files["small"] == (ADDED, 0), call
    assert contents(call) == {"small": b"small\n"}


def test_FIL_15_very_many_files(daemon):
    """A list has at most 2000 files and says that there are more."""
    call = daemon.run("import os\nfor i in range(60_000): open(str(i), 'w').close()", "python", collect=["*"])
    assert call.result.outcome == pb.OUTCOME_COMPLETED and call.result.files_truncated and len(call.result.files) == 2000, call
    assert daemon.run("echo next").stdout == b"next\n"


def test_FIL_16_what_is_unreadable(daemon):
    """What the user may not read is skipped, what only the user may read is not."""
    call = daemon.run("umask 077; mkdir -p d/e/f; echo x >d/e/f/g; echo mine >private; echo y >closed; chmod 0 d/e d closed", collect=["[!m]*/**", "[!m]*"])
    assert told(call) == {"d": (0, pb.SKIPPED_UNREADABLE), "closed": (ADDED, pb.SKIPPED_UNREADABLE), "private": (ADDED, 0)}, call
    assert contents(call) == {"private": b"mine\n"}


def test_a_lease_holds_nobody_up(daemon):
    """To open it for real would wait for 45 s. Whether the stopped holder still lives when init looks is the server's affair."""
    call = daemon.run("""
import fcntl, os, signal
f = open("held", "w+"); f.write("x"); f.flush(); open("other", "w").write("y")
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
os.kill(0, signal.SIGSTOP)
""", "python", collect=["held", "other"], timeout=2)
    skipped = told(call)["held"][1]
    assert call.result.outcome == pb.OUTCOME_TIMED_OUT and skipped in (pb.SKIPPED_UNSPECIFIED, pb.SKIPPED_BUSY), call
    assert contents(call) == {"other": b"y", **({} if skipped else {"held": b"x"})}, call


def test_content_comes_whole(daemon):
    """More than any pipe or message holds, to the byte; also when it is an input file that nobody changed."""
    given = bytes(range(256)) * 4096
    call = daemon.run("head -c 12M /dev/urandom >out.bin; sha256sum <out.bin", files={"in.bin": given}, collect=["*.bin"])
    got = contents(call)
    assert hashlib.sha256(got["out.bin"]).hexdigest().encode() == call.stdout.split()[0] and got["in.bin"] == given, call
    assert told(call) == {"in.bin": (0, 0), "out.bin": (ADDED, 0)}, call


def test_a_full_workspace_is_listed(daemon):
    call = daemon.run("head -c 400M /dev/zero >big; echo $?; : >small", collect=["small"])
    assert call.stdout == b"1\n" and told(call) == {"big": (ADDED, 0), "small": (ADDED, 0)}, call


@pytest.mark.parametrize("pattern, words", [("/etc/passwd", "absolute"), ("../x", "'..'"), ("data[1.csv", "\\["), ("", "empty")])
def test_FIL_06_wrong_patterns_are_refused(daemon, pattern, words):
    """INVALID_ARGUMENT names the pattern and what is wrong with it."""
    call = daemon.run("true", collect=["ok", pattern])
    assert call.refused and call.refused.code.name == "INVALID_ARGUMENT", call
    assert words in call.refused.fields["collect[1]"], call.refused
