"""Tells an uncaught error: on stderr as the plain interpreter would, and on the value pipe in parts.

The text is the interpreter's own: its excepthook writes to a stand-in for sys.stderr that passes everything on and keeps a bounded copy. Before that,
the frames of the runner and of libraries are taken out of the traceback, also of causes and groups: the caller can mend only his own lines."""
import sys
from _thread import get_ident

pipe = part("pipe")
values = part("values")
ours = part("parts").is_ours

# Where libraries lie; taken before user code can change it.
LIBRARIES = (*{f"{prefix}/lib" for prefix in (sys.prefix, sys.base_prefix, "/usr", "/usr/local")}, "<frozen ")

TYPE_MAX, MESSAGE_MAX, TRACEBACK_MAX, SOURCE_LINE_MAX, HINT_MAX = 1024, 32 * 1024, 128 * 1024, 4 * 1024, 1024
RECURSION_MAX = 8 * 1024  # a thousand calls of each other say no more than forty
ERRORS_MAX = 1000         # of causes and members of groups

HOOK = sys.excepthook     # the interpreter's, or what the machine's own sitecustomize put there
PLAIN_HOOK = sys.__excepthook__
TRACEBACK = BaseException.__dict__["__traceback__"]
CAUSE, CONTEXT = BaseException.__dict__["__cause__"], BaseException.__dict__["__context__"]
GROUP = getattr(__builtins__.get("BaseExceptionGroup"), "exceptions", None)
SYNTAX = {name: SyntaxError.__dict__[name] for name in ("msg", "lineno", "offset", "text")}


def is_a(error, kind):
    """isinstance() that does not ask the error."""
    return kind in values.classes_of(type(error))


class Told:
    """An error in parts, each within its bound."""

    def __init__(self):
        self.type, self.message, self.traceback, self.source_line, self.hint = "", "", "", "", None
        self.line = self.column = 0
        self.truncated = False

    def records(self):
        """ERROR_… without the ERROR_END."""
        for kind, text, most in ((pipe.ERROR_TYPE, self.type, TYPE_MAX), (pipe.ERROR_MESSAGE, self.message, MESSAGE_MAX),
                                 (pipe.ERROR_TRACEBACK, self.traceback, TRACEBACK_MAX), (pipe.ERROR_SOURCE_LINE, self.source_line, SOURCE_LINE_MAX),
                                 (pipe.ERROR_HINT, self.hint, HINT_MAX)):
            if text is None:
                continue
            data = encoded(text)
            if len(data) > most:
                self.truncated = True
                data = cut_middle(data, most) if kind == pipe.ERROR_TRACEBACK else cut_end(data, most)
            yield pipe.record(kind, data)
        place = b"".join((n if 0 <= n < 1 << 32 else 0).to_bytes(4, "little") for n in (self.line, self.column))  # code can make frames of any line
        yield pipe.record(pipe.ERROR_POSITION, place + bytes([self.truncated]))


def encoded(text):
    """As bytes; halves of surrogate pairs as U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def cut_end(data, most):
    return data if len(data) <= most else data[:most - 3].decode("utf-8", "ignore").encode() + "…".encode()


def cut_middle(data, most):
    """Keeps more of the end, where the error is."""
    head, tail = most // 3, most - most // 3 - 64
    missing = len(data) - head - tail
    text = data[:head].decode("utf-8", "ignore") + f"\n… {missing} bytes left out …\n" + data[-tail:].decode("utf-8", "ignore")
    return text.encode()


class Tee:
    """Stands in for sys.stderr while a traceback is written; other threads write past it. path: the user's file, told without its folder."""

    def __init__(self, stream, path):
        self.stream, self.thread, self.head, self.tail, self.size = stream, get_ident(), [], "", 0
        self.before, self.after = f'File "{path}"', f'File "{path.rpartition("/")[2]}"'

    def write(self, text):
        if get_ident() != self.thread:
            return self.stream.write(text)
        text = text.replace(self.before, self.after) if len(text) < 16384 else text
        if self.size < TRACEBACK_MAX:
            self.head.append(text[:TRACEBACK_MAX])
            if len(text) > TRACEBACK_MAX:
                self.tail = text[TRACEBACK_MAX:][-TRACEBACK_MAX:]
        else:
            self.tail = (self.tail + text[-TRACEBACK_MAX:])[-TRACEBACK_MAX:]
        self.size += len(text)
        if self.stream is not None:
            try:
                self.stream.write(text)
            except BaseException:
                self.stream = None  # as plain: what cannot be told is not
        return len(text)

    def flush(self):
        if self.stream is not None:
            self.stream.flush()

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def text(self):
        """All of it, or its head and tail."""
        head = "".join(self.head)
        left_out = self.size - len(head) - len(self.tail)
        return head + self.tail if left_out <= 0 else f"{head}\n… {left_out} characters left out …\n{self.tail}"


def frames(error):
    found, tb = [], TRACEBACK.__get__(error)
    while tb is not None:
        found.append(tb)
        tb = tb.tb_next
    return found


def related(error):
    """The error, its causes and contexts, and the members of groups; each once."""
    todo, seen = [error], set()
    while todo and len(seen) < ERRORS_MAX:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        todo += [CAUSE.__get__(one), CONTEXT.__get__(one)]
        if GROUP and is_a(one, __builtins__["BaseExceptionGroup"]):
            todo.extend(GROUP.__get__(one))


