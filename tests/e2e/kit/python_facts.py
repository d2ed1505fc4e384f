"""A program that tells, as one line of JSON, what it can see of its interpreter and of its process. For test_warm_python.py: one that waited for its job
is to say the same as one that was started for it. Numbers that differ from cell to cell are told by how they are to each other."""
import sys


def double(x):
    return 2 * x


if __name__ == "__main__":  # multiprocessing imports it once more
    loaded = sorted(sys.modules)
    import builtins
    import ctypes
    import gc
    import json
    import locale
    import multiprocessing
    import os
    import re
    import resource
    import signal
    import socket
    import stat
    import subprocess
    import threading
    import time
    import warnings

    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    facts = {"modules": loaded}

    def read(path):
        try:
            with open(path) as file:
                return file.read()
        except OSError as error:
            return f"error {error.errno}"

    def can(action):
        try:
            action()
            return "yes"
        except OSError as error:
            return error.errno

    def depth(frame):
        return 1 + depth(frame.f_back) if frame else 0

    def without_address(value):
        return re.sub(" at 0x[0-9a-f]+", "", repr(value))

    def stream(name):
        one = getattr(sys, name)
        raw = getattr(one.buffer, "raw", one.buffer)
        return [one is getattr(sys, f"__{name}__"), one.name, one.mode, one.encoding, one.errors, one.newlines, one.line_buffering, one.write_through,
                one.isatty(), one.seekable(), type(one.buffer).__name__, one.buffer.name, one.buffer.seekable(), raw.mode, raw.name, raw.closefd,
                stat.S_IFMT(os.fstat(one.fileno()).st_mode), os.get_inheritable(one.fileno()), os.get_blocking(one.fileno())]

    # The interpreter.
    facts["flags"] = [str(sys.flags), sys._xoptions, sys.warnoptions, [str(f) for f in warnings.filters]]
    facts["places"] = [sys.path, sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, os.path.expanduser("~")]
    facts["words"] = [sys.argv, sys.orig_argv]
    facts["limits"] = [sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), sys.getdlopenflags(), threading.stack_size()]
    facts["text"] = [sys.getdefaultencoding(), sys.getfilesystemencoding(), locale.getpreferredencoding(), locale.setlocale(locale.LC_ALL)]
    facts["hooks"] = [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is sys.__unraisablehook__,
                      sys.gettrace(), sys.getprofile(), without_address(sys.path_hooks), without_address(sys.meta_path)]
    facts["names"] = [sorted(vars(sys)), sorted(vars(builtins))]
    main = sys.modules["__main__"]
    facts["main"] = [list(vars(main))[:9], {n: without_address(v) for n, v in vars(main).items() if n.startswith("__") and n != "__builtins__"}]
    facts["depth"] = depth(sys._getframe())
    facts["gc"] = [gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks]
    facts["thread"] = [threading.active_count(), threading.main_thread().name, threading.main_thread().ident == threading.get_ident(),
                       threading.main_thread().native_id == threading.get_native_id() == os.getpid()]
    facts["streams"] = [stream(name) for name in ("stdin", "stdout", "stderr")]
    facts["signals"] = [{s: without_address(signal.getsignal(s)) for s in sorted(signal.valid_signals())}, list(signal.pthread_sigmask(signal.SIG_BLOCK, []))]
    facts["environment"] = [list(os.environ.items()), [n for n in os.environ if os.fsdecode(libc.getenv(n.encode()) or b"") != os.environ[n]],
                            subprocess.run(["env"], capture_output=True, text=True).stdout]
    facts["clock"] = [time.tzname, time.localtime(0).tm_hour, time.process_time() < 30, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime < 30]

    # The process.
    status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines())
    numbers = ("Tgid", "Pid", "Uid", "Gid", "NStgid", "NSpid", "NSpgid", "NSsid")
    sizes = ("Vm", "Rss", "Hugetlb", "voluntary", "nonvoluntary")
    facts["status"] = {name: value for name, value in status.items() if name not in numbers and not name.startswith(sizes)}
    facts["ids"] = [len({*os.getresuid(), *os.getresgid()}), os.getgroups(), os.getsid(0) == os.getpgrp() == os.getpid(), os.getppid(),
                    read("/proc/self/uid_map") == read("/proc/1/uid_map"), read("/proc/self/setgroups")]
    facts["proc"] = [read("/proc/self/comm"), os.readlink("/proc/self/exe"), os.readlink("/proc/self/root"), os.getcwd(), read("/proc/self/cgroup"),
                     read("/proc/self/oom_score_adj"), read("/proc/self/limits")]
    facts["rlimits"] = {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")}
    facts["priority"] = [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, len(os.sched_getaffinity(0))]
    facts["umask"] = os.umask(0o22)
    facts["descriptors"] = [n for n in sorted(map(int, os.listdir("/proc/self/fd"))) if os.path.exists(f"/proc/self/fd/{n}")]
    PR_GET = {"DUMPABLE": 3, "KEEPCAPS": 7, "SECCOMP": 21, "SECUREBITS": 27, "TIMERSLACK": 30, "NO_NEW_PRIVS": 39}
    facts["prctl"] = {name: libc.prctl(number, 0, 0, 0, 0) for name, number in PR_GET.items()}
    facts["namespaces"] = [sorted(os.listdir("/proc/self/ns")), os.readlink("/proc/self/ns/pid") == os.readlink("/proc/self/ns/pid_for_children")]
    facts["mounts"] = [line.split()[3:6] for line in read("/proc/self/mountinfo").splitlines()]
    facts["folders"] = {path: sorted(os.listdir(path)) for path in ("/", "/tmp", "/dev/shm", "/workspace", "/home/sandbox")}
    facts["network"] = [line.split(":")[0].strip() for line in read("/proc/net/dev").splitlines()] + [socket.gethostname()]
    facts["can"] = [can(lambda path=path: open(path, "w").close()) for path in ("/usr/x", "/etc/x", "/glovebox/x", "/workspace/x", "/tmp/x", "/dev/shm/x",
                                                                                   "/home/sandbox/x", "/proc/self/comm", "/proc/self/oom_score_adj")]
    facts["may"] = [can(lambda: os.kill(1, 9)), can(lambda: os.setuid(0)), can(lambda: os.chroot("/")), libc.unshare(0x10000000), libc.unshare(0x20000),
                    can(lambda: os.setpriority(os.PRIO_PROCESS, 0, -1)), can(lambda: open("/proc/1/maps").close()), can(lambda: open("/proc/self/mem").close()),
                    can(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)), can(lambda: socket.create_server(("127.0.0.1", 0)).close())]

    # What it does.
    with open("/dev/stderr", "w") as file:
        file.write("through /dev/stderr\n")
    facts["stdin"] = open("/dev/stdin").read()
    facts["child"] = subprocess.run(["sh", "-c", "cat /proc/self/comm; ls /proc/self/fd; grep -E 'Cap|Sec|NoNew|Sig|Shd' /proc/self/status; ulimit -a; exec python3 -c "
                                     "'import sys; print(sys.flags, sys.path)'"], capture_output=True, text=True).stdout
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    facts["fork"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            facts[method] = pool.map(double, [1, 2, 3])
    seen = []
    thread = threading.Thread(target=lambda: seen.append(threading.active_count()))
    thread.start()
    thread.join()
    facts["threads"] = seen

    def deeper():
        return deeper()
    try:
        deeper()
    except RecursionError as error:
        facts["recursion"] = str(error)
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    except KeyboardInterrupt:
        facts["interrupt"] = True
    r, w = os.pipe()
    os.close(r)
    try:
        os.write(w, b"x")
    except BrokenPipeError:
        facts["pipe"] = True
    print(json.dumps({"facts": facts, "cmdline": read("/proc/self/cmdline").split("\0")[:-1]}))
