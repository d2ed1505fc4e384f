"""--check-config of both programs, and SIGHUP: what is wrong is refused before it counts, by everyone who can see it, and never half taken over."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from kit import pki
from kit.call import request
from kit.daemon import BUILD
from kit.machine import seconds, wait_until




@pytest.fixture
def folder():
    """Of a configuration that root and the server's user may read, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory(prefix="glovebox-e2e-") as name:
        path = pathlib.Path(name)
        path.chmod(0o755)
        (path / "runtimes.d").mkdir()
        yield path


def check(folder, program, text, *arguments):
    (folder / "glovebox.conf").write_text(text)
    done = subprocess.run([BUILD / "bin" / program, "--check-config", "--config", folder / "glovebox.conf", *arguments], capture_output=True, text=True,
                          timeout=seconds(20))
    assert done.stdout == "" and done.stderr.count("\n") == (1 if done.returncode else 0), done
    return done.returncode, done.stderr


BOTH = ["gloveboxd", "glovebox-spawner"]
WRONG = [
    # the text, who can see that it is wrong, a part of what is said
    ("[spawner]\nwaive = seccmp\n", BOTH, ":2: 'waive': 'seccmp' cannot be waived; possible are "),
    ("[spawner]\nio-max = /dev/nope rbps=1\n", BOTH, "io-max: /dev/nope: No such file or directory"),
    ("[spawner]\nio-max = /dev/null rbps=1\n", BOTH, "io-max: /dev/null is no block device"),
    ("[caller uid:1]\nslice = acme\n[spawner]\ndriver = cgroupfs\n", BOTH, "'slice' of [caller uid:1] is for driver = systemd"),
    ("[spawner]\nseccomp-deny = nosuchcall\n", ["glovebox-spawner"], "nosuchcall"),
    ("[spawner]\nseccomp-policy = /nonexistent/policy\n", BOTH, "/nonexistent/policy"),
    ("[tls]\ncertificate = /nonexistent/a\nkey = /nonexistent/b\nclient-ca = /nonexistent/c\n", BOTH, "[tls] certificate: /nonexistent/a: No such file"),
    ("[server]\nlisten = 192.0.2.1:50051\n", ["gloveboxd"], "192.0.2.1:50051: TCP needs TLS: set certificate, key and client-ca in [tls]\n"),
    ("[server]\nlisten = 127.0.0.1:50051\n", ["gloveboxd"], "or plain-tcp = yes in [server]"),
    ("[server]\nlisten = localhost:50051\n", ["gloveboxd"], "or plain-tcp = yes in [server]"),
    ("[server]\nlisten = [2001:db8::1]:50051\nplain-tcp = yes\n", ["gloveboxd"], "plain-tcp is for loopback addresses only"),
    ("[caps]\nmax-processes = 4194305\n", BOTH, ":2: 'max-processes' must be at most 4194304, which is all that the kernel takes, not '4194305'"),
    ("[caps]\ncpus = 8192.5\n", BOTH, ":2: 'cpus' must be at most 8192 cores"),
    ("[server]\naudit-file = /nonexistent/audit\n", BOTH, "[server] audit-file: /nonexistent/audit: No such file"),
    ("[server]\naudit-file = /tmp\n", BOTH, "[server] audit-file: /tmp: Is a directory"),
    ("[server]\naudit-file = /etc/audit\n", ["gloveboxd"], "cannot open the audit file /etc/audit: Permission denied"),
]
RIGHT = [
    "",
    "[caps]\nmax-processes = 4194304\ncpus = 8192\n",
    "[spawner]\nwaive = seccomp memory\nseccomp-allow = ptrace\nseccomp-deny = mlock\n",
    "[server]\nlisten = 127.0.0.1:50051 localhost:50052 [::1]:50053\nplain-tcp = yes\n",
    "[tls]\ncertificate = a.pem\nkey = a.key\nclient-ca = ca.pem\n[server]\nlisten = 192.0.2.1:50051\n",  # credentials, which systemd passes
]


@pytest.mark.parametrize("text, who, words", WRONG)
def test_what_is_wrong_is_refused(folder, text, who, words):
    """Status 78 and one line from each program that can see it, 0 and no word from the other."""
    for program in BOTH:
        status, said = check(folder, program, text)
        assert status == (78 if program in who else 0) and (words in said if program in who else said == ""), (program, status, said)


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_is_not_refused(folder, text):
    for program in BOTH:
        assert check(folder, program, text) == (0, "")


def test_roots_are_looked_at(folder):
    """A root that is no folder is refused by both, one that others may write by the spawner."""
    runtime = "[runtime]\nexec = /bin/sh\ncode-name = a\nroot = {}\n"
    (folder / "runtimes.d/own.conf").write_text(runtime.format("/nonexistent/root"))
    for program in BOTH:
        status, said = check(folder, program, "")
        assert status == 78 and "own.conf: root /nonexistent/root cannot be opened: No such file" in said
    (folder / "root/usr").mkdir(parents=True)
    (folder / "runtimes.d/own.conf").write_text(runtime.format(folder / "root"))
    for program in BOTH:
        assert check(folder, program, "") == (0, "")
    (folder / "root/usr").chmod(0o777)
    status, said = check(folder, "glovebox-spawner", "")
    assert status == 78 and "writable by nobody else" in said


