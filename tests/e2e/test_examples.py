"""examples/ do what README says of them, with the programs as a newcomer starts them."""
import subprocess
import sys

from kit.machine import seconds
from kit.png import assert_drawn
from kit.stubs import SOURCE


def test_report(client, tmp_path):
    """examples/report.py, a plain gRPC client: the value is printed, the picture and the report are in the folder that was named."""
    done = subprocess.run([sys.executable, "-B", str(SOURCE / "examples/report.py"), "back"], cwd=tmp_path, env=client.environment,
                          capture_output=True, text=True, timeout=seconds(90))
    assert done.returncode == 0 and not done.stderr, done
    assert done.stdout.splitlines() == ["printed: 2 regions", "outcome: OUTCOME_COMPLETED The program ended with exit status 0.", "value: {'north': 15.0, 'south': 20.0}",
                                        "picture: back/picture-1.png", "file: report.md CHANGE_ADDED 38 bytes"], done.stdout
    assert (tmp_path / "back/report.md").read_text() == "* north: 15.00 EUR\n* south: 20.00 EUR\n"
    assert_drawn((tmp_path / "back/picture-1.png").read_bytes())


def test_live(client):
    """examples/live.py, what `./dev demo` runs: it ends well and could not write to the system."""
    status, out, err = client("run", SOURCE / "examples/live.py")
    assert status == 0 and not err and out.startswith(b"Hello from Python") and out.endswith(b"writing to the system: Read-only file system\n"), (out, err)