def is_library(file):
    return file.startswith(LIBRARIES)


def clean(error, path):
    """Takes the frames of the runner and of libraries out: at the head all that comes before the user's file when the runner called it."""
    for one in related(error):
        chain = frames(one)
        users = next((n for n, tb in enumerate(chain) if tb.tb_frame.f_code.co_filename == path), len(chain))
        first = max((n + 1 for n, tb in enumerate(chain[:users]) if ours(tb.tb_frame.f_code)), default=0)
        kept = [tb for tb in chain[first:] if not ours(tb.tb_frame.f_code) and not is_library(tb.tb_frame.f_code.co_filename)]
        if len(kept) != len(chain):
            for tb, after in zip(kept, [*kept[1:], None]):
                if tb.tb_next is not after:  # setting it walks the whole chain
                    tb.tb_next = after
            TRACEBACK.__set__(one, kept[0] if kept else None)


def tell(error, path, source, told=None):
    """What there is to say of an error, but for the traceback."""
    told = told or Told()
    kind = type(error)
    told.type = values.name_of(kind)
    told.message = message_of(error)
    for tb in frames(error):
        if tb.tb_frame.f_code.co_filename == path:
            told.line, told.column = position(tb, source)
    told.source_line = source_line(source, told.line)
    try:
        told.hint = part("hints").hint(error)
    except BaseException:  # user code has taken apart what loading it needs
        told.hint = None
    return told


def tell_invalid(error, source):
    """The same of an error of the compiler, or of the import policy before the start."""
    told = Told()
    told.type, told.message = values.name_of(type(error)), message_of(error)
    if is_a(error, SyntaxError):
        line, offset = SYNTAX["lineno"].__get__(error), SYNTAX["offset"].__get__(error)
        told.line, told.column = max(line or 0, 0), max(offset or 0, 0)
    elif hasattr(error, "position"):
        told.line = error.position[0]
        told.column = characters(source_bytes(source, told.line), error.position[1]) + 1
    told.source_line = source_line(source, told.line)
    return told


def message_of(error):
    try:
        if is_a(error, SyntaxError) and type(SYNTAX["msg"].__get__(error)) is str:
            return SYNTAX["msg"].__get__(error)  # str() adds the place to it
        text = str(error)
        return text if len(text) <= 2 * MESSAGE_MAX else text[:2 * MESSAGE_MAX]
    except BaseException:
        return f"<{values.name_of(type(error))}: its text cannot be made>"


def source_bytes(source, line):
    if line < 1:
        return b""
    if b"\r" in source:  # ends a line, too
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    at = 0
    for _ in range(line - 1):
        at = source.find(b"\n", at) + 1
        if not at:
            return b""
    end = source.find(b"\n", at)
    return source[at:end if end >= 0 else len(source)]


def source_line(source, line):
    return source_bytes(source, line).decode("utf-8", "replace").rstrip("\r\n")


def characters(line, at):
    """A place in bytes as one in characters."""
    return len(line[:at].decode("utf-8", "replace"))


def position(tb, source):
    """Line and column of where a frame was, from 1. Columns are known since Python 3.11."""
    line, code = tb.tb_lineno or 0, tb.tb_frame.f_code
    if tb.tb_lasti < 0 or not hasattr(code, "co_positions"):
        return line, 0
    for n, (start, _, column, _) in enumerate(code.co_positions()):
        if n == tb.tb_lasti // 2:
            return line, characters(source_bytes(source, line), column) + 1 if start == line and column is not None else 0
    return line, 0


def print_and_keep(error, path, show=True):
    """Writes the traceback as the interpreter does; its text. show=False: only the text."""
    before = sys.stderr
    tee = Tee(before if show else None, path)
    try:
        sys.stderr = tee
        try:
            PLAIN_HOOK(type(error), error, TRACEBACK.__get__(error))
        except BaseException:
            pass
        if not tee.size:
            tee.write(by_hand(error))
    finally:
        sys.stderr = before
    return tee.text()


def by_hand(error):
    """When even the interpreter's way is broken: user code has replaced what it needs."""
    chain = frames(error)
    lines = ["Traceback (most recent call last):"] if chain else []
    for tb in chain[-40:]:
        lines.append(f'  File "{tb.tb_frame.f_code.co_filename}", line {tb.tb_lineno}, in {tb.tb_frame.f_code.co_name}')
    text = message_of(error)
    lines.append(values.name_of(type(error)) + (f": {text}" if text else ""))
    return "\n".join(lines) + "\n"


def text_of(error, told, path, show=True):
    """Prints the error, when show says so, and puts its text into told."""
    text = print_and_keep(error, path, show)
    if is_a(error, RecursionError) and len(text) > RECURSION_MAX:
        text = cut_middle(encoded(text), RECURSION_MAX).decode()
        told.truncated = True
    told.traceback = text


def hook_failed(error, failure, path):
    """The user's sys.excepthook raised: as plain, both are told."""
    clean(failure, path)
    for title, one in (("Error in sys.excepthook:\n", failure), ("\nOriginal exception was:\n", error)):
        try:
            sys.stderr.write(title)
        except BaseException:
            return
        print_and_keep(one, path)
