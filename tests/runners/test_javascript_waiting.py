"""The JavaScript runner that waits for its job, without a cell: what it does in glovebox-start's place, and what it refuses."""
import errno
import os
import pathlib
import shutil
import stat
import struct
import subprocess

import pytest

import direct
from test_javascript import COMMAND

FAILED, FILE = 1, 2


class Waiting:
    """A runner in a folder of its own, as soon as it waits."""

    def __init__(self, folder, env=None):
        self.folder = folder
        self.process, self.pipes = direct.start([*COMMAND, f"--wait={folder}/main.js"], "/", env, waits=True)
        direct.await_ready(self.pipes)

    def finish(self, code="", **how):
        """Sends a job; how: see direct.body(). What was reported, as (type, bytes), and the outcome."""
        return self.finish_raw(direct.body(code.encode(), **how) + direct.job())

    def finish_raw(self, data):
        report, out = direct.finish(self.process, self.pipes, data)
        records = []
        while report:
            kind, size = struct.unpack_from("<II", report)
            records.append((kind, report[8:8 + size]))
            report = report[8 + size:]
        return records, out


@pytest.fixture
def waiting(tmp_path):
    made = []

    def make(**how):
        folder = tmp_path / f"w{len(made)}"
        folder.mkdir()
        made.append(Waiting(folder, **how))
        return made[-1]
    yield make
    for runner in made:
        runner.process.kill()
        runner.process.wait()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A copy of the runner as it is once installed."""
    folder = tmp_path_factory.mktemp("prepared") / "javascript"
    shutil.copytree(direct.ROOT / "inside/javascript", folder)
    subprocess.run([COMMAND[0], folder / "prepare.js"], check=True)
    return folder


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("broken", [False, True])
def test_what_is_prepared_is_all_that_is_needed(prepared, tmp_path, waits, broken):
    """Without the modules' own files; and with what another engine would have compiled."""
    folder = shutil.copytree(prepared, tmp_path / "javascript")
    for path in folder.glob("*.js"):
        if path.name not in ("runner.js", "prepared.js"):
            path.unlink()
    if broken:
        (folder / "prepared.cache").write_bytes(b"of another engine")
    command = [*COMMAND[:-2], str(folder / "runner.js")]
    out = direct.run("javascript", "console.log('here');\nfunction main(args) { return args.params.n }", inputs='{"n": 3}', waits=waits, command=command)
    assert (out.value, out.stdout, out.stderr) == (3, b"here\n", b"")
    out = direct.run("javascript", "const f = () => null.x;\nf()", waits=waits, command=command)
    assert out.error["line"] == 1
    out = direct.run("javascript", "1", contract="MAIN", waits=waits, command=command)
    assert out.error["traceback"].startswith("ReferenceError: main is not defined") and "\n" not in out.error["traceback"], "no frames of the runner"