def test_certificates_are_loaded(folder):
    """Files that exist and are no certificates, or that the server's user may not read, are refused by the server."""
    authority = pki.Authority(folder, "right")
    certificate, key = authority.issue("server", "DNS:localhost")
    for name, source in (("server.pem", certificate), ("server.key", key), ("ca.pem", authority.certificate)):
        shutil.copy(source, folder / name)
        (folder / name).chmod(0o644)
    text = (f"[server]\nlisten = 192.0.2.1:50051\n[tls]\ncertificate = {folder}/server.pem\nkey = {folder}/server.key\n"
            f"client-ca = {folder}/ca.pem\n")
    assert check(folder, "gloveboxd", text) == (0, "")
    (folder / "server.key").chmod(0o600)
    status, said = check(folder, "gloveboxd", text)
    assert status == 78 and "[tls] key: " in said and "readable by the server's user" in said
    (folder / "server.key").chmod(0o644)
    (folder / "server.pem").write_text("broken")
    status, said = check(folder, "gloveboxd", text)
    assert status == 78 and "[tls] certificate: " in said


def test_other_users_may_check(folder):
    """Whoever is neither root nor the server is not told of what he alone may not open, nor of disks, and of mistakes as everyone."""
    key = folder / "server.key"
    key.write_text("")
    key.chmod(0o600)
    for text, wrong in ((f"[server]\naudit-file = /etc/audit\n[tls]\ncertificate = {key}\nkey = {key}\nclient-ca = {key}\n", False),
                        ("[spawner]\nio-max = /dev/nope rbps=1\n", False), ("[server]\nlisten = 127.0.0.1:1\n", True)):
        (folder / "glovebox.conf").write_text(text)
        done = subprocess.run([BUILD / "bin/gloveboxd", "--check-config", "--config", folder / "glovebox.conf"], user=12345, group=12345,
                              extra_groups=[], capture_output=True, text=True, timeout=seconds(20))
        assert done.returncode == (78 if wrong else 0), done


def test_the_two_checks_exclude_each_other(folder):
    done = subprocess.run([BUILD / "bin/glovebox-spawner", "--check", "--check-config"], capture_output=True, text=True, timeout=seconds(20))
    assert done.returncode == 64 and "two things" in done.stderr


def reload(daemon, *wanted):
    """All lines that come after SIGHUP, once each of the wanted words is in one of them."""
    before = len(daemon.err.lines)
    daemon.process.send_signal(signal.SIGHUP)

    def done():
        return all(any(word in line for line in daemon.err.lines[before:]) for word in wanted)
    assert wait_until(done, seconds(10), 0.05), "\n".join([*wanted, "--", *daemon.err.lines[before:]])
    return daemon.err.lines[before:]


@pytest.mark.limit(60)
def test_a_reload_names_every_key_that_waits(make_daemon):
    """Server and spawner name all changed keys that count after a restart, each time anew until there was one."""
    daemon = make_daemon()
    daemon.config["server"] |= {"max-message": "32M", "node": "other", "plain-tcp": "yes"}
    daemon.config.setdefault("spawner", {})
    daemon.config["spawner"] |= {"seccomp-deny": "mlock", "max-cells": 100, "uid-range": "2000000000:65536", "core-scheduling": "no", "waive": "io"}
    daemon.write_config()
    own = daemon.folder / "runtimes.d" / "own.conf"
    own.parent.mkdir()
    own.write_text("[runtime]\nexec = /bin/sh\ncode-name = a.sh\n")
    for _ in range(2):
        lines = reload(daemon, "when the server is started again: max-message, node, plain-tcp",
                       f"when the spawner is started again: max-cells, seccomp-deny, uid-range, waive, {own}", "Reloaded the configuration", "Caps were read again")
        assert not [line for line in lines if "stays as it was" in line]
    assert daemon.run("echo hi").stdout == b"hi\n"


@pytest.mark.limit(60)
@pytest.mark.parametrize("section, key, value, who", [
    ("spawner", "waive", "seccmp", BOTH),
    ("server", "max-waiting", "many", BOTH),
    ("tls", "certificate", "/nonexistent/a", BOTH),
    ("spawner", "seccomp-deny", "nosuchcall", ["glovebox-spawner"]),
    ("spawner", "io-max", "/dev/nope rbps=1M", ["glovebox-spawner"]),
    ("server", "audit-file", "/nonexistent/audit", BOTH),
    ("server", "audit-file", "/etc/audit", ["gloveboxd"]),
    ("server", "listen", "127.0.0.1:1", []),  # --listen stands for it
])
def test_a_refused_reload_changes_nothing(make_daemon, section, key, value, who):
    """Whoever refuses says so and keeps everything, and what both can see is refused by both: nobody takes a part."""
    daemon = make_daemon()
    daemon.config.setdefault(section, {})[key] = value
    if section == "tls":
        daemon.config["tls"] |= {"key": "/nonexistent/b", "client-ca": "/nonexistent/c"}
    if "gloveboxd" not in who or who == BOTH:  # the other would hold it to caps that it does not know
        daemon.config["caps"] = {"memory": "128M"}
    daemon.config["limits"] = {"memory": "64M"}
    daemon.write_config()
    refusals = {"gloveboxd": "all that the server has stays as it was", "glovebox-spawner": "all that the spawner has stays as it was"}
    successes = {"gloveboxd": "Reloaded the configuration", "glovebox-spawner": "Caps were read again"}
    lines = reload(daemon, *[(refusals if program in who else successes)[program] for program in BOTH])
    for program in BOTH:
        assert not any((successes if program in who else refusals)[program] in line for line in lines), lines
    accepted = daemon.call("true").until("accepted")
    assert accepted.limits.memory_bytes == (512 if "gloveboxd" in who else 64) << 20


