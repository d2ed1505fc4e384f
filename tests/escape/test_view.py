"""What a fresh cell shows, compared with lists that are kept here: whatever appears in addition must be put on them, by somebody who thinks."""
import json
import os
import pathlib
import re
import socket

import pytest

from range import canaries

VIEW = (pathlib.Path(__file__).parent / "attack" / "view.py").read_text()

ENVIRONMENT = {"PATH", "HOME", "USER", "LANG", "TMPDIR", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "OMP_NUM_THREADS",
               "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "UV_THREADPOOL_SIZE", "GOMAXPROCS", "RAYON_NUM_THREADS", "LC_CTYPE",
               "MPLBACKEND"}
TOP = {"bin", "dev", "etc", "glovebox", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "tmp", "usr", "var", "workspace"}
ETC = {"alternatives", "bash.bashrc", "debian_version", "ethertypes", "fonts", "fstab", "gai.conf", "group", "host.conf", "hostname", "hosts",
       "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic", "magic.mime", "matplotlibrc", "mime.types",
       "mtab", "networks", "nsswitch.conf", "os-release", "passwd", "perl", "protocols", "python3", "resolv.conf", "rpc", "services", "ssl",
       "timezone"}
# Beside these there are only folders, and what is in /glovebox.
FILES = {"/home/sandbox", "/var/tmp", "/workspace/main.py"}
DEVICES = {"/dev/null": [1, 3], "/dev/zero": [1, 5], "/dev/full": [1, 7], "/dev/random": [1, 8], "/dev/urandom": [1, 9]}
DEV = {*DEVICES, "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/shm"}
WRITABLE = {"/workspace", "/workspace/main.py", "/tmp", "/dev/shm", "/home/sandbox"}
WRITABLE_MOUNTS = {"/workspace", "/tmp", "/dev/shm", "/home/sandbox"}
SOURCES = {"ext4", "xfs", "btrfs", "overlay", "tmpfs", "devtmpfs", "proc", "fuse", "virtiofs", "erofs", "squashfs"}
# Of /proc, what is beside the processes: everything else must be covered.
PROC = {"cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "sysvipc", "uptime", "version", "vmstat", "mounts", "net", "self",
        "thread-self"}


@pytest.fixture
def view(daemon):
    call = daemon.run(VIEW, "python")
    assert call.outcome == "COMPLETED", call
    return json.loads(call.stdout)


def test_environment(view):
    """Only what the runtime's configuration and the limits name, and nothing of the daemon's environment."""
    assert set(view["environment"]) <= ENVIRONMENT, set(view["environment"]) - ENVIRONMENT
    assert not set(view["environment"].values()) & (set(os.environ.values()) - {"C.UTF-8", "1", "2", "4", "/tmp", "/usr/local/bin:/usr/bin:/bin"})


def test_files(view):
    """The tree outside /usr holds what is listed, with no set-uid bit, and only its own places can be written."""
    tree = view["tree"]
    assert {path.split("/")[1] for path in tree} <= TOP
    assert {path.split("/")[2] for path in tree if path.startswith("/etc/") and not path.startswith("/etc/java-")} <= ETC
    known = lambda path: path.count("/") == 1 or path.startswith(("/etc/", "/glovebox/", "/dev/")) or path in FILES  # noqa: E731
    assert not [path for path in tree if not known(path)], [path for path in tree if not known(path)]
    assert {path for path in tree if path.startswith("/dev/")} == DEV
    assert {path: e["device"] for path, e in tree.items() if e["device"]} == DEVICES
    assert {path for path, e in tree.items() if e["writable"] and not e["link"]} - set(DEVICES) == WRITABLE
    uid, gid, groups = view["ids"]
    for path, e in tree.items():
        assert e["uid"] == uid or not re.search("[sS]", e["mode"][1:]), f"set-uid: {path}"
        assert (e["uid"] == uid) == (path in WRITABLE), f"{path} belongs to {e['uid']}"


def test_mounts(view):
    """Every mount is known, its own or read-only, without set-uid files and devices; no path of the host shows but /usr and public parts of /etc."""
    places = set()
    shown = {fields[4]: fields for fields in view["mounts"]}  # of two at one place the later is seen; what is below must be read-only
    for fields in view["mounts"]:
        root, place, options, kind = fields[3], fields[4], set(fields[5].split(",")), fields[fields.index("-") + 1]
        places.add(place)
        assert "nosuid" in options, fields
        assert "nodev" in options or place in DEVICES, fields
        writable = fields is shown[place] and place in WRITABLE_MOUNTS
        assert ("rw" in options) == writable or place == "/proc", fields
        assert "master:" not in " ".join(fields) and "shared:" not in " ".join(fields), f"changes of the host's mounts would be seen: {fields}"
        assert kind in SOURCES, fields
        if kind not in ("tmpfs", "proc", "devtmpfs"):
            assert place in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ssl/certs", "/etc/fonts"), fields
            assert root.endswith(place), fields
    assert {"/", "/usr", "/proc", "/workspace", "/tmp", "/dev/shm", *DEVICES} <= places
    text = json.dumps(view["mounts"])
    assert not re.search(r"/(root|srv|opt|mnt|media|boot|lost\+found)\b|glovebox-(e2e|escape)|cgroup", text), text


