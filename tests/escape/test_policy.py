"""The list of system calls as it is written, and as it is found from inside: both must be the same."""
import errno
import re
import subprocess

import pytest

from kit.daemon import BUILD
from range import programs
from range.programs import Tally

POLICY = BUILD / "lib" / "glovebox" / "policy" / "default.policy"
LAST = 480  # a little beyond the last call of Linux 6.18
# Entries of the kernel's own trampolines; it handles them before any filter, and ends whoever calls them from elsewhere.
UNFILTERED = {335, 336}  # uretprobe, uprobe
# Newer than the headers of Debian 12.
NEWER = {"uretprobe": 335, "cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455, "futex_requeue": 456, "statmount": 457,
         "listmount": 458, "lsm_get_self_attr": 459, "lsm_set_self_attr": 460, "lsm_list_modules": 461, "mseal": 462}


def numbers():
    text = subprocess.run(["gcc", "-E", "-dM", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null"], capture_output=True, text=True, check=True).stdout
    return {**{name: int(n) for name, n in re.findall(r"#define __NR_(\w+) (\d+)", text)}, **NEWER}


def rules():
    """name → "allow", "ignore", or the errno of an unconditional denial."""
    found = {}
    for line in POLICY.read_text().splitlines():
        words = line.split("#")[0].split()
        if not words or (words[0] in ("deny", "ignore") and "if" in words):
            continue
        name = words[2] if words[0] == "deny" else words[1]
        answer = words[1] if words[0] == "deny" else words[0]
        found[name] = answer if found.get(name, "allow") == "allow" else found[name]
    return found


def sweep(daemon, wanted, runtime="bash"):
    code = programs.STARTER[runtime]
    call = daemon.run(code, runtime, files={"program": ((programs.Program.built / "sweep").read_bytes(), True)}, args=[str(n) for n in wanted])
    assert call.outcome == "COMPLETED", call
    return {int(n): int(e) for n, e in (line.split() for line in call.stdout.decode().splitlines())}


@pytest.mark.parametrize("runtime", programs.C_RUNTIMES)
def test_ESC_14_every_call_answers_as_it_is_written(daemon, runtime):
    """Calls denied by name fail with the errno that is written there; those that no line names, known or not, with ENOSYS."""
    policy, number = rules(), numbers()
    allowed = {number[name] for name, answer in policy.items() if answer == "allow" and name in number}
    expected = {n: errno.ENOSYS for n in range(LAST) if n not in allowed | UNFILTERED}
    expected.update({number[name]: 0 if answer == "ignore" else getattr(errno, answer)
                     for name, answer in policy.items() if answer != "allow"})
    assert len(expected) > 120 and len(allowed) > 200
    got = sweep(daemon, expected, runtime)
    wrong = {n: (got.get(n), expected[n]) for n in expected if got.get(n) != expected[n]}
    assert not wrong, f"number: (got, expected) {wrong}"


def test_a_refused_call_kills_nobody(daemon):
    """An errno, never a signal, so that programs can do without; and the daemon does not even notice."""
    got = sweep(daemon, [101, 165, 272, 246, 321, 425, 435, 999, 100000])
    assert all(value > 0 for value in got.values()), got


def test_operators_may_add_and_take_calls(make_daemon):
    """seccomp-allow and seccomp-deny change one call each, and the rest of the list stays."""
    daemon = make_daemon(config={"spawner": {"seccomp-allow": "ptrace", "seccomp-deny": "mknod mknodat"}})
    number = numbers()
    got = sweep(daemon, [number[n] for n in ("ptrace", "mknodat", "bpf", "unshare", "io_uring_setup")])
    assert got[number["ptrace"]] != errno.ENOSYS and got[number["mknodat"]] in (errno.EPERM, errno.ENOSYS)
    assert got[number["bpf"]] == got[number["unshare"]] == errno.EPERM and got[number["io_uring_setup"]] == errno.ENOSYS
    assert daemon.run("strace -V >/dev/null 2>&1; mkfifo /tmp/f").outcome == "FAILED"
    tally = Tally(programs.named("deny-kernel-calls.c").run(daemon))
    assert all("ptrace" in line for line in tally.escaped), tally.escaped


def test_a_program_that_asks_to_be_traced_is_not_taken_for_dead(make_daemon):
    """Where the operator allows ptrace, the spawner becomes the tracer of a program that asks for it: no stop of it passes for its end."""
    daemon = make_daemon(config={"spawner": {"seccomp-allow": "ptrace"}})
    code = "import ctypes, os, signal\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nprint('asked')\nos.kill(os.getpid(), signal.SIGUSR1)\nprint('never')"
    call = daemon.run(code, "python", timeout=1)
    assert call.outcome == "TIMED_OUT" and call.stdout == b"asked\n", call
    second = daemon.run("import ctypes, os\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nos._exit(7)", "python")
    assert second.outcome == "FAILED" and second.result.exit_code == 7, second
    third = daemon.call(code, "python", timeout=30)
    third.until_output(b"asked")
    daemon.cancel(third.id)
    assert third.wait().outcome == "CANCELLED"
