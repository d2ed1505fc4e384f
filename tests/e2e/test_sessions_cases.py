"""Cases of the session list that hold already without sessions: audit records, secrets in logs, working folders."""
import json

import pytest

from kit.call import CODES, request


FORGED = '"\n{"event":"delete","user":"admin"}\n'


def test_SES_21_forged_audit_lines(daemon):
    """Whatever a caller writes, a record is one JSON line with the trusted fields untouched, and of bounded length."""
    start = daemon.audit_size()
    code = f"printf '%s' '{FORGED}'; printf '%s' '{FORGED}' >&2; head -c 1000000 /dev/zero; exit 0\n# \" \\ {FORGED}"
    run = daemon.run(code, labels={"name": FORGED[:200], "q": '"', "b": "\\", "event": "delete", FORGED[:30]: "x"},
                     env={"A": FORGED}, files={"forged\n\"name\\": FORGED.encode()})
    assert run.outcome == "COMPLETED"
    first, last = daemon.audit_of(run.id, start)
    assert (first["event"], last["event"]) == ("start", "end") and first["labels"]["event"] == "delete"
    assert first["caller"] == "uid:0" and last["outcome"] == "COMPLETED"
    raw = daemon.audit_file.read_bytes()[start:]
    assert raw.count(b"\n") == len(daemon.audit(start)) == 2
    assert all(len(line) < 65536 for line in raw.split(b"\n"))
    assert all("user" not in json.loads(line) for line in raw.decode().splitlines())


def secrets_anywhere(daemon):
    """All the daemon has ever written: its log, the audit file, and what /proc shows of its programs."""
    places = {"log": daemon.log.encode(), "audit": daemon.audit_file.read_bytes()}
    for pid in (daemon.server, daemon.spawner, daemon.process.pid):
        for name in ("cmdline", "environ"):
            places[f"{pid}/{name}"] = open(f"/proc/{pid}/{name}", "rb").read()
    for file in daemon.folder.rglob("*"):
        if file.is_file():
            places[str(file)] = file.read_bytes()
    return places


def test_SES_22_no_secret_in_logs(daemon):
    """Values of env and code appear in no log and no audit record, whether the run ends well, badly, or is refused."""
    canaries = [f"canary{n}-{'x' * 8}" for n in (77, 78, 79, 80)]
    code = f'# Authorization: Bearer {canaries[1]}\n# http://u:{canaries[2]}@h/\nexit 3'
    env = {"AWS_SECRET_ACCESS_KEY": canaries[0]}
    daemon.run(code, env=env, args=[canaries[3]], stdin=canaries[3].encode())
    daemon.run(code + "\nsleep 9", env=env, timeout=0.2)
    daemon.refused(request(code, runtime="nothing", env=env))
    daemon.refused(request(code, env={**env, "B": "\0" + canaries[0]}))
    places = secrets_anywhere(daemon)
    for canary in canaries:
        found = [place for place, data in places.items() if canary.encode() in data]
        assert not found, f"{canary} is in {found}"


def test_audit_records_tell_the_execution(daemon):
    """start: who, what, with which limits; end: outcome, usage, size, hash, first and last bytes of each stream."""
    import hashlib
    run = daemon.run("echo out; echo err >&2; exit 3", request_id="audited", labels={"a": "b"}, timeout=7)
    first, last = daemon.audit_of(run.id)
    assert first["request_id"] == "audited" and first["caller"] == "uid:0" and first["runtime"] == "bash" and first["labels"] == {"a": "b"}
    assert first["code_sha256"] == run.result.code_sha256
    assert "echo" not in json.dumps(first), "the code itself is in the record though audit-code is hash"
    assert last["outcome"] == "FAILED" and last["exit_code"] == 3
    assert first["limits"]["timeout"] == 7 and last["usage"]["wall"] > 0
    for name, data in (("stdout", b"out\n"), ("stderr", b"err\n")):
        output = last["outputs"][name]
        assert output["size"] == 4 and output["sha256"] == hashlib.sha256(data).hexdigest()
        assert output["first_bytes"].startswith(data.decode().strip())


def test_audit_code_full(make_daemon):
    """With audit-code = full the code is in the record, and reads back exactly."""
    daemon = make_daemon(config={"server": {"audit-code": "full"}})
    code = f"echo 'ü \\ \"'\n# {FORGED}"
    run = daemon.run(code)
    assert daemon.audit_of(run.id)[0]["code"] == code


@pytest.mark.parametrize("folder, expected", [("sub", b"/workspace/sub\n"), ("", b"/workspace\n"), ("/tmp", b"/tmp\n"),
                                              ("/workspace/sub/deep", b"/workspace/sub/deep\n"), ("sub/", b"/workspace/sub\n")])
def test_SES_25_working_dir_acts(daemon, folder, expected):
    """The working folder of the request is where the code starts."""
    run = daemon.run("pwd", working_dir=folder, files={"sub/deep/f": b"", "file.txt": b""})
    assert run.stdout == expected, run


@pytest.mark.parametrize("folder", ["nope", "file.txt", "sub/f"])
def test_SES_25_working_dir_that_is_none(daemon, folder):
    """A folder that is missing or a file is a wrong request, naming the field."""
    refused = daemon.refused(request("pwd", working_dir=folder, files={"sub/f": b"", "file.txt": b""}))
    assert refused.code in (CODES.INVALID_ARGUMENT, CODES.NOT_FOUND) and "working_dir" in refused.message, refused
    assert refused.code == CODES.NOT_FOUND or list(refused.fields) == ["working_dir"]
