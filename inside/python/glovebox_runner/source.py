"""From the bytes of the user's file to code objects: Markdown fences, the last expression, top-level await, and whether code that does not compile
looks cut off."""
ONLY_AST, TOP_LEVEL_AWAIT, INCOMPLETE_INPUT = 0x400, 0x2000, 0x4000  # PyCF_…: their home, `ast`, takes milliseconds to import
COROUTINE = 0x80  # CO_COROUTINE
FUTURES = 0x1FE0000  # CO_FUTURE_…: `from __future__` holds for the last expression too
CUT_OFF = "The code may be cut off: generate it again, whole."


class Unit:
    """The code, ready to run. last: the last expression apart, when its value is asked for, else None."""

    def __init__(self, first, last):
        self.first, self.last = first, last

    def waits(self):
        return any(code is not None and code.co_flags & COROUTINE for code in (self.first, self.last))


class CutOff(SyntaxError):
    """A fence that is never closed."""


def _fence(line):
    """The fence that a line opens or closes, and the words after it."""
    line = line.strip()
    mark = line[:1]
    if mark not in (b"`", b"~"):
        return b"", b""
    rest = line.lstrip(mark)
    length = len(line) - len(rest)
    return (mark * length, rest.strip()) if length >= 3 and mark not in rest else (b"", b"")


def strip_fence(source, path):
    """The code within, when all of it is one closed Markdown fence; blank lines take the fences' places, so that numbers of lines stay."""
    text = source.lstrip(b"\xef\xbb\xbf \t\r\n\f")
    if text[:3] not in (b"```", b"~~~"):
        return source
    lines = source.split(b"\n")
    filled = [n for n, line in enumerate(lines) if line.strip(b"\xef\xbb\xbf \t\r\n\f")]
    opening, _ = _fence(lines[filled[0]].replace(b"\xef\xbb\xbf", b""))
    if not opening or (opening[:1] == b"~" and _compiles(source)):  # ~~~x is Python
        return source
    for n in filled[1:]:
        mark, words = _fence(lines[n])
        if mark[:1] == opening[:1] and len(mark) >= len(opening) and not words:
            if n != filled[-1]:
                return source  # more than one block, or words after it: no code that anybody could run
            lines[filled[0]] = lines[n] = b""
            return b"\n".join(lines)
    line = lines[filled[0]].decode("utf-8", "replace")
    raise CutOff(f"the Markdown fence {opening.decode()} is opened and never closed", (path, filled[0] + 1, 1, line + "\n"))


def again(source, flags):
    """Compiles once more to learn something, without the warnings that the first time has shown."""
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, "code", "exec", flags, True)


def _compiles(source):
    try:
        again(source, ONLY_AST)
        return True
    except Exception:
        return False


def parse(source, path):
    return compile(source, path, "exec", ONLY_AST, True)


def make(source, path, tree, want_last):
    """Compiles. tree: parse()'s, or None when nothing needs it."""
    flags = 0
    while True:
        try:
            return _make(source if tree is None else tree, path, flags, want_last)
        except SyntaxError as error:
            # Only then, because the flag changes what the code compiles to.
            if flags or " outside " not in str(error.msg) or not (b"await" in source or b"async" in source):
                raise
        flags = TOP_LEVEL_AWAIT
        tree = tree or parse(source, path)


def _make(code, path, flags, want_last):
    body = getattr(code, "body", None)
    if not (want_last and body):
        return Unit(compile(code, path, "exec", flags, True), None)
    import _ast  # 1.5 ms: not for those who need no tree
    if not isinstance(body[-1], _ast.Expr):
        return Unit(compile(code, path, "exec", flags, True), None)
    value = body[-1].value
    docstring = len(body) == 1 and isinstance(value, _ast.Constant) and isinstance(value.value, str)
    rest = _ast.Module(body=body if docstring else body[:-1], type_ignores=[])
    first = compile(rest, path, "exec", flags, True)
    return Unit(first, compile(_ast.Expression(body=value), path, "eval", flags | first.co_flags & FUTURES, True))


def looks_cut_off(source, error):
    """Whether the code stops in the middle of something, rather than being wrong. Python itself knows for brackets, blocks and decorators: it ran
    out of input. What it does not tell: a string, or an operator, at the very end."""
    if isinstance(error, CutOff):
        return True
    if not isinstance(error, SyntaxError):
        return False
    message = str(error.msg)
    try:
        again(source, INCOMPLETE_INPUT)
    except SyntaxError as second:
        if second.msg == "incomplete input":
            return True
    except ValueError:  # before Python 3.11
        if message.startswith(("unexpected EOF", "EOF while scanning triple")) or "was never closed" in message:
            return True
    except Exception:
        return False
    lines = source.decode("utf-8", "replace").rstrip().split("\n")
    if (error.lineno or 0) < len(lines):
        return False
    if message.startswith(("unterminated", "EOL while scanning")) or "was never closed" in message:
        return True
    if isinstance(error, IndentationError):
        at_end = error.lineno > len(lines) or (error.offset or 0) > len(lines[-1])
        return message.startswith("expected an indented block") and at_end
    return (error.offset or 0) > len(lines[-1].rstrip()) and message.startswith(("invalid syntax", "expected ", "Expected "))


def loads_name(source, name):
    """Whether the code reads a global of that name anywhere."""
    import _ast
    nodes = [again(source, ONLY_AST | TOP_LEVEL_AWAIT)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, _ast.Name) and node.id == name and isinstance(node.ctx, _ast.Load):
            return True
        for field in node._fields:
            child = getattr(node, field, None)
            if isinstance(child, list):
                nodes.extend(item for item in child if isinstance(item, _ast.AST))
            elif isinstance(child, _ast.AST):
                nodes.append(child)
    return False