@pytest.mark.limit(60)
def test_caps_count_from_a_reload_on(make_daemon):
    """Server and spawner go by the same caps once both have read them again: those of the config, which are every runtime's, and a runtime's own."""
    daemon = make_daemon()
    own = daemon.folder / "runtimes.d" / "own.conf"
    own.parent.mkdir()
    own.write_text("[runtime]\nexec = /bin/sh\nargs = {code}\ncode-name = a.sh\nversion-args = -c exit\n[caps]\nworkspace-bytes = 32M\n")
    daemon.config["caps"] = {"workspace-bytes": "64M"}
    daemon.write_config()
    daemon.stop()
    daemon.start()
    for cap, own_cap, allowed, refused in ((64, 32, {"bash": 64, "own": 32}, {"bash": 65, "own": 33}),
                                           (256, 128, {"bash": 256, "own": 128}, {"bash": 257, "own": 129}),
                                           (16, 8, {"bash": 16, "own": 8}, {"bash": 17, "own": 9})):
        daemon.config["caps"] = {"workspace-bytes": f"{cap}M"}
        own.write_text(own.read_text().rsplit("=", 1)[0] + f"= {own_cap}M\n")
        daemon.write_config()
        reload(daemon, "Reloaded the configuration", "Caps were read again")
        for runtime, size in allowed.items():
            run = daemon.run("echo hi", runtime, workspace_bytes=size << 20)
            assert run.outcome == "COMPLETED" and run.stdout == b"hi\n", (cap, runtime, run)
        for runtime, size in refused.items():
            assert daemon.refused(request("echo hi", runtime, workspace_bytes=size << 20)).fields.keys() == {"limits.workspace_bytes"}


@pytest.mark.limit(60)
def test_the_server_may_read_caps_first(make_daemon):
    """A runtime is not given up because the spawner still goes by lower caps when the server, after its reload, asks for the version with higher defaults."""
    daemon = make_daemon(config={"caps": {"workspace-bytes": "64M"}})
    daemon.config["caps"] = {"workspace-bytes": "256M"}
    daemon.write_config()
    before = len(daemon.err.lines)
    for pid, word in ((daemon.server, "Reloaded the configuration"), (daemon.spawner, "Caps were read again")):
        os.kill(pid, signal.SIGHUP)
        assert wait_until(lambda: any(word in line for line in daemon.err.lines[before:]), seconds(10), 0.05), daemon.err.lines[before:]
    assert daemon.run("echo hi").stdout == b"hi\n"
    assert wait_until(lambda: sum("Runtime bash: GNU" in line for line in daemon.err.lines[before:]), seconds(10), 0.05), daemon.err.lines[before:]
    assert not [line for line in daemon.err.lines[before:] if "cannot be used" in line]


@pytest.mark.parametrize("cells", [2, 3])
def test_a_reload_on_a_full_spawner_gives_no_runtime_up(make_daemon, cells):
    """As many executions as there are cells for, and as many waiting: asking runtimes for their versions meanwhile costs no execution its cell, and
    no runtime its name."""
    daemon = make_daemon(config={"server": {"max-executions": 16, "wait-deadline": "60s"}, "spawner": {"max-cells": cells}})
    held = [daemon.call("sleep 1") for _ in range(2 * cells)]
    held[0].until("started")
    os.kill(daemon.server, signal.SIGHUP)
    assert [call.wait().outcome for call in held] == ["COMPLETED"] * len(held), held
    assert [daemon.run(code, runtime).outcome for runtime, code in (("python", "print(1)"), ("javascript", "1"), ("bash", "true"))] == ["COMPLETED"] * 3
    assert "cannot be used" not in daemon.log


def test_each_start_and_each_reload_is_ready_once(make_daemon):
    """Although the cell of the last question to a runtime goes a moment later."""
    daemon = make_daemon()

    def ready(count):
        return wait_until(lambda: daemon.log.count("gloveboxd: Ready") == count and not cells_of(daemon), 20)

    def cells_of(daemon):
        return list(daemon.cgroup.folders("cell-"))
    assert ready(1), daemon.log
    os.kill(daemon.server, signal.SIGHUP)
    assert ready(2), daemon.log
    assert not wait_until(lambda: daemon.log.count("gloveboxd: Ready") > 2, 1), daemon.log
