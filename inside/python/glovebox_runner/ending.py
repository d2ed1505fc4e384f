"""The end of an interpreter that was forked from a zygote. Taking apart what was preloaded would copy each of its pages, to free them at once: so all
that code can see of an end happens, in the interpreter's own order (Py_FinalizeEx), and then the process ends.

What the code sees: threads are waited for, atexit's functions run, and then its modules are taken apart, whose objects may have a __del__."""
import sys
from _thread import _count as count_threads
from _io import BufferedRandom, BufferedWriter, TextIOWrapper
from _signal import NSIG, SIG_DFL, SIG_IGN, getsignal, signal
from _weakref import ref

errors = part("errors")
pipe = part("pipe")
MODULE = type(sys)
NAMES = MODULE.__dict__["__dict__"]

_module = _loaded = _last = _gc = _atexit = None

STREAMS = ("stdin", "stdout", "stderr")
# By one of these the names of a module are known: each is that module's own.
MARKS = ("__spec__", "__loader__")

# The interpreter takes them away first.
SPECIAL = ("path", "argv", "ps1", "ps2", "last_exc", "last_type", "last_value", "last_traceback", "path_hooks", "path_importer_cache", "meta_path")


def prepare(module, gc, atexit):
    """module: the extension. What is loaded by now is not the code's."""
    global _module, _loaded, _last, _gc, _atexit
    _module, _loaded, _gc, _atexit = module, dict(sys.modules), gc, atexit
    _last = next(reversed(_loaded))


def rehearse():
    """What is done at every end, as far as it changes nothing."""
    is_usual()
    flush()
    own_modules()
    _gc.collect()
    write_out()


def finish(held):
    """Comes back, with what to end with, where the end is none of the usual ones, or the interpreter has more to do for it. It may be of a class of the
    code's, whose functions hold its names: so it goes first."""
    end = held.pop()
    if _module is None or not is_usual():
        return end
    flush()
    if end is not None:
        # The runner's frame holds it to the last, and it the frames of the code, and they all that is to go.
        for held in (errors.TRACEBACK, errors.CAUSE, errors.CONTEXT):
            held.__set__(end, None)
        if not errors.is_a(end, SystemExit):
            return end
    status = 0
    if end is not None:
        status = status_of(end.code)
        end.code, end.args = status, (status,)
    if "threading" in sys.modules:
        _module.attempt(lambda: sys.modules["threading"]._shutdown(), sys.modules["threading"])
    try:
        _atexit._run_exitfuncs()  # it tells errors itself
    except BaseException:
        pass  # before Python 3.10 it raises the last one once more
    # Threads that nobody waits for must not see what comes now; and a stream that cannot be written is told, and makes the status 120.
    if count_threads() or not flush():
        return end
    end = None
    try:
        drop_handlers()
        _gc.collect()
        take_apart(own_modules())
    except BaseException:
        pass  # a signal handler of the code's, or what it has done to sys.modules
    if not flush():
        status = 120
    told = _module.over()
    if told:
        pipe.send([pipe.record(pipe.OVER, bytes([status]))])
        told = pipe.is_open()
    _module.end(status, told)


def is_usual():
    """Whether the code has left what is used here."""
    names = vars(sys)
    modules = names.get("modules")
    return type(modules) is dict and "stdout" in names and "stderr" in names and errors.is_a(modules.get("threading", sys), MODULE)


def drop_handlers():
    """From here on a signal does what it does to any program. The interpreter does the same before it takes modules apart: a handler holds what it is
    made of, and would run in the midst of that."""
    for number in range(1, NSIG):
        handler = getsignal(number)
        if handler is not None and handler is not SIG_DFL and handler is not SIG_IGN:
            signal(number, SIG_DFL)


def status_of(code):
    """As the interpreter has it; what is no number is told."""
    if code is None:
        return 0
    if errors.is_a(code, int):
        code = int.__add__(code, 0)  # of a type of the code's it is a number all the same
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    try:
        sys.stdout.flush()
        sys.stderr.write(str(code))
        sys.stderr.write("\n")
    except BaseException:
        pass
    return 1


def flush():
    good = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException:
            good = False
    return good


def own_modules():
    """Names and modules, in the order of their import: the code's own, without libraries. They are the last in sys.modules; to look at the others would
    copy their pages."""
    found = []
    for name in reversed(sys.modules):
        module = sys.modules[name]
        if name == _last and module is _loaded[name]:
            break
        if name != "__main__" and _loaded.get(name) is not module and not is_librarys(module):
            found.append((name, module))
    found.append(("__main__", sys.modules.get("__main__")))
    return found[::-1]


def is_librarys(module):
    if not errors.is_a(module, MODULE):
        return False
    names = NAMES.__get__(module)
    file = names.get("__file__")
    # Without a file: built in, which has a spec, or made by the code.
    return errors.is_library(file) if type(file) is str else names.get("__spec__") is not None


def take_apart(modules):
    for name in SPECIAL:
        if name in vars(sys):
            vars(sys)[name] = None
    for name in STREAMS:
        vars(sys)[name] = vars(sys).get(f"__{name}__")
    left, others, tables = [], [], {}
    while modules:
        name, module = modules.pop(0)
        if errors.is_a(module, MODULE):
            left.append(ref(module))
            names = NAMES.__get__(module)
            tables[id(names)] = [names.get(mark) for mark in MARKS]
            names = None
            sys.modules[name] = None
        else:
            others.append(name)
        module = None
    for name in others:
        del sys.modules[name]
    _gc.collect()
    while left:
        module = left.pop()()
        if module is not None:
            clear(NAMES.__get__(module))
            module = None
    # A handler that a library holds keeps the names of its module, and they a file that is to be written. The interpreter comes to them when it has
    # taken apart itself, and nobody can print any more.
    streams = {name: vars(sys)[name] for name in STREAMS}
    vars(sys).update(dict.fromkeys(STREAMS))
    for names in found(dict):
        marks = tables.get(id(names))
        if marks and any(mark is not None and names.get(key) is mark for key, mark in zip(MARKS, marks)):
            clear(names)
    names = None
    _gc.collect()
    write_out()
    vars(sys).update(streams)


def found(kind):
    """All that the code has made of exactly this type: what was there before it is frozen, and not among these."""
    return [one for one in _gc.get_objects() if type(one) is kind]


def write_out():
    """Files that hang from what stays: text first, which is kept before bytes are."""
    for kind in (TextIOWrapper, BufferedWriter, BufferedRandom):
        for file in found(kind):
            try:
                if not file.closed:
                    file.flush()
            except BaseException:
                pass  # nothing would be said of it in a plain end, too



def clear(names):
    """First what is private to the module, as it may use the rest when it goes."""
    for private in (True, False):
        for name in list(names):
            if type(name) is str and (name[:1] == "_" and name[1:2] != "_") == private and name != "__builtins__" and names[name] is not None:
                names[name] = None
