"""The rest of what ordinary scripts use: sqlite, ssl, sockets, files of all kinds, locks, memory maps, time zones, archives, temporary files.
CASES: ESC-32 SES-13
"""
import ctypes
import decimal
import fcntl
import getpass
import hashlib
import http.server
import json
import mmap
import os
import pathlib
import pwd
import selectors
import shutil
import socket
import sqlite3
import ssl
import tarfile
import tempfile
import threading
import time
import urllib.request
import uuid
import zipfile
import zoneinfo

# who one is
name = getpass.getuser()
assert name and pwd.getpwuid(os.getuid()).pw_name == name
home = pathlib.Path.home()
assert home.is_dir() and str(home) == os.path.expanduser("~") == pwd.getpwuid(os.getuid()).pw_dir
(home / ".config").mkdir(parents=True, exist_ok=True)
(home / ".config" / "x").write_text("x")
assert tempfile.gettempdir() == "/tmp"
assert os.stat("/") and os.sched_getaffinity(0) and os.cpu_count() >= 1 and os.getloadavg()

# databases
for place in (":memory:", "/workspace/a.db", "/tmp/b.db"):
    database = sqlite3.connect(place)
    database.execute("pragma journal_mode=wal")
    database.execute("create table t(x)")
    database.executemany("insert into t values (?)", [(n,) for n in range(100)])
    database.commit()
    assert database.execute("select sum(x) from t").fetchone() == (4950,)
    database.close()

# files
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "ä b\nc")
    path.write_bytes(os.urandom(100000))
    os.link(path, path.with_suffix(".hard"))
    os.symlink(path, path.with_suffix(".soft"))
    shutil.copytree(folder, "/workspace/copy", symlinks=True)
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        with mmap.mmap(file.fileno(), 0) as memory:
            memory[0] = 1
        os.fsync(file.fileno())
        os.posix_fallocate(file.fileno(), 0, 200000)
    os.mkfifo(path.with_suffix(".fifo"))
    os.utime(path)
    os.chmod(path, 0o600)
with tarfile.open("/workspace/a.tar.gz", "w:gz") as archive:
    archive.add("/workspace/copy")
with zipfile.ZipFile("/workspace/a.zip", "w") as archive:
    archive.writestr("x", "y")
with os.fdopen(os.memfd_create("x"), "w") as file:
    file.write("x")

# network, with oneself
context = ssl.create_default_context()
assert len(context.get_ca_certs()) > 10, "no CA certificates"
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert urllib.request.urlopen(f"http://localhost:{server.server_port}/").status == 200
assert socket.gethostbyname("localhost") == "127.0.0.1" and socket.gethostname()
assert socket.getfqdn() and socket.getaddrinfo("localhost", "http")
a, b = socket.socketpair()
socket.send_fds(a, [b"x"], [0])
assert socket.recv_fds(b, 1, 1)[1]
six = socket.socket(socket.AF_INET6)
six.bind(("::1", 0))
selector = selectors.DefaultSelector()
selector.register(six, selectors.EVENT_READ)
selector.select(0.001)

# the rest
assert zoneinfo.ZoneInfo("Asia/Shanghai") and time.tzname
assert uuid.uuid4() and hashlib.scrypt(b"x", salt=b"y", n=2, r=1, p=1) and decimal.Decimal(1)
libc = ctypes.CDLL(None)
assert libc.getpid() == os.getpid()
callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 3)
assert callback() == 3
assert json.loads("{}") == {}
os.nice(1)
os.sched_yield()
os.getrandom(8)
print("works")
