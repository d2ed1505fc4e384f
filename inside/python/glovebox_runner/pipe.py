"""The value pipe: records as in common/value.h, on a descriptor that neither user code nor its children come across by chance.

Nothing here raises into user code. A pipe that is gone, or a descriptor that user code closed or took for itself, ends the writing for good."""
from posix import close, dup2, fstat, getpid, write
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask, valid_signals
from _thread import RLock

STARTED, INVALID, JSON, END, ERROR = 1, 2, 3, 4, 5
ERROR_TYPE, ERROR_MESSAGE, ERROR_TRACEBACK, ERROR_SOURCE_LINE, ERROR_HINT, ERROR_POSITION, ERROR_END = 6, 7, 8, 9, 10, 11, 12
DISPLAY, DISPLAY_DATA, DISPLAY_END, NOTE, OVER = 13, 14, 15, 16, 17

PIECE_MAX = 64 * 1024
OUT_OF_SIGHT = 1000  # the usual limit is 1024 open files, and programs are given the lowest free number

_lock = RLock()
_pending = []
_fd = -1
_file = None
_owner = 0
_busy = False


def open(fd):
    """Takes over the descriptor."""
    global _fd, _file, _owner
    _owner = getpid()
    try:
        _file = fstat(fd)
        try:
            _fd = dup2(fd, OUT_OF_SIGHT, inheritable=False)
            close(fd)
        except OSError:  # fewer files are allowed
            from fcntl import F_DUPFD_CLOEXEC, fcntl
            _fd = fcntl(fd, F_DUPFD_CLOEXEC, 6)
            close(fd)
    except OSError:
        _fd = -1


def close_mine():
    """Gives the descriptor up."""
    global _fd
    if _fd >= 0:
        close(_fd)
    _fd = -1


def is_mine():
    """Not so in a child that user code forked and that comes back through the runner: its value is not the execution's."""
    return getpid() == _owner


def is_open():
    """Whether what was sent can arrive."""
    return _fd >= 0 and is_mine()


def record(kind, data=b""):
    return kind.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data


def pieces(kind, chunks):
    """Records of one kind for bytes that come in chunks of any size."""
    for chunk in chunks:
        for at in range(0, len(chunk), PIECE_MAX):
            yield record(kind, chunk[at:at + PIECE_MAX])


def send(records):
    """Writes records one after another, with nothing of another thread between them."""
    global _busy
    if _fd < 0 or getpid() != _owner:
        return
    with _lock:
        _pending.append(records)
        if _busy:  # a signal handler or a destructor of this thread, while it writes: after what is being written
            return
        _busy = True
        # A handler that raises in the middle would leave half a record.
        before = pthread_sigmask(SIG_BLOCK, valid_signals())
        try:
            while _pending:
                _write(_pending.pop(0))
        finally:
            _busy = False
            pthread_sigmask(SIG_SETMASK, before)


def _write(records):
    """Gathers small records and splits what is large: both few calls and no copy of the whole."""
    block = bytearray()
    for one in records:
        block += one
        if len(block) >= PIECE_MAX:
            _write_all(block)
            block = bytearray()
    _write_all(block)


def _write_all(block):
    global _fd
    at = 0
    try:
        while at < len(block):
            now = fstat(_fd)
            if (now.st_dev, now.st_ino) != (_file.st_dev, _file.st_ino):
                raise OSError("the descriptor is another file's")
            at += write(_fd, block[at:])
    except (OSError, ValueError):
        _fd = -1
