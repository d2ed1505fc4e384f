"""Tracing and memory of other processes by ctypes, as an ordinary script would do it.
CASES: ESC-22 ESC-04 ESC-14 ESC-09
ATTEMPTS: 20
"""
import ctypes
import os

from attack import attempt, expect, finish

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    def work():
        result = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
        if result < 0:
            raise OSError(ctypes.get_errno(), name)
        return result
    attempt(name, work)


buffer = ctypes.create_string_buffer(b"i" * 64, 64)
address = ctypes.addressof(buffer)
for pid in sorted({1, os.getpid(), os.getppid(), *(int(p) for p in os.listdir("/proc") if p.isdigit())} - {0}):
    call(f"ptrace attach {pid}", 101, 16, pid, 0, 0)
    call(f"ptrace seize {pid}", 101, 0x4206, pid, 0, 0)
    call(f"process_vm_readv {pid}", 310, pid, address, 1, address, 1, 0)
    call(f"process_vm_writev {pid}", 311, pid, address, 1, address, 1, 0)
for number, name in ((323, "userfaultfd"), (321, "bpf"), (298, "perf_event_open"), (246, "kexec_load"), (175, "init_module"), (248, "add_key"),
                     (249, "request_key"), (250, "keyctl"), (304, "open_by_handle_at"), (438, "pidfd_getfd"), (425, "io_uring_setup"),
                     (426, "io_uring_enter"), (427, "io_uring_register"), (435, "clone3"), (272, "unshare"), (308, "setns")):
    call(name, number, 0, address, 64, 0, 0)
for request in (0x5412, 0x100005412, 0x541C, 0x5423):
    call(f"ioctl {request:#x}", 16, 0, request, address)
for path in ("/proc/1/exe", "/proc/self/exe", "/proc/1/mem", "/usr/bin/python3", os.path.realpath("/proc/self/exe")):
    attempt(f"writing {path}", lambda: os.open(path, os.O_WRONLY))

# A script whose interpreter is the process that runs it.
with open("/workspace/loop", "w") as file:
    file.write("#!/proc/self/exe\n")
os.chmod("/workspace/loop", 0o755)
attempt("writing what #!/proc/self/exe names", lambda: os.open(os.path.realpath("/proc/self/exe"), os.O_RDWR))
pid = os.fork()
if pid == 0:
    try:
        os.execv("/workspace/loop", ["/workspace/loop", "-c", "pass"])
    except OSError:
        os._exit(7)
os.waitpid(pid, 0)
finish()
