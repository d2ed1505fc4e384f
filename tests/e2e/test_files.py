"""Files of an execution: what it made, changed and deleted is listed; what `collect` asks for comes back. Bash, Python and node make them."""
import os

import pytest

from kit.call import request
from kit.machine import assert_grown_less, rss
from kit.stubs import pb

NAMES = {v: k.removeprefix("CHANGE_") for k, v in pb.Change.items()}
SKIPPED = {v: k.removeprefix("SKIPPED_") for k, v in pb.Skipped.items()}


def changes(result):
    return {f.path: NAMES[f.change] for f in result.files if f.change}


def skipped(result):
    return {f.path: SKIPPED[f.skipped] for f in result.files if f.skipped}


def contents(call):
    """path → bytes of what came in content messages, whose order and ends are checked."""
    parts, ended = {}, set()
    for event in call.events:
        if event.WhichOneof("event") == "content":
            c = event.content
            part = parts.setdefault(c.content_id, bytearray())
            assert c.content_id not in ended and c.offset == len(part), (c.content_id, c.offset)
            part += c.data
            if c.last:
                ended.add(c.content_id)
    assert ended == parts.keys()
    return {f.path: parts[f.content_id] for f in call.result.files if f.content_id}


def test_changes_are_listed(daemon):
    """New, changed and deleted files, with size and MIME type; what was left alone is not (SEED-09)."""
    call = daemon.run("echo new > new.txt; mkdir -p a/b; printf '{}' > a/b/c.json; echo more >> changed.csv; rm gone; cat same > /dev/null; touch -d 2001-01-01 back",
                      files={"changed.csv": b"1\n", "gone": b"x", "same": b"y", "back": b"z"})
    assert changes(call.result) == {"new.txt": "ADDED", "a/b/c.json": "ADDED", "changed.csv": "MODIFIED", "gone": "DELETED", "back": "MODIFIED"}, call.result.files
    about = {f.path: (f.size_bytes, f.mime_type) for f in call.result.files}
    assert about["new.txt"] == (4, "text/plain") and about["a/b/c.json"] == (2, "application/json") and about["changed.csv"] == (7, "text/csv")
    assert not call.result.files_truncated and not contents(call)


@pytest.mark.parametrize("change", ["printf b > f", "printf b > g; mv g f", "exec 3<>f; printf b >&3; touch -d @1000000000 f", "cp f g; mv g f", "truncate -s 0 f; printf a > f"])
def test_a_change_of_the_same_size_is_seen(daemon, change):
    """Whatever is done to times afterwards, and however soon after the start."""
    call = daemon.run(change, files={"f": b"a"})
    assert changes(call.result) == {"f": "MODIFIED"}, call.result.files


def test_collected_files_come_back(daemon):
    """FIL-09 and the like: names and bytes exactly, of every size; also of an input file that was asked for."""
    code = "mkdir out; printf '' > out/empty; head -c 70000 /dev/zero | tr '\\0' x > out/70k; echo ok > 'out/报告 é.txt'; echo no > other; echo deep > out/deep"
    call = daemon.run(code, collect=["out/", "in.txt"], files={"in.txt": b"input"})
    assert contents(call) == {"out/empty": b"", "out/70k": b"x" * 70000, "out/报告 é.txt": b"ok\n", "out/deep": b"deep\n", "in.txt": b"input"}, call.result.files
    assert changes(call.result).keys() == {"out/empty", "out/70k", "out/报告 é.txt", "out/deep", "other"}
    reply = daemon.stub.Execute(request(code, collect=["out/"]), timeout=30)
    by_id = {c.content_id: c.data for c in reply.contents}
    assert {f.path: by_id[f.content_id] for f in reply.result.files if f.content_id} == {
        "out/empty": b"", "out/70k": b"x" * 70000, "out/报告 é.txt": b"ok\n", "out/deep": b"deep\n"}


def test_the_code_is_not_among_the_callers_files(daemon):
    """Patterns mean files of the caller and the program; the code's own comes when it was changed."""
    assert contents(daemon.run("echo x > f", collect=["**"])) == {"f": b"x\n"}
    call = daemon.run("echo '#' >> main.sh", collect=["**"])
    assert changes(call.result) == {"main.sh": "MODIFIED"} and contents(call) == {"main.sh": b"echo '#' >> main.sh#\n"}, call.result.files


def test_odd_names(daemon):
    """FIL-08: newlines, dashes, blanks; a name that is no UTF-8 is escaped and marked; the audit has one line."""
    call = daemon.run("mkdir out; echo 1 >\"out/$(printf 'a\\nb')\"; echo 2 >'out/-rf'; echo 3 >'out/ x '; echo 4 >\"out/$(printf '\\377\\\\')\"", collect=["out"])
    assert contents(call) == {"out/a\nb": b"1\n", "out/-rf": b"2\n", "out/ x ": b"3\n", "out/\\xff\\\\": b"4\n"}, call.result.files
    assert [f.path for f in call.result.files if f.path_escaped] == ["out/\\xff\\\\"]
    end = daemon.audit_of(call.id)[-1]
    assert {c["path"] for c in end["changes"]} == changes(call.result).keys() and {c["change"] for c in end["changes"]} == {"ADDED"}


