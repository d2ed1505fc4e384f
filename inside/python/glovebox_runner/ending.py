"""The end of an interpreter that was forked from a zygote. Taking apart what was preloaded would copy each of its pages, to free them at once: so all
that code can see of an end happens, in the interpreter's own order, and then the process ends.

What the code sees: threads are waited for, atexit's functions run, and then its modules are taken apart, whose objects may have a __del__."""
import sys

errors = part("errors")

_module = _loaded = _gc = _atexit = None


def prepare(module, loaded, gc, atexit):
    """module: the extension; loaded: the modules that were there before the code."""
    global _module, _loaded, _gc, _atexit
    _module, _loaded, _gc, _atexit = module, loaded, gc, atexit


def finish(end):
    """What Py_FinalizeEx() does while all modules are there. Returns the exception to end with: what is left then is the code's own."""
    status = 0
    if _module is None or not (end is None or errors.is_a(end, SystemExit)):
        return end
    if end is not None:
        status = status_of(end.code)
        end = SystemExit(status)
    if "threading" in sys.modules:
        _module.attempt(lambda: sys.modules["threading"]._shutdown(), sys.modules["threading"])
    _module.attempt(_atexit._run_exitfuncs, _atexit)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not flush(stream):
            return end  # the interpreter tells, and ends with 120
    _gc.collect()
    for name, module in _loaded.items():
        if name not in ("sys", "builtins", "__main__") and sys.modules.get(name) is module:
            del sys.modules[name]
    # Of builtins the interpreter takes the last name last, when all of the code's own is gone.
    vars(sys.modules["builtins"])["end of the process"] = _module.end_with(status, _loaded)
    return end


def status_of(code):
    """As the interpreter has it; what is no number is told."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    try:
        sys.stdout.flush()
        sys.stderr.write(str(code))
        sys.stderr.write("\n")
    except BaseException:
        pass
    return 1


def flush(stream):
    try:
        if not getattr(stream, "closed", False):
            stream.flush()
        return True
    except BaseException:
        return False
