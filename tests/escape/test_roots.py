"""Programs that give rights to whoever runs them, in a runtime's own root: the set-uid bit, the set-gid bit and file capabilities give nothing.
(ESC-27, ESC-30; CVE-2022-0492 and all that begins with a set-uid helper.)"""
import os
import re
import shutil
import struct
import subprocess
import tempfile

import pytest

from range import programs

STRANGER = 47110816


def capabilities():
    """An attribute with as many of the first capabilities as this machine could give to anybody; with others the kernel would not run the file."""
    with open("/proc/self/status") as file:
        bounding = next(int(line.split()[1], 16) for line in file if line.startswith("CapBnd"))
    return struct.pack("<IIIII", 0x02000001, bounding & 0xFFFFFFFF, 0, 0, 0)  # revision 2, effective


@pytest.fixture
def root():
    """A root directory with a program in four forms; under /var/tmp, since /tmp is often mounted nosuid."""
    with tempfile.TemporaryDirectory(prefix="glovebox-escape-root-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        content = (programs.Program.built / "show-rights").read_bytes()
        os.makedirs(f"{folder}/usr/bin")
        for name, mode in (("plain", 0o755), ("setuid", 0o4755), ("setgid", 0o2755), ("capable", 0o755)):
            path = f"{folder}/usr/bin/{name}"
            with open(path, "wb") as file:
                file.write(content)
            os.chmod(path, mode)
        os.setxattr(f"{folder}/usr/bin/capable", "security.capability", capabilities())
        yield folder


def shown(text):
    """name → (same uid, same gid, root, root's group, effective, permitted)"""
    return {line.split()[0]: line.split()[1:] for line in text.decode().splitlines()}


def test_programs_that_give_rights_outside(root):
    """On the host they do give them: then what follows shows something."""
    got = shown(subprocess.run([f"{root}/usr/bin/plain", "all"], user=STRANGER, group=STRANGER, extra_groups=[], capture_output=True, check=True).stdout)
    assert got["plain"][:4] == ["1", "1", "0", "0"]
    assert got["setuid"][0] == "0" and got["setuid"][2] == "1", got
    assert got["setgid"][1] == "0" and got["setgid"][3] == "1", got
    assert int(got["capable"][4], 16) != 0, got


@pytest.mark.parametrize("waived", [[], ["no_new_privs", "seccomp", "landlock", "keyring", "no_capabilities"]], ids=["whole", "without_no_new_privs"])
@pytest.mark.parametrize("first", ["plain", "setuid", "setgid", "capable"])
def test_programs_that_give_rights_give_none(make_daemon, root, first, waived):
    """Neither as the interpreter itself nor started by it; the mounts alone would do, and so would no_new_privs alone."""
    from kit import machine
    daemon = make_daemon(start=False, waive=machine.missing_controllers() + waived)
    runtimes = daemon.folder / "runtimes.d"
    runtimes.mkdir()
    (runtimes / "own.conf").write_text(f"[runtime]\nroot = {root}\nexec = /usr/bin/{first}\nargs = all {{code}}\nversion-args = --version\ncode-name = main\n")
    daemon.start()
    call = daemon.run("x", "own")
    assert call.outcome == "COMPLETED", call
    got = shown(call.stdout)
    assert set(got) == {"plain", "setuid", "setgid", "capable"}, got
    for name, rights in got.items():
        assert rights == ["1", "1", "0", "0", "0" * 16, "0" * 16], (name, rights)


def test_several_versions_side_by_side(make_daemon, root):
    """Two roots, two versions: each cell sees its own and nothing of the other, nothing of the host's /usr."""
    with tempfile.TemporaryDirectory(prefix="glovebox-escape-root-", dir="/var/tmp") as second:
        os.chmod(second, 0o755)
        os.makedirs(f"{second}/usr/bin")
        os.makedirs(f"{root}/usr/share/one")
        for folder in (root, second):
            with open(f"{folder}/usr/bin/sh", "wb") as file:
                file.write((programs.Program.built / "list-root").read_bytes())
            os.chmod(f"{folder}/usr/bin/sh", 0o755)
        daemon = make_daemon(start=False)
        runtimes = daemon.folder / "runtimes.d"
        runtimes.mkdir()
        for version, folder in (("1", root), ("2", second)):
            (runtimes / f"own{version}.conf").write_text(f"[runtime]\nname = own\nversion = {version}\nroot = {folder}\nexec = /usr/bin/sh\ncode-name = main\n")
        daemon.start()
        one, two = daemon.run("x", "own:1"), daemon.run("x", "own:2")
        assert one.outcome == two.outcome == "COMPLETED", (one, two)
        assert b"/usr/share/one" in one.stdout and b"/usr/share/one" not in two.stdout
        assert b"/usr/bin/setuid" in one.stdout and two.stdout.count(b"/usr/") == 2, two.stdout
        assert daemon.run("echo host", "bash").stdout == b"host\n"


def test_what_others_may_not_read_is_not_in_cells(make_daemon, root):
    """/etc is copied by root, for everyone: what the owner of the root keeps from others stays out, file by file and folder by folder."""
    etc = f"{root}/etc/python3"
    os.makedirs(f"{etc}/private")
    os.makedirs(f"{etc}/public")
    for name, mode in (("secret", 0o600), ("group", 0o640), ("open", 0o644), ("private/key", 0o644), ("public/key", 0o600), ("public/open", 0o644)):
        with open(f"{etc}/{name}", "w") as file:
            file.write(name)
        os.chmod(f"{etc}/{name}", mode)
    os.chmod(f"{etc}/private", 0o700)
    os.makedirs(f"{root}/etc/perl")
    os.chmod(f"{root}/etc/perl", 0o750)
    with open(f"{root}/etc/services", "w") as file:
        file.write("services")
    os.chmod(f"{root}/etc/services", 0o600)
    for program in ("bash", "find"):
        copy_program(root, program)
    daemon = make_daemon(start=False)
    (daemon.folder / "runtimes.d").mkdir()
    (daemon.folder / "runtimes.d" / "own.conf").write_text(f"[runtime]\nroot = {root}\nexec = /usr/bin/bash\ncode-name = main\n")
    daemon.start()
    found = daemon.run("/usr/bin/find /etc/python3 /etc/perl /etc/services", "own")
    assert sorted(found.stdout.decode().split()) == ["/etc/python3", "/etc/python3/open", "/etc/python3/public", "/etc/python3/public/open"], found


def copy_program(root, name):
    """With the libraries that it needs."""
    real = shutil.which(name)
    shutil.copy(real, f"{root}/usr/bin/{name}")
    for library in re.findall(r"(/\S+)", subprocess.run(["ldd", real], capture_output=True, text=True, check=True).stdout):
        to = f"{root}/usr/{re.sub('^/(usr/)?', '', library)}"
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(library, to)
    for link in ("lib", "lib64"):
        if not os.path.lexists(f"{root}/{link}"):
            os.symlink(f"usr/{link}", f"{root}/{link}")


def test_a_root_that_is_none_stops_the_start(make_daemon, root):
    """A root without usr, a link, a missing one: the start fails and says which file names it."""
    os.makedirs(f"{root}/empty")
    os.symlink(root, f"{root}/link")
    for bad in (f"{root}/empty", f"{root}/missing", f"{root}/usr/bin/plain"):
        daemon = make_daemon(start=False)
        (daemon.folder / "runtimes.d").mkdir()
        (daemon.folder / "runtimes.d" / "bad.conf").write_text(f"[runtime]\nroot = {bad}\nexec = /usr/bin/x\ncode-name = main\n")
        with pytest.raises(AssertionError) as error:
            daemon.start(deadline=10)
        assert "bad.conf" in str(error.value) or bad in str(error.value), error.value
