"""The programs in attack/ and work/: what their first comment says of them, how they are built, and how each runtime runs them.

The first comment of a program may hold
  CASES: ids           which reported faults it covers
  ATTEMPTS: N          at least so many attempts must be made (deny-* only; required)
  RUNTIMES: names      where it runs; default: the runtime of its language, and for C every one
  PROFILE: name        the profile it runs under
"""
import pathlib
import re
import subprocess

from kit.daemon import BUILD  # noqa: F401

HERE = pathlib.Path(__file__).resolve().parent.parent
RUNTIME_OF = {".py": "python", ".js": "javascript", ".sh": "bash"}
C_RUNTIMES = ("bash", "python", "javascript")
CFLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]
STATIC = ["-static", "-no-pie"]

# Starts ./program from each language, with the same arguments, and ends as it did.
STARTER = {
    "bash": 'exec ./program "$@"',
    "python": "import subprocess, sys\nsys.exit(subprocess.run(['./program', *sys.argv[1:]]).returncode)",
    "javascript": "const done = require('child_process').spawnSync('./program', process.argv.slice(2), { stdio: 'inherit' });\n"
                  "process.exit(done.status ?? 1);",
}


class Program:
    built = None  # folder of the compiled ones

    def __init__(self, path):
        self.path, self.name = path, path.name
        self.text = path.read_text()
        head = "\n".join(self.text.split("\n")[:14])
        self.cases = self._words(head, "CASES")
        self.attempts = int((self._words(head, "ATTEMPTS") or ["0"])[0])
        runtimes = self._words(head, "RUNTIMES")
        self.is_c = path.suffix == ".c"
        self.runtimes = runtimes or (list(C_RUNTIMES) if self.is_c else [RUNTIME_OF[path.suffix]])
        self.profile = (self._words(head, "PROFILE") or [""])[0]

    @staticmethod
    def _words(head, key):
        found = re.search(rf"{key}: (.*?)\s*(\*/)?\s*$", head, re.MULTILINE)
        return found.group(1).split() if found else []

    @property
    def binary(self):
        return (Program.built / self.path.stem).read_bytes()

    def request(self, runtime):
        """(code, files) that run it in this runtime."""
        if self.is_c:
            return STARTER[runtime], {"program": (self.binary, True)}
        shared = HERE / "attack" / f"attack{self.path.suffix}"
        return self.text, {shared.name: shared.read_bytes()}

    def run(self, daemon, runtime=None, args=(), **fields):
        runtime = runtime or self.runtimes[0]
        code, files = self.request(runtime)
        files = {**files, **fields.pop("files", {})}
        return daemon.run(code, runtime, files=files, args=[str(a) for a in args], profile=self.profile, **fields)


def all_in(folder, prefix):
    return [Program(p) for p in sorted((HERE / folder).glob(f"{prefix}-*")) if p.suffix in (".c", *RUNTIME_OF)]


def named(name):
    return Program(next(p for folder in ("attack", "work") for p in (HERE / folder).glob(name)))


def build(folder):
    for path in [*(HERE / "attack").glob("*.c"), *(HERE / "work").glob("*.c")]:
        subprocess.run(["gcc", *CFLAGS, *STATIC, "-o", str(folder / path.stem), str(path)], check=True)
    for path in (HERE / "library").glob("*.c"):
        subprocess.run(["gcc", *CFLAGS, "-shared", "-fPIC", "-o", str(folder / path.stem) + ".so", str(path)], check=True)
    Program.built = folder


class Tally:
    """What an attack printed."""

    def __init__(self, call):
        self.call = call
        self.lines = call.stdout.decode(errors="replace").splitlines()
        self.escaped = [line for line in self.lines if line.startswith("ESCAPED")]
        self.refused = [line for line in self.lines if line.startswith("refused")]
        counts = [int(line.split()[0]) for line in self.lines if re.fullmatch(r"\d+ attempts", line)]
        self.count = counts[-1] if counts else None

    def check_all_refused(self, attempts):
        """Every attempt was made and failed, and the program came to its end."""
        call = self.call
        assert not self.escaped, "\n".join(self.escaped)
        assert self.count is not None, f"the attack did not come to its end: {call!r}\n{call.stdout[-2000:]!r}\n{call.stderr[-2000:]!r}"
        assert call.outcome == "COMPLETED", call
        assert self.count == len(self.refused) >= attempts > 0, f"{len(self.refused)} of {attempts} attempts: {self.lines}"

    def check_some_escaped(self, name):
        """The attack of that name worked, as it must when the layer is off."""
        assert any(line.startswith(f"ESCAPED {name}") for line in self.escaped), f"{name} did not work: {self.lines} {self.call!r}"
