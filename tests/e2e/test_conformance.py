"""The tables of tests/conformance through the real daemon: what each piece of code comes to for a caller. Keys: see the head of each table."""
import pathlib
import tomllib

import pytest

from kit.stubs import pb

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "conformance"
CASES = [(table.stem, case) for table in sorted(FOLDER.glob("*.toml")) for case in tomllib.loads(table.read_text())["case"]]
CONTRACTS = {name.removeprefix("CONTRACT_"): number for name, number in pb.Contract.items()}
RUNTIMES = {"main.mjs": "javascript-module", "main.ts": "typescript"}
VALUE_ERRORS = {number: name.removeprefix("VALUE_ERROR_TYPE_") for name, number in pb.ValueErrorType.items()}
PLAIN = {"inputs": "inputs_json", "variables": "variables_json", "args": "args", "value_bytes": "value_bytes", "env": "env"}


def fields_of(case):
    fields = {field: case[key] for key, field in PLAIN.items() if key in case}
    if "contract" in case:
        fields["contract"] = CONTRACTS[case["contract"]]
    if "allowed" in case:
        fields["import_policy"] = pb.ImportPolicy(restrict=True, allowed=case["allowed"])
    fields["stdin"] = case.get("stdin", "").encode()
    fields["files"] = {name: text.encode() for name, text in case.get("files", {}).items()}
    return fields


def check_value(result, case):
    if "value" in case:
        assert result.WhichOneof("value") == "value_json" and result.value_json == case["value"], result
    elif "value_error" in case:
        want = case["value_error"]
        assert VALUE_ERRORS[result.value_error.type] == want["type"] and want.get("message", "") in result.value_error.message, result
        assert result.value_error.path == want.get("path", result.value_error.path), result
    else:
        assert result.WhichOneof("value") is None, result
    assert result.value_lossy == case.get("lossy", False), result


def check_error(error, case):
    want = case["error"]
    for key in ("type", "line", "column", "source_line", "traceback"):
        if key in want:
            assert getattr(error, key) == want[key], error
    assert want.get("message", "") in error.message, error
    if want.get("hint") == "":
        assert not error.hint, error
    assert want.get("hint", "") in error.hint, error
    assert "/glovebox/" not in error.traceback, error


def outcome_of(case):
    if case.get("invalid"):
        return pb.OUTCOME_INVALID_CODE
    code = case.get("exit_code", 0)
    return pb.OUTCOME_SIGNALED if code < 0 else pb.OUTCOME_FAILED if code else pb.OUTCOME_COMPLETED


@pytest.mark.parametrize("runtime, case", CASES, ids=[f"{runtime}-{case['name'].replace(' ', '_')}" for runtime, case in CASES])
def test_conformance(daemon, runtime, case):
    """One row."""
    call = daemon.run(case["code"], RUNTIMES.get(case.get("code_name"), runtime), **fields_of(case))
    result, stderr = call.result, call.stderr.decode()
    assert result.outcome == outcome_of(case), call
    if result.outcome == pb.OUTCOME_SIGNALED:
        assert result.signal == -case["exit_code"], call
    elif result.outcome != pb.OUTCOME_INVALID_CODE:
        assert result.exit_code == case.get("exit_code", 0), call
    assert call.stdout.decode() == case.get("stdout", ""), call
    at = 0
    for text in case.get("stderr", []):
        at = stderr.find(text, at)
        assert at >= 0, f"{text!r} is not in {stderr!r}"
    assert case.get("stderr") or case.get("error") or not stderr, stderr
    assert result.HasField("error") == ("error" in case), result
    if "error" in case:
        check_error(result.error, case)
    assert result.error.incomplete == case.get("incomplete", False), result
    assert case.get("note", "") in result.message, result
    check_value(result, case)
    assert [e.display.mime_type for e in call.events if e.WhichOneof("event") == "display"] == case.get("displays", [])
