"""Which files the checks look at."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("common", "server", "spawner", "inside", "standalone", "client")


def tracked(*patterns):
    """Files of the repository that match (git's pathspecs), or, where there is no git, of the folder."""
    try:
        out = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                              "--", *patterns], cwd=ROOT, capture_output=True, check=True, text=True).stdout
        names = [name for name in out.split("\0") if name]
    except (FileNotFoundError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for pattern in patterns for p in ROOT.rglob(pattern)
                 if not p.relative_to(ROOT).parts[0].startswith("build")]
    found = sorted({ROOT / name for name in names if (ROOT / name).is_file()})
    if not found:
        sys.exit(f"no file matches {patterns}: the check would check nothing")
    return found


def c_sources():
    return tracked("*.c", "*.h")


def name(path):
    return str(path.relative_to(ROOT))


def finish(faults):
    """Prints the faults; the exit status of the check."""
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)
