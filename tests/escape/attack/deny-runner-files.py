"""What the service itself put into the cell cannot be changed, and none of it can be run again with more rights.
CASES: ESC-04 FIL-04
ATTEMPTS: 20
"""
import os

from attack import attempt, expect, finish

places = ["/glovebox", "/etc", "/usr", "/bin", "/lib", "/", "/dev", "/proc", "/run", "/root", "/var", "/home"]
for place in places:
    attempt(f"a new file in {place}", lambda: open(f"{place}/new", "w"))
    attempt(f"a new folder in {place}", lambda: os.mkdir(f"{place}/new"))
for folder, _, names in os.walk("/glovebox"):
    for name in names:
        path = os.path.join(folder, name)
        attempt(f"writing {path}", lambda: open(path, "r+"))
        attempt(f"removing {path}", lambda: os.unlink(path))
        attempt(f"mode of {path}", lambda: os.chmod(path, 0o777))
        st = os.stat(path)
        expect(f"set-uid bits of {path}", not st.st_mode & 0o6000 and st.st_uid != os.getuid())
for path in ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/ld.so.cache"):
    attempt(f"writing {path}", lambda: open(path, "a"))
    attempt(f"replacing {path}", lambda: os.replace("/workspace/main.py", path))
attempt("preloading a library for all", lambda: open("/etc/ld.so.preload", "w"))
finish()
