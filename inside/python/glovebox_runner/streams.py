"""Standard output and error that lose nothing. Unbuffered (-u) they write to the descriptor without a buffer between, and Python takes no notice when the
kernel has written but a part: when a pipe is full and a signal comes in the middle, or a child stops and goes on."""
import sys
from _io import FileIO, TextIOWrapper


class Slow(FileIO):
    """What glovebox_zygote has in C, for where that is not built: a debugger of the user's sees it."""

    def write(self, data):
        n = FileIO.write(self, data)
        if n is None or n == (len(data) if type(data) is bytes else memoryview(data).nbytes):
            return n
        view = memoryview(data).cast("B")
        while n < len(view):
            more = FileIO.write(self, view[n:])
            if more is None:  # it does not block, and is full: the caller's business, as ever
                break
            n += more
        return n


def whole_type():
    try:
        return part("native").extension().stream_type(FileIO)
    except ImportError:
        return Slow


Whole = whole_type()


def binary(fd, mode, name, old):
    """What is below a text stream: as it was, but whole. For reading, or with a buffer, Python's own does."""
    unbuffered = isinstance(old, FileIO)
    new = Whole(fd, mode, closefd=False) if unbuffered and mode == "w" else open(fd, mode + "b", 0 if unbuffered else -1, closefd=False)
    getattr(new, "raw", new).name = f"<{name}>"
    return new


def replace(fd, mode, name):
    old = getattr(sys, name)
    text = TextIOWrapper(binary(fd, mode, name, old.buffer), old.encoding, old.errors, "\n", old.line_buffering, old.write_through)
    text.mode = mode
    setattr(sys, name, text)
    setattr(sys, f"__{name}__", text)


def mend():
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is not None and type(stream.buffer) is FileIO:
            replace(fd, "w", name)
