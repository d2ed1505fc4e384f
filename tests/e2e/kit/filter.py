"""System calls that fail in a child process, as on a kernel that lacks them: a seccomp filter set between fork and exec."""
import ctypes
import errno
import struct

# x86-64 and aarch64
CALLS = {
    "clone3": (435, 435),
    "landlock_create_ruleset": (444, 444),
    "seccomp": (317, 277),
    "setns": (308, 268),
}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def _program(number, error):
    import platform
    arch = _AUDIT_ARCH[platform.machine()]
    steps = [(_LOAD, 0, 0, 4), (_JUMP_EQUAL, 0, 3, arch), (_LOAD, 0, 0, 0), (_JUMP_EQUAL, 0, 1, number),
             (_RETURN, 0, 0, _ERRNO | error), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *s) for s in steps), len(steps)


def fail_call(name, error=errno.ENOSYS):
    """A function for preexec_fn. As root, so that no_new_privs stays as it is."""
    import platform
    number = CALLS[name][0 if platform.machine() == "x86_64" else 1]
    code, count = _program(number, error)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", count, ctypes.addressof(buffer)))

    def install(buffer=buffer):  # which the program points to
        if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")
    return install