def test_a_name_that_looks_escaped_is_another(daemon):
    """One file's name is no UTF-8, the other's is what the first is escaped to: the result and the audit tell them apart."""
    call = daemon.run(r"""printf 1 > $'b\xff'; printf 22 > 'b\xff'""", "bash")
    want = {("b\\xff", True, 1), ("b\\xff", False, 2)}
    assert {(f.path, f.path_escaped, f.size_bytes) for f in call.result.files} == want, call.result.files
    told = daemon.audit_of(call.id)[-1]["changes"]
    assert {(f["path"], f.get("path_escaped", False), f["size"]) for f in told} == want, told


def test_nothing_is_followed_or_waited_for(daemon):
    """FIL-05, FIL-11, FIL-12, FIL-13, FIL-16: links, FIFOs, sockets, sparse giants, what may not be read: skipped with the reason, at once."""
    call = daemon.run("""
import os, socket
os.mkdir("out")
os.symlink("/etc/passwd", "out/link"); os.symlink("/", "out/root"); os.symlink("link", "out/loop")
os.mkfifo("out/fifo")
s = socket.socket(socket.AF_UNIX); s.bind("out/socket")
f = open("out/sparse", "wb"); f.truncate(200 << 20)
open("out/secret", "w").write("x"); os.chmod("out/secret", 0)
os.makedirs("out/closed/inner"); open("out/closed/inner/f", "w").close(); os.chmod("out/closed", 0)
open("out/real", "w").write("ok")
""", "python", collect=["out/**"])
    assert contents(call) == {"out/real": b"ok"}, call.result.files
    assert skipped(call.result) == {"out/link": "SYMLINK", "out/root": "SYMLINK", "out/loop": "SYMLINK", "out/fifo": "SPECIAL", "out/socket": "SPECIAL",
                                    "out/sparse": "TOO_LARGE", "out/secret": "UNREADABLE", "out/closed": "UNREADABLE"}, call.result.files


def test_a_leased_file_is_busy(daemon):
    """A process that holds a lease cannot hold the collection up."""
    call = daemon.run("""
import fcntl, os, signal, time
open("leased", "w").write("x")
if os.fork() == 0:
    fd = os.open("leased", os.O_RDWR)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    open("ready", "w").close()
    time.sleep(60)
while not os.path.exists("ready"): time.sleep(0.01)
""", "python", collect=["leased"])
    assert skipped(call.result) in ({"leased": "BUSY"}, {}) and call.result.outcome == pb.OUTCOME_COMPLETED, call.result
    assert contents(call) in ({}, {"leased": b"x"})


def test_very_many_files(daemon):
    """FIL-15: the list is capped and says so; the server's descriptors and memory stay."""
    before, fds = rss(daemon.server), len(os.listdir(f"/proc/{daemon.server}/fd"))
    call = daemon.run("import os\nos.mkdir('out')\nfor i in range(60000): open(f'out/{i}', 'w').close()", "python", collect=["out/"], workspace_inodes=65000)
    assert call.result.outcome == pb.OUTCOME_COMPLETED and call.result.files_truncated and 1000 <= len(call.result.files) <= 2000, call
    assert max(call.sizes) < 1 << 20
    assert_grown_less(daemon.server, before, 32 << 20)
    assert len(os.listdir(f"/proc/{daemon.server}/fd")) <= fds + 2


def test_content_has_a_cap(daemon):
    """Displays and files share content_bytes; what does not fit is skipped whole, what does comes."""
    call = daemon.run("head -c 600 /dev/zero > a; head -c 600 /dev/zero > b; head -c 400 /dev/zero > c", collect=["?"], content_bytes=1000)
    assert {k: len(v) for k, v in contents(call).items()} == {"a": 600, "c": 400} and skipped(call.result) == {"b": "TOO_LARGE"}, call.result.files


def test_ends_of_every_kind_list_their_files(daemon):
    """Not only success: an agent wants to see what a timeout left."""
    for code, outcome, fields in (("echo x > f; exit 3", pb.OUTCOME_FAILED, {}), ("echo x > f; kill -SEGV $$", pb.OUTCOME_SIGNALED, {}),
                                  ("echo x > f; sleep 60", pb.OUTCOME_TIMED_OUT, {"timeout": 0.5}), ("echo x > f; yes", pb.OUTCOME_OUTPUT_LIMIT_EXCEEDED, {"output_bytes": 1000})):
        call = daemon.run(code, collect=["f"], **fields)
        assert call.result.outcome == outcome and contents(call) == {"f": b"x\n"}, call


def test_a_slow_reader_gets_it_all(daemon):
    """Large contents go out as they are read, held back by their reader, and the server keeps a fixed amount."""
    before = rss(daemon.server)
    call = daemon.call("head -c 60000000 /dev/zero > big", collect=["big"], content_bytes=100 << 20, pause=0.002).wait(60)
    assert len(contents(call)["big"]) == 60_000_000
    assert_grown_less(daemon.server, before, 16 << 20)


def test_only_the_workspace_is_seen(daemon):
    """Home, /tmp and /dev/shm are not among the files; /workspace itself cannot be replaced: the link ends inside."""
    call = daemon.run("echo x > ~/f; echo x > /tmp/f; echo x > /dev/shm/f; cd /; mv workspace other; rm -rf workspace; ln -s /etc workspace; true", collect=["**"])
    assert changes(call.result) == {"etc": "ADDED", "main.sh": "DELETED"} and skipped(call.result) == {"etc": "SYMLINK"}, call.result.files
    assert not contents(call) and not call.result.files_truncated