def stamp_of(path):
    st = os.stat(path)
    return struct.pack("<QQQQ", st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def test_it_leaves_the_workspace_empty_until_there_is_a_job(waiting):
    runner = waiting()
    assert os.listdir(runner.folder) == []
    assert runner.finish("1")[1].value == 1


def test_files_are_as_they_were_sent_and_their_stamps_tell_how(waiting):
    runner = waiting()
    big = os.urandom(3 << 20)
    files = [("a", b""), ("in/a/folder/b.bin", big), ("run.sh", b"#!/bin/sh\necho from a file\n", True), ("in/c é", b"c")]
    records, out = runner.finish("require('child_process').execFileSync('./run.sh').toString()", files=files)
    assert out.value == "from a file\n", out.stderr
    assert [kind for kind, _ in records] == [FILE] * 5
    paths = [runner.folder / name for name in ("main.js", *(name for name, *_ in files))]
    assert [data for _, data in records] == [stamp_of(path) for path in paths]
    assert [path.read_bytes() for path in paths[1:]] == [content for _, content, *_ in files]
    assert [stat.S_IMODE(path.stat().st_mode) & 0o100 for path in paths] == [0, 0, 0, 0o100, 0]


def test_each_later_write_shows(waiting):
    """Also one right after, within the same tick of the clock, that leaves the size as it is."""
    for _ in range(5):
        records, out = waiting().finish("require('fs').writeFileSync('data', 'new'); require('fs').statSync('data').mtimeMs", files=[("data", b"old")])
        told = struct.unpack_from("<QQQQ", records[1][1])
        assert told[1] == 3 and out.value * 1e6 > told[2], "the time is not one that a write can leave"
        assert abs(told[3] - told[2]) < 50_000_000, "and near the truth"


def test_arguments_variables_zone_and_folder_are_those_of_the_job(waiting):
    runner = waiting(env={"KEPT": "1", "CHANGED": "old"})
    code = ("[process.argv.slice(2), process.env.KEPT, process.env.CHANGED, process.env.NEW, new Date(0).getHours(), process.cwd(),"
            " require('child_process').execSync('echo $CHANGED $NEW $TZ').toString()]")
    folder = f"{runner.folder}/sub"
    records, out = runner.finish(code, args=["a b", "", "--x"], env=[("CHANGED", "one"), ("CHANGED", "two"), ("NEW", "a=b")],
                                 timezone="Asia/Tokyo", working_dir=folder, files=[("sub/x", b"")])
    assert out.value == [["a b", "", "--x"], "1", "two", "a=b", 9, folder, "two a=b Asia/Tokyo\n"], out.stderr


def test_packages_below_a_home_of_the_jobs_own_are_found(waiting):
    runner = waiting()
    records, out = runner.finish("require('mine')", files=[("home/.node_modules/mine.js", b"module.exports = 5")], env=[("HOME", f"{runner.folder}/home")])
    assert out.value == 5, out.stderr


def test_a_job_of_thousands_of_arguments_and_a_thousand_files(waiting):
    args, files = [f"argument {i}" for i in range(10_000)], [(f"f{i % 10}/{i}", b"%d" % i) for i in range(1000)]
    code = "[process.argv.length, ...[0, 999].map(i => require('fs').readFileSync(`f${i % 10}/${i}`, 'utf8'))]"
    records, out = waiting().finish(code, args=args, files=files)
    assert out.value == [10_002, "0", "999"] and len(records) == 1001


def test_inputs_of_16_mib(waiting):
    runner = waiting()
    data = direct.body(b"function main(args) { return args.params.text.length }") + direct.job(inputs='{"text": "%s"}' % ("é" * (8 << 20)))
    assert runner.finish_raw(data)[1].value == 8 << 20


@pytest.mark.parametrize("how, error, step", [
    ({"timezone": "Mars/Olympus"}, errno.ENOENT, "timezone"),
    ({"timezone": "../../../etc/passwd"}, errno.ENOENT, "timezone"),
    ({"timezone": "zone.tab"}, errno.ENOENT, "timezone"),
    ({"working_dir": "/nowhere"}, errno.ENOENT, "working_dir"),
    ({"files": [("../x", b"")]}, errno.EINVAL, "files"),
    ({"files": [("/x", b"")]}, errno.EINVAL, "files"),
    ({"files": [("a//x", b"")]}, errno.EINVAL, "files"),
    ({"files": [("x/", b"")]}, errno.EINVAL, "files"),
    ({"files": [("x\0y", b"")]}, errno.EINVAL, "files"),
    ({"files": [("x" * 256, b"")]}, errno.EINVAL, "files"),
    ({"files": [("x", b""), ("x", b"")]}, errno.EEXIST, "files"),
    ({"files": [("x", b""), ("x/y", b"")]}, errno.ENOTDIR, "files"),
    ({"files": [("main.js", b"")]}, errno.EEXIST, "files"),
    ({"files": [(f"{i}", b"") for i in range(1001)]}, errno.E2BIG, "files"),
    ({"env": [("", "x")]}, errno.EINVAL, "job"),
    ({"args": ["x\0y"]}, errno.EBADMSG, "job"),
    ({"args": ["x"] * 16385}, errno.E2BIG, "job"),
    ({"merge": True}, errno.EOPNOTSUPP, "job"),
])
def test_what_cannot_be_is_reported_and_nothing_runs(waiting, how, error, step):
    records, out = waiting().finish("console.log('ran')", **how)
    assert records == [(FAILED, struct.pack("<I", error) + step.encode())]
    assert (out.exit_code, out.stdout, out.stderr, out.records) == (125, b"", b"", [])


def test_links_that_are_there_already_are_not_followed(waiting, tmp_path):
    runner = waiting()
    (runner.folder / "out").symlink_to(tmp_path)
    records, out = runner.finish("1", files=[("out/x", b"")])
    assert records == [(FAILED, struct.pack("<I", errno.ELOOP) + b"files")] and not pathlib.Path(tmp_path / "x").exists()


@pytest.mark.parametrize("data, error", [(b"", errno.ENODATA), (struct.pack("<II", 8, 100) + b"x", errno.ENODATA), (struct.pack("<II", 8, 2 << 20), errno.EBADMSG),
                                         (struct.pack("<II", 14, 0), errno.EBADMSG), (struct.pack("<II", 99, 0), errno.EBADMSG)])
def test_a_job_that_is_none_is_reported(waiting, data, error):
    records, out = waiting().finish_raw(data)
    assert [(kind, struct.unpack_from("<I", body)[0]) for kind, body in records] == [(FAILED, error)] and out.exit_code == 125
