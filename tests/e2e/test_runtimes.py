"""Several versions of a runtime side by side, each with a root of its own: from a caller's request to the files that the code sees."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from kit.call import CODES, request
from kit.daemon import BUILD, Daemon
from kit.stubs import SOURCE, pb

PROGRAMS = ("bash", "cat", "ls", "id")


def make_root(root, version):
    """A system of a shell and its libraries, as mmdebstrap would make a larger one."""
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "etc/ssl/certs", "opt"):
        (root / folder).mkdir(parents=True)
    for link, target in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
        (root / link).symlink_to(target)
    for program in PROGRAMS:
        real = shutil.which(program)
        shutil.copy(real, root / "usr/bin" / program)
        for library in re.findall(r"(/\S+)", subprocess.run(["ldd", real], capture_output=True, text=True, check=True).stdout):
            to = root / "usr" / re.sub("^/(usr/)?", "", library)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, to)
    (root / "usr/version").write_text(version + "\n")
    (root / "opt/tool").write_text("tool of " + version + "\n")
    (root / "etc/ssl/certs/ca-certificates.crt").write_text("certificates of " + version + "\n")
    (root / "etc/mime.types").symlink_to("/etc/shadow")


@pytest.fixture(scope="module")
def versions():
    d = Daemon()
    folder = d.folder / "runtimes.d"
    folder.mkdir()
    for version in ("3.11", "3.12"):
        root = d.folder / f"root-{version}"
        make_root(root, version)
        (folder / f"own-{version}.conf").write_text(f"[runtime]\nname = own\nversion = {version}\nexec = /bin/bash\ncode-name = main.sh\n"
                                                    f"env = PATH=/bin\nroot = {root}\n")
    d.start()
    yield d
    d.stop()


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_each_version_has_its_own_root(versions, version):
    """The name with a version runs in that version's root, and sees nothing of the host's or the other's."""
    run = versions.run("cat /usr/version /opt/tool /etc/ssl/certs/*; ls /usr; id -un; [ -e /etc/mime.types ] || echo no link out", f"own:{version}")
    assert run.stdout.decode().split("\n") == [version, f"tool of {version}", f"certificates of {version}", "bin", "lib", "lib64", "version",
                                               "sandbox", "no link out", ""], run


def test_a_runtime_has_limits_of_its_own(make_daemon):
    """[limits] and [caps] in a runtime's file: defaults and caps of this runtime alone, shown by GetInfo."""
    d = make_daemon(start=False)
    folder = d.folder / "runtimes.d"
    folder.mkdir()
    (folder / "short.conf").write_text("[runtime]\nexec = /bin/bash\ncode-name = main.sh\n[limits]\ntimeout = 400ms\n[caps]\ntimeout = 2s\n"
                                       "memory = 96M\nmax-processes = 8\n")
    d.start()
    assert d.run("sleep 60", "short").outcome == "TIMED_OUT"
    assert d.run("sleep 0.8", "short", timeout=2).outcome == "COMPLETED"
    refused = d.run("true", "short", timeout=3)
    assert refused.refused.fields == {"limits.timeout": "3 s is above the cap of 2 s of this server and runtime; ask for at most that"}
    assert d.run("true", timeout=3).outcome == "COMPLETED"
    short = next(r for r in d.info().runtimes if r.name == "short")
    assert short.available, short
    assert (short.defaults.timeout.ToMilliseconds(), short.caps.timeout.seconds, short.caps.memory_bytes) == (400, 2, 96 << 20)
    limits = d.run("true", "short").accepted.limits
    assert (limits.memory_bytes, limits.max_processes) == (96 << 20, 8), "the server's defaults are above this runtime's caps"


def test_the_name_alone_is_the_first(versions):
    """Without a version the first one runs; a version that is not there is refused by name."""
    assert versions.run("cat /usr/version", "own").stdout == b"3.11\n"
    refused = versions.refused(request("true", "own:2.7"))
    assert refused.code == CODES.INVALID_ARGUMENT and list(refused.fields) == ["runtime"], refused