def test_proc(view):
    """Beside the processes /proc shows what is listed; the rest is covered. Settings are read-only."""
    readable = {name for name, content in view["proc"].items() if content}
    assert readable <= PROC, readable - PROC
    assert view["pids"] == [str(p) for p in sorted(map(int, view["pids"]))] and 1 <= len(view["pids"]) <= 2
    assert not any(view["shares"].values()), view["shares"]
    assert view["cgroup"].strip().split("\n")[-1].endswith("::/") or "0::/\n" in view["cgroup"], view["cgroup"]
    # what it says of the machine is what the limits say
    assert int(re.search(r"MemTotal: +(\d+) kB", view["proc"]["meminfo"]).group(1)) <= 512 * 1024
    assert view["proc"]["cpuinfo"].count("processor\t") == 1
    host = int(pathlib.Path("/proc/uptime").read_text().split(".")[0])
    assert int(view["proc"]["uptime"].split(".")[0]) <= host + 5


def test_descriptors_and_sockets(view):
    """Three streams, the runner's value pipe (and the listing itself); no socket but the cell's own, no interface but loopback."""
    rest = {n: t for n, t in view["descriptors"].items() if int(n) > 2 and "/proc/" not in t and t != "/workspace/main.py"}
    assert len(rest) == 1 and all(t.startswith("pipe:") for t in rest.values()), rest
    assert all(re.match(r"pipe:|/dev/null$", view["descriptors"][n]) for n in "012")
    assert not any(view["sockets"].values()), view["sockets"]
    assert view["interfaces"] == ["lo"]


def test_identity(view):
    """No user, name, host or cgroup of the host."""
    uid, gid, groups = view["ids"]
    assert uid != 0 and gid != 0 and set(groups) <= {gid} and view["cwd"] == "/workspace"
    assert view["name"] == view["host"][1] == "glovebox"
    status = view["status"]
    assert {status[k].strip() for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2" and int(status["TracerPid"]) == 0
    assert int(status["NSpid"].split()[-1]) < 100 and len(status["NSpid"].split()) == 1


def test_no_word_of_the_host_anywhere(view, daemon, host):
    """All text outside /usr that can be read holds no secret, no folder, no number and no name of the host."""
    text = view["text"] + json.dumps(view["environment"]) + json.dumps(view["mounts"])
    assert canaries.SECRET not in text and canaries.NAME not in text
    for word in (str(daemon.folder), str(daemon.state), str(canaries.BUILD), str(daemon.cgroup.path.name), "/sys/fs/cgroup", "glovebox-standalone",
                 "glovebox.sock", pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()):
        assert word not in text, f"{word!r} is seen in a cell"
    for file in ("/etc/machine-id", "/proc/cmdline"):
        if os.path.exists(file) and len(pathlib.Path(file).read_text().strip()) > 8:
            assert pathlib.Path(file).read_text().strip() not in text, file
    if len(socket.gethostname()) > 3 and socket.gethostname() not in ("localhost", "glovebox"):
        assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text), "the host's name"
    accounts = [line.split(":")[0] for line in open("/etc/passwd") if int(line.split(":")[2]) >= 1000 and not line.startswith("nobody:")]
    seen = [name for name in accounts if re.search(rf"^{re.escape(name)}:", text, re.MULTILINE)]
    assert not seen, f"accounts of the host: {seen}"


def test_two_views_are_alike(daemon):
    """Nothing tells one execution from another but its own numbers: what is left over by one would show in the next."""
    strip = lambda v: {k: v[k] for k in ("environment", "descriptors", "sockets", "interfaces", "host", "cwd", "shares")}  # noqa: E731
    first = json.loads(daemon.run(VIEW, "python").stdout)
    daemon.run("touch /workspace/x /tmp/x /dev/shm/x ~/x; ipcmk -M 64; (sleep 60 &)")
    second = json.loads(daemon.run(VIEW, "python").stdout)
    pipes = lambda d: {n: re.sub(r"pipe:\[\d+\]|/proc/\d+/", "", t) for n, t in d.items()}  # noqa: E731
    first["descriptors"], second["descriptors"] = pipes(first["descriptors"]), pipes(second["descriptors"])
    assert strip(first) == strip(second)
    assert sorted(first["tree"]) == sorted(second["tree"])