def test_both_are_told(versions):
    """GetInfo tells of both versions, and of each that it is available."""
    told = [r for r in versions.info().runtimes if r.name.split(":")[0] == "own"]
    assert len(told) == 2 and all(r.available for r in told), told


def test_a_root_needs_no_certificates(daemon):
    """The host's runtimes have the host's certificates, whole: the bundle and what it is made of."""
    run = daemon.run("ls /etc/ssl/certs | wc -l; head -c 27 /etc/ssl/certs/ca-certificates.crt", "bash")
    count, begin = run.stdout.decode().split("\n", 1)
    assert int(count) == len(os.listdir("/etc/ssl/certs")) and begin == pathlib.Path("/etc/ssl/certs/ca-certificates.crt").read_text()[:27]


@pytest.fixture(scope="module")
def strict():
    """Runtimes with an operator's import policy and a read-only workspace."""
    d = Daemon()
    folder = d.folder / "runtimes.d"
    folder.mkdir()
    shipped = (BUILD / "lib/glovebox/runtimes.d/python.conf").read_text()
    (folder / "python.conf").write_text(shipped + "import-allowed = math json\nread-only-workspace = yes\n")
    (folder / "bash.conf").write_text((BUILD / "lib/glovebox/runtimes.d/bash.conf").read_text() + "read-only-workspace = yes\n")
    d.start()
    yield d
    d.stop()


def test_an_operators_import_policy(strict):
    """import-allowed acts where a request has no policy of its own; a request's takes its place."""
    assert strict.run("import math\nmath.pi", "python").result.value_json.startswith("3.14")
    call = strict.run("import os", "python")
    assert call.result.outcome == pb.OUTCOME_INVALID_CODE and call.result.error.type == "ImportError" and "math" in call.result.error.message, call
    assert strict.run("import os\nos.sep", "python", import_policy=pb.ImportPolicy(restrict=True, allowed=["os"])).result.value_json == '"/"'


@pytest.mark.parametrize("attempt", ["echo x > new", "echo x >> f", "rm f", "mv f g", "mkdir d", "ln f g", "ln -s / l", "mkfifo p", "truncate -s 0 f", ": > f", "cp /bin/true .",
                                     "mv f /tmp/", "echo x > /tmp/t; mv /tmp/t .", "exec 3<>f", "(cd /tmp; echo x > /workspace/f)"])
def test_a_read_only_workspace(strict, attempt):
    """Nothing of it can be changed, made or removed; reading and every other place work as ever."""
    call = strict.run(f"cat f; touch /tmp/t2 ~/x /dev/shm/y && echo elsewhere; {attempt}", files={"f": b"data\n"})
    assert call.stdout == b"data\nelsewhere\n" and call.result.outcome == pb.OUTCOME_FAILED and b"ermission denied" in call.stderr, call
    assert not call.result.files, call.result.files


def test_the_documented_runtime_gives_values(make_daemon):
    """docs/cells.md's example of a runtime with a root, here with the host's programs: values and errors come as from the shipped one."""
    text = (SOURCE / "docs/cells.md").read_text().split("runtimes.d/python-3.13.conf\n")[1].split("\n\n")[0]
    lines = [line.strip() for line in text.splitlines()]
    assert lines[-1].startswith("root = "), lines
    d = make_daemon(start=False)
    (d.folder / "runtimes.d").mkdir()
    (d.folder / "runtimes.d/python-3.13.conf").write_text("\n".join(lines[:-1]) + "\n")
    d.start()
    call = d.run("def main(args):\n    return args.params['n'] + 1", "python:3.13", inputs_json='{"n": 1}')
    assert call.result.value_json == "2", call
    call = d.run("1 / 0", "python:3.13")
    assert (call.result.error.type, call.result.error.line) == ("ZeroDivisionError", 1), call
